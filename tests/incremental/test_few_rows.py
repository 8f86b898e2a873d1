"""Few rows take other paths than many, and come to the same: brute force knows what.

- an arrangement of changes of sizes around those that stay apart, asked for as many keys as are looked up by
  a dictionary, one more, and many; with every kind of column, and with hashes of which most are alike;
- sums of rows that a single column tells apart, and of those of which none does;
- ``except_`` and ``intersect`` where both sides change at once.
"""

import math
from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrangement import run as runs_module
from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.column_arrays import as_batch
from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD
from pointstamp.arrangement.groups import groups_of
from pointstamp.arrangement.open_changes import added_up
from pointstamp.arrangement.run import run_of
from pointstamp.arrow import row_hashing
from support.table_queries import RIGHT, RIGHT_ROWS, accumulated, changes, table_of

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("text", pa.string()),
        ("price", pa.decimal128(20, 2)),
        ("at", pa.timestamp("us")),
        ("number", pa.float64()),
        ("list", pa.list_(pa.int64())),
        DIFF_FIELD,
    ]
)
NAMES = tuple(SCHEMA.names[:-1])
VALUES: dict[str, list[Any]] = {
    "text": ["", "a", "a longer text than others", None],
    "price": [Decimal("-1.25"), Decimal(0), None],
    "at": [datetime(2026, 1, 1), datetime(1969, 5, 5), None],
    "number": [0.0, -0.0, math.nan, -math.nan, 1.5, None],
    "list": [[], [1, None], [1, 2], None],
}
KEYS = {"by number": ("k",), "by text and number": ("text", "number"), "by row": NAMES}


def plain(value: Any) -> Any:  # noqa: ANN401 - of any column
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def some(random: np.random.Generator, rows: int, keys: int) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {"k": [int(k) or None for k in random.integers(0, keys, rows)]}
    for name, values in VALUES.items():
        columns[name] = [values[at] for at in random.integers(0, len(values), rows)]
    columns[DIFF] = random.choice([-1, 1, 2], rows).tolist()
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def counted(batch: pa.RecordBatch) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for row in batch.to_pylist():
        total[tuple(plain(row[name]) for name in NAMES)] += row[DIFF]
    return Counter({row: weight for row, weight in total.items() if weight})


def check_lookups(kept: Arrangement, there: Counter[tuple[Any, ...]], asked: pa.RecordBatch) -> None:
    """AssertionError where the stored rows of the keys of a batch are not those that are there."""
    run = run_of(asked, kept.layout)
    at = [NAMES.index(key) for key in kept.keys]
    keys = {tuple(plain(row[key]) for key in kept.keys) for row in run.batch.to_pylist()}
    wanted = Counter({row: n for row, n in there.items() if tuple(row[each] for each in at) in keys})
    firsts, _ = groups_of(run)
    assert len(firsts) == len(keys)
    found = kept.summed_of(run, firsts)
    columns = [*found.columns, found.weights]
    assert counted(as_batch(columns, SCHEMA)) == wanted
    assert len(found.weights) == len(wanted), "each row is found once"
    assert counted(kept.stored_of(run, firsts)[0]) == wanted
    by_row = kept.summed_matches(asked, kept.keys)
    assert len(set(zip(by_row.group.tolist(), by_row.words[-1].tolist(), strict=True))) == len(by_row.weights)
    if kept.layout.is_by_row:
        rows = [tuple(plain(row[name]) for name in NAMES) for row in run.batch.to_pylist()]
        assert kept.weights_of(run).tolist() == [there[row] for row in rows]


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("sizes", [(1,), (3, 1, 2), (31, 32, 33), (1, 200, 1, 1)])
def test_what_was_added_is_found_whatever_the_sizes(keys: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(7)
    kept, there = Arrangement(SCHEMA, keys), Counter[tuple[Any, ...]]()
    for step in range(45):
        change = some(random, sizes[step % len(sizes)], 40)
        kept.add(change)
        there.update(counted(change))
        there = Counter({row: n for row, n in there.items() if n})
        if step % 4 == 0:
            check_lookups(kept, there, some(random, int(random.choice([1, 2, 31, 32, 33, 90])), 60))
    saved = kept.save(changes_only=False).table
    assert counted(saved.combine_chunks().to_batches()[0]) == there
    assert counted(kept.all_rows().combine_chunks().to_batches()[0]) == there


def test_rows_whose_hashes_are_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runs_module,
        "hash_kept",
        lambda columns: [each & np.uint64(1) for each in row_hashing.hash_kept(columns)],
    )
    monkeypatch.setattr(runs_module, "fold_columns", lambda columns, _: columns[0].copy())
    monkeypatch.setattr(runs_module, "has_exact_hashes", lambda _: False)
    random = np.random.default_rng(8)
    kept, there = Arrangement(SCHEMA, ("k",)), Counter[tuple[Any, ...]]()
    for _ in range(12):
        change = some(random, 5, 3)
        kept.add(change)
        there.update(counted(change))
        run = run_of(some(random, 3, 4), kept.layout)
        firsts, _ = groups_of(run)
        found = kept.summed_of(run, firsts)
        asked = {row["k"] for row in run.batch.to_pylist()}
        columns = [*found.columns, found.weights]
        wanted = {row: n for row, n in there.items() if row[0] in asked and n}
        assert counted(as_batch(columns, SCHEMA)) == wanted


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 70), keys=st.sampled_from([2, 60, 10**6]), seed=st.integers(0, 10**6))
def test_a_sum_has_every_row_once(rows: int, keys: int, seed: int) -> None:
    batch = some(np.random.default_rng(seed), rows, keys)
    total = added_up([batch])
    assert counted(total) == counted(batch)
    assert total.num_rows == len(counted(batch))


@pytest.mark.parametrize("rows", [2, 33, 2_049])
@pytest.mark.parametrize("column", ["n", "s"])
def test_changes_of_which_none_is_there_twice_stay_as_they_are(rows: int, column: str) -> None:
    numbers = [*range(rows - 1), rows - 2]
    values = {"n": numbers, "s": list(map(str, numbers))}[column]
    schema = pa.schema([(column, pa.int64() if column == "n" else pa.string()), DIFF_FIELD])
    batch = pa.RecordBatch.from_pydict({column: values, DIFF: [1] * rows}, schema=schema)
    assert added_up([batch]).num_rows == rows - 1
    different = batch.slice(0, rows - 1)
    assert added_up([different]) is different
    nothing = pa.RecordBatch.from_pydict({column: values[:1], DIFF: [0]}, schema=schema)
    assert added_up([nothing]).num_rows == 0


@settings(max_examples=25, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 4))
def test_rows_of_both_and_of_the_first_alone(data: st.DataObject, workers: int, epochs: int) -> None:
    one, other = (data.draw(changes(RIGHT_ROWS, epochs)) for _ in range(2))
    flow = ps.Dataflow("test")
    a, b = (flow.table(name, RIGHT, weight="w") for name in ("a", "b"))
    flow.output("both", a.intersect(b))
    flow.output("rest", a.except_(b))
    flow.output("none", a.except_(a))
    results = flow.run(
        a=[table_of(rows, RIGHT) for rows in one],
        b=[table_of(rows, RIGHT) for rows in other],
        workers=workers,
    )
    for epoch in range(epochs):
        left, right = (set(accumulated(each[: epoch + 1])) for each in (one, other))
        for name, wanted in (("both", left & right), ("rest", left - right), ("none", set())):
            total: Counter[tuple[Any, ...]] = Counter()
            for at, table in results[name].items():
                sent = [tuple(row.values()) for row in table.to_pylist() if at <= epoch]
                assert len({row[:-1] for row in sent}) == len(sent), "a row comes once an epoch"
                for *row, weight in sent:
                    total[tuple(row)] += weight
            assert {row: n for row, n in total.items() if n} == dict.fromkeys(wanted, 1), (name, epoch)


_NODES = st.integers(0, 4)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), workers=st.integers(1, 2), epochs=st.integers(1, 3))
def test_rows_of_both_and_of_the_first_alone_in_a_loop(
    data: st.DataObject, workers: int, epochs: int
) -> None:
    pairs, nodes = st.tuples(_NODES, _NODES), st.tuples(_NODES)
    given_rows = {
        name: data.draw(changes(rows, epochs))
        for name, rows in (("edges", pairs), ("starts", nodes), ("closed", nodes), ("open", nodes))
    }
    schemas = dict.fromkeys(given_rows, "k long, w long") | {"edges": "k long, n long, w long"}
    flow = ps.Dataflow("test")
    tables = {name: flow.table(name, schema, weight="w") for name, schema in schemas.items()}

    def further(seen: ps.Table, edges: ps.Table, closed: ps.Table, opened: ps.Table) -> ps.Table:
        steps = seen.join(edges, "k").select(k=ps.col("n"))
        return seen.union(steps).except_(closed).intersect(opened)

    made = tables["starts"].distinct().iterate(further, tables["edges"], tables["closed"], tables["open"])
    flow.output("seen", made)
    rows = {
        name: [
            [dict(zip("knw" if name == "edges" else "kw", row, strict=True)) for row in each]
            for each in parts
        ]
        for name, parts in given_rows.items()
    }
    results = flow.run(rows, workers=workers)["seen"]
    total: Counter[int] = Counter()
    for epoch in range(epochs):
        there = {name: accumulated(parts[: epoch + 1]) for name, parts in given_rows.items()}
        may = {k for (k,) in there["open"]} - {k for (k,) in there["closed"]}
        seen: set[int] = set()
        found = {k for (k,) in there["starts"]}
        while found != seen:
            seen = found
            found = (seen | {n for k, n in there["edges"] if k in seen}) & may
        for row in results[epoch].to_pylist() if epoch in results else []:
            total[row["k"]] += row[DIFF]
        assert {k: n for k, n in total.items() if n} == dict.fromkeys(seen, 1), f"epoch {epoch}"
