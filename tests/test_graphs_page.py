"""graphalytics.md shows the figures that were measured, and says of each whether it was checked.

- the page is what benchmarks/graphs/page.py makes of the results, and a cell that was not run is empty;
- lines of figures are read as they were written, and of several for one cell the last counts;
- a measurement that takes too long or too much memory is ended, with all that it started.
"""

import os
import sys
from pathlib import Path

from benchmarks.figures import last_of_each, line_of
from benchmarks.graphs.page import PAGE, page
from benchmarks.graphs.run import NAMES, RESULTS
from benchmarks.limits import Limits, run_limited


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text() == page(), "run: .venv/bin/python -m benchmarks.graphs.page"


def test_every_answer_of_ours_that_is_shown_was_checked() -> None:
    lines = last_of_each(RESULTS.read_text(), *NAMES).values()
    ours = [each for each in lines if each["contender"] in ("one worker", "two processes", "Spark")]
    assert len(ours) > 5
    assert [each for each in ours if each.get("outcome", "done") == "done" and not each["checked"]] == []


def test_the_last_line_of_a_cell_counts_and_lines_without_its_names_do_not() -> None:
    text = "\n".join(
        [line_of("a", at=1, s=0.5), "no figures", line_of("b", s=2.0), line_of("a", at=1, s=0.7)]
    )
    assert {key: each["s"] for key, each in last_of_each(text, "case", "at").items()} == {("a", 1): 0.7}


def test_what_is_over_a_limit_is_ended_with_what_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "kept = bytearray(int(sys.argv[2]))\n"
        'print(\'{"case": "before the end"}\', flush=True)\n'
        "time.sleep(600)\n"
    )
    for megabytes, limits, outcome in (
        (1, Limits(seconds=3.0, megabytes=4_000), "timed out"),
        (600, Limits(seconds=300.0, megabytes=300), "too large"),
    ):
        told = tmp_path / outcome
        ended = run_limited([sys.executable, "-c", code, str(told), str(megabytes * 1_000_000)], limits)
        assert ended.outcome == outcome
        assert not told.exists() or not os.path.exists(f"/proc/{told.read_text()}/fd/0")
    assert run_limited([sys.executable, "-c", "raise SystemExit('no')"], limits).outcome == "failed"
    done = run_limited([sys.executable, "-c", "print('{\"case\": 1}')"], limits)
    assert (done.outcome, done.lines) == ("done", [{"case": 1}])
