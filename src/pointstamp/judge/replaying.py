"""Replay a trace without crashes in the models' state, for ``pointstamp dashboard TRACE``.

It is judged once as a whole, and then followed event by event over the part that is shown. Where the
beginning was left out, or the order of times is the user's code, the models cannot follow; it is said why.
"""

from typing import Final

from pointstamp.dashboard.sight import Json
from pointstamp.judge.abstract import AbstractState
from pointstamp.judge.conformance import ModelRules, Status, Verdict
from pointstamp.judge.recorded import RecordedRun, began, modelled, step_of, window
from pointstamp.judge.rules import BrokenError
from pointstamp.judge.shape import Walker
from pointstamp.judge.stepping import ModelSteps
from pointstamp.judge.trace import Trace

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
