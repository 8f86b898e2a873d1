"""``flow.stream(..., on=spark)``: the epochs of a flow on Spark, one after the other.

Families, and what only each can find:
- *epochs*: DataFrames, streams and files, compared with counts of what was put there; only these find an
  epoch that is yielded twice, in parts, or not at all, also where a worker is killed on the way;
- *ends*: by ``break``, by an error of the flow, and by the end of the inputs: nothing runs, and no file is
  left;
- *memory*: a loop that is slow holds back the query, and not only the rows;
- *rejections*: options that mean nothing here.
"""

import os
import pickle
import signal
import tempfile
import threading
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Staged
from pointstamp.errors import FlowError
from pointstamp.query.policy import EPOCHS_IN_FLIGHT_MAX
from pointstamp.spark.epoch_stream import Handover, HandoverSink
from support.streams import Rows, counts_by_epoch, put, until, words_flow

pytestmark = pytest.mark.spark


def files_stream(spark: SparkSession, folder: Path) -> DataFrame:
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema("word string").parquet(str(folder))


def rows(table: pa.Table) -> Rows:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def nothing_runs(spark: SparkSession) -> bool:
    ours = [each for each in threading.enumerate() if each.name.startswith("pointstamp")]
    return not spark.sparkContext.statusTracker().getActiveJobsIds() and not spark.streams.active and not ours


def left_in(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


# Epochs.


def test_epochs_of_a_dataframe_are_yielded_in_order_and_the_files_between_are_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    days = [(day, f"w{number % 5}") for number in range(60) for day in (20240131 + number % 7 * 100,)]
    by_day = {day: [word for other, word in days if other == day] for day in sorted({day for day, _ in days})}
    frame = spark.createDataFrame(days, "day long, word string").repartition(3)
    found = words_flow("words").stream(frame, on=spark, epoch="day", folder=tmp_path, workers=2)
    expected = dict(zip(by_day, counts_by_epoch(by_day.values()).values(), strict=True))
    assert [(epoch, rows(tables["counts"])) for epoch, tables in found] == list(expected.items())
    assert left_in(tmp_path) == []


def test_an_output_without_rows_in_an_epoch_has_an_empty_table_of_the_same_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    flow = ps.Dataflow("split")
    few, many = flow.stream_input("n", "n long").split(ps.col("n") < 2)
    flow.output("few", few)
    flow.output("many", many)
    frame = spark.createDataFrame([(0, 1), (1, 5), (1, 6)], "day long, n long")
    found = list(flow.stream(n=frame, on=spark, epoch="day"))
    assert [(epoch, {name: rows(each) for name, each in tables.items()}) for epoch, tables in found] == [
        (0, {"few": [(1,)], "many": []}),
        (1, {"few": [], "many": [(5,), (6,)]}),
    ]
    assert len({tables["few"].schema for _, tables in found}) == 1


def test_epochs_of_a_streaming_dataframe_are_yielded_while_it_goes_on_and_break_ends_everything(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = [["a", "b", "a"], ["b"], ["c", "a"]]
    put(tmp_path / "in", "0", {"word": batches[0]})
    found: list[Rows] = []
    numbers: list[int] = []
    words = files_stream(spark, tmp_path / "in")
    for epoch, tables in words_flow("words").stream(words, on=spark, folder=tmp_path / "between"):
        numbers.append(epoch)
        found.append(rows(tables["counts"]))
        if len(found) == len(batches):
            break
        put(tmp_path / "in", str(len(found)), {"word": batches[len(found)]})
    assert found == list(counts_by_epoch(batches).values())
    assert numbers == sorted(set(numbers))
    until(lambda: nothing_runs(spark))
    assert left_in(tmp_path / "between") == []


def test_a_killed_worker_repeats_no_epoch_and_loses_none(spark: SparkSession, tmp_path: Path) -> None:
    died = tmp_path / "died"

    def dies_once(batch: pa.RecordBatch) -> pa.RecordBatch:
        if "w13" in batch.column("word").to_pylist() and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    flow = ps.Dataflow("dies")
    words = flow.stream_input("words", "word string").map_batches(dies_once, "word string")
    flow.output("words", words.exchange("word"))
    for number in range(24):
        put(tmp_path / "in", f"{number:02d}", {"word": [f"w{number}"] * 2})
    found: dict[int, Rows] = {}
    source = ps.io.files(tmp_path / "in", units_per_tick=1)
    for epoch, tables in flow.stream(words=source, on=spark, workers=2, verify=True):
        assert epoch not in found
        found[epoch] = rows(tables["words"])
        if len(found) == 24:
            break
    assert died.exists()
    assert list(found.values()) == [[(f"w{number}",)] * 2 for number in range(24)]


# Ends.


def test_a_run_of_sources_that_end_ends_and_leaves_no_temporary_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    put(tmp_path / "in", "0", {"word": ["a", "b"]})
    (tmp_path / "in" / "end").touch()
    source = ps.io.files(tmp_path / "in", pattern="*.parquet", until="end")
    fixed = spark.createDataFrame([("a",)], "word string")
    seen = [
        rows(each["counts"])
        for _, each in words_flow("files", "fixed").stream(files=source, fixed=fixed, on=spark)
    ]
    counts: dict[str, int] = {}
    for epoch in seen:
        counts.update(dict(epoch))
    assert counts == {"a": 2, "b": 1}
    assert not list((tmp_path / "temporary").glob("pointstamp-*"))


def test_an_error_of_the_flow_is_raised_after_the_epochs_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        if "bad" in batch.column("word").to_pylist():
            raise ValueError("not this word")
        return batch

    flow = ps.Dataflow("fails")
    flow.output("words", flow.stream_input("words", "word string").map_batches(fails, "word string"))
    put(tmp_path / "in", "0", {"word": ["good"]})
    seen: list[Rows] = []

    def iterate() -> None:
        source = ps.io.files(tmp_path / "in", units_per_tick=1)
        for _, tables in flow.stream(words=source, on=spark, folder=tmp_path / "between"):
            seen.append(rows(tables["words"]))
            put(tmp_path / "in", "1", {"word": ["bad"]})

    with pytest.raises(FlowError, match="not this word"):
        iterate()
    assert seen == [[("good",)]]
    assert left_in(tmp_path / "between") == []
    until(lambda: nothing_runs(spark))


# Memory.


def test_a_slow_loop_holds_the_query_back(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(250):
        put(tmp_path / "in", f"{number:03d}", {"word": [f"w{number}"]})
    source = ps.io.files(tmp_path / "in", units_per_tick=1)
    flow = ps.Dataflow("slow")
    flow.output("words", flow.stream_input("words", "word string"))
    epochs = flow.stream(words=source, on=spark, folder=tmp_path / "between")
    first = next(epochs)
    until(lambda: len(list((tmp_path / "between").rglob("epoch-*.parquet"))) > 1)
    sleep(3)  # in which all 250 would be staged
    staged = list((tmp_path / "between").rglob("epoch-*.parquet"))
    # A commit is taken, one waits, and each may have as many epochs as may be in flight.
    assert 1 < len(staged) <= 3 * EPOCHS_IN_FLIGHT_MAX + 4
    found = [rows(tables["words"]) for _, tables in [first, *(next(epochs) for _ in range(249))]]
    assert found == [[(f"w{number}",)] for number in range(250)]
    epochs.close()  # type: ignore[attr-defined]
    assert left_in(tmp_path / "between") == []


def test_workers_get_the_sink_of_files_alone_and_a_commit_that_comes_again_is_handed_over_once() -> None:
    handover = Handover()
    sink = HandoverSink(ParquetSink("somewhere"), handover)
    copy = pickle.loads(pickle.dumps(sink))  # noqa: S301 - our own bytes
    assert copy == ParquetSink("somewhere")
    assert handover.published_through() is None
    handover.begin()
    assert handover.published_through() == -1
    piece = Staged("words", 0, 0, "words/0", 1, 1, 0)
    handover.publish(0, 4, [piece])
    handover.publish(0, 4, [piece])

    class Ended:
        is_active = False

    query: Any = Ended()
    assert [handover.take(query), handover.take(query), handover.published_through()] == [[piece], None, 4]


# Rejections.


def test_options_that_mean_nothing_here_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    flow = words_flow("words")
    frame = spark.createDataFrame([("a",)], "word string")
    with pytest.raises(FlowError, match="processes= was given with on="):
        flow.stream(frame, on=spark, processes=2)
    with pytest.raises(FlowError, match="folder= is for streams on Spark, and on= is missing"):
        flow.stream([[{"word": "a"}]], folder=tmp_path)
    with pytest.raises(FlowError, match="inputs are all DataFrames with an end cannot be verified"):
        list(flow.stream(frame, on=spark, verify=True))
    with pytest.raises(FlowError, match="option restarts is only for start"):
        list(flow.stream(frame, on=spark, options=ps.QueryOptions(restarts=ps.RestartPolicy())))
