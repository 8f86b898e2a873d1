"""Kafka topics as a source: ``kafka(bootstrap, topics)``; needs ``confluent-kafka``.

Workers read the partitions themselves, and the driver finds how far they go. A unit is a range of offsets of
each partition that has new records, so a second read returns the same records. Only committed records
are read. What retention or compaction has removed cannot be read again: records must stay for as long as a
query may stand still.

Watch the ends of partitions from a thread.

The thread waits at the ends of the partitions (``tails``) and asks when a record has come there.

The end of a partition is the offset before which every transaction has ended, so that a unit never holds a
record that may be rolled back. Topics and partitions that are new are looked for from time to time, and are
read from their beginning: nothing was there when the query began. Where ticks are limited by bytes, the last
records of each partition are looked at, too, since offsets say nothing of sizes.

Each partition is told of once, by an empty range if it has no record: where "latest" was is then in the
journal, and event time knows whom to wait for.
"""

import logging
import re
import socket
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, get_args

import pyarrow as pa

from pointstamp.connectors.bad_records import BadRecords
from pointstamp.connectors.kafka import offset_ranges
from pointstamp.connectors.kafka.cluster import (
    ANSWER_SECONDS_MAX,
    Cluster,
    asked,
    cannot,
    check_installed,
    ends_of,
    offsets_since,
    partitions_of,
)
from pointstamp.connectors.kafka.offset_ranges import (
    RECORD_BYTES,
    OffsetRange,
    OnLost,
    Place,
    fetched,
    lost,
    offsets_in,
    range_of,
    unit_of,
    units_up_to,
)
from pointstamp.connectors.kafka.record_columns import KafkaFormat, OnBad, RecordColumns
from pointstamp.connectors.kafka.record_decoding import protobuf_decoder
from pointstamp.connectors.source import (
    AllAtOnce,
    Identity,
    Part,
    Position,
    SourceBase,
    Unit,
    Watch,
    WatchBase,
    check_bytes_per_tick,
    options_of,
    share_of_bytes,
)
from pointstamp.errors import FlowError, PointstampError, SourceError
from pointstamp.redaction import RedactedRepr, redact

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient


EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_RECORDS_MAX: Final = 100_000
_NEW_TOPIC_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
_MEASURED_RECORDS: Final = 100
_CLOSING_SECONDS: Final = 0.5
"""So long the thread waits at most before it looks whether the watch was closed."""
_GATHER_PAUSES: Final = 5
"""The wait ends if nothing arrives for this fraction of the time to gather."""
ROWS_PER_TICK: Final = 10_000
_LOOK_EVERY_SECONDS: Final = 0.1
_GATHER_SECONDS: Final = 0.005
_log = logging.getLogger("pointstamp.query")
_skipped: dict[str, int] = {}  # by part, until whoever has read it asks


def kafka(
    bootstrap: str,
    topics: str | Iterable[str] = (),
    *,
    pattern: str | None = None,
    format: KafkaFormat = "json",  # noqa: A002  Spark's word for it
    registry: str | Mapping[int, Any] | None = None,
    message: str | None = None,
    descriptors: str | PathLike[str] | bytes | None = None,
    key: str | Sequence[str] = (),
    columns: Mapping[str, str] | Sequence[str] = (),
    starting: str | int | datetime = EARLIEST,
    on_bad: OnBad | BadRecords = "error",
    on_lost: OnLost = "error",
    skip: Collection[str] = (),
    rows_per_tick: int | None = ROWS_PER_TICK,
    bytes_per_tick: int | None = None,
    gather_seconds: float = _GATHER_SECONDS,
    look_every_seconds: float = _LOOK_EVERY_SECONDS,
    topics_every_seconds: float = 10.0,
    options: Mapping[str, Any] | None = None,
    moved_from: str | None = None,
) -> "KafkaSource":
    """Read the records of Kafka topics: existing records and records that arrive, each exactly once.

    Args:
        bootstrap: The servers, ``"host:port"`` with commas between them.
        topics: One topic or several.
        pattern (str, default None): Instead of topics, a regular expression for complete names, which also
            finds topics that are created later. Added partitions are found, too.
        format (str, default "json"): The format of values: ``"json"``, objects whose fields are the columns
            of the input; ``"raw"``, bytes; ``"avro"``, ``"json_schema"`` and ``"protobuf_schema"`` in the
            wire format of a registry; ``"protobuf"``.
        registry (str | Mapping[int, object], default None): The address of the registry, or Avro schemas by
            their numbers.
        message (str, default None): The full name of Protobuf messages.
        descriptors (path | bytes, default None): The file, or its content, that
            ``protoc --include_imports --descriptor_set_out`` wrote.
        key (str | Sequence[str], default ()): The columns that are in a record's key.
        columns (Mapping[str, str] | Sequence[str], default ()): Columns for metadata by name, ``{"at":
            "timestamp"}``, or a list of names, of key, value, headers, timestamp, topic, partition, offset,
            tombstone and error.
        starting (str | int | datetime, default "earliest"): Where a new query begins: ``"earliest"``,
            ``"latest"``, or the records since a datetime or milliseconds since 1970.
        on_bad (str | BadRecords, default "error"): What happens to records that cannot be decoded:
            ``"error"``; ``"skip"`` (or ``"drop"``), counted in a warning and in
            ``query.last_progress["rowsSkipped"]``; ``ps.io.BadRecords(path)``, which counts them and writes
            them to a folder; or ``"keep"``, with nulls and the reason in the column of the error. It may be
            changed at a restart, except for ``"keep"``.
        on_lost (str, default "error"): Whether records that are needed but were removed are an ``"error"``,
            or to ``"skip"``.
        skip (Collection[str], default ()): Records to leave out, as ``"topic/partition/offset"``; they are
            counted like those that cannot be decoded. It may be changed at a restart, also for a record that
            ended the query.
        rows_per_tick (int, default 10,000): Maximum number of records per epoch; None for no limit.
        bytes_per_tick (int, default None): Approximate maximum number of bytes of keys and values per epoch,
            by the mean size of the last records.
        gather_seconds (float, default 0.005): How long to wait for more records after the first new one,
            while more arrive and the maximum is not reached.
        look_every_seconds (float, default 0.1): The longest interval at which Kafka is asked for the end of
            its partitions; new records are usually found at once.
        topics_every_seconds (float, default 10.0): The interval at which it is asked for new topics and
            partitions.
        options (Mapping[str, object], default None): Settings of librdkafka, such as those of TLS and SASL.
        moved_from (str, default None): The former ``bootstrap``, if the same topics are now at other servers.
            Without it, one server must be the same.

    Examples:
        >>> ps.io.kafka("broker:9092", "orders").describe()
        "topic 'orders' of Kafka at 'broker:9092'"

    """
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    who = f"kafka {redact(bootstrap)!r}"
    if bool(names) == (pattern is not None):
        raise FlowError(f"{who}: expected either topic names or pattern=. Give exactly one of them.")
    _check_choice(who, "format", format, get_args(KafkaFormat))
    if not isinstance(on_bad, BadRecords):
        _check_choice(who, "on_bad", on_bad, get_args(OnBad))
    _check_choice(who, "on_lost", on_lost, get_args(OnLost))
    if rows_per_tick is not None and rows_per_tick < 1:
        raise FlowError(
            f"{who}: rows_per_tick must be at least 1, got {rows_per_tick}. Give a larger number, or None "
            "for all."
        )
    check_bytes_per_tick(who, bytes_per_tick)
    known = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    keys = (key,) if isinstance(key, str) else tuple(key)
    protobuf = protobuf_decoder(who, format, message, descriptors)
    made = RecordColumns(format, registry, keys, known, "skip" if on_bad == "drop" else on_bad, protobuf)
    made.check(who)
    return KafkaSource(
        Cluster(bootstrap, dict(options or {})),
        names,
        pattern,
        made,
        _starting(who, starting),
        on_lost,
        rows_per_tick,
        gather_seconds,
        look_every_seconds,
        topics_every_seconds,
        bytes_per_tick,
        moved_from=moved_from,
        skip=_named_records(who, skip),
    )


@dataclass(frozen=True, slots=True, repr=False)
class KafkaSource(SourceBase, RedactedRepr):
    """A source of records; made by ``kafka``."""

    cluster: Cluster
    topics: tuple[str, ...]
    pattern: str | None
    columns: RecordColumns
    starting: str | int
    on_lost: OnLost
    rows_per_tick: int | None
    gather_seconds: float
    look_every_seconds: float
    topics_every_seconds: float
    bytes_per_tick: int | None = None
    units_per_tick: int | None = None
    moved_from: str | None = None
    skip: frozenset[tuple[Place, int]] = frozenset()

    def check(self) -> None:
        """Raise FlowError if what is needed is not installed."""
        check_installed()

    def watch(self, position: Position, *, available_now: bool = False) -> Watch:
        """Find the records after a position, those there and those to come."""
        watch = KafkaWatch(self, position)
        if not available_now:
            return watch
        try:
            return AllAtOnce(watch.available_now())
        finally:
            watch.close()

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The records of a range of offsets, as rows with the columns of the schema."""
        wanted = range_of(part)
        who = self.who(wanted.place)
        skipped = 0
        for fetch in fetched(self.cluster, wanted, who, self.on_lost):
            messages = self._taken(fetch, wanted.place)
            rows, left_out = self.columns.rows(messages, schema, who)
            skipped += len(fetch) - len(messages) + left_out
            if rows.num_rows:
                yield rows
        if skipped:
            _skipped[part.locator] = skipped
            _log.warning(
                "%s: from offset %s to %s, %s records could not be decoded%s and were skipped.",
                who,
                wanted.start,
                wanted.stop - 1,
                skipped,
                " or are named in skip=" if self.skip else "",
            )

    def _taken(self, fetch: Sequence["Message"], place: Place) -> Sequence["Message"]:
        """The records that are not to be left out."""
        if not self.skip:
            return fetch
        return [message for message in fetch if (place, message.offset()) not in self.skip]

    def skipped(self, part: Part) -> int:
        """Return the number of skipped records of a part that was read."""
        return _skipped.pop(part.locator, 0)

    def after(self, position: Position, unit: Unit) -> dict[str, list[int]]:
        """The next offset of each partition, by topic."""
        return offset_ranges.after(position, unit)

    def units_named(self, position: Position, names: Iterable[str]) -> list[Unit]:
        """The units of these names: what is found again would be other ranges."""
        return offset_ranges.units_named(position, names)

    def lanes(self, position: Position) -> list[int]:
        """The lanes of the partitions that were taken from."""
        return [offset_ranges.lane_of(place) for place in offset_ranges.offsets_in(position)]

    def share_of_tick(self, unit: Unit) -> float:
        """Return the share of one tick that a unit takes."""
        by_rows = 0.0 if self.rows_per_tick is None else offset_ranges.records_in(unit) / self.rows_per_tick
        return max(by_rows, share_of_bytes(unit, self.bytes_per_tick))

    def identity(self) -> Identity:
        """Return the identity of this source, for the checkpoint."""
        # The registry and the descriptors may be newer; a time to start at is often computed.
        options = options_of(self, "cluster", "starting", "registry", "protobuf")
        started = self.starting if isinstance(self.starting, str) else "at a time"
        return {"kind": "Kafka", "servers": self.cluster.bootstrap, **options, "starting": started}

    def describe(self) -> str:
        """A description for messages."""
        if self.pattern is not None:
            return f"topics that match '{self.pattern}' of {self.cluster}"
        names = ", ".join(f"'{name}'" for name in self.topics)
        return f"topic{'s' if len(self.topics) > 1 else ''} {names} of {self.cluster}"

    def who(self, place: Place) -> str:
        """A partition, for messages."""
        return f"topic '{place[0]}', partition {place[1]} of {self.cluster}"

    def starting_offsets(
        self,
        admin: "AdminClient",
        places: Sequence[Place],
        firsts: Mapping[Place, int],
        ends: Mapping[Place, int],
    ) -> dict[Place, int]:
        """Return where a new query starts to read each partition."""
        if isinstance(self.starting, str):
            return {place: (firsts if self.starting == EARLIEST else ends)[place] for place in places}
        # There may be no record since then, or one that is not committed yet.
        found = offsets_since(admin, places, self.starting)
        return {
            place: ends[place] if (offset := found[place]) is None else min(offset, ends[place])
            for place in places
        }


def _starting(who: str, given: str | int | datetime) -> str | int:
    if isinstance(given, datetime):
        return int(given.timestamp() * 1000)
    if isinstance(given, str) and given not in (EARLIEST, LATEST):
        raise FlowError(
            f"{who}: starting must be 'earliest', 'latest', a datetime or milliseconds since 1970, got "
            f"{given!r}. Give one of these."
        )
    return given


def _named_records(who: str, names: Collection[str]) -> frozenset[tuple[Place, int]]:
    if isinstance(names, str):
        raise FlowError(f"{who}: skip must be a list of records, got {names!r}. Write skip=[{names!r}].")
    found = set()
    for name in names:
        match = re.fullmatch(r"([^/]+)/(\d+)/(\d+)", name)
        if match is None:
            raise FlowError(
                f"{who}: skip must name records as 'topic/partition/offset', got {name!r}. Write for example "
                "skip=['orders/0/17']."
            )
        found.add(((match[1], int(match[2])), int(match[3])))
    return frozenset(found)


def _check_choice(who: str, what: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise FlowError(
            f"{who}: {what} must be one of {', '.join(choices)}, got {given!r}. Choose one of these."
        )


# Wait for new records at the ends of partitions.
#
# The consumer tells that there is news, and nothing else: how far partitions go, and which records were
# rolled back, is asked of Kafka itself. So what it may miss, such as records that were rolled back, is only
# found a little later, by the next question. It reads along behind the ends while little comes; where much
# comes it leaves most of it out, so that records do not pass through the driver's host twice.

BEHIND_RECORDS_MAX: Final = 20_000
"""If a partition has grown by more than this, the consumer skips the records up to its end."""
_FETCH_BYTES: Final = 64 * 1024
_BATCH_RECORDS: Final = 10_000


class PartitionTails:
    """A consumer at the ends of partitions; used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        settings = cluster.reader_settings(
            auto_offset_reset="latest",
            fetch_wait_max_ms=500,
            fetch_message_max_bytes=_FETCH_BYTES,
        )
        from confluent_kafka import Consumer

        self._consumer = Consumer(settings)
        self._at: dict[Place, int] = {}

    def stand_at(self, ends: Mapping[Place, int]) -> None:
        """Wait for records after these ends; earlier records are ignored."""
        from confluent_kafka import TopicPartition

        behind = max((end - self._at.get(place, end) for place, end in ends.items()), default=0)
        if ends.keys() != self._at.keys() or behind > BEHIND_RECORDS_MAX:
            self._consumer.assign([TopicPartition(*place, end) for place, end in ends.items()])
            self._at = dict(ends)

    def new(self, seconds_max: float) -> int:
        """Return the number of new records, as soon as there is one; 0 after the timeout."""
        first = self._consumer.poll(seconds_max)
        if first is None:
            return 0
        found = [first, *self._consumer.consume(_BATCH_RECORDS, 0)]
        for message in found:
            place = (message.topic(), message.partition())
            if message.error() is None and place in self._at:
                self._at[place] = max(self._at[place], message.offset() + 1)
        return sum(message.error() is None for message in found)

    def close(self) -> None:
        """Leave Kafka alone."""
        self._consumer.close()


class KafkaWatch(WatchBase):
    """The offsets of topics as units; polled by one thread."""

    def __init__(self, source: KafkaSource, position: Position) -> None:
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
        """The end offsets of the partitions."""
        if monotonic() >= self._topics_at:
            self._find_partitions()
            self._is_measured = self._source.bytes_per_tick is None
        ends = ends_of(self._admin, self._firsts)
        if not self._is_measured:
            self._measure(ends)
        return ends

    @property
    def _records_max(self) -> int:
        """The maximum number of records in a unit."""
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
