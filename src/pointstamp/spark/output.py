"""The files that the workers of a bounded run write: Parquet, one per output, worker and group of epochs.

They are staged (``sinks.files``): whole and durable when a worker reports them, with size and checksum, and
published by the driver's commit (``manifest``). Rows are brought to the types that Spark has (``types``).

All epochs of a bounded run are published together, so epochs may share a file: a file costs a worker, the
commit and every reader some milliseconds, whatever is in it. A worker holds finished epochs back until they
make a file worth writing, at most ``FILE_BYTES`` of them and the epoch that goes beyond.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sinks.port import Staged

FILE_BYTES: Final = 32 * 1024 * 1024
"""Epochs wait for each other until their rows have so many bytes in memory."""


class EpochFiles:
    """Writes the finished epochs of one worker below a folder; ``schemas`` are those that Spark will read."""

    def __init__(
        self, path: str, run: str, worker: int, schemas: Mapping[str, pa.Schema], generation: int = 0
    ) -> None:
        self._writer = ParquetSink(path).for_query(run, schemas).writer(worker, generation=generation)
        self._waiting: dict[str, dict[int, list[pa.RecordBatch]]] = {}
        self._waiting_bytes = 0
        self._written: list[Staged] = []

    def write(self, output: str, epoch: int, batches: list[pa.RecordBatch]) -> None:
        """Take all rows that this worker has of an epoch; they go into a file together with others."""
        self._waiting.setdefault(output, {})[epoch] = batches
        self._waiting_bytes += sum(batch.nbytes for batch in batches)
        if self._waiting_bytes > FILE_BYTES:
            self._stage()

    def finish(self) -> list[Staged]:
        """Write what still waits; return all files that were written."""
        self._stage()
        return self._written

    def _stage(self) -> None:
        for output, epochs in self._waiting.items():
            self._written.extend(self._writer.stage(output, epochs))
        self._waiting.clear()
        self._waiting_bytes = 0
