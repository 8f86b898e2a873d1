"""The data source ``pointstamp`` where Spark's own Python is another one than the driver's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]
SECONDS_MAX = 300.0


def test_it_is_found_after_a_query_though_the_environment_is_not_activated(tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    # A Python that sees no installed package but pyspark's own: it cannot find the data source.
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    other.chmod(0o755)
    around = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    around |= {"PATH": f"{other.parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, __file__, str(tmp_path)]
    job = subprocess.run(command, env=around, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert job.returncode == 0, job.stderr[-4000:]
    assert job.stdout.split() == ["7"]


def main(folder: Path) -> None:
    """Keep a view of one row, and print what the data source reads."""
    from pyspark.sql import SparkSession

    import pointstamp as ps

    settings = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.range(7, 8).coalesce(1).write.parquet(f"{folder}/rows")
    view = ps.view(spark.read.parquet(f"{folder}/rows").selectExpr("id + 0 as n"))
    query = view.start(on=spark, checkpoint=f"{folder}/state", output=f"{folder}/out", available_now=True)
    query.await_termination(SECONDS_MAX)
    sys.stdout.write(
        " ".join(str(row.n) for row in spark.read.format("pointstamp").load(f"{folder}/out").collect())
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
