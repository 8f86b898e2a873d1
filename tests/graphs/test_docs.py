"""docs/graphs.md says what there is: its examples print what it says, and its table has every algorithm.

The blocks that need Spark say so in their first line, and run among the tests on Spark.
"""

import contextlib
import io
import re
from pathlib import Path

from pointstamp import graphs

PAGE = Path(__file__).parents[2] / "docs" / "graphs.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?", re.DOTALL)
NEEDS_SPARK = "# with a SparkSession named spark"


def test_the_examples_print_what_the_page_says() -> None:
    names: dict[str, object] = {}
    blocks = BLOCK.finditer(PAGE.read_text())
    found = [block for block in blocks if not block["code"].startswith(NEEDS_SPARK)]
    assert len(found) >= 5
    for block in found:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block["code"], str(PAGE), "exec"), names)  # noqa: S102 - our own page
        assert printed.getvalue().strip() == block["printed"].strip(), block["code"]


def test_the_table_has_every_algorithm_that_there_is() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    assert named == set(graphs.__all__) - {"AggregateMessages", "Graph", "GraphFrame", "Pregel"}
