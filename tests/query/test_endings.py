"""The end of all inputs: what was put off to later epochs comes out there, once, if that end is for good.

- *The same as without*: a run with a checkpoint gives what a run without one gives, epoch by epoch, to the
  last window; only this compares the epochs after the last rows.
- *Deaths*: the driver dies before or after each of its writes, also while epochs without rows are closed.
- *Not for good*: where there may be more tomorrow, what was put off waits for it.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from support.recoverables import FLOWS, Published, Rows, by_epoch, expected, numbers, rows_of
from support.recovering import Died, MemorySink, Mortal, spec_of

PUTS_OFF = ("carried", "delayed", "reminders", "windows")


def inputs_of(data: list[Rows]) -> dict[str, list[pa.RecordBatch]]:
    return {name: [each[name] for each in data] for name in data[0]}


def all_rows(flow: ps.Dataflow, found: Any) -> Published:  # noqa: ANN401 - results, by output and epoch
    return by_epoch(
        (name, epoch, table) for name in flow.plan.output_schemas() for epoch, table in found[name].items()
    )


# The same as without.


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", FLOWS)
def test_a_run_with_a_checkpoint_gives_what_one_without_gives(
    tmp_path: Path, name: str, workers: int
) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 6, seed=3)
    wanted = expected(flow, data, to_the_end=True)
    for _ in range(2):  # the second time there is nothing left to do
        found = flow.run(inputs_of(data), checkpoint=str(tmp_path / "checkpoint"), workers=workers)
        assert all_rows(flow, found) == wanted
    assert (max(epoch for _, epoch in wanted) >= len(data)) == (name in PUTS_OFF)


def test_processes_close_what_is_left_too(tmp_path: Path) -> None:
    flow = FLOWS["windows"]()
    data = rows_of(flow, 4, seed=5)
    found = flow.run(inputs_of(data), checkpoint=str(tmp_path / "checkpoint"), processes=2)
    assert all_rows(flow, found) == expected(flow, data, to_the_end=True)


def test_the_epochs_of_a_column_are_closed_to_the_last_and_beyond(tmp_path: Path) -> None:
    flow = FLOWS["delayed"]()
    table = pa.table({"k": [1, 2, 1, 3], "v": [1, 1, 1, 1], "epoch": [7, 0, 3, 3]})
    query = flow.start(
        numbers=ps.io.files(_folder(tmp_path, table)),
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
        available_now=True,
        options=ps.QueryOptions(epoch="epoch"),
    )
    query.await_termination()
    held_back = ps.read_changes(str(tmp_path / "out"), "counts").to_pylist()
    found = flow.run(numbers=table, epoch="epoch", checkpoint=str(tmp_path / "bounded"))
    closed = all_rows(flow, found)
    assert closed == all_rows(flow, flow.run(numbers=table, epoch="epoch"))
    assert {epoch for _, epoch in closed} == {2, 5, 9}
    assert {row["epoch"] for row in held_back} == {2, 5}


def _folder(tmp_path: Path, table: pa.Table) -> str:
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{len(list(folder.iterdir()))}.parquet")
    return str(folder)


def test_inputs_without_a_row_have_one_epoch_and_come_to_their_end(tmp_path: Path) -> None:
    flow = FLOWS["running"]()
    found = flow.run(numbers=[], checkpoint=str(tmp_path / "checkpoint"))
    assert all_rows(flow, found) == {}


# Deaths.


@pytest.mark.parametrize("is_done_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", PUTS_OFF)
def test_the_driver_may_die_while_what_is_left_is_closed(name: str, is_done_first: bool) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 3, seed=2)
    wanted = expected(flow, data, to_the_end=True)
    snapshots = SnapshotPolicy(epochs=2, chain_max=2)
    lives = 0
    while True:
        storage, sink = MemoryStorage(), MemorySink()
        mortal = Mortal(storage, lives, is_done_first)
        for given in (mortal, storage):
            spec = spec_of(flow, data, given, sink, snapshots=snapshots, closes=True)
            try:
                Supervisor(spec, InProcessLauncher()).run()
            except Died:
                continue
        assert sink.rows() == wanted, f"after {lives} writes"
        if mortal.lives >= 0:
            break
        lives += 1
    assert lives > 10


# Not for good.


def test_what_was_put_off_waits_where_there_may_be_more(tmp_path: Path) -> None:
    flow = FLOWS["delayed"]()
    rows = pa.Table.from_batches([numbers([(1, 1)])])

    def published() -> list[tuple[int, int]]:
        folder = _folder(tmp_path, rows)
        query = flow.start(
            numbers=ps.io.files(folder),
            checkpoint=str(tmp_path / "checkpoint"),
            output=str(tmp_path / "out"),
            available_now=True,
        )
        query.await_termination()
        table = ps.read_changes(str(tmp_path / "out"), "counts")
        return [(row["epoch"], row["count"]) for row in table.to_pylist()]

    assert [published() for _ in range(4)] == [[], [], [(2, 1)], [(2, 1), (3, 2)]]


def test_a_run_that_has_ended_goes_on_with_what_is_added(tmp_path: Path) -> None:
    flow = FLOWS["delayed"]()
    place = str(tmp_path / "checkpoint")
    first, second = [numbers([(1, 1)])], [numbers([(1, 1)]), numbers([(1, 1)])]
    assert all_rows(flow, flow.run(numbers=first, checkpoint=place)) == {("counts", 2): [(1, 1)]}
    # The end was said to be the end: what comes after it all the same is of the epochs after it.
    found = all_rows(flow, flow.run(numbers=second, checkpoint=place))
    assert found == {("counts", 2): [(1, 1)], ("counts", 5): [(1, 2)]}
