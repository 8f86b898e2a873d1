"""Kafka output, exactly once for read-committed consumers; needs ``confluent-kafka``.

Workers stage encoded rows as files (``pointstamp.sinks.files``) in the query's checkpoint, or below a path
that is given; small ones are in the journal, with their commit. The driver writes the files of a commit as
one transaction (``publisher``) and removes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.sinks.files import Origin, StagedFiles, folder_name
from pointstamp.sinks.kafka.cluster import check_installed
from pointstamp.sinks.kafka.publisher import KafkaPublisher
from pointstamp.sinks.kafka.records import STAGED, RecordPlan
from pointstamp.sinks.port import Epochs, SinkBase, Staged, WriterBase
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

COMMITS = "pointstamp-commits"
INLINE_BYTES_MAX = 64 * 1024
"""Rows that are encoded in no more bytes are staged inside their commit."""


@dataclass(frozen=True, slots=True, repr=False)
class KafkaSink(SinkBase, RedactedRepr):
    """Records in topics of Kafka: each commit is one transaction, over all outputs.

    ``topic`` is that of the one output, or topics by output. A row is a record whose value is a JSON object,
    or with ``value="raw"`` its column ``value``; ``epoch`` names a field for the epoch. ``key`` names the
    columns of the record's key: of every output, or by output. ``deleted`` names the column that is true
    where a key is gone, as ``table.upserts`` has it: such a row is a tombstone. Changes of a table are events
    in Debezium's envelope.

    ``options`` are settings of librdkafka's. ``commits`` is the topic in which commits are noted, and is made
    if it is not there. ``staging`` is a path that all workers reach, in place of the query's checkpoint.
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
        """The sink for one query; SchemaError for columns of which no records can be made."""
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
        """The sink that stages in a query's checkpoint, unless it was given another place."""
        return self if self.staging is not None else replace(self, staging=storage)

    def writer(self, worker: int, generation: int) -> "KafkaWriter":
        """For one worker, on its host."""
        origin, schemas = Origin(self.query, generation), dict.fromkeys(self.schemas, STAGED)
        plans = {output: self._plan_of(output, schema) for output, schema in self.schemas.items()}
        return KafkaWriter(StagedFiles(self.storage(), self.folders(), schemas, origin, worker), plans)

    def publisher(self) -> KafkaPublisher:
        """For the driver."""
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
        """The topic of an output."""
        return self.topic if isinstance(self.topic, str) else self.topic[output]

    def _plan_of(self, output: str, schema: pa.Schema) -> RecordPlan:
        """How the rows of an output become records."""
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
