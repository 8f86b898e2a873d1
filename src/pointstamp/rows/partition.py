"""Split a batch by the worker of each row."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.rows.hashing import hash_columns
from pointstamp.rows.mixing import Hashes

_HALF_WORD: Final = np.uint64(32)
_SLICE_ROWS: Final = 131_072
"""More rows are split slice by slice: what is made on the way then stays in the processor's caches."""


def worker_of(hashes: Hashes, workers: int) -> npt.NDArray[np.intp]:
    """The worker of each hash: its high 32 bits, scaled from [0, 2^32) down to [0, workers).

    Multiply and shift, and not modulo: it is several times faster in numpy, it is as even for every number of
    workers, and it leaves the low bits alone, so that a worker's own tables can use those.
    """
    assert 1 <= workers < 1 << 32
    return (((hashes >> _HALF_WORD) * np.uint64(workers)) >> _HALF_WORD).astype(np.intp)


def partition(batch: pa.RecordBatch, keys: Sequence[str], workers: int) -> list[pa.RecordBatch | None]:
    """The rows of each worker, in the order in which they came; None where it has none.

    Where all rows belong to one worker that part is the batch itself. Otherwise all rows are copied once, and
    the parts are slices of that copy: they share its buffers, so one part alive keeps all of it. Of a large
    batch each part is a copy of its own.
    """
    parts: list[pa.RecordBatch | None] = [None] * workers
    if batch.num_rows == 0:
        return parts
    if workers == 1:
        return [batch]
    if batch.num_rows > _SLICE_ROWS:
        return _partition_slices(batch, keys, workers)
    return split(batch, worker_of(hash_columns(batch, keys), workers), workers)


def _partition_slices(
    batch: pa.RecordBatch, keys: Sequence[str], workers: int
) -> list[pa.RecordBatch | None]:
    parts: list[list[pa.RecordBatch]] = [[] for _ in range(workers)]
    for start in range(0, batch.num_rows, _SLICE_ROWS):
        for mine, part in zip(parts, partition(batch.slice(start, _SLICE_ROWS), keys, workers), strict=True):
            if part is not None:
                mine.append(part)
    if any(sum(part.num_rows for part in mine) == batch.num_rows for mine in parts):
        return [batch if mine else None for mine in parts]
    return [pa.concat_batches(mine) if mine else None for mine in parts]


def split(batch: pa.RecordBatch, worker: npt.NDArray[np.intp], workers: int) -> list[pa.RecordBatch | None]:
    """The rows of each worker, where the worker of each row is known; for a batch that has rows."""
    parts: list[pa.RecordBatch | None] = [None] * workers
    counts = np.bincount(worker, minlength=workers)
    first = int(worker[0])
    if counts[first] == batch.num_rows:
        parts[first] = batch
        return parts
    # A stable sort of 8- or 16-bit integers is a radix sort in numpy: one counting pass per byte.
    narrow = worker.astype(np.min_scalar_type(workers - 1))
    sorted_batch = pc.take(batch, pa.array(np.argsort(narrow, kind="stable")), boundscheck=False)
    start = 0
    for index, count in enumerate(counts.tolist()):
        if count:
            parts[index] = sorted_batch.slice(start, count)
            start += count
    return parts
