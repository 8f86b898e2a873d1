"""Decimals as Python's integers, exact whatever their digits, and averages with the digits that Spark gives.

The average of a ``decimal(p, s)`` is a ``decimal(p + 4, s + 4)``, as far as there are so many digits. Spark
divides to 38 digits behind the point and rounds that once more, a half away from 0 both times; so does this.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa

from pointstamp.reduce.accumulators import SumTooLarge

_MORE_DIGITS: Final = 4
_DIGITS_MAX: Final = 38


def average_type(found: pa.DataType) -> pa.DataType:
    """The type of an average of decimals."""
    make, digits_max = (pa.decimal256, 76) if found.bit_width == 256 else (pa.decimal128, _DIGITS_MAX)
    digits, scale = (min(digits_max, each + _MORE_DIGITS) for each in (found.precision, found.scale))
    return make(digits, scale)


def averages(totals: Sequence[int], counts: Sequence[int], scale: int, gives: pa.DataType) -> pa.Array:
    """The averages of decimals, from their sums without the point; null where nothing was counted.

    >>> averages([200, -5, 0], [3, 2, 0], 2, pa.decimal128(9, 6)).to_pylist()
    [Decimal('0.666667'), Decimal('-0.025000'), None]
    """
    wide = max(_DIGITS_MAX, gives.scale, scale)
    made: list[Decimal | None] = []
    for row, (total, count) in enumerate(zip(totals, counts, strict=True)):
        if not count:
            made.append(None)
            continue
        found = _rounded(_rounded(total * 10 ** (wide - scale), count), 10 ** (wide - gives.scale))
        if abs(found) >= 10**gives.precision:
            raise SumTooLarge(row)
        made.append(decimal_of(found, gives.scale))
    return pa.array(made, gives)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """A decimal of any number of digits, of which so many stand behind the point.

    >>> decimal_of(-105, 2)
    Decimal('-1.05')
    """
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def without_point(values: pa.Array) -> list[int]:
    """Decimals as integers, all digits; null counts as 0."""
    return [0 if each is None else _whole(each, values.type.scale) for each in values.to_pylist()]


def _whole(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * int(10 ** (scale + exponent))
    return -number if sign else number


def _rounded(number: int, divisor: int) -> int:
    """A quotient, rounded to the nearest whole number, a half away from 0."""
    whole, rest = divmod(abs(number), divisor)
    whole += 2 * rest >= divisor
    return -whole if number < 0 else whole
