"""Aggregates of complete groups, recomputed for each changed group.

Nulls take no part, a group without a value gives null, and ``count`` counts. Whatever is asked is a function
of the rows of the group and their weights alone, so that deleting what was inserted gives exactly what was
there before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum, inf, isfinite, nan
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF, Integers
from pointstamp.arrangement.groups import Grouped
from pointstamp.arrangement.ordering import Ordered, Ranks, ranks, value_ranks
from pointstamp.errors import FlowError, SchemaError
from pointstamp.incremental.column_names import rows_in_words
from pointstamp.incremental.group_values import (
    GroupValues,
    Places,
    averages,
    decimal_of,
    firsts_of,
    plain,
    values_of,
)
from pointstamp.incremental.requested_aggregates import TableAggregate
from pointstamp.reduce.accumulators import SumTooLarge, floats_of
from pointstamp.reduce.aggregate import FunctionAggregate
from pointstamp.reduce.binding import Bound
from pointstamp.reduce.states import KeyStates


@dataclass(frozen=True)
class Aggregating:
    """The keys and aggregates of groups; the function of a reduction."""

    aggregates: Mapping[str, TableAggregate]
    result: pa.Schema

    @cached_property
    def looked_at(self) -> tuple[str, ...]:
        """The columns of rows, without the weight, that the aggregates look at."""
        named = [name for each in self.aggregates.values() for name in each.looked_at]
        return tuple(dict.fromkeys(named))

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """One row for each group."""
        columns = list(groups.keys.columns)
        for name, aggregate in self.aggregates.items():
            try:
                columns.append(_aggregated(aggregate, groups))
            except SumTooLarge as too_large:
                raise FlowError(
                    f"the sum '{name}' of {rows_in_words(groups.keys, too_large.row)} does not fit "
                    f"{aggregate.result_type}. Cast the values to double, or to a decimal with more "
                    "digits."
                ) from None
        ones = pa.array(np.ones(len(groups.starts), np.int64))
        return pa.RecordBatch.from_arrays([*columns, ones], schema=self.result)


def _aggregated(asked: TableAggregate, groups: Grouped) -> pa.Array:
    rows = values_of(groups, asked.column)
    if asked.where is not None:
        rows = rows.kept(rows.rows.column(asked.where))
    if asked.by is not None:
        rows = rows.kept(rows.rows.column(asked.by).is_valid())
    elif not asked.order:
        rows = rows.kept(rows.values.is_valid()) if rows.values.null_count else rows
    return _KINDS[asked.kind](rows, asked)


# Aggregates that add: counts, sums, means and variances of whole groups.
#
# Each is a function of the values of a group and their weights alone, and not of the order in which they
# came: deleting what was inserted gives exactly what was there before, floats too. Sums of floats are rounded
# once. Integers and decimals are added as Python has them, without overflow, and must fit at the end. A
# variance is that of the differences to the mean, and not a difference of large squares.

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


# Aggregates that choose: the least and the greatest, the first and the last, and what lies between.
#
# Where several rows are as good, the value decides, so that the answer depends on the rows of the group
# alone. Null is less than every value and NaN greater than every number, as in every order here.


def extreme_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The least or the greatest value of each group."""
    return _end(given, [], is_last=asked.kind == "max")


def extreme_by(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The value in the row of each group in which another column is least or greatest."""
    assert asked.by is not None
    by = value_ranks(plain(given.rows.column(asked.by)))
    return _end(given, [by], is_last=asked.kind == "max_by")


def end_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The value in the first or in the last row of each group in an order."""
    return _end(given, ranks(given.rows, asked.order), is_last=asked.kind == "last")


def quantile_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The value at ``fraction * (n - 1)`` of n in order, interpolated between the two that are next to it."""
    if not len(given):
        return given.spread(pa.array([], pa.float64()))
    order = given.order(value_ranks(given.values))
    floats, weights = floats_of(given.values)[order], given.weights[order]
    starts = given.starts()
    up_to = np.cumsum(weights)
    before = up_to[starts] - weights[starts]
    counts = np.append(before[1:], up_to[-1:]) - before
    place = asked.fraction * (counts - 1)
    lower = np.floor(place).astype(np.int64)
    upper = np.minimum(lower + 1, counts - 1)
    low, high = (floats[np.searchsorted(up_to, before + at, "right")] for at in (lower, upper))
    with np.errstate(invalid="ignore", over="ignore"):
        between = low + (high - low) * (place - lower)
    made = np.where((place == lower) | (low == high), low, between)
    return given.spread(pa.array(made, pa.float64()))


def truth_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """Whether all values of each group are true, or some."""
    if not len(given):
        return given.spread(pa.array([], pa.bool_()))
    values = given.values.to_numpy(zero_copy_only=False).astype(np.bool_)
    combine = np.logical_and if asked.kind == "bool_and" else np.logical_or
    return given.spread(pa.array(combine.reduceat(values, given.starts())))


def _end(given: GroupValues, by: Sequence[Ranks], *, is_last: bool) -> pa.Array:
    order, starts = given.order(*by, value_ranks(given.values)), given.starts()
    at: Places = np.append(starts[1:], len(order))[: len(starts)] - 1 if is_last else starts
    return given.spread(given.values.take(pa.array(order[at])))


# Aggregates of all values: lists and sets of them, and custom aggregates.
#
# A list has every copy of a value, in the order of the values. A custom aggregate gets the rows of a group in
# the order of their columns, from left to right, and every copy of a row: what it makes of them then depends
# on the rows alone, also where it adds floats one after the other.


def list_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """The values of each group as a list, or each of them once; an empty list for a group without values."""
    order, is_new = _in_order(given)
    order = order[is_new] if asked.kind == "collect_set" else np.repeat(order, given.weights[order])
    counts = np.bincount(given.group[order], minlength=given.count)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), given.values.take(pa.array(order)), asked.result_type)


def count_distinct_of(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """How many different values each group has."""
    del asked
    order, is_new = _in_order(given)
    return pa.array(np.bincount(given.group[order[is_new]], minlength=given.count).astype(np.int64))


def made_by_function(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """What a function makes of the rows of each group."""
    own = asked.own
    assert isinstance(own, FunctionAggregate)
    rows = given.rows.select(list(asked.columns))
    order = given.order(*ranks(rows, [Ordered(name) for name in asked.columns]))
    order = np.repeat(order, given.weights[order])
    rows, starts = rows.take(pa.array(order)), firsts_of(given.group[order])
    ends = np.append(starts[1:], len(order))[: len(starts)]
    made = [
        _value(own, rows.slice(start, end - start))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return given.spread(pa.array(made, own.type))


def accumulated(given: GroupValues, asked: TableAggregate) -> pa.Array:
    """What an accumulator makes of the values of each group, from the first one on."""
    assert isinstance(asked.own, Bound)
    assert asked.own.column is not None
    order = given.order(value_ranks(given.values))
    order = np.repeat(order, given.weights[order])
    states = KeyStates(asked.own)
    states.grow(given.count)
    rows = pa.RecordBatch.from_arrays([given.values.take(pa.array(order))], names=[asked.own.column])
    states.update(rows, given.group[order])
    return states.results(np.arange(given.count), f"the aggregate {type(asked.own.accumulator).__name__}")


def _in_order(given: GroupValues) -> tuple[Places, npt.NDArray[np.bool_]]:
    """The rows by group and value, and whether each is the first of its group with its value."""
    found = value_ranks(given.values)
    order = given.order(found)
    group, found = given.group[order], found[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (group[1:] != group[:-1]) | (found[1:] != found[:-1])
    return order, is_new


def _value(own: FunctionAggregate, rows: pa.RecordBatch) -> object:
    made = own.function(rows)
    value = made.as_py() if isinstance(made, pa.Scalar) else made
    value = value.item() if isinstance(value, np.generic) else value
    try:
        pa.scalar(value, own.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"the aggregate {own} must return {own.type}, got {value!r} for {rows.num_rows} rows: {error}"
        ) from error
    return value


_KINDS: Final[Mapping[str, Callable[[GroupValues, TableAggregate], pa.Array]]] = {
    "count": count_of,
    "sum": sum_of,
    **dict.fromkeys(("mean", "avg"), mean_of),
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), variance_of),
    **dict.fromkeys(("min", "max"), extreme_of),
    **dict.fromkeys(("min_by", "max_by"), extreme_by),
    **dict.fromkeys(("first", "last"), end_of),
    **dict.fromkeys(("median", "quantile"), quantile_of),
    **dict.fromkeys(("bool_and", "bool_or"), truth_of),
    **dict.fromkeys(("collect_list", "collect_set"), list_of),
    "count_distinct": count_distinct_of,
    "function": made_by_function,
    "accumulator": accumulated,
}


@dataclass(frozen=True, slots=True)
class Once:
    """Every row that is there, once: the function of ``distinct``."""

    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """One row for each group: the row itself."""
        is_there = np.flatnonzero(groups.rows.column(DIFF).to_numpy() > 0)
        ones = pa.array(np.ones(len(is_there), np.int64))
        rows = groups.rows.take(pa.array(is_there))
        own = [rows.column(name) for name in self.result.names if name != DIFF]
        return pa.RecordBatch.from_arrays([*own, ones], schema=self.result)
