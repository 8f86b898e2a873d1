"""Map Kafka records to columns.

A column that is asked for by ``columns=`` holds what Kafka knows of a record: its key, value, headers,
timestamp, topic, partition or offset, whether it is a tombstone, or why it could not be decoded. One that
``key=`` names is in the record's key: the only one as text, several as a JSON object. All others are of the
value.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa

from pointstamp.arrow.schema import check_undeclared, extra_of, fit, is_change_name, with_extra
from pointstamp.connectors.bad_records import BadRecords, write_bad_records
from pointstamp.connectors.kafka.record_decoding import (
    AvroDecoder,
    Decoded,
    Decoder,
    ProtobufDecoder,
    check_avro_installed,
    decode_json,
    decode_json_schema,
)
from pointstamp.errors import FlowError, SchemaError, SourceError
from pointstamp.redaction import RedactedRepr

if TYPE_CHECKING:
    from confluent_kafka import Message

OnBad: TypeAlias = Literal["error", "skip", "drop", "keep"]
KafkaFormat: TypeAlias = Literal["json", "raw", "avro", "json_schema", "protobuf", "protobuf_schema"]

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP: Final = pa.timestamp("ms", "UTC")
ERROR: Final = "error"

KNOWN: Final[Mapping[str, tuple[pa.DataType, Callable[["Message"], Any]]]] = {
    "key": (pa.binary(), lambda message: message.key()),
    "value": (pa.binary(), lambda message: message.value()),
    "headers": (HEADERS, lambda message: [_header(*each) for each in message.headers() or ()]),
    "timestamp": (TIMESTAMP, lambda message: message.timestamp()[1]),
    "topic": (pa.string(), lambda message: message.topic()),
    "partition": (pa.int64(), lambda message: message.partition()),
    "offset": (pa.int64(), lambda message: message.offset()),
    "tombstone": (pa.bool_(), lambda message: message.value() is None),
}
"""The metadata of a record, and the functions that read it."""


@dataclass(frozen=True, slots=True, repr=False)
class RecordColumns(RedactedRepr):
    """Maps records to rows; checked when the source is created."""

    format: KafkaFormat
    registry: str | Mapping[int, Any] | None
    key: tuple[str, ...]
    known: Mapping[str, str]
    on_bad: OnBad | BadRecords
    protobuf: ProtobufDecoder | None = None

    def check(self, who: str) -> None:
        """FlowError if this cannot work."""
        if wrong := [each for each in self.known.values() if each not in (*KNOWN, ERROR)]:
            raise FlowError(
                f"{who}: columns= must ask for fields of a record ({', '.join([*KNOWN, ERROR])}), got "
                f"{', '.join(map(repr, wrong))}. Choose one of these."
            )
        if self.on_bad == "keep" and ERROR not in self.known.values():
            raise FlowError(
                f"{who}: on_bad='keep' keeps records that cannot be decoded, so a column must distinguish "
                "them. Ask for it: columns={'why': 'error', 'value': 'value', ...}; or write them to a "
                "folder: on_bad=ps.io.BadRecords(path)."
            )
        if (self.format == "avro") != (self.registry is not None):
            raise FlowError(
                f"{who}: format='avro' needs registry=, the address of a schema registry or schemas by "
                "id; other formats accept no registry=."
            )
        if self.format == "avro":
            check_avro_installed()

    def rows(self, messages: Sequence["Message"], schema: pa.Schema, who: str) -> tuple[pa.RecordBatch, int]:
        """Records as rows, and how many were skipped."""
        extra = extra_of(schema)
        own = pa.schema([field for field in schema if field.name not in (*self.known, *self.key)])
        keyed = pa.schema([field for field in schema if field.name in self.key])
        # A column that is declared for something else may be in the value, too.
        elsewhere = any(is_change_name(name) for name in (*self.known, *self.key))
        own = with_extra(own, "ignore" if elsewhere else extra)
        keyed = with_extra(keyed, "ignore" if elsewhere else extra)
        decoded = self._decoded([message.value() for message in messages], own)
        keys = self._keys([message.key() for message in messages], keyed)
        check_undeclared(
            [*decoded.keys, *keys.keys], schema.names, who, extra, known=(*self.known, *self.key)
        )
        problems = {**keys.problems, **decoded.problems}
        if problems and self.on_bad == "error":
            raise _undecodable(messages, problems, who)
        columns: dict[str, pa.Array] = {
            **dict(zip(own.names, decoded.rows.columns, strict=True)),
            **dict(zip(keyed.names, keys.rows.columns, strict=True)),
        }
        for name, what in self.known.items():
            if name in schema.names:
                columns[name] = _known(messages, what, problems, schema.field(name), who)
        batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], names=schema.names)
        if problems and isinstance(self.on_bad, BadRecords):
            bad = [(messages[place], words) for place, words in sorted(problems.items())]
            write_bad_records(self.on_bad, bad)
        if problems and self.on_bad != "keep":
            is_good = pa.array([place not in problems for place in range(len(messages))])
            return fit(batch.filter(is_good), schema.remove_metadata(), who), len(problems)
        return fit(batch, schema.remove_metadata(), who), 0

    def _decoded(self, values: list[bytes | None], schema: pa.Schema) -> Decoded:
        if not schema.names:
            return Decoded(pa.RecordBatch.from_arrays([], schema=schema), {})
        if self.format == "raw":
            raise SchemaError(
                "without a format only columns of columns= and key= can be declared, got "
                f"'{schema.names[0]}'. Ask for it there, or name a format."
            )
        decode: Decoder = decode_json if self.format == "json" else decode_json_schema
        if self.registry is not None:
            decode = AvroDecoder(self.registry)
        elif self.protobuf is not None:
            decode = self.protobuf
        return decode(values, schema)

    def _keys(self, keys: list[bytes | None], schema: pa.Schema) -> Decoded:
        if len(self.key) != 1 or not schema.names:
            return decode_json(keys, schema) if schema.names else Decoded(_empty(schema), {})
        problems: dict[int, str] = {}
        values: list[object] = []
        for place, key in enumerate(keys):
            try:
                values.append(_from_text(key, schema.field(0).type))
            except (pa.ArrowException, ValueError) as error:
                problems[place] = f"its key is no {schema.field(0).type}: {error}"
                values.append(None)
        array = pa.array(values, schema.field(0).type)
        return Decoded(pa.RecordBatch.from_arrays([array], schema=schema), problems)


def _from_text(key: bytes | None, kind: pa.DataType) -> object:
    if key is None or pa.types.is_binary(kind):
        return key
    return pa.scalar(key.decode(), pa.string()).cast(kind).as_py()


def _known(
    messages: Sequence["Message"], what: str, problems: Mapping[int, str], field: pa.Field, who: str
) -> pa.Array:
    """Metadata of each record, as a column of the declared type."""
    if what == ERROR:
        kind, values = pa.string(), [problems.get(place) for place in range(len(messages))]
    else:
        kind, find = KNOWN[what]
        values = [find(message) for message in messages]
    array = pa.array(values, kind)
    try:
        return array.cast(field.type)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError(
            f"{who}: the column '{field.name}' is declared as {field.type}, but the {what} of a record is "
            f"{kind}, and one does not fit: {error}. Declare a wider type."
        ) from error


def _header(name: str, value: object) -> dict[str, object]:
    return {"key": name, "value": value.encode() if isinstance(value, str) else value}


def _undecodable(messages: Sequence["Message"], problems: Mapping[int, str], who: str) -> SourceError:
    place, words = min(problems.items())
    value = messages[place].value()
    text = repr(value if value is None or len(value) <= 200 else value[:200])
    more = f" {len(problems) - 1} more follow." if len(problems) > 1 else ""
    return SourceError(
        f"{who}: the record at offset {messages[place].offset()} cannot be decoded: {words}. It is {text}."
        f"{more} Restart the query with on_bad='skip' to leave such records out, or with "
        "on_bad=ps.io.BadRecords(path) to write them to a folder; checkpoint and output stay as they are."
    )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([], schema=schema)
