"""The chart of README: it is what scripts/figures.py draws, with figures of the pages that it names."""

import re
import runpy
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
DRAWN: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "figures.py"))
FACTORS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def rows_of(page: str, start: str = "") -> list[list[str]]:
    text = (ROOT / "docs" / "benchmarks" / page).read_text()
    after = text[text.index(start) :]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in after.splitlines()
        if line.startswith("|")
    ]


def milliseconds(cell: str) -> float:
    number, unit = cell.split()
    return float(number.replace(",", "")) * FACTORS[unit]


def drawn(title: str) -> list[float]:
    (case,) = [each for each in DRAWN["CASES"] if each.title.startswith(title)]
    return [bar.milliseconds for bar in case.bars]


def assert_rounded(shown: list[float], found: list[float]) -> None:
    assert len(shown) == len(found)
    for one, other in zip(shown, found, strict=True):
        assert abs(one - other) <= 0.035 * other, (shown, found)


def test_the_chart_is_drawn_from_the_figures() -> None:
    assert DRAWN["CHART"].read_text() == DRAWN["chart"](), "run: .venv/bin/python scripts/figures.py"


def test_the_figures_are_those_of_the_pages() -> None:
    views = [row for row in rows_of("views.md", "## Scale 0.1\n") if re.fullmatch(r"q\d+", row[0])]
    taken = [[float(row[at].split(" / ")[0].replace(",", "")) for at in (5, 8)] for row in views]
    assert len(views) == 99
    assert_rounded(drawn("TPC-DS"), [median(column) for column in zip(*taken, strict=True)])
    queries = [row for row in rows_of("tpch.md", "## Scale 1\n") if re.fullmatch(r"q\d+", row[0])][:22]
    wall = [[float(row[at].split(" / ")[0].replace(",", "")) for at in (3, 6)] for row in queries]
    assert len(queries) == 22
    assert_rounded(drawn("TPC-H"), [median(column) for column in zip(*wall, strict=True)])
    (paths,) = [
        row
        for row in rows_of("graphalytics.md")
        if row[:4] == ["uniform 1,000,000 / 5,000,000", "SSSP", "100", "one worker"]
    ]
    assert_rounded(drawn("Shortest paths"), [milliseconds(paths[5]), milliseconds(paths[7])])
    peers = {row[0]: row for row in reversed(rows_of("peers.md", "## Wall-clock time\n"))}
    counts = peers["1,000 rows into counts of 1,000,000 text keys, 1 worker"]
    assert_rounded(drawn("Counts"), [milliseconds(counts[3]), milliseconds(counts[6])])
    empty = peers["empty epoch, 2 processes"]
    assert_rounded(drawn("Empty epoch"), [milliseconds(empty[3]), milliseconds(empty[4])])
