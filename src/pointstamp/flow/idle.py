"""Streams that may fall silent: how they are told so, and by whom rows are judged that come after all.

An input of which a stream with event time is made gets a port for silence. In each tick in which the driver
finds that it has been silent for too long (``pointstamp.query.silence``), a mark comes out there, in the
epoch of the tick; so it is as durable as the rows of the tick, and comes again in a replay.

Event time then passes without the stream, for whoever waits for it together with others. Rows that come after
all may be behind that. So who judges which rows of the stream are in time goes by the same bounds as those
who wait: for each of them it has the same event times as they have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from pointstamp.errors import FlowError
from pointstamp.expressions.dates import parse_duration
from pointstamp.flow.above import above
from pointstamp.flow.builder import EventTimeMark, PlanBuilder, wired
from pointstamp.flow.in_time import BOUND, InTime
from pointstamp.flow.outlet import AnOutlet, wiring
from pointstamp.flow.pact import EVERYWHERE
from pointstamp.flow.plan import Node, NodeKind, OutputPort
from pointstamp.operators.event_time import SILENT, SILENT_PORT
from pointstamp.operators.spec import spec, spec_of
from pointstamp.topology.ports import OperatorIndex, SourcePort


def idle_seconds(what: str, idle: str | timedelta | None) -> float | None:
    """For how long an input may be silent before event time passes without it; None: for ever."""
    if idle is None:
        return None
    seconds = parse_duration(idle, what).total_seconds()
    if seconds <= 0:
        raise FlowError(f"{what} must be above 0, and is {idle!r}.")
    return seconds


def silences(stream: AnOutlet, seconds: float, who: str) -> dict[str, AnOutlet]:
    """The marks of silence of all inputs of which a stream is made, by names for an operator's inputs."""
    builder = wiring(stream).builder
    nodes = (builder.plan.nodes[index] for index in sorted(above(builder, wiring(stream).source.operator)))
    inputs = [node for node in nodes if node.kind is NodeKind.INPUT]
    for node in inputs:
        if node.idle_seconds not in (None, seconds):
            raise FlowError(
                f"{who}: idle= is {seconds:g} seconds, and input '{node.name}', of which it is made, was "
                f"said to be silent after {node.idle_seconds:g} seconds; give both the same."
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
    """Let rows of streams that may fall silent be judged by the bound that these streams have together."""
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
                f"{who}: '{mark.stream}' may fall silent, and '{other.stream}' is made of it, so lateness "
                "of its rows would be undefined. Leave idle= out."
            )
        name = f"{BOUND} of '{builder.plan.nodes[other.latest.operator].name}'"
        together[name] = other.lateness
        if name not in [port.name for port in node.inputs]:
            node.inputs.append(wired(name, other.latest, EVERYWHERE))
    if together not in plan.together:
        node.logic = spec(InTime, replace(plan, together=(*plan.together, together)))
