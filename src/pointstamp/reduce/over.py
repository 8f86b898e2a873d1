"""Window expressions: a function of the rows around a row, ``ps.row_number().over(order_by="at")``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pointstamp.errors import FlowError


@dataclass(frozen=True, slots=True, eq=False)
class WindowExpression:
    """A function over the rows of a partition, in an order; for ``with_columns`` and ``select``."""

    function: Any
    partition_by: tuple[str, ...]
    order_by: tuple[str, ...]
    rows: int | None = None

    def __str__(self) -> str:
        return f"{self.function} over ({', '.join(self.partition_by)} order by {', '.join(self.order_by)})"


class Windowed:
    """The base of aggregates and window functions, which have ``over``."""

    __slots__ = ()

    def over(
        self,
        *,
        partition_by: str | Iterable[str] = (),
        order_by: str | Iterable[str] = (),
        rows: int | None = None,
    ) -> WindowExpression:
        """Apply the function to the rows of a partition, in an order.

        Args:
            partition_by (str | Iterable[str], default ()): The columns whose equal values make a partition.
                Default: all rows.
            order_by (str | Iterable[str], default ()): The order of the rows, as in ``top``. Ties are broken
                by all columns.
            rows (int, default None): The number of rows up to and including this one. Default: all.

        Examples:
            >>> print(F.sum("price").over(partition_by="shop", order_by="at"))
            sum(price) over (shop order by at)

        """
        if rows is not None and rows < 1:
            raise FlowError(f"{self}: over(rows={rows}) must have at least 1 row. Give a greater number.")
        return WindowExpression(self, _names(self, partition_by), _names(self, order_by), rows)


def _names(who: object, given: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever a user gave
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else None
    if names is None or not all(isinstance(each, str) for each in names):
        raise FlowError(f"{who}: over() takes names of columns, got {given}. Make a column of it first.")
    return names
