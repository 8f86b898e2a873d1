"""Aggregates of whole groups: SQL's, over rows with weights, asked again for each group that changed.

Nulls take no part, a group without a value gives null, and ``count`` counts. Whatever is asked is a function
of the rows of the group and their weights alone, so that deleting what was inserted gives exactly what was
there before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.reduce.accumulators import SumTooLarge
from pointstamp.tables.aggregates import adding, choosing, collecting
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate
from pointstamp.tables.aggregates.group_values import GroupValues, values_of
from pointstamp.tables.column_names import rows_in_words
from pointstamp.tables.kept.groups import Grouped
from pointstamp.tables.kept.weights import DIFF


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


_KINDS: Final[Mapping[str, Callable[[GroupValues, TableAggregate], pa.Array]]] = {
    "count": adding.count_of,
    "sum": adding.sum_of,
    **dict.fromkeys(("mean", "avg"), adding.mean_of),
    **dict.fromkeys(("var_samp", "var_pop", "stddev_samp", "stddev_pop"), adding.variance_of),
    **dict.fromkeys(("min", "max"), choosing.extreme_of),
    **dict.fromkeys(("min_by", "max_by"), choosing.extreme_by),
    **dict.fromkeys(("first", "last"), choosing.end_of),
    **dict.fromkeys(("median", "quantile"), choosing.quantile_of),
    **dict.fromkeys(("bool_and", "bool_or"), choosing.truth_of),
    **dict.fromkeys(("collect_list", "collect_set"), collecting.list_of),
    "count_distinct": collecting.count_distinct_of,
    "function": collecting.made_by_function,
    "accumulator": collecting.accumulated,
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
