"""The source port: named units of rows that can be read again.

Recovery replays what came after the last commit, so a source must guarantee exactly one strong thing: a unit
that was found once can be read again, and gives the same rows. Everything else follows from how a run uses
it. The driver holds a ``Watch`` and finds units; a tick takes some of them and becomes an epoch; the workers
read the parts themselves and send the rows at that epoch; the tick is in the journal with its parts before or
with the commit of the epoch. A tick that is not may be forgotten, and then its units are found again. No row
passes through the driver. This is the rule of Abadi & Isard (2015) for what comes from outside: an
input is durable before anything that follows from it is seen.

A *position* says what was taken so far. It is a plain value that msgpack can hold (it is written into the
journal), ``None`` at the beginning, and only the source itself looks inside. ``after`` is the one way to move
it: the position after a unit is known from the position before it and from the unit, so a driver that reads
its journal again comes to the same position.

To add another source, write two classes, ``Source`` and ``Watch``. ``SourceBase`` and ``WatchBase`` add the
optional methods with their defaults: inherit them, or write only the methods that differ (``complete_source``
and ``complete_watch`` add the others where a query takes the source). Of a table a unit may be a version; of
Kafka topics (``pointstamp.sources.kafka``) a unit is ranges of offsets, a part one partition's range, a
position the offsets taken. ``Source`` is a plain value that is pickled to the workers; ``Watch`` stays on the
driver and may hold sockets and threads.

A unit that is found and not taken has the same name when it is found again, because a promise may rest on the
units that were found before it: a source that would find other units has the method ``units_named``. A unit
may have an empty part, of no bytes, for a lane without rows: event time in an input advances with the lane
that is farthest behind.

A checkpoint belongs to one source for each input, known by ``identity()``. Another identity is rejected when
a query resumes.

What a source does not do: give rows an epoch, remember what was taken, or know of workers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import pyarrow as pa

Position: TypeAlias = Any
"""What was taken before: None, or a value of the source's own that msgpack can hold; lists may be tuples."""


class Part(msgspec.Struct, frozen=True):
    """A part that one worker reads: its location, as the source knows it, and size.

    ``share`` is ``(k, n)`` where this is the k-th of n shares of what is there. A source says that something
    may be shared by giving it as ``(0, 1)``, the one share of one; None means that one worker reads it whole.
    ``size_bytes`` is the size of what is there, whatever the share, and ``identity`` tells its content from
    other content, where the source can say. Parts of one ``lane`` are read by one worker, tick after tick.
    """

    locator: str
    size_bytes: int
    share: tuple[int, int] | None = None
    identity: str | None = None
    lane: int | None = None

    @property
    def load_bytes(self) -> int:
        """About how much there is to read in this part.

        >>> Part("a", 1000, (2, 4)).load_bytes
        250
        """
        return self.size_bytes if self.share is None else self.size_bytes // self.share[1]


class Unit(msgspec.Struct, frozen=True):
    """A named unit that one tick may take, read completely or not at all. It may have no part.

    A source whose rows say their epochs may promise that none in this unit, or in any that follows it, is of
    an epoch before ``least_epoch``, and none in those that follow it of one before ``complete_to``.
    """

    name: str
    parts: tuple[Part, ...]
    least_epoch: int | None = None
    complete_to: int | None = None


class Watch(Protocol):
    """Finds units for the driver, in one process and from one thread.

    Poll once before waiting for ``fileno``: units that were there at the start do not make it readable. Also
    poll every second or so without being woken: some news does not make it readable.
    """

    def poll(self) -> list[Unit]:
        """The units found since the last call, in the order to take them, each unit once; never waits."""
        ...

    def fileno(self) -> int | None:
        """Return a file that becomes readable when units may have arrived; None if only polling helps."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether every unit that there will ever be has been returned by ``poll``."""
        ...

    def close(self) -> None:
        """Release what is held; a second call does nothing."""
        ...


class Source(Protocol):
    """A plain value that says where rows are, pickled to every worker."""

    @property
    def units_per_tick(self) -> int | None:
        """The maximum number of units per tick; None takes all into one epoch."""
        ...

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Watch for the units after a position; with ``available_now``, only for present ones."""
        ...

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a part, with exactly this schema; the same rows in the same order every time."""
        ...

    def after(self, position: Position, unit: Unit) -> Position:
        """The position once this unit is taken as well; pure: the same arguments give an equal position."""
        ...

    def describe(self) -> str:
        """A description for messages: ``files '/in' (parquet)``."""
        ...


if TYPE_CHECKING:
    _WatchPort = Watch
    _SourcePort = Source
else:  # a dataclass would take a property of the protocol for the default of its field
    _WatchPort = _SourcePort = object


class WatchBase(_WatchPort):
    """A watch with all optional methods; the defaults are those of a watch that only polls."""

    __slots__ = ()

    def waits_for(self) -> str | None:
        """Return what the watch waits for, as text; None (default) if unknown."""
        return None

    def refresh(self) -> None:
        """Look again at once, if the watch looks at intervals; does nothing by default."""
        return

    if TYPE_CHECKING:

        @property
        def is_refreshing(self) -> bool:
            """Whether polls have not yet returned everything that was there at the last ``refresh``."""
            ...
    else:
        is_refreshing = False


class SourceBase(_SourcePort):
    """A source with all optional methods; the defaults fit a source whose units never change."""

    __slots__ = ()

    def check(self) -> None:
        """Raise a FlowError or SourceError for a mistake that no restart mends; before a query starts."""
        return

    def identity(self) -> Mapping[str, str]:
        """Return what distinguishes this source from others, without secrets; default: its class.

        For example ``{"kind": "mailbox", "place": "imap://host/box"}``.
        """
        return {"kind": type(self).__qualname__}

    if TYPE_CHECKING:

        @property
        def moved_from(self) -> str | None:
            """The place or the servers from which the source was moved; None (default) if it was not."""
            ...
    else:
        moved_from = None

    def units_named(self, position: Position, names: Iterable[str]) -> list[Unit] | None:
        """Return the units of these names that can be taken from a position on, in order.

        A driver that resumes from a journal takes them first. None (default): the source finds the same units
        under the same names anyway.
        """
        del position, names
        return None

    def renewed(self, unit: Unit) -> Unit | None:
        """Return a unit as it is now, or None while it is being written; default: units never change.

        Called before a unit is read again, for units of which nothing is committed.
        """
        return unit

    def share_of_tick(self, unit: Unit) -> float:
        """Return the share of one tick that a unit takes; default: 0, so ticks are limited by units only.

        A tick takes units up to 1 together, and always at least one.
        """
        del unit
        return 0.0

    def lanes(self, position: Position) -> Collection[int] | None:
        """Return the lanes that were read up to a position; None (default) if parts have no lanes."""
        del position
        return None

    def skipped(self, part: Part) -> int:
        """Return how many rows of a part were skipped, once after it was read; default: 0."""
        del part
        return 0


def complete_source(source: Source) -> SourceBase:
    """Return the source with all optional methods; called where a query takes a source."""
    return source if isinstance(source, SourceBase) else _CompleteSource(source)


def complete_watch(watch: Watch) -> WatchBase:
    """Return the watch with all optional methods; called where a driver starts to watch."""
    return watch if isinstance(watch, WatchBase) else _CompleteWatch(watch)


class _CompleteWatch(WatchBase):
    """A watch without some of the optional methods, which take their defaults."""

    def __init__(self, given: Watch) -> None:
        self._given = given

    def _own(self, name: str, default: Any) -> Any:  # noqa: ANN401 - a method of a user's class
        return getattr(self._given, name, default)

    def poll(self) -> list[Unit]:
        return self._given.poll()

    def fileno(self) -> int | None:
        return self._given.fileno()

    @property
    def is_finished(self) -> bool:
        return self._given.is_finished

    def close(self) -> None:
        self._given.close()

    def waits_for(self) -> str | None:
        words: str | None = self._own("waits_for", super().waits_for)()
        return words

    def refresh(self) -> None:
        self._own("refresh", super().refresh)()

    @property
    def is_refreshing(self) -> bool:
        return bool(self._own("is_refreshing", False))


class _CompleteSource(SourceBase):
    """A source without some of the optional methods, which take their defaults."""

    def __init__(self, given: Source) -> None:
        self.given = given

    def _own(self, name: str, default: Any) -> Any:  # noqa: ANN401 - a method of a user's class
        return getattr(self.given, name, default)

    @property
    def units_per_tick(self) -> int | None:
        return self.given.units_per_tick

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        return self.given.watch(position, available_now=available_now)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return self.given.read(part, schema)

    def after(self, position: Position, unit: Unit) -> Position:
        return self.given.after(position, unit)

    def describe(self) -> str:
        return self.given.describe()

    def check(self) -> None:
        self._own("check", super().check)()

    def identity(self) -> Mapping[str, str]:
        own = self._own("identity", None)
        found: Mapping[str, str] = {"kind": type(self.given).__qualname__} if own is None else own()
        return found

    @property
    def moved_from(self) -> str | None:
        place = self._own("moved_from", None)
        return None if place is None else str(place)

    def units_named(self, position: Position, names: Iterable[str]) -> list[Unit] | None:
        units: list[Unit] | None = self._own("units_named", super().units_named)(position, names)
        return units

    def renewed(self, unit: Unit) -> Unit | None:
        now: Unit | None = self._own("renewed", super().renewed)(unit)
        return now

    def share_of_tick(self, unit: Unit) -> float:
        return float(self._own("share_of_tick", super().share_of_tick)(unit))

    def lanes(self, position: Position) -> Collection[int] | None:
        lanes: Collection[int] | None = self._own("lanes", super().lanes)(position)
        return lanes

    def skipped(self, part: Part) -> int:
        return int(self._own("skipped", super().skipped)(part))
