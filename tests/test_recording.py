"""README's recording of a killed worker: lines of the demo, drawn by scripts/recording.py."""

import re
import runpy
from pathlib import Path
from typing import Any

from pointstamp.cli.demo import STEPS, _line

ROOT = Path(__file__).parent.parent
RECORDING: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "recording.py"))


def recorded() -> list[tuple[float, str]]:
    timed = [line.split("\t", 1) for line in RECORDING["TEXT"].read_text().splitlines()]
    return [(float(second), text) for second, text in timed]


def test_the_picture_is_drawn_from_the_recording() -> None:
    picture = RECORDING["PICTURE"].read_text()
    assert picture == RECORDING["picture"](RECORDING["TEXT"].read_text()), (
        "run: .venv/bin/python scripts/recording.py --draw"
    )
    assert len(picture) < 20_000
    assert "docs/images/demo.svg" in (ROOT / "README.md").read_text()


def test_the_recording_is_in_the_order_of_its_seconds_and_starts_with_the_command() -> None:
    seconds = [second for second, _ in recorded()]
    assert seconds == sorted(seconds)
    assert recorded()[0] == (0.0, "$ pointstamp demo")


def test_the_recording_has_the_lines_of_the_demo() -> None:
    texts = [text for _, text in recorded()]
    header = _line("step", "rows", "epoch", "refresh", "Spark", "revenue", "loyal", "circle")
    steps = texts[texts.index(header) :]
    rows = [text for text in steps if re.match(r" +\d+  \+", text)]
    assert [int(row.split()[0]) for row in rows] == list(range(STEPS + 1))
    epochs = []
    for row in rows:
        cells = re.fullmatch(
            r" *(\d+)  (\+[\d,]+(?: ~\d+ -\d+)?) +(\d+) +([\d.]+ s) +([\d.]+ s)"
            r"((?:  equal +[\d.]+ s ?){3}) *(killed worker \d+ \(process \d+\))?",
            row,
        )
        assert cells is not None, row
        step, changes, epoch, ours, theirs, views, note = cells.groups()
        cells_of_views = re.findall(r"equal +[\d.]+ s", views)
        assert row == _line(step, changes, epoch, ours, theirs, *cells_of_views, note or ""), row
        assert (note is not None) == (int(step) == STEPS // 2)
        epochs.append(int(epoch))
    assert epochs == sorted(epochs)
    assert any("the query resumed from epoch " in text for text in steps)
    assert re.fullmatch(
        rf"{STEPS + 1} steps in [\d.]+ s, {epochs[-1] + 1} epochs published, "
        r"one worker killed and all there again after [\d.]+ s",
        steps[-3],
    )
    assert steps[-2] == "each view was Spark's own answer after every step"
    assert steps[-1].startswith("median of a refresh ")
