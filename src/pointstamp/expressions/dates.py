"""Dates, timestamps and durations: their parts, and bringing them to the beginning of a unit.

A timestamp is an instant. It is shown, taken apart and cut in the time zone of the plan, as Spark does in
that of its session; one whose Arrow type names another zone than UTC, in that zone. One without a zone is
taken as it is.
Weeks begin on Monday. ``parse_duration`` reads what users write: "10 minutes", "1 hour 30 seconds", "500
ms".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.date_patterns import finest, reader, shown_at, writer
from pointstamp.expressions.decimals import WIDE
from pointstamp.expressions.signature import Datum, Signature, TypeRule, check, register
from pointstamp.expressions.type_rules import DATE, LONG, is_number, is_text, is_time
from pointstamp.expressions.zones import (
    CLOCK,
    INSTANT,
    clocks_of,
    instants_at,
    instants_near,
    time_zone,
    zone_of,
)

_UNITS: Final = {
    "microsecond": timedelta(microseconds=1),
    "us": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "ms": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "sec": timedelta(seconds=1),
    "s": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "m": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "h": timedelta(hours=1),
    "day": timedelta(days=1),
    "d": timedelta(days=1),
    "week": timedelta(weeks=1),
    "w": timedelta(weeks=1),
}
_PART: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]+)\s*,?")


def parse_duration(given: str | timedelta, what: str = "a duration") -> timedelta:
    """Parse a duration: a timedelta, or text such as "10 minutes" or "1 hour 30 s".

    >>> parse_duration("1 hour 30 seconds").total_seconds()
    3630.0
    """
    if isinstance(given, timedelta):
        return given
    total, position = timedelta(), 0
    while match := _PART.match(given, position):
        unit = match[2].lower()
        length = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if length is None:
            break
        total += int(match[1]) * length
        position = match.end()
    if not position or given[position:].strip():
        raise FlowError(
            f"{what} must be a timedelta or text such as '10 minutes', '1 hour 30 seconds' or '500 ms', "
            f"got {given!r}."
        )
    return total


def _time(gives: pa.DataType) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        (time,) = found
        check(is_time(time) or types.is_null(time) or is_text(time), what, "a date or a timestamp", time)
        return Signature((time if is_time(time) else DATE,), gives)

    return rule


def _clock(gives: pa.DataType) -> TypeRule:
    """A time of day: a date has midnight."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        (time,) = found
        check(is_time(time) or types.is_null(time) or is_text(time), what, "a timestamp", time)
        return Signature((time if types.is_timestamp(time) else INSTANT if is_text(time) else CLOCK,), gives)

    return rule


def _shown(datum: Datum) -> Datum:
    """The local times that clocks and calendars show."""
    is_instant = types.is_timestamp(datum.type) and datum.type.tz is not None
    return clocks_of(datum, zone_of(datum.type)) if is_instant else datum


def _integer(name: str) -> Any:  # noqa: ANN401 - a kernel
    kernel = getattr(pc, name)
    return lambda datum: pc.cast(kernel(_shown(datum)), pa.int32())


def _weekday(datum: Datum) -> Datum:
    """1 for Sunday to 7 for Saturday, as Spark numbers them."""
    return pc.cast(pc.add(pc.day_of_week(_shown(datum), count_from_zero=True, week_start=7), 1), pa.int32())


def _seconds_and_parts(datum: Datum) -> Datum:
    """The seconds of the minute with six digits after the point."""
    micros = pc.cast(pc.cast(_shown(datum), CLOCK, safe=False), LONG)
    values = np.mod(pc.fill_null(micros, 0).to_numpy(zero_copy_only=False), 60_000_000)
    missing = pc.is_null(micros).to_numpy(zero_copy_only=False)
    exact = pa.array(values, LONG, mask=missing).cast(pa.decimal128(19, 0))
    return pc.multiply(exact, pa.scalar(Decimal("0.000001"), pa.decimal128(6, 6))).cast(pa.decimal128(8, 6))


_TRUNCATIONS: Final = {
    "microsecond": "microsecond",
    "millisecond": "millisecond",
    "second": "second",
    "minute": "minute",
    "hour": "hour",
    "day": "day",
    "dd": "day",
    "week": "week",
    "month": "month",
    "mon": "month",
    "mm": "month",
    "quarter": "quarter",
    "year": "year",
    "yyyy": "year",
    "yy": "year",
}
"""The units that times are cut to, by all their names."""
_DATE_TRUNCATIONS: Final = ("week", "month", "quarter", "year")


def _truncate_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    _check_unit(what, options["unit"], _TRUNCATIONS)
    (time,) = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a date or a timestamp", time)
    taken = time if types.is_timestamp(time) else INSTANT
    return Signature((taken,), taken)


def _truncate_instant_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """The type as in Spark: a timestamp, also for a timestamp without a zone."""
    signature = _truncate_rule(what, found, options)
    return Signature((INSTANT,), INSTANT) if signature.gives.tz is None else signature


def _truncate_date_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    _check_unit(
        what, options["unit"], [each for each, unit in _TRUNCATIONS.items() if unit in _DATE_TRUNCATIONS]
    )
    (time,) = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a date", time)
    return Signature((DATE,), DATE)


def _check_unit(what: str, unit: str, known: Iterable[str]) -> None:
    if unit.lower() not in known:
        raise SchemaError(f"{what}: the unit must be one of {', '.join(known)}, got {unit!r}.")


def _truncate(datum: Datum, *, unit: str) -> Datum:
    kind = _TRUNCATIONS[unit.lower()]
    if datum.type.tz is None:
        return _floored(datum, kind)
    zone, clocks = zone_of(datum.type), _shown(datum)
    floored = _floored(clocks, kind)
    if kind in ("hour", "minute"):  # clocks that show an hour twice stay in it
        return pc.cast(instants_near(floored, zone, pc.cast(datum, INSTANT, safe=False)), datum.type)
    if kind in ("second", "millisecond", "microsecond"):
        return _floored(datum, kind)
    return pc.cast(instants_at(floored, zone), datum.type, safe=False)


def _truncate_date(datum: Datum, *, unit: str) -> Datum:
    return _floored(datum, _TRUNCATIONS[unit.lower()])


def _floored(datum: Datum, unit: str) -> Datum:
    return pc.cast(pc.floor_temporal(datum, 1, unit, week_starts_monday=True), datum.type)


def _days_between_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    for each in found:
        check(is_time(each) or types.is_null(each) or is_text(each), what, "dates", each)
    return Signature((DATE, DATE), pa.int32())


def _days_between(end: Datum, start: Datum) -> Datum:
    return pc.subtract(pc.cast(end, pa.int32()), pc.cast(start, pa.int32()))


def _seconds_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a timestamp", time)
    return Signature((pa.timestamp("us", time.tz) if types.is_timestamp(time) else INSTANT,), LONG)


_DEFAULT: Final = "yyyy-MM-dd HH:mm:ss"


def _unix_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """The seconds of a time, or of a text in the pattern that Spark takes if none is given."""
    if is_text(found[0]):
        return Signature(
            (pa.string(),), LONG, partial(_parse_seconds, format=_DEFAULT), can_fail=True, uses_zone=True
        )
    return _seconds_rule(what, found, options)


def _seconds(datum: Datum) -> Datum:
    return pc.divide(pc.cast(datum, LONG), 1_000_000)


def _micros(datum: Datum) -> Datum:
    return pc.cast(datum, LONG)


def _from_seconds_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (number,) = found
    check(is_number(number) or types.is_null(number), what, "a number", number)
    if types.is_floating(number):
        return Signature((pa.float64(),), INSTANT, _from_float_seconds)
    if types.is_decimal(number):
        return Signature((number,), INSTANT, _from_decimal_seconds)
    return Signature((LONG,), INSTANT)


def _from_seconds(datum: Datum) -> Datum:
    return pc.cast(pc.multiply_checked(datum, 1_000_000), INSTANT)


def _from_float_seconds(datum: Datum) -> Datum:
    finite = pc.if_else(pc.is_finite(datum), datum, pa.scalar(None, pa.float64()))
    return pc.cast(pc.cast(pc.trunc(pc.multiply(finite, 1e6)), LONG), INSTANT)


def _from_decimal_seconds(datum: Datum) -> Datum:
    def micros(seconds: Decimal) -> int:
        found = WIDE.multiply(seconds, Decimal(1_000_000))
        if found != found.to_integral_value():
            raise pa.ArrowInvalid(f"{seconds} seconds are not an integer number of microseconds")
        return int(found)

    return pa.array([None if each is None else micros(each) for each in datum.to_pylist()], LONG).cast(
        INSTANT
    )


def _format_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (time,) = found
    check(is_time(time) or types.is_null(time) or is_text(time), what, "a date or a timestamp", time)
    writer(options["format"], what)
    has_zone = types.is_timestamp(time) and time.tz is not None
    return Signature((time if has_zone else INSTANT,), pa.string())


def _format(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    write = writer(format, "")
    instants = pc.cast(datum, pa.timestamp("us", datum.type.tz), safe=False)
    # Each different time is written once: rows of one batch are often of one day or minute.
    unit = finest(format)
    least = pc.min(pc.cast(instants, LONG)).as_py()
    if unit == "minute" and least is not None and least < _WHOLE_MINUTES:
        unit = "second"
    times = pc.dictionary_encode(pc.cast(_floored(instants, unit), LONG))
    found = times.dictionary.cast(instants.type)
    clocks = pc.cast(_shown(found), LONG).to_pylist()
    zone = zone_of(datum.type)
    offsets = (
        (clock - at) // 1_000_000 for clock, at in zip(clocks, times.dictionary.to_pylist(), strict=True)
    )
    texts = [write(shown_at(clock, offset, zone)) for clock, offset in zip(clocks, offsets, strict=True)]
    return pa.array(texts, pa.string()).take(times.indices)


def _parse_rule(gives: pa.DataType) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        (text,) = found
        check(is_text(text) or types.is_null(text), what, "a string", text)
        reader(options["format"], what)
        has_offset = any(letter in options["format"] for letter in "XxZ")
        return Signature((pa.string(),), gives, uses_zone=not types.is_date(gives) or has_offset)

    return rule


_WHOLE_MINUTES: Final = 94_694_400_000_000
"""From 1973 on, clocks of all zones differ by whole minutes."""

_PLAIN: Final = {
    "yyyy-MM-dd": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "yyyy-MM-dd HH:mm:ss": "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$",
}


def _parse_timestamp(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    plain = _PLAIN.get(format)
    if plain and pc.all(pc.fill_null(pc.match_substring_regex(datum, plain), True)).as_py():
        return instants_at(pc.cast(datum, CLOCK), time_zone())
    read = reader(format, "")
    texts = pc.dictionary_encode(datum)
    clocks, offsets = [], []
    for text in texts.dictionary.to_pylist():
        found = None if text is None else read(text)
        if found is None and text is not None:
            raise pa.ArrowInvalid(f"{text!r} does not fit the pattern {format!r}")
        clocks.append(None if found is None else found.clock)
        offsets.append(None if found is None or found.offset is None else found.offset * 1_000_000)
    shown = pa.array(clocks, LONG)
    said = pc.cast(pc.subtract(shown, pa.array(offsets, LONG)), INSTANT)
    return pc.coalesce(said, instants_at(pc.cast(shown, CLOCK), time_zone())).take(texts.indices)


def _parse_date(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    instants = _parse_timestamp(datum, format=format)
    return pc.cast(pc.floor_temporal(clocks_of(instants, time_zone()), unit="day"), DATE)


def _parse_seconds(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    return _seconds(_parse_timestamp(datum, format=format))


for _name, _kernel in (
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("day", "day"),
    ("day_of_year", "day_of_year"),
    ("week_of_year", "iso_week"),
):
    register(_name, _time(pa.int32()), _integer(_kernel), can_fail=False, uses_zone=True)
for _name in ("hour", "minute", "second"):
    register(_name, _clock(pa.int32()), _integer(_name), can_fail=False, uses_zone=True)
register(
    "second_with_fraction", _clock(pa.decimal128(8, 6)), _seconds_and_parts, can_fail=False, uses_zone=True
)
register("day_of_week", _time(pa.int32()), _weekday, can_fail=False, uses_zone=True)
register("date_trunc", _truncate_rule, _truncate, uses_zone=True)
register("date_trunc_instant", _truncate_instant_rule, _truncate, uses_zone=True)
register("trunc", _truncate_date_rule, _truncate_date, uses_zone=True)
register("date_diff", _days_between_rule, _days_between, least=2, most=2, can_fail=False, uses_zone=True)
register("unix_timestamp", _unix_rule, _seconds, can_fail=False)
register("unix_micros", _seconds_rule, _micros, can_fail=False)
register("timestamp_seconds", _from_seconds_rule, _from_seconds)
register("date_format", _format_rule, _format, can_fail=False, uses_zone=True)
register("to_timestamp", _parse_rule(INSTANT), _parse_timestamp, uses_zone=True)
register("to_unix_timestamp", _parse_rule(LONG), _parse_seconds, uses_zone=True)
register("to_date", _parse_rule(DATE), _parse_date, uses_zone=True)
