"""Run Spark's own SQL test inputs as views, and report what is accepted, rejected by reason, and different.

    .venv/bin/python scripts/spark_sql_inputs.py ~/spark/sql/core/src/test/resources/sql-tests/inputs [FILE]

The first argument is the folder of the inputs, which comes with Spark's sources; others name files in it.
``--every N`` takes one query in N, always the same ones; ``--define`` defines the views and runs none, and
counts queries as accepted for which Spark raises only when they run. The exit code is 1 if an answer differs.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from pyspark.sql import SparkSession  # noqa: E402

from support.sql_inputs import Report, compared_file  # noqa: E402


def main() -> int:
    """Compare all, and print the report."""
    parser = argparse.ArgumentParser(description="Run Spark's own SQL test inputs as views.")
    parser.add_argument("folder", type=Path, help="the folder of the inputs")
    parser.add_argument("names", nargs="*", help="files in it (default: all)")
    parser.add_argument("--every", type=int, default=1, help="take one query in so many (default: 1)")
    parser.add_argument("--define", action="store_true", help="define the views, and run none")
    given = parser.parse_args()
    folder = given.folder
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # queries that fail are counted
    report = Report()
    try:
        for path in [folder / name for name in given.names] or sorted(folder.rglob("*.sql")):
            before = len(report.outcomes)
            for outcome in compared_file(spark, path, runs=not given.define, every=given.every):
                report.outcomes.append(outcome)
            print(
                f"{path.relative_to(folder)}: {len(report.outcomes) - before} queries",
                file=sys.stderr,
                flush=True,
            )
    except KeyboardInterrupt:
        print("interrupted: the report is of the queries so far", file=sys.stderr)
    finally:
        spark.stop()
    print(report.summary())
    return 1 if any(each.kind == "different" for each in report.outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
