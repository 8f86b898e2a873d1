"""Publishing: what a run hands back is what its commit lists, and nothing else that lies in the folder.

Families:
- the commit, without Spark: it is written at once and once, and files that are not there are told;
- runs: leftovers and foreign files are not read, runs do not mix, a run that fails publishes nothing;
- temporary folders: they last as long as their DataFrames can be read, and go with the process.
"""

import gc
import os
import zlib
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.connectors.published.chain import FOLDER
from pointstamp.connectors.published.reader import published_now, read_changes
from pointstamp.connectors.sink import Staged
from pointstamp.errors import FlowError, OperatorError, StorageError
from pointstamp.spark import bounded, frames, job
from pointstamp.spark.bounded import EpochFiles
from pointstamp.spark.job import check_unpublished, discard, publish
from pointstamp.spark.locations import spark_address

SCHEMAS = {"out": pa.schema([("x", pa.int64())])}


def test_a_folder_is_published_into_once_and_what_is_there_is_never_replaced(tmp_path: Path) -> None:
    path = str(tmp_path)
    check_unpublished(path)
    publish(path, "first", {}, [])
    for run, schemas in (("second", {}), ("third", SCHEMAS)):
        with pytest.raises(FlowError, match=r"has the output of another run .* Give another path"):
            publish(path, run, schemas, [])
    with pytest.raises(FlowError, match=r"a folder belongs to one run"):
        check_unpublished(path)
    found = published_now(path)
    assert (found.query, found.is_complete) == ("first", True)
    assert os.listdir(tmp_path) == [FOLDER]
    assert os.listdir(tmp_path / FOLDER) == ["000000000000.json"]  # nothing temporary is left


def test_an_address_with_a_scheme_is_the_same_folder(tmp_path: Path) -> None:
    publish(f"file://{tmp_path}/below", "a", {}, [])
    assert published_now(str(tmp_path / "below")).query == "a"
    assert spark_address(f"file://{tmp_path}/below/") == spark_address(str(tmp_path / "below"))


def test_paths_that_spark_or_the_workers_cannot_use_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"nothing has been published to it"):
        published_now(str(tmp_path))
    with pytest.raises(StorageError, match=r"nowhere://x' cannot be opened"):
        check_unpublished("nowhere://x")
    with pytest.raises(FlowError, match=r"which Spark reads as a pattern"):
        spark_address("/data/*")
    with pytest.raises(FlowError, match=r"which executors cannot read"):
        spark_address("memory://x")


def _copy() -> ps.Dataflow:
    flow = ps.Dataflow("copy")
    flow.output("copied", flow.stream_input("numbers", "x long"))
    return flow


@pytest.mark.spark
def test_the_frames_read_what_the_commit_lists_and_no_leftover_or_foreign_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "copied"
    folder.mkdir()
    dead = EpochFiles(str(tmp_path), "dead", 0, SCHEMAS | {"copied": SCHEMAS["out"]})
    dead.write("copied", 0, [pa.record_batch({"x": [77]})])
    dead.finish()
    frame = spark.range(10).selectExpr("id as x", "id % 3 as at")
    result = _copy().run(on=spark, numbers=frame, epoch="at", output=str(tmp_path))["copied"]
    (folder / "foreign.parquet").write_bytes(b"nothing of ours")
    assert sorted(row.x for row in result.collect()) == list(range(10))
    again = frames.read(spark, str(tmp_path))["copied"]
    assert sorted(map(tuple, again.collect())) == sorted(map(tuple, result.collect()))

    files = published_now(str(tmp_path)).outputs["copied"].files
    assert sum(file.rows for file in files) == 10
    assert len({file.path.partition("-worker-")[2] for file in files}) == len(files)  # one of each worker
    assert min(file.first_epoch for file in files) == 0
    assert max(file.last_epoch for file in files) == 2
    assert sorted(read_changes(str(tmp_path), "copied")["x"].to_pylist()) == list(range(10))
    for file in files:
        content = (tmp_path / file.path).read_bytes()
        assert (len(content), zlib.crc32(content)) == (file.size_bytes, file.crc32)

    with pytest.raises(FlowError, match=r"has the output of another run"):
        _copy().run(on=spark, numbers=frame, epoch="at", output=str(tmp_path))
    (tmp_path / files[0].path).unlink()
    with pytest.raises(StorageError, match=r"must have \d+ bytes, but is not there. It was removed"):
        frames.read(spark, str(tmp_path))


@pytest.mark.spark
def test_a_run_that_fails_leaves_neither_commit_nor_files(spark: SparkSession, tmp_path: Path) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 7 in batch["x"].to_pylist():
            raise ValueError("seven")
        return batch

    flow = ps.Dataflow("fails late")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(fail).named("no seven"))
    frame = spark.range(10).selectExpr("id as x", "id as at")
    with pytest.raises(OperatorError, match="seven"):
        flow.run(on=spark, numbers=frame, epoch="at", output=str(tmp_path))
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
    # The folder can be used by the next run.
    assert _copy().run(on=spark, numbers=frame, output=str(tmp_path))["copied"].count() == 10


@pytest.mark.spark
def test_outputs_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    flow = ps.Dataflow("names")
    numbers = flow.stream_input("numbers", "x long")
    names = ["_hidden", "..", "a/b [c]=%7B*", "mit Umläuten"]
    for name in names:
        flow.output(name, numbers)
    result = flow.run(
        on=spark, numbers=spark.range(3).selectExpr("id as x"), output=str(tmp_path / "day=1 x")
    )
    assert all(result[name].columns == ["epoch", "x"] for name in names)
    assert [result[name].count() for name in names] == [3] * len(names)


def test_what_a_run_has_committed_is_not_discarded_when_it_is_interrupted_afterwards(tmp_path: Path) -> None:
    path = str(tmp_path)
    written = {}
    for run in ("aaaa", "bbbb"):
        files = EpochFiles(path, run, 0, SCHEMAS)
        files.write("out", 3, [pa.record_batch({"x": [1]})])
        written[run] = files.finish()
    (file,) = written["aaaa"]
    publish(path, "aaaa", SCHEMAS, [file])
    discard(path, "aaaa", SCHEMAS)
    discard(path, "bbbb", SCHEMAS)
    assert [f"out/{name}" for name in os.listdir(tmp_path / "out")] == [file.path]


def test_epochs_share_a_file_until_their_rows_fill_one_and_every_row_keeps_its_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "FILE_BYTES", 1_000)
    files = EpochFiles(str(tmp_path), "run", 0, SCHEMAS | {"other": SCHEMAS["out"]})
    # 24 bytes an epoch, but for two that fill a file at once; an output without rows has no file.
    sizes = {epoch: 200 if epoch in (10, 11) else 3 for epoch in range(30)}
    for epoch, rows in sizes.items():
        files.write("out", epoch, [pa.record_batch({"x": [epoch] * rows})])
        files.write("other", epoch, [])
    staged = files.finish()
    assert [(each.output, each.first_epoch, each.last_epoch) for each in staged] == [
        ("out", 0, 10),
        ("out", 11, 11),
        ("out", 12, 29),
    ]
    publish(str(tmp_path), "run", SCHEMAS, staged)
    table = read_changes(str(tmp_path), "out")
    assert table["epoch"] == table["x"]
    assert table.num_rows == sum(sizes.values())


def test_a_file_that_the_driver_does_not_see_is_not_published(tmp_path: Path) -> None:
    elsewhere = Staged("out", 0, 0, "out/elsewhere.parquet", 1, 10, 0)
    with pytest.raises(StorageError, match=r"is not there.* do not share this folder"):
        publish(str(tmp_path), "a", SCHEMAS, [elsewhere])
    assert not os.listdir(tmp_path)


def test_a_temporary_folder_goes_when_its_session_goes() -> None:
    class Session:
        """All that is asked of it is to be there."""

    session = Session()
    folder = job._temporary_folder(cast("SparkSession", session))
    assert os.path.isdir(folder)
    del session
    gc.collect()
    assert not os.path.exists(folder)


@pytest.mark.spark
def test_a_temporary_folder_lasts_as_long_as_its_session(spark: SparkSession) -> None:
    other = spark.newSession()
    frame = _copy().run(on=other, numbers=other.range(3).selectExpr("id as x"))["copied"]
    folder = Path(frame.inputFiles()[0].removeprefix("file://")).parents[1]
    del other
    gc.collect()
    assert frame.count() == 3
    assert (folder / FOLDER).exists()
