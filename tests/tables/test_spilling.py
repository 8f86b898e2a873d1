"""What is beyond a limit of memory lies in files, and nothing else is different.

Families, and what only each can find:
- runs of all types of columns, whole and in slices: an array that is written in the wrong place, or not all;
- budgets: memory that is not counted, or counted for ever;
- flows with a limit of one byte, in worlds with crashes and other numbers of workers: everything else.
"""

import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, StorageError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from pointstamp.state.memory import MemoryBudget, MemoryLimit, memory_limit
from pointstamp.tables.kept import run_file
from pointstamp.tables.kept import runs as policy
from pointstamp.tables.kept.merging import Merge
from pointstamp.tables.kept.run import Layout, Run, merged, run_of
from pointstamp.tables.kept.run_file import RunFile, mapped_run
from pointstamp.tables.kept.runs import Runs
from pointstamp.tables.kept.weights import DIFF_FIELD
from support.broken_recovery import Rescaled
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
    assert one.is_mapped and one.memory_bytes == 0
    assert [each.tolist() for each in one.words] == [each.tolist() for each in other.words]
    assert one.batch.equals(other.batch)
    assert [type(mine) for mine in one.columns] == [type(theirs) for theirs in other.columns]
    hashes = np.unique(np.append(other.words[0], np.array([0, 7, 2**64 - 1], np.uint64)))
    for mine, theirs in zip(one.ranges(hashes), other.ranges(hashes), strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.fixture(params=[1, 1 << 16])
def _index_min(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in ("run", "run_file", "merging"):
        monkeypatch.setattr(f"pointstamp.tables.kept.{module}.INDEXED_ROWS_MIN", request.param)
    monkeypatch.setattr("pointstamp.tables.kept.run._INDEXED_HASHES_MIN", 0)
    yield


@pytest.mark.usefixtures("_index_min")
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_run_in_a_file_is_the_run_in_memory(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "_SLICE_ROWS", 7)
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
