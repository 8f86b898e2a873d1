"""Dates and times that are built, moved and counted: ``make_date``, ``last_day``, ``months_between``."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import array_of, by_row, register_by_row
from pointstamp.expressions.date_patterns import civil_of, days_of
from pointstamp.expressions.signature import Datum, Signature, check, register
from pointstamp.expressions.type_rules import DATE, DOUBLE, LONG, STRING, is_text, is_time
from pointstamp.expressions.zones import (
    CLOCK,
    INSTANT,
    clocks_of,
    instants_at,
    instants_near,
    time_zone,
    zone_of,
)

_MICROS_OF_DAY: Final = 86_400_000_000
_SECOND: Final = 1_000_000
_WEEKDAYS: Final = ("THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY")
"""The days of the week from 1970-01-01 on."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _length_of_month(year: int, month: int) -> int:
    return days_of(year + month // 12, month % 12 + 1, 1) - days_of(year, month, 1)


def _date(year: int, month: int, day: int) -> int:
    if not 1 <= month <= 12 or not 1 <= day <= _length_of_month(year, month):
        raise pa.ArrowInvalid(f"year {year}, month {month} and day {day} are not a date")
    return days_of(year, month, day)


def _last_day(days: int) -> int:
    year, month, day = civil_of(days)
    return days - day + _length_of_month(year, month)


def weekday_of(name: str) -> int | None:
    """The place of a day in the week that begins on Thursday, or None.

    >>> weekday_of("mo"), weekday_of("x")
    (4, None)
    """
    wanted = name.upper()
    places = [at for at, day in enumerate(_WEEKDAYS) if wanted in (day, day[:3], day[:2])]
    return places[0] if places else None


def _next_day(days: int, name: str) -> int:
    wanted = weekday_of(name)
    if wanted is None:
        raise pa.ArrowInvalid(f"{name!r} is not a day of the week")
    return days + 1 + (wanted - 1 - days) % 7


def _months_between(rule_zone: str, end: int, start: int, is_rounded: bool) -> float:
    """The number of months between two instants on the clocks of a zone."""
    shown = [clocks_of(array_of([each], INSTANT), rule_zone).cast(LONG)[0].as_py() for each in (end, start)]
    (year1, month1, day1), (year2, month2, day2) = (civil_of(each // _MICROS_OF_DAY) for each in shown)
    months = float((year1 - year2) * 12 + month1 - month2)
    is_last = day1 == _length_of_month(year1, month1) and day2 == _length_of_month(year2, month2)
    if day1 == day2 or is_last:
        return months
    seconds = []
    for instant, clock in zip((end, start), shown, strict=True):
        midnight = array_of([clock // _MICROS_OF_DAY * _MICROS_OF_DAY], CLOCK)
        since = instant - instants_at(midnight, rule_zone).cast(LONG)[0].as_py()
        seconds.append(int(since / _SECOND) if since < 0 else since // _SECOND)
    difference = (day1 - day2) * 86_400 + seconds[0] - seconds[1]
    found = months + difference / (31 * 86_400.0)
    if not is_rounded:
        return found
    scaled = found * 1e8
    whole = int(scaled // 1)
    return (whole + (1 if scaled - whole >= 0.5 else 0)) / 1e8


def _months_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what, found, options

    def kernel(end: Datum, start: Datum, is_rounded: Datum) -> Datum:
        zone = time_zone()
        return by_row(lambda *row: _months_between(zone, *row), DOUBLE, True, end, start, is_rounded)

    return Signature((INSTANT, INSTANT, pa.bool_()), DOUBLE, kernel)


def _clock(year: int, month: int, day: int, hour: int, minute: int, seconds: Decimal) -> int:
    """The microseconds since 1970 of what a clock shows; 60 seconds are the next minute."""
    micros = int(seconds.scaleb(6))
    if not -(2**31) < year < 2**31 or not 0 <= hour <= 23 or not 0 <= minute <= 59:
        raise pa.ArrowInvalid(f"hour {hour} and minute {minute} are not a time")
    if not 0 <= micros <= 60 * _SECOND or (micros // _SECOND == 60 and micros % _SECOND):
        raise pa.ArrowInvalid(f"{seconds} seconds are not valid in a time")
    return _date(year, month, day) * _MICROS_OF_DAY + (hour * 3600 + minute * 60) * _SECOND + micros


def _timestamp_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Year, month, day, hour, minute, seconds and, maybe, a zone."""
    del what
    has_zone = len(found) == 7
    gives = CLOCK if options["is_clock"] else INSTANT

    def kernel(*data: Datum, **_: Any) -> Datum:  # noqa: ANN401 - the options
        if has_zone:
            return by_row(
                lambda *row: instants_at(array_of([_clock(*row[:6])], CLOCK), row[6]).cast(LONG)[0].as_py(),
                gives,
                True,
                *data,
            )
        clocks = by_row(_clock, CLOCK, True, *data)
        return clocks if options["is_clock"] else instants_at(clocks, time_zone())

    integer = pa.int32()
    takes = (integer,) * 5 + (pa.decimal128(16, 6),) + ((STRING,) if has_zone else ())
    return Signature(takes, gives, kernel, uses_zone=not options["is_clock"] and not has_zone)


_UNITS: Final = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": _SECOND, "MINUTE": 60 * _SECOND,
    "HOUR": 3600 * _SECOND, "DAY": _MICROS_OF_DAY, "WEEK": 7 * _MICROS_OF_DAY,
}  # fmt: skip
_MONTH_UNITS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _difference_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """The number of complete units between two times, as clocks show them."""
    unit = options["unit"].upper()
    if unit not in _UNITS and unit not in _MONTH_UNITS:
        raise SchemaError(f"{what}: unknown unit {unit!r}.")

    def between(start: int, end: int) -> int:
        if unit in _UNITS:
            micros = end - start
            return micros // _UNITS[unit] if micros >= 0 else -(-micros // _UNITS[unit])
        sign = 1 if end >= start else -1
        first, last = (start, end) if sign > 0 else (end, start)
        (year1, month1, day1), (year2, month2, day2) = (
            civil_of(at // _MICROS_OF_DAY) for at in (first, last)
        )
        months = (year2 - year1) * 12 + month2 - month1
        rest1 = day1 * _MICROS_OF_DAY + first % _MICROS_OF_DAY
        rest2 = day2 * _MICROS_OF_DAY + last % _MICROS_OF_DAY
        months -= rest2 < rest1
        return sign * (months // _MONTH_UNITS[unit])

    def kernel(start: Datum, end: Datum, **_: Any) -> Datum:  # noqa: ANN401 - the options
        shown = [
            clocks_of(each, zone_of(each.type)) if each.type.tz is not None else each for each in (start, end)
        ]
        return by_row(between, LONG, True, *shown)

    takes = tuple(each if types.is_timestamp(each) else INSTANT for each in found)
    return Signature(takes, LONG, kernel)


def _weekday(datum: Datum) -> Datum:
    return pc.cast(pc.day_of_week(datum), pa.int32())


def _date_rule(gives: pa.DataType) -> Any:  # noqa: ANN401 - a rule
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del what, found, options
        return Signature((DATE,), gives)

    return rule


def _scaled(factor: int) -> Any:  # noqa: ANN401 - a kernel
    def kernel(datum: Datum) -> Datum:
        return pc.cast(pc.multiply_checked(datum, factor), INSTANT)

    return kernel


def _counted_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Whole units of an instant since 1970."""
    del what, found
    size = options["size"]
    return Signature((INSTANT,), LONG, lambda datum, **_: by_row(lambda at: at // size, LONG, True, datum))


def _long_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what, found, options
    return Signature((LONG,), INSTANT)


def _interval_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """Days, hours, minutes and seconds as an interval."""
    del what, found, options

    def interval(days: int, hours: int, minutes: int, seconds: Decimal) -> int:
        return days * _MICROS_OF_DAY + (hours * 3600 + minutes * 60) * _SECOND + int(seconds.scaleb(6))

    integer, gives = pa.int32(), pa.duration("us")
    takes = (integer, integer, integer, pa.decimal128(18, 6))
    return Signature(takes, gives, lambda *data: by_row(interval, gives, True, *data))


_PARTS: Final = {"days": (_MICROS_OF_DAY, None), "hours": (3_600_000_000, 24), "minutes": (60_000_000, 60)}
"""The parts of an interval: their length, and how many there are in the next longer one."""


def _part_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """A part of an interval, with its sign."""
    del what, found
    name = options["part"]
    gives = {"days": pa.int32(), "seconds": pa.decimal128(8, 6)}.get(name, pa.int8())

    def part(micros: int) -> Any:  # noqa: ANN401 - a number
        sign, rest = (-1 if micros < 0 else 1), abs(micros)
        if name == "seconds":
            return sign * Decimal(rest % 60_000_000).scaleb(-6)
        length, count = _PARTS[name]
        whole = rest // length
        return sign * (whole if count is None else whole % count)

    return Signature((pa.duration("us"),), gives, lambda datum, **_: by_row(part, gives, True, datum))


def _name_of_day(days: int) -> str:
    return _WEEKDAYS[days % 7][:3].title()


register_by_row("make_date", _date, DATE, least=3)
register_by_row("last_day", _last_day, DATE, can_fail=False)
register_by_row("next_day", _next_day, DATE, least=2)
register_by_row("day_name", _name_of_day, can_fail=False)
register_by_row("month_name", lambda days: _MONTHS[civil_of(days)[1] - 1], can_fail=False)
register("weekday", _date_rule(pa.int32()), _weekday, can_fail=False)
register("unix_date", _date_rule(pa.int32()), lambda datum: pc.cast(datum, pa.int32()), can_fail=False)
register_by_row("date_of_days", lambda days: days, DATE, can_fail=False)
register(
    "months_between",
    _months_rule,
    lambda *data: data,
    least=3,
    most=3,
    can_fail=False,
    uses_zone=True,
    is_by_row=True,
)
register(
    "make_timestamp", _timestamp_rule, lambda *data: data, least=6, most=7, uses_zone=True, is_by_row=True
)
register(
    "timestamp_difference",
    _difference_rule,
    lambda *data: data,
    least=2,
    most=2,
    uses_zone=True,
    is_by_row=True,
)
register("timestamp_millis", _long_rule, _scaled(1000))
register("timestamp_micros", _long_rule, _scaled(1))
register("whole_units", _counted_rule, lambda datum: datum, can_fail=False, is_by_row=True)
register("interval_part", _part_rule, lambda datum: datum, can_fail=False, is_by_row=True)
register("make_interval", _interval_rule, lambda *data: data, least=4, most=4, is_by_row=True)


# Times that are moved by months: the same day of another month, or the last one if it has no such day.


def _rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a date or a timestamp", time)
    if types.is_timestamp(time):
        taken = pa.timestamp("us", time.tz)
        return Signature((taken,), taken)
    return Signature((pa.date32(),), pa.date32())


def _moved(datum: Datum, *, months: int) -> Datum:
    if types.is_date(datum.type):
        days = pc.fill_null(pc.cast(datum, pa.int32()), 0).to_numpy(zero_copy_only=False)
        return _with_nulls(_days_moved(days.astype(np.int64), months), datum)
    is_instant = datum.type.tz is not None
    local = clocks_of(datum, zone_of(datum.type)) if is_instant else datum
    micros = pc.fill_null(pc.cast(local, pa.int64()), 0).to_numpy(zero_copy_only=False)
    days, clock = np.divmod(micros, _MICROS_OF_DAY)
    moved = _with_nulls(_days_moved(days, months) * _MICROS_OF_DAY + clock, local)
    if not is_instant:
        return moved
    return pc.cast(instants_near(moved, zone_of(datum.type), datum), datum.type)


def _days_moved(days: "np.ndarray[Any, Any]", months: "int | np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Days since 1970 so many months later."""
    dates = days.astype("datetime64[D]")
    begun = dates.astype("datetime64[M]")
    in_month = (dates - begun.astype("datetime64[D]")).astype(np.int64)
    target = begun + np.asarray(months).astype("timedelta64[M]")
    first = target.astype("datetime64[D]")
    length = ((target + np.timedelta64(1, "M")).astype("datetime64[D]") - first).astype(np.int64)
    moved: np.ndarray[Any, Any] = first.astype(np.int64) + np.minimum(in_month, length - 1)
    return moved


def _with_nulls(values: "np.ndarray[Any, Any]", like: pa.Array) -> pa.Array:
    missing = pc.is_null(like).to_numpy(zero_copy_only=False)
    made = pa.array(values, mask=missing)
    return pc.cast(pc.cast(made, pa.int32()) if types.is_date(like.type) else made, like.type)


def _moved_date_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """The date some months later, of a date or of the day of a timestamp; the months may be a column."""
    del options
    time, months = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a date", time)
    check(bool(types.is_integer(months)), what, "a number of months", months)
    return Signature((pa.date32(), pa.int32()), pa.date32())


def _dates_moved(date: Datum, months: Datum) -> Datum:
    if isinstance(months, pa.Scalar) and months.is_valid:
        return _moved(date, months=months.as_py())
    days = pc.fill_null(pc.cast(date, pa.int32()), 0)
    count = len(days) if isinstance(days, pa.Array) else len(months)
    starts = np.broadcast_to(np.asarray(days), count).astype(np.int64)
    is_null = pc.or_(pc.is_null(date), pc.is_null(months))
    known = pc.if_else(is_null, pa.scalar(0, pa.int32()), months)
    numbers = np.broadcast_to(np.asarray(known), count).astype(np.int64)
    moved = pc.cast(pc.cast(pa.array(_days_moved(starts, numbers)), pa.int32()), pa.date32())
    return pc.if_else(is_null, pa.scalar(None, pa.date32()), moved)


register("move_months", _rule, _moved, uses_zone=True)
register("add_months", _moved_date_rule, _dates_moved, least=2, most=2, uses_zone=True)
