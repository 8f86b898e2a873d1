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

from pointstamp.tables.kept.groups import Grouped
from pointstamp.tables.kept.ordering import Ordered, ranks
from pointstamp.tables.kept.weights import DIFF, Integers, columns_without_weight


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
        order = np.lexsort([*reversed(wanted), group])
        is_new = _is_new([group[order], *(each[order] for each in wanted)])
        if not is_new.all():
            # What the order holds for equal stays together, so that is_new is the same.
            rest = ranks(rows, [Ordered(name) for name in columns_without_weight(rows.schema)])
            order = np.lexsort([*reversed(rest), *reversed(wanted), group])
        weights: Integers = rows.column(DIFF).to_numpy()[order]
        kept, before = self.kept(weights, starts_of(group[order]), is_new)
        at = np.flatnonzero(kept > 0)
        return self.made(rows, order[at], kept[at], before[at])

    def kept(
        self, weights: Integers, starts: npt.NDArray[np.intp], is_new: npt.NDArray[np.bool_]
    ) -> tuple[Integers, Integers]:
        """Of rows in order: how many copies of each come out, and how many stand before it.

        ``starts`` says where the group of each row begins, and ``is_new`` which rows differ in the order's
        columns from the one before.
        """
        before = _before(weights, starts)
        if self.ties:
            before = before[_firsts(is_new)]
            return np.where(before < self.count, weights, 0), before
        return np.minimum(np.maximum(self.count - before, 0), weights), before

    def made(
        self, rows: pa.RecordBatch, positions: npt.NDArray[np.intp], weights: Integers, before: Integers
    ) -> pa.RecordBatch:
        """Rows at some positions with these weights, and with their places if these are asked for."""
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


def starts_of(group: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """For rows by group, where the group of each begins."""
    return _firsts(_is_new([group]))


def _before(weights: Integers, starts: npt.NDArray[np.intp]) -> Integers:
    """How many copies of rows of its group stand before each row."""
    sums = weights.cumsum() - weights
    return np.asarray(sums - sums.take(starts))


def _is_new(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_]:
    """For rows in the order of these keys: which differ from the one before."""
    is_new = np.ones(len(keys[0]), np.bool_)
    if len(is_new):
        is_new[1:] = False
    for each in keys:
        is_new[1:] |= each[1:] != each[:-1]
    return is_new


def _firsts(is_new: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """For each row the position of the first one that does not differ from it."""
    if not len(is_new):
        return np.empty(0, np.intp)
    return np.asarray(np.flatnonzero(is_new)[np.cumsum(is_new) - 1])
