"""Aggregates that add: counts, sums, means and variances of whole groups.

Each is a function of the values of a group and their weights alone, and not of the order in which they came:
deleting what was inserted gives exactly what was there before, floats too. Sums of floats are rounded once.
Integers and decimals are added as Python has them, without overflow, and must fit at the end. A variance is
that of the differences to the mean, and not a difference of large squares.
"""

from fractions import Fraction
from math import fsum, inf, isfinite, nan
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.reduce.accumulators import SumTooLarge, floats_of
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate
from pointstamp.tables.aggregates.decimals import averages, decimal_of
from pointstamp.tables.aggregates.group_values import GroupValues
from pointstamp.tables.kept.weights import Integers

Floats = npt.NDArray[np.float64]

_SURE_TO_FIT: Final = 2.0**62


def count_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """How many rows each group has here."""
    del asked
    made = np.zeros(given.count, np.int64)
    if len(given):
        made[given.present()] = np.add.reduceat(given.weights, given.starts())
    return pa.array(made)


def sum_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The sums of numbers; null for a group without one."""
    values, gives = given.values, asked.result_type
    if types.is_floating(values.type):
        made = pa.array(_float_sums(given, floats_of(values)), gives)
    elif (small := _small_sums(given, values)) is not None:
        made = pa.array(small, gives)
    else:
        made = _fitted(given, _large_sums(given, values), gives)
    return given.spread(made)


def mean_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The means of numbers, as doubles or as decimals: the exact sum, divided by the count."""
    values = given.values
    if not len(given):
        return given.spread(pa.array([], asked.result_type))
    counts = np.add.reduceat(given.weights, given.starts())
    if types.is_decimal(asked.result_type):
        scale = values.type.scale
        whole = [int(total * 10**scale) for total in _large_sums(given, values)]
        try:
            return given.spread(averages(whole, counts.tolist(), scale, asked.result_type))
        except SumTooLarge as too_large:
            raise SumTooLarge(int(given.present()[too_large.row])) from None
    sums: Any
    if types.is_floating(values.type):
        sums = _float_sums(given, floats_of(values))
    else:
        small = _small_sums(given, values)
        sums = _large_sums(given, values) if small is None else small.tolist()
    made = [float(total / int(number)) for total, number in zip(sums, counts, strict=True)]
    return given.spread(pa.array(made, pa.float64()))


def variance_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The variances of numbers, or their roots; null where there is no value, or one value of a sample."""
    if not len(given):
        return given.spread(pa.array([], pa.float64()))
    values, starts = floats_of(given.values), given.starts()
    sizes = np.diff(starts, append=len(given))
    counts = np.add.reduceat(given.weights, starts)
    divisors = counts - asked.kind.endswith("samp")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        # From the least value on, so that copies of one value have no variance, whatever their number.
        moved = values - np.repeat(np.minimum.reduceat(values, starts), sizes)
        means = np.array(_float_sums(given, moved)) / counts
        squares = np.array(_float_sums(given, (moved - np.repeat(means, sizes)) ** 2)) / divisors
        made = np.sqrt(squares) if asked.kind.startswith("stddev") else squares
    return given.spread(pa.array(made, mask=divisors <= 0))


def _float_sums(given: GroupValues, values: Floats) -> list[float]:
    """The sums of floats of each group that is present."""
    with np.errstate(over="ignore", invalid="ignore"):
        terms = (values * given.weights).tolist()
    starts = given.starts().tolist()
    made = []
    for start, end in zip(starts, [*starts[1:], len(terms)], strict=False):
        try:
            total = fsum(terms[start:end])
        except (OverflowError, ValueError):  # of a part of the sum, or of infinities that are no number
            total = nan
        made.append(total if isfinite(total) else added(values[start:end], given.weights[start:end]))
    return made


def added(values: Floats, weights: Integers) -> float:
    """The sum of floats with their weights, also where a part of it would be too large to be a float.

    >>> ones = np.ones(3, np.int64)
    >>> added(np.array([1e16, 1.0, -1e16]), ones), added(np.array([1e308, 1e308, -np.inf]), ones)
    (1.0, -inf)
    """
    endless = {value for value in values.tolist() if not isfinite(value)}
    if endless:
        return endless.pop() if len(endless) == 1 else nan
    exact = sum(Fraction(x) * w for x, w in zip(values.tolist(), weights.tolist(), strict=True))
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def _small_sums(given: GroupValues, values: pa.Array) -> Integers | None:
    """The sums of integers in 64 bits, if all are sure to fit."""
    if not types.is_signed_integer(values.type):
        return None
    numbers: Integers = values.cast(pa.int64()).to_numpy()
    if float(np.abs(numbers.astype(np.float64) * given.weights).sum()) >= _SURE_TO_FIT:
        return None
    return np.add.reduceat(numbers * given.weights, given.starts()) if len(given) else numbers


def _large_sums(given: GroupValues, values: pa.Array) -> list[Any]:
    """The sums of integers or decimals of any size."""
    exact = list(map(Fraction, values.to_pylist()))
    starts = given.starts()
    ends = np.append(starts[1:], len(given)).tolist()
    weights = given.weights.tolist()
    return [
        sum(exact[at] * weights[at] for at in range(start, end))
        for start, end in zip(starts.tolist(), ends, strict=False)
    ]


def _fitted(given: GroupValues, sums: list[Any], gives: pa.DataType) -> pa.Array:
    made: list[Any] = []
    for group, total in zip(given.present().tolist(), sums, strict=True):
        whole = int(total) if types.is_integer(gives) else int(total * 10**gives.scale)
        value = whole if types.is_integer(gives) else decimal_of(whole, gives.scale)
        try:
            pa.scalar(value, gives)
        except (pa.ArrowException, OverflowError):
            raise SumTooLarge(group) from None
        made.append(value)
    return pa.array(made, gives)
