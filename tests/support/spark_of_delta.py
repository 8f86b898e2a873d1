"""The newest Spark that Delta's own jars run in, in an environment of its own: a reader we did not write."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".venv-delta"
LOCKED: Final = ROOT / "requirements" / "spark-of-delta.txt"
SECONDS_MAX: Final = 900

SCRIPT: Final = """
import json, sys
from pyspark.sql import SparkSession
jars, asked = sys.argv[1], json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jars)
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)
for path, version in asked:
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    print("ROWS", json.dumps(sorted(list(row) for row in reader.load(path).collect())))
spark.stop()
"""


def rows_by_spark(asked: list[tuple[str, int | None]]) -> list[list[list[object]]]:
    """The rows of each table at each version (None: as it is), as ``spark.read.format("delta")`` has them."""
    found = ",".join(str(path) for path in sorted(jars("delta").glob("*.jar")))
    command = [str(python_of_delta()), "-c", SCRIPT, found, json.dumps(asked)]
    settings = {
        name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("ROWS ")]


def jars(name: str) -> Path:
    command = [sys.executable, str(ROOT / "scripts" / "jars.py"), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    return ROOT / ".jars" / name


def python_of_delta() -> Path:
    """The interpreter of the environment; one that was not made to its end is made again."""
    python, made = HOME / "bin" / "python", HOME / "made"
    if not made.exists() or made.read_text() != LOCKED.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(HOME)], check=True, timeout=SECONDS_MAX)
        wanted = ["install", "--quiet", "--require-hashes", "-r", str(LOCKED)]
        subprocess.run([str(python), "-m", "pip", *wanted], check=True, timeout=SECONDS_MAX)
        made.write_text(LOCKED.read_text())
    return python
