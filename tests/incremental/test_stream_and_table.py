"""Where streams and tables meet: rows that are looked up once, and a table that comes out by key.

- the law by brute force over what there is after every epoch, on one to three workers;
- misuse, and keys with two rows, as text.
"""

from collections import Counter
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.dataflow.record import physical_of
from pointstamp.errors import FlowError, SchemaError
from pointstamp.flow.outlet import add_operator
from pointstamp.incremental.stateless import Appended
from support.by_hand import by_hand
from support.table_queries import RIGHT, RIGHT_ROWS, Row, accumulated, changes, table_of
from support.table_times import ROWS, WEIGHED, timed_changes

WORKERS = st.integers(1, 3)
_EVENTS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(["a", "b"])), max_size=4
)


# Lookups.


@pytest.mark.parametrize("how", ["inner", "left"])
@settings(max_examples=30, deadline=None)
@given(data=st.data(), workers=WORKERS, epochs=st.integers(1, 4))
def test_a_row_finds_the_table_as_it_is_after_its_epoch(
    how: Any,  # noqa: ANN401 - a kind of join
    data: st.DataObject,
    workers: int,
    epochs: int,
) -> None:
    right = data.draw(changes(RIGHT_ROWS, epochs))
    events = [data.draw(_EVENTS) for _ in range(epochs)]
    flow = ps.Dataflow("test")
    table = flow.table("table", RIGHT, weight="w")
    flow.output(
        "found", flow.stream_input("events", "key long, s string").lookup(table, {"key": "k"}, how=how)
    )
    results = flow.run(
        events=[[{"key": key, "s": s} for key, s in rows] for rows in events],
        table=[table_of(rows, RIGHT) for rows in right],
        workers=workers,
    )["found"]
    for epoch, rows in enumerate(events):
        there = accumulated(right[: epoch + 1])
        wanted: Counter[Row] = Counter()
        for key, s in rows:
            found: list[Row] = [(key, s, n) for k, n in there if k == key and key is not None]
            wanted.update(found or ([(key, s, None)] if how == "left" else []))
        sent = results[epoch].to_pylist() if epoch in results else []
        assert Counter(tuple(row.values()) for row in sent) == wanted, f"epoch {epoch}"


def test_a_row_in_a_loop_finds_the_table_as_it_is_in_its_round() -> None:
    flow = ps.Dataflow("walk")
    starts = flow.stream_input("starts", "node long")
    edges = flow.table("edges", "src long, dst long")
    with starts.loop("walk") as loop:
        again = loop.variable("node long")
        here = loop.enter(starts).union(again)
        steps = here.lookup(edges.enter(loop), {"node": "src"}).select(node=ps.col("dst"))
        loop.feedback(again, steps)
        flow.output("seen", loop.leave(here))
    links = [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}]
    found = flow.run(starts=[[{"node": 1}], [{"node": 2}]], edges=[links, []], workers=2)["seen"]
    assert [sorted(found[epoch]["node"].to_pylist()) for epoch in (0, 1)] == [[1, 2, 3], [2, 3]]


class RowsAtRounds:
    """Sends rows that were looked up with the rounds of their time."""

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        rounds = [pa.array([each] * batch.num_rows) for each in context.time[1:]]
        context.send(pa.RecordBatch.from_arrays([*batch.columns, *rounds], schema=context.schema()))


def test_at_every_time_of_two_loops_a_row_finds_what_arrived_up_to_it() -> None:
    flow = ps.Dataflow("timed")
    rows = flow.stream_input("rows", ROWS)
    with rows.loop("outer") as outer:
        again = outer.variable(ROWS)
        here, later = outer.enter(rows).union(again).split(ps.col("outer") <= 0)
        outer.feedback(again, later.with_columns(outer=ps.col("outer") - 1))
        with here.loop("inner") as inner:
            once_more = inner.variable(ROWS)
            now, after = inner.enter(here).union(once_more).split(ps.col("inner") <= 0)
            inner.feedback(once_more, after.with_columns(inner=ps.col("inner") - 1))
            logic = partial(Appended, WEIGHED, "w")
            table = ps.Table(
                by_hand(now, add_operator("arrive", logic, {"in": physical_of(now)}, {"out": WEIGHED})[0])
            )
            events = now.filter(ps.col("w") > 0).select("k", event=ps.col("n"))
            stamped = pa.schema([(name, pa.int64()) for name in ("k", "event", "n", "outer", "inner")])
            found = ps.operator("stamp", RowsAtRounds(), outputs=stamped, rows=events.lookup(table, "k"))
            left = inner.leave(found)
        flow.output("found", outer.leave(left))
    for seed in range(6):
        timed = timed_changes(seed)
        given = [table_of(each, ROWS) for each in timed]
        results = flow.run(rows=given, workers=1 + seed % 3)["found"]
        for epoch, arrived in enumerate(timed):
            past = [row for each in timed[: epoch + 1] for row in each]
            wanted: Counter[Row] = Counter()
            for k, n, outer_round, inner_round, w in arrived:
                for other, m, a, b, weight in past:
                    if w > 0 and k == other and a <= outer_round and b <= inner_round:
                        wanted[(k, n, m, outer_round, inner_round)] += weight
            sent = Counter(tuple(row.values()) for row in results[epoch].to_pylist())
            assert sent == Counter({row: n for row, n in wanted.items() if n}), f"seed {seed}, epoch {epoch}"


# A table by key.


@settings(max_examples=20, deadline=None)
@given(
    epochs=st.lists(
        st.dictionaries(st.integers(0, 3), st.sampled_from([None, "x", "y"])), min_size=1, max_size=5
    ),
    workers=WORKERS,
)
def test_upserts_keep_a_copy_by_key_up_to_date(epochs: list[dict[int, Any]], workers: int) -> None:
    flow = ps.Dataflow("test")
    flow.output("upserts", flow.table("rows", "id long, city string", snapshots=True).upserts("id"))
    # Every epoch has a row that no key shares, so that none is empty.
    given = [[{"id": -1, "city": "z"}, *({"id": k, "city": c} for k, c in e.items())] for e in epochs]
    results = flow.run(rows=given, workers=workers)["upserts"]
    copy: dict[int, Any] = {}
    for epoch, rows in enumerate(epochs):
        before = dict(copy)
        for row in results[epoch].to_pylist() if epoch in results else []:
            if row["deleted"]:
                assert row["city"] is None
                del copy[row["id"]]
            else:
                assert before.get(row["id"], "none") != row["city"], "what did not change is not sent"
                copy[row["id"]] = row["city"]
        assert copy == {-1: "z", **rows}, f"epoch {epoch}"


def test_two_rows_of_a_key_are_refused_with_their_epoch() -> None:
    flow = ps.Dataflow("test")
    flow.output("upserts", flow.table("rows", "id long, city string").upserts("id"))
    epochs = [[{"id": 1, "city": "x"}], [{"id": 1, "city": "y"}]]
    said = r"'upserts': after epoch 1 the key \{'id': 1\} has 2 rows.*Add columns to the key"
    with pytest.raises(FlowError, match=said):
        flow.run(rows=epochs, workers=2)


def test_upserts_are_updates_and_make_no_table() -> None:
    rows = ps.Dataflow("test").table("rows", "id long, n long").upserts("id")
    with pytest.raises(FlowError, match="accumulates what 'upserts' sends"):
        rows.to_table()
    with pytest.raises(FlowError, match=r"aggregates what 'upserts' sends.*'n' is sum"):
        rows.group_by("id").agg(n=ps.sum("n"))


# Misuse.


def test_what_cannot_be_asked_is_refused_in_words() -> None:
    flow = ps.Dataflow("test")
    events = flow.stream_input("events", "k long, s string")
    table = flow.table("table", "k long, n long, deleted boolean")
    with pytest.raises(
        FlowError, match=r"'lookup' of stream 'events': expected a table to look rows up in, got Stream"
    ):
        events.lookup(events, "k")  # type: ignore[arg-type]
    with pytest.raises(FlowError, match=r"how must be 'inner' or 'left', got 'full'"):
        events.lookup(table, "k", how="full")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="on its left side, needs the column 'n'"):
        events.lookup(table, "n")
    with pytest.raises(FlowError, match="no key column was given"):
        table.upserts()
    with pytest.raises(SchemaError, match="needs the column 'key'"):
        table.upserts("key")
    with pytest.raises(SchemaError, match="the column 'deleted' already exists"):
        table.upserts("k")
    with (
        events.loop("l") as loop,
        pytest.raises(FlowError, match=r"cannot be used in a loop.*Leave the loop first"),
    ):
        table.enter(loop).upserts("k", deleted="gone")
