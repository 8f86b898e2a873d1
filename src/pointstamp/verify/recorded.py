"""A recorded run as a page: events as text with the state of the models.

``RecordedRun`` is what is shown, of whatever kind the trace was. What a worker holds, counts and knows at a
step follows from where the run began and the events up to there, and the page adds them up. The models' state
goes along as far as the judge could follow: up to the event that it objects to, or to the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pointstamp.dashboard.sight import Json, SightError
from pointstamp.verify.abstract_state import AbstractState, BrokenError
from pointstamp.verify.conformance import ModelRules, Status, Verdict
from pointstamp.verify.model_steps import Frontiers, ModelChange, ModelState, ModelSteps
from pointstamp.verify.shape import Shape, Walker
from pointstamp.verify.trace import Trace, describe_event
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
    """The number of events of the run."""
    flaw: int | None
    """The event that the judge objects to."""
    followed: int
    """Before this event the models' state is known."""
    unfollowed: str
    """The reason why it is unknown from there on; empty if it is known, or if the event is the flaw."""


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
    """The changes of an event to the capabilities, counts and frontiers of a worker."""
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


# Replay a trace without crashes in the models' state, for ``pointstamp dashboard TRACE``.
#
# It is judged once as a whole, and then followed event by event over the part that is shown. Where the
# beginning was left out, or the order of times is the user's code, the models cannot follow; it is said why.

_OWN_TIMES: Final = "the flow has times of its own, and their order is in no file"


def recorded_run(trace: Trace) -> RecordedRun:
    """A trace as it is shown."""
    header, events = trace.header, trace.events
    unfollowed = _cannot_follow(trace)
    verdict = Verdict(Status.UNKNOWN, reason=unfollowed) if unfollowed else trace.judged()
    flaw = verdict.event if verdict.status is Status.INVALID else None
    if unfollowed and header.left_out:
        flaw = len(events) - 1  # the judge that wrote it stopped there
    first, end = window(len(events), flaw)
    steps = [step_of(header.shape, event) for event in events[first:end]]
    followed = first if unfollowed else _follow(trace, first, steps)
    return RecordedRun(
        header.flow,
        header.shape,
        header.workers,
        header.ended,
        header.reason,
        header.replay,
        verdict.status,
        str(verdict),
        steps,
        first,
        len(events),
        flaw,
        followed,
        unfollowed,
    )


def _cannot_follow(trace: Trace) -> str:
    if trace.header.shape.has_own_times:
        return _OWN_TIMES
    if trace.header.left_out:
        return f"the first {trace.header.left_out:,} events are not in the trace"
    return ""


def _follow(trace: Trace, first: int, steps: list[Json]) -> int:
    """Put the models' state beside the steps; the number of the event that they could not follow."""
    state = AbstractState(Walker(trace.header.shape), trace.header.workers)
    model = ModelSteps(state, ModelRules(state).take)
    number = 0
    try:
        for event in trace.events[:first]:
            model.pass_over(event)
            number += 1
        if steps:
            steps[0]["began"] = began(model.whole())
        for step, event in zip(steps, trace.events[first:], strict=False):
            step |= modelled(model.take(event))
            number += 1
    except (BrokenError, ValueError):
        return number  # the verdict says what it is
    return number


# A trace as a dashboard shows it: stepped through, with the models' state beside it.


class TraceSight:
    """A recorded run."""

    def __init__(self, run: RecordedRun) -> None:
        self._run = run

    @property
    def is_over(self) -> bool:
        """It is shown until it is closed."""
        return False

    def about(self) -> Json:
        """The flow, how the run ended, and what the judge says."""
        return about_recorded(self._run)

    def moment(self) -> Json:
        """Nothing happens any more."""
        return {}

    def history(self, since: float) -> Json:
        """The events, in their order."""
        del since
        return {"events": self._run.steps}

    def why(self, output: str) -> Json:
        """The page has all that there is to know."""
        raise SightError(f"a trace does not run, so nothing holds output '{output}' back.")

    def metrics(self) -> str:
        """There are none."""
        return ""

    def act(self, what: str, given: str) -> str:
        """A trace cannot be told anything."""
        raise SightError(f"a trace does not accept the command '{what} {given}'.")
