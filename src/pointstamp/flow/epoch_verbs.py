"""The verbs of a stream that look at all rows of an epoch together, as a table looks at all that there are.

What they send of an epoch depends on the rows of that epoch alone; in a loop the same is true of each round.
They are built from the operations on tables, which are known above this layer.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Expression
from pointstamp.flow.join_kind import How
from pointstamp.flow.outlet import Outlet, wiring

if TYPE_CHECKING:
    from pointstamp.flow.stream import Stream
    from pointstamp.tables.in_order import OrderFunction
    from pointstamp.tables.table import Table


class EpochVerbs(Outlet):
    """A stream, with what can be asked of the rows of an epoch."""

    def distinct(self, *keys: str, by: str | Iterable[str] = (), name: str = "distinct") -> "Stream":
        """Every row of an epoch once; with keys one row for each key, the first in an order."""
        return self._within(name, lambda rows: rows.distinct(*keys, by=by, name=name))

    def top(
        self,
        count: int,
        *keys: str,
        by: str | Iterable[str],
        ties: bool = False,
        rank: str | None = None,
        name: str = "top",
    ) -> "Stream":
        """The first rows of each key in an epoch, or of the whole epoch."""
        return self._within(name, lambda rows: rows.top(count, *keys, by=by, ties=ties, rank=rank, name=name))

    def join(
        self,
        other: "Stream",
        on: str | Mapping[str, str] | Iterable[str] = (),
        *,
        how: How = "inner",
        where: Expression | None = None,
        suffix: str = "_right",
        name: str = "join",
    ) -> "Stream":
        """The pairs of rows of both streams in one epoch that have equal keys; a null equals nothing."""
        if not isinstance(other, EpochVerbs):
            raise FlowError(
                f"'{name}' of {self} needs a stream, but was given {type(other).__name__}. To ask a table "
                "there is lookup(table, 'key'), and running().join(table, 'key') joins all epochs so far."
            )
        return self._within(
            name,
            lambda mine, theirs: mine.join(theirs, on, how=how, where=where, suffix=suffix, name=name),
            other,
            in_parts=how not in ("inner", "cross", "semi"),
        )

    def with_order(
        self,
        *keys: str,
        by: str | Iterable[str],
        functions: "Mapping[str, OrderFunction] | None" = None,
        name: "str | OrderFunction" = "with order",
        **named: "OrderFunction",
    ) -> "Stream":
        """All columns, and what the place of a row among those of its key in its epoch says of it."""
        operator = name if isinstance(name, str) else "with order"
        return self._within(
            operator, lambda rows: rows.with_order(*keys, by=by, functions=functions, name=name, **named)
        )

    def _within(
        self, name: str, body: "Callable[..., Table]", *others: Outlet, in_parts: bool = False
    ) -> "Stream":
        """What a body makes of the tables that each epoch is by itself, as a stream."""
        return wiring(self).builder.within_times(name, (self, *others), body, in_parts=in_parts)
