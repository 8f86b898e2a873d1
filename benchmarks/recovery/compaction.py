"""Reading what was published in thousands of commits: as it was written, and compacted.

    .venv/bin/python -m benchmarks.recovery.compaction [--epochs 5000] [--rows 100]

One worker's epochs of some rows are published one by one into a folder, and read with ``read_changes``: all
of them, and the last ten. Then the same after background compaction has caught up, and after
``pointstamp.io.compact``. One JSON line each with the files that are read, ``ms``, ``ms_last`` for the last
ten epochs, and ``ratio`` and ``ratio_last``: how many times faster than as written, in the same run.
"""

import argparse
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from benchmarks.figures import report

from pointstamp.connectors.published.compactor import ParquetCompactor, compact
from pointstamp.connectors.published.merging import CompactionPolicy
from pointstamp.connectors.published.reader import published_files, read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Content

TIMES = 3


class Undurable(LocalStorage):
    """Without waiting for the disk, which is not what is measured."""

    def create(self, name: str, content: Content) -> None:
        """Write a file."""
        path = Path(self.address, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else b"".join(content))


def publish(folder: str, epochs: int, rows: int) -> None:
    """Each epoch in a commit of its own."""
    chance = np.random.default_rng(0)
    schema = pa.schema([("key", pa.int64()), ("count", pa.int64())])
    sink = ParquetSink(folder, lambda path: Undurable(path)).for_query("bench", {"counts": schema})
    writer, publisher = sink.writer(0, 0), sink.publisher()
    for epoch in range(epochs):
        batch = pa.record_batch([chance.integers(0, 10**6, rows), np.arange(rows)], schema=schema)
        publisher.publish(epoch, epoch, writer.stage("counts", {epoch: [batch]}))


def timed(folder: str, epochs: int, rows: int, after: int | None) -> float:
    """The ms of the quickest reading."""
    taken = []
    for _ in range(TIMES):
        begin = perf_counter()
        table = read_changes(folder, "counts", after=after)
        taken.append((perf_counter() - begin) * 1000)
        assert table.num_rows == (epochs - 1 - (-1 if after is None else after)) * rows
    return min(taken)


def main() -> None:
    """As written, after background compaction, after a full one."""
    parser = argparse.ArgumentParser(description="Reading published output, compacted and not.")
    parser.add_argument("--epochs", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        publish(folder, given.epochs, given.rows)
        first: tuple[float, float] | None = None
        for name in ("as written", "in the background", "compact"):
            if name == "in the background":
                compactor = ParquetCompactor(LocalStorage(folder), CompactionPolicy())
                while compactor.turn():
                    pass
            elif name == "compact":
                compact(folder)
            every = timed(folder, given.epochs, given.rows, None)
            last = timed(folder, given.epochs, given.rows, given.epochs - 11)
            first = first or (every, last)
            report(
                name,
                epochs=given.epochs,
                files=len(published_files(folder, "counts")),
                ms=every,
                ms_last=last,
                ratio=first[0] / every,
                ratio_last=first[1] / last,
            )


if __name__ == "__main__":
    main()
