"""Arrow types, schemas and values as JSON, readable and exact.

A type is the text that Arrow prints for it, ``"timestamp[us, tz=UTC]"``; a nested type is an object with its
fields, because names inside it may hold any character. Values are numbers, texts and lists; dates, times
and durations are integers in the unit of their type, bytes are base64, decimals are text. A float that JSON
has no number for is ``{"float": "NaN"}``, and ``-0.0`` stays what it is.

A type that has no form here (a union, an extension type) is a base64 text of Arrow's IPC format.

Invariant: equal values give equal JSON, whatever lies in the slots of nulls and however the array was sliced.

>>> type_json(pa.list_(pa.int64()))
{'list': {'name': 'item', 'type': 'int64'}}
>>> type_of(type_json(pa.map_(pa.string(), pa.decimal128(10, 2))))
MapType(map<string, decimal128(10, 2)>)
"""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError

Json: TypeAlias = Any
"""What the module ``json`` writes: None, a boolean, a number, a text, a list, or a mapping with text keys."""

_WITH_PARAMETERS: Final[Sequence[tuple[str, Callable[..., pa.DataType]]]] = (
    (r"timestamp\[(\w+), tz=(.*)\]", pa.timestamp),
    (r"decimal32\((-?\d+), (-?\d+)\)", lambda digits, scale: pa.decimal32(int(digits), int(scale))),
    (r"decimal64\((-?\d+), (-?\d+)\)", lambda digits, scale: pa.decimal64(int(digits), int(scale))),
    (r"decimal128\((-?\d+), (-?\d+)\)", lambda digits, scale: pa.decimal128(int(digits), int(scale))),
    (r"decimal256\((-?\d+), (-?\d+)\)", lambda digits, scale: pa.decimal256(int(digits), int(scale))),
    (r"fixed_size_binary\[(\d+)\]", lambda size: pa.binary(int(size))),
)
_LISTS: Final[Mapping[str, tuple[Callable[[pa.DataType], bool], Callable[[pa.Field], pa.DataType]]]] = {
    "list": (types.is_list, pa.list_),
    "large_list": (types.is_large_list, pa.large_list),
    "list_view": (types.is_list_view, pa.list_view),
    "large_list_view": (types.is_large_list_view, pa.large_list_view),
}


# Types.


def type_json(kind: pa.DataType) -> Json:
    """Return a type as JSON."""
    text = str(kind)
    if _type_of_text(text) == kind:
        return text
    for name, (is_kind, _) in _LISTS.items():
        if is_kind(kind):
            return {name: field_json(kind.value_field)}
    if types.is_fixed_size_list(kind):
        return {"fixed_size_list": field_json(kind.value_field), "size": kind.list_size}
    if types.is_struct(kind):
        return {"struct": [field_json(each) for each in kind]}
    if types.is_map(kind):
        fields = [field_json(kind.key_field), field_json(kind.item_field)]
        return {"map": fields, "keys_sorted": kind.keys_sorted}
    if types.is_dictionary(kind):
        parts = {"dictionary": type_json(kind.value_type), "indices": type_json(kind.index_type)}
        return {**parts, "ordered": kind.ordered}
    return {"ipc": _base64(pa.schema({"": kind}).serialize().to_pybytes())}


def type_of(given: Json) -> pa.DataType:
    """Return the type that ``type_json`` wrote.

    Raises:
        ValueError: It is not a type.

    """
    if isinstance(given, str):
        found = _type_of_text(given)
        if found is None:
            raise ValueError(f"there is no Arrow type '{given}'")
        return found
    for name, (_, make) in _LISTS.items():
        if name in given:
            return make(field_of(given[name]))
    if "fixed_size_list" in given:
        return pa.list_(field_of(given["fixed_size_list"]), given["size"])
    if "struct" in given:
        return pa.struct([field_of(each) for each in given["struct"]])
    if "map" in given:
        return pa.map_(*map(field_of, given["map"]), keys_sorted=given["keys_sorted"])
    if "dictionary" in given:
        return pa.dictionary(type_of(given["indices"]), type_of(given["dictionary"]), given["ordered"])
    if "ipc" in given:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(given["ipc"]))).field(0).type
    raise ValueError(f"there is no Arrow type {given}")


def _type_of_text(text: str) -> pa.DataType | None:
    for pattern, make in _WITH_PARAMETERS:
        if (found := re.fullmatch(pattern, text, re.DOTALL)) is not None:
            return make(*found.groups())
    try:
        return pa.lib.ensure_type(text)
    except ValueError:
        return None


def field_json(field: pa.Field) -> Json:
    """Return a field as JSON; a field without ``nullable`` may be null."""
    more = {} if field.nullable else {"nullable": False}
    return {"name": field.name, "type": type_json(field.type), **more, **_metadata_json(field.metadata)}


def field_of(given: Json) -> pa.Field:
    """Return the field that ``field_json`` wrote."""
    kind = type_of(given["type"])
    return pa.field(given["name"], kind, given.get("nullable", True), _metadata_of(given))


def schema_json(schema: pa.Schema) -> Json:
    """Return a schema as JSON."""
    return {"columns": [field_json(each) for each in schema], **_metadata_json(schema.metadata)}


def schema_of(given: Json) -> pa.Schema:
    """Return the schema that ``schema_json`` wrote."""
    return pa.schema([field_of(each) for each in given["columns"]], _metadata_of(given))


def _metadata_json(metadata: Mapping[bytes, bytes] | None) -> dict[str, Json]:
    if metadata is None:
        return {}
    return {"metadata": [[_text(key), _text(value)] for key, value in sorted(metadata.items())]}


def _metadata_of(given: Json) -> dict[bytes, bytes] | None:
    pairs = given.get("metadata")
    return None if pairs is None else {_bytes(key): _bytes(value) for key, value in pairs}


def _text(given: bytes) -> Json:
    try:
        return given.decode()
    except UnicodeDecodeError:
        return {"bytes": _base64(given)}


def _bytes(given: Json) -> bytes:
    return given.encode() if isinstance(given, str) else base64.b64decode(given["bytes"])


def _base64(given: bytes) -> str:
    return base64.b64encode(given).decode("ascii")


# Values.


def float_json(value: float) -> Json:
    """Return a float as JSON, which has no numbers for NaN and infinities."""
    if math.isnan(value):
        return {"float": "NaN"}
    return float(value) if math.isfinite(value) else {"float": "Infinity" if value > 0 else "-Infinity"}


def float_of(given: Json) -> float:
    """Return the float that ``float_json`` wrote."""
    return float(given["float"] if isinstance(given, Mapping) else given)


def values_json(array: pa.Array) -> list[Json]:
    """Return the values of an array as JSON; None is null."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return values_json(array.storage)
    if types.is_run_end_encoded(kind):
        return values_json(pc.run_end_decode(array))
    if types.is_union(kind):
        raise SchemaError(f"a plan cannot hold values of {kind}. Use a struct with one field for each type.")
    if types.is_struct(kind):
        columns = [values_json(array.field(number)) for number in range(kind.num_fields)]
        return [
            [column[place] for column in columns] if is_there.as_py() else None
            for place, is_there in enumerate(array.is_valid())
        ]
    if types.is_nested(kind):
        return [values_json(each.values) if each.is_valid else None for each in array]
    if types.is_dictionary(kind):
        return values_json(array.dictionary_decode())
    to_json, integers = _plain_json(kind), _stored_as(kind)
    if integers is not None:
        array = array.view(integers)
    return [None if each is None else to_json(each) for each in array.to_pylist()]


def array_of(values: Sequence[Json], kind: pa.DataType) -> pa.Array:
    """Return the array of a type whose values ``values_json`` wrote."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(array_of(values, kind.storage_type))
    if types.is_run_end_encoded(kind):
        return pc.run_end_encode(array_of(values, kind.value_type), run_end_type=kind.run_end_type)
    is_null = pa.array([each is None for each in values], pa.bool_())
    if types.is_struct(kind):
        columns = [
            array_of([None if each is None else each[number] for each in values], kind.field(number).type)
            for number in range(kind.num_fields)
        ]
        if not columns:
            return pa.array([None if each is None else {} for each in values], kind)
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=is_null)
    if types.is_fixed_size_list(kind):
        nothing = [None] * kind.list_size
        flat = [each for value in values for each in (nothing if value is None else value)]
        return pa.FixedSizeListArray.from_arrays(array_of(flat, kind.value_type), type=kind, mask=is_null)
    if types.is_nested(kind):
        return _lists_of(values, kind, is_null)
    if types.is_dictionary(kind):
        encoded = array_of(values, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(kind.index_type), encoded.dictionary, ordered=kind.ordered
        )
    of_json, integers = _plain_of(kind), _stored_as(kind)
    plain = [None if each is None else of_json(each) for each in values]
    return pa.array(plain, kind) if integers is None else pa.array(plain, integers).view(kind)


def batch_json(batch: pa.RecordBatch) -> Json:
    """Return the rows of a batch as JSON, column by column."""
    columns = [values_json(column) for column in batch.columns]
    return {"rows": batch.num_rows, "schema": schema_json(batch.schema), "values": columns}


def batch_of(given: Json) -> pa.RecordBatch:
    """Return the batch that ``batch_json`` wrote."""
    schema = schema_of(given["schema"])
    columns = [array_of(each, field.type) for each, field in zip(given["values"], schema, strict=True)]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * given["rows"], pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _lists_of(values: Sequence[Json], kind: pa.DataType, is_null: pa.Array) -> pa.Array:
    """Return lists of any length, or maps."""
    lengths = [0 if each is None else len(each) for each in values]
    flat = [each for value in values if value is not None for each in value]
    is_large = types.is_large_list(kind) or types.is_large_list_view(kind)
    counts = pa.int64() if is_large else pa.int32()
    offsets = pa.array(accumulate(lengths, initial=0), counts)
    if types.is_map(kind):
        pairs = array_of(flat, pa.struct([kind.key_field, kind.item_field]))
        # A map takes its nulls from its offsets.
        marked = [
            None if null.as_py() else offset.as_py()
            for null, offset in zip(is_null, offsets[:-1], strict=True)
        ]
        ends = pa.array([*marked, offsets[-1].as_py()], counts)
        return pa.MapArray.from_arrays(ends, pairs.field(0), pairs.field(1), type=kind)
    items = array_of(flat, kind.value_type)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        make = pa.LargeListViewArray if is_large else pa.ListViewArray
        return make.from_arrays(offsets[:-1], pa.array(lengths, counts), items, type=kind, mask=is_null)
    make = pa.LargeListArray if is_large else pa.ListArray
    return make.from_arrays(offsets, items, type=kind, mask=is_null)


def _stored_as(kind: pa.DataType) -> pa.DataType | None:
    """Return the integers that times are stored as; Python's own types for them have other limits."""
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    is_time = types.is_date64(kind) or types.is_time64(kind) or types.is_timestamp(kind)
    return pa.int64() if is_time or types.is_duration(kind) else None


def _plain_json(kind: pa.DataType) -> Callable[[Any], Json]:
    if types.is_floating(kind):
        return float_json
    if types.is_decimal(kind):
        return str
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if is_binary or types.is_binary_view(kind):
        return _base64
    return list if types.is_interval(kind) else lambda value: value


def _plain_of(kind: pa.DataType) -> Callable[[Json], Any]:
    if types.is_float16(kind):
        return lambda given: np.float16(float_of(given))
    if types.is_floating(kind):
        return float_of
    if types.is_decimal(kind):
        return Decimal
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if is_binary or types.is_binary_view(kind):
        return base64.b64decode
    return (lambda given: pa.MonthDayNano(given)) if types.is_interval(kind) else lambda given: given
