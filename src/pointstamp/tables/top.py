"""The first rows of each group in an order, with or without all that are as good as the last of them.

A row that is there three times is three rows: of the first two, two copies come out. Without ties every row
has a place of its own (SQL's ``row_number``), and what the order leaves open is decided by all columns from
left to right, so that the answer depends on the rows alone. With ties rows that the order holds for equal
share a place (``rank``), and come out together or not at all.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.tables.grouping import Grouped
from pointstamp.tables.ordering import Ordered, ranks
from pointstamp.tables.weights import DIFF, Integers, columns_without_weight


@dataclass(frozen=True, slots=True)
class First:
    """The function of ``top``: from groups to their first rows."""

    count: int
    by: tuple[Ordered, ...]
    ties: bool
    rank: str | None
    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """The first rows of each group, with weights, and their places if these are asked for."""
        rows = groups.rows
        group = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=rows.num_rows))
        wanted = ranks(rows, self.by)
        rest = ranks(rows, [Ordered(name) for name in columns_without_weight(rows.schema)])
        order = np.lexsort([*reversed(rest), *reversed(wanted), group])
        weights: Integers = rows.column(DIFF).to_numpy()[order]
        before = _before(weights, group[order])
        if self.ties:
            keys = [group[order], *(each[order] for each in wanted)]
            before = before[_first_equal(keys)]
            kept = np.where(before < self.count, weights, 0)
        else:
            kept = np.minimum(np.maximum(self.count - before, 0), weights)
        at = np.flatnonzero(kept > 0)
        return self._made(rows, order[at], kept[at], before[at])

    def _made(
        self, rows: pa.RecordBatch, positions: npt.NDArray[np.intp], weights: Integers, before: Integers
    ) -> pa.RecordBatch:
        places = before + 1
        if self.rank is not None and not self.ties:
            # Each copy has a place of its own.
            firsts = np.repeat(np.cumsum(weights) - weights, weights)
            places = np.repeat(places, weights) + np.arange(int(weights.sum())) - firsts
            positions = np.repeat(positions, weights)
            weights = np.ones(len(positions), np.int64)
        taken = rows.select(columns_without_weight(rows.schema)).take(pa.array(positions))
        extra = [] if self.rank is None else [pa.array(places)]
        return pa.RecordBatch.from_arrays([*taken.columns, *extra, pa.array(weights)], schema=self.result)


def _before(weights: Integers, group: npt.NDArray[np.intp]) -> Integers:
    """How many copies of rows of its group stand before each row."""
    if not len(weights):
        return weights
    sums = np.cumsum(weights) - weights
    starts = _first_equal([group])
    return np.asarray(sums - sums[starts])


def _first_equal(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.intp]:
    """For rows in the order of these keys: the position of the first row that is equal to each."""
    count = len(keys[0])
    if not count:
        return np.empty(0, np.intp)
    is_new = np.zeros(count, np.bool_)
    is_new[0] = True
    for each in keys:
        is_new[1:] |= each[1:] != each[:-1]
    firsts = np.flatnonzero(is_new)
    return np.asarray(firsts[np.cumsum(is_new) - 1])
