"""Kafka output, exactly once for read-committed consumers; needs ``confluent-kafka``.

Workers stage encoded rows as files (``pointstamp.connectors.staging``) in the query's checkpoint, or below a
path that is given; small ones are in the journal, with their commit. The driver writes the files of a commit
as one transaction (``KafkaPublisher``) and removes them.

Publish commits as Kafka transactions.

A reader of committed records sees all of a commit or nothing of it. One producer writes it, because no other
can write into its transaction: so the rows of a commit pass through the driver, encoded by the workers.

Whether a commit is published is decided in this order, and the order is what makes it safe: first the
transactions of the query are taken over, which ends what another driver has begun and refuses all that it
tries from then on; then the last commit is read; then the next is written. A driver that was replaced and
does not know it is refused by Kafka, takes over again, and finds the commit there. So each commit is written
once, no matter how many drivers write it and when they die.

The rows of a commit are sent while the commit is written into the journal, and the transaction is committed
after that. A process that dies in between leaves an open transaction, which the next driver rolls back.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.connectors import staging
from pointstamp.connectors.kafka.cluster import (
    ANSWER_SECONDS_MAX,
    Cluster,
    asked,
    cannot,
    check_installed,
    ends_of,
    error_words,
    partitions_of,
)
from pointstamp.connectors.kafka.record_encoding import STAGED, KafkaRecord, RecordPlan, records
from pointstamp.connectors.sink import Epochs, PublisherBase, SinkBase, Staged, WriterBase
from pointstamp.connectors.staging import Origin, StagedFiles, folder_name
from pointstamp.errors import FlowError, NotStored, RecoveryError, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.admin import AdminClient


COMMITS = "pointstamp-commits"
INLINE_BYTES_MAX = 64 * 1024
"""Rows that are encoded in no more bytes are staged inside their commit."""


@dataclass(frozen=True, slots=True, repr=False)
class KafkaSink(SinkBase, RedactedRepr):
    """Publish records in Kafka topics: each commit is one transaction, over all outputs.

    A row is a record whose value is a JSON object, or with ``value="raw"`` its column ``value``. Changes of a
    table are events in Debezium's envelope.

    Attributes:
        bootstrap: The servers, ``"host:port"`` with commas between them.
        topic: The topic of the one output, or topics by output.
        value (str, default "json"): The format of values.
        epoch (str, default None): The name of a field for the epoch.
        key: The columns of the record's key: of every output, or by output.
        deleted: The column that is true if the key was deleted, as in ``table.upserts``: such a row is a
            tombstone.
        options: Settings of librdkafka.
        commits: The topic in which commits are recorded; it is created if it does not exist.
        staging: A path that all workers can reach, instead of the query's checkpoint.

    """

    bootstrap: str
    topic: str | Mapping[str, str]
    key: str | Sequence[str] | Mapping[str, str | Sequence[str]] = field(default=(), kw_only=True)
    deleted: str | None = field(default=None, kw_only=True)
    value: Literal["json", "raw"] = field(default="json", kw_only=True)
    epoch: str | None = field(default=None, kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    commits: str = field(default=COMMITS, kw_only=True)
    staging: str | Storage | None = field(default=None, kw_only=True)
    query: str = field(default="", kw_only=True)
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if self.value not in ("json", "raw"):
            raise FlowError(
                f"{self._who}: value must be 'json' or 'raw', got {self.value!r}. Choose one of these."
            )

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "KafkaSink":
        """Return the sink of one query; SchemaError for columns that records cannot have."""
        check_installed()
        made = replace(self, query=query, schemas=dict(schemas))
        if isinstance(self.topic, str) and len(schemas) > 1:
            raise FlowError(
                f"{self._who}: expected one topic per output, got one topic for {', '.join(schemas)}. "
                "Give one for each: {'" + next(iter(schemas)) + "': '" + self.topic + "', ...}."
            )
        if unknown := [
            name for name in schemas if not isinstance(self.topic, str) and name not in self.topic
        ]:
            raise FlowError(
                f"{self._who}: output {', '.join(map(repr, unknown))} has no topic. Name one "
                "in topic={...}."
            )
        for output, schema in schemas.items():
            made._plan_of(output, schema)  # noqa: SLF001 - of its own kind; what does not fit is refused
        return made

    def staging_in(self, storage: Storage) -> "KafkaSink":
        """Return the sink that stages in a query's checkpoint, unless ``staging`` is set."""
        return self if self.staging is not None else replace(self, staging=storage)

    def writer(self, worker: int, generation: int) -> "KafkaWriter":
        """Return the writer of one worker, on its host."""
        origin, schemas = Origin(self.query, generation), dict.fromkeys(self.schemas, STAGED)
        plans = {output: self._plan_of(output, schema) for output, schema in self.schemas.items()}
        return KafkaWriter(StagedFiles(self.storage(), self.folders(), schemas, origin, worker), plans)

    def publisher(self) -> "KafkaPublisher":
        """Return the publisher, for the driver."""
        return KafkaPublisher(self)

    def storage(self) -> Storage:
        """Return the storage where workers stage rows."""
        if self.staging is None:
            raise FlowError(f"{self._who}: no folder to stage rows in. Give one: staging='path'.")
        return storage_at(self.staging) if isinstance(self.staging, str) else self.staging

    def folders(self) -> dict[str, str]:
        """Return the staging folder of each output."""
        return {output: f"staged/{folder_name(output)}" for output in self.schemas}

    def topic_of(self, output: str) -> str:
        """Return the topic of an output."""
        return self.topic if isinstance(self.topic, str) else self.topic[output]

    def _plan_of(self, output: str, schema: pa.Schema) -> RecordPlan:
        """The encoding of an output's rows as records."""
        return RecordPlan.of(output, schema, self._options_of(output, schema))

    def _options_of(self, output: str, schema: pa.Schema) -> dict[str, Any]:
        key = self.key.get(output, ()) if isinstance(self.key, Mapping) else self.key
        return {
            "key": (key,) if isinstance(key, str) else tuple(key),
            # Of several outputs some may be upserts; the only one must be what it is said to be.
            "deleted": self.deleted if self.deleted in schema.names or len(self.schemas) == 1 else None,
            "epoch": self.epoch,
            "is_raw": self.value == "raw",
        }

    @property
    def _who(self) -> str:
        return f"the sink at Kafka '{redact(self.bootstrap)}'"


class KafkaWriter(WriterBase):
    """Stages the records of one worker."""

    def __init__(self, staged: StagedFiles, plans: Mapping[str, RecordPlan]) -> None:
        self._staged = staged
        self._plans = plans

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        """Encode all rows of these epochs into one piece, which holds them if they are few."""
        return self._staged.stage(output, self._encoded(output, epochs), INLINE_BYTES_MAX)

    def stage_early(self, output: str, epochs: Epochs) -> list[Staged]:
        """Encode all rows of these epochs, and write them into one file."""
        return self._staged.stage(output, self._encoded(output, epochs))

    def _encoded(self, output: str, epochs: Epochs) -> Epochs:
        plan = self._plans[output]
        return {
            epoch: [plan.staged(epoch, batch) for batch in batches if batch.num_rows]
            for epoch, batches in epochs.items()
        }


_TRIES_MAX: Final = 5
_QUEUE_RECORDS: Final = 1_000_000


# The topic of commits: one record per commit, in the transaction of its rows.
#
# A commit is published if its record is committed, and both are so at once. The topic is compacted by the
# name of the query, so it stays small; a consumer group's offsets would be forgotten a week after a query was
# stopped. Several queries may share the topic. A reader that looks for the last commit of a query waits until
# every transaction that has begun by then has come to its end: otherwise an open one of another query would
# hide it.

RECENT_MAX: Final = 16
"""The number of last commits whose contents are known."""
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
"""The note before the first commit."""
NO_COMMIT: Final = CommitNote(-1, -2)
"""The state of a query without a note; it is never written."""


def commit_digest(epochs_through: int, staged: Sequence[Staged]) -> str:
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


class KafkaPublisher(PublisherBase):
    """Writes the commits of one query; used by the driver's thread."""

    def __init__(self, sink: KafkaSink) -> None:
        self._sink = sink
        self._cluster = Cluster(sink.bootstrap, sink.options)
        self._storage = sink.storage()
        self._producer: Producer | None = None
        self._last = NO_COMMIT
        self._sent: CommitNote | None = None
        """The content of the open transaction, if one is open."""

    def check_outputs(self, before: Collection[str]) -> None:
        """An output may begin and end with any commit, but its topic must be there."""
        del before
        topics = {self._sink.topic_of(output) for output in self._sink.schemas}
        there = partitions_of(self._cluster.admin(), topics)
        if missing := sorted(topics - there.keys()):
            raise RecoveryError(
                f"{self._cluster} has no topic {', '.join(map(repr, missing))}, which the sink publishes "
                "to. Nothing was changed. Create the topic, or name another one."
            )

    def begin(self) -> None:
        """Note that the query has no commit yet, unless something is noted."""
        for _ in range(_TRIES_MAX):
            producer = self._taken_over()
            if self._last != NO_COMMIT:
                return
            if self._write(producer, {}, BEGUN):
                self._last = BEGUN
                return
        raise self._refused("the beginning")

    @contextmanager
    def prepared(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> Iterator[None]:
        """Send the rows of a commit, still invisible, while the journal records it."""
        producer = self._producer
        if producer is not None and self._sent is None and number == self._last.number + 1:
            note = self._last.after(number, epochs_through, commit_digest(epochs_through, staged))
            try:
                self._send_rows(producer, self._content(staged), note)
            except Exception:  # publishing tries it again, and says what is wrong
                self._leave()
        try:
            yield
        except BaseException:
            self._roll_back(producer)
            raise

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Write a commit unless it is already published."""
        digest = commit_digest(epochs_through, staged)
        for _ in range(_TRIES_MAX):
            producer = self._taken_over()
            if self._is_published(number, digest):
                self._remove(staged)
                return
            note = self._last.after(number, epochs_through, digest)
            if self._sent not in (None, note):
                self._leave()  # another commit was prepared
                continue
            try:
                content = {} if self._sent == note else self._content(staged)
            except NotStored:
                # Another driver may have published it meanwhile, and removed what was staged.
                self._leave()
                if not self._is_published_by_others(number, digest):
                    raise
                return
            if self._write(producer, content, note):
                self._last = note
                self._remove(staged)
                return
        raise self._refused(f"commit {number}")

    def published_through(self) -> int | None:
        """The last epoch that is committed in Kafka."""
        self._leave()  # others may have published since
        self._taken_over()
        return None if self._last == NO_COMMIT else self._last.epochs_through

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged, unless it is kept and not known to be published."""
        kept = {piece.path for piece in keep if piece.last_epoch > self._last.epochs_through}
        folders = list(self._sink.folders().values())
        staging.discard(self._storage, folders, Origin(self._sink.query, generation), kept)

    # Inside.

    def _refused(self, what: str) -> StorageError:
        return StorageError(
            f"{what} could not be written into {self._cluster}, which refused the producer of query "
            f"'{self._sink.query}' {_TRIES_MAX} times. If other drivers of this query run, stop all but one."
        )

    def _taken_over(self) -> "Producer":
        """The producer of the query's transactions, after it is known which commit was the last."""
        if self._producer is None:
            from confluent_kafka import KafkaException, Producer

            settings = self._cluster.settings(
                transactional_id=f"pointstamp-{self._sink.query}",
                partitioner="murmur2_random",  # a key goes where Java's clients would put it
                linger_ms=1,
                queue_buffering_max_messages=_QUEUE_RECORDS,
            )
            producer = Producer(settings)
            try:
                producer.init_transactions(ANSWER_SECONDS_MAX)
            except KafkaException as error:
                raise cannot(f"begin the transactions of query '{self._sink.query}'", error) from error
            self._last = last_commit(self._cluster, self._sink.commits, self._sink.query)
            self._producer = producer
        return self._producer

    def _leave(self) -> None:
        """Use the producer no more; the next one rolls back what it has sent."""
        self._producer = self._sent = None

    def _roll_back(self, producer: "Producer | None") -> None:
        """End the transaction of a producer, if one is open, so that no reader waits for it."""
        from confluent_kafka import KafkaException

        if producer is not None:
            with suppress(KafkaException):  # nothing may be open, and Kafka may be gone
                producer.abort_transaction(ANSWER_SECONDS_MAX)
        self._leave()

    def _is_published_by_others(self, number: int, digest: str) -> bool:
        self._taken_over()
        return self._is_published(number, digest)

    def _is_published(self, number: int, digest: str) -> bool:
        """Whether a commit is there; StorageError if another one is, or if one before it is missing."""
        last = self._last
        if number > last.number + 1:
            raise StorageError(
                f"expected commit {last.number + 1} of query '{self._sink.query}' in {self._cluster}, got "
                f"commit {number}. Nothing was changed. A commit was lost, or the topic "
                f"'{self._sink.commits}' was emptied: start with a new checkpoint."
            )
        if number <= last.number and last.digest_of(number) not in (digest, None):
            raise StorageError(
                f"commit {number} of query '{self._sink.query}' is already published with different rows. "
                "Nothing was changed. Use the checkpoint that wrote it."
            )
        return number <= last.number

    def _content(self, staged: Sequence[Staged]) -> dict[str, pa.Table]:
        """The rows of each output, earlier epochs first."""
        tables: dict[str, list[pa.Table]] = {}
        for piece in sorted(staged, key=lambda each: each.path):
            content = piece.content or self._storage.read(piece.path)
            if problem := staging.damage(self._storage.address, piece, content):
                raise StorageError(problem)
            tables.setdefault(piece.output, []).append(staging.table_of(content))
        return {output: pa.concat_tables(each) for output, each in tables.items()}

    def _write(self, producer: "Producer", content: dict[str, pa.Table], note: CommitNote) -> bool:
        """Write a commit in one transaction; False if the producer is refused, as after a takeover."""
        from confluent_kafka import KafkaException

        sink = self._sink
        try:
            if self._sent != note:
                self._send_rows(producer, content, note)
            producer.commit_transaction(ANSWER_SECONDS_MAX)
            self._sent = None
        except KafkaException as error:
            self._leave()
            if _is_refused(error):
                return False
            if error.args[0].txn_requires_abort():
                with suppress(KafkaException):
                    producer.abort_transaction(ANSWER_SECONDS_MAX)
            raise cannot(f"take commit {note.number} of query '{sink.query}'", error) from error
        except BaseException:
            self._leave()
            raise
        return True

    def _send_rows(self, producer: "Producer", content: dict[str, pa.Table], note: CommitNote) -> None:
        """Begin a transaction, and send everything of a commit; that it has arrived is not waited for."""
        sink = self._sink
        producer.begin_transaction()
        for output, table in content.items():
            for epoch in sorted(pc.unique(table.column("epoch")).to_pylist()):
                mine = table.filter(pc.equal(table.column("epoch"), epoch))
                _send(producer, sink.topic_of(output), records(mine))
        _send(producer, sink.commits, iter([KafkaRecord(sink.query.encode(), encoded(note))]))
        self._sent = note

    def _remove(self, staged: Sequence[Staged]) -> None:
        """Discard published rows: the note of their commit records the publication."""
        for piece in staged:
            if not piece.content:
                self._storage.delete(piece.path)


def _send(producer: "Producer", topic: str, given: Iterator[KafkaRecord]) -> None:
    from confluent_kafka import KafkaError, KafkaException

    for record in given:
        while True:
            try:
                producer.produce(topic, record.value, record.key)
                break
            except BufferError:  # the queue is full: wait until some of it is sent
                producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                raise RecoveryError(
                    f"a record for the topic '{topic}' has {len(record.value or b''):,} bytes, which is more "
                    f"than the Kafka client accepts: {error_words(error)}. Allow larger records "
                    "(options={'message.max.bytes': ...}, and max.message.bytes of the topic), then restart "
                    "the query; the commit is in the journal."
                ) from error


def _is_refused(error: "KafkaException") -> bool:
    """Return whether a producer is of no use any more; most often because another driver has taken over."""
    from confluent_kafka import KafkaError

    own = (KafkaError._FENCED, KafkaError._FATAL)  # noqa: SLF001 - public there
    codes = (*own, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return error.args[0].fatal() or error.args[0].code() in codes
