"""Texts as values of other types, read as Spark reads them: ``' +3 '``, ``'yes'``, ``'2024-1-5'``.

Spaces and control characters around a text are ignored. A text that is not a value raises ArrowInvalid. Most
columns hold texts of one plain form, which Arrow reads all at once; others are read one by one, each
different text once.
"""

import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.function import Datum
from pointstamp.expressions.zones import CLOCK, fixed_offset, instants_at, time_zone

_AROUND: Final = "".join(map(chr, range(0x21))) + "\x7f"
"""What Spark takes away at both ends of a text: spaces and control characters."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?")
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[dDfF]?"
)
_SPECIAL_FLOATS: Final = {"inf": "inf", "infinity": "inf", "nan": "nan"}
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TRUE: Final = frozenset(["t", "true", "y", "yes", "1"])
_FALSE: Final = frozenset(["f", "false", "n", "no", "0"])
_DATE: Final = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP: Final = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?(\s*[A-Za-z+-].*)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_PLAIN_DATE: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_PLAIN_CLOCK: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_PLAIN_INTEGER: Final = "^-?[0-9]{1,18}$"
_PLAIN_FLOAT: Final = r"^-?[0-9]+(\.[0-9]+)?$"

MICROS_OF_DAY: Final = 86_400_000_000
_WIDE: Final = Context(prec=200, rounding=ROUND_HALF_UP)


def read_texts(texts: Datum, to: pa.DataType) -> Datum:
    """The values of a type that texts say; ArrowInvalid for a text that is none."""
    if isinstance(texts, pa.Scalar):
        return read_texts(pa.array([texts.as_py()], pa.string()), to)[0]
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    quick = _quickly(texts, to)
    if quick is not None:
        return quick
    read = _reader(to)
    different = texts.dictionary_encode()
    values = [None if text is None else read(text) for text in different.dictionary.to_pylist()]
    return _array(values, to).take(different.indices)


def _array(values: list[Any], to: pa.DataType) -> pa.Array:
    """Values of a type; those of times are numbers."""
    try:
        if types.is_date(to):
            return pa.array(values, pa.int32()).cast(to)
        if types.is_timestamp(to):
            return pa.array(values, pa.int64()).cast(pa.timestamp("us", to.tz)).cast(to)
        return pa.array(values, to)
    except (OverflowError, pa.ArrowInvalid) as error:
        raise pa.ArrowInvalid(f"a text says a value that does not fit {to}") from error


def _quickly(texts: pa.Array, to: pa.DataType) -> pa.Array | None:
    """All texts at once, if all have the plain form of the type."""
    if types.is_integer(to):
        pattern = _PLAIN_INTEGER
    elif types.is_floating(to):
        pattern = _PLAIN_FLOAT
    elif types.is_date(to):
        pattern = _PLAIN_DATE
    elif types.is_timestamp(to):
        pattern = _PLAIN_CLOCK
    else:
        return None
    if not pc.all(pc.fill_null(pc.match_substring_regex(texts, pattern), True)).as_py():
        return None
    if not types.is_timestamp(to):
        return pc.cast(texts, to)
    clocks = pc.cast(texts, CLOCK)
    return clocks.cast(to) if to.tz is None else instants_at(clocks, time_zone()).cast(to)


def _reader(to: pa.DataType) -> Callable[[str], Any]:
    if types.is_integer(to):
        return lambda text: _integer(text, to)
    if types.is_floating(to):
        return lambda text: _float(text, to)
    if types.is_decimal(to):
        return lambda text: _decimal(text, to)
    if types.is_boolean(to):
        return _boolean
    if types.is_date(to):
        return read_date
    if types.is_timestamp(to):
        return lambda text: read_timestamp(text, None if to.tz is None else time_zone())
    raise pa.ArrowInvalid(f"a text cannot become {to}")


def _invalid(text: str, to: object) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"{text!r} is not a value of the type {to}; use try_cast for null in its place")


def _integer(text: str, to: pa.DataType) -> int:
    plain = text.strip(_AROUND)
    if _INTEGER.fullmatch(plain) is None:
        raise _invalid(text, to)
    return int(plain)


def _float(text: str, to: pa.DataType) -> float:
    plain = text.strip(_AROUND)
    special = _SPECIAL_FLOATS.get(plain.lower().lstrip("+-")) if plain[1:2] not in ("+", "-") else None
    if special is not None:
        return float(("-" if plain.startswith("-") else "") + special)
    if _FLOAT.fullmatch(plain):
        return float(plain.rstrip("dDfF"))
    if _HEX_FLOAT.fullmatch(plain):
        return float.fromhex(plain.rstrip("dDfF") if plain[-1] not in "0123456789" else plain)
    raise _invalid(text, to)


def _decimal(text: str, to: pa.DataType) -> Decimal:
    plain = text.strip(_AROUND)
    if _DECIMAL.fullmatch(plain) is None:
        raise _invalid(text, to)
    try:
        return rounded(Decimal(plain), to)
    except (InvalidOperation, ArithmeticError) as error:
        raise _invalid(text, to) from error


def rounded(number: Decimal, to: pa.DataType) -> Decimal:
    """A decimal with the digits of a type, a half away from zero; ArrowInvalid if it is too large."""
    if number.adjusted() > to.precision and number:
        raise pa.ArrowInvalid(f"{number} does not fit {to}")
    found = number.quantize(Decimal((0, (1,), -to.scale)), context=_WIDE)
    if found and found.adjusted() >= to.precision - to.scale:
        raise pa.ArrowInvalid(f"{number} does not fit {to}")
    return found if found else abs(found)


def _boolean(text: str) -> bool:
    plain = text.strip(_AROUND).lower()
    if plain in _TRUE:
        return True
    if plain in _FALSE:
        return False
    raise _invalid(text, "boolean")


def read_date(text: str) -> int:
    """The days since 1970 of a text; ArrowInvalid if it is not a date.

    >>> read_date("1970-1-3")
    2
    """
    match = _DATE.fullmatch(text.strip(_AROUND))
    days = None if match is None else _days(match[1], match[2], match[3], match[4])
    if days is None:
        raise _invalid(text, "date")
    return days


def _days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    """The days since 1970 of a date in the calendar, or None."""
    number = -int(year) if sign == "-" else int(year)
    cycles, within = divmod(number - 2000, 400)  # dates repeat after 400 years, which are 146097 days
    try:
        found = date(2000 + within, int(month or 1), int(day or 1))
    except ValueError:
        return None
    return found.toordinal() - 719163 + cycles * 146097


def read_timestamp(text: str, zone: str | None) -> int:
    """The microseconds since 1970 of a text that is read in a zone, or without one if that is None.

    >>> read_timestamp("1970-01-01 01:00:00.5", "+01:00")
    500000
    """
    match = _TIMESTAMP.fullmatch(text.strip(_AROUND))
    days = None if match is None else _days(match[1], match[2], match[3], match[4])
    if match is None or days is None:
        raise _invalid(text, "timestamp")
    hour, minute, second = (int(each or 0) for each in (match[5], match[6], match[7]))
    if hour > 23 or minute > 59 or second > 59:
        raise _invalid(text, "timestamp")
    fraction = int(f"{(match[8] or '')[:6]:0<6}")
    clock = days * MICROS_OF_DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    said = (match[9] or "").strip()
    try:
        if said:
            fixed_offset(said)
    except ValueError as error:
        raise _invalid(text, "timestamp") from error
    if zone is None:
        return clock
    return int(instants_at(pa.array([clock], CLOCK), said or zone).cast(pa.int64())[0].as_py())
