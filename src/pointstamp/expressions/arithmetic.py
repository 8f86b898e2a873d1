"""Reckoning: ``+ - * / %``, rounding, powers and logarithms.

Numbers follow Spark 4. Integers that overflow and a division by zero are errors (``try_divide`` gives
null); ``/`` of integers is a double; a remainder has the sign of what is divided. Decimals are exact, with
the digits that Spark gives a result. Times are moved by durations, and two times subtracted are a duration.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.decimals import quotients
from pointstamp.expressions.function import Datum, Kernel, Signature, TypeRule, check, register, takes
from pointstamp.expressions.typing import (
    DATE,
    DOUBLE,
    LONG,
    common_number,
    decimal,
    decimal_of,
    is_number,
    is_time,
)


def _sum_rule(kernel: Kernel, *, is_difference: bool) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        one, other = found
        if is_time(one) or is_time(other):
            return _moved(what, one, other, is_difference)
        if types.is_duration(one) and types.is_duration(other):
            unit = one.unit if one.bit_width and one == other else "us"
            return Signature((pa.duration(unit),) * 2, pa.duration(unit))
        met = _numbers(what, found)
        if types.is_decimal(met):
            a, b = _decimals(found)
            scale = max(a.scale, b.scale)
            gives = decimal(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)
            return Signature((a, b), gives, partial(_exactly, kernel, gives))
        return Signature((met, met), met)

    return rule


def _moved(what: str, one: pa.DataType, other: pa.DataType, is_difference: bool) -> Signature:
    """A time and a duration, in either order; or the difference of two times."""
    if is_difference and is_time(one) and is_time(other):
        if (getattr(one, "tz", None) is None) != (getattr(other, "tz", None) is None):
            raise SchemaError(
                f"{what} needs two times with or two without a zone, and was given {one} and {other}."
            )
        zone = getattr(one, "tz", None)
        exact = pa.timestamp("us", zone)
        return Signature((exact, exact), pa.duration("us"), pc.subtract_checked)
    time, duration = (one, other) if is_time(one) else (other, one)
    if types.is_null(duration):
        duration = pa.duration("us")
    if not types.is_duration(duration) or (is_difference and not is_time(one)):
        raise SchemaError(
            f"{what} needs a time and a duration, for example ps.duration('1 hour'), and was given {one} and "
            f"{other}. For days of a date use ps.functions.date_add."
        )
    zone = getattr(time, "tz", None)
    moved = pa.timestamp("us", zone)
    order = (moved, pa.duration("us")) if is_time(one) else (pa.duration("us"), moved)
    return Signature(order, moved)


def _product_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    if any(map(types.is_duration, found)):
        one, other = found
        check(types.is_duration(one) != types.is_duration(other), what, "a duration and an integer", other)
        number = other if types.is_duration(one) else one
        check(bool(types.is_integer(number)), what, "a duration and an integer", number)
        taken = tuple(each if types.is_duration(each) else LONG for each in found)
        return Signature(taken, next(filter(types.is_duration, found)))
    met = _numbers(what, found)
    if types.is_decimal(met):
        a, b = _decimals(found)
        gives = decimal(a.precision + b.precision + 1, a.scale + b.scale)
        return Signature((a, b), gives, partial(_exactly, pc.multiply_checked, gives))
    return Signature((met, met), met)


def _quotient_rule(kernel: Kernel) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        met = _numbers(what, found)
        if types.is_decimal(met):
            a, b = _decimals(found)
            scale = max(6, a.scale + b.precision + 1)
            gives = decimal(a.precision - a.scale + b.scale + scale, scale)
            return Signature((a, b), gives, partial(_divide_decimals, kernel, gives))
        return Signature((DOUBLE, DOUBLE), DOUBLE)

    return rule


def _same_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    met = _numbers(what, found)
    return Signature((met, met), met)


def _numbers(what: str, found: Sequence[pa.DataType]) -> pa.DataType:
    known = [each for each in found if not types.is_null(each)]
    for each in known:
        check(is_number(each), what, "numbers", each)
    if not known:
        return DOUBLE
    return known[0] if len(known) == 1 else common_number(known[0], known[1])


def _decimals(found: Sequence[pa.DataType]) -> tuple[pa.DataType, pa.DataType]:
    known = next(filter(types.is_decimal, found))
    one, other = (
        known if types.is_null(each) else each if types.is_decimal(each) else decimal_of(each)
        for each in found
    )
    return one, other


def _exactly(kernel: Kernel, gives: pa.DataType, *data: Datum) -> Datum:
    """Reckon with as many digits as it takes, and round to those that the result has."""
    wide = [_as_decimal256(datum) for datum in data]
    return _to_decimal(kernel(*wide), gives)


def _divide_decimals(kernel: Kernel, gives: pa.DataType, one: Datum, other: Datum) -> Datum:
    divisor = _nonzero(other) if kernel is _try_divide else _checked_divisor(other)
    return quotients(one, divisor, gives)


def _as_decimal256(datum: Datum) -> Datum:
    return pc.cast(datum, pa.decimal256(datum.type.precision, datum.type.scale))


def _to_decimal(datum: Datum, gives: pa.DataType) -> Datum:
    if datum.type.scale > gives.scale:
        datum = pc.round(datum, ndigits=gives.scale, round_mode="half_towards_infinity")
    return pc.cast(datum, gives)


def _nonzero(other: Datum) -> Datum:
    """Null in place of zero."""
    zero = pa.scalar(0, other.type)
    return pc.if_else(pc.equal(other, zero), pa.scalar(None, other.type), other)


def _checked_divisor(other: Datum) -> Datum:
    if pc.any(pc.equal(_array(other), pa.scalar(0, other.type))).as_py():
        raise ZeroDivisionError("division by zero; use ps.functions.try_divide for null in its place")
    return other


def _divide(one: Datum, other: Datum) -> Datum:
    return pc.divide(one, _checked_divisor(other))


def _try_divide(one: Datum, other: Datum) -> Datum:
    return pc.divide(one, _nonzero(other))


def _array(datum: Datum) -> pa.Array:
    return pa.array([datum.as_py()], datum.type) if isinstance(datum, pa.Scalar) else datum


def _remainder(one: Datum, other: Datum) -> Datum:
    """What is left of a division, with the sign of what is divided, as in Spark and C; zero is refused."""
    if pc.any(pc.equal(_array(other), pa.scalar(0, other.type))).as_py():
        raise ZeroDivisionError("remainder of a division by zero")
    return _try_remainder(one, other)


def _try_remainder(one: Datum, other: Datum) -> Datum:
    if types.is_decimal(one.type):
        whole = pc.trunc(pc.divide(_as_decimal256(one), _nonzero(other)))
        return pc.cast(pc.subtract(one, pc.multiply(whole, other)), one.type)
    if types.is_floating(one.type):
        divisor = _nonzero(other)
        left, right = np.asarray(_array(one), float), np.asarray(_array(divisor), float)
        with np.errstate(invalid="ignore"):
            made = pa.array(np.fmod(left, right), one.type)
        is_null = pc.or_(pc.is_null(one), pc.is_null(divisor))
        return pc.if_else(is_null, pa.scalar(None, one.type), made)
    quotient = pc.divide(one, _nonzero(other))
    return pc.subtract(one, pc.multiply(quotient, other))


def _float_rounded(datum: Datum, digits: int) -> Datum:
    """The float nearest to each rounded value; Arrow's own leaves what is nearly that as it is."""
    scale = pa.scalar(10.0**digits, datum.type)
    scaled = pc.multiply(datum, scale)
    rounded = pc.divide(pc.round(scaled, ndigits=0, round_mode="half_towards_infinity"), scale)
    # From here on a float has no digit so small, and scaling could only lose some.
    coarse = 2.0 ** (53 if types.is_float64(datum.type) else 24)
    return pc.if_else(pc.greater_equal(pc.abs(scaled), pa.scalar(coarse, datum.type)), datum, rounded)


def _round_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (number,) = found
    check(is_number(number) or types.is_null(number), what, "a number", number)
    digits = options["digits"]
    if types.is_decimal(number):
        gives = decimal(
            number.precision - number.scale + max(digits, 0) + 1, min(max(digits, 0), number.scale)
        )
        return Signature((number,), gives)
    return Signature((number,), number)


def _round(datum: Datum, *, digits: int) -> Datum:
    if digits > 0 and types.is_floating(datum.type):
        return _float_rounded(datum, digits)
    rounded = pc.round(datum, ndigits=digits, round_mode="half_towards_infinity")
    if types.is_decimal(datum.type):
        scale = min(max(digits, 0), datum.type.scale)
        return pc.cast(rounded, decimal(datum.type.precision - datum.type.scale + max(digits, 0) + 1, scale))
    return pc.cast(rounded, datum.type)


def _whole_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (number,) = found
    check(is_number(number) or types.is_null(number), what, "a number", number)
    return Signature((DOUBLE if types.is_null(number) else number,), LONG)


def _floor(datum: Datum) -> Datum:
    return pc.cast(pc.floor(datum), LONG)


def _ceil(datum: Datum) -> Datum:
    return pc.cast(pc.ceil(datum), LONG)


def _doubles(count: int) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        _numbers(what, found[:2])
        return Signature((DOUBLE,) * count, DOUBLE)

    return rule


def _log(base: Datum, datum: Datum) -> Datum:
    return pc.logb(_above_zero(datum), base)


def _above_zero(datum: Datum) -> Datum:
    """Null where there is no logarithm, as Spark has it."""
    return pc.if_else(pc.greater(datum, 0.0), datum, pa.scalar(None, DOUBLE))


def _days_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    one, other = found
    check(is_time(one) or types.is_null(one), what, "a date", one)
    check(bool(types.is_integer(other)), what, "a number of days", other)
    return Signature((DATE, pa.int32()), DATE)


def _add_days(date: Datum, days: Datum) -> Datum:
    return pc.cast(pc.add_checked(pc.cast(date, pa.int32()), days), DATE)


def _subtract_days(date: Datum, days: Datum) -> Datum:
    return pc.cast(pc.subtract_checked(pc.cast(date, pa.int32()), days), DATE)


_NUMBER = takes(is_number, "a number")

register("add", _sum_rule(pc.add_checked, is_difference=False), pc.add_checked, least=2, most=2)
register("subtract", _sum_rule(pc.subtract_checked, is_difference=True), pc.subtract_checked, least=2, most=2)
register("multiply", _product_rule, pc.multiply_checked, least=2, most=2)
register("divide", _quotient_rule(_divide), _divide, least=2, most=2)
register("try_divide", _quotient_rule(_try_divide), _try_divide, least=2, most=2)
register("mod", _same_rule, _remainder, least=2, most=2)
register("try_mod", _same_rule, _try_remainder, least=2, most=2)
register("negate", _NUMBER, pc.negate_checked)
register("abs", _NUMBER, pc.abs_checked)
register("sign", takes(is_number, "a number", DOUBLE), lambda datum: pc.cast(pc.sign(datum), DOUBLE))
register("round", _round_rule, _round)
register("floor", _whole_rule, _floor)
register("ceil", _whole_rule, _ceil)
register("sqrt", _doubles(1), lambda datum: pc.sqrt(datum))
register("exp", _doubles(1), lambda datum: pc.exp(datum))
register("ln", _doubles(1), lambda datum: pc.ln(_above_zero(datum)))
register("log", _doubles(2), _log, least=2, most=2)
register("log10", _doubles(1), lambda datum: pc.log10(_above_zero(datum)))
register("log2", _doubles(1), lambda datum: pc.log2(_above_zero(datum)))
register("power", _doubles(2), lambda one, other: pc.power(one, other), least=2, most=2)
register("date_add", _days_rule, _add_days, least=2, most=2)
register("date_sub", _days_rule, _subtract_days, least=2, most=2)
