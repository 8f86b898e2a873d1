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
    """The class of the loop's variables: streams or tables."""

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
        """The name of the loop."""
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
    """An open loop of streams; made by ``stream.loop(...)``.

    Examples:
        >>> flow = ps.Dataflow("count down")
        >>> starts = flow.stream_input("starts", "x long")
        >>> with starts.loop() as loop:
        ...     again = loop.variable("x long")
        ...     rows = loop.enter(starts).union(again)
        ...     loop.feedback(again, rows.filter(ps.col("x") > 0).select(x=ps.col("x") - 1))
        ...     flow.output("out", loop.leave(rows))
        >>> flow.run(starts=[[{"x": 2}]])["out"][0].to_pylist()
        [{'x': 2}, {'x': 1}, {'x': 0}]

    """

    def enter(self, stream: "Stream") -> "Stream":
        """Bring a stream from outside into round 0 of the loop.

        Args:
            stream: A stream of the scope in which the loop was opened.

        Examples:
            >>> words = ps.Dataflow("words").stream_input("words", "word string")
            >>> with words.loop("rounds") as loop:
            ...     print(loop.enter(words).loops)
            ('rounds',)

        """
        made: Stream = self._entered(stream)
        return made

    def variable(self, schema: str | pa.Schema, name: str = "variable") -> "Stream":
        """Return a stream that is fed back; set its rows with ``feedback``.

        Args:
            schema: The columns of the stream.
            name (str, default "variable"): The name of the variable.

        Examples:
            >>> numbers = ps.Dataflow("numbers").stream_input("numbers", "x long")
            >>> with numbers.loop() as loop:
            ...     again = loop.variable("x long")
            ...     loop.feedback(again, again.union(loop.enter(numbers)).filter(ps.col("x") < 0))
            ...     print(again.schema.names)
            ['x']

        """
        made: Stream = self._variable(as_schema(schema), name)
        return made

    def feedback(self, variable: "Stream", stream: "Stream") -> None:
        """Feed a stream back: its rows are those of the variable one round later.

        Args:
            variable: A variable of this loop.
            stream: A stream inside the loop with the same columns.

        Examples:
            >>> numbers = ps.Dataflow("numbers").stream_input("numbers", "x long")
            >>> with numbers.loop() as loop:
            ...     again = loop.variable("x long")
            ...     rest = loop.enter(numbers).union(again).filter(ps.col("x") > 0)
            ...     loop.feedback(again, rest.select(x=ps.col("x") - 1))

        """
        self._fed(variable, stream)

    def leave(self, stream: "Stream") -> "Stream":
        """Take a stream out of the loop; its times lose their round.

        Args:
            stream: A stream inside the loop.

        Examples:
            >>> numbers = ps.Dataflow("numbers").stream_input("numbers", "x long")
            >>> with numbers.loop("rounds") as loop:
            ...     print(loop.leave(loop.enter(numbers)).loops)
            ()

        """
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
    """An open loop of tables; made by ``table.loop(...)``.

    Examples:
        >>> flow = ps.Dataflow("reach")
        >>> starts, edges = flow.table("starts", "node long"), flow.table("edges", "src long, dst long")
        >>> with starts.loop("reach") as loop:
        ...     reached = loop.variable(starts)
        ...     further = reached.join(loop.enter(edges), {"node": "src"}).select(node=ps.col("dst"))
        ...     loop.feedback(reached, further.union(loop.enter(starts)).distinct())
        ...     flow.output("reached", loop.leave(reached))
        >>> flow.run(starts=[[{"node": 1}]], edges=[[{"src": 1, "dst": 1}]]).table("reached").to_pylist()
        [{'node': 1}]

    """

    def enter(self, table: "Table") -> "Table":
        """Bring a table into the loop, where it is the same in every round.

        Args:
            table: A table of the scope in which the loop was opened.

        Examples:
            >>> nodes = ps.Dataflow("nodes").table("nodes", "id long")
            >>> with nodes.loop("rounds") as loop:
            ...     print(loop.enter(nodes).loops)
            ('rounds',)

        """
        made: Table = self._entered(table)
        return made

    def variable(self, start: "Table | str | pa.Schema", name: str = "variable") -> "Table":
        """Return a table that is ``start`` in round 0 and the table that is fed back in each later round.

        Args:
            start: A table, or the schema of an empty one.
            name (str, default "variable"): The name of the variable.

        Examples:
            >>> nodes = ps.Dataflow("nodes").table("nodes", "id long")
            >>> with nodes.loop() as loop:
            ...     found = loop.variable(nodes)
            ...     loop.feedback(found, found.filter(ps.col("id") > 0))
            ...     print(found.schema.names)
            ['id']

        """
        made: Table = self._variable(start, name)
        return made

    def feedback(self, variable: "Table", table: "Table") -> None:
        """Set the value of a variable in the next round.

        Args:
            variable: A variable of this loop.
            table: A table inside the loop with the same columns.

        Examples:
            >>> nodes = ps.Dataflow("nodes").table("nodes", "id long")
            >>> with nodes.loop() as loop:
            ...     found = loop.variable("id long")
            ...     loop.feedback(found, found.union(loop.enter(nodes)).distinct())

        """
        self._fed(variable, table)

    def leave(self, table: "Table") -> "Table":
        """Take a table out of the loop, as it is after the last round.

        Args:
            table: A table inside the loop.

        Examples:
            >>> nodes = ps.Dataflow("nodes").table("nodes", "id long")
            >>> with nodes.loop("rounds") as loop:
            ...     print(loop.leave(loop.enter(nodes)).loops)
            ()

        """
        made: Table = self._left(table)
        return made

    def _check(self, act: str, *given: object) -> None:
        for each in given:
            if not isinstance(each, self._kind):
                raise FlowError(
                    f"loop '{self.name}': {act} of a loop of tables needs a table, got "
                    f"{type(each).__name__}. Make a table of a stream with to_table()."
                )
