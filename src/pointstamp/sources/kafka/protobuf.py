"""Decode Protobuf values with descriptors of ``protoc``.

``protoc --include_imports --descriptor_set_out=orders.desc orders.proto`` makes the descriptors. Fields are
columns of their names: nested messages structs, repeated fields lists, maps maps, an enum its name or its
number, as the column is declared. What is absent is null; a field of proto3 that cannot be absent is zero or
empty. A message that stands for a value (``google.protobuf.Timestamp``, ``Int64Value``, ...) is that value.

With a registry's wire format, the schema's number is followed by the place of the message in its file, which
must be that of the named one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.sources.kafka.decoding import HEADER_BYTES, NO_HEADER, Decoded, decode_each

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
