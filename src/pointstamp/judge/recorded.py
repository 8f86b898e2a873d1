"""A recorded run as a page shows it: every event as text, what it changes, and the models' state beside it.

``RecordedRun`` is what is shown, of whatever kind the trace was. What a worker holds, counts and knows at a
step follows from where the run began and the events up to there, and the page adds them up. The models' state
goes along as far as the judge could follow: up to the event that it objects to, or to the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pointstamp.dashboard.sight import Json
from pointstamp.judge.conformance import Status
from pointstamp.judge.shape import Shape
from pointstamp.judge.stepping import Frontiers, ModelChange, ModelState
from pointstamp.judge.trace import describe_event
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


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run that can be stepped through."""

    flow: str
    shape: Shape
    workers: int
    ended: str
    reason: str
    replay: str
    status: Status
    verdict: str
    steps: Sequence[Json]
    first: int
    """The number of the first event that is shown."""
    events: int
    """How many events the run has."""
    flaw: int | None
    """The event that the judge objects to."""
    followed: int
    """Before this event the models' state is known."""
    unfollowed: str
    """Why it is not known from there on; empty where it is, or where the event is the flaw."""


def about_recorded(run: RecordedRun) -> Json:
    """Return the constant data of the page."""
    last = run.first + len(run.steps) - 1
    opens = run.flaw if run.flaw is not None else last if run.status is not Status.VALID or run.reason else 0
    return {
        "kind": "trace",
        "title": run.flow,
        "phase": f"a recorded run, {run.ended}",
        "control": False,
        "workers": run.workers,
        "ended": run.ended,
        "reason": run.reason,
        "replay": run.replay,
        "verdict": run.verdict,
        "flaw": run.flaw,
        "opens": max(opens, run.first),
        "first": run.first,
        "followed": run.followed,
        "unfollowed": run.unfollowed,
        "graph": graph_of(run.shape),
        "ports": [
            {"name": port.name, "operator": port.operator, "output": port.is_output}
            for port in run.shape.ports
        ],
        "figures": [
            ["events", str(run.events)],
            ["workers", str(run.workers)],
            ["ended", run.ended],
            ["verdict", run.status.value],
        ],
    }


def window(events: int, flaw: int | None) -> tuple[int, int]:
    """Return the range of events for a page: the first ones, or those around a violation."""
    if flaw is None:
        return 0, min(events, EVENTS_MAX)
    end = min(events, flaw + EVENTS_MAX // 10)
    return max(0, end - EVENTS_MAX), end


def step_of(shape: Shape, event: Event, generation: int = 0) -> Json:
    """One event as the page steps over it."""
    return {
        "generation": generation,
        "worker": event.worker,
        "kind": type(event).__name__,
        "words": describe_event(shape, event),
        **_changes(event),
    }


def began(state: ModelState) -> Json:
    """The initial state of a run: each worker's state and the models' state."""
    return {
        "exists": state.exists,
        "frontiers": _json(state.frontiers),
        "workers": [
            {
                "owns": each.owns,
                "arriving": each.arriving,
                "told": each.told,
                "shown": _json(each.shown),
                "implied": _json(each.implied),
            }
            for each in state.workers
        ],
    }


def modelled(change: ModelChange) -> Json:
    """Return the changes of an event to the models' state; empty for most."""
    if not any(change):
        return {}
    told = {
        "exists": change.exists,
        "frontiers": _json(change.frontiers),
        "implied": _json(change.implied),
    }
    return {"model": {name: each for name, each in told.items() if each}}


def graph_of(shape: Shape) -> Json:
    """Return the operators of a shape and their edges; feedback edges turn back."""
    names = {port.operator: shape.operator(port.operator).strip("'") for port in shape.ports}
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


def _changes(event: Event) -> dict[str, Any]:
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


def _json(frontiers: Frontiers) -> Json:
    return {str(at): times for at, times in frontiers.items()}
