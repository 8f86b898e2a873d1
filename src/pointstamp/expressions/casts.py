"""Casts: values of one type as values of another, as Spark 4 casts them.

A value that does not fit raises (``tried_datum`` gives null in its place). Digits after the point are cut
where a number becomes an integer, and rounded, a half away from zero, where it becomes a decimal.
Times and dates become each other, and text, in the time zone of ``pointstamp.expressions.zones``.
"""

from decimal import Decimal
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.decimals import floats_of, roomy
from pointstamp.expressions.signature import Datum, Kernel
from pointstamp.expressions.type_rules import is_text
from pointstamp.expressions.value_text import read_texts, rounded, texts_of
from pointstamp.expressions.zones import CLOCK, clocks_of, instants_at, zone_of

_INTEGER_DIGITS: Final = 20
"""The maximum number of digits of a 64-bit integer, with or without a sign."""


def cast_datum(datum: Datum, to: pa.DataType) -> Datum:
    """A datum as another type; a value that does not fit raises."""
    found = datum.type
    if found == to:
        return datum
    if isinstance(datum, pa.Scalar):
        return cast_datum(pa.repeat(datum, 1), to)[0]
    if isinstance(datum, pa.ChunkedArray):
        datum = datum.combine_chunks()
    if types.is_null(found):
        return pc.cast(datum, to)
    if types.is_nested(found):
        return nested_texts(datum) if is_text(to) else cast_nested(datum, to, cast_datum)
    if is_text(found) and not is_text(to):
        return pc.cast(datum, to) if types.is_binary(to) else read_texts(pc.cast(datum, pa.string()), to)
    if is_text(to):
        return texts_of(datum, to)
    if types.is_timestamp(found) or types.is_timestamp(to):
        return _time_cast(datum, to)
    return _number_cast(datum, to)


def cast_nested(datum: Datum, to: pa.DataType, cast: Kernel) -> Datum:
    """A list, a map or a struct with its parts as other types; fields of structs are matched by place."""
    found = datum.type
    if isinstance(datum, pa.Scalar):
        return cast_nested(pa.repeat(datum, 1), to, cast)[0]
    array = datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum
    array = array.take(pa.array(range(len(array)), pa.int64()))  # without values that no row has
    mask = array.is_null() if array.null_count else None
    if types.is_list(found) and types.is_list(to):
        values = cast(array.values, to.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, to, mask=mask)
    if types.is_map(found) and types.is_map(to):
        keys = cast(array.keys, to.key_type)
        if keys.null_count:
            raise pa.ArrowInvalid("a map key cannot be null")
        return pa.MapArray.from_arrays(array.offsets, keys, cast(array.items, to.item_type), to, mask=mask)
    if types.is_struct(found) and types.is_struct(to) and found.num_fields == to.num_fields:
        # A field of a struct that is null may have a value, which nothing asks for.
        parts = [
            cast(part if mask is None else pc.if_else(mask, pa.scalar(None, part.type), part), field.type)
            for part, field in zip(array.flatten(), to, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(to), mask=mask)
    raise pa.ArrowNotImplementedError(f"{found} cannot be cast to {to}")


def nested_texts(datum: Datum) -> Datum:
    """The texts of lists, maps and structs, as Spark prints them: ``[1, null]``, ``{a -> 1}``, ``{1, x}``."""
    found = datum.type
    if isinstance(datum, pa.Scalar):
        return nested_texts(pa.repeat(datum, 1))[0]
    array = datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum
    array = array.take(pa.array(range(len(array)), pa.int64()))

    def texts(part: pa.Array) -> list[str]:
        if types.is_binary(part.type):
            raise pa.ArrowNotImplementedError("bytes in a list, a map or a struct cannot be cast to text")
        printed = cast_datum(part, pa.string())
        return ["null" if each is None else each for each in printed.to_pylist()]

    missing = array.is_null().to_pylist()
    if types.is_struct(found):
        rows = zip(*map(texts, array.flatten()), strict=True) if found.num_fields else [()] * len(array)
        made = ["{" + ", ".join(row) + "}" for row in rows]
    else:
        offsets = array.offsets.to_pylist()
        if types.is_map(found):
            pairs = zip(texts(array.keys), texts(array.items), strict=True)
            parts, marks = [f"{key} -> {value}" for key, value in pairs], "{}"
        else:
            parts, marks = texts(array.values), "[]"
        made = [marks[0] + ", ".join(parts[start:end]) + marks[1] for start, end in pairwise(offsets)]
    return pa.array(
        [None if is_null else text for text, is_null in zip(made, missing, strict=True)], pa.string()
    )


def _number_cast(datum: Datum, to: pa.DataType) -> Datum:
    found = datum.type
    if types.is_integer(to) and types.is_decimal(found):
        return pc.cast(pc.trunc(roomy(datum)), to)
    if types.is_integer(to) and types.is_floating(found):
        return pc.cast(pc.trunc(datum), to)
    if types.is_decimal(to) and types.is_integer(found):  # Arrow looks at what the type could hold
        return pc.cast(pc.cast(datum, pa.decimal256(_INTEGER_DIGITS + to.scale, to.scale)), to)
    if types.is_decimal(to) and types.is_boolean(found):
        return _number_cast(pc.cast(datum, pa.int64()), to)
    if types.is_decimal(to) and types.is_floating(found):
        return _decimals_of_floats(datum, to)
    if types.is_decimal(to) and types.is_decimal(found) and to.scale < found.scale:
        datum = pc.round(roomy(datum), ndigits=to.scale, round_mode="half_towards_infinity")
    if types.is_floating(to) and (types.is_integer(found) or types.is_floating(found)):
        return pc.cast(datum, to, safe=False)
    if types.is_floating(to) and types.is_decimal(found):
        return floats_of(datum, to)
    if types.is_boolean(to) and types.is_decimal(found):
        return pc.not_equal(datum, pa.scalar(Decimal(0), found))
    return pc.cast(datum, to)


def _decimals_of_floats(datum: Datum, to: pa.DataType) -> Datum:
    """The decimals of the digits that a float is printed with; null for NaN and the infinities."""
    digits = pc.cast(datum, pa.string()).to_pylist()
    found = [
        None if text is None or text in ("nan", "-nan", "inf", "-inf") else rounded(Decimal(text), to)
        for text in digits
    ]
    return pa.array(found, to)


def _time_cast(datum: Datum, to: pa.DataType) -> Datum:
    found = datum.type
    if types.is_timestamp(found) and types.is_timestamp(to):
        if (found.tz is None) == (to.tz is None):
            return pc.cast(datum, to, safe=False)
        if to.tz is None:
            return pc.cast(clocks_of(datum, zone_of(found)), to, safe=False)
        return pc.cast(instants_at(pc.cast(datum, CLOCK, safe=False), zone_of(to)), to, safe=False)
    if types.is_timestamp(found) and types.is_date(to):
        clocks = datum if found.tz is None else clocks_of(datum, zone_of(found))
        return pc.cast(pc.floor_temporal(clocks, unit="day"), to)
    if types.is_date(found):
        clocks = pc.cast(datum, CLOCK)
        return pc.cast(clocks if to.tz is None else instants_at(clocks, zone_of(to)), to, safe=False)
    if types.is_timestamp(to) and to.tz is not None:
        return pc.cast(_micros_of_seconds(datum), pa.timestamp("us", to.tz)).cast(to)
    if types.is_timestamp(found) and found.tz is not None:
        return _seconds_of(datum, to)
    return pc.cast(datum, to)


def _micros_of_seconds(seconds: Datum) -> Datum:
    """Numbers of seconds as microseconds; Spark cuts integers that are too large to the last instant."""
    if types.is_integer(seconds.type):
        limit = (2**63 - 1) // 1_000_000
        wide = pc.cast(seconds, pa.int64())
        micros = pc.multiply(wide, 1_000_000)
        most = pc.if_else(pc.greater(wide, 0), pa.scalar(2**63 - 1), pa.scalar(-(2**63)))
        is_large = pc.or_(pc.greater(wide, limit), pc.less(wide, -limit))
        return pc.if_else(is_large, most, micros)
    if types.is_floating(seconds.type):
        return _saturated(pc.trunc(pc.multiply(pc.cast(seconds, pa.float64()), 1e6)))
    if types.is_boolean(seconds.type):
        return pc.cast(seconds, pa.int64())
    raise pa.ArrowInvalid(f"{seconds.type} cannot become a timestamp")


def _saturated(numbers: pa.Array) -> pa.Array:
    """Floats as integers of 64 bits, the last one that there is for those beyond; NaN and infinity raise."""
    limit = 2.0**63
    is_above = pc.and_(pc.greater_equal(numbers, limit), pc.is_finite(numbers))
    is_below = pc.and_(pc.less(numbers, -limit), pc.is_finite(numbers))
    whole = pc.cast(pc.if_else(pc.or_(is_above, is_below), 0.0, numbers), pa.int64())
    whole = pc.if_else(is_above, pa.scalar(2**63 - 1), whole)
    return pc.if_else(is_below, pa.scalar(-(2**63)), whole)


def _seconds_of(datum: Datum, to: pa.DataType) -> Datum:
    micros = pc.cast(pc.cast(datum, pa.timestamp("us", datum.type.tz), safe=False), pa.int64())
    if types.is_floating(to):
        return pc.cast(pc.divide(pc.cast(micros, pa.float64()), 1e6), to)
    if types.is_integer(to):
        values = np.floor_divide(pc.fill_null(micros, 0).to_numpy(zero_copy_only=False), 1_000_000)
        missing = pc.is_null(micros).to_numpy(zero_copy_only=False)
        return pc.cast(pa.array(values, pa.int64(), mask=missing), to)
    raise pa.ArrowInvalid(f"a timestamp cannot become {to}")


def tried_datum(datum: Datum, to: pa.DataType) -> Datum:
    """A datum as another type, null for each value that does not fit: one by one, if one does not."""
    if types.is_nested(datum.type) and types.is_nested(to) and datum.type != to:
        return cast_nested(datum, to, tried_datum)
    try:
        return cast_datum(datum, to)
    except (pa.ArrowException, ArithmeticError):
        if isinstance(datum, pa.Scalar):
            return pa.scalar(None, to)
    if isinstance(datum, pa.ChunkedArray):
        datum = datum.combine_chunks()
    different = datum.dictionary_encode() if not types.is_boolean(datum.type) else None
    values = datum if different is None else different.dictionary
    parts = []
    for position in range(len(values)):
        try:
            parts.append(cast_datum(values.slice(position, 1), to))
        except (pa.ArrowException, ArithmeticError):
            parts.append(pa.nulls(1, to))
    made = pa.concat_arrays(parts)
    return made if different is None else made.take(different.indices)


def can_cast_fail(found: pa.DataType, to: pa.DataType) -> bool:
    """Return whether there is a value of a type that does not fit another."""
    if types.is_nested(found) and found != to:
        return True
    if found == to or types.is_null(found) or is_text(to):
        return False
    if types.is_integer(found):
        if types.is_floating(to) or types.is_boolean(to):
            return False
        if types.is_signed_integer(found) and types.is_signed_integer(to):
            return bool(to.bit_width < found.bit_width)
        return not (types.is_decimal(to) and to.precision - to.scale >= _INTEGER_DIGITS - 1)
    if types.is_floating(found) or types.is_decimal(found):
        if types.is_decimal(found) and types.is_decimal(to):
            grows = to.precision - to.scale >= found.precision - found.scale
            return not (grows and to.scale >= found.scale)
        return not (types.is_floating(to) or types.is_boolean(to))
    if types.is_boolean(found):
        return not (types.is_integer(to) or types.is_floating(to))
    return not ((types.is_date(found) or types.is_timestamp(found)) and types.is_date(to))


def cast_uses_zone(found: pa.DataType, to: pa.DataType) -> bool:
    """Return whether a cast depends on the time zone."""
    if found == to:
        return False
    if types.is_nested(found) and types.is_nested(to) and found.num_fields == to.num_fields:
        pairs = zip(
            *([each.field(n).type for n in range(each.num_fields)] for each in (found, to)), strict=True
        )
        return any(cast_uses_zone(*pair) for pair in pairs)
    if types.is_nested(found):
        return True
    has_instant = any(types.is_timestamp(each) and each.tz is not None for each in (found, to))
    is_shown = any(types.is_date(each) or is_text(each) for each in (found, to))
    both = types.is_timestamp(found) and types.is_timestamp(to)
    return has_instant and (is_shown or (both and (found.tz is None) != (to.tz is None)))
