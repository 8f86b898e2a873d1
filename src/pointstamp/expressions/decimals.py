"""Decimals as floats, and quotients of decimals, as SQL, Spark and Python have them.

Arrow's own cast multiplies by a power of ten that is no float, and gives 0.35000000000000003 for 0.35. Its
division refuses decimals whose quotient could have more than 76 digits, which those of a sum have.
"""

from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.expressions.function import Datum

_DIGITS_EXACT: Final = 15
"""Integers of so many digits are floats, and so are the powers of ten up to that."""


_WIDE: Final = Context(prec=100, rounding=ROUND_HALF_UP)
"""More than twice the digits of a decimal, so that a quotient is rounded once."""


def quotients(one: Datum, other: Datum, gives: pa.DataType) -> Datum:
    """Decimals divided by others, rounded to the digits of a type; of null it is null. None may be zero."""
    last = Decimal((0, (1,), -gives.scale))

    def quotient(dividend: Decimal | None, divisor: Decimal | None) -> Decimal | None:
        if dividend is None or divisor is None:
            return None
        return _WIDE.quantize(_WIDE.divide(dividend, divisor), last)

    if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
        return pa.scalar(quotient(one.as_py(), other.as_py()), gives)
    columns = (
        repeat(each.as_py()) if isinstance(each, pa.Scalar) else each.to_pylist() for each in (one, other)
    )
    return pa.array(map(quotient, *columns), gives)


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
