"""Queries on Spark that are disturbed: what was published stays right, the query continues or says why not.

Families, and what only each can find:
- *workers*: Python processes that are killed or stopped, and exceptions of the user's, once and always; only
  real signals find a slot that stays taken and a task that Spark cannot end;
- *inputs*: Structured Streaming that fails, or that somebody else stops;
- *disk*: a store that is full for a moment;
- *drivers*: a second one on the same checkpoint, one that is killed, one that stops while Spark still looks
  for slots.
After each, the session must be usable: the last one of a family runs a flow on all slots.
"""

import errno
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.connectors.sink import Epochs, Publisher, Staged, Writer
from pointstamp.errors import FencedError, FlowError, OperatorError, RecoveryError
from pointstamp.spark.input_log import start_patiently
from support.options import with_options
from support.streams import (
    SECONDS_MAX,
    counts_by_epoch,
    last_counts,
    published_by_epoch,
    put,
    until,
    words_flow,
)

pytestmark = pytest.mark.spark

OFTEN = ps.RestartPolicy(restarts_max=50, pause_seconds=0.01, pause_seconds_max=0.1)


@contextmanager
def started(
    spark: SparkSession,
    folder: Path,
    flow: ps.Dataflow | None = None,
    **options: Any,  # noqa: ANN401 - those of ``start``
) -> Iterator[ps.Query]:
    """A query on the files of a folder, which is stopped in any case."""
    (folder / "in").mkdir(exist_ok=True)
    given = {"words": ps.io.files(folder / "in"), "checkpoint": f"{folder}/c", "output": f"{folder}/o"}
    # Nobody is taken for dead who only waits for the machine, unless a test stops a process.
    patient = {"restarts": OFTEN, "silence_seconds_max": SECONDS_MAX}
    query = (flow or words_flow("words")).start(on=spark, **with_options({**patient, **given, **options}))
    try:
        yield query
    finally:
        query.stop(finish=False)


def all_slots_are_free(spark: SparkSession) -> bool:
    """Whether a flow can run on both; it would wait for ever for one that is taken."""
    frame = spark.createDataFrame([("a",), ("b",)], "word string")
    flow = words_flow("words")
    return bool(flow.run(on=spark, words=frame, workers=2)["counts"].count() == 2)


def disturb(query: ps.Query, folder: Path, sent: list[list[str]], number: int, sign: int) -> None:
    """Send a signal to so many workers, and see epochs come again."""
    before = query.restarts
    for _, pid in query.workers()[:number]:
        os.kill(pid, sign)
    until(lambda: query.restarts > before)
    sent.append(["a", f"w{len(sent)}"])
    put(folder / "in", f"{len(sent) - 1:04d}", {"word": sent[-1]})
    until(lambda: query.epoch >= len(sent) - 1)


# Workers.


def test_killed_and_stopped_workers_cost_no_epoch_and_no_row(spark: SparkSession, tmp_path: Path) -> None:
    sent = [["a", "b"]]
    put(tmp_path / "in", "0000", {"word": sent[0]})
    with started(spark, tmp_path, workers=2, silence_seconds_max=2.0) as query:
        until(lambda: query.epoch >= 0)
        disturb(query, tmp_path, sent, 1, signal.SIGKILL)
        disturb(query, tmp_path, sent, 2, signal.SIGKILL)
        disturb(query, tmp_path, sent, 1, signal.SIGSTOP)
        assert query.restarts >= 3
        assert len(query.recovery_seconds) >= 3
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(sent)
    assert all_slots_are_free(spark)


def test_a_worker_that_is_stuck_in_native_code_ends_and_copies_of_one_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    flag.touch()

    def disturb(batch: pa.RecordBatch) -> pa.RecordBatch:
        if flag.exists():
            flag.unlink()
            re.match(r"(a+)+$", "a" * 60 + "b")
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)  # the copy ends as soon as it returns
        return batch

    flow = ps.Dataflow("stuck")
    words = flow.stream_input("words", "word string").map_batches(disturb).named("match")
    flow.output("counts", words.group_by("word", running=True).count())
    put(tmp_path / "in", "0", {"word": ["a", "b"]})
    with started(spark, tmp_path, flow, workers=2, silence_seconds_max=3.0) as query:
        until(lambda: query.epoch >= 0)
        assert query.restarts == 1
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a", "b"]])


def failing(flag: Path) -> ps.Dataflow:
    """Counts words, and fails as long as a file is there that the first failure removes, unless it cannot."""

    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        if flag.is_file():
            flag.unlink()
            raise ZeroDivisionError("once")
        if flag.is_dir():
            raise ZeroDivisionError("always")
        return batch

    flow = ps.Dataflow("fails")
    words = flow.stream_input("words", "word string").map_batches(fail).named("divide")
    flow.output("counts", words.group_by("word", running=True).count())
    return flow


def test_an_exception_that_comes_once_costs_a_restart_and_one_that_comes_always_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    put(tmp_path / "in", "0", {"word": ["a"]})
    with started(spark, tmp_path, failing(flag), workers=2) as query:
        until(lambda: query.epoch >= 0)
        assert query.restarts == 1
        flag.mkdir()
        put(tmp_path / "in", "1", {"word": ["b"]})
        with pytest.raises(OperatorError, match=r"operator 'divide' .* ZeroDivisionError: always") as caught:
            query.await_termination(SECONDS_MAX)
        assert query.exception() is caught.value
        assert "test_start_failures.py" in str(caught.value), "the user's line"
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a"]])
    assert all_slots_are_free(spark)


# Inputs.


def test_a_stream_that_cannot_be_read_ends_the_query_with_the_inputs_name_and_what_was_read_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "stream", "0", {"word": ["a", "b"]})
    words = spark.readStream.schema("word string").parquet(str(tmp_path / "stream"))
    with started(spark, tmp_path, words=words) as query:
        query.process_all_available()
        (tmp_path / "stream" / "1.parquet").write_bytes(b"PAR1, and nothing else that Parquet has, PAR1")
        until(lambda: not query.is_active)  # by itself: nobody waits for it
        with pytest.raises(
            FlowError, match=r"input 'words': Structured Streaming .* reading file .*1.parquet"
        ):
            query.await_termination()
        with pytest.raises(FlowError, match="input 'words'"):
            query.process_all_available()
    assert last_counts(published_by_epoch(tmp_path / "o", "counts")) == {"a": 1, "b": 1}
    assert not spark.streams.active
    (tmp_path / "stream" / "1.parquet").unlink()
    put(tmp_path / "stream", "1", {"word": ["b"]})
    with started(spark, tmp_path, words=words) as query:
        query.process_all_available()
        assert last_counts(published_by_epoch(tmp_path / "o", "counts")) == {"a": 1, "b": 2}
        for other in spark.streams.active:
            other.stop()
        with pytest.raises(FlowError, match=r"input 'words': .* another program has stopped its query"):
            query.await_termination(SECONDS_MAX)
    assert all_slots_are_free(spark)


class Stranger:
    """Something that travels as a name, which only the driver knows."""

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, ("nowhere",)


def test_workers_that_can_never_start_are_not_started_again_and_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    stranger = Stranger()
    flow = ps.Dataflow("strange")
    words = flow.stream_input("words", "word string").map_batches(
        lambda batch: batch.slice(len(str(stranger)))
    )
    flow.output("words", words)
    with started(spark, tmp_path, flow, workers=1) as query:
        with pytest.raises(FlowError, match="the Python of the executors has no package 'nowhere'"):
            query.await_termination(SECONDS_MAX)
        assert query.restarts <= 2


# Disk.


def full_once(inner: ps.ports.Sink, flag: Path) -> ps.ports.Sink:
    """A sink whose disk is full as long as a file is there, which the first to find it full removes.

    Its classes are made here, so that they travel to the workers, which cannot import this file.
    """

    @dataclass(frozen=True)
    class Full:
        inner: ps.ports.Sink

        def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "Full":
            return Full(self.inner.for_query(query, schemas))

        def writer(self, worker: int, generation: int) -> "FullWriter":
            return FullWriter(self.inner.writer(worker, generation))

        def publisher(self) -> Publisher:
            return self.inner.publisher()

    @dataclass(frozen=True)
    class FullWriter:
        inner: Writer

        def stage(self, output: str, epochs: Epochs) -> list[Staged]:
            if flag.exists():
                flag.unlink()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.inner.stage(output, epochs)

    return Full(inner)


def test_a_disk_that_is_full_for_a_moment_costs_a_restart_and_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "full").touch()
    put(tmp_path / "in", "0", {"word": ["a", "b"]})
    sink = full_once(ps.io.ParquetSink(f"{tmp_path}/o"), tmp_path / "full")
    with started(spark, tmp_path, workers=1, output=sink) as query:
        until(lambda: query.epoch >= 0)
        assert query.restarts == 1
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a", "b"]])


# Drivers.


def test_another_flow_on_a_checkpoint_is_refused_and_its_stream_does_not_run_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "stream", "0", {"word": ["a", "b"]})
    words = spark.readStream.schema("word string").parquet(str(tmp_path / "stream"))
    with started(spark, tmp_path, words=words, available_now=True) as query:
        query.await_termination(SECONDS_MAX)
    with (
        pytest.raises(RecoveryError, match="the checkpoint belongs to another flow: operator count"),
        started(spark, tmp_path, failing(tmp_path / "none"), words=words),
    ):
        pass
    assert not spark.streams.active
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a", "b"]])


def test_a_second_query_on_a_checkpoint_takes_over_and_the_first_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", "0", {"word": ["a"]})
    with started(spark, tmp_path, workers=1) as first:
        until(lambda: first.epoch >= 0)
        with started(spark, tmp_path, workers=1) as second:
            put(tmp_path / "in", "1", {"word": ["a"]})
            with pytest.raises(FencedError, match="newer"):
                first.awaitTermination(SECONDS_MAX)
            until(lambda: second.epoch >= 1)
            assert (first.id, first.generation < second.generation) == (second.id, True)
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch([["a"], ["a"]])


@pytest.mark.long
def test_a_query_that_waits_for_slots_can_be_stopped_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    put(tmp_path / "in", "0", {"word": ["a"]})
    with started(spark, tmp_path, workers=2) as first:
        until(lambda: first.epoch >= 0)
        with started(spark, tmp_path / "other", workers=2) as second:
            until(lambda: second.status["message"] == "starting workers")
            second.stop(finish=False, timeout=SECONDS_MAX)
            assert not second.isActive
        put(tmp_path / "in", "1", {"word": ["a"]})
        until(lambda: first.epoch >= 1)
    assert all_slots_are_free(spark)


DRIVER = """
import sys
from pyspark.sql import SparkSession
import pointstamp as ps
from support.streams import until, words_flow

folder = sys.argv[1]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
query = words_flow("words").start(
    on=spark, words=ps.io.files(f"{folder}/in"), checkpoint=f"{folder}/c", output=f"{folder}/o", workers=1
)
until(lambda: query.epoch >= 1)
print("published", query.id, flush=True)
query.await_termination()
"""


@pytest.mark.long
def test_a_query_whose_driver_was_killed_goes_on_in_another_with_other_workers(
    spark: SparkSession, tmp_path: Path
) -> None:
    sent = [["a", "b"], ["a"]]
    for number, words in enumerate(sent):
        put(tmp_path / "in", str(number), {"word": words})
    tests = Path(__file__).parent.parent
    with (tmp_path / "said").open("wb") as said:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": str(tests), "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
    try:
        assert driver.stdout is not None
        assert select.select([driver.stdout], [], [], SECONDS_MAX)[0], "the driver does not publish"
        first = driver.stdout.readline().split()
        assert first[:1] == ["published"], (tmp_path / "said").read_text()[-4_000:]
    finally:
        driver.kill()
        driver.communicate(timeout=SECONDS_MAX)
    sent.append(["b", "c"])
    put(tmp_path / "in", "2", {"word": sent[-1]})
    with started(spark, tmp_path, workers=2) as query:
        query.process_all_available()
        assert query.id == first[1]
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(sent)


def test_structured_streaming_is_started_again_where_python_was_too_slow_for_spark() -> None:
    slow = RuntimeError("[STREAM_FAILED] Python worker failed to connect back.")
    answers: list[object] = [slow, slow, "a query"]

    def start() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert start_patiently(start, "input 'words'") == "a query"
    answers[:] = [slow] * 9
    with pytest.raises(FlowError, match=r"'words': Structured Streaming could not start: Python worker"):
        start_patiently(start, "input 'words'")
    answers[:] = [RuntimeError("there is no such table"), "a query"]
    with pytest.raises(FlowError, match="no such table"):
        start_patiently(start, "input 'words'")
