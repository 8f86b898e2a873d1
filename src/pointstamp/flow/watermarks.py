"""Event time in a plan: where it is promised, and for whom.

What is made of a stream with event time, by any operations, has the watermark of that stream. So nothing is
carried along: an operator that waits for event time finds it in the plan, from where it stands up to the
inputs, and uses the least watermark that it finds. What comes from inputs without event time, such as a table
of names that is joined, has no say in it. A query in SQL has one clock, that of all tables that it reads,
wherever in the query something waits for it.

An operator that keeps rows forever must not stand between a promise and who waits for it, or the promise
would be of no use: rows of windows that are over are to be forgotten before it (``retain_until``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow.epoch_column import LatePolicy
from pointstamp.errors import FlowError
from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.time_windows import Span, event_time_type, instants_of, integers_of, span_of
from pointstamp.flow.builder import EventTimeMark, PlanBuilder, wired
from pointstamp.flow.outlet import AnOutlet, add_operator, wiring
from pointstamp.flow.plan import EVERYWHERE, ExchangeBy, Node, NodeKind, OutputPort
from pointstamp.flow.updates import Passes
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec, spec_of
from pointstamp.operators.stateless import Collect
from pointstamp.operators.watermark import LATEST, SILENT, SILENT_PORT, Bounds, Latest, LatestOrSilent
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.reduce.reductions import WindowedReduce, reduced_schema
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import EPOCHS, Time
from pointstamp.topology.ports import OperatorIndex, SourcePort


def promised(
    stream: AnOutlet,
    at: str,
    lateness: Span,
    late: LatePolicy,
    late_output: str | None,
    idle: str | timedelta | None,
    name: str,
) -> AnOutlet:
    """The rows of a stream that are in time, by a promise how late they may be."""
    who = f"'{name}' of {stream}"
    builder = wiring(stream).builder
    if builder.plan.root is not EPOCHS or stream.loops:
        raise FlowError(
            f"{who} cannot be used in a loop or with custom times. Call it on the stream before it enters "
            "the loop."
        )
    check_columns(who, stream.schema, [at])
    if late not in get_args(LatePolicy):
        raise FlowError(
            f"{who}: late= must be one of {', '.join(get_args(LatePolicy))}, got {late!r}. Choose one of "
            "these."
        )
    if late == "error" and late_output is not None:
        raise FlowError(f"{who}: late_output= needs late='output', got late='error'. Remove one of them.")
    found = stream.schema.field(at).type
    kind = event_time_type(f"{who}, of '{at}',", found)
    length = span_of(f"{who}: lateness", found, lateness)
    if length < 0:
        raise FlowError(f"{who} needs a lateness of 0 or more, got {lateness!r}.")
    origin = builder.describe(wiring(stream).source)
    plan = InTimePlan(origin, at, kind, length, late)
    seconds = idle_seconds(f"{who}: idle", idle)
    silent = {} if seconds is None else silences(stream, seconds, who)
    tells = spec(Latest, at) if not silent else spec(LatestOrSilent, at, tuple(silent))
    latest = add_operator(f"{name}: latest", tells, {"in": stream, **silent}, {"out": LATEST})[0]
    outputs = {"out": stream.schema}
    if late != "error":
        outputs["late"] = stream.schema if late == "output" else LATE_COUNT
    told = type(stream)(builder, wiring(latest).source, LATEST, (), EVERYWHERE)
    inputs = {"in": stream, BOUND: told}
    made = add_operator(name, spec(InTime, plan), inputs, outputs, in_order=True, sends=Passes.ROWS)
    index = wiring(made[0]).source.operator
    builder.event_times[index] = EventTimeMark(
        origin, at, kind, length, wiring(latest).source, is_idle=seconds is not None
    )
    if late != "error":
        apart = made[1] if late == "output" else _counted(made[1], f"{name}: late rows")
        port = wired("in", wiring(apart).source)
        builder.add(NodeKind.OUTPUT, late_output or f"{origin}_late", (), [port], {}, logic=Collect)
    return made[0]


def _counted(counts: AnOutlet, name: str) -> AnOutlet:
    """The number on all workers together."""
    aggregates = {"rows": Aggregate("sum", "rows")}
    schema = reduced_schema(name, LATE_COUNT, ("stream",), aggregates)
    logic = spec(WindowedReduce, LATE_COUNT, ("stream",), aggregates)
    at = wiring(counts)
    by = type(counts)(at.builder, at.source, LATE_COUNT, (), ExchangeBy(("stream",)))
    return add_operator(name, logic, {"in": by}, {"out": schema})[0]


@contextmanager
def one_clock(streams: Iterable[AnOutlet]) -> Iterator[None]:
    """Let all operators that are added meanwhile also wait for the least watermark of these streams."""
    sources = [(wiring(each).builder, wiring(each).source.operator) for each in streams]
    builders = {id(builder): builder for builder, _ in sources}.values()
    before = [builder.clock for builder in builders]
    for builder in builders:
        builder.clock = tuple(dict.fromkeys(index for _, index in sources))
    try:
        yield
    finally:
        for builder, clock in zip(builders, before, strict=True):
            builder.clock = clock


def has_clock(stream: AnOutlet) -> bool:
    """Return whether there is a watermark by which something that is made of a stream can wait."""
    builder = wiring(stream).builder
    marks = builder.event_times.keys()
    starts = (wiring(stream).source.operator, *_clock_of_query(builder))
    return any(not marks.isdisjoint(above(builder, start)) for start in starts)


def _clock_of_query(builder: PlanBuilder) -> tuple[OperatorIndex, ...]:
    return builder.clock


def has_promise(stream: AnOutlet) -> bool:
    """Return whether something that a stream is made of has a promise about its event time."""
    builder = wiring(stream).builder
    return not builder.event_times.keys().isdisjoint(above(builder, wiring(stream).source.operator))


def is_event_time_of(stream: AnOutlet, column: str) -> bool:
    """Whether a column is the event time that was promised of this stream itself, as it comes from there."""
    source = wiring(stream).source
    mark = wiring(stream).builder.event_times.get(source.operator)
    return mark is not None and source.port == 0 and mark.at == column


def bounds_for(
    stream: AnOutlet, who: str, *others: AnOutlet
) -> tuple[pa.DataType, dict[str, AnOutlet], dict[str, int]]:
    """By which event times streams go: their type, who tells them, and how late each may be."""
    builder = wiring(stream).builder
    if stream.loops:
        raise FlowError(f"{who} is in a loop, where event time does not advance. Leave the loop first.")
    sources = [wiring(each).source.operator for each in (stream, *others)]
    sources += _clock_of_query(builder)
    found = {index: mark for each in sources for index, mark in _marks_above(builder, each)}
    marks = list(found.values())
    if not marks:
        raise FlowError(
            f"{who} waits for event time, but no upstream stream has a watermark. Declare one: "
            "stream.with_watermark('at', lateness='2 minutes')."
        )
    kinds = {mark.kind for mark in marks}
    if len(kinds) > 1:
        said = " and ".join(f"'{mark.stream}' has {mark.kind}" for mark in marks)
        raise FlowError(f"{who} has several event times upstream, which must have one type; {said}.")
    judge_together(builder, found, who)
    told = {
        f"{BOUND} {number}": type(stream)(builder, mark.latest, LATEST, (), EVERYWHERE)
        for number, mark in enumerate(marks)
    }
    return marks[0].kind, told, dict(zip(told, (mark.lateness for mark in marks), strict=True))


def check_forgets(stream: AnOutlet, who: str) -> None:
    """Refuse an operator that keeps rows forever between here and a promise about event time."""
    builder = wiring(stream).builder
    for name in _keepers_above(builder, wiring(stream).source.operator):
        raise FlowError(
            f"{who} waits for event time, but the state of '{name}' upstream would grow without bound. "
            f"Free it with retain_until(column) upstream of '{name}', with the column of the time at which "
            "a row ends, such as 'window_end'."
        )


def _marks_above(builder: PlanBuilder, start: OperatorIndex) -> Iterator[tuple[OperatorIndex, EventTimeMark]]:
    seen, waiting = {start}, [start]
    while waiting:
        index = waiting.pop(0)
        if index in builder.event_times:
            yield index, builder.event_times[index]
            continue
        new = [each for each in next_above(builder, index) if each not in seen]
        seen.update(new)
        waiting.extend(new)


def _keepers_above(builder: PlanBuilder, start: OperatorIndex) -> Iterator[str]:
    """The operators with state on ways from here to a promise on which nothing is forgotten."""
    nodes = builder.plan.nodes
    seen: set[tuple[OperatorIndex, str | None]] = set()
    waiting: list[tuple[OperatorIndex, str | None]] = [(start, None)]
    while waiting:
        index, keeper = waiting.pop(0)
        if (index, keeper) in seen or index in builder.forgets:
            continue
        seen.add((index, keeper))
        if index in builder.event_times:
            if keeper is not None:
                yield keeper
            continue
        # The one that stands next to the promise is named: what is forgotten before it is forgotten by all.
        here = nodes[index].name if nodes[index].in_order else keeper
        waiting.extend((above, here) for above in next_above(builder, index))


# Streams that may become idle: how they are told so, and by whom rows are judged that come after all.
#
# An input of which a stream with event time is made gets a port for silence. In each tick in which the driver
# finds that it has been silent for too long (``pointstamp.query.intake``), a mark comes out there, in the
# epoch of the tick; so it is as durable as the rows of the tick, and comes again in a replay.
#
# Event time then passes without the stream, for whoever waits for it together with others. Rows that come
# after all may be behind that. So who judges which rows of the stream are in time goes by the same bounds as
# those who wait: for each of them it has the same event times as they have.


def idle_seconds(what: str, idle: str | timedelta | None) -> float | None:
    """The seconds after which event time advances without an idle input; None: never."""
    if idle is None:
        return None
    seconds = parse_duration(idle, what).total_seconds()
    if seconds <= 0:
        raise FlowError(f"{what} must be above 0, got {idle!r}.")
    return seconds


def silences(stream: AnOutlet, seconds: float, who: str) -> dict[str, AnOutlet]:
    """The marks of silence of all inputs of which a stream is made, by names for an operator's inputs."""
    builder = wiring(stream).builder
    nodes = (builder.plan.nodes[index] for index in sorted(above(builder, wiring(stream).source.operator)))
    inputs = [node for node in nodes if node.kind is NodeKind.INPUT]
    for node in inputs:
        if node.idle_seconds not in (None, seconds):
            raise FlowError(
                f"{who}: idle= is {seconds:g} seconds, but its input '{node.name}' has idle= of "
                f"{node.idle_seconds:g} seconds. Give both the same."
            )
        node.idle_seconds = seconds
    return {
        f"{SILENT_PORT} {number}": type(stream)(builder, _silent_port(node), SILENT, ())
        for number, node in enumerate(inputs)
    }


def _silent_port(node: Node) -> SourcePort:
    names = [port.name for port in node.outputs]
    if SILENT_PORT not in names:
        node.outputs.append(OutputPort(SILENT_PORT, SILENT))
        names.append(SILENT_PORT)
    return SourcePort(node.index, names.index(SILENT_PORT))


def judge_together(builder: PlanBuilder, marks: Mapping[OperatorIndex, EventTimeMark], who: str) -> None:
    """Let rows of streams that may become idle be judged by the joint watermark of these streams."""
    for index, mark in marks.items():
        others = [other for at, other in marks.items() if at != index]
        if mark.is_idle and others:
            _judge_beside(builder, builder.plan.nodes[index], mark, others, who)


def _judge_beside(
    builder: PlanBuilder, node: Node, mark: EventTimeMark, others: Sequence[EventTimeMark], who: str
) -> None:
    plan = spec_of(node.logic).parameters["plan"]
    together = {BOUND: mark.lateness}
    for other in others:
        if node.index in above(builder, other.latest.operator):
            raise FlowError(
                f"{who}: '{mark.stream}' may be idle and '{other.stream}' is downstream of it, so the "
                "lateness of its rows would be undefined. Remove idle=."
            )
        name = f"{BOUND} of '{builder.plan.nodes[other.latest.operator].name}'"
        together[name] = other.lateness
        if name not in [port.name for port in node.inputs]:
            node.inputs.append(wired(name, other.latest, EVERYWHERE))
    if together not in plan.together:
        node.logic = spec(InTime, replace(plan, together=(*plan.together, together)))


# Rows that are in time, and what becomes of those that are late.
#
# The rows of an epoch are held until the epoch is complete, and are then judged by the bound of the epochs
# before it (``pointstamp.operators.watermark``). So which rows are late is the same on any number of
# workers, whatever arrives first, and whoever reads the rows again finds the same late ones.
#
# Invariant: no row that is sent on lies before the bound of the epochs before its own.

BOUND: Final = "event times"
"""The input at which the greatest event times arrive."""

LATE_COUNT: Final = pa.schema({"stream": pa.string(), "rows": pa.int64()})
"""The output for dropped late rows: their number."""


@dataclass(frozen=True, slots=True)
class InTimePlan:
    """The event-time column of a stream, its allowed lateness, and the treatment of late rows."""

    stream: str
    at: str
    kind: pa.DataType
    lateness: int
    late: LatePolicy
    together: tuple[Mapping[str, int], ...] = ()
    """The streams with which it is waited for, where it may become idle: how late each may be, by input."""


class InTime:
    """Sends the rows of an epoch that are in time when the epoch is complete, and the others apart."""

    keeps: ClassVar = "the greatest event time; a change costs its rows"

    def __init__(self, plan: InTimePlan) -> None:
        self._plan = plan
        self._bounds = [Bounds(each) for each in ({BOUND: plan.lateness}, *plan.together)]
        self._rows: dict[Time, list[pa.RecordBatch]] = {}
        self._late_rows = 0
        self.rows_late = 0
        """The number of late rows up to the last snapshot."""

    @property
    def event_time_latest(self) -> int | None:
        """The greatest event time of all complete epochs; None before the first."""
        bound = self._bounds[0].now
        return None if bound is None else bound + self._plan.lateness

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        if input == "in":
            self._rows.setdefault(context.time, []).append(batch)
        for bounds in self._bounds:
            if input in bounds:
                bounds.put(context.time, input, batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Judge the rows of the epoch by the bound of those before it."""
        # That of the stream itself, unless others have continued while it was silent.
        bound = max((now for each in self._bounds if (now := each.now) is not None), default=None)
        for batch in self._rows.pop(context.time, []):
            if bound is None:
                context.send(batch)
                continue
            is_late = pc.fill_null(pc.less(integers_of(batch.column(self._plan.at)), bound), False)
            context.send(batch.filter(pc.invert(is_late)))
            late = batch.filter(is_late)
            if late.num_rows:
                self._late_rows += late.num_rows
                self._send_late(context, late, bound)
        for each in self._bounds:
            each.take(context.time)

    def _send_late(self, context: Context, rows: pa.RecordBatch, bound: int) -> None:
        plan = self._plan
        if plan.late == "error":
            passed = instants_of(pa.array([bound]), plan.kind)[0]
            raise FlowError(
                f"operator '{context.operator}', epoch {context.epoch}: the row "
                f"{rows.slice(0, 1).to_pylist()[0]} is late, because the watermark has passed '{plan.at}' "
                f"= {passed}. Declare a greater lateness, or set late='output' or late='drop'."
            )
        if plan.late == "output":
            context.send(rows, output="late")
            return
        counted = [pa.array([plan.stream]), pa.array(np.array([rows.num_rows], np.int64))]
        context.send(pa.RecordBatch.from_arrays(counted, schema=LATE_COUNT), output="late")

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The known event times, the same on every worker."""
        assert not self._rows, "rows wait at a snapshot"
        del changes_only
        self.rows_late = self._late_rows
        return {name: Piece(each.saved(), ()) for name, each in self._named_bounds()}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with what was known."""
        for name, each in self._named_bounds():
            each.load(pieces[name])

    def _named_bounds(self) -> Iterator[tuple[str, Bounds]]:
        for number, each in enumerate(self._bounds):
            yield f"bounds {number}" if number else "bounds", each


# What stands above an operator in a plan: all of which something comes to it.


def above(builder: PlanBuilder, start: OperatorIndex) -> set[OperatorIndex]:
    """An operator, and all of which something comes to it."""
    seen, waiting = {start}, [start]
    while waiting:
        new = [each for each in next_above(builder, waiting.pop()) if each not in seen]
        seen.update(new)
        waiting.extend(new)
    return seen


def next_above(builder: PlanBuilder, index: OperatorIndex) -> Iterator[OperatorIndex]:
    """The operators whose outputs an operator reads."""
    for port in builder.plan.nodes[index].inputs:
        if port.source is not None:
            yield port.source.operator
