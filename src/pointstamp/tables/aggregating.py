"""Aggregates of whole groups: SQL's, over rows with weights, asked anew for each group that changed.

Nulls take no part, a group without a value gives null, and ``count`` counts. A sum is always taken over all
values of the group, in one order that depends on the values alone, so that deleting what was inserted gives
exactly what was there before, floats too. Integers are added as Python has them, without overflow, and must
fit at the end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.tables.grouping import Grouped
from pointstamp.tables.weights import DIFF, Integers

_Groups = npt.NDArray[np.intp]

_SURE_TO_FIT: Final = 2.0**62


@dataclass(frozen=True, slots=True)
class TableAggregate:
    """One column of a reduction: which aggregate, of which column, and the type that it gives."""

    kind: str
    column: str | None
    result_type: pa.DataType


def result_type(kind: str, found: pa.DataType | None, who: str) -> pa.DataType:
    """The type that an aggregate of a column has."""
    if kind in ("count", "count_distinct"):
        return pa.int64()
    assert found is not None
    is_number = types.is_integer(found) or types.is_floating(found) or types.is_decimal(found)
    if kind in ("sum", "mean") and not is_number:
        raise SchemaError(f"{who}: {kind} needs a column of numbers, and it is {found}.")
    if kind == "mean":
        return pa.float64()
    if kind == "sum":
        if types.is_decimal(found):
            return pa.decimal128(min(38, found.precision + 10), found.scale)
        return pa.float64() if types.is_floating(found) else pa.int64()
    if kind in ("min", "max"):
        if types.is_nested(found):
            raise SchemaError(f"{who}: {kind} needs a column that has an order, and it is {found}.")
        return found
    raise SchemaError(f"{who}: there is no aggregate '{kind}' of tables.")


def table_aggregates(
    who: str, schema: pa.Schema, wanted: Mapping[str, Aggregation]
) -> dict[str, TableAggregate]:
    """Aggregates for the columns of a table; SchemaError names what cannot be aggregated."""
    found = {}
    for name, aggregate in wanted.items():
        if not isinstance(aggregate, Aggregate):
            raise FlowError(
                f"{who}: '{name}' is an aggregate of your own, {type(aggregate).__name__}, which cannot take "
                "rows back; tables have count, sum, min, max and mean."
            )
        of = None
        if aggregate.column is not None:
            check_columns(f"{who}, '{name}',", schema, [aggregate.column])
            of = schema.field(aggregate.column).type
        gives = result_type(aggregate.kind, of, f"{who}, '{name}'")
        found[name] = TableAggregate(aggregate.kind, aggregate.column, gives)
    return found


@dataclass(frozen=True, slots=True)
class Aggregating:
    """The keys and aggregates of groups; the function of a reduction."""

    keys: tuple[str, ...]
    aggregates: Mapping[str, TableAggregate]
    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """One row for each group."""
        columns = list(groups.keys.columns)
        weights: Integers = groups.rows.column(DIFF).to_numpy()
        for aggregate in self.aggregates.values():
            columns.append(_aggregated(aggregate, groups, weights))
        ones = pa.array(np.ones(len(groups.starts), np.int64))
        return pa.RecordBatch.from_arrays([*columns, ones], schema=self.result)

    def of_nothing(self, key: pa.RecordBatch) -> pa.RecordBatch:
        """The row of a group without rows: counts are 0, everything else is null."""
        columns = list(key.columns)
        for aggregate in self.aggregates.values():
            nothing = 0 if aggregate.kind in ("count", "count_distinct") else None
            columns.append(pa.array([nothing], aggregate.result_type))
        return pa.RecordBatch.from_arrays([*columns, pa.array([1], pa.int64())], schema=self.result)


def _aggregated(aggregate: TableAggregate, groups: Grouped, weights: Integers) -> pa.Array:
    count = len(groups.starts)
    if aggregate.column is None:
        return pa.array(np.add.reduceat(weights, groups.starts) if count else weights)
    values = groups.rows.column(aggregate.column)
    group = np.repeat(np.arange(count), np.diff(groups.starts, append=len(weights)))
    if values.null_count:
        valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        values, group, weights = values.take(pa.array(valid)), group[valid], weights[valid]
    return _KINDS[aggregate.kind](values, group, weights, count, aggregate.result_type)


def _count(values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType) -> pa.Array:
    del values
    made = np.zeros(count, np.int64)
    np.add.at(made, group, weights)
    return pa.array(made, gives)


def _count_distinct(
    values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType
) -> pa.Array:
    del weights
    codes = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    pairs = np.unique(np.stack([group, codes], axis=1), axis=0)
    return pa.array(np.bincount(pairs[:, 0], minlength=count), gives)


def _sum(values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType) -> pa.Array:
    if not types.is_floating(gives):
        return _exact_sum(values, group, weights, count, gives)
    starts, order = _sorted_by(values, group)
    floats: npt.NDArray[np.float64] = values.take(pa.array(order)).cast(pa.float64()).to_numpy()
    terms = floats * weights[order].astype(np.float64)
    made = np.full(count, np.nan)
    if len(starts):
        made[group[order][starts]] = [_sum_of(part) for part in np.split(terms, starts[1:])]
    return _null_where_none(pa.array(made), group, count)


def _exact_sum(
    values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType
) -> pa.Array:
    """The sums of integers or decimals: in 64 bits where all are sure to fit, else as Python has them."""
    if types.is_signed_integer(values.type):
        numbers: Integers = values.cast(pa.int64()).to_numpy()
        if float(np.abs(numbers.astype(np.float64) * weights).sum()) < _SURE_TO_FIT:
            made = np.zeros(count, np.int64)
            np.add.at(made, group, numbers * weights)
            return _null_where_none(pa.array(made), group, count)
    sums: dict[int, Any] = {}
    for at, number, weight in zip(group.tolist(), values.to_pylist(), weights.tolist(), strict=True):
        sums[at] = sums.get(at, 0) + number * weight
    return pa.array([sums.get(at) for at in range(count)], gives)


def _sum_of(terms: npt.NDArray[np.float64]) -> float:
    """The sum of floats, rounded once: the order of the terms does not matter."""
    values = terms.tolist()
    return fsum(values) if all(map(isfinite, values)) else float(np.sum(terms))


def _mean(values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType) -> pa.Array:
    sums = _sum(values.cast(pa.float64()), group, weights, count, pa.float64())
    return pc.divide(sums, _count(values, group, weights, count, pa.int64()).cast(gives))


def _least(values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType) -> pa.Array:
    del weights
    starts, order = _sorted_by(values, group)
    return _picked(values, group, order, starts, count, gives)


def _greatest(
    values: pa.Array, group: _Groups, weights: Integers, count: int, gives: pa.DataType
) -> pa.Array:
    del weights
    starts, order = _sorted_by(values, group)
    ends = np.append(starts[1:], len(order)) - 1
    return _picked(values, group, order, ends, count, gives)


def _picked(
    values: pa.Array, group: _Groups, order: _Groups, at: _Groups, count: int, gives: pa.DataType
) -> pa.Array:
    rows = np.zeros(count, np.int64)
    is_there = np.zeros(count, np.bool_)
    chosen = order[at] if len(order) else order
    rows[group[chosen]] = chosen
    is_there[group[chosen]] = True
    return values.take(pa.array(rows, mask=~is_there)).cast(gives)


def _sorted_by(values: pa.Array, group: _Groups) -> tuple[_Groups, _Groups]:
    """Rows by group and value, NaN last; where groups begin, and the order."""
    table = pa.table({"group": pa.array(group), "value": values})
    order = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("value", "ascending")]).to_numpy()
    ranked = group[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if len(ranked) else ranked
    return starts.astype(np.intp), order.astype(np.intp)


def _null_where_none(made: pa.Array, group: _Groups, count: int) -> pa.Array:
    has = np.zeros(count, np.bool_)
    has[group] = True
    return pc.if_else(pa.array(has), made, pa.scalar(None, made.type))


_KINDS: Final[Mapping[str, Callable[..., pa.Array]]] = {
    "count": _count,
    "count_distinct": _count_distinct,
    "sum": _sum,
    "mean": _mean,
    "min": _least,
    "max": _greatest,
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
