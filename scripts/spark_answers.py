"""Ask Spark for the answers that tests/expressions/test_spark_answers.py compares with, and store them.

    .venv/bin/python scripts/spark_answers.py

It takes a few minutes. Run it after changing tests/support/spark_expressions.py or the values of
tests/support/spark_grid.py. Only expressions without stored answers are asked, unless ``--all`` is given.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from pyspark.sql import SparkSession  # noqa: E402

from support.spark_answers import load, save  # noqa: E402
from support.spark_expressions import EXPRESSIONS  # noqa: E402
from support.spark_grid import AskedSpark  # noqa: E402


def main() -> None:
    """Ask for all, and write the file."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    known = {} if "--all" in sys.argv[1:] else load()
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        ask, found = AskedSpark(session), {}
        for number, each in enumerate(EXPRESSIONS):
            found[each] = known.get(each) or ask(each)
            if number % 50 == 0:
                print(f"{number} of {len(EXPRESSIONS)}", flush=True)
                save(found | {other: known[other] for other in known if other not in found})
        save(found)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
