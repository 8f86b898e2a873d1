"""docs/reference/graphs.md has every algorithm in its table."""

import re
from pathlib import Path

from pointstamp import graphs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "graphs.md"


def test_the_table_has_every_algorithm_that_there_is() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    assert named == set(graphs.__all__) - {"AggregateMessages", "Graph", "GraphFrame", "Pregel"}
