"""Aggregates that choose: the least and the greatest, the first and the last, and what lies between.

Where several rows are as good, the value decides, so that the answer depends on the rows of the group alone.
Null is less than every value and NaN greater than every number, as in every order here.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pointstamp.reduce.accumulators import floats_of
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate
from pointstamp.tables.aggregates.group_values import GroupValues, Places, plain
from pointstamp.tables.kept.ordering import Ranks, ranks, value_ranks


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
