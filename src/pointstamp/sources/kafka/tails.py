"""Wait for new records at the ends of partitions.

The consumer tells that there is news, and nothing else: how far partitions go, and which records were rolled
back, is asked of Kafka itself. So what it may miss, such as records that were rolled back, is only found a
little later, by the next question. It reads along behind the ends while little comes; where much comes it
leaves most of it out, so that records do not pass through the driver's host twice.
"""

from collections.abc import Mapping
from typing import Final

from pointstamp.sinks.kafka.cluster import Cluster
from pointstamp.sources.kafka.ranges import Place

BEHIND_RECORDS_MAX: Final = 20_000
"""Where a partition has become longer by more than this, the records up to its end are left out."""
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
