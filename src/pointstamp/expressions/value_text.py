"""Values as texts, as Spark prints them: ``1.0E7``, ``0.00000001``, ``2024-01-05 12:30:00.5``, intervals.

The digits of a float are the fewest that say which float it is. Between a thousandth and ten million they
stand as one reads them, and outside of that with an exponent; there is always a digit behind the point. A
timestamp is printed in the time zone of ``pointstamp.expressions.zones``, without zeros at its end.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row
from pointstamp.expressions.signature import Datum, Signature, register
from pointstamp.expressions.type_rules import STRING
from pointstamp.expressions.zones import CLOCK, clocks_of, fixed_offset, instants_at, time_zone, zone_of

_OTHERS: Final = {
    "nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": "0.0", "-0": "-0.0",
    # Java prints two digits where one would do.
    "5e-324": "4.9E-324", "-5e-324": "-4.9E-324", "1e-45": "1.4E-45", "-1e-45": "-1.4E-45",
}  # fmt: skip


def texts_of(datum: Datum, to: pa.DataType) -> Datum:
    """The texts of values of any plain type; null stays null."""
    found = datum.type
    if types.is_floating(found):
        texts = _by_value(pc.cast(datum, pa.string()), printed)
    elif types.is_decimal(found):
        texts = pa.array(
            [None if each is None else format(each, "f") for each in datum.to_pylist()], pa.string()
        )
    elif types.is_timestamp(found):
        clocks = datum if found.tz is None else clocks_of(datum, zone_of(found))
        texts = _by_value(
            pc.strftime(pc.cast(clocks, CLOCK, safe=False), "%Y-%m-%d %H:%M:%S"), _without_zeros
        )
    elif types.is_duration(found):
        micros = pc.cast(pc.cast(datum, pa.duration("us"), safe=False), pa.int64()).to_pylist()
        texts = pa.array([None if each is None else interval_text(each) for each in micros], pa.string())
    else:
        texts = pc.cast(datum, pa.string())
    return pc.cast(texts, to)


def _by_value(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    different = texts.dictionary_encode()
    changed = [None if text is None else change(text) for text in different.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(different.indices)


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval_text(micros: int) -> str:
    """An interval of days and less.

    >>> interval_text(-90_000_500_000)
    "INTERVAL '-1 01:00:00.5' DAY TO SECOND"
    """
    sign, rest = ("-" if micros < 0 else ""), abs(micros)
    days, rest = divmod(rest, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    shown = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"INTERVAL '{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{shown}' DAY TO SECOND"


def printed(text: str) -> str:
    """A float whose digits are known.

    >>> [printed(each) for each in ("1", "-0.05", "1e+07", "1.25e-05", "nan")]
    ['1.0', '-0.05', '1.0E7', '1.25E-5', 'NaN']
    """
    if text in _OTHERS:
        return _OTHERS[text]
    number = Decimal(text)
    sign, digits, _ = number.as_tuple()
    exponent = number.adjusted()
    if -3 <= exponent < 7:
        plain = format(number.normalize(), "f")
        return plain if "." in plain else f"{plain}.0"
    shown = "".join(map(str, digits)).rstrip("0")
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{exponent}"


# ``to_json``: structs, lists and maps as JSON, with the letters that Spark writes.
#
# A field of a struct that is null is left out, unless the option says otherwise; an element of a list and a
# value of a map is written as null. Doubles are written as Java prints them, and those that are not numbers
# as strings. Times, bytes, intervals and maps with other keys than strings are rejected.

_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_SPECIAL: Final = re.compile(r'["\\\x00-\x1f]')


def quoted(text: str) -> str:
    """A text as JSON.

    >>> quoted("a" + chr(10)) == chr(34) + "a" + chr(92) + "n" + chr(34)
    True
    """
    return '"' + _SPECIAL.sub(lambda match: _SHORT.get(match[0], f"\\u{ord(match[0]):04X}"), text) + '"'


def _writer(kind: pa.DataType, keeps_nulls: bool, what: str) -> Callable[[Any], str]:
    """Return the function that writes a non-null value of a type."""
    if types.is_string(kind):
        return quoted
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_integer(kind) or types.is_decimal(kind):
        return str
    if types.is_floating(kind):
        return _float_writer(kind)
    if types.is_list(kind):
        element = _writer(kind.value_type, keeps_nulls, what)
        return lambda values: (
            "[" + ",".join("null" if each is None else element(each) for each in values) + "]"
        )
    if types.is_map(kind) and types.is_string(kind.key_type):
        item = _writer(kind.item_type, keeps_nulls, what)
        return lambda pairs: (
            "{"
            + ",".join(f"{quoted(key)}:{'null' if one is None else item(one)}" for key, one in pairs)
            + "}"
        )
    if types.is_struct(kind):
        parts = [(field.name, _writer(field.type, keeps_nulls, what)) for field in kind]
        return lambda value: _struct(value, parts, keeps_nulls)
    raise SchemaError(f"{what}: values of type {kind} cannot be written as JSON. Cast them to a string.")


def _float_writer(kind: pa.DataType) -> Callable[[float], str]:
    def written(value: float) -> str:
        (text,) = pa.array([value], kind).cast(STRING).to_pylist()
        shown = printed(text)
        return f'"{shown}"' if shown in ("NaN", "Infinity", "-Infinity") else shown

    return written


def _struct(
    value: Mapping[str, Any], parts: Sequence[tuple[str, Callable[[Any], str]]], keeps_nulls: bool
) -> str:
    written = [
        f"{quoted(name)}:{'null' if value[name] is None else write(value[name])}"
        for name, write in parts
        if keeps_nulls or value[name] is not None
    ]
    return "{" + ",".join(written) + "}"


def _rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    (kind,) = found
    if not types.is_nested(kind):
        raise SchemaError(f"{what} needs a struct, a list or a map, got {kind}.")
    write = _writer(kind, options["keeps_nulls"], what)
    return Signature((kind,), STRING, lambda datum, **_: by_row(write, STRING, True, datum))


register("to_json", _rule, lambda datum: datum, can_fail=False, is_by_row=True)


# Texts as values of other types, read as Spark reads them: ``' +3 '``, ``'yes'``, ``'2024-1-5'``.
#
# Spaces and control characters around a text are ignored. A text that is not a value raises ArrowInvalid.
# Most columns hold texts of one plain form, which Arrow reads all at once; others are read one by one, each
# different text once.

_AROUND: Final = "".join(map(chr, range(0x21))) + "\x7f"
"""The characters that Spark strips at both ends of a string: spaces and control characters."""

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
        raise pa.ArrowInvalid(f"the value of a text does not fit {to}") from error


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
    raise pa.ArrowInvalid(f"a text cannot be cast to {to}")


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
