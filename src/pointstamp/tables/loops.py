"""Loops of tables: a block in which variables come round again, for what ``iterate`` cannot say.

    with edges.loop("reach") as loop:
        inner = loop.enter(edges)
        reached = loop.variable(starts)                     # in round 0 it is this table
        further = reached.join(inner, {"node": "src"}).select(node=ps.col("dst"))
        now = further.union(loop.enter(starts)).distinct()
        loop.feedback(reached, now)                         # in the next round it is what the body made
        result = loop.leave(now)

The value of a variable in round i + 1 is what was fed back in round i, and in round 0 its start. Tables flow
as changes, and the start is there in every round already. So only what the body made without the start goes
round: with the start in it, every round would count the start once more.

Several variables in one block are recursion by turns. A block in a block has rounds of its own.
"""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.flow.outlet import add_operator, wiring
from pointstamp.flow.stream import Loop, Stream
from pointstamp.operators.spec import Label, spec
from pointstamp.rows.schema import as_schema
from pointstamp.tables import deltas
from pointstamp.tables.column_names import weighed_columns
from pointstamp.tables.going_round import GoingRound
from pointstamp.topology.ports import OperatorIndex

if TYPE_CHECKING:
    from pointstamp.tables.table import Table


class TableLoop:
    """An open loop of tables; made by ``table.loop(...)``."""

    def __init__(
        self, loop: Loop, rounds_max: int | None, made: "type[Table]", changes_of: "Callable[[Table], Stream]"
    ) -> None:
        self._loop = loop
        self._rounds_max = rounds_max
        self._made = made
        self._changes_of = changes_of
        self._variables: dict[OperatorIndex, tuple[Stream, Stream | None]] = {}
        """By where a variable comes out: what comes round, and the start."""

    @property
    def name(self) -> str:
        """What the loop is called."""
        return self._loop.name

    def enter(self, table: "Table") -> "Table":
        """The same table inside the loop, the same in every round."""
        return self._made(self._loop.enter(self._changes("enter", table)))

    def variable(self, start: "Table | str | pa.Schema", name: str = "variable") -> "Table":
        """A table that is this one in round 0, and what is fed back later; a schema begins without rows."""
        who = f"loop '{self.name}': the variable '{name}'"
        if not isinstance(start, self._made):
            if not isinstance(start, str | pa.Schema):
                raise FlowError(
                    f"{who} needs its table in round 0, or the columns of an empty one, got "
                    f"{type(start).__name__}. Give one of these."
                )
            made = again = self._loop.variable(weighed_columns(who, as_schema(start)), name)
            initial = None
        else:
            initial = self._loop.enter(self._changes_of(start))
            again = self._loop.variable(initial.schema, name)
            made = deltas.together(initial, again, "so far")
        self._variables[wiring(made).source.operator] = again, initial
        return self._made(made)

    def feedback(self, variable: "Table", table: "Table") -> None:
        """Let the variable be this table in the next round."""
        source = wiring(self._changes("feedback", variable)).source.operator
        if source not in self._variables:
            raise FlowError(
                f"loop '{self.name}': feedback needs a variable of this loop, got {variable}. Use one of "
                "loop.variable()."
            )
        again, initial = self._variables[source]
        who = f"loop '{self.name}': the feedback of {variable} with {table}"
        fed = deltas.in_order_of(self._changes("feedback", table), variable.schema, who)
        # The start is in every round already, so only what the body adds to it goes round.
        added = fed if initial is None else deltas.without(fed, initial, "without the start")
        logic = spec(GoingRound, Label(self.name), self._rounds_max)
        by = {"in": added.exchange(*deltas.rows_schema(added).names)}
        round_again = add_operator("what goes round", logic, by, {"out": added.schema})[0]
        self._loop.feedback(again, round_again)

    def leave(self, table: "Table") -> "Table":
        """The table outside the loop, as it is after the last round."""
        return self._made(self._loop.leave(self._changes("leave", table)))

    def _changes(self, act: str, table: "Table") -> Stream:
        if not isinstance(table, self._made):
            raise FlowError(
                f"loop '{self.name}': {act} of a loop of tables needs a table, got "
                f"{type(table).__name__}. Make a table of a stream with running()."
            )
        return self._changes_of(table)

    def __enter__(self) -> "TableLoop":
        self._loop.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.__exit__(kind, error, trace)
