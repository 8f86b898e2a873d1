"""Numbers as limbs: small integers at fixed places, whose sums are exact in any order.

An integer is the sum of ``limb[i] * 2^(24 i)``. Each limb has 24 bits and its sums have 64, so a sum of some
2^38 numbers is exact, and deleting what was inserted gives what was there before. A finite float is an
integer times a power of two: it has up to three limbs of 32 bits at places that depend on its exponent, out
of the 69 that all floats together need. A float's limbs are kept as rows, by their place; NaN and the
infinities have places of their own, where they are counted.

Invariant: limbs that are put together again are the sum of the numbers, rounded once if it is a float.
"""

from math import fsum, inf, isfinite
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.errors import FlowError
from pointstamp.tables.kept.weights import Integers

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int16]

_BITS: Final = 24
_LOW: Final = (1 << _BITS) - 1
# A sum of limbs may come near to the end of 64 bits, and is refused before it gets there.
_SUM_MAX: Final = 1 << 62

# Places of what is not finite; those of limbs are 1 and more, and 0 is for what has no place.
NAN_PLACE, PLUS_PLACE, MINUS_PLACE = -1, -2, -3
_FLOAT_BITS: Final = 32
_FLOAT_LOW: Final = np.uint64((1 << _FLOAT_BITS) - 1)
# 2^-1074, the least float, is at a place above 0, and a mantissa may begin 52 bits below it.
_FLOAT_SHIFT: Final = 36 * _FLOAT_BITS


def limb_count(kind: pa.DataType) -> int | None:
    """How many limbs an integer or a decimal of this type has; None if it has none of fixed places."""
    if types.is_integer(kind):
        return -(-int(kind.bit_width) // _BITS)
    return 6 if types.is_decimal128(kind) else None


def limbs_of(values: pa.Array) -> list[Integers]:
    """The limbs of integers or decimals without nulls, the lowest first."""
    kind = values.type
    count = limb_count(kind)
    assert count is not None
    if types.is_decimal(kind):
        return _wide_limbs(values)
    if kind == pa.uint64():
        bits = values.to_numpy()
        parts = [(bits >> np.uint64(_BITS * at)).view(np.int64) for at in range(count)]
    else:
        numbers = values.to_numpy().astype(np.int64)
        parts = [numbers >> (_BITS * at) for at in range(count)]
    # All but the highest one are between 0 and 2^24; that one has the sign.
    return [part & _LOW for part in parts[:-1]] + parts[-1:]


def _wide_limbs(values: pa.Array) -> list[Integers]:
    words = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset :][: 2 * len(values)].reshape(
        -1, 2
    )
    low, high = words[:, 0], words[:, 1].view(np.int64)
    across = (low >> np.uint64(48)).view(np.int64) | ((high & 0xFF) << 16)
    return [
        (low & np.uint64(_LOW)).view(np.int64),
        ((low >> np.uint64(_BITS)) & np.uint64(_LOW)).view(np.int64),
        across,
        (high >> 8) & _LOW,
        (high >> 32) & _LOW,
        high >> 56,
    ]


def check_sums(sums: list[Integers], column: str) -> None:
    """FlowError if sums of limbs are so large that the next ones might be wrong."""
    for each in sums:
        if len(each) and (int(each.max()) >= _SUM_MAX or int(each.min()) <= -_SUM_MAX):
            raise FlowError(
                f"the sum of '{column}' has too many rows, or too large weights, to be exact. Use smaller "
                "weights, or more keys."
            )


def whole_numbers(sums: list[Integers]) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Limbs put together as integers of 64 bits, and which of these fit."""
    carry, total = sums[0], np.zeros(len(sums[0]), np.int64)
    for at, above in enumerate(sums[1:]):
        total |= (carry & _LOW) << (_BITS * at)
        carry = above + (carry >> _BITS)
    shift = _BITS * (len(sums) - 1)
    most = 1 << (63 - shift) if shift < 63 else 1
    return total + (carry << min(shift, 63)), (carry >= -most) & (carry < most)


def python_numbers(sums: list[Integers]) -> list[int]:
    """Limbs put together as Python's integers, which always fit."""
    parts = [each.tolist() for each in sums]
    return [sum(limb << (_BITS * at) for at, limb in enumerate(row)) for row in zip(*parts, strict=True)]


def float_limbs(values: Floats) -> tuple[npt.NDArray[np.intp], Places, Integers]:
    """The limbs of floats: of which value, at which place, and how much; values of 0 have none."""
    rows, places, limbs = [], [], []
    for place, has in (
        (NAN_PLACE, np.isnan(values)),
        (PLUS_PLACE, np.isposinf(values)),
        (MINUS_PLACE, np.isneginf(values)),
    ):
        if has.any():
            rows.append(np.flatnonzero(has))
            places.append(np.full(len(rows[-1]), place, np.int16))
            limbs.append(np.ones(len(rows[-1]), np.int64))
    finite = np.flatnonzero(np.isfinite(values) & (values != 0.0))
    part, exponent = np.frexp(values[finite])
    mantissa = np.ldexp(part, 53).astype(np.int64)
    sign, size = np.sign(mantissa), np.abs(mantissa).view(np.uint64)
    begin = exponent.astype(np.int64) - 53 + _FLOAT_SHIFT
    first, shift = (begin >> 5).astype(np.int16), (begin & 31).view(np.uint64)
    low = (size & _FLOAT_LOW) << shift
    high = ((size >> np.uint64(_FLOAT_BITS)) << shift) + (low >> np.uint64(_FLOAT_BITS))
    for step, limb in enumerate((low & _FLOAT_LOW, high & _FLOAT_LOW, high >> np.uint64(_FLOAT_BITS))):
        some = np.flatnonzero(limb)
        rows.append(finite[some])
        places.append(first[some] + np.int16(step))
        limbs.append(limb[some].view(np.int64) * sign[some])
    return np.concatenate(rows), np.concatenate(places), np.concatenate(limbs)


def float_sums(groups: npt.NDArray[np.intp], places: Places, limbs: Integers, count: int) -> Floats:
    """The floats that limbs of groups add up to: exact, and rounded once. Groups are 0 to ``count``."""
    order = np.lexsort((places, groups))
    groups, places, limbs = groups[order], places[order], limbs[order]
    made = np.zeros(count)
    is_limb = places > 0
    held, own = groups[is_limb], limbs[is_limb]
    if len(held):
        exponents = places[is_limb].astype(np.int32) * _FLOAT_BITS - _FLOAT_SHIFT
        sign, size = np.sign(own), np.abs(own)
        with np.errstate(over="ignore"):
            high = np.ldexp((sign * (size >> 32)).astype(np.float64), exponents + 32)
            low = np.ldexp((sign * (size & 0xFFFFFFFF)).astype(np.float64), exponents)
        terms = np.stack([high, low], axis=1).reshape(-1).tolist()
        starts = np.flatnonzero(np.concatenate(([True], held[1:] != held[:-1])))
        for at, begin, end in zip(held[starts], starts, np.append(starts[1:], len(held)), strict=True):
            made[at] = _sum_of(terms[2 * begin : 2 * end])
            if not isfinite(made[at]):
                made[at] = _exact_sum(places[is_limb][begin:end].tolist(), own[begin:end].tolist())
    return _with_what_is_not_finite(made, groups, places, limbs)


def _sum_of(terms: list[float]) -> float:
    """The sum, rounded once; not finite where it, or a part of it, is beyond the greatest float."""
    try:
        return fsum(terms)
    except (OverflowError, ValueError):
        return inf


def _exact_sum(places: list[int], limbs: list[int]) -> float:
    """The same by way of Python's integers, however large parts of it are."""
    total = sum(limb << (_FLOAT_BITS * place) for place, limb in zip(places, limbs, strict=True))
    try:
        return total / (1 << _FLOAT_SHIFT)
    except OverflowError:
        return inf if total > 0 else -inf


def _with_what_is_not_finite(
    made: Floats, groups: npt.NDArray[np.intp], places: Places, limbs: Integers
) -> Floats:
    if len(places) and places.min() < 0:
        has = {}
        for place in (NAN_PLACE, PLUS_PLACE, MINUS_PLACE):
            counts = np.zeros(len(made), np.int64)
            np.add.at(counts, groups[places == place], limbs[places == place])
            has[place] = counts != 0
        made[has[PLUS_PLACE]] = np.inf
        made[has[MINUS_PLACE]] = -np.inf
        made[has[NAN_PLACE] | (has[PLUS_PLACE] & has[MINUS_PLACE])] = np.nan
    return made
