"""The types that Spark has for the types that a flow's outputs have.

Arrow has more types than Spark. A type that Spark lacks becomes the smallest one of Spark's that holds all
its values: unsigned integers grow (uint64 to decimal(20,0)), other encodings of text, bytes, lists and
decimals become the plain one, times of day and of the calendar come in microseconds, a zone becomes UTC (the
instant stays). Nanoseconds are the exception: those that are not whole microseconds are refused when they
appear, never cut off. Types without a counterpart (time of day, intervals of months, unions) are refused
before the job starts.
"""

from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import SchemaError

_SAME: Final = {
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"),
    pa.duration("us"),
}  # fmt: skip
_GROWN: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_DECIMAL_DIGITS_MAX: Final = 38


def spark_schema(schema: pa.Schema, who: str) -> pa.Schema:
    """The schema with Spark's types; SchemaError for a type that Spark does not have."""
    taken = {"epoch"}
    for name in schema.names:
        if name.lower() in taken:
            raise SchemaError(
                f"{who}: column '{name}' has the name of another column; Spark does not distinguish capital "
                "letters from small ones, and 'epoch' is the column with each row's epoch. Rename it in the "
                "flow."
            )
        taken.add(name.lower())
    return pa.schema([_field(field, f"{who}: column '{field.name}'") for field in schema])


def _field(field: pa.Field, where: str) -> pa.Field:
    # Spark takes every column of a file for nullable, whatever it was written as.
    return pa.field(field.name, _type(field.type, where), metadata=field.metadata)


def _type(given: pa.DataType, where: str) -> pa.DataType:
    if given in _SAME:
        return given
    if given in _GROWN:
        return _GROWN[given]
    if types.is_fixed_size_binary(given):
        return pa.binary()
    if types.is_timestamp(given):
        return pa.timestamp("us", tz=None if given.tz is None else "UTC")
    if types.is_duration(given):
        return pa.duration("us")
    if (
        types.is_decimal(given)
        and given.precision <= _DECIMAL_DIGITS_MAX
        and 0 <= given.scale <= given.precision
    ):
        return pa.decimal128(given.precision, given.scale)
    if types.is_dictionary(given):
        return _type(given.value_type, where)
    return _nested(given, where)


def _nested(given: pa.DataType, where: str) -> pa.DataType:
    if types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given):
        return pa.list_(pa.field("element", _type(given.value_type, f"{where}, element")))
    if types.is_map(given):
        key, value = _type(given.key_type, f"{where}, key"), _type(given.item_type, f"{where}, value")
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
    if types.is_struct(given) and given.num_fields:
        return pa.struct([_field(field, f"{where}, field '{field.name}'") for field in given])
    raise SchemaError(f"{where} is {given}, for which Spark has no type in files. Cast it in the flow.")
