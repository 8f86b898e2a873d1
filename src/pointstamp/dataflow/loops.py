"""Loops: a block in which times have one coordinate more, the round.

A loop of streams:

    with edges.loop("labels") as loop:
        inside = loop.enter(edges)
        labels = loop.variable("vertex long, label long")   # what comes round again
        better = ...                                        # made of inside and labels
        loop.feedback(labels, better)
        result = loop.leave(better)

What enters is in round 0. What is fed back comes out of the variable one round later. What leaves loses its
round: the time outside is complete when every round inside is, and a loop ends when nothing circulates.

A loop of tables, for what ``iterate`` cannot say:

    with edges.loop("reach") as loop:
        inner = loop.enter(edges)
        reached = loop.variable(starts)                     # in round 0 it is this table
        further = reached.join(inner, {"node": "src"}).select(node=ps.col("dst"))
        now = further.union(loop.enter(starts)).distinct()
        loop.feedback(reached, now)                         # in the next round it is what the body made
        result = loop.leave(now)

The value of a variable in round i + 1 is what was fed back in round i, and in round 0 its start. Several
variables in one block are mutual recursion. A block in a block has rounds of its own.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from pointstamp.arrow.schema import as_schema
from pointstamp.dataflow.record import FlowRecord, Recorded, physical_of
from pointstamp.errors import FlowError
from pointstamp.plan import streams
from pointstamp.plan.logical import LogicalOperator

if TYPE_CHECKING:
    from pointstamp.dataflow.stream import Stream
    from pointstamp.dataflow.table import Table


class _AnyLoop(Recorded):
    """An open loop; as a context manager it checks at the end that every variable was fed."""

    _kind: type[Recorded]
    """What goes round in it."""

    @classmethod
    def _of(
        cls,
        operator: LogicalOperator,
        physical: Any,  # noqa: ANN401 - as lowered
        record: FlowRecord,
        kind: type[Recorded],
    ) -> Self:
        made = object.__new__(cls)
        made._set(record, operator, physical)
        made._kind = kind
        return made

    @property
    def name(self) -> str:
        """What the loop is called."""
        return str(self._physical.name)

    def _entered(self, given: Any) -> Any:  # noqa: ANN401 - a stream or a table
        self._check("enter", given)
        return self._made(lambda: streams.EnterLoop(given._operator, self._operator), given)

    def _variable(self, given: Any, name: str) -> Any:  # noqa: ANN401 - as above
        is_start: bool = isinstance(given, self._kind)
        if is_start:
            return self._made(
                lambda: streams.LoopVariable(self._operator, given.schema, given._operator, name=name), given
            )
        if not isinstance(given, str | pa.Schema):
            self._physical.variable(physical_of(given), name)  # which says what to give
        declared = as_schema(given)
        return self._made(lambda: streams.LoopVariable(self._operator, declared, name=name))

    def _fed(self, variable: Any, given: Any) -> None:  # noqa: ANN401 - as above
        self._check("feedback", variable, given)
        self._record.write(
            lambda: streams.Feedback(variable._operator, given._operator, self._operator),
            *(variable, given, self),
        )

    def _left(self, given: Any) -> Any:  # noqa: ANN401 - as above
        self._check("leave", given)
        return self._made(lambda: streams.LeaveLoop(given._operator, self._operator), given)

    def _made(self, make: Any, *parts: Recorded) -> Any:  # noqa: ANN401 - as above
        made = object.__new__(self._kind)
        made._set(self._record, *self._record.write(make, *parts, self))
        return made

    def _check(self, act: str, *given: object) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._physical.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._physical.__exit__(kind, error, trace)


class Loop(_AnyLoop):
    """An open loop; as a context manager it checks at the end that every variable was fed."""

    def enter(self, stream: "Stream") -> "Stream":
        """Bring a stream from outside into round 0 of the loop."""
        made: Stream = self._entered(stream)
        return made

    def variable(self, schema: str | pa.Schema, name: str = "variable") -> "Stream":
        """What comes round again; say with ``feedback`` what that is."""
        made: Stream = self._variable(as_schema(schema), name)
        return made

    def feedback(self, variable: "Stream", stream: "Stream") -> None:
        """Let a stream come out of the variable, one round later."""
        self._fed(variable, stream)

    def leave(self, stream: "Stream") -> "Stream":
        """Take a stream out of the loop; its round is dropped."""
        made: Stream = self._left(stream)
        return made

    def _check(self, act: str, *given: object) -> None:
        for each in given:
            if not isinstance(each, self._kind):
                raise FlowError(
                    f"loop '{self.name}': {act} of a loop of streams needs a stream, got "
                    f"{type(each).__name__}. Make a stream of a table with changes()."
                )


class TableLoop(_AnyLoop):
    """An open loop of tables; made by ``table.loop(...)``."""

    def enter(self, table: "Table") -> "Table":
        """The same table inside the loop, the same in every round."""
        made: Table = self._entered(table)
        return made

    def variable(self, start: "Table | str | pa.Schema", name: str = "variable") -> "Table":
        """A table that is this one in round 0, and what is fed back later; a schema begins without rows."""
        made: Table = self._variable(start, name)
        return made

    def feedback(self, variable: "Table", table: "Table") -> None:
        """Let the variable be this table in the next round."""
        self._fed(variable, table)

    def leave(self, table: "Table") -> "Table":
        """The table outside the loop, as it is after the last round."""
        made: Table = self._left(table)
        return made

    def _check(self, act: str, *given: object) -> None:
        for each in given:
            if not isinstance(each, self._kind):
                raise FlowError(
                    f"loop '{self.name}': {act} of a loop of tables needs a table, got "
                    f"{type(each).__name__}. Make a table of a stream with to_table()."
                )
