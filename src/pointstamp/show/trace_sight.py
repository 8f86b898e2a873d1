"""A trace as a dashboard shows it: every event in words, with what it changes for its worker.

The page steps through it: what a worker holds, counts and knows at a step follows from the events up to there
alone, and the page adds them up. What the judge has against the run is said beside it.
"""

from pathlib import Path
from typing import Any, Final

from pointstamp.dashboard.sight import Json, SightError
from pointstamp.judge.conformance import Status
from pointstamp.judge.shape import Shape
from pointstamp.judge.trace import Trace, describe_event, load
from pointstamp.worker.events import (
    CapabilityChanged,
    Event,
    FrontiersMoved,
    MessagePulled,
    MessageSent,
    ProgressReceived,
)

EVENTS_MAX: Final = 20_000
"""A page is given so many events at most."""


class TraceSight:
    """A recorded run."""

    def __init__(self, path: Path) -> None:
        self._trace: Trace = load(path)
        self._path = path

    def about(self) -> Json:
        """The flow, how the run ended, and what the judge says."""
        trace, header = self._trace, self._trace.header
        verdict = trace.judged()
        flaw = verdict.event if verdict.status is Status.INVALID else None
        return {
            "kind": "trace",
            "title": header.flow,
            "phase": f"a recorded run, {header.ended}",
            "control": False,
            "workers": header.workers,
            "ended": header.ended,
            "reason": header.reason,
            "replay": header.replay,
            "verdict": str(verdict),
            "flaw": flaw,
            "graph": _graph(header.shape),
            "ports": [
                {
                    "name": port.name,
                    "operator": port.operator,
                    "output": port.is_output,
                    "least": None if header.shape.has_own_times else [0] * (1 + port.rounds),
                }
                for port in header.shape.ports
            ],
            "figures": [
                ["events", str(len(trace.events))],
                ["workers", str(header.workers)],
                ["ended", header.ended],
                ["verdict", verdict.status.value],
            ],
            "more": max(0, len(trace.events) - EVENTS_MAX),
        }

    def moment(self) -> Json:
        """Nothing happens any more."""
        return {}

    def history(self, since: float) -> Json:
        """The events, in their order."""
        del since
        shape = self._trace.header.shape
        return {
            "events": [
                {
                    "worker": event.worker,
                    "kind": type(event).__name__,
                    "words": describe_event(shape, event),
                    **_data(event),
                }
                for event in self._trace.events[:EVENTS_MAX]
            ]
        }

    def why(self, output: str) -> Json:
        """The page has all that there is to know."""
        raise SightError(f"a trace does not work, so nothing holds output '{output}' back.")

    def metrics(self) -> str:
        """There are none."""
        return ""

    def act(self, what: str, given: str) -> str:
        """A trace cannot be told anything."""
        raise SightError(f"a trace cannot be told '{what} {given}'.")


def _data(event: Event) -> dict[str, Any]:
    """What of an event changes what a worker holds, counts or knows."""
    match event:
        case MessageSent():
            return {"sent": [event.target, event.time, event.receiver, event.rows]}
        case MessagePulled():
            return {"pulled": [event.location, event.time]}
        case CapabilityChanged():
            return {"held": [event.location, event.time, event.diff]}
        case ProgressReceived():
            return {"counts": [list(each) for each in event.counts]}
        case FrontiersMoved():
            return {"frontiers": {str(at): list(times) for at, times in event.frontiers.items()}}
        case _:
            return {}


def _graph(shape: Shape) -> Json:
    """The operators of a shape, and who reads whom; behind one that adds to a round, ways turn back."""
    names = {port.operator: port.name.partition(" of ")[2].strip("'") for port in shape.ports}
    ports = shape.ports
    turning = {
        ports[edge.origin].operator
        for edge in shape.edges
        if not ports[edge.origin].is_output and any(edge.add)
    }
    reads = {ports[edge.target].operator for edge in shape.edges if ports[edge.origin].is_output}
    sends = {port.operator for port in ports if port.is_output}
    edges = [
        {
            "from": ports[edge.origin].operator,
            "to": ports[edge.target].operator,
            "pact": "",
            "again": ports[edge.origin].operator in turning,
            "doors": [],
        }
        for edge in shape.edges
        if ports[edge.origin].is_output
    ]
    kinds = {each: "operator" if each in sends else "output" for each in names}
    kinds |= dict.fromkeys(sends - reads, "input")
    nodes = [
        {"id": each, "name": name, "kind": kinds[each], "scope": [], "columns": ""}
        for each, name in sorted(names.items())
    ]
    return {"nodes": nodes, "edges": edges, "loops": []}
