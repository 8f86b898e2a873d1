"""Common types of expressions: the rules behind the rule of each function.

Numbers meet as Spark has it: integers as the wider one, an integer and a float as a double, decimals as the
decimal that holds both. A date and a timestamp meet as timestamps, strings of all encodings as string. Null
meets everything. What does not meet is an error when the flow is built: text is never read as a number
unasked.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import SchemaError

DOUBLE: Final = pa.float64()
LONG: Final = pa.int64()
BOOLEAN: Final = pa.bool_()
STRING: Final = pa.string()
DATE: Final = pa.date32()

DECIMAL_DIGITS_MAX: Final = 38
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def is_number(data_type: pa.DataType) -> bool:
    """Return whether one can reckon with it."""
    return bool(types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type))


def is_text(data_type: pa.DataType) -> bool:
    """Return whether it is a string, however encoded."""
    return bool(types.is_string(data_type) or types.is_large_string(data_type))


def is_time(data_type: pa.DataType) -> bool:
    """Return whether it is a date or a timestamp."""
    return bool(types.is_date(data_type) or types.is_timestamp(data_type))


def decimal_of(integer: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integer type."""
    digits = {8: 3, 16: 5, 32: 10, 64: 20}[integer.bit_width]
    return pa.decimal128(digits, 0)


def decimal(precision: int, scale: int) -> pa.DataType:
    """A decimal of so many digits, with as many of them after the point as fit; Spark cuts likewise."""
    if precision <= DECIMAL_DIGITS_MAX:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    kept = max(DECIMAL_DIGITS_MAX - whole, min(scale, 6))
    return pa.decimal128(DECIMAL_DIGITS_MAX, kept)


def common_number(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type as which two numbers meet."""
    if one == other:
        return one
    if types.is_floating(one) or types.is_floating(other):
        both_floats = types.is_floating(one) and types.is_floating(other)
        return (one if one.bit_width >= other.bit_width else other) if both_floats else DOUBLE
    if types.is_decimal(one) or types.is_decimal(other):
        a, b = (each if types.is_decimal(each) else decimal_of(each) for each in (one, other))
        scale = max(a.scale, b.scale)
        return decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    if types.is_signed_integer(one) == types.is_signed_integer(other):
        return one if one.bit_width >= other.bit_width else other
    signed, unsigned = (one, other) if types.is_signed_integer(one) else (other, one)
    bits = max(signed.bit_width, min(64, unsigned.bit_width * 2))
    return next(each for each in _INTEGERS if each.bit_width == bits)


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type as which two values meet, or None where they do not."""
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if is_number(one) and is_number(other):
        return common_number(one, other)
    if is_text(one) and is_text(other):
        return STRING
    if is_time(one) and is_time(other):
        return _common_time(one, other)
    if types.is_duration(one) and types.is_duration(other):
        return pa.duration(_finer(one.unit, other.unit))
    return None


def common_of_all(found: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The type as which all meet; an error as text where two do not."""

    def meet(one: pa.DataType, other: pa.DataType) -> pa.DataType:
        met = common(one, other)
        if met is None:
            raise SchemaError(f"{what}: {one} and {other} have no common type. Cast one of them.")
        return met

    return reduce(meet, found)


def _common_time(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if types.is_date(one) and types.is_date(other):
        return DATE
    if types.is_date(one):
        return other
    if types.is_date(other):
        return one
    # One without a zone is what a clock shows in the zone of the plan. Two zones show the same instants.
    return pa.timestamp(_finer(one.unit, other.unit), one.tz or other.tz)


def _finer(one: str, other: str) -> str:
    units = ("s", "ms", "us", "ns")
    return max(one, other, key=units.index)
