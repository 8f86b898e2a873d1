"""A query waits for slots, says so, and runs with as many workers as Spark has slots for."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.query.query_page import QuerySight
from pointstamp.spark import crew, streaming, worker_formation
from support.streams import SECONDS_MAX, counts_by_epoch, published_by_epoch, put, until

pytestmark = pytest.mark.spark
WORDS = ["a", "b", "a"]


def counting() -> ps.Dataflow:
    flow = ps.Dataflow("words")
    words = flow.stream_input("words", "word string").exchange("word")
    flow.output("counts", words.group_by("word", running=True).count())
    return flow


def held(flag: str) -> object:
    """A function that holds a slot until a file is there."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        yield from batches
        while not Path(flag).exists():
            time.sleep(0.05)

    return hold


NEEDS = "0 of 2 workers have started, at least 1 are needed, and Spark has 2 slots"


@contextmanager
def no_slot_left(spark: SparkSession, flag: Path) -> Iterator[None]:
    """A job that holds both slots until the file is there, or to the end."""
    hold = held(str(flag))
    job = threading.Thread(target=lambda: spark.range(0, 2, 1, 2).mapInArrow(hold, "id long").collect())
    job.start()
    try:
        until(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) > 0)
        yield
    finally:
        flag.touch()
        job.join()


def test_a_query_that_waits_for_slots_says_what_it_needs_and_begins_when_they_are_free(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "in", "0", {"word": WORDS})
    with no_slot_left(spark, tmp_path / "free"):
        query = counting().start(
            on=spark,
            words=ps.io.files(tmp_path / "in"),
            checkpoint=str(tmp_path / "c"),
            output=str(tmp_path / "o"),
            workers=2,
        )
        try:
            until(lambda: "waiting for Spark to start workers" in query.status["message"])
            assert NEEDS in query.status["message"]
            assert f"waiting for Spark to start workers: {NEEDS}" in " ".join(query.why("counts"))
            assert f"query 'words' is waiting for Spark to start workers: {NEEDS}" in caplog.text
            page = QuerySight(query, query._supervisor, control=False)
            assert page.moment()["phase"] == f"waiting for Spark to start workers: {NEEDS}"
            (tmp_path / "free").touch()
            until(lambda: query.epoch >= 0)
            assert query.restarts == 0
        finally:
            query.stop()
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([WORDS])


def test_a_query_that_gets_no_slot_ends_with_an_error_that_says_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(crew.SparkLauncher):
        def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as those of its base
            super().__init__(*given, **named, slots_seconds_max=4.0)

    monkeypatch.setattr(streaming, "SparkLauncher", Impatient)
    put(tmp_path / "in", "0", {"word": WORDS})
    with no_slot_left(spark, tmp_path / "free"):
        query = counting().start(
            on=spark,
            words=ps.io.files(tmp_path / "in"),
            checkpoint=str(tmp_path / "c"),
            output=str(tmp_path / "o"),
            workers=2,
        )
        error = f"Spark has not started enough workers within 4 seconds: {NEEDS}. Free slots that other jobs"
        with pytest.raises(RecoveryError, match=re.escape(error)):
            query.await_termination(SECONDS_MAX)
        assert not query.is_active
    assert spark.range(0, 10, 1, 2).count() == 10


def test_a_query_with_fewer_slots_than_workers_runs_with_fewer(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "in", "0", {"word": WORDS})
    query = counting().start(
        on=spark,
        words=ps.io.files(tmp_path / "in"),
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        workers=5,
        options=ps.QueryOptions(min_workers=2),
    )
    until(lambda: query.epoch >= 0)
    assert len(query.workers()) == 2
    query.stop()
    assert "5 workers were requested, but Spark has 2 slots" in caplog.text
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([WORDS])


def test_two_queries_share_the_slots_of_a_session_and_batch_jobs_run_beside(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "Waiting", partial(worker_formation.Waiting, settle_seconds=1.0))
    put(tmp_path / "in", "0", {"word": WORDS})

    def start(name: str, workers: int | None) -> ps.Query:
        return counting().start(
            on=spark,
            words=ps.io.files(tmp_path / "in"),
            checkpoint=str(tmp_path / f"c{name}"),
            output=str(tmp_path / f"o{name}"),
            workers=workers,
        )

    first = start("first", None)
    until(lambda: first.epoch >= 0)
    assert len(first.workers()) == 1, "one slot is left for other jobs"
    assert spark.range(0, 100, 1, 4).selectExpr("sum(id)").collect()[0][0] == sum(range(100))
    second = start("second", 2)
    until(lambda: second.epoch >= 0)
    assert len(second.workers()) == 1
    for query in (first, second):
        query.stop()
    for name in ("first", "second"):
        assert published_by_epoch(tmp_path / f"o{name}", "counts") == counts_by_epoch([WORDS])


DRIVER = """
from support.options import with_options
import os, signal, sys
from pathlib import Path
import pointstamp as ps
from support.streams import put, until, words_flow
from torture.story import session

folder, dies = Path(sys.argv[1]), sys.argv[2] == "dies"
spark = session("local[2]")
flow = words_flow("words")
if dies:
    import threading
    from spark.test_waiting_for_slots import held
    hold = held(str(folder / "never"))
    work = lambda: spark.range(0, 1, 1, 1).mapInArrow(hold, "id long").collect()
    threading.Thread(target=work, daemon=True).start()
    until(lambda: spark.sparkContext.statusTracker().getActiveStageIds())
given = dict(words=ps.io.files(folder / "in"), checkpoint=f"{folder}/c", output=f"{folder}/o")
query = flow.start(on=spark, workers=2, **with_options(given, ps.QueryOptions(min_workers=2 if dies else 1)))
if dies:
    until(lambda: "1 of 2 workers have started" in query.status["message"])
    os.kill(os.getpid(), signal.SIGKILL)
until(lambda: query.epoch >= 0)
query.stop()
spark.stop()
"""


@pytest.mark.long
def test_a_driver_that_is_killed_while_its_workers_form_leaves_a_checkpoint_to_resume_from(
    tmp_path: Path,
) -> None:
    put(tmp_path / "in", "0", {"word": WORDS})
    for how, code in (("dies", -9), ("lives", 0)):
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, str(tmp_path), how],
            env={**os.environ, "PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path])},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3_000:]
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([WORDS])


def test_too_few_slots_and_unknown_words_are_rejected_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    places: dict[str, Any] = {"checkpoint": str(tmp_path / "c"), "output": str(tmp_path / "o")}
    words = ps.io.files(tmp_path)
    with pytest.raises(FlowError, match=r"3 workers were requested, but Spark has 2 slots"):
        counting().start(on=spark, words=words, workers=4, options=ps.QueryOptions(min_workers=3), **places)
    with pytest.raises(FlowError, match=r"rescale='sometimes' is not known. Give one of 'restart', 'eager'"):
        counting().start(on=spark, words=words, options=ps.QueryOptions(rescale="sometimes"), **places)  # type: ignore[arg-type]
    assert not (tmp_path / "c").exists()
