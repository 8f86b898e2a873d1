"""Event time in a plan: where it is promised, and for whom.

What is made of a stream with event time, by any operations, goes by the bound of that stream. So nothing is
carried along: whoever waits for event time looks for it in the plan, from where it stands up to the inputs,
and goes by the least bound of all that it finds. What comes from inputs without event time, such as a table
of names that is joined, has no say in it. A query in SQL has one clock, that of all tables that it reads,
wherever in the query something waits for it.

An operator that keeps rows for ever must not stand between a promise and who waits for it, or the promise
would be of no use: rows of windows that are over are to be forgotten before it (``retain_until``).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import get_args

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.windows import Span, event_time_type, span_of
from pointstamp.flow.above import above, next_above
from pointstamp.flow.builder import EventTimeMark, PlanBuilder, wired
from pointstamp.flow.idle import idle_seconds, judge_together, silences
from pointstamp.flow.in_time import BOUND, LATE_COUNT, InTime, InTimePlan
from pointstamp.flow.outlet import AnOutlet, add_operator, wiring
from pointstamp.flow.pact import EVERYWHERE, ExchangeBy
from pointstamp.flow.plan import NodeKind
from pointstamp.flow.updates import Passes
from pointstamp.operators.endpoints import Collect
from pointstamp.operators.event_time import LATEST, Latest, LatestOrSilent
from pointstamp.operators.spec import spec
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.reduce.reductions import WindowedReduce, reduced_schema
from pointstamp.rows.late import LatePolicy
from pointstamp.topology.domain import EPOCHS
from pointstamp.topology.ports import OperatorIndex


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
        raise FlowError(f"{who} needs epochs, outside loops: say it of the stream before it enters a loop.")
    check_columns(who, stream.schema, [at])
    if late not in get_args(LatePolicy):
        raise FlowError(f"{who}: late= must be one of {', '.join(get_args(LatePolicy))}, and is {late!r}.")
    if late == "error" and late_output is not None:
        raise FlowError(f"{who}: late_output names an output for late rows, which are errors. Leave it out.")
    found = stream.schema.field(at).type
    kind = event_time_type(f"{who}, of '{at}',", found)
    length = span_of(f"{who}: lateness", found, lateness)
    if length < 0:
        raise FlowError(f"{who} needs a lateness of 0 or more, and was given {lateness!r}.")
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
    """How many they were on all workers together."""
    aggregates = {"rows": Aggregate("sum", "rows")}
    schema = reduced_schema(name, LATE_COUNT, ("stream",), aggregates)
    logic = spec(WindowedReduce, LATE_COUNT, ("stream",), aggregates)
    at = wiring(counts)
    by = type(counts)(at.builder, at.source, LATE_COUNT, (), ExchangeBy(("stream",)))
    return add_operator(name, logic, {"in": by}, {"out": schema})[0]


@contextmanager
def one_clock(streams: Iterable[AnOutlet]) -> Iterator[None]:
    """Let all that is written meanwhile go by the least watermark of these streams, besides its own."""
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
    """Whether there is a watermark by which something that is made of a stream can wait."""
    builder = wiring(stream).builder
    marks = builder.event_times.keys()
    starts = (wiring(stream).source.operator, *_clock_of_query(builder))
    return any(not marks.isdisjoint(above(builder, start)) for start in starts)


def _clock_of_query(builder: PlanBuilder) -> tuple[OperatorIndex, ...]:
    return builder.clock


def has_promise(stream: AnOutlet) -> bool:
    """Whether something that a stream is made of has a promise about its event time."""
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
        raise FlowError(f"{who} stands in a loop, where event time does not pass. Leave the loop first.")
    sources = [wiring(each).source.operator for each in (stream, *others)]
    sources += _clock_of_query(builder)
    found = {index: mark for each in sources for index, mark in _marks_above(builder, each)}
    marks = list(found.values())
    if not marks:
        raise FlowError(
            f"{who} waits for event time, and no stream that it is made of has one. Say how late its rows "
            "may be: stream.event_time('at', lateness='2 minutes')."
        )
    kinds = {mark.kind for mark in marks}
    if len(kinds) > 1:
        said = " and ".join(f"'{mark.stream}' has {mark.kind}" for mark in marks)
        raise FlowError(f"{who} is made of several event times, which must be of one type; {said}.")
    judge_together(builder, found, who)
    told = {
        f"{BOUND} {number}": type(stream)(builder, mark.latest, LATEST, (), EVERYWHERE)
        for number, mark in enumerate(marks)
    }
    return marks[0].kind, told, dict(zip(told, (mark.lateness for mark in marks), strict=True))


def check_forgets(stream: AnOutlet, who: str) -> None:
    """Refuse an operator that keeps rows for ever between here and a promise about event time."""
    builder = wiring(stream).builder
    for name in _keepers_above(builder, wiring(stream).source.operator):
        raise FlowError(
            f"{who} waits for event time to be over, but '{name}' before it would keep all rows for ever. "
            f"Let rows go before it: table.retain_until('window_end') in front of '{name}'."
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
