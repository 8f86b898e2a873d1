"""Reckoning: ``+ - * / %``, rounding, powers and logarithms.

Numbers follow Spark 4. Integers that overflow and a division by zero are errors (``try_divide`` gives
null); ``/`` of integers is a double; a remainder has the sign of what is divided. Decimals are exact, with
the digits that Spark gives a result. Times are moved by durations, and two times subtracted are a duration.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.decimals import WIDE, decimals_by_row, quotients, roomy
from pointstamp.expressions.signature import Datum, Kernel, Signature, TypeRule, check, register, takes
from pointstamp.expressions.type_rules import (
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    LONG,
    common_number,
    decimal,
    decimal_of,
    is_number,
    is_text,
    is_time,
)
from pointstamp.expressions.zones import INSTANT, clocks_of, fixed_offset, instants_near, zone_of


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
        return Signature((met, met), met, can_fail=not types.is_floating(met))

    return rule


def _moved(what: str, one: pa.DataType, other: pa.DataType, is_difference: bool) -> Signature:
    """A time and a duration, in either order; a date and a number of days; or the difference of two times."""
    if is_difference and is_time(one) and is_time(other):
        zones = {each.tz for each in (one, other) if types.is_timestamp(each)}
        exact = pa.timestamp("us", zones.pop() if zones and None not in zones else None)
        return Signature((exact, exact), pa.duration("us"), _difference)
    time, duration = (one, other) if is_time(one) else (other, one)
    if types.is_date(time) and types.is_integer(duration) and (is_time(one) or not is_difference):
        days = _subtract_days if is_difference else _add_days
        order = (DATE, pa.int32()) if is_time(one) else (pa.int32(), DATE)
        return Signature(order, DATE, days if is_time(one) else lambda number, date: days(date, number))
    if types.is_null(duration):
        duration = pa.duration("us")
    if not types.is_duration(duration) or (is_difference and not is_time(one)):
        raise SchemaError(
            f"{what} needs a time and a duration, for example ps.functions.duration('1 hour'), got {one} "
            f"and {other}. For days of a date use ps.functions.date_add."
        )
    moved = INSTANT if types.is_date(time) else pa.timestamp("us", time.tz)
    order = (moved, pa.duration("us")) if is_time(one) else (pa.duration("us"), moved)
    sign = -1 if is_difference else 1
    if is_time(one):
        return Signature(order, moved, partial(_move, sign))
    return Signature(order, moved, lambda length, start: _move(sign, start, length))


def _difference(end: Datum, start: Datum) -> Datum:
    """The difference of two times, as clocks show them."""
    if end.type.tz is not None:
        zone = zone_of(end.type)
        end, start = clocks_of(end, zone), clocks_of(start, zone)
    return pc.subtract_checked(end, start)


def _move(sign: int, time: Datum, length: Datum) -> Datum:
    """A time some days later on the calendar of its zone, and then the rest of a duration later."""
    length = pc.cast(length, pa.int64())
    if sign < 0:
        length = pc.negate_checked(length)
    if time.type.tz is None or fixed_offset(zone_of(time.type)) is not None:
        return pc.cast(pc.add_checked(pc.cast(time, LONG), length), time.type)
    days = pc.multiply(pc.divide(length, _MICROS_OF_DAY), _MICROS_OF_DAY)
    moved = pc.if_else(pc.equal(days, 0), time, clocks_moved(time, days))
    return pc.cast(pc.add_checked(pc.cast(moved, LONG), pc.subtract(length, days)), time.type)


def clocks_moved(instants: Datum, micros: Datum) -> Datum:
    """The instants at which clocks show some microseconds more than at others."""
    zone = zone_of(instants.type)
    shown = pc.cast(pc.add_checked(pc.cast(clocks_of(instants, zone), LONG), micros), pa.timestamp("us"))
    return pc.cast(instants_near(shown, zone, instants), instants.type)


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
    return Signature((met, met), met, can_fail=not types.is_floating(met))


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


def _remainder_rule(*, is_tried: bool) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        met = _numbers(what, found)
        if types.is_decimal(met):
            a, b = _decimals(found)
            scale = max(a.scale, b.scale)
            gives = decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
            return Signature((a, b), gives, partial(_decimal_remainder, gives, is_tried))
        return Signature((met, met), met)

    return rule


def _whole_quotient_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    met = _numbers(what, found)
    check(not types.is_floating(met) or all(map(types.is_null, found)), what, "integers or decimals", met)
    if types.is_decimal(met):
        return Signature(_decimals(found), LONG, _decimal_whole_quotient)
    return Signature((LONG, LONG), LONG)


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
    one, other = (datum.type for datum in data)
    if kernel is pc.multiply_checked and one.precision + other.precision >= _DIGITS_OF_ARROW:
        # Arrow has no type for the digits that a product could have.
        return decimals_by_row(lambda a, b: WIDE.multiply(a, b), gives, *data)
    if (
        types.is_decimal128(one)
        and types.is_decimal128(other)
        and _digits(kernel, one, other) <= _DIGITS_OF_128
    ):
        found = kernel(*data)
        return found if found.type == gives else _to_decimal(found, gives)
    if kernel is pc.multiply_checked and one.scale + other.scale == gives.scale:
        few = [_with_few_digits(datum) for datum in data]
        if _digits(kernel, *(datum.type for datum in few)) <= _DIGITS_OF_128:
            return _as(kernel(*few), gives)
    wide = [_as_decimal256(datum) for datum in data]
    return _to_decimal(kernel(*wide), gives)


def _with_few_digits(datum: Datum) -> Datum:
    """Return decimals in a type with no more digits than the largest of them has."""
    if isinstance(datum, pa.Scalar) or not types.is_decimal128(datum.type) or not len(datum):
        return datum
    bounds = pc.min_max(datum).as_py().values()
    digits = max((each.adjusted() + 1 for each in bounds if each), default=0) + datum.type.scale
    return _as(datum, pa.decimal128(min(max(digits, 1), datum.type.precision), datum.type.scale))


def _as(decimals: pa.Array, found: pa.DataType) -> pa.Array:
    """Return decimals in a type of the same scale that has enough digits; nothing is copied."""
    if isinstance(decimals, pa.ChunkedArray) or not types.is_decimal128(found):
        return pc.cast(decimals, found)
    return pa.Array.from_buffers(found, len(decimals), decimals.buffers(), offset=decimals.offset)


def _digits(kernel: Kernel, one: pa.DataType, other: pa.DataType) -> int:
    """Return how many digits Arrow gives a result, which never has more."""
    if kernel is pc.multiply_checked:
        return int(one.precision + other.precision + 1)
    before = max(one.precision - one.scale, other.precision - other.scale)
    return int(before + max(one.scale, other.scale) + 1)


def _divide_decimals(kernel: Kernel, gives: pa.DataType, one: Datum, other: Datum) -> Datum:
    divisor = _nonzero(other) if kernel is _try_divide else _checked_divisor(one, other)
    return quotients(one, divisor, gives)


def _decimal_remainder(gives: pa.DataType, is_tried: bool, one: Datum, other: Datum) -> Datum:
    divisor = _nonzero(other) if is_tried else _checked_divisor(one, other, "remainder of a division by zero")
    return decimals_by_row(lambda a, b: WIDE.remainder(a, b), gives, one, divisor)


def _decimal_whole_quotient(one: Datum, other: Datum) -> Datum:
    whole = decimals_by_row(
        lambda a, b: WIDE.divide_int(a, b), pa.decimal256(76, 0), one, _checked_divisor(one, other)
    )
    return pc.cast(whole, LONG)


def _as_decimal256(datum: Datum) -> Datum:
    return pc.cast(datum, pa.decimal256(datum.type.precision, datum.type.scale))


def _to_decimal(datum: Datum, gives: pa.DataType) -> Datum:
    if datum.type.scale > gives.scale:
        datum = pc.round(roomy(datum), ndigits=gives.scale, round_mode="half_towards_infinity")
    return pc.cast(datum, gives)


def _nonzero(other: Datum) -> Datum:
    """Null in place of zero."""
    zero = pa.scalar(0, other.type)
    return pc.if_else(pc.equal(other, zero), pa.scalar(None, other.type), other)


def _checked_divisor(one: Datum, other: Datum, words: str = "division by zero") -> Datum:
    """A divisor that is not zero where something is divided; null in place of zero where nothing is."""
    is_zero = pc.equal(other, pa.scalar(0, other.type))
    if not pc.any(_array(is_zero)).as_py():
        return other
    if pc.any(_array(pc.and_(pc.fill_null(is_zero, False), pc.is_valid(one)))).as_py():
        raise ZeroDivisionError(f"{words}; use ps.functions.try_divide or try_mod to return null instead")
    return _nonzero(other)


def _divide(one: Datum, other: Datum) -> Datum:
    return pc.divide(one, _checked_divisor(one, other))


def _try_divide(one: Datum, other: Datum) -> Datum:
    return pc.divide(one, _nonzero(other))


def _whole_quotient(one: Datum, other: Datum) -> Datum:
    return pc.divide_checked(one, _checked_divisor(one, other))


def _array(datum: Datum) -> pa.Array:
    return pa.array([datum.as_py()], datum.type) if isinstance(datum, pa.Scalar) else datum


def _remainder(one: Datum, other: Datum) -> Datum:
    """The remainder of a division, with the sign of the dividend, as in Spark and C; zero is rejected."""
    return _left_over(one, _checked_divisor(one, other, "remainder of a division by zero"))


def _try_remainder(one: Datum, other: Datum) -> Datum:
    return _left_over(one, _nonzero(other))


def _left_over(one: Datum, divisor: Datum) -> Datum:
    is_null = pc.or_(pc.is_null(one), pc.is_null(divisor))
    left, right = (
        np.asarray(_array(pc.fill_null(datum, pa.scalar(1, datum.type)))) for datum in (one, divisor)
    )
    with np.errstate(invalid="ignore"):
        made = pa.array(np.fmod(left, right), one.type)
    return pc.if_else(is_null, pa.scalar(None, one.type), made)


def _float_rounded(datum: Datum, digits: int) -> Datum:
    """Floats rounded by the digits that they are printed with, a half away from zero."""
    numbers = np.asarray(pc.cast(pc.fill_null(datum, 0.0), DOUBLE))
    is_single = types.is_float32(datum.type)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(numbers) * 10.0**digits
        whole = np.floor(scaled + 0.5)
        near_half = np.abs(scaled - np.floor(scaled) - 0.5) < _NEAR_HALF
        # A float of so many digits, or one that is nearly a half, is rounded as a decimal.
        is_unsure = (
            near_half | (scaled > (_COARSE_SINGLE if is_single else _COARSE)) | (abs(digits) > _EXACT_POWERS)
        )
        rounded = np.copysign(whole / 10.0**digits if digits >= 0 else whole * 10.0**-digits, numbers) + 0.0
    unsure = np.flatnonzero(is_unsure & np.isfinite(numbers))
    if len(unsure):
        texts = pc.cast(datum.take(pa.array(unsure)), pa.string()).to_pylist()
        last = Decimal((0, (1,), -digits))
        rounded[unsure] = [float(_VERY_WIDE.quantize(Decimal(text or "0"), last)) + 0.0 for text in texts]
    finite = np.isfinite(numbers)
    rounded[~finite] = numbers[~finite]
    return pc.if_else(
        pc.is_null(datum), pa.scalar(None, datum.type), pa.array(rounded).cast(datum.type, safe=False)
    )


_NEAR_HALF = 1e-3
_COARSE, _COARSE_SINGLE = 1e12, 1e4
_EXACT_POWERS = 22
_DIGITS_OF_ARROW = 76
_DIGITS_OF_128 = 38
_VERY_WIDE = Context(prec=800, rounding=ROUND_HALF_UP)
_MICROS_OF_DAY = 86_400_000_000


def _round_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (number,) = found
    check(is_number(number) or types.is_null(number), what, "a number", number)
    digits = options["digits"]
    if types.is_decimal(number):
        whole = number.precision - number.scale + 1
        scale = min(max(digits, 0), number.scale)
        precision = max(whole, 1 - digits) if digits < 0 else whole + scale
        gives = pa.decimal128(min(precision, DECIMAL_DIGITS_MAX), scale)
        return Signature((number,), gives, partial(_round_decimals, gives))
    return Signature((number,), number, can_fail=digits < 0 and not types.is_floating(number))


def _round_decimals(gives: pa.DataType, datum: Datum, *, digits: int) -> Datum:
    wide = roomy(datum)
    if digits < datum.type.scale:
        wide = pc.round(wide, ndigits=digits, round_mode="half_towards_infinity")
    return pc.cast(wide, gives)


def _round(datum: Datum, *, digits: int) -> Datum:
    if types.is_floating(datum.type):
        return _float_rounded(datum, digits)
    if digits >= 0 or types.is_null(datum.type):
        return datum
    unit: int = 10**-digits

    def nearest(number: int) -> int:
        whole = (abs(number) + unit // 2) // unit * unit
        return whole if number >= 0 else -whole

    return pa.array([None if each is None else nearest(each) for each in datum.to_pylist()], datum.type)


def _whole_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (number,) = found
    check(is_number(number) or types.is_null(number), what, "a number", number)
    if types.is_decimal(number):
        gives = number if not number.scale else decimal(number.precision - number.scale + 1, 0)
        return Signature((number,), gives)
    return Signature((DOUBLE if types.is_null(number) else number,), LONG)


def _whole(kernel: Kernel, datum: Datum) -> Datum:
    if types.is_decimal(datum.type):
        gives = (
            datum.type if not datum.type.scale else decimal(datum.type.precision - datum.type.scale + 1, 0)
        )
        return pc.cast(kernel(roomy(datum)), gives)
    found = kernel(datum) if types.is_floating(datum.type) else datum
    if types.is_floating(found.type):  # Java's integer of a NaN is 0
        found = pc.if_else(pc.is_nan(found), pa.scalar(0.0, found.type), found)
    return pc.cast(found, LONG)


def _power(base: Datum, exponent: Datum) -> Datum:
    """The power as in Java: a NaN exponent is NaN, and so is an infinite exponent of 1 and -1."""
    is_undefined = pc.or_(
        pc.is_nan(exponent), pc.and_(pc.is_inf(exponent), pc.equal(pc.abs(base), pa.scalar(1.0)))
    )
    return pc.if_else(is_undefined, pa.scalar(float("nan")), pc.power(base, exponent))


def _sign(datum: Datum) -> Datum:
    if not types.is_floating(datum.type):
        return pc.cast(pc.sign(datum), DOUBLE)
    wide = pc.cast(datum, DOUBLE)
    return pc.if_else(pc.equal(wide, pa.scalar(0.0)), wide, pc.sign(wide))


def _doubles(count: int) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        _numbers(what, found[:2])
        return Signature((DOUBLE,) * count, DOUBLE)

    return rule


def _log(base: Datum, datum: Datum) -> Datum:
    return pc.divide(pc.ln(_above_zero(datum)), pc.ln(_above_zero(base)))


def _above_zero(datum: Datum) -> Datum:
    """Null where there is no logarithm, as Spark has it."""
    return pc.if_else(pc.less_equal(datum, 0.0), pa.scalar(None, DOUBLE), datum)


def _days_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    one, other = found
    check(is_time(one) or types.is_null(one) or is_text(one), what, "a date", one)
    check(bool(types.is_integer(other)), what, "a number of days", other)
    return Signature((DATE, pa.int32()), DATE)


def _add_days(date: Datum, days: Datum) -> Datum:
    return pc.cast(pc.add(pc.cast(date, pa.int32()), days), DATE)


def _subtract_days(date: Datum, days: Datum) -> Datum:
    return pc.cast(pc.subtract(pc.cast(date, pa.int32()), days), DATE)


_NUMBER = takes(is_number, "a number")
_LATER_FIRST = (1, 0)  # Spark evaluates the divisor before what is divided

register(
    "add", _sum_rule(pc.add_checked, is_difference=False), pc.add_checked, least=2, most=2, uses_zone=True
)
register(
    "subtract",
    _sum_rule(pc.subtract_checked, is_difference=True),
    pc.subtract_checked,
    least=2,
    most=2,
    uses_zone=True,
)
register("multiply", _product_rule, pc.multiply_checked, least=2, most=2)
register("divide", _quotient_rule(_divide), _divide, least=2, most=2, order=_LATER_FIRST)
register("try_divide", _quotient_rule(_try_divide), _try_divide, least=2, most=2)
register("mod", _remainder_rule(is_tried=False), _remainder, least=2, most=2, order=_LATER_FIRST)
register("try_mod", _remainder_rule(is_tried=True), _try_remainder, least=2, most=2)
register("whole_quotient", _whole_quotient_rule, _whole_quotient, least=2, most=2, order=_LATER_FIRST)
register("negate", _NUMBER, pc.negate_checked)
register("abs", _NUMBER, pc.abs_checked)
register("sign", takes(is_number, "a number", DOUBLE), _sign, can_fail=False)
register("round", _round_rule, _round)
register("floor", _whole_rule, partial(_whole, pc.floor))
register("ceil", _whole_rule, partial(_whole, pc.ceil))
register("sqrt", _doubles(1), lambda datum: pc.sqrt(datum), can_fail=False)
register("exp", _doubles(1), lambda datum: pc.exp(datum), can_fail=False)
register("ln", _doubles(1), lambda datum: pc.ln(_above_zero(datum)), can_fail=False)
register("log", _doubles(2), _log, least=2, most=2, can_fail=False)
register("log10", _doubles(1), lambda datum: pc.log10(_above_zero(datum)), can_fail=False)
register("log2", _doubles(1), lambda datum: pc.log2(_above_zero(datum)), can_fail=False)
register("power", _doubles(2), _power, least=2, most=2, can_fail=False)
register("date_add", _days_rule, _add_days, least=2, most=2)
register("date_sub", _days_rule, _subtract_days, least=2, most=2)
