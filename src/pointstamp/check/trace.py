"""Traces: the events of a run with all that is needed to judge and to repeat it, as lines of JSON in a file.

The first line is the header: the shape of the flow, how many workers, how the run ended, and the command that
repeats it. Each further line is one event. The same run gives the same bytes in every process.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pointstamp.check.conformance import Status, Verdict, judge
from pointstamp.check.shape import Shape, Stamp, Walker
from pointstamp.errors import UsageError
from pointstamp.runtime.events import (
    ActivationEnded,
    CapabilityChanged,
    Event,
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    Notified,
    ProgressReceived,
    ProgressSent,
    WorkerStarted,
)
from pointstamp.topology.ports import Location

FORMAT: Final = 1
_LINES_MAX: Final = 60
"""So many lines of a prefix are printed; the whole is in the file."""


class Header(msgspec.Struct, frozen=True):
    """What is known of a run before its first event."""

    flow: str
    workers: int
    shape: Shape
    ended: str
    reason: str
    replay: str
    """The command that repeats the run."""
    format: int = FORMAT

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing was left to do, so that everything must be complete."""
        return self.ended in ("complete", "stuck")


class Trace(msgspec.Struct, frozen=True):
    """A run as it is saved."""

    header: Header
    events: tuple[Event, ...]

    def judged(self) -> Verdict:
        """What the judge says; unknown for a run that was broken off and did nothing wrong until then."""
        verdict = judge(
            Walker(self.header.shape), self.header.workers, self.events, at_rest=self.header.is_at_rest
        )
        if verdict.status is Status.VALID and not self.header.is_at_rest:
            how = f"the run was broken off ({self.header.ended})"
            return Verdict(Status.UNKNOWN, reason=f"{how}: {self.header.reason}")
        return verdict

    def explained(self, verdict: Verdict) -> str:
        """The verdict for a reader; if invalid with the shortest prefix and the line that repeats it."""
        if verdict.status is not Status.INVALID:
            return str(verdict)
        last = len(self.events) - 1 if verdict.event is None else verdict.event
        lines = [
            f"{number:>6}  {describe_event(self.header.shape, event)}"
            for number, event in enumerate(self.events[: last + 1])
        ]
        if len(lines) > _LINES_MAX:
            lines[1 : 1 - _LINES_MAX] = [f"        ... {len(lines) - _LINES_MAX} events ..."]
        return "\n".join([str(verdict), *lines, f"replay: {self.header.replay}"])


def to_bytes(trace: Trace) -> bytes:
    """The trace as lines of JSON."""
    encode = msgspec.json.encode
    return b"\n".join([encode(trace.header), *map(encode, trace.events), b""])


def from_bytes(data: bytes) -> Trace:
    """The trace that ``to_bytes`` wrote."""
    first, _, rest = data.partition(b"\n")
    header = msgspec.json.decode(first, type=Header)
    if header.format != FORMAT:
        raise UsageError(f"the trace has format {header.format}, and this version reads format {FORMAT}.")
    decode = msgspec.json.Decoder(Event).decode
    return Trace(header, tuple(decode(line) for line in rest.splitlines()))


def save(trace: Trace, path: Path) -> None:
    """Write a trace to a file."""
    path.write_bytes(to_bytes(trace))


def load(path: Path) -> Trace:
    """Read a trace from a file; a UsageError where there is none."""
    try:
        return from_bytes(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a trace: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: is not a trace of pointstamp: {error}.") from error


def describe_event(shape: Shape, event: Event) -> str:
    """An event in words: who, what, and where."""

    def at(location: int, time: Stamp) -> str:
        return f"{time} at {shape.ports[location].name}"

    who = f"worker {event.worker}"
    match event:
        case WorkerStarted():
            return f"{who} started, one of {event.workers}"
        case MessagePulled():
            return f"{who} pulled {at(event.location, event.time)}"
        case MessageSent():
            return (
                f"{who} sent {event.rows} rows of {at(event.source, event.source_time)} to worker "
                f"{event.receiver}, {at(event.target, event.time)}"
            )
        case CapabilityChanged():
            act = "took" if event.diff > 0 else "gave up"
            return f"{who} {act} the capability for {at(event.location, event.time)}"
        case ActivationEnded():
            return f"{who} ended an activation with {_changes(shape, event.changes)}"
        case ProgressSent():
            return f"{who} told everybody, as batch {event.sequence}: {_changes(shape, event.changes)}"
        case ProgressReceived():
            return f"{who} heard batch {event.sequence} of worker {event.sender}"
        case FrontiersMoved():
            return f"{who} propagated: {_frontiers(shape, event.frontiers) or 'no frontier moved'}"
        case FrontiersShown():
            return f"{who} called an operator that watches {_frontiers(shape, event.frontiers)}"
        case Notified():
            names = {
                port.name.partition(" of ")[2] for port in shape.ports if port.operator == event.operator
            }
            return f"{who} told {min(names)} that {event.time} is complete"


def _changes(shape: Shape, changes: tuple[tuple[int, Stamp, int], ...]) -> str:
    return ", ".join(f"{diff:+} of {time} at {shape.ports[at].name}" for at, time, diff in changes)


def _frontiers(shape: Shape, frontiers: Mapping[Location, tuple[Stamp, ...]]) -> str:
    return ", ".join(
        f"{shape.ports[at].name}: {'{' + ', '.join(map(str, times)) + '}'}" for at, times in frontiers.items()
    )
