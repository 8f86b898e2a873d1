"""docs/benchmarks/nexmark.md shows the code that is run and the figures that were measured.

- the page is what benchmarks/nexmark/page.py makes of both;
- each figure that the page needs was measured, and no query was forgotten;
- the command that the page shows runs.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.nexmark.page import PAGE, RESULTS, lines_of, measured, page

ROOT = Path(__file__).parent.parent


def test_the_page_is_made_of_the_queries_and_the_results() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python -m benchmarks.nexmark.page"


def test_each_query_was_measured_with_one_worker_and_with_two_processes() -> None:
    found = measured(RESULTS.read_text())
    for number in range(23):
        for contender in ("one worker", "two processes"):
            assert (f"q{number}", contender, 1_000_000) in found


def test_no_query_is_longer_than_a_few_lines() -> None:
    assert {f"q{number}": lines_of(f"q{number}") for number in range(23) if lines_of(f"q{number}") > 20} == {}


def test_the_command_of_the_page_runs() -> None:
    command = "python -m examples.nexmark q5 --events 100000"
    assert command in PAGE.read_text()
    ran = subprocess.run(
        [sys.executable, *command.replace("100000", "2000").split()[1:]],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "epoch 9: " in ran.stdout
