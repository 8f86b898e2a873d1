"""The files that workers write: Parquet, one per output, epoch and worker, the epoch as first column.

A file is whole when its worker has reported it, with its size and checksum; it is published by the manifest,
which the driver writes. Rows are brought to the types that Spark has (``types``) before they are written.
"""

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.errors import SchemaError
from pointstamp.spark.place import Place, folder_name


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
        self._place = Place.at(path)
        self._run = run
        self._worker = worker
        self._schemas = schemas
        self.written: list[Written] = []

    def write(self, output: str, epoch: int, batches: list[pa.RecordBatch]) -> None:
        """Write all rows that this worker has of an epoch."""
        table = self._fitted(output, pa.Table.from_batches(batches))
        epochs = pa.repeat(pa.scalar(epoch, pa.int64()), table.num_rows)
        table = table.add_column(0, pa.field("epoch", pa.int64()), epochs)
        path = f"{folder_name(output)}/epoch-{epoch:012d}-worker-{self._worker:05d}-run-{self._run}.parquet"
        with self._place.open(path) as file:
            summed = _Summed(file)
            pq.write_table(table, summed)
        self.written.append(Written(output, epoch, path, table.num_rows, summed.size_bytes, summed.crc32))

    def _fitted(self, output: str, table: pa.Table) -> pa.Table:
        try:
            return table.cast(self._schemas[output])
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"output '{output}' has values that Spark's types cannot hold: {error}. Round or cast them "
                "in the flow."
            ) from error


class _Summed:
    """A file that counts and sums what is written through it."""

    closed = False

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - a pyarrow.NativeFile
        self._file = file
        self.size_bytes = 0
        self.crc32 = 0

    def write(self, content: Any) -> int:  # noqa: ANN401 - anything with a buffer
        self._file.write(content)
        size = memoryview(content).nbytes
        self.size_bytes += size
        self.crc32 = zlib.crc32(content, self.crc32)
        return size

    def tell(self) -> int:
        return self.size_bytes

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Whoever opened the file closes it."""
