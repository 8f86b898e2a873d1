"""Ask Spark for what tests/spark/test_catalyst_expressions.py compares with, and store it.

    .venv/bin/python scripts/catalyst_answers.py

It takes a few minutes. Run it after changing tests/support/catalyst_expressions.py or the values of
tests/support/spark_grid.py. Only expressions without stored answers are asked, unless ``--all`` is given.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from pyspark.sql import SparkSession  # noqa: E402

from support.catalyst_answers import FILE, CatalystSession, Question, load, save, save_trees  # noqa: E402
from support.catalyst_expressions import QUESTIONS  # noqa: E402
from support.spark_expressions import EXPRESSIONS  # noqa: E402


def main() -> None:
    """Ask for all, and write the file."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    known = {} if "--all" in sys.argv[1:] or not FILE.exists() else load()
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
        ask = CatalystSession(session)
        save_trees({each: ask.tree(each) for each in (Question(one.sql, one.zone) for one in EXPRESSIONS)})
        save({each: known.get(each) or ask(each) for each in QUESTIONS})
    finally:
        session.stop()


if __name__ == "__main__":
    main()
