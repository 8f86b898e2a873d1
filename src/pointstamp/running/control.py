"""What the driving process and its workers say to each other, as values and as bytes.

The driving process is a member of the workers' mesh, after the last worker, and is no worker itself: it sends
rows, times and questions, and workers send results, frontiers, answers and errors. All of it is msgpack with
a type, plus Arrow bodies where rows travel; nothing is unpickled. An error travels as its kind, one of
``pointstamp.errors`` by name, its message, and the text of its traceback.

Invariant: a worker's results of a time are sent before the frontier that says that the time is complete.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from pointstamp import errors
from pointstamp.errors import InternalError, OperatorError, PointstampError, StorageError, words_of
from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.mesh.wire import BatchFormat, MessageKind, TimeFormat, unreadable
from pointstamp.topology.domain import Time

# From the driving process to a worker.


class SendRows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Send the rows that follow into an input, at its current time; or into its port for late rows."""

    input: str
    late: bool = False


class AdvanceInput(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Promise that nothing will be sent before this time any more."""

    input: str
    time: Any


class CloseInput(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Promise that nothing will be sent any more."""

    input: str


class WatchFrontier(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell the frontier of a location now and whenever it moves."""

    location: int


class AskCounts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell every pointstamp that is counted."""


class Sync(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answer when there is nothing to do."""

    wave: int


class Stop(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """End, wherever you are."""


Order: TypeAlias = SendRows | AdvanceInput | CloseInput | WatchFrontier | AskCounts | Sync | Stop

# From a worker to the driving process.


class Started(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has met the others."""


class ResultRows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What a worker has for an output at a time that is complete; the rows follow."""

    output: str
    time: Any


class FrontierAt(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The frontier of a location as the worker knows it."""

    location: int
    times: list[Any]


class Counts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Every pointstamp that the worker knows to be counted: location, time, count."""

    counts: list[tuple[int, Any, int]]


class Synced(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has nothing to do, and has sent and received so many messages of the flow."""

    wave: int
    sent: int
    received: int
    is_complete: bool


class EventsTold(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What has happened on the worker since the last time, for a judge; it comes before what rests on it."""

    events: bytes


class Failed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has ended with an error."""

    kind: str
    message: str
    traceback: str


class InCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has been inside one call of an operator for so long; without an operator, it is over.

    It is told by another thread than the worker's, which can tell nothing itself (``running.lookout``).
    """

    operator: str
    when: str
    time: str
    seconds: float


Report: TypeAlias = Started | ResultRows | FrontierAt | Counts | Synced | EventsTold | InCall | Failed

_encode = msgspec.msgpack.Encoder().encode
_decode_order = msgspec.msgpack.Decoder(Order).decode
_decode_report = msgspec.msgpack.Decoder(Report).decode


def post(mesh: Mesh, member: int, content: Order | Report, bodies: Sequence[pa.Buffer] = ()) -> None:
    """Put an order or a report on its way."""
    mesh.post(member, MessageKind.CONTROL, _encode(content), bodies)


def order_in(parcel: Parcel) -> Order:
    """The order that came from the driving process."""
    try:
        order: Order = _decode_order(parcel.header)
    except msgspec.MsgspecError as error:
        raise unreadable("the driving process", str(error)) from error
    return order


def report_in(parcel: Parcel) -> Report:
    """The report that came from a worker."""
    try:
        if parcel.kind != MessageKind.CONTROL:
            raise ValueError(f"kind {parcel.kind}, which only workers take")
        report: Report = _decode_report(parcel.header)
    except (msgspec.MsgspecError, ValueError) as error:
        raise unreadable(f"worker {parcel.sender}", str(error)) from error
    return report


def rows_in(parcel: Parcel, rows: BatchFormat, sender: str) -> list[pa.RecordBatch]:
    """The batches that follow an order or a report."""
    try:
        return [rows.decode(body) for body in parcel.bodies]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(sender, f"{type(error).__name__}: {error}") from error


def time_in(parcel: Parcel, times: TimeFormat, time: object, sender: str) -> Time:
    """A time of an order or a report, exactly as it was sent."""
    try:
        return times.restore(time)
    except ValueError as error:
        raise unreadable(sender, str(error)) from error


class CallsHeard:
    """The long calls that workers have reported; changed by the thread that hears their reports."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[InCall, float]] = {}

    def hear(self, worker: int, report: object) -> None:
        """Take note of a report: a worker that says anything else has left that call."""
        if isinstance(report, InCall) and report.operator:
            self._told[worker] = report, monotonic()
        else:
            self._told.pop(worker, None)

    def free(self, workers: int) -> int | None:
        """A worker that can answer; None where all are inside long calls."""
        return next((worker for worker in range(workers) if worker not in self._told), None)

    def words(self) -> list[str]:
        """Who is inside which operator, and for how long, in words."""
        now = monotonic()
        return [
            f"worker {worker} has been inside operator '{call.operator}' for "
            f"{call.seconds + now - heard:.0f} s, which was called {call.when}"
            + (f" at {call.time}" if call.time else "")
            for worker, (call, heard) in sorted(self._told.copy().items())
        ]


def failure_of(error: BaseException, traceback: str) -> Failed:
    """An error as a report."""
    if isinstance(error, PointstampError):
        return Failed(type(error).__name__, str(error), traceback)
    if not isinstance(error, Exception):
        # Nobody interrupts a worker: a function of the flow has raised it, and its operator has left a note.
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        words = "; ".join(notes) or f"a function of the flow has raised {words_of(error)}"
        return Failed(OperatorError.__name__, f"{words}. Raise an Exception there instead.", traceback)
    # What a file or a connection says may be otherwise the next time; a mistake comes again.
    kind = StorageError if isinstance(error, OSError) else InternalError
    return Failed(kind.__name__, words_of(error), traceback)


def error_of(failure: Failed, worker: str) -> PointstampError:
    """The error that a worker reported, with the same message; its traceback there is a note."""
    kind = getattr(errors, failure.kind, InternalError)
    known = isinstance(kind, type) and issubclass(kind, PointstampError)
    error: PointstampError = (kind if known else InternalError)(failure.message)
    error.add_note(f"In {worker}:\n{failure.traceback}")
    return error
