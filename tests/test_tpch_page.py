"""docs/benchmarks/tpch.md shows the figures that were measured.

- the page is what benchmarks/sql/page.py makes of the lines of a run;
- a run continues where it was stopped, tells what failed, and its lines have all that the page shows.
"""

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchmarks.sql import tpch
from benchmarks.sql.page import PAGE, measured, page, summary, table
from benchmarks.sql.tpch_queries import NAMES


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python -m benchmarks.sql.page"


def test_of_several_lines_for_a_query_the_last_counts() -> None:
    lines = [{"case": "q1", "scale": 0.3, "rows": rows} for rows in (1, 2)]
    assert measured("\n".join(map(json.dumps, lines)))[0.3, "q1"]["rows"] == 2


def test_a_query_counts_as_cheaper_by_its_own_ratios() -> None:
    slower = {"times_duckdb": 0.9, "times_duckdb_cpu": 1.8, "times_spark": 40, "times_spark_cpu": 80}
    faster = {"times_duckdb": 1.1, "times_duckdb_cpu": 2.2, "times_spark": 51, "times_spark_cpu": 102}
    assert summary([slower, faster]) == (
        "Of 2 queries, an update is cheaper than DuckDB's recomputation for 1 in wall-clock time "
        "and 2 in CPU time, and more than 50 times cheaper than Spark's for 1 and 2."
    )


@pytest.fixture
def given(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(
        scale=0.001, only=["q6", "q22"], epochs=2, without_spark=True, results=tmp_path / "results.jsonl"
    )


def test_a_query_that_has_a_line_is_not_run_again(given: argparse.Namespace) -> None:
    given.results.write_text(json.dumps({"case": "q22", "scale": 0.001}) + "\n")
    assert tpch.run_missing(given) == []
    lines = [json.loads(line) for line in given.results.read_text().splitlines()]
    assert [line["case"] for line in lines] == ["q22", "q6"]
    shown = table(measured(json.dumps(lines[1])), 0.001)
    row = shown.splitlines()[-1].strip("| ").split(" | ")
    assert row[0] == "q6"
    assert all(row[:7]), "each figure of the query and of DuckDB is there"
    assert not [name for name in NAMES if f"| {name} |" in shown and name != "q6"]


def test_a_query_that_fails_does_not_stop_the_others(
    given: argparse.Namespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compared(name: str, *_: Any) -> dict[str, float]:  # noqa: ANN401 - not looked at
        if name == "q6":
            raise subprocess.SubprocessError("it crashed")
        return {"rows": 1}

    monkeypatch.setattr(tpch, "compared", compared)
    assert tpch.run_missing(given) == ["q6"]
    assert [line["case"] for line in map(json.loads, given.results.read_text().splitlines())] == ["q22"]
    assert "q6: it crashed" in capsys.readouterr().err
