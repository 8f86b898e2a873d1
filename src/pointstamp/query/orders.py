"""What the driver and the members of its crew say to each other, as values and as bytes.

The driver lets epochs in (``Tick``); a member reads its parts of them, works, and reports what it has saved
and staged (``Saved``) and how far it is (``Progressed``). All of it is msgpack with a type; nothing is
unpickled.
"""

from typing import TypeAlias

import msgspec

from pointstamp.journal.saved_part import PartSaved
from pointstamp.running.control import Failed, InCall
from pointstamp.sinks.port import Staged
from pointstamp.sources.port import Part

# From the driver to a member.


class Tick(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Read these parts, the member's own, of tick ``number``; after it nothing before ``complete_to`` comes.

    Without an epoch column the rows are of epoch ``open_from``, the first that the ticks before have left
    open, and the tick completes that. With one, a row may be of any epoch from there on, or from the one that
    its input has ``promised`` if that is later; rows before that are late.
    """

    number: int
    parts: dict[str, list[Part]]
    open_from: int
    complete_to: int
    promised: dict[str, int] = {}


class Save(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Snapshot the last epoch that the ticks so far have completed: whole, or what changed since."""

    is_whole: bool


class Finish(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """No tick will follow: close the inputs, and leave when everything is done and saved."""


class AskCounts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Report every pointstamp that is counted."""


class AskAhead(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Report what is left from this epoch on, once all inputs have reached it and all before it is done."""

    epoch: int


class TellEvents(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Tell everything that has happened so far; only for a member whose events are judged."""

    number: int


class Leave(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """End, wherever you are."""


Order: TypeAlias = Tick | Save | Finish | AskCounts | AskAhead | TellEvents | Leave

# From a member to the driver.


class Ready(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The member has restored its state and waits for ticks."""

    pid: int
    host: str


class Saved(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A member's part of the snapshot of an epoch is durable, and so is its output up to there.

    ``settled`` is the last tick of which all rows, and those of all ticks before, are of epochs up to this
    one. ``staged`` are tokens of the sink.
    """

    epoch: int
    part: PartSaved
    staged: list[Staged]
    settled: int


class Progressed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The member's outputs can receive nothing before this epoch any more; with what it has read and staged.

    ``rows_late`` counts, by input, rows that came after their input had promised that there would be none.
    """

    done_before: int
    rows_in: dict[str, int]
    rows_out: dict[str, int]
    rows_late: dict[str, int] = {}


class TickRead(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The member has read its parts of a tick; no row so far was of a later epoch than this."""

    number: int
    last_epoch: int


class Counts(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Every pointstamp that the member knows to be counted: location, time, count."""

    counts: list[tuple[int, tuple[int, ...], int]]


class Ahead(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """All inputs are at ``epoch``; anything else is of epoch ``least`` or later, or there is nothing."""

    epoch: int
    least: int | None


class EventsObserved(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The next so many events of the member's worker; ``asked`` is the question that they answer, if any."""

    events: bytes
    count: int
    asked: int | None = None


class Finished(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Everything is done and saved; the member leaves."""


Report: TypeAlias = (
    Ready | Saved | Progressed | TickRead | Counts | Ahead | EventsObserved | InCall | Finished | Failed
)

encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_report = msgspec.msgpack.Decoder(Report).decode
