"""Values as texts, as Spark prints them: ``1.0E7``, ``0.00000001``, ``2024-01-05 12:30:00.5``, intervals.

The digits of a float are the fewest that say which float it is. Between a thousandth and ten million they
stand as one reads them, and outside of that with an exponent; there is always a digit behind the point. A
timestamp is printed in the time zone of ``pointstamp.expressions.zones``, without zeros at its end.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.function import Datum
from pointstamp.expressions.zones import CLOCK, clocks_of, zone_of

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
