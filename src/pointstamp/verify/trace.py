"""Traces: the events of a run as JSON lines, enough to verify and repeat it.

The first line is the header: the shape of the flow, how many workers, how the run ended, and the command that
repeats it. Each further line is one event. The same run gives the same bytes in every process.

A flow's own root times are written as they are, if they are made of tuples, strings, numbers and None; other
types would come back as something else, and are refused. The order of such times is the user's code and in
no file: to judge a trace that was loaded, the flow has to be at hand.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pointstamp.errors import UsageError
from pointstamp.progress.pointstamp import Change
from pointstamp.topology.ports import Location
from pointstamp.verify.conformance import Status, Verdict, judge
from pointstamp.verify.shape import OwnTimes, Shape, Stamp, Walker
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    Counted,
    Event,
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    NotificationAsked,
    Notified,
    ProgressReceived,
    ProgressSent,
    ProgressSummed,
    SnapshotTaken,
    SumReceived,
    WorkerStarted,
)

FORMAT: Final = 2
_LINES_MAX: Final = 60
"""The most lines of a prefix that are printed; the file has all of them."""
_INTEGER_MAX: Final = 2**63 - 1
_NESTED: Final = (tuple, Change, Counted)


class Header(msgspec.Struct, frozen=True):
    """The header of a trace: everything known before the first event."""

    flow: str
    workers: int
    shape: Shape
    ended: str
    reason: str
    replay: str
    """The command that repeats the run."""
    format: int = FORMAT
    left_out: int = 0
    """The number of events before the first that were not kept."""

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing was left to do, so that everything must be complete."""
        return self.ended in ("complete", "stuck")


class Trace(msgspec.Struct, frozen=True):
    """A run as it is saved."""

    header: Header
    events: tuple[Event, ...]

    def judged(self, own: OwnTimes | None = None) -> Verdict:
        """The verdict; unknown for a run that was broken off and did nothing wrong until then.

        For a flow with custom times, give what compares them: ``own_times_of(plan)``.
        """
        if self.header.shape.has_own_times and own is None:
            return Verdict(Status.UNKNOWN, reason="verifying it needs the order of the flow's custom times")
        walker = Walker(self.header.shape, own)
        verdict = judge(walker, self.header.workers, self.events, at_rest=self.header.is_at_rest)
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
    """The trace as lines of JSON; a UsageError where its times cannot be written exactly."""
    if trace.header.shape.has_own_times:
        for event in trace.events:
            check_writable(trace.header.flow, (getattr(event, name) for name in event.__struct_fields__))
    encode = msgspec.json.encode
    return b"\n".join([encode(trace.header), *map(encode, trace.events), b""])


def from_bytes(data: bytes) -> Trace:
    """The trace that ``to_bytes`` wrote."""
    first, _, rest = data.partition(b"\n")
    header = msgspec.json.decode(first, type=Header)
    if header.format != FORMAT:
        raise UsageError(
            f"expected a trace of format {FORMAT}, got format {header.format}. Read it with "
            "the version that wrote it."
        )
    decode = msgspec.json.Decoder(Event).decode
    events = map(decode, rest.split(b"\n")[:-1])
    return Trace(header, tuple(map(_exactly, events) if header.shape.has_own_times else events))


def check_writable(flow: str, values: Iterable[Any]) -> None:
    """Raise UsageError if a value, such as a time, would not come back from a file as it was."""
    for value in values:
        match value:
            case _ if type(value) in _NESTED:
                check_writable(flow, value)
            case _ if type(value) is dict:
                check_writable(flow, value.values())
            case bool() | None:
                continue
            case _ if type(value) is str and _is_unicode(value):
                continue
            case _ if type(value) is float and math.isfinite(value):
                continue
            case _ if type(value) is int and abs(value) <= _INTEGER_MAX:
                continue
            case _:
                raise UsageError(
                    f"flow '{flow}' has times that contain {value!r} of type {type(value).__name__}, which "
                    "cannot be written to a trace. Make times of tuples, strings, numbers and None."
                )


def _is_unicode(text: str) -> bool:
    """Return whether the text can be written at all; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _exactly(event: Event) -> Event:
    """The event with tuples in its times; no time has lists, because times can be hashed."""
    kind: Any = type(event)
    read: Event = kind(*(_tuples(getattr(event, name)) for name in event.__struct_fields__))
    return read


def _tuples(value: Any) -> Any:  # noqa: ANN401 - whatever stands in an event
    if isinstance(value, Change | Counted):
        return type(value)(*map(_tuples, value))
    if isinstance(value, list | tuple):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {at: _tuples(part) for at, part in value.items()}
    return value


def save(trace: Trace, path: Path) -> None:
    """Write a trace to a file."""
    path.write_bytes(to_bytes(trace))


def load(path: Path) -> Trace:
    """Read a trace from a file; a UsageError where there is none."""
    try:
        return from_bytes(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read as a trace: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is not a trace of pointstamp: {error}.") from error


def describe_event(shape: Shape, event: Event) -> str:
    """Return an event as text."""

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
            act = "acquired" if event.diff > 0 else "dropped"
            return f"{who} {act} the capability for {at(event.location, event.time)}"
        case ActivationEnded():
            return f"{who} ended an activation with {_changes(shape, event.changes)}"
        case ProgressSent():
            return f"{who} broadcast batch {event.sequence}: {_changes(shape, event.changes)}"
        case ProgressReceived():
            return f"{who} received batch {event.sequence} of worker {event.sender}"
        case ProgressSummed():
            parts = [f"batch {number} of worker {sender}" for sender, number in event.batches]
            parts += [f"sum {number} of worker {sender}" for sender, number in event.sums]
            return f"{who} consolidated, as sum {event.sequence}: {', '.join(parts)}"
        case SumReceived():
            return f"{who} received sum {event.sequence}"
        case FrontiersMoved():
            return f"{who} propagated: {_frontiers(shape, event.frontiers) or 'no frontier moved'}"
        case FrontiersShown():
            return f"{who} called an operator that watches {_frontiers(shape, event.frontiers)}"
        case NotificationAsked():
            return f"{who}: {shape.operator(event.operator)} requested a notification for {event.time}"
        case Notified():
            return f"{who} notified {shape.operator(event.operator)} that {event.time} is complete"
        case SnapshotTaken():
            return f"{who} took the snapshot of epoch {event.epoch} of {shape.operator(event.operator)}"


def _changes(shape: Shape, changes: tuple[tuple[int, Stamp, int], ...]) -> str:
    return ", ".join(f"{diff:+} of {time} at {shape.ports[at].name}" for at, time, diff in changes)


def _frontiers(shape: Shape, frontiers: Mapping[Location, tuple[Stamp, ...]]) -> str:
    return ", ".join(
        f"{shape.ports[at].name}: {'{' + ', '.join(map(str, times)) + '}'}" for at, times in frontiers.items()
    )
