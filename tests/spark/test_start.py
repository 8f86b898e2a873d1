"""Queries on Spark that nothing disturbs: streams in, whole epochs out, each once.

Families, and what only each can find:
- *inputs*: streaming DataFrames, DataFrames, sources of files, silent and ended ones together, compared with
  counts of the files; only these find an input that holds the others back, or a batch that is taken twice;
- *again*: ended and started again, also from a copy of the checkpoint: the same rows in the same epochs;
- *epochs*: who says himself when an epoch is complete, and rows that come too late;
- *query*: what the user's handle says, and that nothing is left when it has ended;
- *refusals*: what cannot work is said before anything starts.
"""

import random
import shutil
import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.connectors.source import Part, Unit
from pointstamp.errors import FlowError
from pointstamp.spark import frames
from pointstamp.spark.failures import cause_in_words
from pointstamp.spark.input_log import StreamLog, WriteBatch
from support.dated import Case
from support.streams import (
    SECONDS_MAX,
    components_flow,
    counts_by_epoch,
    labels_by_epoch,
    last_counts,
    published_by_epoch,
    put,
    until,
    words_flow,
)

pytestmark = pytest.mark.spark

RARELY = ps.SnapshotPolicy(epochs=1_000, seconds=3_600.0)
OBJECTS_MAX = 1_500


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir(parents=True, exist_ok=True)
    # Without a history of the files it has read, which would be searched at every batch.
    return spark.readStream.schema("word string").option("maxFilesPerTrigger", 2).parquet(str(folder))


def our_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("pointstamp")]


def nothing_runs(spark: SparkSession) -> bool:
    """Whether no job, no stream and no thread of ours is left; Spark says so of a job a little later."""
    tracker = spark.sparkContext.statusTracker()
    return not tracker.getActiveJobsIds() and not spark.streams.active and not our_threads()


# Inputs.


def test_streams_a_table_and_silent_ones_are_counted_together_and_none_holds_the_others_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = words_flow("old words", "fixed", "silent")
    put(tmp_path / "in", "0", {"word": ["a", "b", "a"]})
    query = flow.start(
        {
            "old words": stream(spark, tmp_path / "in"),
            "fixed": spark.createDataFrame([("a",), ("z",)], "word string"),
            "silent": stream(spark, tmp_path / "silent"),
        },
        on=spark,
        checkpoint=f"file://{tmp_path}/check point",
        output=str(tmp_path / "out put"),
    )
    try:
        query.process_all_available()
        assert last_counts(published_by_epoch(tmp_path / "out put", "counts")) == {"a": 3, "b": 1, "z": 1}
        put(tmp_path / "in", "1", {"word": ["b", "c"]})
        put(tmp_path / "in", "2", {"word": []})
        query.process_all_available()
        found = published_by_epoch(tmp_path / "out put", "counts")
        assert last_counts(found) == {"a": 3, "b": 2, "c": 1, "z": 1}
        assert {row for epoch in found if epoch > min(found) for row in found[epoch]} >= {("b", 2), ("c", 1)}
        assert query.why("counts"), "an input that may still bring rows holds its next epoch open"
    finally:
        query.stop()
    until(lambda: nothing_runs(spark))
    again = frames.read(spark, str(tmp_path / "out put"))["counts"]
    assert sorted(map(tuple, again.collect())) == [(e, *row) for e, rows in found.items() for row in rows]


def test_every_row_of_a_rate_source_is_published_once(spark: SparkSession, tmp_path: Path) -> None:
    flow = ps.Dataflow("rate")
    flow.output("values", flow.stream_input("values", "value long").exchange("value"))
    rate = spark.readStream.format("rate").option("rowsPerSecond", 100).option("numPartitions", 1).load()
    query = flow.start(on=spark, values=rate, checkpoint=str(tmp_path / "c"), output=str(tmp_path / "o"))
    try:
        until(lambda: len(published_by_epoch(tmp_path / "o", "values")) >= 2)
    finally:
        query.stop()
    values = [row[0] for rows in published_by_epoch(tmp_path / "o", "values").values() for row in rows]
    assert sorted(values) == list(range(len(values)))


def test_components_of_files_on_two_workers_are_those_of_scipy_after_every_epoch(
    spark: SparkSession, tmp_path: Path
) -> None:
    chosen = random.Random(5)
    batches = [[(chosen.randrange(80), chosen.randrange(80)) for _ in range(12)] for _ in range(8)]
    for number, edges in enumerate(batches):
        src, dst = zip(*edges, strict=True)
        put(tmp_path / "in", f"{number:04d}", {"src": src, "dst": dst})
    query = components_flow().start(
        on=spark,
        edges=ps.io.files(tmp_path / "in"),
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        workers=2,
        available_now=True,
    )
    query.await_termination()
    assert published_by_epoch(tmp_path / "o", "components") == labels_by_epoch(batches)


# Again.


def test_what_is_there_now_is_taken_and_the_query_ends_and_takes_the_rest_when_started_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the executors run elsewhere: a relative path must mean this one

    def start() -> ps.Query:
        return words_flow("stream", "files").start(
            on=spark,
            stream=stream(spark, tmp_path / "stream"),
            files=ps.io.files("files"),
            checkpoint="c",
            output="o",
            available_now=True,
        )

    put(tmp_path / "stream", "0", {"word": ["a"]})
    put(tmp_path / "files", "0", {"word": ["a", "b"]})
    first = start()
    first.awaitTermination()
    assert last_counts(published_by_epoch("o", "counts")) == {"a": 2, "b": 1}
    put(tmp_path / "stream", "1", {"word": ["b"]})
    put(tmp_path / "files", "1", {"word": ["c"]})
    second = start()
    second.awaitTermination()
    assert last_counts(published_by_epoch("o", "counts")) == {"a": 2, "b": 2, "c": 1}
    assert (first.id, first.runId != second.runId, second.generation) == (second.id, True, 2)
    assert len(list((tmp_path / "c/log/stream").glob("finished-*"))) <= 1
    until(lambda: nothing_runs(spark))


def test_a_copy_of_the_checkpoint_takes_the_same_rows_into_the_same_epochs(
    spark: SparkSession, tmp_path: Path
) -> None:
    def start(where: str, snapshots: ps.SnapshotPolicy | None = None) -> ps.Query:
        return words_flow("words").start(
            on=spark,
            words=stream(spark, tmp_path / "in"),
            checkpoint=str(tmp_path / where),
            output=str(tmp_path / f"out-{where}"),
            options=ps.QueryOptions(snapshots=snapshots),
        )

    for number in range(5):
        put(tmp_path / "in", str(number), {"word": ["a", f"w{number}"]})
    query = start("first", RARELY)
    until(lambda: query.status["message"] in ("working", "waiting for data"))  # there is somebody to ask
    until(lambda: query.progress().inputs[0].rows == 10)  # read, and not saved
    query.stop(finish=False)
    assert published_by_epoch(tmp_path / "out-first", "counts") == {}
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    for where in ("first", "second"):
        query = start(where)
        query.process_all_available()
        query.stop()
    found = published_by_epoch(tmp_path / "out-first", "counts")
    assert len(found) >= 2  # what was read and never saved may come into fewer epochs, the same in both
    assert found == published_by_epoch(tmp_path / "out-second", "counts")


# Epochs.


def test_epochs_of_a_column_are_complete_when_it_is_said_and_later_rows_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", "0", {"word": ["a", "b", "a"], "day": [0, 1, 1]})
    query = words_flow("words").start(
        on=spark,
        words=ps.io.files(tmp_path / "in"),
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        workers=2,
        options=ps.QueryOptions(epoch="day"),
    )
    try:
        query.process_all_available()  # taken, and in epochs that nobody has closed
        assert query.epoch == -1
        query.advance("words", 1)
        until(lambda: query.epoch >= 0)
        assert published_by_epoch(tmp_path / "o", "counts") == {0: [("a", 1)]}
        query.advance("words", 2)
        until(lambda: query.epoch >= 1)
        assert published_by_epoch(tmp_path / "o", "counts")[1] == [("a", 2), ("b", 1)]
        with pytest.raises(
            FlowError, match="already advanced to epoch 2, so it cannot be advanced to epoch 1"
        ):
            query.advance("words", 1)
        put(tmp_path / "in", "1", {"word": ["late"], "day": [0]})
        with pytest.raises(FlowError, match=r"input 'words' has a row of epoch 0 .* Advance the input later"):
            query.await_termination(SECONDS_MAX)
    finally:
        query.stop()
    assert list(published_by_epoch(tmp_path / "o", "counts")) == [0, 1]


def test_a_declared_epoch_column_stays_in_the_rows_of_streams_that_are_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = Case("again", "int", [[(3, 30), (0, 10), (1, 10)], [(2, 10), (3, 30), (5, 7)]])
    flow, names = case.flow(), list(case.expected())

    def arrive(number: int) -> None:
        rows = case.items[number]
        for name, table in (("sales", case.sales(rows)), ("visits", case.visits(rows))):
            put(tmp_path / name, str(number), dict(zip(table.column_names, table.columns, strict=True)))

    def start(*, available_now: bool) -> ps.Query:
        return flow.start(
            on=spark,
            sales=spark.readStream.schema("day int, amount long").parquet(str(tmp_path / "sales")),
            visits=ps.io.files(tmp_path / "visits"),
            checkpoint=tmp_path / "c",
            output=tmp_path / "o",
            workers=1,
            available_now=available_now,
            options=ps.QueryOptions(epoch="day"),
        )

    arrive(0)
    query = start(available_now=False)
    try:
        query.process_all_available()  # only what was taken may be of epochs that are then complete
        query.advance("sales", 2)
        query.advance("visits", 2)
        until(lambda: query.epoch >= 1)
    finally:
        query.stop(finish=False)
    arrive(1)
    start(available_now=True).awaitTermination()
    assert {name: published_by_epoch(tmp_path / "o", name) for name in names} == case.expected()


# Query.


def test_a_query_says_who_it_is_what_it_does_and_what_its_outputs_wait_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path / "in", "0", {"word": ["a", "b"]})
    query = words_flow("words").start(
        on=spark,
        words=ps.io.files(tmp_path / "in"),
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        workers=2,  # files alone leave every slot to the workers
    )
    try:
        query.process_all_available()
        assert (query.name, query.is_active, query.exception(), query.epoch) == ("words", True, None, 0)
        until(lambda: query.status["message"] == "waiting for data")
        assert query.last_progress is not None
        assert query.last_progress == query.recent_progress[-1]
        assert query.last_progress["rowsIn"] == {"words": 2}
        assert query.await_termination(0.1) is False
        assert query.frontiers() == {"counts": [(1,)]}
        assert "'words'" in " ".join(query.why("counts"))
        with pytest.raises(FlowError, match="has no output 'count'; it has 'counts'"):
            query.why("count")
        assert len({pid for _, pid in query.workers()}) == 2
        put(tmp_path / "in", "1", {"word": ["a"]})
        assert query.snapshot(SECONDS_MAX) >= 0
    finally:
        query.stop()
    assert (query.is_active, query.await_termination(), query.await_termination(1)) == (False, None, True)
    assert published_by_epoch(tmp_path / "o", "counts") in (
        counts_by_epoch([["a", "b"]]),
        counts_by_epoch([["a", "b"], ["a"]]),  # it was seen before the end or was not
    )
    until(lambda: nothing_runs(spark))


@pytest.mark.long
def test_after_hundreds_of_epochs_the_checkpoint_has_no_more_objects_than_after_a_few_hundred(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [[f"w{number % 7}"] for number in range(650)]
    for number, words in enumerate(batches):
        put(tmp_path / "in", f"{number:06d}", {"word": words})
    query = words_flow("words").start(
        on=spark,
        words=ps.io.files(tmp_path / "in", in_order=True),
        checkpoint=str(tmp_path / "c"),
        output=str(tmp_path / "o"),
        workers=1,
        available_now=True,
    )
    query.await_termination()
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(batches)
    assert sum(each.is_file() for each in (tmp_path / "c").rglob("*")) < OBJECTS_MAX


def test_a_batch_that_is_needed_no_more_leaves_nothing_in_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = StreamLog("words", stream(spark, tmp_path / "in"), f"file://{tmp_path}/c", available_now=False)
    folder = tmp_path / "c/log/words"
    write = WriteBatch(f"file://{folder}")
    for number in range(2):
        write(spark.createDataFrame([("a",)], "word string"), number)
    before = sorted(each.name for each in folder.iterdir())
    write(spark.createDataFrame([("b",)], "word string"), 1)  # again, as Spark does after a failure
    assert sorted(each.name for each in folder.iterdir()) == before
    for marker in sorted(folder.glob("*.done")):
        parts = tuple(Part(name, (folder / name).stat().st_size) for name in marker.read_text().split())
        assert parts
        log.forget([Unit(marker.name, parts)])
    log.forget([Unit("batch-000000000000.done", ())])  # a driver that died in between does it again
    assert [each.name for each in folder.iterdir()] == ["_log"]


# Refusals.


def test_a_stream_needs_a_slot_beside_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"2 slots, .* and Structured Streaming needs one more"):
        words_flow("words").start(
            on=spark,
            words=stream(spark, tmp_path / "in"),
            checkpoint=str(tmp_path / "c"),
            output=str(tmp_path / "o"),
            workers=2,
            options=ps.QueryOptions(min_workers=2),
        )
    assert not (tmp_path / "c").exists()


def test_an_input_that_streamed_is_not_taken_for_a_table_of_the_same_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    StreamLog("words", stream(spark, tmp_path / "in"), f"file://{tmp_path}/c", available_now=False)
    with pytest.raises(FlowError, match="'words' is a DataFrame that does not stream, but was a streaming"):
        words_flow("words").start(
            on=spark,
            words=spark.createDataFrame([("a",)], "word string"),
            checkpoint=str(tmp_path / "c"),
            output=str(tmp_path / "o"),
        )


def test_what_spark_says_of_a_failed_stream_comes_down_to_one_line() -> None:
    wrapped = "[STREAM_FAILED] Query [id = 1] terminated with exception: [FAILED_READ_FILE.NO_HINT] "
    assert (
        cause_in_words(wrapped + "cannot read a.  SQLSTATE: KD001\n\tat b.c(D.scala:1)") == "cannot read a."
    )
    assert cause_in_words("no condition\nat all") == "no condition."
