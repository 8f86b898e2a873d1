"""Replay a trace with crashes in the models' state, generation by generation.

What happens to the query is a step, too: a crash, a generation that begins and where it continues, ticks and
commits. A generation begins with the counts of the protocol, and its first changes bring what was saved, so
the models can follow a recovery like anything else.
"""

from dataclasses import dataclass, field

from pointstamp.dashboard.sight import Json
from pointstamp.judge.abstract import AbstractState
from pointstamp.judge.conformance import ModelRules, Status
from pointstamp.judge.recorded import RecordedRun, began, modelled, step_of, window
from pointstamp.judge.rules import BrokenError
from pointstamp.judge.shape import Shape, Walker
from pointstamp.judge.stepping import ModelSteps
from pointstamp.simulate.crash.events import GenerationBegan, Happened, WorldEvent, describe_world_event
from pointstamp.simulate.crash.trace import CrashTrace


def recorded_crashes(trace: CrashTrace) -> RecordedRun:
    """A trace as it is shown."""
    header = trace.header
    following = _Following(header.shape)
    steps = [following.step(each) for each in trace.happened]
    first, end = window(len(steps), following.flaw)
    status, verdict = _verdict(trace, following)
    return RecordedRun(
        header.flow,
        header.shape,
        max([header.workers, *following.workers.values()]),
        header.ended,
        header.reason,
        header.replay,
        status,
        verdict,
        steps[first:end],
        first,
        len(steps),
        following.flaw,
        end if following.flaw is None else following.flaw,
        "",
    )


@dataclass(slots=True)
class _Following:
    """Follows all generations, until the models object to an event."""

    shape: Shape
    flaw: int | None = None
    objection: str = ""
    workers: dict[int, int] = field(default_factory=dict)
    models: dict[int, ModelSteps] = field(default_factory=dict)
    number: int = -1

    def step(self, happened: Happened) -> Json:
        """Return the next step, with the models' state as long as they apply."""
        self.number += 1
        generation, event = happened
        if isinstance(event, WorldEvent):
            return self._world_step(generation, event)
        step = step_of(self.shape, event, generation)
        if self.flaw is None:
            try:
                step |= modelled(self.models[generation].take(event))
            except BrokenError as error:
                self.flaw, self.objection = self.number, f"{error.property}: {error}"
        return step

    def _world_step(self, generation: int, event: WorldEvent) -> Json:
        who = f"generation {generation}: " if generation > 0 else ""
        step: Json = {
            "generation": generation,
            "worker": None,
            "kind": type(event).__name__,
            "words": f"{who}{describe_world_event(event)}",
        }
        if isinstance(event, GenerationBegan):
            state = AbstractState(Walker(self.shape), event.workers)
            self.models[generation] = ModelSteps(state, ModelRules(state).take)
            self.workers[generation] = event.workers
            step["began"] = began(self.models[generation].whole())
        return step


def _verdict(trace: CrashTrace, following: _Following) -> tuple[Status, str]:
    if following.flaw is not None:
        return Status.INVALID, f"invalid at event {following.flaw}: {following.objection}"
    if trace.header.reason:
        return Status.INVALID, f"invalid: {trace.header.reason}"
    if trace.header.ended != "complete":
        return Status.UNKNOWN, f"unknown: the run was broken off ({trace.header.ended})"
    flaw = trace.explained().flaw
    if flaw is not None:
        return Status.INVALID, f"invalid: {flaw}"
    return Status.VALID, "valid: a run without failures explains it"
