"""The files that workers write: Parquet, one per output, epoch and worker, the epoch as first column."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq


class Written(NamedTuple):
    """A file that is whole."""

    output: str
    epoch: int
    path: str
    rows: int


class EpochFiles:
    """Writes the finished epochs of one worker below a folder."""

    def __init__(self, folder: str, worker: int) -> None:
        self._folder = Path(folder)
        self._worker = worker
        self.written: list[Written] = []

    def write(self, output: str, epoch: int, batches: list[pa.RecordBatch]) -> None:
        """Write all rows that this worker has of an epoch."""
        table = pa.Table.from_batches(batches)
        table = table.add_column(
            0, pa.field("epoch", pa.int64()), pa.array([epoch] * table.num_rows, pa.int64())
        )
        folder = self._folder / output
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"epoch-{epoch:012d}-worker-{self._worker:05d}.parquet"
        pq.write_table(table, path)
        self.written.append(Written(output, epoch, str(path), table.num_rows))
