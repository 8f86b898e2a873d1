"""A run: rows with weights in the order of their keys' hashes, columnar, and never changed once it is made.

Rows are sorted by two hashes, that of the key and that of the whole row, so that all rows of a key lie
together, and equal rows side by side. A lookup of many keys is two binary searches. Hashes only say where to
look: keys that are found are compared, and rows are added up only if they are equal, so that two rows with
one hash stay two rows.

Invariant: hashes are in order; no two rows are equal; no weight is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.rows.hashing import Hashes, hash_columns
from pointstamp.tables.weights import DIFF, Integers, equal_rows

Positions = npt.NDArray[np.intp]
_NO_ROWS: Final[Positions] = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class Run:
    """Rows in the order of their hashes; ``batch`` has the weight as its last column."""

    key_hashes: Hashes
    row_hashes: Hashes
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.key_hashes)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return int(self.batch.nbytes) + self.key_hashes.nbytes + self.row_hashes.nbytes

    def ranges(self, hashes: Hashes) -> tuple[Positions, Positions]:
        """Where the rows with each of these key hashes begin and end."""
        return (
            np.searchsorted(self.key_hashes, hashes, "left"),
            np.searchsorted(self.key_hashes, hashes, "right"),
        )


def run_of(batch: pa.RecordBatch, keys: Sequence[str]) -> Run:
    """A run of rows in any order, added up."""
    identity = [name for name in batch.schema.names if name != DIFF]
    return _added_up(_sorted(hash_columns(batch, list(keys)), hash_columns(batch, identity), batch))


def merged(one: Run, other: Run) -> Run:
    """The rows of both, added up; what adds up to nothing is gone."""
    batch = pa.concat_batches([one.batch, other.batch])
    return _added_up(
        _sorted(
            np.concatenate((one.key_hashes, other.key_hashes)),
            np.concatenate((one.row_hashes, other.row_hashes)),
            batch,
        )
    )


def expanded(begins: Positions, ends: Positions) -> tuple[Positions, Positions]:
    """For ranges of positions: which range each position is of, and all positions, one range after another.

    >>> [each.tolist() for each in expanded(np.array([5, 9, 2]), np.array([7, 9, 3]))]
    [[0, 0, 2], [5, 6, 2]]
    """
    counts = ends - begins
    total = int(counts.sum())
    if total == 0:
        return _NO_ROWS, _NO_ROWS
    which = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    return which, np.arange(total) - firsts[which] + begins[which]


def _sorted(key_hashes: Hashes, row_hashes: Hashes, batch: pa.RecordBatch) -> Run:
    # Stable, because numpy then merges two sorted halves in one pass.
    order = np.argsort(key_hashes, kind="stable")
    keys, rows = key_hashes[order], row_hashes[order]
    behind = np.flatnonzero((keys[1:] == keys[:-1]) & (rows[1:] < rows[:-1]))
    if len(behind):
        # Only the keys that are out of order are sorted by the second hash, too.
        first = np.searchsorted(keys, keys[behind], "left")
        last = np.searchsorted(keys, keys[behind], "right")
        begins, which = np.unique(first, return_index=True)
        _, mixed = expanded(begins, last[which])
        inner = mixed[np.lexsort((rows[mixed], keys[mixed]))]
        order[mixed], rows[mixed] = order[inner], rows[inner]
    if len(order) and np.all(order[1:] > order[:-1]):
        return Run(keys, rows, batch)
    return Run(keys, rows, pc.take(batch, pa.array(order), boundscheck=False))


def _added_up(run: Run) -> Run:
    """The same rows with equal ones added up, and without those that add up to nothing."""
    keys, rows, batch = run.key_hashes, run.row_hashes, run.batch
    is_first = np.ones(len(keys), np.bool_)
    likely = np.flatnonzero((keys[1:] == keys[:-1]) & (rows[1:] == rows[:-1])) + 1
    weights: Integers = batch.column(DIFF).to_numpy()
    if len(likely):
        identity = batch.select([name for name in batch.schema.names if name != DIFF])
        is_first[likely[equal_rows(identity, likely, identity, likely - 1)]] = False
        firsts = np.flatnonzero(is_first)
        weights = np.add.reduceat(weights, firsts)
    else:
        firsts = None
    alive = np.flatnonzero(weights)
    if firsts is None and len(alive) == len(keys):
        return run
    kept = alive if firsts is None else firsts[alive]
    made = pc.take(batch, pa.array(kept), boundscheck=False)
    position = batch.schema.get_field_index(DIFF)
    made = made.set_column(position, batch.schema.field(position), pa.array(weights[alive]))
    return Run(keys[kept], rows[kept], made)
