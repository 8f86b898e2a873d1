"""What a query reports of itself: each number is of what it says it is of, however workers run.

Families, and what only each can find:
- *commits*: rows in, out, late and skipped belong to the commit that publishes their epochs, also where a
  worker in another process has read far ahead;
- *kept*: a key is one row, whatever was changed since runs were last merged;
- *series*: as many for a machine as there are loops, however many epochs are in them.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

import pointstamp as ps
from pointstamp.driver.status import LoopStatus, RunStatus
from pointstamp.query.page_data import query_samples
from support.options import with_options

SECONDS_MAX: Final = 60.0
HOW: Final = [{"workers": 2}, {"processes": 2}]


def run(flow: ps.Dataflow, folder: Path, inputs: dict[str, Any], **how: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """The reports of a query over everything that there is."""
    query = flow.start(inputs, checkpoint=folder / "checkpoint", output=folder / "out", **with_options(how))
    try:
        query.process_all_available(SECONDS_MAX)
        return query.recent_progress
    finally:
        query.stop(finish=False)


def by_epoch(reports: list[dict[str, Any]], key: str, name: str) -> dict[int, int]:
    return {each["epoch"]: each[key].get(name, 0) for each in reports if each[key].get(name, 0)}


# Commits.


@pytest.mark.parametrize("how", HOW, ids=["here", "processes"])
def test_rows_are_reported_with_the_commit_of_their_epoch(how: dict[str, int], tmp_path: Path) -> None:
    flow = ps.Dataflow("sums")
    flow.output("sums", flow.table("rows", "k long, v long").group_by("k").agg(n=ps.sum("v")))
    sizes = [3, 5, 1, 4]
    epochs = [[{"k": k, "v": epoch} for k in range(size)] for epoch, size in enumerate(sizes)]
    reports = run(flow, tmp_path, {"rows": epochs}, snapshots=ps.SnapshotPolicy(epochs=1), **how)
    assert by_epoch(reports, "rowsIn", "rows") == dict(enumerate(sizes))
    assert [each["numInputRows"] for each in reports] == sizes
    published = ps.read_changes(tmp_path / "out", "sums")["epoch"].to_pylist()
    assert by_epoch(reports, "rowsOut", "sums") == Counter(published)


def test_rows_that_are_late_by_the_watermark_of_a_stream_are_reported(tmp_path: Path) -> None:
    flow = ps.Dataflow("late")
    rows = flow.stream_input("rows", "at long").with_watermark("at", 0, late="drop")
    flow.output("rows", rows)
    epochs = [[{"at": 10}], [{"at": 3}, {"at": 20}, {"at": 4}], [{"at": 19}]]
    reports = run(flow, tmp_path, {"rows": epochs}, snapshots=ps.SnapshotPolicy(epochs=1), workers=2)
    assert by_epoch(reports, "rowsLate", "rows") == {1: 2, 2: 1}
    assert by_epoch(reports, "rowsIn", "rows") == {0: 1, 1: 3, 2: 1}


# Kept.


def test_a_key_that_has_changed_often_is_one_row_of_what_is_kept(tmp_path: Path) -> None:
    flow = ps.Dataflow("kept")
    table = flow.table("rows", "k long, g long, v long", key="k")
    flow.output("sums", table.group_by("g").agg(most=ps.max("v")))
    epochs = [[{"k": k, "g": k, "v": epoch} for k in range(2)] for epoch in range(6)]
    reports = run(flow, tmp_path, {"rows": epochs})
    kept = {name: each["rows"] for name, each in reports[-1]["kept"].items()}
    assert len(kept) == 3
    assert set(kept.values()) == {2}, kept


# Series.


def test_a_loop_is_one_series_however_many_epochs_are_in_it() -> None:
    scopes = [("until 0",), ("until 0", "inner")]
    loops = [LoopStatus(scope, epoch, 0, epoch + 1, 2) for scope in scopes for epoch in range(60)]
    status = RunStatus("loops", (), (), tuple(loops), is_complete=False)
    samples = query_samples(
        is_active=True, published=0, generation=1, restarts=0, status=status, workers={}, age=0.0
    )
    found = {(name, labels["loop"]): value for name, labels, value in samples if "loop" in labels}
    assert found == {
        (f"pointstamp_loop_{what}", loop): value
        for loop in ("until 0", "until 0/inner")
        for what, value in (("epochs", 60), ("round", 60), ("messages", 120))
    }
