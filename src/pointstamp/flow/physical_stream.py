"""Streams and loops: what a user chains operations on.

A stream is one output of a node of the plan, with its schema and the scope it stands in. Operations add nodes
and return new streams; nothing runs. Each operation works on complete Arrow batches unless documented
otherwise.

A loop is a scope in which times have one coordinate more, the round:

    with edges.loop("labels") as loop:
        inside = loop.enter(edges)
        labels = loop.variable("vertex long, label long")   # what comes round again
        better = ...                                        # made of inside and labels
        loop.feedback(labels, better)
        result = loop.leave(better)

What enters is in round 0. What is fed back comes out of the variable one round later. What leaves loses its
round: the time outside is complete when every round inside is, and a loop ends when nothing circulates.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from pointstamp.arrow.epoch_column import LATE_PORT, LatePolicy, check_policy, late_schema
from pointstamp.arrow.schema import ExtraColumns, as_schema, check_extra_columns
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import compile_condition, compile_expression
from pointstamp.expressions.select_columns import chosen, others, selection
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Expression, Value
from pointstamp.flow.builder import PlanBuilder, Scope, wired
from pointstamp.flow.event_epochs import EventTime, event_epochs
from pointstamp.flow.outlet import (
    Outlet,
    add_door,
    add_operator,
    check_reduces,
    check_takes_nothing_back,
    columns_in_words,
    feed,
    scope_name,
    wiring,
)
from pointstamp.flow.plan import (
    EVERYWHERE,
    ExchangeBy,
    ExchangeByFunction,
    InputPort,
    Node,
    NodeKind,
    Probe,
    RoundLimit,
    ShardFunction,
)
from pointstamp.flow.reduction import Reducing
from pointstamp.flow.updates import Passes, Reduces
from pointstamp.flow.watermarks import idle_seconds, promised
from pointstamp.operators.spec import spec
from pointstamp.operators.stateless import (
    BatchFunction,
    Collect,
    Concat,
    Condition,
    FlatMapRows,
    InWindows,
    PhysicalExplode,
    PhysicalFilter,
    PhysicalInspect,
    PhysicalMapBatches,
    PhysicalMapRows,
    PhysicalProject,
    Row,
    checked_condition,
    exploding,
    windowing,
)
from pointstamp.reduce.aggregate import Aggregate, Aggregation, FunctionAggregate
from pointstamp.reduce.binding import Arguments
from pointstamp.reduce.reductions import RunningReduce, WindowedReduce, reduced_schema
from pointstamp.topology.ports import SourcePort
from pointstamp.topology.summary import Summary, delay, enter, feedback, leave


def kind_of(given: object) -> str:
    """Return what an error calls the class of something: a user knows no physical streams."""
    return type(given).__name__.removeprefix("Physical")


class PhysicalStream(Outlet):
    """A stream of Arrow batches with times; made by a flow and by operations on other streams."""

    # How the batches are shared among the workers.

    def exchange(self, *keys: str, by: ShardFunction | None = None) -> "PhysicalStream":
        """Bring each row to the worker that owns its key, where the next operation sees all of that key."""
        for key in keys:
            if not isinstance(key, str):
                raise FlowError(
                    f"{self}: exchange takes names of columns, got {kind_of(key)}. Give a function "
                    "for the shard of each row as exchange(by=function)."
                )
        self.check_columns("exchange", keys)
        if by is not None:
            if not callable(by):
                raise FlowError(
                    f"{self}: exchange(by=) takes a function from a batch to the shard of each row, got "
                    f"{type(by).__name__} {by!r}. Give columns without by: exchange('id')."
                )
            columns = pa.schema([self.schema.field(key) for key in keys]) if keys else None
            return self._shared(ExchangeByFunction(by, columns))
        if not keys:
            raise FlowError(
                f"{self}: exchange needs at least one key column, for example exchange('id'), or a "
                "function for the shard of each row: exchange(by=function)."
            )
        return self._shared(ExchangeBy(keys))

    def broadcast(self) -> "PhysicalStream":
        """Let every worker see every batch."""
        return self._shared(EVERYWHERE)

    # Columns by expressions.

    def select(self, *columns: str | Expression, name: str = "select", **named: Value) -> "PhysicalStream":
        """Other columns, by name or by expression: ``select("id", total=ps.col("price") * 2)``."""
        return self.project(name, chosen(f"'{name}' of {self}", columns, named))

    def drop(self, *columns: str) -> "PhysicalStream":
        """Without these columns."""
        return self.project("drop", others(f"drop of {self}", self.schema, columns))

    # All epochs together.

    # Batches in, batches out.

    def map_batches(
        self, function: BatchFunction, schema: str | pa.Schema | None = None, *, name: str = "map"
    ) -> "PhysicalStream":
        """Send what a function makes of each batch; the schema stays unless another is given."""
        wanted = self.schema if schema is None else as_schema(schema)
        return self._add(name, spec(PhysicalMapBatches, function), wanted, Passes.MADE)

    def filter(self, condition: Condition, *, name: str = "filter") -> "PhysicalStream":
        """Keep the rows for which a condition holds."""
        checked = checked_condition(condition, self.schema, f"'{name}' of {self}")
        return self._add(name, spec(PhysicalFilter, checked), self.schema)

    def branch(
        self, condition: Condition, *, name: str = "branch"
    ) -> "tuple[PhysicalStream, PhysicalStream]":
        """Split into the rows for which a condition holds and the others."""
        checked = checked_condition(condition, self.schema, f"'{name}' of {self}")
        outputs = {"true": self.schema, "false": self.schema}
        logic = spec(PhysicalFilter, checked)
        kept, others = add_operator(name, logic, {"in": self}, outputs, sends=Passes.ROWS)
        return kept, others

    def concat(self, *others: "PhysicalStream", name: str = "concat") -> "PhysicalStream":
        """Bring this stream and others of the same schema together, in no particular order."""
        for other in others:
            if other.schema != self.schema:
                raise SchemaError(
                    f"union of {self} and {other}: both must have the same schema, got "
                    f"{columns_in_words(self.schema)} and {columns_in_words(other.schema)}. Select and "
                    "cast the columns."
                )
        inputs = {f"in {number}": stream for number, stream in enumerate((self, *others))}
        return add_operator(name, Concat, inputs, {"out": self.schema}, sends=Passes.ROWS)[0]

    def inspect(
        self, function: Callable[[Any, pa.RecordBatch], None], *, name: str = "inspect"
    ) -> "PhysicalStream":
        """Show each batch with its time to a function; the stream continues unchanged."""
        return self._add(name, spec(PhysicalInspect, function), self.schema)

    def probe(self) -> Probe:
        """A place to ask, while the flow runs, how far this stream has come."""
        return Probe(self._wiring.source)

    def explode(
        self, column: str, *, outer: bool = False, position: str | None = None, name: str = "explode"
    ) -> "PhysicalStream":
        """One row for each element of a list; the column is then the element."""
        plan = exploding(f"'{name}' of {self}", self.schema, column, position, is_outer=outer)
        return self._add(name, spec(PhysicalExplode, plan), plan.schema, Passes.MADE)

    # One row at a time.

    def map(
        self, function: Callable[[Row], Row], schema: str | pa.Schema, *, name: str = "map"
    ) -> "PhysicalStream":
        """Send the row that a function makes of each row, as dictionaries."""
        return self._add(name, spec(PhysicalMapRows, function), as_schema(schema), Passes.MADE)

    def flat_map(
        self, function: Callable[[Row], Iterable[Row]], schema: str | pa.Schema, *, name: str = "flat map"
    ) -> "PhysicalStream":
        """Send the rows that a function yields for each row, as dictionaries."""
        return self._add(name, spec(FlatMapRows, function), as_schema(schema), Passes.MADE)

    # By key.

    def reduce(
        self,
        *keys: str,
        aggregates: Mapping[str, Aggregation],
        running: bool = False,
        name: str = "reduce",
    ) -> "PhysicalStream":
        """Aggregate rows per key: in each epoch by itself, or running over all epochs so far."""
        return self._reduce(keys, Reducing(name, running, dict(aggregates)))

    def _reduce(self, keys: tuple[str, ...], asked: Reducing) -> "PhysicalStream":
        self.check_columns(asked.name, keys)
        return reduced(self, keys, asked)

    # Time.

    def window(
        self,
        at: str,
        size: Span,
        *,
        slide: Span | None = None,
        offset: Span | None = None,
        start: str = "window_start",
        end: str = "window_end",
        name: str = "window",
    ) -> "PhysicalStream":
        """Each row with the windows of event time in which it lies."""
        asked = windowing(f"'{name}' of {self}", self.schema, at, (size, slide, offset), (start, end))
        return self._add(name, spec(InWindows, asked), asked.schema, Passes.MADE)

    def event_time(
        self,
        at: str,
        *,
        lateness: Span,
        late: LatePolicy = "output",
        late_output: str | None = None,
        idle: str | timedelta | None = None,
        name: str = "event time",
    ) -> "PhysicalStream":
        """The rows that are in time, by a promise how late they may be: ``lateness="2 minutes"``."""
        return promised(self, at, lateness, late, late_output, idle, name)

    def delay(self, epochs: int = 1, *, name: str = "delay") -> "PhysicalStream":
        """The same batches, that many epochs later."""
        if epochs < 1:
            raise FlowError(f"{self}: delay needs at least one epoch, got {epochs}.")
        summary = delay(epochs, len(self.loops))
        return add_door(NodeKind.DELAY, name, self, self.loops, summary, delay_epochs=epochs)

    def loop(
        self, name: str = "loop", *, max_rounds: int | None = None, at_limit: str = "error"
    ) -> "PhysicalLoop":
        """Open a loop in this stream's scope: ``with stream.loop("labels") as loop``."""
        return PhysicalLoop(self._wiring.builder, name, self.loops, max_rounds=max_rounds, at_limit=at_limit)

    def _add(
        self, name: str, logic: Callable[[], Any], schema: pa.Schema, passes: Passes = Passes.ROWS
    ) -> "PhysicalStream":
        return add_operator(name, logic, {"in": self}, {"out": schema}, sends=passes)[0]

    def project(self, name: str, wanted: Mapping[str, Expression]) -> "PhysicalStream":
        """Other columns, each an expression."""
        made = selection(f"'{name}' of {self}", self.schema, wanted)
        return self._add(name, spec(PhysicalProject, made), made.schema, Passes.MADE)


class PhysicalLoop:
    """An open loop; as a context manager it checks at the end that every variable was fed."""

    def __init__(
        self, builder: PlanBuilder, name: str, outside: Scope, *, max_rounds: int | None, at_limit: str
    ) -> None:
        if at_limit not in ("error", "stop") or (max_rounds is not None and max_rounds < 1):
            raise FlowError(
                f"loop '{name}': max_rounds must be at least 1 and at_limit 'error' or 'stop', got "
                f"{max_rounds} and '{at_limit}'."
            )
        self._builder = builder
        self._outside = outside
        self._scope = builder.open_scope(outside, name)
        self.name = self._scope[-1]
        self._limit = None if max_rounds is None else RoundLimit(max_rounds, at_limit == "error")
        self._variables: dict[int, Node] = {}

    def enter(self, stream: PhysicalStream) -> PhysicalStream:
        """Bring a stream from outside into round 0 of the loop."""
        self._check_scope(stream, self._outside, "enter", "outside the loop")
        return add_door(NodeKind.ENTER, "enter", stream, self._scope, enter(len(self._outside)))

    def variable(self, schema: str | pa.Schema, name: str = "variable") -> PhysicalStream:
        """Return a variable of the loop, whose rows ``feedback`` defines."""
        declared = as_schema(schema)
        summaries = {(0, 0): (feedback(len(self._scope)),)}
        unwired = InputPort("in", None)
        node = self._builder.add(
            NodeKind.FEEDBACK, name, self._scope, [unwired], {"out": declared}, summaries=summaries
        )
        node.limit = self._limit
        self._variables[node.index] = node
        return PhysicalStream(self._builder, SourcePort(node.index, 0), declared, self._scope)

    def feedback(self, variable: PhysicalStream, stream: PhysicalStream) -> None:
        """Let a stream come out of the variable, one round later."""
        known = self._variables.get(wiring(variable).source.operator)
        if known is None:
            raise FlowError(f"loop '{self.name}': feedback needs a variable of this loop, got {variable}.")
        self._check_scope(stream, self._scope, "feedback", "inside the loop")
        feed(known, stream, f"loop '{self.name}'")

    def leave(self, stream: PhysicalStream) -> PhysicalStream:
        """Take a stream out of the loop; its round is dropped."""
        self._check_scope(stream, self._scope, "leave", "inside the loop")
        return add_door(NodeKind.LEAVE, "leave", stream, self._outside, leave(len(self._scope)))

    def _check_scope(self, stream: PhysicalStream, scope: tuple[str, ...], act: str, where: str) -> None:
        if wiring(stream).builder is not self._builder:
            raise FlowError(f"loop '{self.name}': {stream} belongs to another flow.")
        if stream.loops != scope:
            raise FlowError(
                f"loop '{self.name}': {act} takes a stream from {where}, but {stream} is in "
                f"{scope_name(stream.loops)}. Enter or leave the loops between them, one at a time."
            )

    def __enter__(self) -> "PhysicalLoop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        for node in self._variables.values():
            if node.inputs[0].source is None:
                raise FlowError(
                    f"loop '{self.name}': the variable '{node.name}' was never fed. Call "
                    "loop.feedback(variable, stream) inside the loop."
                )


# How a reduction of a stream is built.

ACCUMULATED: Final = ("count", "sum", "min", "max", "mean")


def needs_groups(keys: Collection[str], aggregates: Mapping[str, Aggregation]) -> bool:
    """Return whether an epoch is reduced as a table: there is no key, or its rows are looked at together."""
    return not keys or not all(map(_is_accumulated, aggregates.values()))


def reduced(stream: PhysicalStream, keys: tuple[str, ...], asked: Reducing) -> PhysicalStream:
    """One row for each key of a time, or of all so far, with aggregates of its rows."""
    name, who = asked.name, f"'{asked.name}' of {stream}"
    others = [column for column, each in asked.aggregates.items() if not _is_accumulated(each)]
    if asked.running and (others or not keys):
        what = f"'{others[0]}' is {asked.aggregates[others[0]]}" if others else "it has no key column"
        raise FlowError(
            f"{who} cannot be running: {what}. Use a table, which retracts old results: "
            "to_table().group_by(...).agg(...)."
        )
    at = wiring(stream)
    reduces = Reduces(keys, asked.aggregates, asked.running)
    check_reduces(at.builder.plan, at.source, reduces, who)
    if asked.running:
        check_takes_nothing_back(at.builder.plan, at.source, who)
    arguments, aggregates = Arguments(keys), asked.aggregates
    if not all(_is_plain(each) for each in aggregates.values()):
        aggregates = {
            column: _lowered(f"{who}, '{column}'", stream, each, arguments)
            for column, each in aggregates.items()
        }
        columns = [each.alias(column) for column, each in arguments.columns.items()]
        stream = stream.select(*columns, name=f"{name}: arguments")
    schema = reduced_schema(who, stream.schema, keys, aggregates)
    logic = RunningReduce if asked.running else WindowedReduce
    return add_operator(
        name,
        spec(logic, stream.schema, keys, aggregates),
        {"in": stream.exchange(*keys)},
        {"out": schema},
        in_order=asked.running,
        sends=reduces,
    )[0]


def _is_accumulated(aggregate: Aggregation) -> bool:
    if isinstance(aggregate, FunctionAggregate):
        return False
    return not isinstance(aggregate, Aggregate) or aggregate.kind in ACCUMULATED


def _is_plain(aggregate: Aggregation) -> bool:
    """Return whether an aggregate looks at a column as it is, in all rows."""
    return not isinstance(aggregate, Aggregate) or (
        aggregate.where is None and not isinstance(aggregate.column, Expression)
    )


def _lowered(who: str, stream: PhysicalStream, aggregate: Aggregation, arguments: Arguments) -> Aggregation:
    """The same aggregate of a column that the arguments have."""
    if not isinstance(aggregate, Aggregate):
        assert not isinstance(aggregate, FunctionAggregate)
        arguments.named(aggregate.column)
        return aggregate
    if aggregate.where is not None:
        compile_condition(aggregate.where, stream.schema, f"{who}, where=")
    if isinstance(aggregate.column, Expression):
        compile_expression(aggregate.column, stream.schema, who)
    return Aggregate(aggregate.kind, arguments.of(aggregate.column, aggregate.where))


# Inputs, outputs and variables of a flow: the nodes that stand at its ends.


def add_input(
    builder: PlanBuilder,
    name: str,
    declared: pa.Schema,
    *,
    epoch: EventTime | None,
    late: LatePolicy | None,
    late_output: str | None,
    extra_columns: ExtraColumns,
) -> PhysicalStream:
    """Add an input and, if late rows have one, their output; return its rows as a stream."""
    check_extra_columns(f"input '{name}'", extra_columns)
    late = late or ("error" if epoch is None else "output")
    check_policy(name, late, late_output)
    epochs = None if epoch is None else event_epochs(builder.plan, name, declared, epoch)
    ports = {"out": declared}
    if late == "output":
        ports["late"] = late_schema(declared, name)
    node = builder.add(NodeKind.INPUT, name, (), [], ports)
    node.late = late
    node.extra_columns = extra_columns
    node.event_epochs = epochs
    if epoch is not None:
        node.idle_seconds = idle_seconds(f"input '{name}', epochs=, idle", epoch.idle)
    if late == "output":
        port = wired("in", SourcePort(node.index, LATE_PORT))
        builder.add(NodeKind.OUTPUT, late_output or f"{name}_late", (), [port], {}, logic=Collect)
    return PhysicalStream(builder, SourcePort(node.index, 0), declared, ())


def add_variable(builder: PlanBuilder, declared: pa.Schema, summary: Summary, name: str) -> PhysicalStream:
    """Add a variable outside loops, which is fed later."""
    node = builder.add(
        NodeKind.FEEDBACK,
        name,
        (),
        [InputPort("in", None)],
        {"out": declared},
        summaries={(0, 0): (summary,)},
        declared={("in", "out"): (summary,)},
    )
    return PhysicalStream(builder, SourcePort(node.index, 0), declared, ())


def feed_variable(builder: PlanBuilder, variable: PhysicalStream, stream: PhysicalStream) -> None:
    """Wire a stream to a variable outside loops."""
    at, flow = wiring(variable), f"flow '{builder.plan.name}'"
    node = builder.plan.nodes[at.source.operator]
    if at.builder is not builder or node.kind is not NodeKind.FEEDBACK or node.scope:
        raise FlowError(f"{flow}: feedback needs a variable of this flow, got {variable}.")
    feed(node, stream, flow)


def add_output(builder: PlanBuilder, name: str, stream: PhysicalStream) -> None:
    """Add an output that collects a stream."""
    at = wiring(stream)
    if at.builder is not builder:
        raise FlowError(
            f"output '{name}' of flow '{builder.plan.name}': {stream} belongs to another flow. Use a "
            "stream of this flow."
        )
    if stream.loops:
        raise FlowError(f"output '{name}': {stream} is in {scope_name(stream.loops)}. Leave the loop first.")
    port = wired("in", at.source, at.pact)
    builder.add(NodeKind.OUTPUT, name, (), [port], {}, logic=Collect)
