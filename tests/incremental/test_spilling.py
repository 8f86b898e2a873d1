"""What is beyond a limit of memory lies in files, and nothing else is different.

Families, and what only each can find:
- runs of all types of columns, whole and in slices: an array that is written in the wrong place, or not all;
- budgets: memory that is not counted, or counted for ever;
- flows with a limit of one byte, in worlds with crashes and other numbers of workers: everything else.
"""

import errno
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrangement import runs as policy
from pointstamp.arrangement import spill_file
from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.run import Layout, Run, merged, run_of
from pointstamp.arrangement.runs import Merge, Runs
from pointstamp.arrangement.spill_file import RunFile, mapped_run
from pointstamp.arrow import runs as kernels
from pointstamp.driver.results import Results
from pointstamp.errors import FlowError, StorageError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, cases
from pointstamp.simulate.world import Ended
from pointstamp.state.memory_budget import MemoryBudget, MemoryLimit, memory_limit
from pointstamp.state.pieces import merged as whole_of
from support.broken_recovery import Rescaled
from support.random_queries import queries
from support.table_queries import LEFT_ROWS, RIGHT_ROWS, Query, judge
from support.table_queries import changes as table_changes
from support.table_worlds import FLOWS, inputs_of

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("text", pa.string()),
        ("maybe text", pa.large_string()),
        ("data", pa.binary()),
        ("truth", pa.bool_()),
        ("price", pa.decimal128(20, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("maybe", pa.float64()),
        ("maybe day", pa.date32()),
        ("list", pa.list_(pa.string())),
        ("pair", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        DIFF_FIELD,
    ]
)
LAYOUTS = {
    "by key": Layout(SCHEMA, ("k",)),
    "by text": Layout(SCHEMA, ("text", "maybe text")),
    "by row": Layout(SCHEMA, tuple(SCHEMA.names[:-1])),
}


def row(n: int) -> dict[str, object]:
    few = n % 4
    return {
        "k": n,
        "text": f"text {n}",
        "maybe text": None if few == 0 else "é" * few,
        "data": bytes([few]) * few,
        "truth": None if few == 3 else few > 1,
        "price": Decimal(n) / 4,
        "at": n,
        "maybe": None if few == 1 else n / 8,
        "maybe day": None if few == 2 else n,
        "list": None if few == 2 else ["x"] * few,
        "pair": None if few == 1 else {"a": n, "b": None if few == 2 else str(n)},
    }


def changes(random: np.random.Generator, rows: int) -> pa.RecordBatch:
    keys, weights = random.integers(0, 60, rows).tolist(), random.choice([-1, 1], rows).tolist()
    each = [{**row(n), "diff": weight} for n, weight in zip(keys, weights, strict=True)]
    return pa.RecordBatch.from_pylist(each, SCHEMA)


def check_same(one: Run, other: Run) -> None:
    one.batch.validate(full=True)
    assert (one.is_mapped, one.memory_bytes) == (True, 0)
    assert [each.tolist() for each in one.words] == [each.tolist() for each in other.words]
    assert one.batch.equals(other.batch)
    assert [type(mine) for mine in one.columns] == [type(theirs) for theirs in other.columns]
    hashes = np.unique(np.append(other.words[0], np.array([0, 7, 2**64 - 1], np.uint64)))
    found = [kernels.found_rows(run.words[0], hashes, *run._index_if_large) for run in (one, other)]
    for mine, theirs in zip(*found, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.fixture(params=[1, 1 << 16])
def _index_min(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("run", "spill_file", "runs"):
        monkeypatch.setattr(f"pointstamp.arrangement.{module}.INDEXED_ROWS_MIN", request.param)


@pytest.mark.usefixtures("_index_min")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_run_in_a_file_is_the_run_in_memory(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill_file, "_SLICE_ROWS", 7)
    random = np.random.default_rng(1)
    for rows in (1, 2, 9, 100):
        run = run_of(changes(random, rows), layout)
        check_same(mapped_run(run, str(tmp_path)), run)
        again = mapped_run(mapped_run(run.part(1, len(run)), str(tmp_path)), str(tmp_path))
        if len(again):
            check_same(again, run_of(run.part(1, len(run)).batch, layout))
    assert os.listdir(tmp_path) == [], "files have no names"


@pytest.mark.usefixtures("_index_min")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_merge_in_a_file_is_the_merge_in_memory(layout: Layout, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    for number in range(6):
        older, newer = (run_of(changes(random, int(random.integers(1, 150))), layout) for _ in range(2))
        if number % 2:
            older = mapped_run(older, str(tmp_path))
        merge = Merge(older, newer, RunFile(str(tmp_path), [older, newer]))
        while merge.result is None:
            merge.work(int(random.integers(1, 40)))
            if merge.newer is newer:
                merge.replace(newer, mapped_run(newer, str(tmp_path)))
        check_same(merge.result, merged(older, newer))


def test_what_is_beyond_the_limit_is_in_files_and_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_SLICE_ROWS_MIN", 16), ("_AT_ONCE_ROWS_MAX", 32), ("_AT_ONCE_TIMES_MAX", 1)):
        monkeypatch.setattr(policy, name, value)
    random, layout = np.random.default_rng(3), LAYOUTS["by row"]
    limit = 16_000
    budget = MemoryBudget(MemoryLimit(limit, str(tmp_path)), "flow")
    members = [Runs(), Runs()]
    for member in members:
        member.keep_within(budget)
    whole: list[list[pa.RecordBatch]] = [[], []]
    ends = {False: 0, True: 0}
    for step in range(60):
        change = changes(random, int(random.integers(1, 40)))
        change = change.set_column(0, SCHEMA.field(0), pa.array(random.integers(0, 10**6, len(change))))
        run = run_of(change, layout)
        members[step % 2].add(run)
        whole[step % 2].append(run.batch)
        assert budget.held_bytes == sum(each.memory_bytes for each in members) <= limit
        for each in members[step % 2]:
            ends[each.is_mapped] += 1
    assert sum(each.size_bytes for each in members) > 4 * limit
    assert min(ends.values()) > 20, "some runs are in memory, others in files"
    for member, batches in zip(members, whole, strict=True):
        assert len(list(member)) <= 3 * len(member).bit_length()
        total = run_of(pa.concat_batches([run.batch for run in member]), layout)
        assert total.batch.equals(run_of(pa.concat_batches(batches), layout).batch)


@pytest.mark.parametrize("name", ["joined", "upserted", "reach"])
def test_with_everything_in_files_worlds_with_crashes_publish_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_worlds(name, 1, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", FLOWS)
def test_with_everything_in_files_many_worlds_publish_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_worlds(name, 4, monkeypatch)


def check_worlds(name: str, worlds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations have different numbers of workers; what they publish is judged by a flow without limit."""
    # Merges continue in small steps, so that some are under way at a crash.
    for constant in ("_MERGED_ROWS_PER_ROW", "_SLICE_ROWS_MIN", "_AT_ONCE_ROWS_MAX", "_AT_ONCE_TIMES_MAX"):
        monkeypatch.setattr(policy, constant, 1)
    written: list[int] = []

    def counted(run: Run, folder: str) -> Run:
        written.append(len(run))
        return mapped_run(run, folder)

    monkeypatch.setattr(policy, "mapped_run", counted)
    flow, plain = FLOWS[name](), FLOWS[name]().plan
    flow.spill_beyond(1)
    rows = prepared(plain, inputs_of(name))
    simulator = CrashSimulator(flow.plan, rows)
    simulator.world = Rescaled
    for case in cases(range(worlds), 1, 2, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert CrashSimulator(plain, rows).compared(run, {}) == (FindingKind.VALID, ""), case
    assert written


@settings(max_examples=10, deadline=None)
@given(data=st.data(), query=queries(), workers=st.integers(1, 3), epochs=st.integers(1, 4))
def test_with_everything_in_files_a_random_query_is_duckdbs(
    data: st.DataObject, query: Query, workers: int, epochs: int
) -> None:
    left, right = data.draw(table_changes(LEFT_ROWS, epochs)), data.draw(table_changes(RIGHT_ROWS, epochs))
    judge(query, left, right, workers, memory_per_worker=1)


def sums_flow() -> ps.Dataflow:
    flow = ps.Dataflow("sums")
    rows = flow.table("rows", "k long, name string")
    flow.output("names", rows.join(rows.group_by("k").agg(n=ps.count()), "k").select("name", "n"))
    return flow


def epochs(count: int) -> list[pa.Table]:
    numbers = [range(at, at + 40) for at in range(0, 40 * count, 40)]
    return [pa.table({"k": [n % 5 for n in each], "name": [f"name {n}" for n in each]}) for each in numbers]


def names_of(results: Results) -> list[str]:
    return sorted(map(str, results.table("names").to_pylist()))


def test_changes_since_a_snapshot_are_bounded_in_memory_and_all_saved(tmp_path: Path) -> None:
    budget = MemoryBudget(MemoryLimit(80_000, str(tmp_path)), "flow")
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), DIFF_FIELD])
    table = Arrangement(schema, ["k"])
    table.keep_within(budget)

    def rows(begin: int, end: int) -> pa.RecordBatch:
        numbers = np.arange(begin, end)
        return pa.RecordBatch.from_arrays(
            [pa.array(each) for each in (numbers % 7, numbers, np.ones_like(numbers))], schema=schema
        )

    table.add(rows(0, 10_000))
    saved = [table.save(changes_only=True)]
    for begin in range(10_000, 13_000, 100):
        table.add(rows(begin, begin + 100))
        unsaved = table._kept._unsaved
        assert unsaved is not None
        assert sum(run.memory_bytes for run in unsaved) <= budget.piece_bytes_max
    assert any(run.is_mapped for run in unsaved or [])
    saved.append(table.save(changes_only=True))
    assert [piece.is_whole for piece in saved] == [True, False]
    again = Arrangement(schema, ["k"])
    again.keep_within(budget)
    again.load(whole_of(saved))
    assert sorted(again.all_rows()["n"].to_pylist()) == list(range(13_000))


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_folder_that_cannot_be_written_to_is_named_before_anything_is_read(
    folder: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    flow = sums_flow()
    flow.spill_beyond("1 MB", folder=tmp_path / folder)
    with pytest.raises(StorageError, match=f"{folder}' for spilled state is not writable"):
        flow.run(rows=epochs(1))


class FullOnce:
    """A disk that takes a little of what is written at a time, and once is full."""

    def __init__(self) -> None:
        self.room_bytes = 20_000
        self.was_full = 0
        self._pwrite = os.pwrite

    def pwrite(self, file: int, data: memoryview, at: int) -> int:
        self.room_bytes -= len(data)
        if self.room_bytes < 0 and not self.was_full:
            self.was_full += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._pwrite(file, data[:100], at)


def test_a_full_disk_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = sums_flow()
    flow.spill_beyond(1)
    monkeypatch.setattr(os, "pwrite", FullOnce().pwrite)
    with pytest.raises(StorageError, match=r"its disk is full\. Make room there"):
        flow.run(rows=epochs(6))


def test_a_query_goes_on_from_its_snapshot_when_the_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, disk = sums_flow(), FullOnce()
    flow.spill_beyond(1)
    monkeypatch.setattr(os, "pwrite", disk.pwrite)
    found = flow.run(rows=epochs(6), workers=2, checkpoint=tmp_path)
    assert disk.was_full == 1
    assert names_of(found) == names_of(sums_flow().run(rows=epochs(6)))


@pytest.mark.parametrize("size", ["", "much", "12 apples", "-3 MB", 0, -5, True])
def test_a_limit_that_is_none_is_refused(size: int | str) -> None:
    with pytest.raises(FlowError, match="flow 'f': the memory limit"):
        memory_limit(size, None, "f")


def test_spark_says_where_its_executors_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert MemoryBudget(MemoryLimit(1), "f").folder == str(tmp_path)
    assert MemoryBudget(MemoryLimit(1, "/tmp"), "f").folder == "/tmp"  # noqa: S108 - any folder
