"""What of Spark's own streaming runs beside queries: real-time mode and declarative pipelines.

docs/reference/connectors/index.md says what was seen; these tests say when a newer Spark does otherwise.
"""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.errors.exceptions.captured import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from support.standalone import SPARK_HOME, environment
from support.streams import put, words_flow

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS_MAX = 600
SPECIFICATION = """
name: beside
storage: file://{folder}/store
libraries:
  - glob:
      include: transformations/**
"""
TRANSFORMATION = """
import pointstamp as ps
from pyspark import pipelines
from pyspark.sql import SparkSession
from pyspark.sql.functions import max

@pipelines.materialized_view
def totals():
    files = ps.io.published_files("{folder}/output", "counts")
    return SparkSession.active().read.parquet(*files).groupBy("word").agg(max("count").alias("count"))
"""


def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 10).load()


def test_real_time_mode_takes_no_function_over_batches(spark: SparkSession, tmp_path: Path) -> None:
    writer = rates(spark).writeStream.foreachBatch(lambda rows, number: None).outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds")
    with pytest.raises((AnalysisException, IllegalArgumentException), match="ForeachBatchSink is not in the"):
        writer.start()


def test_real_time_mode_reads_no_rate_source(spark: SparkSession, tmp_path: Path) -> None:
    writer = rates(spark).writeStream.format("console").outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds")
    with pytest.raises(StreamingQueryException, match="INPUT_STREAM_NOT_SUPPORTED"):
        writer.start().awaitTermination(SECONDS_MAX)


def test_a_declarative_pipeline_reads_what_a_query_has_published(tmp_path: Path) -> None:
    for number, words in enumerate((["a", "b"], ["a"], ["c", "a"])):
        put(tmp_path / "in", str(number), {"word": words})
    words_flow("words").start(
        words=ps.io.files(tmp_path / "in"),
        checkpoint=f"{tmp_path}/checkpoint",
        output=f"{tmp_path}/output",
        available_now=True,
    ).await_termination()
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "totals.py").write_text(TRANSFORMATION.format(folder=tmp_path))
    (tmp_path / "spark-pipeline.yml").write_text(SPECIFICATION.format(folder=tmp_path))
    settings = ("spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1")
    server = "spark.connect.grpc.binding.address=127.0.0.1"
    done = subprocess.run(
        [
            *(str(SPARK_HOME / "bin" / "spark-pipelines"), "run", "--remote", "local[2]"),
            *(word for each in (*settings, server) for word in ("--conf", each)),
        ],
        env={**environment(tmp_path), "PYSPARK_DRIVER_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4_000:]
    rows = pq.read_table(tmp_path / "spark-warehouse" / "totals").to_pylist()
    assert sorted((row["word"], row["count"]) for row in rows) == [("a", 3), ("b", 1), ("c", 1)]
