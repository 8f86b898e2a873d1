"""Traces of runs with crashes, by generation, as JSON lines.

The first line is the header: the shape of the flow, how many workers, how the run ended, up to which epoch it
was published, and the command that repeats it. Each further line is a generation and what happened in it. A
trace is enough to explain the run (``pointstamp explain``); what was published is not in it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pointstamp.dashboard.sight import Json
from pointstamp.errors import UsageError
from pointstamp.simulate.crash.events import GenerationBegan, Happened, WorldEvent, describe_world_event
from pointstamp.simulate.crash.explaining import Explained, explain_run
from pointstamp.verify.abstract_state import AbstractState, BrokenError
from pointstamp.verify.conformance import ModelRules, Status
from pointstamp.verify.model_steps import ModelSteps
from pointstamp.verify.recorded import RecordedRun, began, modelled, step_of, window
from pointstamp.verify.shape import Shape, Walker
from pointstamp.worker.events import Event

FORMAT: Final = "pointstamp crashes 2"


class CrashHeader(msgspec.Struct, frozen=True):
    """The header of a trace: everything known before the first event."""

    flow: str
    workers: int
    shape: Shape
    ended: str
    reason: str
    replay: str
    published_through: int
    format: str = FORMAT
    since: int = -1
    """The epoch of the savepoint that the query began with."""


class CrashTrace(msgspec.Struct, frozen=True):
    """A run with crashes as it is saved."""

    header: CrashHeader
    happened: tuple[Happened, ...]

    def explained(self) -> Explained:
        """The failure-free run that explains it, judged."""
        return explain_run(
            Walker(self.header.shape),
            self.header.workers,
            self.happened,
            committed=self.header.published_through,
            is_complete=self.header.ended == "complete",
            since=self.header.since,
        )


def save_crashes(trace: CrashTrace, path: Path) -> None:
    """Write a trace to a file."""
    encode = msgspec.json.encode
    path.write_bytes(b"\n".join([encode(trace.header), *map(encode, trace.happened), b""]))


def load_crashes(path: Path) -> CrashTrace:
    """Read a trace from a file; UsageError if it holds none."""
    try:
        first, _, rest = path.read_bytes().partition(b"\n")
        header = msgspec.json.decode(first, type=CrashHeader)
        decode = msgspec.json.Decoder(tuple[int, Event | WorldEvent]).decode
        happened = tuple(Happened(*decode(line)) for line in rest.split(b"\n")[:-1])
    except OSError as error:
        raise UsageError(f"{path} cannot be read as a trace: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{path} is not a trace of a run with crashes: {error}. Write one with pointstamp simulate "
            "FLOW.py --crashes 0-4 --trace FILE."
        ) from error
    if header.format != FORMAT:
        raise UsageError(
            f"{path}: expected format {FORMAT!r}, got {header.format!r}. Read it with the "
            "version that wrote it."
        )
    return CrashTrace(header, happened)


def has_crashes(path: Path) -> bool:
    """Return whether a file begins as a trace of a run with crashes does."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.readline(), type=_Formatted).format == FORMAT
    except (OSError, msgspec.MsgspecError):
        return False


class _Formatted(msgspec.Struct):
    """The first line of any trace."""

    format: int | str = 0


# Replay a trace with crashes in the models' state, generation by generation.
#
# What happens to the query is a step, too: a crash, a generation that begins and where it continues, ticks
# and commits. A generation begins with the counts of the protocol, and its first changes bring what was
# saved, so the models can follow a recovery like anything else.


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
