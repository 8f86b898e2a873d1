"""Accumulate the vertices that edges name, before they are counted.

A graph names a vertex as often as it has ends there. Where ids are whole numbers, the ends of a batch are
added up in arrays, so that what keeps the vertices is told of each once in a batch and not once for each end.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.columns import DIFF, batch_of

_ADDRESSES_PER_END_MAX: Final = 4


def named_by(changes: ps.Stream, *, name: str) -> ps.Table:
    """Return the ``id`` of both ends of edges, with multiplicities."""
    schema = pa.schema([("id", changes.schema.field("src").type), changes.schema.field(DIFF)])
    return ps.Table(changes.map_batches(_AddedUpEnds(schema), schema).named(name))


class _AddedUpEnds:
    """Makes the ends of edges of the edges, each end once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, edges: pa.RecordBatch) -> pa.RecordBatch | None:
        src, dst, by = (edges.column(name).to_numpy() for name in ("src", "dst", DIFF))
        ids, by = added_up_ids(np.concatenate((src, dst)), np.tile(by, 2))
        return batch_of(self._schema, ids, by) if len(ids) else None


def added_up_ids(
    ids: npt.NDArray[np.int64], by: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Each id once with the sum of its numbers, where that is not 0.

    >>> [each.tolist() for each in added_up_ids(np.array([7, 5, 7, 5, 9]), np.array([1, 2, -1, 1, 1]))]
    [[5, 9], [3, 1]]
    """
    if not len(ids):
        return ids, by
    least, greatest = int(ids.min()), int(ids.max())
    if greatest - least < _ADDRESSES_PER_END_MAX * len(ids):
        sums = np.zeros(greatest - least + 1, np.int64)
        np.add.at(sums, ids - least, by)
        at = np.flatnonzero(sums)
        return at + least, sums[at]
    known, place = np.unique(ids, return_inverse=True)
    sums = np.zeros(len(known), np.int64)
    np.add.at(sums, place, by)
    at = np.flatnonzero(sums)
    return known[at], sums[at]
