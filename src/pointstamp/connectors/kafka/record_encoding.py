"""Encode rows as Kafka records: keys, and values as JSON.

- Rows of a stream: each is a record. With a key its columns are the record's key: one column as text, as it
  is where it is text or bytes, and several as a JSON object.
- Upserts (``deleted=`` names the column that says so): a row that is deleted is a tombstone, a record without
  a value, so that a compacted topic is the table.
- Changes of a table: each is an event in Debezium's envelope. A row that is deleted and one that is inserted
  with the same key, in one epoch, are one event, an update.

Workers make the columns of ``STAGED``; the records are made of them when all of an epoch are together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.open_changes import is_changes
from pointstamp.errors import FlowError, SchemaError

STAGED: Final = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("weight", pa.int64())])
"""The staged columns of each row; the weight is 0 for rows that are not changes of a table."""
VALUE: Final = "value"


class KafkaRecord(NamedTuple):
    """A Kafka record: an optional key, and a value, which a tombstone lacks."""

    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """Encodes the rows of one output as records; checked against its columns."""

    schema: pa.Schema
    key: tuple[str, ...] = ()
    deleted: str | None = None
    epoch: str | None = None
    is_raw: bool = False

    @classmethod
    def of(cls, output: str, schema: pa.Schema, options: Mapping[str, Any]) -> "RecordPlan":
        """The plan for an output; SchemaError where its columns do not fit."""
        plan = cls(schema, **options)
        who = f"output '{output}'"
        for column in (*plan.key, *([plan.deleted] if plan.deleted else [])):
            if column not in schema.names:
                raise SchemaError(
                    f"{who} has no column '{column}', which the sink's records need; it has "
                    f"{', '.join(schema.names)}. Name one of these."
                )
        if plan.deleted and not types.is_boolean(schema.field(plan.deleted).type):
            raise SchemaError(
                f"{who}: deleted={plan.deleted!r} must name a boolean column. Cast it in the flow."
            )
        if plan.deleted and not plan.key:
            raise FlowError(
                f"{who}: deleted= needs key=, because a deleted row is published as a record "
                "with its key alone. Name the key: key='id'."
            )
        if plan.is_raw and (VALUE not in schema.names or not _is_bytes(schema.field(VALUE).type)):
            raise SchemaError(
                f"{who} needs a column 'value' of binary or string type for value='raw'. "
                "Add it in the flow, or use value='json'."
            )
        return plan

    def staged(self, epoch: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch as workers stage them."""
        rows = batch.to_pylist()
        weights = [0] * len(rows)
        if is_changes(self.schema):
            weight = self.schema.names[-1]
            weights = [row.pop(weight) for row in rows]
        keys = [self._key(row) for row in rows] if self.key else [None] * len(rows)
        values = [self._value(epoch, row) for row in rows]
        return pa.RecordBatch.from_arrays(
            [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(weights, pa.int64())],
            schema=STAGED,
        )

    def _key(self, row: dict[str, Any]) -> bytes:
        if len(self.key) > 1:
            return msgspec.json.encode({name: row[name] for name in self.key})
        value = row[self.key[0]]
        if isinstance(value, bytes):
            return value
        return value.encode() if isinstance(value, str) else msgspec.json.encode(value)

    def _value(self, epoch: int, row: dict[str, Any]) -> bytes | None:
        if self.deleted is not None and row.pop(self.deleted):
            return None
        if self.is_raw:
            value = row[VALUE]
            return value.encode() if isinstance(value, str) else value
        return msgspec.json.encode(row if self.epoch is None else {self.epoch: epoch, **row})


def records(staged: pa.Table) -> Iterator[KafkaRecord]:
    """The records of one epoch, of the rows that all workers have staged for it."""
    columns = [staged.column(name).to_pylist() for name in STAGED.names]
    events: list[tuple[bytes | None, bytes, int]] = []
    for key, value, weight in zip(*columns, strict=True):
        if weight:
            events.append((key, value, weight))
        else:
            yield KafkaRecord(key, value)
    yield from _events(events)


def _events(changes: list[tuple[bytes | None, bytes, int]]) -> Iterator[KafkaRecord]:
    """Debezium's events for the changes of an epoch: what is deleted before what is inserted."""
    gone: dict[bytes, list[bytes]] = {}
    for key, row, weight in changes:
        if weight < 0 and key is not None:
            gone.setdefault(key, []).extend([row] * -weight)
    updates: list[KafkaRecord] = []
    for key, row, weight in changes:
        if weight > 0:
            for _ in range(weight):
                before = gone[key].pop() if key is not None and gone.get(key) else None
                updates.append(_event(key, before, row))
    for key, row, weight in changes:
        if weight < 0 and key is None:
            yield from [_event(None, row, None)] * -weight
    for key, rows in gone.items():
        yield from (_event(key, row, None) for row in rows)
    yield from updates


def _event(key: bytes | None, before: bytes | None, after: bytes | None) -> KafkaRecord:
    op = b"d" if after is None else b"c" if before is None else b"u"
    body = b'{"op":"%b","before":%b,"after":%b}' % (op, before or b"null", after or b"null")
    return KafkaRecord(key, body)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in (types.is_string, types.is_binary, types.is_large_string))
