"""Compare the examples of Spark's manual, and write docs/reference/spark_functions.md and its data.

    .venv/bin/python scripts/spark_functions.py ~/spark/sql/core/src/test/resources/sql-tests/inputs

The argument is the folder of Spark's SQL test inputs, in which calls of functions are counted; without it the
stored counts stay.
"""

import os
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from pyspark.sql import SparkSession  # noqa: E402

from support import function_page  # noqa: E402
from support.catalyst_examples import compared_examples, function_names  # noqa: E402


def main() -> None:
    """Compare all, and write both files."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    try:
        names = function_names(session)
        if len(sys.argv) > 1:
            counts = function_page.uses(Path(sys.argv[1]), names)
        else:
            counts = Counter({each.name: each.uses for each in function_page.load()})
        found = function_page.supported(compared_examples(session), counts, names)
    finally:
        session.stop()
    function_page.save(found)
    function_page.PAGE.write_text(function_page.page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
