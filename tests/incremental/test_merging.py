"""Merges that are spread over many changes give what a merge at once gives, and are done in time.

- random runs of all kinds of columns, cut at random places, with hot keys and rows that cancel each other;
- rows whose words are all alike, which no cut may part;
- how many runs there are while changes of one size, or of very different ones, come in.
"""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pointstamp.arrangement import run as runs_module
from pointstamp.arrangement import runs as policy
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.ordering import Ordered
from pointstamp.arrangement.run import Layout, Run, merged, run_of
from pointstamp.arrangement.runs import Merge, Runs
from pointstamp.arrow import row_hashing
from pointstamp.arrow import runs as kernels

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("text", pa.string()),
        ("truth", pa.bool_()),
        ("price", pa.decimal128(20, 2)),
        ("at", pa.timestamp("us")),
        ("maybe", pa.float64()),
        DIFF_FIELD,
    ]
)
LAYOUTS = {
    "by key": Layout(SCHEMA, ("k",)),
    "by text": Layout(SCHEMA, ("text",)),
    "by row": Layout(SCHEMA, tuple(SCHEMA.names[:-1])),
    "in order": Layout(SCHEMA, ("k",), order=Ordered("price", descends=True)),
}


def changes(random: np.random.Generator, rows: int) -> pa.RecordBatch:
    keys = random.choice([random.integers(0, 50, rows), np.zeros(rows, np.int64)])
    few = random.integers(0, 4, rows)
    columns: list[Any] = [
        keys,
        [f"t{n}" for n in keys.tolist()],
        few > 1,
        [Decimal(n) / 4 for n in random.integers(-9, 9, rows).tolist()],
        pa.array(few, pa.timestamp("us")),
        [None if n == 0 else float(n) for n in few.tolist()],
        random.choice([-1, 1], rows),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def check_same(one: Run, other: Run) -> None:
    one.batch.validate(full=True)
    assert [each.tolist() for each in one.words] == [each.tolist() for each in other.words]
    assert sorted(map(str, one.batch.to_pylist())) == sorted(map(str, other.batch.to_pylist()))
    hashes = np.unique(np.append(other.words[0], np.array([0, 7, 2**64 - 1], np.uint64)))
    found = [kernels.found_rows(run.words[0], hashes, *run._index_if_large) for run in (one, other)]
    for mine, theirs in zip(*found, strict=True):
        assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("index_min", [1, 1 << 16])
def test_a_merge_in_slices_is_the_merge_at_once(
    layout: Layout, index_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_module, "INDEXED_ROWS_MIN", index_min)
    monkeypatch.setattr("pointstamp.arrangement.runs.INDEXED_ROWS_MIN", index_min)
    random = np.random.default_rng(3)
    for _ in range(12):
        older, newer = (run_of(changes(random, int(random.integers(1, 400))), layout) for _ in range(2))
        merge, steps = Merge(older, newer), 0
        while merge.result is None:
            merge.work(int(random.integers(1, 40)))
            steps += 1
        assert steps > 1 or len(merge) < 40
        check_same(merge.result, merged(older, newer))


def test_rows_with_the_same_words_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runs_module,
        "hash_kept",
        lambda columns: [each & np.uint64(1) for each in row_hashing.hash_kept(columns)],
    )
    monkeypatch.setattr(runs_module, "fold_columns", lambda columns, _: columns[0].copy())
    monkeypatch.setattr(runs_module, "has_exact_hashes", lambda _: False)
    random = np.random.default_rng(4)
    older, newer = (run_of(changes(random, 200), LAYOUTS["by key"]) for _ in range(2))
    merge = Merge(older, newer)
    while merge.result is None:
        merge.work(3)
    check_same(merge.result, merged(older, newer))


@pytest.mark.parametrize("sizes", [(20,), (1, 300, 2), (50, 1, 1, 1)])
def test_there_are_few_runs_and_they_add_up(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SLICE_ROWS_MIN", 16), ("_AT_ONCE_ROWS_MAX", 32), ("_AT_ONCE_TIMES_MAX", 1)):
        monkeypatch.setattr(policy, name, value)
    random, layout = np.random.default_rng(5), LAYOUTS["by row"]
    runs, whole, most, under_way = Runs(), [], 0, 0
    for step in range(150):
        change = run_of(changes(random, sizes[step % len(sizes)]), layout)
        if len(change):
            runs.add(change)
            whole.append(change.batch)
        most = max(most, len(list(runs)))
        under_way += any(isinstance(entry, Merge) for entry in runs._entries)
    assert under_way > 20, "merges were spread"
    assert most <= 2 * len(runs).bit_length()
    total = run_of(pa.concat_batches(whole), layout)
    check_same(run_of(pa.concat_batches([run.batch for run in runs]), layout), total)
    runs.merge_all()
    check_same(*runs, total)  # type: ignore[call-arg]


def test_texts_that_one_column_cannot_hold_stay_in_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    random, layout = np.random.default_rng(6), LAYOUTS["by row"]
    parts = [run_of(changes(random, 200), layout) for _ in range(20)]
    monkeypatch.setattr(policy, "_COLUMN_BYTES_MAX", 4 * max(part.longest_bytes for part in parts))
    runs = Runs()
    for part in parts:
        runs.add(part)
        assert max(run.longest_bytes for run in runs) <= policy._COLUMN_BYTES_MAX
    assert 1 < len(list(runs)) < len(parts)
    together = run_of(pa.concat_batches([run.batch for run in runs]), layout)
    check_same(together, run_of(pa.concat_batches([part.batch for part in parts]), layout))
