"""The files that the workers of a bounded run write: Parquet, one per output, epoch and worker.

They are staged (``sinks.files``): whole and durable when a worker reports them, with size and checksum, and
published by the driver's commit (``manifest``). Rows are brought to the types that Spark has (``types``).
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from pointstamp.sinks.parquet import ParquetSink


class Written(NamedTuple):
    """A file that is whole; its path is below the folder of the run."""

    output: str
    epoch: int
    path: str
    rows: int
    size_bytes: int
    crc32: int


class EpochFiles:
    """Writes the finished epochs of one worker below a folder; ``schemas`` are those that Spark will read."""

    def __init__(self, path: str, run: str, worker: int, schemas: Mapping[str, pa.Schema]) -> None:
        self._writer = ParquetSink(path).for_query(run, schemas).writer(worker, generation=0)
        self.written: list[Written] = []

    def write(self, output: str, epoch: int, batches: list[pa.RecordBatch]) -> None:
        """Write all rows that this worker has of an epoch."""
        for each in self._writer.stage(output, {epoch: batches}):
            file = Written(output, epoch, each.path, each.rows, each.size_bytes, each.crc32)
            self.written.append(file)
