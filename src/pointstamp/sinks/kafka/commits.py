"""The topic of commits: one record per commit, in the transaction of its rows.

A commit is published if its record is committed, and both are so at once. The topic is compacted by the name
of the query, so it stays small; a consumer group's offsets would be forgotten a week after a query was
stopped. Several queries may share the topic. A reader that looks for the last commit of a query waits until
every transaction that has begun by then has come to its end: otherwise an open one of another query would
hide it.
"""

import hashlib
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from pointstamp.errors import StorageError
from pointstamp.sinks.kafka.cluster import (
    ANSWER_SECONDS_MAX,
    Cluster,
    asked,
    cannot,
    ends_of,
    partitions_of,
)
from pointstamp.sinks.port import Staged

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

RECENT_MAX: Final = 16
"""Of so many commits it is known what they held."""
STABLE_SECONDS_MAX: Final = 120.0
"""Longer than a transaction of a dead process stays open."""
_PLACE: Final = 0


class CommitNote(msgspec.Struct, frozen=True, array_like=True):
    """The note of the last commit: its number, last epoch, and digests of recent commits."""

    number: int
    epochs_through: int
    digests: tuple[str, ...] = ()

    def after(self, number: int, epochs_through: int, digest: str) -> "CommitNote":
        """The note of the next commit."""
        return CommitNote(number, epochs_through, (*self.digests[-RECENT_MAX + 1 :], digest))

    def digest_of(self, number: int) -> str | None:
        """Return the digest of an earlier commit; None if it is no longer known."""
        back = self.number - number
        return self.digests[-1 - back] if 0 <= back < len(self.digests) else None


BEGUN: Final = CommitNote(-1, -1)
"""What is noted before the first commit."""
NO_COMMIT: Final = CommitNote(-1, -2)
"""What is known of a query of which nothing is noted; it is never written."""


def digest(epochs_through: int, staged: Sequence[Staged]) -> str:
    """A word for what a commit holds, in whatever order its pieces are given."""
    text = msgspec.msgpack.encode(
        (epochs_through, sorted((each.path, each.crc32, each.rows) for each in staged))
    )
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def encoded(note: CommitNote) -> bytes:
    """A note as the value of its record."""
    return msgspec.json.encode(note)


def last_commit(cluster: Cluster, topic: str, query: str) -> CommitNote:
    """The last note of a query, ``NO_COMMIT`` where it has none; the topic is made if needed."""
    admin = cluster.admin()
    if not partitions_of(admin, [topic]):
        _make(admin, topic)
        admin = cluster.admin()  # the other one believes for a while that there is no such topic
    end = ends_of(admin, [(topic, _PLACE)], is_committed=False)[topic, _PLACE]
    found = NO_COMMIT
    for key, value in _records(cluster, topic, end):
        if key == query.encode() and value is not None:
            found = msgspec.json.decode(value, type=CommitNote)
    return found


def _make(admin: "AdminClient", topic: str) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    settings = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
    made = admin.create_topics([NewTopic(topic, 1, config=settings)])[topic]

    def wait() -> None:
        try:
            made.result(ANSWER_SECONDS_MAX)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    asked(wait, f"a topic '{topic}', in which commits are noted. Make it, or allow that it is made")


def _records(cluster: Cluster, topic: str, end: int) -> list[tuple[bytes | None, bytes | None]]:
    """All committed records of the topic before an offset."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = cluster.reader_settings(enable_partition_eof=True, auto_offset_reset="earliest")
    consumer = Consumer(settings)
    found: list[tuple[bytes | None, bytes | None]] = []
    deadline, reached = monotonic() + STABLE_SECONDS_MAX, 0
    try:
        consumer.assign([TopicPartition(topic, _PLACE, 0)])
        while reached < end:
            message = consumer.poll(1.0)
            if monotonic() > deadline:
                raise StorageError(
                    f"the topic '{topic}' has transactions that have been open for {STABLE_SECONDS_MAX:g} "
                    "seconds, so the last commit is unknown. Stop the producer that hangs, or abort its "
                    "transaction (kafka-transactions.sh abort)."
                )
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append((message.key(), message.value()))
                reached = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - public there
                reached = message.offset() or 0
            elif not error.retriable():
                raise cannot(f"read the topic '{topic}'", StorageError(error))
    finally:
        consumer.close()
    return found
