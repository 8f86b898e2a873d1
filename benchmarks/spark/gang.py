"""What the workers of a run cost before their first row, and how fast they speak with each other.

    .venv/bin/python -m benchmarks.spark.gang [--batches 100]

One JSON line per case. "start-up" is a flow with one row in a session that is up: the first run of the
session, which loads classes and starts Python, and the median of later ones. "an empty Spark job" is one
stage of Python with as many tasks that do nothing, in the same session, first and later. What a start-up
takes beyond that is ours: the rendezvous, the worker, the files and the manifest. "query start-up" is from
``start`` to the first published epoch.

"exchange" is a flow whose workers make rows of 100 bytes and exchange them by key, through unix sockets, as
workers of a local session do: half stay, half travel. What the same flow takes without rows is subtracted.
``ratio`` is the share of the bytes that travel of what two processes reach that do nothing but copy them
through a unix socket pair, as in ``benchmarks/exchange.py``. The counts are compared with what was made.

To beat: 4 s for the first start-up, 0.4 s for later ones, and a twentieth of the bare copy.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from statistics import median
from time import sleep

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.exchange import WIDE, Count, Make, bare_copy, best
from benchmarks.figures import report, timed
from benchmarks.spark.session import SLOTS, session
from pyspark.sql import DataFrame, SparkSession

from pointstamp import Dataflow, QueryOptions
from pointstamp.dataflow.operator import operator
from pointstamp.io import files

TURNS = 5
ROWS = 100_000
ROW_BYTES = 100
EPOCHS = 10

Batches = Iterator[pa.RecordBatch]


def start_up(spark: SparkSession, *, barrier: bool = False) -> None:
    """A flow with one row, from the call to the published result."""
    flow = Dataflow("start-up")
    flow.output("rows", flow.stream_input("rows", "id long"))
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        found = flow.run(
            on=spark,
            rows=spark.range(1),
            workers=SLOTS,
            output=f"{folder}/out",
            options=QueryOptions(barrier=barrier),
        )["rows"]
        assert found.columns == ["epoch", "id"]


def empty_job(spark: SparkSession) -> None:
    """A Spark job with as many tasks of Python as workers, which do nothing."""
    # The one row is there, or Spark would find that there is nothing to do.
    assert len(spark.range(0, 1, 1, SLOTS).mapInArrow(_same, "id long").collect()) == 1


def _same(batches: Batches) -> Batches:
    return batches


def query_start_up(spark: SparkSession) -> None:
    """A query on a folder with one file, from the call to its first epoch."""
    flow = Dataflow("query start-up")
    flow.output("rows", flow.stream_input("rows", "id long"))
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        os.mkdir(f"{folder}/in")
        pq.write_table(pa.table({"id": [1]}), f"{folder}/in/0.parquet")
        rows = files(f"{folder}/in")
        query = flow.start(on=spark, rows=rows, workers=SLOTS, checkpoint=f"{folder}/c", output=f"{folder}/o")
        try:
            while query.epoch < 0:
                sleep(0.005)
        finally:
            query.stop()


def measure_start_up(spark: SparkSession) -> None:
    """The first start-up and later ones, beside an empty job in the same session."""
    for case, act in (
        ("an empty Spark job", empty_job),
        ("start-up", start_up),
        ("query start-up", query_start_up),
    ):
        first, _ = timed(partial(act, spark))
        report(case, which="first", seconds=first)
        later = median(timed(partial(act, spark))[0] for _ in range(TURNS))
        report(case, which="later", seconds=later)


def exchange(spark: SparkSession, batches: int) -> DataFrame:
    """What the workers counted of so many batches in each epoch."""
    flow = Dataflow("exchange")
    signal = flow.stream_input("signal", "go long")
    made = operator("make", Make(WIDE, ROWS, batches), signal=signal)
    flow.output("counts", operator("count", Count(), rows=made.exchange("key")))
    # From one partition the epochs' signals are dealt to the workers in turn.
    signals = spark.range(0, EPOCHS, 1, 1).selectExpr("id as go", "id as epoch")
    return flow.run(on=spark, signal=signals, epoch="epoch", workers=SLOTS)["counts"]


def measure_exchange(spark: SparkSession, batches: int) -> None:
    """Bytes per second between two workers, beside a bare copy."""
    each = batches // EPOCHS
    total = ROWS * each * EPOCHS
    counted, empty = [], []
    for _ in range(TURNS):
        empty.append(timed(partial(exchange, spark, 0))[0])
        seconds, counts = timed(partial(exchange, spark, each))
        counted.append(seconds)
        found = counts.agg({"rows": "sum", "sum": "sum"}).collect()[0].asDict()
        assert found == {"sum(rows)": total, "sum(sum)": (ROWS - 1) * total // 2}, found
    seconds = min(counted) - min(empty)
    block = ROWS * ROW_BYTES // SLOTS
    travelling = total * ROW_BYTES // SLOTS
    # The copy sends as many blocks in each direction.
    copy = 2 * block * each * EPOCHS / best(partial(bare_copy, block, each * EPOCHS))
    report(
        f"exchange of rows of {ROW_BYTES} bytes, 2 workers, unix sockets",
        seconds=seconds,
        seconds_without_rows=min(empty),
        bytes_per_second=round(total * ROW_BYTES / seconds),
        travelling_bytes_per_second=round(travelling / seconds),
        socket_bytes_per_second=round(copy),
        ratio=travelling / seconds / copy,
    )


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description="The start-up of workers, and the speed between them.")
    parser.add_argument("--batches", type=int, default=100, help="batches of 10 MB that are made in all")
    given = parser.parse_args()
    with session("gang") as spark:
        measure_start_up(spark)
        measure_exchange(spark, given.batches)


if __name__ == "__main__":
    main()
