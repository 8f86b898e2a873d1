"""Offset ranges: the units of Kafka, and the position after them.

A unit takes a range of each partition, from the offset after the last one taken up to one that is given, and
each range is a part. A position is the next offset of every partition, by topic; it is empty, and not None,
once a query has begun. Offsets in a range may hold no record: those of transactions' marks, of records that
were rolled back, and of what compaction has removed.

Invariant: the ranges of a partition that units take, one after the other, have no gap and no overlap.
"""

import threading
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from pointstamp.connectors.kafka.cluster import ANSWER_SECONDS_MAX, Cluster, asked, error_words
from pointstamp.connectors.source import Part, Position, Unit
from pointstamp.errors import SourceError, StorageError

if TYPE_CHECKING:
    from confluent_kafka import Message


Place: TypeAlias = tuple[str, int]
"""A topic, and the number of one of its partitions."""

UNKNOWN: Final = -1
"""Stands in a position for the offset of a partition that is not known yet."""
RECORD_BYTES: Final = 200
"""Assumed size of a record, for assigning ranges, until it has been measured."""


class OffsetRange(msgspec.Struct, frozen=True, array_like=True):
    """The offsets of one partition from ``start`` up to, and without, ``stop``."""

    topic: str
    partition: int
    start: int
    stop: int

    @property
    def place(self) -> Place:
        """The partition that it is of."""
        return self.topic, self.partition

    def part(self, record_bytes: int = RECORD_BYTES) -> Part:
        """The part that a worker reads."""
        # One worker reads a partition from tick to tick, if it can: it has fetched the next records already.
        size_bytes = (self.stop - self.start) * record_bytes
        return Part(msgspec.json.encode(self).decode(), size_bytes, lane=lane_of(self.place))


def lane_of(place: Place) -> int:
    """The lane of a partition; those of one topic follow one another, so that workers have as many each."""
    return zlib.crc32(place[0].encode()) + place[1]


def range_of(part: Part) -> OffsetRange:
    """The range that a part is."""
    return msgspec.json.decode(part.locator, type=OffsetRange)


def unit_of(ranges: Sequence[OffsetRange], record_bytes: int = RECORD_BYTES) -> Unit:
    """A unit of these ranges, whose records have about so many bytes each.

    >>> unit_of([OffsetRange("t", 0, 5, 9), OffsetRange("t", 1, 2, 2)]).name
    't:0:5-9 t:1:2-2'
    """
    name = " ".join(f"{each.topic}:{each.partition}:{each.start}-{each.stop}" for each in ranges)
    return Unit(name or "nothing yet", tuple(each.part(record_bytes) for each in ranges))


def units_named(position: Position, names: Iterable[str]) -> list[Unit]:
    """The units of these names, in the order in which they resume from a position.

    >>> [unit.name for unit in units_named({"t": [5]}, ["t:0:7-9", "t:0:5-7 t:1:0-2", "t:0:1-5"])]
    ['t:0:5-7 t:1:0-2', 't:0:7-9']
    """
    left = {name: [_range_named(each) for each in name.split()] for name in names if ":" in name}
    found: list[Unit] = []
    while True:
        offsets = offsets_in(position)
        fits = [n for n, each in left.items() if all(offsets.get(r.place, r.start) == r.start for r in each)]
        if not fits:
            return found
        # Of those that have no partition in common either may be first.
        found.append(unit_of(left.pop(min(fits))))
        position = after(position, found[-1])


def _range_named(name: str) -> OffsetRange:
    topic, partition, offsets = name.split(":")
    start, _, stop = offsets.partition("-")
    return OffsetRange(topic, int(partition), int(start), int(stop))


def records_in(unit: Unit) -> int:
    """The maximum number of records of a unit."""
    return sum(each.stop - each.start for each in map(range_of, unit.parts))


def after(position: Position, unit: Unit) -> dict[str, list[int]]:
    """The position after a unit.

    >>> after({"t": [5]}, unit_of([OffsetRange("t", 0, 5, 9), OffsetRange("t", 2, 0, 4)]))
    {'t': [9, -1, 4]}
    """
    offsets = {topic: list(each) for topic, each in (position or {}).items()}
    for taken in map(range_of, unit.parts):
        mine = offsets.setdefault(taken.topic, [])
        mine += [UNKNOWN] * (taken.partition + 1 - len(mine))
        mine[taken.partition] = taken.stop
    return offsets


def offsets_in(position: Position) -> dict[Place, int]:
    """The next offset of each partition that a position knows.

    >>> offsets_in({"t": [9, -1, 4]})
    {('t', 0): 9, ('t', 2): 4}
    """
    return {
        (topic, partition): offset
        for topic, offsets in (position or {}).items()
        for partition, offset in enumerate(offsets)
        if offset != UNKNOWN
    }


def units_up_to(
    taken: Mapping[Place, int],
    ends: Mapping[Place, int],
    records_max: int,
    record_bytes: int = RECORD_BYTES,
) -> Iterator[Unit]:
    """Units that take everything up to the ends, each of about so many records at most.

    Partitions with much have as large a share of a unit as those with little.

    >>> [unit.name for unit in units_up_to({("t", 0): 0, ("t", 1): 0}, {("t", 0): 5, ("t", 1): 1}, 4)]
    ['t:0:0-2 t:1:0-1', 't:0:2-5']
    """
    at = dict(taken)
    while waiting := sorted(place for place, end in ends.items() if end > at[place]):
        share = max(1, records_max // len(waiting))
        ranges = []
        for place in waiting:
            stop = min(ends[place], at[place] + share)
            ranges.append(OffsetRange(*place, at[place], stop))
            at[place] = stop
        yield unit_of(ranges, record_bytes)


# Read a range of offsets completely, in order, without waiting for missing ones.
#
# A range ends before an offset up to which every transaction has ended, so Kafka can tell of each offset in
# it whether there is a record. Where the last offsets hold none, the reader knows by the next record after
# the range, or by Kafka's word that the end of the partition is reached, and does not wait for them.
#
# A consumer stays where it is when a range is read: the next range of its partition mostly begins there, and
# its first records have been fetched by then. Consumers are kept by thread, and handed to one reader at a
# time.

OnLost: TypeAlias = Literal["error", "skip"]

KEPT_MAX: Final = 64
"""So many consumers are kept in one thread; those that were used last."""
_BATCH_RECORDS: Final = 10_000
_POLL_SECONDS: Final = 1.0
_QUEUED_KILOBYTES: Final = 16 * 1024

_kept = threading.local()


def fetched(cluster: Cluster, wanted: OffsetRange, who: str, on_lost: OnLost) -> Iterator[list["Message"]]:
    """The records of a range, batch by batch."""
    if wanted.start >= wanted.stop:
        return
    consumers: OrderedDict[object, PartitionConsumer] = _kept.__dict__.setdefault("consumers", OrderedDict())
    name = (cluster.bootstrap, repr(sorted(cluster.options.items())), wanted.place)
    consumer = consumers.pop(name, None) or PartitionConsumer(cluster, wanted.topic, wanted.partition)
    try:
        yield from consumer.records(wanted.start, wanted.stop, who, on_lost)
    except BaseException:  # also that of a reader who wants no more
        consumer.close()
        raise
    consumers[name] = consumer
    while len(consumers) > KEPT_MAX:
        consumers.popitem(last=False)[1].close()


class PartitionConsumer:
    """A consumer at one partition, which knows where it stands; for one reader at a time."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        settings = cluster.reader_settings(
            enable_partition_eof=True,
            auto_offset_reset="error",
            fetch_wait_max_ms=100,
            queued_max_messages_kbytes=_QUEUED_KILOBYTES,
        )
        from confluent_kafka import Consumer

        self._consumer = Consumer(settings)
        self._topic, self._partition = topic, partition
        self._next: int | None = None
        self._ahead: deque[Message] = deque()
        self._is_lost = False

    def records(self, start: int, stop: int, who: str, on_lost: OnLost) -> Iterator[list["Message"]]:
        """The records from one offset up to another."""
        if self._next != start:
            self._seek(start)
        deadline = monotonic() + ANSWER_SECONDS_MAX
        while self._next is not None and self._next < stop:
            found = self._take(stop)
            if found:
                deadline = monotonic() + ANSWER_SECONDS_MAX
                yield found
            elif monotonic() > deadline:
                raise StorageError(
                    f"{who}: Kafka did not send the records from offset {self._next} on within "
                    f"{ANSWER_SECONDS_MAX:g} seconds. Check that its brokers are reachable."
                )
            elif self._is_lost:
                self._go_on_after_loss(start, stop, who, on_lost)
        self._next = stop

    def close(self) -> None:
        """Leave Kafka alone."""
        self._consumer.close()

    def _seek(self, offset: int) -> None:
        from confluent_kafka import TopicPartition

        self._ahead.clear()
        self._is_lost = False
        self._consumer.assign([TopicPartition(self._topic, self._partition, offset)])
        self._next = offset

    def _take(self, stop: int) -> list["Message"]:
        """Some records before an offset; those after it wait for the next range."""
        assert self._next is not None
        if not self._ahead:
            self._fetch(min(stop - self._next, _BATCH_RECORDS))
        taken: list[Message] = []
        while self._ahead and self._next < stop:
            offset = self._ahead[0].offset()
            assert offset is not None
            if offset >= stop:
                self._next = stop
                break
            message = self._ahead.popleft()
            if message.error() is None:
                taken.append(message)
                self._next = offset + 1
            else:  # the end of the partition, for now
                self._next = max(self._next, offset)
        return taken

    def _fetch(self, count: int) -> None:
        from confluent_kafka import KafkaError

        reset = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001 - as below
        first = self._consumer.poll(_POLL_SECONDS)
        found = [] if first is None else [first, *self._consumer.consume(count, 0)]
        for message in found:
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public there
                self._ahead.append(message)
            elif error.code() in (reset, KafkaError.OFFSET_OUT_OF_RANGE):
                self._is_lost = True
            elif error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise StorageError(
                    f"topic '{self._topic}', partition {self._partition} cannot be read: "
                    f"{error_words(StorageError(error))}."
                )

    def _go_on_after_loss(self, start: int, stop: int, who: str, on_lost: OnLost) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self._topic, self._partition)
        first, end = asked(
            lambda: self._consumer.get_watermark_offsets(place, ANSWER_SECONDS_MAX), f"the offsets of {who}"
        )
        if first < 0 or end < 0:
            return  # Kafka does not know them yet, and is asked again until the deadline
        if self._next is not None and first <= self._next and stop <= end:
            self._seek(self._next)  # nothing is lost: the broker was not ready when it was asked
            return
        if on_lost == "error":
            raise lost(who, start, stop, first, end)
        self._seek(max(min(first, stop), self._next or 0) if end >= stop else stop)


def lost(who: str, start: int, stop: int, first: int, end: int) -> SourceError:
    """The error for records that are needed and not there any more."""
    if end < stop:
        return SourceError(
            f"{who}: the records up to offset {stop - 1} were there, and the partition ends before offset "
            f"{end} now. The topic was probably deleted and made again, or a broker has lost records. Begin "
            "with a new checkpoint, or give on_lost='skip' to continue with what is there."
        )
    return SourceError(
        f"{who}: the records from offset {start} on are needed, but the first that is still there is {first}:"
        f" retention has removed up to {first - start:,} records that were not read. Keep records for longer "
        "than a query may stand still (retention.ms, retention.bytes); set on_lost='skip' to read on without "
        "them, or begin with a new checkpoint."
    )
