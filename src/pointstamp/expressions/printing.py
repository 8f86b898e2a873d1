"""Floats as texts, as Spark and Java print them: ``1.0``, ``0.001``, ``1.0E7``, ``Infinity``.

The digits are the fewest that say which float it is. Between a thousandth and ten million they stand as one
reads them, and outside of that with an exponent; there is always a digit behind the point.
"""

from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.expressions.function import Datum

_OTHERS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": "0.0", "-0": "-0.0"}


def texts_of_floats(datum: Datum) -> Datum:
    """The texts of floats; null stays null."""
    digits = pc.cast(datum, pa.string())
    if isinstance(digits, pa.Scalar):
        return pa.scalar(None if digits.as_py() is None else printed(digits.as_py()), pa.string())
    different = digits.dictionary_encode()
    texts = pa.array(map(printed, different.dictionary.to_pylist()), pa.string())
    return texts.take(different.indices)


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
