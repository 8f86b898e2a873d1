"""Event time on Spark: epochs that are event time, in a job and in a query."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps

pytestmark = pytest.mark.spark
START = datetime(2024, 5, 1, 9, tzinfo=UTC)
MINUTE = int(START.timestamp()) // 60


def hours_flow() -> ps.Dataflow:
    flow = ps.Dataflow("hours")
    times = ps.by_event_time("at", every="1 minute", lateness="5 minutes")
    rows = flow.stream_input("rows", "at timestamp", epochs=times)
    windows = rows.window("at", "1 hour").emit_on_close("window_end")
    flow.output("hours", windows.group_by("window_start").agg(rows=ps.count()))
    return flow


def test_a_job_has_each_window_in_its_last_epoch(spark: SparkSession) -> None:
    rows = [(START + timedelta(minutes=minute),) for minute in (61, 5, 59)]
    found = hours_flow().run(on=spark, rows=spark.createDataFrame(rows, "at timestamp"), workers=2)["hours"]
    assert sorted((row["epoch"], row["rows"]) for row in found.collect()) == [
        (MINUTE + 59, 2),
        (MINUTE + 119, 1),
    ]


def test_a_query_advances_by_itself_and_puts_late_rows_apart(spark: SparkSession, tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    query = hours_flow().start(
        on=spark,
        rows=ps.io.files(folder, format="parquet"),
        checkpoint=tmp_path / "c",
        output=tmp_path / "out",
        workers=2,
    )
    for number, minutes in enumerate(([5, 59], [66], [58, 130])):
        times = pa.array([START + timedelta(minutes=minute) for minute in minutes], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"at": times}), folder / f"{number}.parquet")
        query.process_all_available()
    query.stop()
    published = ps.read_changes(str(tmp_path / "out"), "hours").to_pylist()
    assert sorted((row["epoch"], row["rows"]) for row in published) == [(MINUTE + 59, 2), (MINUTE + 119, 1)]
    late = ps.read_changes(str(tmp_path / "out"), "rows_late").to_pylist()
    assert [row["late_epoch"] for row in late] == [MINUTE + 58]
