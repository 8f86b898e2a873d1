"""Dates, timestamps and durations: their parts, and bringing them to the beginning of a unit.

A timestamp with a zone is shown, taken apart and cut in that zone; one without is taken as it is written.
Weeks begin on Monday. ``parse_duration`` reads what users write: "10 minutes", "1 hour 30 seconds", "500
ms".
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.function import Datum, Signature, TypeRule, check, register
from pointstamp.expressions.typing import DATE, LONG, is_text, is_time

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
    """How long it is: a timedelta as it is, or text such as "10 minutes" or "1 hour 30 s".

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
            f"{what} must be a timedelta or text such as '10 minutes', '1 hour 30 seconds' or '500 ms', and "
            f"was given as {given!r}."
        )
    return total


def _time(gives: pa.DataType) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        del options
        (time,) = found
        check(is_time(time) or types.is_null(time), what, "a date or a timestamp", time)
        return Signature((pa.timestamp("us") if types.is_null(time) else time,), gives)

    return rule


def _clock(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    """A time of day: a date has midnight."""
    del options
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a timestamp", time)
    return Signature((time if types.is_timestamp(time) else pa.timestamp("us"),), pa.int32())


def _integer(name: str) -> Any:  # noqa: ANN401 - a kernel
    kernel = getattr(pc, name)
    return lambda datum: pc.cast(kernel(datum), pa.int32())


def _weekday(datum: Datum) -> Datum:
    """1 for Sunday to 7 for Saturday, as Spark numbers them."""
    return pc.cast(pc.add(pc.day_of_week(datum, count_from_zero=True, week_start=7), 1), pa.int32())


_TRUNCATIONS: Final = (
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
)


def _truncate_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    if options["unit"].lower() not in _TRUNCATIONS:
        raise SchemaError(
            f"{what}: the unit must be one of {', '.join(_TRUNCATIONS)}, and is {options['unit']!r}."
        )
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a date or a timestamp", time)
    taken = time if types.is_timestamp(time) else pa.timestamp("us")
    return Signature((taken,), taken)


def _truncate(datum: Datum, *, unit: str) -> Datum:
    return pc.cast(pc.floor_temporal(datum, 1, unit.lower(), week_starts_monday=True), datum.type)


def _days_between_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    for each in found:
        check(is_time(each) or types.is_null(each), what, "dates", each)
    return Signature((DATE, DATE), pa.int32())


def _days_between(end: Datum, start: Datum) -> Datum:
    return pc.subtract(pc.cast(end, pa.int32()), pc.cast(start, pa.int32()))


def _seconds_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a timestamp", time)
    zone = getattr(time, "tz", None)
    return Signature((pa.timestamp("us", zone),), LONG)


def _seconds(datum: Datum) -> Datum:
    return pc.cast(pc.floor(pc.divide(pc.cast(pc.cast(datum, LONG), pa.float64()), 1e6)), LONG)


def _micros(datum: Datum) -> Datum:
    return pc.cast(datum, LONG)


def _from_seconds_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del options
    (number,) = found
    check(bool(types.is_integer(number) or types.is_null(number)), what, "an integer", number)
    return Signature((LONG,), pa.timestamp("us", "UTC"))


def _from_seconds(datum: Datum) -> Datum:
    return pc.cast(pc.multiply_checked(datum, 1_000_000), pa.timestamp("us", "UTC"))


def _format_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (time,) = found
    check(is_time(time) or types.is_null(time), what, "a date or a timestamp", time)
    strftime(options["format"], what)
    return Signature((time,), pa.string())


def _parse_rule(gives: pa.DataType) -> TypeRule:
    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        (text,) = found
        check(is_text(text) or types.is_null(text), what, "a string", text)
        strftime(options["format"], what)
        return Signature((pa.string(),), gives)

    return rule


_LETTERS: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "DDD": "%j",
    "MMM": "%b",
    "MMMM": "%B",
    "EEE": "%a",
    "EEEE": "%A",
}
_PIECE: Final = re.compile(r"'([^']*)'|([a-zA-Z])\2*|[^a-zA-Z']+")


def strftime(pattern: str, what: str) -> str:
    """Spark's pattern of a date ("yyyy-MM-dd HH:mm") as C's.

    >>> strftime("yyyy-MM-dd HH:mm:ss", "to_timestamp")
    '%Y-%m-%d %H:%M:%S'
    """
    made = []
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if piece[1] is not None:
            made.append(piece[1].replace("%", "%%") or "'")
        elif piece[2] is None:
            made.append(text.replace("%", "%%"))
        elif text in _LETTERS:
            made.append(_LETTERS[text])
        else:
            known = ", ".join(_LETTERS)
            raise SchemaError(
                f"{what}: the pattern {pattern!r} has {text!r}, which is not known; known are {known}."
            )
    return "".join(made)


def _format(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    pattern = strftime(format, "")
    if types.is_timestamp(datum.type):  # C's %S has the digits after the point, Spark's ss has not
        datum = pc.cast(pc.floor_temporal(datum, unit=_finest(pattern)), pa.timestamp("s", datum.type.tz))
    if isinstance(datum, pa.Scalar):
        return pc.strftime(datum, pattern)
    # Each different time is written once: rows of one batch are often of one day or minute.
    times = pc.dictionary_encode(datum)
    return pc.take(pc.strftime(times.dictionary, pattern), times.indices)


def _finest(pattern: str) -> str:
    """The finest unit that a pattern shows.

    >>> _finest("%Y-%m-%d %H:%M")
    'minute'
    """
    shown = (
        unit for letter, unit in (("%S", "second"), ("%M", "minute"), ("%H", "hour")) if letter in pattern
    )
    return next(shown, "day")


def _parse_timestamp(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    return pc.cast(pc.strptime(datum, strftime(format, ""), "us"), pa.timestamp("us"))


def _parse_date(datum: Datum, *, format: str) -> Datum:  # noqa: A002 - Spark's word
    return pc.cast(_parse_timestamp(datum, format=format), DATE)


for _name, _kernel in (
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("day", "day"),
    ("day_of_year", "day_of_year"),
    ("week_of_year", "iso_week"),
):
    register(_name, _time(pa.int32()), _integer(_kernel))
for _name in ("hour", "minute", "second"):
    register(_name, _clock, _integer(_name))
register("day_of_week", _time(pa.int32()), _weekday)
register("date_trunc", _truncate_rule, _truncate)
register("date_diff", _days_between_rule, _days_between, least=2, most=2)
register("unix_timestamp", _seconds_rule, _seconds)
register("unix_micros", _seconds_rule, _micros)
register("timestamp_seconds", _from_seconds_rule, _from_seconds)
register("date_format", _format_rule, _format)
register("to_timestamp", _parse_rule(pa.timestamp("us")), _parse_timestamp)
register("to_date", _parse_rule(DATE), _parse_date)
