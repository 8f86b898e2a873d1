"""The history of figures: what is recorded, which costs are read from a line, and what is named as worse."""

import json
from pathlib import Path

import pytest
from benchmarks import history


def entry(commit: str, **figures: object) -> dict[str, object]:
    return {"commit": commit, "at": "2026-01-01", "figures": figures}


@pytest.mark.parametrize(
    ("figures", "costs"),
    [
        ({"ratio": 2.0, "load": 3}, {"ratio": 2.0}),
        ({"ratio_to_counter": 5.0}, {"counter": 5.0}),
        ({"times_scipy": 4.0}, {"scipy": 0.25}),
        ({"seconds": 3.0, "scipy_seconds": 1.5}, {"scipy (seconds)": 2.0}),
        ({"ms": 3.0, "peer_ms": 6.0, "rows": 7}, {"peer (ms)": 0.5}),
        ({"seconds": 3.0, "ratio": None, "is_right": True}, {}),
    ],
)
def test_a_cost_is_our_time_by_a_peers(figures: dict[str, object], costs: dict[str, float]) -> None:
    assert dict(history.costs(figures)) == costs


def test_what_is_printed_is_kept_with_its_commit_and_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["a headline\n", '{"case": "count", "ratio": 2.0}\n', "{not json\n"]
    assert history.record(lines, tmp_path / "history.jsonl") == 1
    assert capsys.readouterr().out == "".join(lines)
    (kept,) = history.read(tmp_path / "history.jsonl")
    assert kept["figures"] == {"case": "count", "ratio": 2.0}
    assert set(kept) == {"commit", "at", "machine", "figures"}
    assert kept["machine"]["cores"] >= 1
    json.dumps(kept)


def test_a_row_that_got_worse_against_its_peer_is_named() -> None:
    entries = [
        entry("aaa1", case="count", ratio=2.0),
        entry("aaa1", case="loop", times_naiad=4.0),
        entry("aaa1", case="gone", ratio=1.0),
        entry("bbb2", case="count", ratio=2.5),
        entry("bbb2", case="loop", times_naiad=2.0),
        entry("bbb2", case="new", ratio=9.0),
    ]
    lines, worse = history.compare(entries, "aaa", "bbb")
    assert len(lines) == 2
    assert worse == ["loop against naiad: 2.00 x"]
