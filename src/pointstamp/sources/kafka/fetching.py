"""Read a range of offsets completely, in order, without waiting for missing ones.

A range ends before an offset up to which every transaction has ended, so Kafka can tell of each offset in it
whether there is a record. Where the last offsets hold none, the reader knows by the next record after the
range, or by Kafka's word that the end of the partition is reached, and does not wait for them.

A consumer stays where it is when a range is read: the next range of its partition mostly begins there, and
its first records have been fetched by then. Consumers are kept by thread, and handed to one reader at a time.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pointstamp.errors import SourceError, StorageError
from pointstamp.sinks.kafka.cluster import ANSWER_SECONDS_MAX, Cluster, asked, error_words
from pointstamp.sources.kafka.ranges import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Message

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
