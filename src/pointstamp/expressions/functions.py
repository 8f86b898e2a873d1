"""The functions of expressions, ``ps.functions``: PySpark's names in snake_case, over columns and values.

    from pointstamp import functions as F
    orders.with_columns(city=F.upper(ps.col("city")), day=F.date_trunc("day", "at"))

Where an expression is expected, text is the name of a column, as in PySpark; ``ps.lit`` says a text that is
meant as one. Null in, null out, unless a function says otherwise.
"""

from datetime import timedelta
from typing import Any, TypeAlias

from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Call, Expression, Literal, Value, col, lit

Operand: TypeAlias = Expression | str | Any
"""An expression, the name of a column, or another Python value that is the same for every row."""


def _of(given: Operand) -> Expression:
    return col(given) if isinstance(given, str) else lit(given)


def _call(function: str, *arguments: Operand, **options: Any) -> Expression:  # noqa: ANN401
    return Call(function, tuple(map(_of, arguments)), options or None)


def duration(length: str | timedelta) -> Expression:
    """A length of time: ``ps.col("at") + ps.functions.duration("10 minutes")``."""
    return Literal(parse_duration(length, "ps.functions.duration"))


def tumbling(time: Operand, size: Span, *, offset: Span | None = None) -> Expression:
    """Where the window begins in which an event time lies: ``ps.functions.tumbling("at", "10 minutes")``."""
    return _call("tumbling", time, size=size, offset=offset)


# Null.


def coalesce(*values: Operand) -> Expression:
    """The first that is not null."""
    return _call("coalesce", *values)


def null_if(value: Operand, other: Value) -> Expression:
    """Null where both are equal, else the first."""
    return Call("null_if", (_of(value), lit(other)))


def is_nan(value: Operand) -> Expression:
    """Whether a float is not a number; false for null."""
    return _call("is_nan", value)


def greatest(*values: Operand) -> Expression:
    """The greatest that is not null."""
    return _call("greatest", *values)


def least(*values: Operand) -> Expression:
    """The least that is not null."""
    return _call("least", *values)


# Numbers.


def abs(value: Operand) -> Expression:  # noqa: A001 - SQL's word
    """Without its sign."""
    return _call("abs", value)


def sign(value: Operand) -> Expression:
    """-1.0, 0.0 or 1.0."""
    return _call("sign", value)


def round(value: Operand, digits: int = 0) -> Expression:  # noqa: A001 - SQL's word
    """To so many digits after the point; a half away from zero."""
    return _call("round", value, digits=digits)


def floor(value: Operand) -> Expression:
    """The greatest integer that is not above it."""
    return _call("floor", value)


def ceil(value: Operand) -> Expression:
    """The least integer that is not below it."""
    return _call("ceil", value)


def sqrt(value: Operand) -> Expression:
    """The square root; NaN for a negative number."""
    return _call("sqrt", value)


def exp(value: Operand) -> Expression:
    """Euler's number to this power."""
    return _call("exp", value)


def ln(value: Operand) -> Expression:
    """The natural logarithm; null where there is none."""
    return _call("ln", value)


def log(base: float, value: Operand) -> Expression:
    """The logarithm to a base; null where there is none."""
    return _call("log", float(base), value)


def log10(value: Operand) -> Expression:
    """The logarithm to base 10; null where there is none."""
    return _call("log10", value)


def log2(value: Operand) -> Expression:
    """The logarithm to base 2; null where there is none."""
    return _call("log2", value)


def power(value: Operand, exponent: Operand) -> Expression:
    """To a power, as a double."""
    return _call("power", value, exponent)


def try_divide(value: Operand, divisor: Operand) -> Expression:
    """The quotient; null where the divisor is zero."""
    return _call("try_divide", value, divisor)


def whole_quotient(value: Operand, divisor: Operand) -> Expression:
    """The quotient of integers or decimals without digits after the point, as a long; SQL's ``div``."""
    return _call("whole_quotient", value, divisor)


def try_mod(value: Operand, divisor: Operand) -> Expression:
    """The remainder, with the sign of the first; null where the divisor is zero."""
    return _call("try_mod", value, divisor)


# Text.


def upper(text: Operand) -> Expression:
    """In capitals."""
    return _call("upper", text)


def lower(text: Operand) -> Expression:
    """In small letters."""
    return _call("lower", text)


def init_cap(text: Operand) -> Expression:
    """The first letter of each word as a capital."""
    return _call("init_cap", text)


def length(text: Operand) -> Expression:
    """How many characters it has."""
    return _call("length", text)


def reverse(text: Operand) -> Expression:
    """From its end to its beginning."""
    return _call("reverse", text)


def trim(text: Operand, characters: str = " ") -> Expression:
    """Without spaces, or these characters, at both ends."""
    return _call("trim", text, characters=characters)


def ltrim(text: Operand, characters: str = " ") -> Expression:
    """Without spaces, or these characters, at its beginning."""
    return _call("ltrim", text, characters=characters)


def rtrim(text: Operand, characters: str = " ") -> Expression:
    """Without spaces, or these characters, at its end."""
    return _call("rtrim", text, characters=characters)


def concat(*values: Operand) -> Expression:
    """Texts one after the other; null if one is null."""
    return _call("concat", *values)


def concat_ws(separator: str, *values: Operand) -> Expression:
    """Texts with a separator between them; nulls are left out."""
    return _call("concat_ws", *values, separator=separator)


def substring(text: Operand, start: int, length: int | None = None) -> Expression:
    """From a position on, the first being 1, or from the end where it is negative."""
    return _call("substring", text, start=start, length=length)


def replace(text: Operand, old: str, new: str) -> Expression:
    """With every occurrence of a text replaced."""
    return _call("replace", text, old=old, new=new)


def regexp_replace(text: Operand, pattern: str, replacement: str) -> Expression:
    """With every match of a regular expression replaced; ``$1`` is its first group."""
    return _call("regexp_replace", text, pattern=pattern, replacement=replacement)


def regexp_extract(text: Operand, pattern: str, group: int = 1) -> Expression:
    """A group of the first match of a regular expression; empty where nothing matches."""
    return _call("regexp_extract", text, pattern=pattern, group=group)


def split(text: Operand, pattern: str) -> Expression:
    """The list of what stands between matches of a regular expression."""
    return _call("split", text, pattern=pattern)


def split_part(text: Operand, separator: str, number: int) -> Expression:
    """What stands between separators, by its number from 1, or from the end; empty where there is less."""
    return _call("split_part", text, separator=separator, number=number)


def instr(text: Operand, part: str, start: int = 1) -> Expression:
    """Where a text occurs first, from a position on, counted from 1; 0 where it does not."""
    return _call("instr", text, text=part, start=start)


def repeat(text: Operand, times: int) -> Expression:
    """So many times one after the other."""
    return _call("repeat", text, times=times)


def lpad(text: Operand, width: int, padding: str = " ") -> Expression:
    """Filled at its beginning, or cut, to so many characters."""
    return _call("lpad", text, width=width, padding=padding)


def rpad(text: Operand, width: int, padding: str = " ") -> Expression:
    """Filled at its end, or cut, to so many characters."""
    return _call("rpad", text, width=width, padding=padding)


# Time.


def year(time: Operand) -> Expression:
    """The year."""
    return _call("year", time)


def quarter(time: Operand) -> Expression:
    """The quarter of the year, 1 to 4."""
    return _call("quarter", time)


def month(time: Operand) -> Expression:
    """The month, 1 to 12."""
    return _call("month", time)


def day(time: Operand) -> Expression:
    """The day of the month."""
    return _call("day", time)


def day_of_week(time: Operand) -> Expression:
    """The day of the week, 1 for Sunday to 7 for Saturday."""
    return _call("day_of_week", time)


def day_of_year(time: Operand) -> Expression:
    """The day of the year, from 1."""
    return _call("day_of_year", time)


def week_of_year(time: Operand) -> Expression:
    """The ISO week of the year."""
    return _call("week_of_year", time)


def hour(time: Operand) -> Expression:
    """The hour, 0 to 23."""
    return _call("hour", time)


def minute(time: Operand) -> Expression:
    """The minute, 0 to 59."""
    return _call("minute", time)


def second(time: Operand) -> Expression:
    """The second, 0 to 59."""
    return _call("second", time)


def second_with_fraction(time: Operand) -> Expression:
    """The second with the digits after the point, as a decimal."""
    return _call("second_with_fraction", time)


def trunc(date: Operand, unit: str) -> Expression:
    """The first date of the year, quarter, month or week that a date lies in."""
    return _call("trunc", date, unit=unit)


def date_trunc(unit: str, time: Operand) -> Expression:
    """The beginning of the unit ("hour", "day", "month", ...) that it lies in."""
    return _call("date_trunc", time, unit=unit)


def date_add(date: Operand, days: Operand) -> Expression:
    """So many days later."""
    return _call("date_add", date, days)


def date_sub(date: Operand, days: Operand) -> Expression:
    """So many days earlier."""
    return _call("date_sub", date, days)


def add_months(date: Operand, months: Operand) -> Expression:
    """The date so many months later, or the last day of that month, as in Spark also of a timestamp.

    To keep the time of day, add an interval in SQL: ``at + interval 1 month``.
    """
    return _call("add_months", date, months)


def move_months(time: Operand, months: int) -> Expression:
    """The same day so many months later, or the last day of that month; of timestamps, at the same time."""
    return _call("move_months", time, months=months)


def date_diff(end: Operand, start: Operand) -> Expression:
    """How many days from the second to the first."""
    return _call("date_diff", end, start)


def unix_timestamp(time: Operand) -> Expression:
    """Seconds since 1970, without parts of a second."""
    return _call("unix_timestamp", time)


def unix_micros(time: Operand) -> Expression:
    """Microseconds since 1970."""
    return _call("unix_micros", time)


def timestamp_seconds(seconds: Operand) -> Expression:
    """The timestamp so many seconds after 1970, in UTC."""
    return _call("timestamp_seconds", seconds)


def date_format(time: Operand, format: str) -> Expression:  # noqa: A002 - Spark's word
    """As text by a pattern of Spark's, such as "yyyy-MM-dd"."""
    return _call("date_format", time, format=format)


def to_timestamp(text: Operand, format: str | None = None) -> Expression:  # noqa: A002 - Spark's word
    """The timestamp that a text says, by a pattern of Spark's or as a cast; an error if it does not fit."""
    return _of(text).cast("timestamp") if format is None else _call("to_timestamp", text, format=format)


def to_date(text: Operand, format: str | None = None) -> Expression:  # noqa: A002 - Spark's word
    """The date that a text says, by a pattern of Spark's or as a cast; an error if it does not fit."""
    return _of(text).cast("date") if format is None else _call("to_date", text, format=format)


def from_utc_timestamp(time: Operand, zone: str) -> Expression:
    """What clocks in a zone show when clocks in UTC show a time."""
    return _call("from_utc_timestamp", time, zone=zone)


def to_utc_timestamp(time: Operand, zone: str) -> Expression:
    """What clocks in UTC show when clocks in a zone show a time."""
    return _call("to_utc_timestamp", time, zone=zone)


def at_time_zone(time: Operand, zone: str) -> Expression:
    """What clocks in a zone show at an instant; of a timestamp without a zone, when they show it."""
    return _call("at_time_zone", time, zone=zone)


def convert_timezone(time: Operand, target: str, source: str | None = None) -> Expression:
    """What clocks in the target zone show when clocks in the source zone show a time, without a zone.

    ``source`` (default: the time zone of the flow).
    """
    return _call("convert_timezone", time, source=source, target=target)


# Structs and lists.


def size(values: Operand) -> Expression:
    """How many elements a list has."""
    return _call("size", values)
