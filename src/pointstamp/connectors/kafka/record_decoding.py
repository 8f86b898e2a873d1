"""Decode JSON values of records, with or without a registry header.

A registry's wire format is a zero, the number of a schema in four bytes, and the value. What a JSON object
must be is said by the input's columns, so the schema's number is passed over.

A value that cannot be decoded is told with its place and the reason, and its columns are null; so are those
of a record without a value. The others are decoded all together, and one by one only around such a value.
"""

import base64
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pyarrow as pa
from pyarrow import types

from pointstamp.arrow.schema import extra_of, to_batches
from pointstamp.connectors.json_lines import check_utf8, deletion_keys, json_lines, keys_of, refused_keys
from pointstamp.errors import FlowError, PointstampError, SchemaError, StorageError
from pointstamp.redaction import RedactedRepr, harmless, redact, redact_text

T = TypeVar("T")

HEADER_BYTES: Final = 5
"""The size of the header of a registry's wire format."""


class Decoded(NamedTuple):
    """The columns of values, one row for each, and why those are null that could not be decoded.

    ``keys`` are those that values have, declared or not. Of JSON they are those of the first value and of
    those that could not be decoded, among which are all with an undeclared key that says the change of a row.
    """

    rows: pa.RecordBatch
    problems: dict[int, str]
    keys: tuple[str, ...] = ()


Decoder: TypeAlias = Callable[[Sequence[bytes | None], pa.Schema], Decoded]


def decode_json(values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    """JSON objects, with the columns of a schema."""
    pieces: list[pa.RecordBatch] = []
    problems: dict[int, str] = {}
    start = 0
    for place, value in enumerate([*values, None]):
        if value is None:
            run = [each for each in values[start:place] if each is not None]
            _make(run, start, schema, _parsed, pieces, problems)
            if place < len(values):
                pieces.append(nulls(schema))
            start = place + 1
    rows = pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema)
    first = next((value for value in values if value is not None), b"")
    looked_at = [first, *(value for place in problems if (value := values[place]) is not None)]
    return Decoded(rows, problems, tuple(keys_of(looked_at)))


def decode_json_schema(values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
    """JSON objects in a registry's wire format."""
    has_header = [value is not None and value[:1] == b"\0" and len(value) > HEADER_BYTES for value in values]
    plain = [
        value[HEADER_BYTES:] if value is not None and known else None
        for value, known in zip(values, has_header, strict=True)
    ]
    found = decode_json(plain, schema)
    without = {
        place: NO_HEADER
        for place, (value, known) in enumerate(zip(values, has_header, strict=True))
        if value is not None and not known
    }
    return Decoded(found.rows, {**found.problems, **without}, found.keys)


NO_HEADER: Final = "it does not begin with the zero and the schema's number of a registry's wire format"


def nulls(schema: pa.Schema) -> pa.RecordBatch:
    """A row without values."""
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def decode_each(
    values: Sequence[bytes | None],
    schema: pa.Schema,
    decode: Callable[[bytes], dict[str, Any]],
    bad: tuple[type[Exception], ...],
) -> Decoded:
    """Values that a package decodes one by one, to rows of Python's; ``bad`` are its errors about a value."""
    found: list[dict[str, Any]] = []
    problems: dict[int, str] = {}
    keys: dict[str, None] = {}
    for place, value in enumerate(values):
        row: dict[str, Any] = {}
        if value is not None:
            try:
                row = decode(value)
            except StorageError:  # of a registry: that says nothing about the value
                raise
            except bad as error:
                problems[place] = _reason(error)
        found.append(row)
        if row.keys() - keys.keys():
            keys.update(dict.fromkeys(row))
    pieces: list[pa.RecordBatch] = []
    _make(found, 0, schema, _fitted, pieces, problems)
    rows = pa.concat_batches(pieces) if pieces else pa.RecordBatch.from_pylist([], schema)
    return Decoded(rows, problems, tuple(keys))


def _make(
    items: Sequence[T],
    start: int,
    schema: pa.Schema,
    make: Callable[[Sequence[T], pa.Schema], Iterable[pa.RecordBatch]],
    pieces: list[pa.RecordBatch],
    problems: dict[int, str],
) -> None:
    """Make columns of items: of all together, or where that fails of each half by itself."""
    if not items:
        return
    try:
        pieces.extend(list(make(items, schema)))  # all or none
    except (PointstampError, pa.ArrowException, ValueError, TypeError) as error:
        if len(items) == 1:
            problems[start] = _reason(error)
            pieces.append(nulls(schema))
            return
        half = len(items) // 2
        _make(items[:half], start, schema, make, pieces, problems)
        _make(items[half:], start + half, schema, make, pieces, problems)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _fitted(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    return to_batches([{name: row.get(name) for name in schema.names} for row in rows], schema, "a record")


def _parsed(texts: Sequence[bytes], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    # A line break in JSON can only stand between its words. An object for each text is then at least one row,
    # so that as many rows as texts are one for each.
    lines = [text.replace(b"\n", b" ").strip() for text in texts]
    for line in lines:
        if not (line.startswith(b"{") and line.endswith(b"}")):
            raise ValueError("it is not a JSON object")
    joined = b"\n".join(lines)
    check_utf8(joined)
    # A value for a key that looks like the change of a row is a problem, so that its keys are looked at.
    is_checked = extra_of(schema) != "ignore"
    if is_checked and deletion_keys(joined, schema.names):
        raise ValueError("it has a key that looks like the change of a row")
    refused = refused_keys(schema.names) if is_checked else []
    batches = list(json_lines(pa.BufferReader(joined), schema, len(joined) + 1, refused))
    if sum(batch.num_rows for batch in batches) != len(lines):
        raise ValueError("it is more than one JSON object")
    return [pa.concat_batches(batches).cast(schema)]


# Decode Protobuf values with descriptors of ``protoc``.
#
# ``protoc --include_imports --descriptor_set_out=orders.desc orders.proto`` makes the descriptors. Fields are
# columns of their names: nested messages structs, repeated fields lists, maps maps, an enum its name or its
# number, as the column is declared. What is absent is null; a field of proto3 that cannot be absent is zero
# or empty. A message that stands for a value (``google.protobuf.Timestamp``, ``Int64Value``, ...) is that
# value.
#
# With a registry's wire format, the schema's number is followed by the place of the message in its file,
# which must be that of the named one.

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ProtobufDecoder:
    """Decodes messages of one name, with or without a registry's header; workers get the descriptors."""

    descriptors: bytes = field(repr=False)
    message: str
    has_header: bool

    def __call__(self, values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
        """Messages, with the columns of a schema."""
        kind = _message_class(self.descriptors, self.message)
        self._check_columns(kind.DESCRIPTOR, schema)

        def decoded(value: bytes) -> dict[str, Any]:
            return _row(kind.FromString(self._body(value, kind.DESCRIPTOR)), schema)

        found = decode_each(values, schema, decoded, (Exception,))  # the package has errors of its own
        return found._replace(keys=tuple(each.name for each in kind.DESCRIPTOR.fields))

    def _body(self, value: bytes, descriptor: Any) -> bytes:  # noqa: ANN401 - as the package has it
        if not self.has_header:
            return value
        if value[:1] != b"\0" or len(value) < HEADER_BYTES:
            raise ValueError(NO_HEADER)
        indexes, at = _indexes(value, HEADER_BYTES)
        if indexes != _place_in_file(descriptor):
            raise ValueError(
                f"it is message {indexes} of its file, but '{self.message}' is {_place_in_file(descriptor)}"
            )
        return value[at:]

    def _check_columns(self, descriptor: Any, schema: pa.Schema) -> None:  # noqa: ANN401 - as above
        known = [each.name for each in descriptor.fields]
        if unknown := [name for name in schema.names if name not in known]:
            raise SchemaError(
                f"the message '{self.message}' has no field {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(known)}. Declare the input's columns by these names."
            )


def protobuf_decoder(
    who: str,
    format: str,  # noqa: A002  as the source has it
    message: str | None,
    descriptors: str | PathLike[str] | bytes | None,
) -> ProtobufDecoder | None:
    """The decoder for a format of Protobuf, None for others; FlowError if what is given does not fit."""
    is_wanted = format in ("protobuf", "protobuf_schema")
    if not is_wanted and message is None and descriptors is None:
        return None
    if not is_wanted or message is None or descriptors is None:
        raise FlowError(
            f"{who}: format='protobuf' and 'protobuf_schema' need message=, a message's full name, and "
            "descriptors=, the output of protoc --descriptor_set_out; other formats accept neither."
        )
    content = descriptors if isinstance(descriptors, bytes) else _content(who, descriptors)
    decoder = ProtobufDecoder(content, message, format == "protobuf_schema")
    try:
        import google.protobuf  # noqa: F401 - whether it is there
    except ImportError as error:
        raise FlowError(
            f"{who}: Protobuf needs the package protobuf, which is not installed. Install pointstamp[kafka]."
        ) from error
    try:
        _message_class(content, message)
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise FlowError(
            f"{who}: the descriptors have no message '{message}': {reason}. Give the message's full name, "
            "and descriptors by protoc --include_imports --descriptor_set_out=FILE."
        ) from error
    return decoder


def _content(who: str, path: str | PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FlowError(f"{who}: the descriptors '{path}' cannot be read: {error.strerror}.") from error


@cache
def _message_class(descriptors: bytes, message: str) -> Any:  # noqa: ANN401 - as the package has it
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool: Any = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(message))


# The registry's header.


def _indexes(value: bytes, at: int) -> tuple[list[int], int]:
    """The indexes of a message in its file, outermost first, and where the message begins.

    >>> _indexes(bytes([0, 9]), 0), _indexes(bytes([4, 2, 0, 9]), 0)
    (([0], 1), ([1, 0], 3))
    """
    count, at = _zigzag(value, at)
    if count == 0:  # a short way to say that it is the first
        return [0], at
    found = []
    for _ in range(min(count, len(value))):
        index, at = _zigzag(value, at)
        found.append(index)
    return found, at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(value):
            raise ValueError("it ends inside its message index")
        number |= (value[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if value[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at


def _place_in_file(descriptor: Any) -> list[int]:  # noqa: ANN401 - as the package has it
    place = []
    while (outer := descriptor.containing_type) is not None:
        place.append([each.name for each in outer.nested_types].index(descriptor.name))
        descriptor = outer
    place.append(list(descriptor.file.message_types_by_name).index(descriptor.name))
    return place[::-1]


# Messages as values of Python's.


def _row(message: Any, kind: pa.Schema | pa.StructType) -> dict[str, Any]:  # noqa: ANN401 - as above
    fields = message.DESCRIPTOR.fields_by_name
    return {each.name: _field(message, fields[each.name], each.type) for each in kind if each.name in fields}


def _field(message: Any, known: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - as above
    if known.has_presence and not message.HasField(known.name):
        return None
    value = getattr(message, known.name)
    if known.message_type is not None and known.message_type.GetOptions().map_entry:
        if not types.is_map(kind):
            raise ValueError(f"its field '{known.name}' is a map, but the column is {kind}")
        of_values = known.message_type.fields_by_name["value"]
        return [(each, _value(value[each], of_values, kind.item_type)) for each in value]
    if known.is_repeated:
        if not (types.is_list(kind) or types.is_large_list(kind)):
            raise ValueError(f"its field '{known.name}' is repeated, but the column is {kind}")
        return [_value(each, known, kind.value_type) for each in value]
    return _value(value, known, kind)


def _value(value: Any, known: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - as above
    if known.message_type is not None:
        return _message(value, known, kind)
    if known.enum_type is not None and not types.is_integer(kind):
        named = known.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value


def _message(value: Any, known: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - as above
    if types.is_struct(kind):
        return _row(value, kind)
    name = known.message_type.full_name
    if name == _TIMESTAMP:
        # Finer than a microsecond does not fit into a column.
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name in _WRAPPERS:
        return value.value
    raise ValueError(f"its field '{known.name}' is a message '{name}', but the column is {kind}")


# Decode Avro values in the wire format of a schema registry.
#
# Schemas are given by number, or asked of a registry by its address, each once in a process.

_ANSWER_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, slots=True, repr=False)
class AvroDecoder(RedactedRepr):
    """Decodes values by the schemas of a registry: its address, or a mapping of numbers to schemas."""

    registry: str | Mapping[int, Any]

    def __call__(self, values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
        """Avro records, with the columns of a schema."""
        bad = (PointstampError, ValueError, LookupError, EOFError, TypeError)
        return decode_each(values, schema, self._decoded, bad)

    def _decoded(self, value: bytes) -> dict[str, Any]:
        from fastavro import schemaless_reader

        if value[:1] != b"\0" or len(value) < HEADER_BYTES:
            raise ValueError(NO_HEADER)
        number = int.from_bytes(value[1:HEADER_BYTES], "big")
        found = schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), self._schema(number), None)
        if not isinstance(found, dict):
            raise ValueError("it is not an Avro record")
        return found

    def _schema(self, number: int) -> Any:  # noqa: ANN401 - as fastavro has it
        if isinstance(self.registry, str):
            return _asked(self.registry, number)
        if number not in self.registry:
            raise ValueError(f"its schema id is {number}, which registry= does not contain")
        return _avro_schema(json.dumps(self.registry[number]))


def check_avro_installed() -> None:
    """FlowError where fastavro is not installed."""
    try:
        import fastavro  # noqa: F401 - whether it is there
    except ImportError as error:
        raise FlowError(
            "Avro needs the package fastavro, which is not installed. Install pointstamp[kafka]."
        ) from error


@cache
def _avro_schema(text: str) -> Any:  # noqa: ANN401 - as fastavro has it
    from fastavro import parse_schema

    return parse_schema(json.loads(text))


@cache
def _asked(registry: str, number: int) -> Any:  # noqa: ANN401 - as above
    shown = redact(registry)
    if not registry.startswith(("http://", "https://")):
        raise FlowError(
            "registry must be an address that begins with http:// or https://, got "
            f"'{shown}'. Give the registry's URL."
        )
    try:
        with urlopen(_request(registry, number), timeout=_ANSWER_SECONDS_MAX) as answer:  # noqa: S310 - above
            return _avro_schema(json.loads(answer.read())["schema"])
    except (OSError, ValueError, KeyError, HTTPException) as error:
        said = redact_text(str(error), registry)
        raise StorageError(
            f"the registry at '{shown}' did not return schema {number}: {said}."
        ) from harmless(error, registry)


def _request(registry: str, number: int) -> Request:
    """The request for a schema; the user and the password of the address become a header."""
    scheme, _, rest = registry.rstrip("/").partition("://")
    userinfo, _, place = rest.rpartition("@")
    request = Request(f"{scheme}://{place}/schemas/ids/{number}")  # noqa: S310 - checked by the caller
    if userinfo:
        word = base64.b64encode(unquote(userinfo).encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    return request
