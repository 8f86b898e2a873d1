"""What holds event time back, in words: which input or stream, at which event time, since when it is silent.

Where epochs are event time the driver itself knows how far each input is. Of streams with a promise
(``stream.event_time``) it knows what members told with their last snapshot.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from pointstamp.expressions.windows import instants_of
from pointstamp.flow.in_time import InTime, InTimePlan
from pointstamp.flow.plan import Node, NodeKind, Plan
from pointstamp.query.silence import Silence
from pointstamp.rows.epochcolumn import EpochColumn, EventEpochs


@dataclass(frozen=True, slots=True)
class _Holding:
    """An input, or a stream that is made of inputs, and how far event time has passed there."""

    who: str
    bound: int | None
    kind: pa.DataType
    inputs: Sequence[str]


def epochs_words(
    columns: Mapping[str, EpochColumn], complete: Mapping[str, int], silence: Silence, now_seconds: float
) -> list[str]:
    """What holds event time back where epochs are that: ``complete`` has the epoch of each open input."""
    found = [
        _Holding(f"input '{name}'", complete[name] * epochs.every or None, epochs.kind, [name])
        for name, epochs in columns.items()
        if isinstance(epochs, EventEpochs) and name in complete
    ]
    return list(_words(found, silence, now_seconds))


def streams_words(
    plan: Plan, output: str, latest: Mapping[str, int], silence: Silence, now_seconds: float
) -> list[str]:
    """What holds event time back for an output: ``latest`` has the greatest event times by operator."""
    found = []
    for node in nodes_above(plan, plan.named(NodeKind.OUTPUT)[output]):
        if isinstance(node.logic, partial) and node.logic.func is InTime:
            said: InTimePlan = node.logic.args[0]
            bound = latest[node.name] - said.lateness if node.name in latest else None
            inputs = [each.name for each in nodes_above(plan, node) if each.kind is NodeKind.INPUT]
            found.append(_Holding(f"stream '{said.stream}'", bound, said.kind, inputs))
    return list(_words(found, silence, now_seconds))


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
        return ", for it has had no row"
    return f" at {instants_of(pa.array([holding.bound], pa.int64()), holding.kind)[0]}"


def _since(holding: _Holding, silence: Silence, now_seconds: float) -> str:
    seconds = min((silence.seconds_of(name, now_seconds) for name in holding.inputs), default=0.0)
    patience = {silence.idle_seconds_of(name) for name in holding.inputs}
    said = f"nothing has come from it for {seconds:.1f} seconds"
    if None in patience:
        return f"{said}, and idle= does not say after how long the others may go on"
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
