"""The causes that hold the watermark back, as text: input or stream, event time, idle time.

Where epochs are event time the driver itself knows how far each input is. Of streams with a promise
(``stream.event_time``) it knows what members told with their last snapshot.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from pointstamp.arrow.epoch_column import EpochColumn, EventEpochs
from pointstamp.expressions.time_windows import instants_of
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.flow.watermarks import InTime, InTimePlan
from pointstamp.operators.spec import spec_of
from pointstamp.query.intake import Silence


@dataclass(frozen=True, slots=True)
class _Holding:
    """An input, or a stream that is made of inputs, and how far event time has passed there."""

    who: str
    bound: int | None
    kind: pa.DataType
    inputs: Sequence[str]


def epochs_words(
    columns: Mapping[str, EpochColumn],
    complete: Mapping[str, int | None],
    silence: Silence,
    now_seconds: float,
) -> list[str]:
    """The causes that hold event time back if epochs are event time.

    ``complete`` has the epoch of each open input, which is None where it has had no row.
    """
    found = [
        _Holding(f"input '{name}'", None if at is None else at * epochs.every, epochs.kind, [name])
        for name, epochs in columns.items()
        if isinstance(epochs, EventEpochs) and name in complete
        for at in [complete[name]]
    ]
    return list(_words(found, silence, now_seconds))


def streams_words(
    plan: Plan, output: str, latest: Mapping[str, int], silence: Silence, now_seconds: float
) -> list[str]:
    """The causes that hold event time back for an output; ``latest``: greatest event times by operator."""
    return list(_words(_holdings(streams_of(plan, output), latest), silence, now_seconds))


class WatermarkStream(NamedTuple):
    """A stream with a watermark: its operator, what was promised of it, and the inputs that it is made of."""

    operator: str
    said: InTimePlan
    inputs: Sequence[str]


def streams_of(plan: Plan, output: str) -> list[WatermarkStream]:
    """The streams with a watermark of which something comes to an output."""
    return [
        WatermarkStream(
            node.name,
            spec_of(node.logic).parameters["plan"],
            [each.name for each in nodes_above(plan, node) if each.kind is NodeKind.INPUT],
        )
        for node in nodes_above(plan, plan.named(NodeKind.OUTPUT)[output])
        if spec_of(node.logic).kind is InTime
    ]


def streams_behind(
    streams: Sequence[WatermarkStream], latest: Mapping[str, int], silence: Silence
) -> list[str]:
    """The streams for which others wait that are ahead in event time, as text; none where all are as far."""
    found = [each for each in _holdings(streams, latest) if not set(each.inputs) <= silence.inputs]
    bounds = [each.bound for each in found if each.bound is not None]
    if not bounds:
        return []
    least = None if len(bounds) < len(found) else min(bounds)
    return [] if least == max(bounds) else [each.who for each in found if each.bound == least]


def _holdings(streams: Sequence[WatermarkStream], latest: Mapping[str, int]) -> list[_Holding]:
    return [
        _Holding(
            f"stream '{said.stream}'",
            latest[operator] - said.lateness if operator in latest else None,
            said.kind,
            inputs,
        )
        for operator, said, inputs in streams
    ]


def late_names(plan: Plan) -> dict[str, str]:
    """For each operator that finds late rows of a stream: the name by which they are counted.

    That is the input that the stream is made of, or the stream where it is made of several.
    """
    return {
        operator: inputs[0] if len(inputs) == 1 else said.stream
        for output in plan.named(NodeKind.OUTPUT)
        for operator, said, inputs in streams_of(plan, output)
    }


def _words(found: Sequence[_Holding], silence: Silence, now_seconds: float) -> Iterator[str]:
    passed = [each for each in found if set(each.inputs) <= silence.inputs]
    counted = [each for each in found if each not in passed]
    behind = [each for each in counted if each.bound is None]
    if not behind and counted:
        least = min(each.bound for each in counted if each.bound is not None)
        behind = [each for each in counted if each.bound == least]
    for each in behind:
        yield f"{each.who} holds event time back{_at(each)}; {_since(each, silence, now_seconds)}"
    for each in passed:
        yield f"{each.who} does not hold event time back; {_since(each, silence, now_seconds)}"


def _at(holding: _Holding) -> str:
    if holding.bound is None:
        return ", because it has had no row"
    return f" at {instants_of(pa.array([holding.bound], pa.int64()), holding.kind)[0]}"


def _since(holding: _Holding, silence: Silence, now_seconds: float) -> str:
    seconds = min((silence.seconds_of(name, now_seconds) for name in holding.inputs), default=0.0)
    patience = {silence.idle_seconds_of(name) for name in holding.inputs}
    said = f"no row has arrived for {seconds:.1f} seconds"
    if None in patience:
        return f"{said}, and idle= is not set"
    return f"{said}, and idle= is {max(each for each in patience if each is not None):g} seconds"


def nodes_above(plan: Plan, start: Node) -> list[Node]:
    """The nodes of which something comes to one, in the order of the plan."""
    seen, waiting = {start.index}, [start]
    while waiting:
        for port in waiting.pop().inputs:
            if port.source is not None and port.source.operator not in seen:
                seen.add(port.source.operator)
                waiting.append(plan.nodes[port.source.operator])
    return [plan.nodes[index] for index in sorted(seen - {start.index})]
