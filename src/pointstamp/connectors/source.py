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
Kafka topics (``pointstamp.connectors.kafka``) a unit is ranges of offsets, a part one partition's range, a
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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard, runtime_checkable

import msgspec
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.optional import conforms
from pointstamp.storage.anywhere import recorded_place

Position: TypeAlias = Any
"""The units taken so far: None, or a value of the source that msgpack can encode; lists may be tuples."""


class Part(msgspec.Struct, frozen=True):
    """A part that one worker reads: its location, as the source knows it, and size.

    ``share`` is ``(k, n)`` where this is the k-th of n shares of what is there. A source says that something
    may be shared by giving it as ``(0, 1)``, the one share of one; None means that one worker reads it
    complete. ``size_bytes`` is the size of what is there, whatever the share, and ``identity`` tells its
    content from other content, where the source can say. Parts of one ``lane`` are read by one worker, tick
    after tick.
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
    """Finds units for the driver, in one process and one thread.

    Poll once before waiting for ``fileno``: units that were there at the start do not make it readable. Also
    poll every second or so without being woken: some news does not make it readable.
    """

    def poll(self) -> list[Unit]:
        """Return the units found since the last call, in the order to read them; never wait."""
        ...

    def fileno(self) -> int | None:
        """Return a file that becomes readable when units may have arrived; None if only polling helps."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether ``poll`` has returned every unit that will ever exist."""
        ...

    def close(self) -> None:
        """Release resources; a second call does nothing."""
        ...


class Source(Protocol):
    """A plain value that describes where rows are; pickled to every worker."""

    @property
    def units_per_tick(self) -> int | None:
        """The maximum number of units per tick; None takes all into one epoch."""
        ...

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Return a watch for units after a position; with ``available_now``, only for present ones."""
        ...

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows of a part, with exactly this schema, always in the same order."""
        ...

    def after(self, position: Position, unit: Unit) -> Position:
        """Return the position after a unit; a pure function."""
        ...

    def describe(self) -> str:
        """Return a description for messages: ``files '/in' (parquet)``."""
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


class _Watched(Protocol):
    def watch(self, position: Position, *, available_now: bool = False) -> Watch: ...

    def read(self, part: Part, schema: pa.Schema, /) -> Iterator[pa.RecordBatch]: ...

    def after(self, position: Position, unit: Unit, /) -> Position: ...


def is_source(given: object) -> TypeGuard[Source]:
    """Return whether something is a source, and not rows."""
    return conforms(given, _Watched) and not isinstance(given, type)


def complete_source(source: Source) -> SourceBase:
    """Return the source with all optional methods; called where a query takes a source."""
    return source if isinstance(source, SourceBase) else _CompleteSource(source)


def complete_watch(watch: Watch) -> WatchBase:
    """Return the watch with all optional methods; called where a driver starts to watch."""
    return watch if isinstance(watch, WatchBase) else _CompleteWatch(watch)


# One protocol for each optional method, with the default that a watch or a source without it has.


class _WaitsFor(Protocol):
    def waits_for(self) -> str | None: ...


class _Refreshes(Protocol):
    def refresh(self) -> None: ...


class _SaysIfRefreshing(Protocol):
    @property
    def is_refreshing(self) -> bool: ...


class _Checks(Protocol):
    def check(self) -> None: ...


class _NamesUnits(Protocol):
    def units_named(self, position: Position, names: Iterable[str], /) -> list[Unit] | None: ...


class _Renews(Protocol):
    def renewed(self, unit: Unit, /) -> Unit | None: ...


class _SharesTicks(Protocol):
    def share_of_tick(self, unit: Unit, /) -> float: ...


class _HasLanes(Protocol):
    def lanes(self, position: Position, /) -> Collection[int] | None: ...


class _Skips(Protocol):
    def skipped(self, part: Part, /) -> int: ...


class _CompleteWatch(WatchBase):
    """A watch without some of the optional methods, which take their defaults."""

    def __init__(self, given: Watch) -> None:
        self._given = given

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
        return self._given.waits_for() if conforms(self._given, _WaitsFor) else None

    def refresh(self) -> None:
        if conforms(self._given, _Refreshes):
            self._given.refresh()

    @property
    def is_refreshing(self) -> bool:
        return conforms(self._given, _SaysIfRefreshing) and self._given.is_refreshing


class _CompleteSource(SourceBase):
    """A source without some of the optional methods, which take their defaults."""

    def __init__(self, given: Source) -> None:
        self.given = given

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
        if conforms(self.given, _Checks):
            self.given.check()

    def identity(self) -> Mapping[str, str]:
        given = self.given
        return given.identity() if conforms(given, Identified) else {"kind": type(given).__qualname__}

    @property
    def moved_from(self) -> str | None:
        place = self.given.moved_from if conforms(self.given, Moved) else None
        return None if place is None else str(place)

    def units_named(self, position: Position, names: Iterable[str]) -> list[Unit] | None:
        given = self.given
        return given.units_named(position, names) if conforms(given, _NamesUnits) else None

    def renewed(self, unit: Unit) -> Unit | None:
        return self.given.renewed(unit) if conforms(self.given, _Renews) else unit

    def share_of_tick(self, unit: Unit) -> float:
        return self.given.share_of_tick(unit) if conforms(self.given, _SharesTicks) else 0.0

    def lanes(self, position: Position) -> Collection[int] | None:
        return self.given.lanes(position) if conforms(self.given, _HasLanes) else None

    def skipped(self, part: Part) -> int:
        return self.given.skipped(part) if conforms(self.given, _Skips) else 0


# Check the byte limit of a tick.


def check_bytes_per_tick(who: str, bytes_per_tick: int | None) -> None:
    """FlowError unless it is a number of bytes, or None."""
    if bytes_per_tick is not None and bytes_per_tick < 1:
        raise FlowError(
            f"{who}: bytes_per_tick must be at least 1, got {bytes_per_tick}. Give a larger number, or "
            "None for no limit."
        )


def share_of_bytes(unit: Unit, bytes_per_tick: int | None) -> float:
    """Return the share of one tick that a unit takes; 0 without a limit.

    >>> from pointstamp.connectors.source import Part
    >>> share_of_bytes(Unit("a", (Part("x", 30), Part("y", 20))), 100)
    0.5
    """
    return 0.0 if bytes_per_tick is None else sum(part.size_bytes for part in unit.parts) / bytes_per_tick


def units_with_bytes(units_per_tick: int | None, bytes_per_tick: int | None) -> int | None:
    """Return the maximum number of units per tick: unlimited if bytes are limited."""
    return None if bytes_per_tick is not None and units_per_tick == 1 else units_per_tick


# A watch of units that are all known at its start.


class AllAtOnce(WatchBase):
    """Gives every unit at the first poll, and is finished then; for one thread."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self._units = list(units)
        self._is_polled = False

    def poll(self) -> list[Unit]:
        """All units, once."""
        self._is_polled = True
        units, self._units = self._units, []
        return units

    def fileno(self) -> None:
        """There is nothing to wait for."""
        return

    @property
    def is_finished(self) -> bool:
        """Whether there was a poll."""
        return self._is_polled

    def close(self) -> None:
        """Nothing is held."""


# Assign the parts of an epoch to workers, by size.
#
# Both functions are pure. The driver may deal a unit out again after a restart, over another number of
# workers: the parts in the journal are those before any cut, and which worker reads a row decides nothing
# about what the flow computes.

SHARE_BYTES_MIN: Final = 8 * 1024 * 1024
"""Below this size, a share is not worth opening the file and reading its footer once more."""


def shared(parts: Iterable[Part], workers: int, share_bytes_min: int = SHARE_BYTES_MIN) -> tuple[Part, ...]:
    """Every part that may be shared and is large is cut into as many shares as pay, at most one per worker.

    >>> cut = shared([Part("big", 100, (0, 1)), Part("whole", 100), Part("small", 10, (0, 1))], 3, 40)
    >>> [(part.locator, part.share) for part in cut]
    [('big', (0, 2)), ('big', (1, 2)), ('whole', None), ('small', (0, 1))]
    """
    cut: list[Part] = []
    for part in parts:
        ways = min(workers, part.size_bytes // share_bytes_min) if part.share == (0, 1) else 1
        if ways < 2:
            cut.append(part)
        else:
            cut += [msgspec.structs.replace(part, share=(number, ways)) for number in range(ways)]
    return tuple(cut)


def deal(parts: Iterable[Part], workers: int, turn: int) -> list[list[Part]]:
    """The parts of each worker: the largest first, each to the worker with the least to read.

    Equals are dealt starting at worker ``turn``, so that epochs of one small file go around the workers. Of
    parts of equal size the earlier is dealt first, so the same arguments give the same hands. A part with a
    lane goes to the worker of that lane, whatever its size.

    >>> [[part.locator for part in hand] for hand in deal([Part("a", 1), Part("b", 5), Part("c", 3)], 2, 1)]
    [['c', 'a'], ['b']]
    """
    hands: list[list[Part]] = [[] for _ in range(workers)]
    loads = [0] * workers
    for part in sorted(parts, key=lambda part: (part.lane is None, -part.load_bytes)):
        candidates = range(workers) if part.lane is None else [part.lane % workers]
        least = min(
            candidates, key=lambda worker: (loads[worker], len(hands[worker]), (worker - turn) % workers)
        )
        hands[least].append(part)
        loads[least] += part.load_bytes
    return hands


# The identity of a source, which a checkpoint records and compares.
#
# An identity is a mapping of words: ``kind``, ``place`` (an absolute address without credentials), for a
# cluster ``servers`` (joined by commas; lists with a server in common are one cluster), and options that
# change which rows a source has or how they are read. A source says it by a method ``identity()``; one
# without that method is known by its class. Options that only change how fast rows are read, and those that
# say what becomes of rows that cannot be read, are not part of it: both may change from start to start.
#
# A source that was moved says so by an attribute ``moved_from``, the ``place`` or the ``servers`` of before.

Identity: TypeAlias = Mapping[str, str]

_FREE: Final = (
    *("units_per_tick", "bytes_per_tick", "rows_per_tick", "storage_options", "options", "moved_from"),
    *("list_every_seconds", "settle_seconds", "look_every_seconds", "topics_every_seconds", "gather_seconds"),
    *("on_bad", "on_lost", "skip", "line_bytes_max"),
)
"""Options of speed, of access, and of what becomes of rows that cannot be read: these may change."""


@runtime_checkable
class Identified(Protocol):
    """A source that says its identity."""

    def identity(self) -> Identity:
        """Return the identity of this source."""
        ...


@runtime_checkable
class Moved(Protocol):
    """A source that may have been moved."""

    @property
    def moved_from(self) -> str | None:
        """The place or the servers of before; None if it was not moved."""
        ...


def identity_of_source(source: object) -> dict[str, str]:
    """Return the identity of a source; its class if it does not say one."""
    if conforms(source, Identified):
        return {str(key): str(value) for key, value in source.identity().items()}
    kind = type(source)
    return {"kind": kind.__qualname__}


def options_of(source: Any, *free: str) -> dict[str, str]:  # noqa: ANN401 - a dataclass
    """Return the options of a source by name, but for those that may change freely.

    Whatever is a field counts, so that an option that is added later is not forgotten.
    """
    found: dict[str, str] = {}
    for each in fields(source):
        value = getattr(source, each.name)
        is_unset = value is None or value is False or (isinstance(value, Sized) and not len(value))
        if each.name in free or each.name in _FREE or is_unset:
            continue
        if is_dataclass(value):
            found.update(options_of(value, *free))
        elif isinstance(value, Mapping):
            found[each.name] = ", ".join(f"{key}={text}" for key, text in value.items())
        elif isinstance(value, tuple | list):
            found[each.name] = ", ".join(map(str, value))
        else:
            found[each.name] = str(value)
    return found


def moved_from_of(source: object) -> str | None:
    """Return the place from which a source was moved; None if it was not."""
    return str(source.moved_from) if conforms(source, Moved) and source.moved_from is not None else None


def differences(before: Identity, now: Identity, moved_from: str | None) -> Iterator[str]:
    """Yield the keys in which two identities differ, after a declared move."""
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if old != new and not _is_moved(key, old, new, moved_from):
            yield key


def described(identity: Identity) -> str:
    """Return an identity for messages.

    >>> described({"kind": "files", "place": "/in", "format": "csv"})
    "files '/in' (format csv)"
    """
    more = [f"{key} {value}" for key, value in identity.items() if key not in ("kind", "place") and value]
    place = f" '{identity['place']}'" if "place" in identity else ""
    options = f" ({', '.join(more)})" if more else ""
    return f"{identity.get('kind', 'a source')}{place}{options}"


def _is_moved(key: str, old: str | None, new: str | None, moved_from: str | None) -> bool:
    if key == "servers" and old and new and set(old.split(",")) & set(new.split(",")):
        return True  # a server in common is the same cluster
    if moved_from is None or key not in ("place", "servers"):
        return False
    return old == (recorded_place(moved_from) if key == "place" else moved_from)
