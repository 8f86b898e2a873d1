"""Decimals as floats, and quotients of decimals, as SQL, Spark and Python have them.

Arrow's own cast multiplies by a power of ten that is not a float, and gives 0.35000000000000003 for 0.35. Its
division refuses decimals whose quotient could have more than 76 digits, which those of a sum have.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.signature import Datum

_DIGITS_EXACT: Final = 15
"""Integers of so many digits are floats, and so are the powers of ten up to that."""


_DIGITS_OF_ARROW: Final = 76
WIDE: Final = Context(prec=77, rounding=ROUND_HALF_UP)
"""The digits with which Spark computes: more than twice those of a decimal."""


def roomy(decimals: Datum) -> Datum:
    """The same decimals in a type with room for one digit more before the point, which rounding can make."""
    found = decimals.type
    digits = min(_DIGITS_OF_ARROW, max(found.precision, found.scale + 1) + 1)
    return pc.cast(decimals, pa.decimal256(digits, found.scale))


def quotients(one: Datum, other: Datum, gives: pa.DataType) -> Datum:
    """Decimals divided by others, rounded to the digits of a type; of null it is null. None may be zero."""
    return decimals_by_row(lambda dividend, divisor: WIDE.divide(dividend, divisor), gives, one, other)


def decimals_by_row(
    function: Callable[[Decimal, Decimal], Decimal], gives: pa.DataType, one: Datum, other: Datum
) -> Datum:
    """A function of two decimals, rounded once to the digits of a type, a half away from zero."""
    last = Decimal((0, (1,), -gives.scale))

    def made(a: Decimal | None, b: Decimal | None) -> Decimal | None:
        return None if a is None or b is None else WIDE.quantize(function(a, b), last)

    try:
        if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
            return pa.scalar(made(one.as_py(), other.as_py()), gives)
        columns = (
            repeat(each.as_py()) if isinstance(each, pa.Scalar) else each.to_pylist() for each in (one, other)
        )
        return pa.array(map(made, *columns), gives)
    except InvalidOperation as error:
        raise pa.ArrowInvalid(f"a decimal does not fit {gives}") from error


def floats_of(decimals: Datum, to: pa.DataType) -> Datum:
    """The floats of a type that are nearest to decimals; null stays null."""
    found = decimals.type
    is_exact = found.precision <= _DIGITS_EXACT and 0 <= found.scale <= _DIGITS_EXACT
    if isinstance(decimals, pa.Array) and types.is_decimal128(found) and is_exact and types.is_float64(to):
        # A quotient of two floats is the float nearest to it.
        return pa.array(_unscaled(decimals) / 10.0**found.scale, mask=decimals.is_null().to_numpy(False))
    return pc.cast(pc.cast(decimals, pa.string()), to)


def _unscaled(decimals: pa.Array) -> npt.NDArray[np.int64]:
    """Decimals as integers of their last digit; they have 16 bytes, of which the lower 8 are enough."""
    first, count = decimals.offset, len(decimals)
    words = np.frombuffer(decimals.buffers()[1], np.int64, 2 * count, 16 * first) if count else np.empty(0)
    return words[::2].astype(np.int64, copy=False)
