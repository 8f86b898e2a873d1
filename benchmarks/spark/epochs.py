"""Small epochs on Spark: from a file that becomes visible to its result that is published, three ways.

    .venv/bin/python -m benchmarks.spark.epochs [--epochs 200] [--rows 1000]

A running count by key. Files of some rows each are put into a folder one after the other, each when the
result of the one before is published; one JSON line per contender, with ``ms_median`` and ``ms_p99`` from the
rename that makes a file visible to its published result, and ``ratio``: Structured Streaming's median by this
one.

- *files*: workers read the files themselves (``files``); every epoch is saved and published durably.
- *stream*: Structured Streaming reads the files, its micro-batches go through the input log into the flow.
- *Structured Streaming*: ``groupBy().count()``, one file per trigger, update mode, written as Parquet, with
  its state in memory and its checkpoint on the same disk.

All run in one session with three slots: two workers, and one slot beside them. The final counts of all are
compared with numpy's. To beat, measured on such a machine: Structured Streaming 308 ms. The aim is a tenth.
"""

import argparse
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import report
from benchmarks.spark.session import session
from pyspark.sql import DataFrame, SparkSession

from pointstamp import Dataflow
from pointstamp.connectors.files.source import files
from pointstamp.connectors.published.reader import read_changes

KEYS = 100_000
WORKERS = 2
WARM_UP = 20
WAIT_SECONDS_MAX = 60.0

Answer = dict[int, int]


def rows_of(number: int, rows: int) -> pa.Table:
    """The keys of one epoch."""
    return pa.table({"key": np.random.default_rng(number).integers(0, KEYS, rows)})


def expected(epochs: int, rows: int) -> Answer:
    """The final counts, by numpy."""
    keys = np.concatenate([rows_of(number, rows)["key"].to_numpy() for number in range(epochs)])
    found, counts = np.unique(keys, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def feed(folder: Path, epochs: int, rows: int, is_done: Callable[[int], bool]) -> list[float]:
    """Put one file after the other; return how long each took until it was done, in ms, after a warm-up."""
    taken = []
    for number in range(epochs):
        new = folder.parent / "new.parquet"
        pq.write_table(rows_of(number, rows), new)
        begin = perf_counter()
        os.rename(new, folder / f"{number:06d}.parquet")
        while not is_done(number):
            if perf_counter() - begin > WAIT_SECONDS_MAX:
                raise TimeoutError(f"epoch {number} was not done within {WAIT_SECONDS_MAX:g} s")
            sleep(0.0005)
        taken.append((perf_counter() - begin) * 1000)
    return taken[WARM_UP:]


def with_files(spark: SparkSession, folder: Path, epochs: int, rows: int) -> tuple[list[float], Answer]:
    """The workers read the files."""
    query = counting().start(
        on=spark,
        keys=files(folder / "in", in_order=True),
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "out"),
        workers=WORKERS,
    )
    try:
        taken = feed(folder / "in", epochs, rows, lambda number: query.epoch >= number)
    finally:
        query.stop()
    return taken, last_counts(folder / "out")


def with_stream(spark: SparkSession, folder: Path, epochs: int, rows: int) -> tuple[list[float], Answer]:
    """Structured Streaming reads the files for the flow."""
    stream = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = counting().start(
        on=spark,
        keys=stream,
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "out"),
        workers=WORKERS,
    )
    try:
        taken = feed(folder / "in", epochs, rows, lambda number: query.epoch >= number)
    finally:
        query.stop()
    return taken, last_counts(folder / "out")


def with_spark(spark: SparkSession, folder: Path, epochs: int, rows: int) -> tuple[list[float], Answer]:
    """Structured Streaming alone."""
    written = [-1]
    lock = threading.Lock()

    def publish(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / "out" / f"{number:06d}"))
        with lock:
            written[0] = number

    stream = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = (
        stream.groupBy("key")
        .count()
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(publish)
        .start()
    )
    try:
        taken = feed(folder / "in", epochs, rows, lambda number: written[0] >= number)
    finally:
        query.stop()
    counts: Answer = {}
    for number in range(epochs):
        for file in sorted((folder / "out" / f"{number:06d}").glob("*.parquet")):
            table = pq.read_table(file)
            counts.update(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))
    return taken, counts


def counting() -> Dataflow:
    """A running count by key."""
    flow = Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    return flow


def last_counts(path: Path) -> Answer:
    """The last count that was published for each key."""
    table = read_changes(str(path), "counts").sort_by("epoch")
    return dict(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))


def main() -> None:
    """All ways, one after the other."""
    parser = argparse.ArgumentParser(description="Small epochs on Spark.")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000)
    given = parser.parse_args()
    ways = {"Structured Streaming": with_spark, "stream": with_stream, "files": with_files}
    theirs = 0.0
    with session("epochs", slots=WORKERS + 1) as spark:
        for name, way in ways.items():
            with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
                Path(folder, "in").mkdir()
                taken, counts = way(spark, Path(folder), given.epochs + WARM_UP, given.rows)
            assert counts == expected(given.epochs + WARM_UP, given.rows), f"{name} counted wrongly"
            middle = float(np.median(taken))
            theirs = theirs or middle
            report(
                name,
                epochs=given.epochs,
                rows=given.rows,
                ms_median=middle,
                ms_p99=float(np.percentile(taken, 99)),
                ratio=theirs / middle,
            )


if __name__ == "__main__":
    main()
