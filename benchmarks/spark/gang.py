"""What a gang of Spark tasks costs before its first row, and how fast its workers speak with each other.

    .venv/bin/python -m benchmarks.spark.gang [--batches 100]

One JSON line per case. "start-up" is a flow with one row in a session that is up: the first run of the
session, which loads classes and starts Python, and the median of later ones. "where the time goes" are Spark
jobs that do less, each with what the one before does: one stage of Python, as the flow has it, whose rows may
go to any worker; the same as a barrier. What a warm start-up takes beyond that is ours: the meeting, the
worker, the files and the manifest. "a barrier with one allGather" is what a meeting through Spark takes.

"exchange" is a flow whose workers make rows of 100 bytes and exchange them by key, through unix sockets, as
workers of a local session do: half stay, half travel. What the same flow takes without rows is subtracted.
``ratio`` is the share of the bytes that travel of what two processes reach that do nothing but copy them
through a unix socket pair, as in ``benchmarks/exchange.py``. The counts are compared with what was made.

To beat: 4 s for the first start-up, a barrier with one allGather for later ones, and a twentieth of the bare
copy.
"""

import argparse
import tempfile
from collections.abc import Iterator
from functools import partial
from statistics import median

import pyarrow as pa
from benchmarks.exchange import WIDE, Count, Make, bare_copy, best
from benchmarks.figures import report, timed
from benchmarks.spark.session import SLOTS, session
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession

from pointstamp import Dataflow
from pointstamp.dataflow.operator import operator

TURNS = 5
ROWS = 100_000
ROW_BYTES = 100
EPOCHS = 10

Batches = Iterator[pa.RecordBatch]


def start_up(spark: SparkSession) -> None:
    """A flow with one row, from the call to the published result."""
    flow = Dataflow("start-up")
    flow.output("rows", flow.input("rows", "id long"))
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        found = flow.run(spark, rows=spark.range(1), workers=SLOTS, output=f"{folder}/out")["rows"]
        assert found.columns == ["epoch", "id"]


def job(spark: SparkSession, *, is_barrier: bool, is_gathering: bool) -> None:
    """A Spark job of the gang's shape that does nothing."""
    # The one row is there, or Spark would find that there is nothing to do.
    rows = spark.range(0, 1, 1, SLOTS)
    same = rows.mapInArrow(_gather if is_gathering else _same, "id long", barrier=is_barrier)
    assert len(same.collect()) == 1


def _same(batches: Batches) -> Batches:
    return batches


def _gather(batches: Batches) -> Batches:
    context = BarrierTaskContext.get()
    assert context is not None
    context.allGather("")
    yield from batches


def measure_start_up(spark: SparkSession) -> None:
    """The first start-up, later ones, and their parts."""
    first, _ = timed(partial(start_up, spark))
    report("start-up", which="first of the session", seconds=first)
    warm = median(timed(partial(start_up, spark))[0] for _ in range(TURNS))
    report("start-up", which="later", seconds=warm)
    plain, barrier, gathering = (
        _median_of_job(spark, is_barrier=is_barrier, is_gathering=is_gathering)
        for is_barrier, is_gathering in ((False, False), (True, False), (True, True))
    )
    report("where the time goes", up_to="a stage with Python", seconds=plain, more=plain)
    report("where the time goes", up_to="as a barrier", seconds=barrier, more=barrier - plain)
    report("where the time goes", up_to="the flow", seconds=warm, more=warm - barrier)
    report("a barrier with one allGather", seconds=gathering, ratio=gathering / warm)


def _median_of_job(spark: SparkSession, *, is_barrier: bool, is_gathering: bool) -> float:
    act = partial(job, spark, is_barrier=is_barrier, is_gathering=is_gathering)
    act()
    return median(timed(act)[0] for _ in range(TURNS))


def exchange(spark: SparkSession, batches: int) -> DataFrame:
    """What the workers counted of so many batches in each epoch."""
    flow = Dataflow("exchange")
    signal = flow.input("signal", "go long")
    made = operator("make", Make(WIDE, ROWS, batches), signal=signal)
    flow.output("counts", operator("count", Count(), rows=made.exchange("key")))
    # From one partition the epochs' signals are dealt to the workers in turn.
    signals = spark.range(0, EPOCHS, 1, 1).selectExpr("id as go", "id as epoch")
    return flow.run(spark, signal=signals, epoch="epoch", workers=SLOTS)["counts"]


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
    parser = argparse.ArgumentParser(description="A gang's start-up, and its speed between workers.")
    parser.add_argument("--batches", type=int, default=100, help="batches of 10 MB that are made in all")
    given = parser.parse_args()
    with session("gang") as spark:
        measure_start_up(spark)
        measure_exchange(spark, given.batches)


if __name__ == "__main__":
    main()
