"""Interrupts of the keyboard, wherever they come: no job stays behind, and the next run works.

Families, and what only each can find:
- errands with a session that answers from a table: jobs that are submitted after they were cancelled, and
  connections that are lost, come in an order that no real session can be made to keep;
- a real session: a gang that never ends by itself is gone after an interrupt, as is said by Spark, and what
  the thread of the user was told about jobs holds for those of the errand.

Interrupts are signals to this process, sent when it is known where it is; the handler is Python's own, as in
the kernel of a notebook.
"""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.spark.errand import Errand, _undisturbed, fetch

SECONDS_MAX = 120.0


@pytest.fixture(autouse=True)
def _pythons_own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class _Context:
    """What an errand asks of a session: jobs by tag, here one, that is killed where it is found."""

    def __init__(self, *, failures: int = 0) -> None:
        self.failures_left = failures
        self.asked = threading.Event()
        self.is_submitted = False
        self.killed = threading.Event()
        self.tags: list[str] = []

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.tags.append(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        assert tag in self.tags
        if self.failures_left:
            self.failures_left -= 1
            raise ConnectionError("Answer from Java side is empty")
        if self.is_submitted:
            self.killed.set()
        self.asked.set()


class _Session:
    def __init__(self, context: _Context) -> None:
        self.sparkContext = context


def session(context: _Context) -> SparkSession:
    return cast("SparkSession", _Session(context))


def job(context: _Context) -> None:
    """Submit a job that ends when it is killed."""
    context.is_submitted = True
    assert context.killed.wait(SECONDS_MAX)
    raise ConnectionAbortedError("the job was cancelled")


def test_what_the_work_returns_or_raises_comes_back() -> None:
    assert fetch(session(_Context()), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError, match="division or modulo by zero"):
        fetch(session(_Context()), lambda: 1 // 0)


def test_a_job_that_is_submitted_after_it_was_cancelled_is_cancelled_again() -> None:
    context = _Context()

    def submit_late() -> None:
        assert context.asked.wait(SECONDS_MAX)
        job(context)

    errand = Errand(session(context), submit_late)
    errand.send()
    until(lambda: context.tags)
    errand.cancel()
    assert errand.has_ended(SECONDS_MAX)
    assert isinstance(errand.error, ConnectionAbortedError)


def test_a_job_is_cancelled_also_where_the_first_calls_are_lost() -> None:
    context = _Context(failures=3)
    errand = Errand(session(context), lambda: job(context))
    errand.send()
    until(lambda: context.is_submitted)
    errand.cancel()
    assert errand.has_ended(SECONDS_MAX)


def test_a_job_whose_waiting_call_has_lost_its_connection_is_cancelled() -> None:
    context = _Context(failures=2)

    def lose() -> None:
        context.is_submitted = True
        raise ConnectionResetError("the call is lost, the job is not")

    with pytest.raises(ConnectionResetError, match="the call is lost, the job is not"):
        fetch(session(context), lose)
    assert context.killed.is_set()


def test_an_errand_that_is_cancelled_before_it_begins_does_nothing() -> None:
    done: list[int] = []
    errand = Errand(session(_Context()), lambda: done.append(1))
    errand._is_cancelled = True
    errand.send()
    assert errand.has_ended(SECONDS_MAX)
    assert done == []


def test_an_interrupt_ends_the_wait_and_the_job() -> None:
    context = _Context()

    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        job(context)

    with pytest.raises(KeyboardInterrupt):
        fetch(session(context), interrupted)
    assert context.killed.is_set()


def test_an_interrupt_in_the_middle_of_a_short_call_comes_after_it() -> None:
    calls: list[str] = []

    def call() -> None:
        with _undisturbed():
            signal.raise_signal(signal.SIGINT)
            calls.append("ended")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert calls == ["ended"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def until(condition: Any) -> None:  # noqa: ANN401 - any question
    deadline = monotonic() + SECONDS_MAX
    while not condition():
        assert monotonic() < deadline
        sleep(0.01)


@pytest.mark.spark
def test_a_gang_is_gone_after_an_interrupt_and_the_next_run_works(
    spark: SparkSession, tmp_path: Path
) -> None:
    told_at = str(tmp_path / "told")
    os.mkfifo(told_at)

    def wait_for_ever(batch: pa.RecordBatch) -> pa.RecordBatch:
        os.close(os.open(told_at, os.O_WRONLY))
        while True:
            sleep(0.05)

    def interrupt() -> None:
        with open(told_at, "rb"):
            os.kill(os.getpid(), signal.SIGINT)

    flow = ps.Dataflow("waits")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(wait_for_ever))
    numbers = spark.range(0, 1, 1, 1).selectExpr("id as x")
    out = tmp_path / "out"
    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        flow.run(on=spark, numbers=numbers, output=out)
    watcher.join(SECONDS_MAX)
    # Spark's own count follows what has happened a moment later.
    until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())
    assert not [each for each in out.rglob("*") if each.is_file()]

    sound = ps.Dataflow("sound")
    sound.output("out", sound.stream_input("numbers", "x long"))
    rows = sound.run(on=spark, numbers=numbers, output=out)["out"].collect()
    assert [(row.epoch, row.x) for row in rows] == [(0, 0)]


@pytest.mark.spark
def test_an_errand_has_the_local_properties_of_the_thread_that_sends_it(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "mine")
    try:
        assert fetch(spark, lambda: context.getLocalProperty("spark.scheduler.pool")) == "mine"
    finally:
        context.setLocalProperty("spark.scheduler.pool", cast("str", None))
