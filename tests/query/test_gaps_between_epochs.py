"""A bounded run with a checkpoint continues with later epochs, however wide the gaps between them are.

Each case is one run, and another with the same checkpoint and more rows; the oracle is a run without a
checkpoint over all of them.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError

DAYS = {
    "dense, then dense": ([0, 1, 2], [3, 4]),
    "dense, then sparse": ([0, 1, 2], [20240131]),
    "sparse, then dense": ([0, 5000], [*range(5001, 5031)]),
    "sparse, then sparse": ([7, 20240101], [20240102, 20250101]),
    "nothing, then sparse": ([], [20240131]),
}


def flow_of_two(*, delays: bool = False) -> ps.Dataflow:
    flow = ps.Dataflow("two")
    dated, counted = flow.stream_input("dated", "x long"), flow.stream_input("counted", "x long")
    flow.output("counts", dated.union(counted).group_by("x", running=True).count())
    if delays:
        flow.output("later", dated.delay(2))
    return flow


def given(days: list[int]) -> dict[str, Any]:
    dated = pa.table(
        {"x": pa.array([day % 3 for day in days], pa.int64()), "day": pa.array(days, pa.int64())}
    )
    return {"dated": dated, "counted": [pa.table({"x": [1]})]}


def told(results: ps.Results) -> dict[str, list[dict[str, Any]]]:
    return {
        name: sorted(output.table().to_pylist(), key=lambda row: sorted(row.items()))
        for name, output in results.items()
    }


@pytest.mark.parametrize("name", DAYS)
def test_a_run_goes_on_with_later_epochs_whatever_the_gaps(name: str, tmp_path: Path) -> None:
    before, after = DAYS[name]
    flow = flow_of_two()
    flow.run(given(before), epoch={"dated": "day"}, checkpoint=tmp_path / "c")
    found = flow.run(given(before + after), epoch={"dated": "day"}, checkpoint=tmp_path / "c", workers=2)
    assert told(found) == told(flow.run(given(before + after), epoch={"dated": "day"}))


def test_a_run_across_wide_gaps_is_saved_on_the_way_and_refuses_other_rows(tmp_path: Path) -> None:
    flow = flow_of_two()
    flow.run(given([7, 20240101]), epoch={"dated": "day"}, checkpoint=tmp_path / "c")
    with pytest.raises(
        FlowError, match="input 'dated': this checkpoint has already taken 2 items with 2 rows"
    ):
        flow.run(given([7, 20240102]), epoch={"dated": "day"}, checkpoint=tmp_path / "c")


def test_epochs_that_the_end_of_a_run_has_closed_are_refused_and_not_moved(tmp_path: Path) -> None:
    flow = flow_of_two(delays=True)
    flow.run(given([0, 1]), epoch={"dated": "day"}, checkpoint=tmp_path / "c")
    with pytest.raises(FlowError, match=r"'dated' has a row of epoch 2 .* advanced to epoch 4"):
        flow.run(given([0, 1, 2]), epoch={"dated": "day"}, checkpoint=tmp_path / "c")
