"""Bounded runs share slots with other jobs: they wait, say so, and run with fewer workers.

Each test takes slots away or lets several runs compete for them; the answers are those of Spark itself.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import RecoveryError
from pointstamp.spark import job, slots, worker_formation
from support.streams import until

pytestmark = pytest.mark.spark
ROWS = 1_000
EXPECTED = Counter((0, n % 7, len(range(n % 7, ROWS, 7))) for n in range(7))


def held(flag: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that holds a slot until a file is there."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        while not Path(flag).exists():
            sleep(0.05)

    return hold


class Holder:
    """A job that holds slots."""

    def __init__(self, spark: SparkSession, count: int, flag: Path) -> None:
        self._spark = spark
        self._flag = flag
        hold = held(str(flag))
        self._thread = threading.Thread(
            target=lambda: spark.range(0, count, 1, count).mapInArrow(hold, "id long").collect()
        )
        self._count = count

    def __enter__(self) -> "Holder":
        self._thread.start()
        until(lambda: slots.slots_busy(self._spark) == self._count)
        return self

    def free(self) -> None:
        self._flag.touch()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.free()


def counted(
    spark: SparkSession, workers: int | None = None, min_workers: int | None = None
) -> Counter[object]:
    flow = ps.Dataflow("counts")
    flow.output("counts", flow.stream_input("numbers", "x long").exchange("x").count("x"))
    frame = spark.range(0, ROWS, 1, 3).selectExpr("id % 7 as x")
    found = flow.run(
        on=spark,
        numbers=frame,
        workers=workers,
        options=ps.QueryOptions(min_workers=min_workers, pushdown=False),
    )["counts"]
    return Counter(map(tuple, found.collect()))


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SETTLE_SECONDS", 1.5)
    monkeypatch.setattr(worker_formation, "_PATIENCE_SECONDS", 0.3)


@pytest.mark.usefixtures("_soon")
def test_a_run_that_gets_fewer_slots_than_workers_starts_again_with_fewer(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with Holder(spark, 1, tmp_path / "free"):
        assert counted(spark, workers=2) == EXPECTED
    assert "flow 'counts' restarts with 1 workers instead of 2: 1 of 2 workers have started" in caplog.text
    assert "flow 'counts' is waiting for Spark to start workers: " in caplog.text


@pytest.mark.usefixtures("_soon")
def test_a_run_that_needs_all_its_workers_waits_until_slots_are_free(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[Counter[object]] = []
    with Holder(spark, 1, tmp_path / "free") as holder:
        run = threading.Thread(target=lambda: found.append(counted(spark, workers=2, min_workers=2)))
        run.start()
        until(lambda: "waiting for Spark to start workers: 1 of 2 workers have started" in caplog.text)
        holder.free()
        run.join()
    assert found == [EXPECTED]
    assert "restarts with" not in caplog.text


@pytest.mark.usefixtures("_soon")
def test_a_run_that_never_gets_its_slots_ends_with_what_it_needs_and_what_there_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = worker_formation.Waiting

    def impatient(**given: object) -> worker_formation.Waiting:
        return waiting(seconds_max=2.0, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "Waiting", impatient)
    words = r"within 2 seconds: 1 of 2 workers have started, and Spark has 2 slots\. Free slots"
    with Holder(spark, 1, tmp_path / "free"), pytest.raises(RecoveryError, match=words):
        counted(spark, workers=2, min_workers=2)


def test_a_run_takes_the_free_slots_by_default(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Holder(spark, 1, tmp_path / "free"):
        assert counted(spark) == EXPECTED
    assert "restarts with" not in caplog.text


@pytest.mark.usefixtures("_soon")
def test_runs_that_compete_for_slots_all_come_to_their_end(spark: SparkSession) -> None:
    found: list[Counter[object]] = []
    runs = [threading.Thread(target=lambda: found.append(counted(spark, workers=2))) for _ in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert found == [EXPECTED] * 3
