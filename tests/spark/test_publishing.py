"""Publishing: what a run hands back is what its manifest lists, and nothing else that lies in the folder.

Families:
- the manifest, without Spark: it is written at once and once, and says what is wrong with files that changed;
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
from pointstamp.errors import FlowError, OperatorError, TransportError
from pointstamp.spark import job
from pointstamp.spark.manifest import (
    MANIFEST,
    Manifest,
    PublishedFile,
    PublishedOutput,
    check_unpublished,
    discard,
    publish,
    published,
)
from pointstamp.spark.place import Place


def test_a_manifest_is_created_once_and_never_replaced(tmp_path: Path) -> None:
    place = Place.at(str(tmp_path))
    check_unpublished(place)
    publish(place, Manifest("first", "a", {}))
    with pytest.raises(FlowError, match=r"holds the output of another run .* Give another path"):
        publish(place, Manifest("second", "b", {}))
    with pytest.raises(FlowError, match=r"runs do not mix"):
        check_unpublished(place)
    assert published(str(tmp_path)).flow == "first"
    assert os.listdir(tmp_path) == [MANIFEST]  # nothing temporary is left


def test_an_address_with_a_scheme_is_the_same_folder(tmp_path: Path) -> None:
    publish(Place.at(f"file://{tmp_path}/below"), Manifest("flow", "a", {}))
    assert published(str(tmp_path / "below")).run == "a"


def test_what_is_no_manifest_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"nothing has been published there"):
        published(str(tmp_path))
    Path(tmp_path, MANIFEST).write_text('{"flow": 1}')
    with pytest.raises(FlowError, match=r"cannot be read as a manifest"):
        published(str(tmp_path))
    Path(tmp_path, MANIFEST).write_text('{"flow": "f", "run": "r", "outputs": {}, "format_version": 9}')
    with pytest.raises(FlowError, match=r"has format 9, and this pointstamp reads 1"):
        published(str(tmp_path))
    with pytest.raises(FlowError, match=r"nowhere://x' cannot be opened"):
        Place.at("nowhere://x")
    with pytest.raises(FlowError, match=r"which Spark reads as a pattern"):
        Place.at("/data/*")


def _copy() -> ps.Dataflow:
    flow = ps.Dataflow("copy")
    flow.output("copied", flow.input("numbers", "x long"))
    return flow


@pytest.mark.spark
def test_the_frames_read_what_the_manifest_lists_and_no_leftover_or_foreign_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "copied"
    folder.mkdir()
    (folder / "epoch-000000000000-worker-00000-run-dead.parquet").write_bytes(b"half a file")
    frame = spark.range(10).selectExpr("id as x", "id % 3 as at")
    result = _copy().run(spark, numbers=frame, epoch="at", path=str(tmp_path))["copied"]
    (folder / "foreign.parquet").write_bytes(b"nothing of ours")
    assert sorted(row.x for row in result.collect()) == list(range(10))
    again = job.read(spark, str(tmp_path))["copied"]
    assert sorted(map(tuple, again.collect())) == sorted(map(tuple, result.collect()))

    files = published(str(tmp_path)).outputs["copied"].files
    assert sum(file.rows for file in files) == 10
    assert {file.epoch for file in files} == {0, 1, 2}
    for file in files:
        content = (tmp_path / file.path).read_bytes()
        assert (len(content), zlib.crc32(content)) == (file.size_bytes, file.crc32)

    with pytest.raises(FlowError, match=r"holds the output of another run"):
        _copy().run(spark, numbers=frame, epoch="at", path=str(tmp_path))
    (tmp_path / files[0].path).unlink()
    with pytest.raises(TransportError, match=r"must have \d+ bytes and is not there. It was removed"):
        job.read(spark, str(tmp_path))


@pytest.mark.spark
def test_a_run_that_fails_leaves_neither_manifest_nor_files(spark: SparkSession, tmp_path: Path) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 7 in batch["x"].to_pylist():
            raise ValueError("seven")
        return batch

    flow = ps.Dataflow("fails late")
    flow.output("out", flow.input("numbers", "x long").map_batches(fail, name="no seven"))
    frame = spark.range(10).selectExpr("id as x", "id as at")
    with pytest.raises(OperatorError, match="seven"):
        flow.run(spark, numbers=frame, epoch="at", path=str(tmp_path))
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
    # The folder can be used by the next run.
    assert _copy().run(spark, numbers=frame, path=str(tmp_path))["copied"].count() == 10


@pytest.mark.spark
def test_outputs_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    flow = ps.Dataflow("names")
    numbers = flow.input("numbers", "x long")
    names = ["_hidden", "..", "a/b [c]=%7B*", "mit Umläuten"]
    for name in names:
        flow.output(name, numbers)
    result = flow.run(spark, numbers=spark.range(3).selectExpr("id as x"), path=str(tmp_path / "day=1 x"))
    assert all(result[name].columns == ["epoch", "x"] for name in names)
    assert [result[name].count() for name in names] == [3] * len(names)


def test_what_a_run_has_committed_is_not_discarded_when_it_is_interrupted_afterwards(tmp_path: Path) -> None:
    place = Place.at(str(tmp_path))
    for run in ("aaaa", "bbbb"):
        with place.open(f"out/epoch-0-run-{run}.parquet") as file:
            file.write(b"rows")
    publish(place, Manifest("flow", "aaaa", {}))
    discard(place, "aaaa")
    discard(place, "bbbb")
    assert os.listdir(tmp_path / "out") == ["epoch-0-run-aaaa.parquet"]


def test_a_file_that_the_driver_does_not_see_is_not_published(tmp_path: Path) -> None:
    output = PublishedOutput({}, [PublishedFile("out/elsewhere.parquet", 0, 1, 10, 0)])
    with pytest.raises(TransportError, match=r"is not there.* not one that driver and executors share"):
        publish(Place.at(str(tmp_path)), Manifest("flow", "a", {"out": output}))
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
    frame = _copy().run(other, numbers=other.range(3).selectExpr("id as x"))["copied"]
    folder = Path(frame.inputFiles()[0].removeprefix("file://")).parents[1]
    del other
    gc.collect()
    assert frame.count() == 3
    assert (folder / MANIFEST).exists()
