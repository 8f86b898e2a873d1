"""Values that stand in a text: numbers, strings, dates, intervals and parameters, as expressions.

A number with a point is a decimal and one with an exponent a double, as in Spark. A string that is compared
with a date, a timestamp or a number is read as one. Intervals of days and less are lengths of time; those of
months and years have none, and move a date or a timestamp to the same day of another month.
"""

from datetime import date, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa
from pyarrow import types
from sqlglot import exp

from pointstamp.arrow.ddl import type_to_ddl
from pointstamp.errors import FlowError
from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.tree import Expression, Literal, lit
from pointstamp.expressions.value_text import read_date, read_timestamp
from pointstamp.sql_views.rejection import placed, refused

_DECIMAL_DIGITS_MAX: Final = 38
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def literal(node: exp.Literal, sign: int = 1) -> Expression:
    """A number, with the sign before it, or a string; an integer beyond a long is a decimal, as in Spark."""
    text = str(node.this)
    if node.is_string:
        return lit(text)
    if "e" in text.lower():
        return lit(sign * float(text))
    if "." in text:
        return lit(sign * Decimal(text))
    value = sign * int(text)
    if -(2**63) <= value < 2**63:
        return lit(value)
    if len(text) > _DECIMAL_DIGITS_MAX:
        raise refused(
            node, f"the number {text} has {len(text)} digits, but at most {_DECIMAL_DIGITS_MAX} are supported"
        )
    return lit(Decimal(value))


def is_number(node: exp.Expr) -> bool:
    """Return whether a node is a number that is written out, without a sign."""
    return isinstance(node, exp.Literal) and not node.is_string


def text_as(node: exp.Expr, text: str, data_type: pa.DataType) -> Expression:
    """A text that is meant as a value of a type; SqlError if it is none."""
    if not types.is_date(data_type) and not types.is_timestamp(data_type):
        return lit(text).cast(data_type)
    try:
        if types.is_date(data_type):
            return Literal(pa.scalar(read_date(text), pa.int32()).cast(data_type))
        read_timestamp(text, None)
    except pa.ArrowInvalid as error:
        words = "Write it as 2024-12-31 or 2024-12-31 23:59:59."
        raise refused(node, f"'{text}' is not a {type_to_ddl(data_type)}", words) from error
    # A timestamp is read in the time zone of the flow, which is known when it runs.
    return lit(text).cast(data_type)


def interval_months(node: exp.Interval) -> int | None:
    """The number of months of an interval of months, quarters or years."""
    unit = node.text("unit").upper().removesuffix("S")
    if unit not in _MONTHS:
        return None
    return _number(node) * _MONTHS[unit]


def interval_length(node: exp.Interval) -> timedelta:
    """The duration of an interval of weeks, days, hours and smaller units."""
    if isinstance(node.args.get("unit"), exp.IntervalSpan):
        raise refused(
            node, "an interval of one unit TO another is not supported", "Write interval '1 day 2 hours'."
        )
    unit = node.text("unit")
    said = node.this.name if isinstance(node.this, exp.Literal) else None
    if said is None:
        raise refused(node, "the length of an interval must be a literal", "Write interval '3' day.")
    is_negative = said.strip().startswith("-")
    words = f"{said.strip().lstrip('-')} {unit}"
    with placed(node):
        try:
            length = parse_duration(words.strip(), "an interval")
        except FlowError as error:
            if any(month in words.upper() for month in _MONTHS):
                said = "months and years have no fixed length beside days"
                raise refused(node, said, "Write one unit.") from error
            raise
    return -length if is_negative else length


def moved_by_months(day: date, months: int) -> date:
    """A date so many months later, or the last day of that month.

    >>> moved_by_months(date(2024, 1, 31), 1)
    datetime.date(2024, 2, 29)
    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    following = date(year + month // 11, (month + 1) % 12 + 1, 1)
    last = (following - timedelta(days=1)).day
    return day.replace(year=year, month=month + 1, day=min(day.day, last))


def unescaped(node: exp.Expr, pattern: str, mark: str) -> str:
    """A pattern of LIKE with another mark in place of the backslash; SqlError as Spark's where it ends so."""
    made, position = "", 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == mark:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", mark):
                raise refused(
                    node, f"in the pattern '{pattern}' '{mark}' must be followed by %, _ or '{mark}'"
                )
            letter = pattern[position]
            made += f"\\{letter}" if letter in "%_\\" else letter
        else:
            made += "\\\\" if letter == "\\" else letter
        position += 1
    return made


def constant_int(node: exp.Expr, words: str) -> int:
    """An integer that stands in the text."""
    sign = 1
    if isinstance(node, exp.Neg):
        node, sign = node.this, -1
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return sign * int(str(node.this))
    raise refused(node, f"{words} must be a literal integer")


def constant_text(node: exp.Expr, words: str) -> str:
    """A string that stands in the text."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise refused(node, f"{words} must be a literal string")


def _number(node: exp.Interval) -> int:
    said = node.this
    if isinstance(said, exp.Neg) and isinstance(said.this, exp.Literal):
        return -int(said.this.name)
    if not isinstance(said, exp.Literal) or not said.name.lstrip("-").isdigit():
        raise refused(node, "the length of an interval must be a literal integer")
    return int(said.name)


def as_decimal(node: exp.Expr) -> Literal | None:
    """An integer of the text as a decimal of its own digits, as Spark reads it beside a decimal."""
    if not isinstance(node, exp.Literal) or node.is_string or not str(node.this).isdigit():
        return None
    return Literal(pa.scalar(Decimal(node.this), pa.decimal128(len(node.this), 0)))
