"""Writes tpch.md: what a change costs each query of TPC-H, beside DuckDB and Spark from scratch.

    .venv/bin/python -m benchmarks.sql.page

The text before the figures is ``page_head.md``; the figures are the lines of ``results.jsonl`` beside this
file, as ``benchmarks.sql.tpch`` writes them, with a table for each scale. Of several lines for one query and
scale the last counts. A test keeps the page what this makes of them.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.sql.tpch_queries import NAMES

_FOLDER: Final = Path(__file__).parent
PAGE: Final = _FOLDER.parent.parent / "docs" / "benchmarks" / "tpch.md"
RESULTS: Final = _FOLDER / "results.jsonl"
HEAD: Final = _FOLDER / "page_head.md"
"""What stands before the figures."""

TIMES_SPARK: Final = 50
"""How many times cheaper than Spark's recomputation an update is meant to be."""

Figures = Mapping[str, Any]

_COLUMNS: Final[dict[str, Callable[[Figures], str]]] = {
    "rows": lambda each: f"{each['rows'] / 1e6:,.2f} M",
    "load, s": lambda each: _both(each, "load_s", "load_cpu_s"),
    "update, ms": lambda each: _both(each, "update_ms", "cpu_ms"),
    "worst, ms": lambda each: _both(each, "worst_ms", "worst_cpu_ms"),
    "state, MB": lambda each: f"{each['state_mb']:,.1f}",
    "DuckDB, ms": lambda each: _both(each, "duckdb_ms", "duckdb_cpu_ms"),
    "Spark, ms": lambda each: _both(each, "spark_ms", "spark_cpu_ms"),
    "DuckDB / update": lambda each: _both(each, "times_duckdb", "times_duckdb_cpu"),
    "Spark / update": lambda each: _both(each, "times_spark", "times_spark_cpu"),
}
"""The columns of a table, and what they show of a line."""


def page() -> str:
    """The whole page."""
    figures = measured(RESULTS.read_text() if RESULTS.exists() else "")
    scales = sorted({scale for scale, _ in figures}, reverse=True)
    parts = [HEAD.read_text()]
    for scale in scales:
        parts += [f"## Scale {scale:g}", "", table(figures, scale), ""]
    if not scales:
        parts += ["No figures are here yet: the command above writes them.", ""]
    return "\n".join(parts)


def measured(text: str) -> dict[tuple[float, str], Figures]:
    """The last line of each scale and query."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {(each["scale"], each["case"]): each for each in lines if "scale" in each}


def table(figures: Mapping[tuple[float, str], Figures], scale: float) -> str:
    """What was found at a scale: a sentence, and a line for each query."""
    head = ["query", *_COLUMNS]
    rows = [head, ["---"] * len(head)]
    found = {name: figures[scale, name] for name in NAMES if (scale, name) in figures}
    for name, each in found.items():
        rows.append([name, *(made(each) for made in _COLUMNS.values())])
    return "\n".join([summary(list(found.values())), "", *(f"| {' | '.join(row)} |" for row in rows)])


def summary(lines: list[Figures]) -> str:
    """For how many queries an update is cheaper, by the clock and by the processor."""

    def count(peer: str, least: float, suffix: str) -> int:
        return sum(each.get(f"times_{peer}{suffix}", 0) > least for each in lines)

    clock, processor = count("duckdb", 1, ""), count("duckdb", 1, "_cpu")
    said = f"Of {len(lines)} queries, an update is cheaper than DuckDB's recomputation for {clock} in "
    said += f"wall-clock time and {processor} in CPU time"
    if any("times_spark" in each for each in lines):
        clock, processor = count("spark", TIMES_SPARK, ""), count("spark", TIMES_SPARK, "_cpu")
        said += f", and more than {TIMES_SPARK} times cheaper than Spark's for {clock} and {processor}"
    return f"{said}."


def _both(each: Figures, clock: str, processor: str) -> str:
    """A figure by the clock, and by the processor."""
    if clock not in each:
        return ""
    return f"{_number(each[clock])} / {_number(each[processor])}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


if __name__ == "__main__":
    PAGE.write_text(page())
