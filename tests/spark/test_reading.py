"""DataFrames over published output: lazily read, whatever is merged meanwhile, and laid out in folders.

They are made of a list of files, and read when they are used: so the files must stay, and columns that are in
the names of folders must come out with their values and types.
"""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.connectors.published.reader import read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.spark.frames import read, spark_schema

pytestmark = pytest.mark.spark

SCHEMA = spark_schema(
    pa.schema([("city", pa.string()), ("x", pa.int64()), ("day", pa.date32()), ("n", pa.int16())]), "test"
)
CITIES = ["Zürich", "a/b:c=d", "50% {off}", "[*?]", "", None, "07", "null", "__HIVE_DEFAULT_PARTITION__"]


def _publish(path: Path, epochs: range, **options: Any) -> None:  # noqa: ANN401 - of the sink
    sink = ParquetSink(str(path), **options).for_query("q", {"out": SCHEMA})
    for epoch in epochs:
        rows = [
            {"city": city, "x": 100 * epoch + at, "day": datetime.date(2024, 1, 1 + at % 2), "n": at}
            for at, city in enumerate(CITIES)
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        sink.publisher().publish(epoch, epoch, sink.writer(0, 0).stage("out", {epoch: [batch]}))


def _rows(frame: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - a DataFrame
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def _expected(path: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in read_changes(path, "out").to_pylist()), key=repr)


def test_a_dataframe_that_was_made_before_compaction_is_read_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    _publish(tmp_path, range(5))
    before = read(spark, str(tmp_path))["out"]
    expected = _expected(tmp_path)
    assert ps.io.compact(tmp_path) == ps.io.Compacted(5, 1)
    assert _rows(before) == expected
    assert _rows(read(spark, str(tmp_path))["out"]) == expected


@pytest.mark.parametrize("by", [["city"], ["day", "city"], ["n"]])
def test_columns_in_the_names_of_folders_come_out_with_their_values_and_types(
    spark: SparkSession, tmp_path: Path, by: list[str]
) -> None:
    _publish(tmp_path, range(2), partition_by=by)
    plain = read(spark, str(tmp_path))["out"]
    assert plain.columns == ["epoch", "city", "x", "day", "n"]
    assert [kind for _, kind in plain.dtypes] == ["bigint", "string", "bigint", "date", "smallint"]
    assert _rows(plain) == _expected(tmp_path)
    _publish(tmp_path, range(2, 3))  # from here on without folders
    ps.io.compact(tmp_path)
    assert _rows(read(spark, str(tmp_path))["out"]) == _expected(tmp_path)


def test_spark_skips_folders(spark: SparkSession, tmp_path: Path) -> None:
    _publish(tmp_path, range(1), partition_by=["n"])
    few = read(spark, str(tmp_path))["out"].filter("n = 3")
    assert _rows(few.select("city")) == [("[*?]",)]
    plan = few._jdf.queryExecution().toString()
    assert "PartitionFilters: [isnotnull(n" in plan
