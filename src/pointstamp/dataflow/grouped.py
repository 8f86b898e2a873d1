"""Groups of rows: what ``group_by`` makes, and ``agg`` and ``count`` make rows of again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pointstamp.errors import FlowError
from pointstamp.reduce.aggregate import Aggregate, Aggregation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowGroups(Generic[T]):
    """The rows of each key; made by ``stream.group_by`` and ``table.group_by``."""

    _aggregated: Callable[[dict[str, Aggregation], str], T]

    def agg(self, aggregates: Mapping[str, Aggregation] | None = None, /, **named: Aggregation) -> T:
        """Aggregate each group into one row.

        Args:
            aggregates: Aggregates by the names of their columns.
            **named: The same as keywords; a column may have any name.

        Returns:
            The key columns and the aggregates, in the order in which they were given.

        Examples:
            >>> flow = ps.Dataflow("agg")
            >>> sales = flow.table("sales", "city string, price long")
            >>> flow.output("out", sales.group_by("city").agg(total=ps.sum("price"), n=ps.count()))
            >>> flow.run(sales=[[{"city": "Rome", "price": 5}]]).table("out").to_pylist()
            [{'city': 'Rome', 'total': 5, 'n': 1}]

        """
        return self._aggregated(given_aggregates(aggregates, named), "agg")

    def count(self) -> T:
        """Count the rows of each group; the column is ``count``.

        Examples:
            >>> flow = ps.Dataflow("count")
            >>> flow.output("out", flow.table("sales", "city string, price long").group_by("city").count())
            >>> flow.run(sales=[[{"city": "Rome", "price": 5}]]).table("out").to_pylist()
            [{'city': 'Rome', 'count': 1}]

        """
        return self._aggregated({"count": Aggregate("count")}, "count")

    if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(f"'RowGroups' object has no attribute '{name}'", name=name, obj=self)
            said = f"group_by(...) has no '{name}'; it has agg and count: agg(total=ps.sum('amount'))."
            raise AttributeError(said, name=name, obj=self)


def given_aggregates(
    aggregates: Mapping[str, Aggregation] | None, named: Mapping[str, Aggregation]
) -> dict[str, Aggregation]:
    """Return all aggregates by name; FlowError where one is given twice."""
    given: object = {} if aggregates is None else aggregates
    if not isinstance(given, Mapping):
        raise FlowError(
            f"agg() takes aggregates by name, got {aggregates!r} of type {type(aggregates).__name__}. Write "
            "agg(total=ps.sum('amount'))."
        )
    if twice := [name for name in given if name in named]:
        raise FlowError(f"agg() got the aggregate '{twice[0]}' twice. Remove one of them.")
    return {**given, **named}
