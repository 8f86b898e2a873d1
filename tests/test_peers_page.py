"""peers.md shows what the table of peers has measured, and the table says why a figure is missing.

- the page is what benchmarks/peers/page.py makes of the results, and shows no line that the table lacks;
- a contender that ends has the median of its turns; one that does not end, or fails, has a reason;
- a peer that cannot be had is left out, with a sentence;
- the history of figures reads our cost against each peer from a line.
"""

import argparse
import json
import sys
from pathlib import Path

import pytest
from benchmarks.figures import lines_in
from benchmarks.history import costs
from benchmarks.limits import Limits
from benchmarks.peers import table
from benchmarks.peers.environments import PeerMissingError, rust_program
from benchmarks.peers.page import PAGE, page, titles
from benchmarks.peers.rows import Measurement
from benchmarks.peers.table import OURS, RESULTS, Contenders, found_contenders, measure

ROOT = Path(__file__).parent.parent
ROW = Measurement(("{rows:,} rows",), "count", {"rows": 1_000}, {"rows": 10}, {"timely": "count-timely"})
LONG = Limits(600.0, 8_000.0)
LINE = {
    "case": titles()[0],
    "us": 300.0,
    "before_us": 600.0,
    "timely_us": 150.0,
    "processor_us": {OURS: 250.0, "timely": 140.0},
    "ended": {"differential": "not in 90 s"},
    "load": 0.1,
}


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text() == page(RESULTS.read_text()), "run: .venv/bin/python -m benchmarks.peers.page"


def test_every_line_of_the_results_is_a_row_of_the_table() -> None:
    assert {line["case"] for line in lines_in(RESULTS.read_text())} <= set(titles())


def test_the_page_has_each_column_of_ours_the_ratios_and_the_reasons() -> None:
    shown = page(json.dumps(LINE))
    assert f"| {titles()[0]} | 600 us | 300 us | 150 us | 2 | not in 90 s |  |  |  |  |  |" in shown
    assert f"| {titles()[0]} |  | 250 us | 140 us | 1.8 |  |  |  |  |  |  |" in shown


def test_the_cost_against_each_peer_is_read_from_a_line() -> None:
    assert dict(costs(LINE)) == {"timely (us)": 2.0, "before (us)": 0.5}


def program(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def contenders(folder: Path, theirs: str) -> Contenders:
    """The Rust program is a script; so is the interpreter of ours, whose figure is another each time."""
    echo = """echo "{\\"case\\": \\"count\\", \\"seconds\\": $(cat count)e-6}" """
    count = f"cd {folder}; echo $(($(cat count) + 1)) > count"
    (folder / "count").write_text("4")
    return Contenders(
        program(folder / "rust", theirs), {}, {OURS: (str(program(folder / "python", count, echo)), ROOT)}
    )


def test_the_median_of_all_turns_counts(tmp_path: Path) -> None:
    who = contenders(tmp_path, """echo '{"seconds": 2e-6, "processor_seconds": 1e-6}' """)
    (line,) = map(json.loads, measure(ROW, who, LONG, short=False))
    assert (line["case"], line["us"], line["timely_us"], line["ended"]) == ("1,000 rows", 6.0, 2.0, {})
    assert line["processor_us"] == {"timely": 1.0}


def test_a_contender_that_fails_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    who = contenders(tmp_path, "echo a count is wrong >&2; exit 3")
    (line,) = map(json.loads, measure(ROW, who, LONG, short=True))
    assert (line["case"], line["us"], line["ended"]) == ("10 rows", 5.0, {"timely": "failed"})
    assert "timely, count: failed. a count is wrong" in capsys.readouterr().err


def test_a_contender_that_does_not_end_is_ended(tmp_path: Path) -> None:
    who = Contenders(program(tmp_path / "rust", "exec sleep 600"), {}, {})
    (line,) = map(json.loads, measure(ROW, who, Limits(0.3, 8_000.0), short=True))
    assert line["ended"] == {"timely": "not in 0.3 s"}


def test_without_cargo_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PeerMissingError, match="there is no cargo on the path"):
        rust_program()


def test_who_cannot_be_had_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: str) -> Path:
        raise PeerMissingError("there is no network")

    monkeypatch.setattr(table, "rust_program", missing)
    monkeypatch.setattr(table, "python_with", missing)
    named = argparse.Namespace(bytewax=sys.executable, pathway=None, before=("python", "tree"), beside=[])
    found = found_contenders(named)
    assert (found.rust, list(found.python)) == (None, ["bytewax"])
    assert list(found.trees) == ["before", OURS]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "timely and differential dataflow are left out: there is no network.",
        "pathway is left out: there is no network.",
    ]
