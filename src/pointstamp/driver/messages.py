"""Control messages between a driver and its workers.

There is one protocol for all drivers: a run to the end of its inputs, in processes or on Spark, or a query.
The driver gives orders and workers report. In a bounded run it sends rows and times, and workers send results
and frontiers; in a query it lets ticks in, of which a member reads its own parts, and the member reports what
it has saved and staged; a gang of Spark tasks has no connection to a driver while it runs, so its reports are
the rows that the job returns. Each message exists once. A receiver of a message that is not said in its kind
of run refuses it (``running.posting``).

All of it is msgpack with a type; where rows travel they follow as Arrow bodies; nothing is unpickled. How an
error becomes a ``Failed``, and a ``Failed`` an error, is said in ``running.failing``.

Invariant: a worker's results of a time are sent before the frontier that says that the time is complete.
"""

import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from pointstamp import errors
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.source import Part
from pointstamp.errors import (
    InternalError,
    OperatorError,
    PointstampError,
    StorageError,
    TransportError,
    words_of,
)
from pointstamp.journal.history import PartSaved
from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.mesh.wire import BatchFormat, Body, MessageKind, TimeFormat, unreadable
from pointstamp.state.memory_budget import KeptRows, KeyRows
from pointstamp.topology.domain import Time


class Failed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has ended with an error: one of ``pointstamp.errors`` by name, its message, its traceback.

    It is a report; in a gang without a driver the other workers are told it, too.
    """

    kind: str
    message: str
    traceback: str


# Orders in any run.


class AskCounts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell every pointstamp that is counted."""


class AskLoad(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell how loaded the worker is; with the largest keys of what it keeps, if they are wanted."""

    with_keys: bool = False


class Leave(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """End, wherever you are."""


# Orders in a bounded run.


class SendRows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Send the rows that follow into an input, at its current time; or into its port for late rows.

    ``are_own`` says that the worker owns them all, by the key that all readers of the input exchange it by.
    """

    input: str
    late: bool = False
    are_own: bool = False


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


class Sync(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answer when there is nothing to do."""

    wave: int


# Orders in a query.


class Tick(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Read these parts, the member's own, of tick ``number``; after it nothing before ``complete_to`` comes.

    Without an epoch column the rows are of epoch ``open_from``, the first that the ticks before have left
    open, and the tick completes that. With one, a row may be of any epoch from there on, or from the one that
    its input has ``promised`` if that is later; rows before that are late. Those who wait for
    an input that is ``silent`` are told so.
    """

    number: int
    parts: dict[str, list[Part]]
    open_from: int
    complete_to: int
    promised: dict[str, int] = {}
    silent: list[str] = []


class Save(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Snapshot the last epoch that the ticks so far have completed: complete, or what changed since."""

    is_whole: bool


class Finish(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """No tick will follow: close the inputs, and leave when everything is done and saved."""


class AskAhead(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Report what is left for this and later epochs, when earlier work is done."""

    epoch: int


class TakeOver(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Stand by no longer: join this generation, which resumes from this snapshot, and wait to set out.

    ``chain`` and ``published_through`` are those of the mission; the rest of it the member has.
    """

    generation: int
    chain: list[list[PartSaved]]
    published_through: int
    is_observed: bool


class SetOut(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All members have joined the generation: begin."""


class TellEvents(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell everything that has happened so far; only for a member whose events are judged."""

    number: int


Order: TypeAlias = (
    SendRows
    | AdvanceInput
    | CloseInput
    | WatchFrontier
    | Sync
    | Tick
    | Save
    | Finish
    | AskAhead
    | TakeOver
    | SetOut
    | TellEvents
    | AskCounts
    | AskLoad
    | Leave
    | Failed
)

# Reports in any run.


class Ready(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has met the others, has restored its state where there is one, and follows orders."""

    pid: int
    host: str


class Counts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Every pointstamp that the worker knows to be counted: location, time, count."""

    counts: list[tuple[int, Any, int]]


class OperatorLoad(NamedTuple):
    """One operator on a worker: what waits for it, and what was counted since the worker began.

    ``seen`` is the number of samples in which the worker was inside of it.
    """

    operator: int
    batches_waiting: int
    rows_waiting: int
    rows_in: int
    rows_out: int
    calls: int
    seen: int


class Load(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The load of a worker: clock, memory, CPU time and operators.

    ``looks`` is the number of samples of the operator that the worker is inside of.
    """

    seconds: float
    memory_bytes: int
    processor_seconds: float
    looks: int
    operators: list[OperatorLoad]
    largest_keys: dict[str, list[KeyRows]] | None = None
    """By operator and what it keeps; None where it was not asked for."""


class EventsTold(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The next so many events of the worker, for a judge; they come before what rests on them.

    ``asked`` is the question that they answer, if any.
    """

    events: bytes
    count: int
    asked: int | None = None


class InCall(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has been inside one call of an operator for so long; without an operator, it is over.

    It is told by another thread than the worker's, which can tell nothing itself (``running.lookout``).
    """

    operator: str
    when: str
    time: str
    seconds: float


class Finished(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has finished and saved its state, and leaves."""


# Reports in a bounded run: through a mesh, or as the rows of a Spark job.


class ResultRows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A worker's rows of an output at a complete time; the rows follow."""

    output: str
    time: Any


class FrontierAt(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The frontier of a location as the worker knows it."""

    location: int
    times: list[Any]


class Synced(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The worker has nothing to do, and has sent and received so many messages of the flow."""

    wave: int
    sent: int
    received: int
    is_complete: bool


class FileWritten(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A file holds rows of an output."""

    file: Staged


# Reports in a query.


class RowsCounted(NamedTuple):
    """The rows of some epochs on one member, by the name of their input or output.

    ``late`` are rows that arrived after it was promised that there would be none; those of a stream with a
    watermark are counted for the input that the stream is made of, or for the stream if it has several.
    ``skipped`` are rows that a source could not read and has left out.
    """

    read: dict[str, int]
    finished: dict[str, int]
    late: dict[str, int]
    skipped: dict[str, int]

    @classmethod
    def none(cls) -> "RowsCounted":
        """No rows yet."""
        return cls({}, {}, {}, {})

    def plus(self, other: "RowsCounted") -> "RowsCounted":
        """Both together.

        >>> RowsCounted({"a": 1}, {}, {}, {}).plus(RowsCounted({"a": 2}, {"o": 3}, {}, {}))
        RowsCounted(read={'a': 3}, finished={'o': 3}, late={}, skipped={})
        """
        return RowsCounted(*map(_sums, self, other))


def _sums(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


class Saved(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A member's part of the snapshot of an epoch is durable, and so is its output up to there.

    ``settled`` is the last tick of which all rows, and those of all ticks before, are of epochs up to this
    one. ``staged`` are tokens of the sink. ``kept`` says how much each operator keeps, by its name and
    what it is, ``latest`` the greatest event time of each stream that has a promise, and
    ``memory_bytes`` what the member's process holds. ``rows_out`` are the rows of finished epochs, by output,
    and ``rounds`` the last round of a loop that the member sent to, by epoch, since the last snapshot.
    ``counted`` are the rows of the epochs since the last snapshot, up to this one.
    """

    epoch: int
    part: PartSaved
    staged: list[Staged]
    settled: int
    kept: dict[str, KeptRows] = {}
    latest: dict[str, int] = {}
    memory_bytes: int = 0
    rows_out: dict[str, int] = {}
    rounds: dict[int, int] = {}
    counted: RowsCounted = RowsCounted.none()


class Progressed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The member's outputs can receive nothing before this epoch any more; what it has read and staged.

    ``rows_late`` are rows that came after their input had promised that there would be none, by input, and
    ``rows_skipped`` those that the source has left out because it could not read them.
    """

    done_before: int
    rows_in: dict[str, int]
    rows_out: dict[str, int]
    rows_late: dict[str, int] = {}
    rows_skipped: dict[str, int] = {}


class TickRead(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The member has read its parts of a tick; no row so far was of a later epoch than this.

    ``latest`` is the greatest event time that it has read in this tick, of each input whose epochs are that;
    ``lanes`` are those of each lane, of an input that has lanes.
    """

    number: int
    last_epoch: int
    latest: dict[str, int] = {}
    lanes: dict[str, dict[int, int]] = {}


class Ahead(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All inputs are at ``epoch``; anything else is of epoch ``least`` or later, or there is nothing."""

    epoch: int
    least: int | None


class Joined(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The member stands by no longer: everything that it says from here on is of the new generation."""


Report: TypeAlias = (
    ResultRows
    | FrontierAt
    | Synced
    | FileWritten
    | Saved
    | Progressed
    | TickRead
    | Ahead
    | Joined
    | Ready
    | Counts
    | Load
    | EventsTold
    | InCall
    | Finished
    | Failed
)

encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_report = msgspec.msgpack.Decoder(Report).decode


# Send and receive control messages over a mesh.
#
# What cannot be read is a TransportError that names its sender: all members must run the same version. So is
# what can be read and is not said in this kind of run (``unfit``): it is never passed over in silence.

DRIVER: Final = "the driving process"


def post(mesh: Mesh, member: int, said: Order | Report, bodies: Sequence[Body] = ()) -> None:
    """Send an order or a report."""
    mesh.post(member, MessageKind.CONTROL, encode(said), bodies)


def post_failure(mesh: Mesh, member: int, failure: Failed) -> bool:
    """Tell a member that this one has failed; False where that one has gone, or was never met."""
    try:
        post(mesh, member, failure)
    except (PointstampError, KeyError):
        return False
    return True


def order_in(parcel: Parcel) -> Order:
    """Return the order of this member's driver."""
    try:
        order: Order = decode_order(parcel.header)
    except msgspec.MsgspecError as error:
        raise unreadable(DRIVER, str(error)) from error
    return order


def report_in(parcel: Parcel) -> Report:
    """The report that came from a worker."""
    try:
        if parcel.kind != MessageKind.CONTROL:
            raise ValueError(f"kind {parcel.kind}, which only workers take")
        report: Report = decode_report(parcel.header)
    except (msgspec.MsgspecError, ValueError) as error:
        raise unreadable(f"worker {parcel.sender}", str(error)) from error
    return report


def rows_in(bodies: Sequence[Body], rows: BatchFormat, sender: str) -> list[pa.RecordBatch]:
    """The batches that follow an order or a report."""
    try:
        return [rows.decode(body) for body in bodies]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(sender, f"{type(error).__name__}: {error}") from error


def time_in(times: TimeFormat, time: object, sender: str) -> Time:
    """A time of an order or a report, exactly as it was sent."""
    try:
        return times.restore(time)
    except ValueError as error:
        raise unreadable(sender, str(error)) from error


def unfit(sender: str, said: Order | Report) -> TransportError:
    """Return the error for a message that does not belong to this kind of run."""
    return unreadable(sender, f"{type(said).__name__}, which is not said in this kind of run")


# Send errors between processes: kind, message and traceback.
#
# Nothing is unpickled, so an error of a user's own class travels as the OperatorError that explains it, and
# what is none of ours as the nearest kind: what a file or a connection says may be otherwise the next time,
# and a mistake comes again.


def failure_in(work: Callable[[], object]) -> Failed | None:
    """Do some work; the failure that it has ended with, whatever that is, or None.

    For reports to another process: an interrupt and an exit are failures, too.
    """
    try:
        work()
    except BaseException as error:
        return failure_of(error)
    return None


def failure_of(error: BaseException) -> Failed:
    """An error as a report."""
    if isinstance(error, SystemExit):
        error = _exit_in_words(error)
    text = "".join(traceback.format_exception(error))
    if isinstance(error, PointstampError):
        return Failed(type(error).__name__, str(error), text)
    if not isinstance(error, Exception):
        # Nobody interrupts a worker: a function of the flow has raised it, and its operator has left a note.
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        words = "; ".join(notes) or f"a function of the flow has raised {words_of(error)}"
        return Failed(OperatorError.__name__, f"{words}. Raise an Exception there instead.", text)
    kind = StorageError if isinstance(error, OSError) else InternalError
    return Failed(kind.__name__, words_of(error), text)


def error_of(failure: Failed, worker: str | None = None) -> PointstampError:
    """The error that was reported, with the same message; its traceback there is a note, by the worker."""
    kind = getattr(errors, failure.kind, InternalError)
    known = isinstance(kind, type) and issubclass(kind, PointstampError)
    error: PointstampError = (kind if known else InternalError)(failure.message)
    if worker is not None:
        error.add_note(f"In {worker}:\n{failure.traceback}")
    return error


def _exit_in_words(error: SystemExit) -> OperatorError:
    """A function of the flow has called exit: where, and what to do instead."""
    frames = traceback.extract_tb(error.__traceback__)
    # exit() without sys is a function of Python's own that raises.
    not_theirs = ("pointstamp", "_sitebuiltins")
    theirs = [frame for frame in frames if not any(each in frame.filename for each in not_theirs)]
    line = (theirs or list(frames))[-1]
    explained = OperatorError(
        f"a function of the flow has called exit ({words_of(error)}) "
        f"({line.filename}:{line.lineno}, in {line.name}: {line.line}), which would end a worker and not the "
        "flow. Raise an error there instead."
    )
    explained.__cause__ = error
    return explained
