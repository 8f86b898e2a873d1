"""Watch the ends of partitions from a thread.

The thread waits at the ends of the partitions (``tails``) and asks when a record has come there.

The end of a partition is the offset before which every transaction has ended, so that a unit never holds a
record that may be rolled back. Topics and partitions that are new are looked for from time to time, and are
read from their beginning: nothing was there when the query began. Where ticks are limited by bytes, the last
records of each partition are looked at, too, since offsets say nothing of sizes.

Each partition is told of once, by an empty range if it has no record: where "latest" was is then in the
journal, and event time knows whom to wait for.
"""

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from pointstamp.errors import PointstampError, SourceError
from pointstamp.sinks.kafka.cluster import ANSWER_SECONDS_MAX, asked, cannot, ends_of, partitions_of
from pointstamp.sources.kafka.fetching import fetched, lost
from pointstamp.sources.kafka.ranges import (
    RECORD_BYTES,
    OffsetRange,
    Place,
    offsets_in,
    range_of,
    unit_of,
    units_up_to,
)
from pointstamp.sources.kafka.tails import PartitionTails
from pointstamp.sources.port import Position, Unit, WatchBase

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from pointstamp.sources.kafka.source import KafkaSource

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_RECORDS_MAX: Final = 100_000
_NEW_TOPIC_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
_MEASURED_RECORDS: Final = 100
_CLOSING_SECONDS: Final = 0.5
"""So long the thread waits at most before it looks whether the watch was closed."""
_GATHER_PAUSES: Final = 5
"""When nothing has come for this part of the time to gather, no more is waited for."""


class KafkaWatch(WatchBase):
    """The offsets of topics as units; polled by one thread."""

    def __init__(self, source: "KafkaSource", position: Position) -> None:
        self._source = source
        self._admin: AdminClient = source.cluster.admin()
        self._taken = offsets_in(position)
        self._is_new = position is None
        self._has_begun = not self._is_new
        self._ends: dict[Place, int] = {}
        self._firsts: dict[Place, int] = {}
        self._seen: dict[Place, int] = {}
        self._untold: dict[Place, int] = {}
        self._topics_at = 0.0
        self._record_bytes = RECORD_BYTES
        self._is_measured = source.bytes_per_tick is None
        self._found_at = monotonic()
        self._failure: BaseException | None = None
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None
        # How many refreshes were asked for, were made by the thread, and have been returned by poll.
        self._refreshes = self._refreshed = self._returned = 0
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)

    def poll(self) -> list[Unit]:
        """The records since the last call, as ranges of offsets."""
        if self._is_closed.is_set():
            return []
        if self._thread is None:
            self._ends = self._asked()
            self._thread = threading.Thread(target=self._look_on, name="pointstamp-kafka", daemon=True)
            self._thread.start()
        with suppress(BlockingIOError):
            self._ours.recv(4096)
        if self._failure is not None:
            raise self._failure
        refreshed = self._refreshed  # before the ends, which are set first
        units = self._units(dict(self._ends))
        self._returned = refreshed
        return units

    def refresh(self) -> None:
        """Query the ends of all partitions soon, to include all present records."""
        self._refreshes += 1

    @property
    def is_refreshing(self) -> bool:
        """Whether what was there at the last ``refresh`` may not have been returned yet."""
        return self._returned != self._refreshes

    def available_now(self) -> list[Unit]:
        """A watch of the records that exist now."""
        self._ends = self._asked()
        return self._units(dict(self._ends))

    def fileno(self) -> int:
        """Readable when a partition has become longer."""
        return self._ours.fileno()

    @property
    def is_finished(self) -> bool:
        """A topic has no end."""
        return False

    def waits_for(self) -> str:
        """The topics, and since when nothing has come."""
        seconds = monotonic() - self._found_at
        return f"records of {self._source.describe()}; the last were found {seconds:.1f} seconds ago"

    def close(self) -> None:
        """Stop the thread after its current request."""
        self._is_closed.set()
        self._ours.close()
        self._theirs.close()

    # Asking; in the thread, after the first time.

    def _look_on(self) -> None:
        tails = None
        try:
            tails = PartitionTails(self._source.cluster)
            while not self._is_closed.is_set():
                tails.stand_at(self._ends)
                self._gather(tails, self._heard(tails))
                refreshes = self._refreshes
                ends = self._ends if self._is_closed.is_set() else self._asked()
                if ends != self._ends or refreshes != self._refreshed:
                    self._take_note(ends)
                    self._refreshed = refreshes
                    self._wake()
        except Exception as error:  # raised again where the watch is polled
            known = isinstance(error, PointstampError)
            self._failure = error if known else cannot("say when records come", error)
            self._wake()
        finally:
            if tails is not None:
                tails.close()

    def _heard(self, tails: PartitionTails) -> int:
        """Wait until a record comes, or Kafka is to be asked in any case; how many have come."""
        found, until = 0, monotonic() + self._source.look_every_seconds
        while not found and not self._is_closed.is_set() and (left := until - monotonic()) > 0:
            if self._refreshes != self._refreshed:
                break
            found = tails.new(min(left, _CLOSING_SECONDS))
        return found

    def _gather(self, tails: PartitionTails, found: int) -> None:
        """After the first new record, wait while more come, but not for long: they are sent together."""
        pause = self._source.gather_seconds / _GATHER_PAUSES
        until = monotonic() + self._source.gather_seconds
        more = found
        while more and found < self._records_max and monotonic() < until:
            more = tails.new(pause)
            found += more

    def _asked(self) -> dict[Place, int]:
        """How far the partitions go."""
        if monotonic() >= self._topics_at:
            self._find_partitions()
            self._is_measured = self._source.bytes_per_tick is None
        ends = ends_of(self._admin, self._firsts)
        if not self._is_measured:
            self._measure(ends)
        return ends

    @property
    def _records_max(self) -> int:
        """How many records a unit has at most."""
        most = self._source.rows_per_tick or _RECORDS_MAX
        limit_bytes = self._source.bytes_per_tick
        return most if limit_bytes is None else max(1, min(most, limit_bytes // self._record_bytes))

    def _measure(self, ends: Mapping[Place, int]) -> None:
        """Look how large the last records are; until there are some, a size is supposed."""
        sizes = [
            len(message.value() or b"") + len(message.key() or b"")
            for place, end in ends.items()
            for messages in fetched(
                self._source.cluster,
                OffsetRange(*place, max(self._firsts[place], end - _MEASURED_RECORDS), end),
                self._source.who(place),
                "skip",
            )
            for message in messages
        ]
        if sizes:
            self._record_bytes = max(1, round(sum(sizes) / len(sizes)))
            self._is_measured = True

    def _take_note(self, ends: dict[Place, int]) -> None:
        self._ends = ends

    def _find_partitions(self) -> None:
        """Look for topics and partitions, and where those begin that are new."""
        source, is_first = self._source, not self._topics_at
        self._topics_at = monotonic() + source.topics_every_seconds
        deadline = monotonic() + _NEW_TOPIC_SECONDS
        while True:
            there = partitions_of(self._admin, self._names())
            missing = [name for name in source.topics if name not in there]
            if not missing or not is_first or monotonic() > deadline:
                break
            sleep(_PAUSE_SECONDS)  # one that was just made is there in a moment
        if missing and is_first:
            raise SourceError(
                f"{source.cluster} has no topic {', '.join(map(repr, missing))}. Create it, or name "
                "another one. A pattern (ps.io.kafka(..., pattern='orders-.*')) also finds topics that are "
                "created later."
            )
        new = [
            (topic, each)
            for topic, found in there.items()
            for each in found
            if (topic, each) not in self._firsts
        ]
        if new:
            self._firsts = {**self._firsts, **ends_of(self._admin, new, is_first=True)}

    def _names(self) -> list[str]:
        if self._source.pattern is None:
            return list(self._source.topics)
        found = asked(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS_MAX), "the list of topics")
        return [name for name in found.topics if re.fullmatch(self._source.pattern, name)]

    def _wake(self) -> None:
        with suppress(OSError):  # it is readable anyway, or nobody looks
            self._theirs.send(b"!")

    # Making units; in the thread that polls.

    def _units(self, ends: Mapping[Place, int]) -> list[Unit]:
        if ends == self._seen and self._has_begun:
            return []
        self._seen = dict(ends)
        starts = {
            place: self._checked(place, start, ends[place]) for place, start in self._starts(ends).items()
        }
        self._untold.update({place: start for place, start in starts.items() if place not in self._taken})
        self._taken.update(starts)
        size = self._record_bytes
        units = list(units_up_to({p: self._taken[p] for p in ends}, ends, self._records_max, size))
        self._taken.update(ends)
        if units or not (self._has_begun or self._source.starting == EARLIEST):
            units = [_telling(self._untold, units, size), *units[1:]]
            self._untold = {}
        self._has_begun = self._has_begun or bool(units)
        if units:
            self._found_at = monotonic()
        return units

    def _starts(self, ends: Mapping[Place, int]) -> dict[Place, int]:
        """From where on each partition is read: on the first time, as the user says."""
        new = [place for place in ends if place not in self._taken]
        if not self._has_begun and self._is_new:
            said = self._source.starting_offsets(self._admin, new, self._firsts, ends)
        else:
            said = {place: self._firsts[place] for place in new}
        known = {place: self._taken[place] for place in ends if place in self._taken}
        return {**known, **said}

    def _checked(self, place: Place, start: int, end: int) -> int:
        """An offset to resume from; where it is not there any more, an error or the first that is."""
        first = self._firsts[place]
        if first <= start <= end:
            return start
        if self._source.on_lost == "error":
            raise lost(self._source.who(place), start, end if start < first else start, first, end)
        return first


def _telling(starts: Mapping[Place, int], units: list[Unit], record_bytes: int) -> Unit:
    """The first unit, with a range for each partition that is new, where it has none an empty one."""
    taken = {each.place: each for each in map(range_of, units[0].parts)} if units else {}
    empty = {place: OffsetRange(*place, start, start) for place, start in starts.items()}
    return unit_of([each for _, each in sorted({**empty, **taken}.items())], record_bytes)
