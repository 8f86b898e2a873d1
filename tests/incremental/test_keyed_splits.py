"""A keyed table with ``order`` is a function of its rows: splits, arrival and restarts do not matter.

Families, and what only each can find:
- splits in memory: rows that an older one replaces, deleted keys that return, ties that arrival decides;
- restarts between epochs, with other numbers of workers: order values and tombstones that are not restored;
- watermarks: tombstones that are freed too early, or never.

The oracle takes, for each key, the greatest row by plain Python comparisons, and knows nothing of epochs.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrangement.consolidate import DIFF_FIELD, with_weights
from pointstamp.arrangement.ordering import ranks
from pointstamp.arrangement.time_index import Calendar
from pointstamp.driver.status import status_of
from pointstamp.errors import FlowError, RecoveryError, SchemaError
from pointstamp.incremental import upsert
from pointstamp.incremental.upsert import OrderedUpserts, UpsertPlan
from pointstamp.state.pieces import Piece
from support.table_queries import put_out

PEOPLE = "id long, city string, version long, gone boolean"
Person = tuple[int, str | None, int | None, bool]
NAMES = ("id", "city", "version", "gone")

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([None, "x", "y"]),
        st.sampled_from([None, 1, 2, 3, 4]),
        st.booleans(),
    ),
    max_size=8,
)


def newest(rows: Sequence[Person]) -> Counter[Any]:
    """What is there: of each key the greatest row, where null is least and a deletion wins a tie."""
    best: dict[int, tuple[Any, ...]] = {}
    for key, city, version, gone in rows:
        rank = ((version is not None, version or 0), gone, (city is not None, city or ""))
        if key not in best or best[key][0] < rank:
            best[key] = (rank, city, version, gone)
    return Counter((key, city, version) for key, (_, city, version, gone) in best.items() if not gone)


def people_flow() -> ps.Dataflow:
    flow = ps.Dataflow("people")
    flow.output("people", flow.table("people", PEOPLE, key="id", order="version", deleted="gone"))
    return flow


def in_epochs(rows: Sequence[Any], cuts: Sequence[int]) -> list[list[Any]]:
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [list(rows[start:end]) for start, end in pairwise(bounds)]


def as_rows(rows: Sequence[Person]) -> list[dict[str, Any]]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


@settings(max_examples=60, deadline=None)
@example(rows=[(1, "x", 1, False), (1, "y", 4, False), (1, "x", 2, False), (1, "x", 3, False)], cuts=[2], w=1)
@example(rows=[(1, "x", 2, True), (1, "x", 1, False)], cuts=[1], w=1)
@example(rows=[(1, "y", 1, False), (1, "x", 1, False)], cuts=[1], w=2)
@example(rows=[(1, "y", 1, False), (1, "x", 1, True)], cuts=[1], w=2)
@given(rows=ROWS, cuts=st.lists(st.integers(0, 8), max_size=4), w=st.integers(1, 3))
def test_after_every_epoch_the_greatest_row_of_each_key_is_there(
    rows: list[Person], cuts: list[int], w: int
) -> None:
    epochs = in_epochs(rows, cuts)
    found = put_out(
        people_flow().run(people=[as_rows(each) for each in epochs], workers=w)["people"], len(epochs)
    )
    for number in range(len(epochs)):
        assert found[number] == newest([row for epoch in epochs[: number + 1] for row in epoch])


def test_two_rows_of_a_key_and_an_order_value_are_ordered_by_their_content() -> None:
    """Lists and structs included; the same one wins in any split and on any number of workers."""
    schema = "id long, v long, l array<long>, s struct<a long, b string>, x double, gone boolean"
    names = ("id", "v", "l", "s", "x", "gone")
    rows = [
        (1, 7, [1, 2], {"a": 1, "b": "x"}, float("nan"), False),
        (1, 7, [1, 2], {"a": 2, "b": "x"}, 1.0, False),
        (1, 7, [1, 3], {"a": 1, "b": "x"}, 1.0, False),
        (1, 7, None, None, None, False),
        (2, 7, [1], None, 0.5, False),
        (2, 7, [1], None, float("nan"), False),
    ]
    seen = set()
    rng = random.Random(1)
    for workers in (1, 2, 3):
        for _ in range(4):
            rng.shuffle(rows)
            flow = ps.Dataflow("ties")
            flow.output("t", flow.table("t", schema, key="id", order="v", deleted="gone"))
            epochs = in_epochs([dict(zip(names, row, strict=True)) for row in rows], [rng.randrange(7)])
            there: Counter[str] = Counter()
            for _, changes in sorted(flow.run(t=epochs, workers=workers)["t"].items()):
                for row in changes.to_pylist():
                    there[repr([row[name] for name in names[:-1]])] += row["diff"]
            seen.add(tuple(sorted(row for row, weight in there.items() if weight)))
    assert len(seen) == 1
    assert "[2, 7, [1], None, nan]" in seen.pop(), "NaN is the greatest number"


def test_rows_that_are_delivered_twice_change_nothing() -> None:
    row = (1, "x", 5, False)
    found = people_flow().run(people=[as_rows([row, row]), as_rows([row]), as_rows([(1, "x", 5, True)] * 2)])
    assert put_out(found["people"], 3) == [Counter([(1, "x", 5)]), Counter([(1, "x", 5)]), Counter()]
    assert [found["people"][epoch].num_rows for epoch in range(3)] == [1, 0, 1]


@pytest.mark.parametrize(
    "kind", ["string", "double", "decimal(20,2)", "date", "timestamp", "boolean", "binary"]
)
def test_every_type_that_has_an_order_can_be_the_order(kind: str) -> None:
    flow = ps.Dataflow("kinds")
    flow.output("t", flow.table("t", f"id long, v long, o {kind}", key="id", order="o"))
    values: dict[str, tuple[Any, Any]] = {
        "string": ("a", "b"),
        "double": (-0.5, float("nan")),
        "decimal(20,2)": (Decimal("-1.25"), Decimal(0)),
        "date": (date(1969, 1, 1), date(2024, 1, 1)),
        "timestamp": (datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
        "boolean": (False, True),
        "binary": (b"", b"a"),
    }
    rows = [[{"id": 1, "v": number, "o": values[kind][number]}] for number in (1, 0)]
    assert [row[1] for row in put_out(flow.run(t=rows)["t"], 2)[-1]] == [1]


def test_a_list_orders_nothing() -> None:
    with pytest.raises(
        SchemaError, match=r"table 't': order='l' must be a number, a text or a time, got list"
    ):
        ps.Dataflow("t").table("t", "id long, l array<long>", key="id", order="l")


def test_the_mark_of_deletions_is_neither_key_nor_order() -> None:
    for given_names in ({"key": "gone"}, {"key": "id", "order": "gone"}):
        with pytest.raises(SchemaError, match="deleted='gone' is also a column of key= or order="):
            ps.Dataflow("t").table("t", "id long, gone boolean", deleted="gone", **given_names)  # type: ignore[arg-type]


# Restarts.


def restarted(rows: Sequence[Person], cuts: Sequence[int], rng: random.Random) -> Counter[Any]:
    """The table of a query that stops after every epoch, and resumes with another number of workers."""
    kinds = pa.schema({"id": pa.int64(), "city": pa.string(), "version": pa.int64(), "gone": pa.bool_()})
    with TemporaryDirectory() as place:
        (folder := Path(place, "in")).mkdir()
        for number, epoch in enumerate(in_epochs(rows, cuts)):
            pq.write_table(pa.Table.from_pylist(as_rows(epoch), kinds), folder / f"{number}.parquet")
            query = people_flow().start(
                people=ps.io.files(folder),
                workers=rng.randrange(1, 4),
                checkpoint=f"{place}/checkpoint",
                output=f"{place}/out",
            )
            query.process_all_available()
            query.stop()
        there: Counter[Any] = Counter()
        for row in ps.read_changes(f"{place}/out", "people").to_pylist():
            there[row["id"], row["city"], row["version"]] += row["diff"]
        return Counter({row: weight for row, weight in there.items() if weight})


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 20))])
def test_restarts_between_epochs_with_other_numbers_of_workers_change_nothing(seed: int) -> None:
    rows, cuts = stories(seed)
    assert restarted(rows, cuts, random.Random(seed)) == newest(rows)


def stories(seed: int) -> tuple[list[Person], list[int]]:
    """Rows of few keys and order values, so that ties and deletions that older rows follow are frequent."""
    rng = random.Random(seed)
    rows: list[Person] = [
        (rng.randrange(2), rng.choice("xy"), rng.randrange(3), rng.random() < 0.3)
        for _ in range(rng.randrange(5, 9))
    ]
    return rows, [rng.randrange(1, 7) for _ in range(3)]


# Debezium.

ENVELOPE = "struct<lsn long, tx struct<id string>>"
STRUCTS = (
    f"op string, before struct<id long, city string>, after struct<id long, city string>, source {ENVELOPE}"
)


def event_of(row: Person) -> dict[str, Any]:
    key, city, lsn, gone = row
    image = {"id": key, "city": city}
    return {
        "op": "d" if gone else "u",
        "before": image if gone else None,
        "after": None if gone else image,
        "source": {"lsn": lsn, "tx": {"id": None if lsn is None else f"{lsn:03}"}},
    }


@settings(max_examples=30, deadline=None)
@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 8), max_size=3),
    form=st.sampled_from(["structs", "text", "payload"]),
    order=st.sampled_from(["source.lsn", "source.tx.id"]),
    w=st.integers(1, 3),
)
def test_events_are_ordered_by_a_field_inside_them(
    rows: list[Person], cuts: list[int], form: str, order: str, w: int
) -> None:
    flow = ps.Dataflow("events")
    events: list[dict[str, Any]] = [event_of(row) for row in rows]
    if form == "structs":
        table = flow.stream_input("events", STRUCTS).to_table(format="debezium", key="id", order=order)
    else:
        told = f"{order} string" if order.endswith("id") else order
        table = flow.stream_input("events", "value string").to_table(
            format="debezium", schema="id long, city string", value="value", key="id", order=told
        )
        wrapped = [{"schema": {}, "payload": each} if form == "payload" else each for each in events]
        events = [{"value": json.dumps(each)} for each in wrapped]
    flow.output("now", table)
    epochs = in_epochs(events, cuts)
    found = put_out(flow.run(events=epochs, workers=w)["now"], len(epochs))[-1]
    assert found == Counter((key, city) for key, city, _ in newest(rows).elements())


def test_an_order_that_no_event_can_have_is_rejected() -> None:
    flow = ps.Dataflow("events")
    structs, text = (
        flow.stream_input("structs", STRUCTS),
        flow.stream_input("text", "value string, meta struct<n long>"),
    )
    options: dict[str, Any] = {"schema": "id long, city string", "value": "value", "key": "id"}
    cases: tuple[tuple[Callable[[], object], str], ...] = (
        (
            lambda: structs.to_table(format="debezium", key="id", order="source.pos"),
            "is not a field of 'source', which is struct",
        ),
        (
            lambda: structs.to_table(format="debezium", key="id", order="source.lsn.x"),
            "is not a field of 'source.lsn', which is int64",
        ),
        (
            lambda: structs.to_table(format="debezium", key="id", order="after.city"),
            "which the event of a deleted row lacks",
        ),
        (
            lambda: structs.to_table(format="debezium", key="id", order="nothing.x"),
            "needs the column 'nothing'",
        ),
        (
            lambda: structs.to_table(format="debezium", key="id", order="source.tx"),
            "must be a number, a text or a time",
        ),
        (
            lambda: text.to_table(format="debezium", **options, order="source.lsn nonsense"),
            "must be a path such as 'source.lsn'",
        ),
        (lambda: text.to_table(format="debezium", **options, order="meta.m"), "is not a field of 'meta'"),
    )
    for asked, said in cases:
        with pytest.raises((FlowError, SchemaError), match=said):
            asked()
    flow.output("now", text.to_table(format="debezium", **options, order="source.lns"))
    with pytest.raises(FlowError, match=r"has no 'source\.lns'\. Name a field that every event has"):
        flow.run(text=[[{"value": json.dumps(event_of((1, "x", 1, False))), "meta": None}]], structs=[])


# Watermarks.

TIMED = "id long, city string, at long, gone boolean"


def timed_flow(lateness: int = 3) -> ps.Dataflow:
    flow = ps.Dataflow("timed")
    table = flow.table("people", TIMED, key="id", order="at", deleted="gone", lateness=lateness)
    flow.output("people", table)
    return flow


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("xy"), st.integers(0, 9), st.booleans()), max_size=12
    ),
    cuts=st.lists(st.integers(0, 12), max_size=6),
    w=st.integers(1, 3),
)
def test_tombstones_that_the_watermark_has_freed_are_not_missed(
    rows: list[Any], cuts: list[int], w: int
) -> None:
    epochs = in_epochs(rows, cuts)
    names = ("id", "city", "at", "gone")
    data = [[dict(zip(names, row, strict=True)) for row in epoch] for epoch in epochs]
    found = put_out(timed_flow().run(people=data, workers=w)["people"], len(epochs))
    in_time: list[Person] = []
    greatest: int | None = None
    for number, epoch in enumerate(epochs):
        in_time += [row for row in epoch if greatest is None or row[2] >= greatest - 3]
        greatest = max([row[2] for row in epoch] + ([] if greatest is None else [greatest]), default=None)
        assert found[number] == newest(in_time)


def test_state_of_deleted_keys_is_freed_by_the_watermark() -> None:
    sizes = {}
    for lateness in (3, 10_000):
        with timed_flow(lateness).open() as run:
            for epoch in range(100):
                rows = [{"id": epoch * 10 + n, "city": "x", "at": epoch, "gone": True} for n in range(10)]
                run.input("people").send(rows)
                run.input("people").advance_to(epoch + 1)
                run.settle()
            sizes[lateness] = {each.name: each.rows for each in status_of(run).kept}
    assert sizes[10_000]["people: upserts: newest"] == 1000
    # Those of the last 4 epochs, and some that are freed and wait to be merged.
    assert sizes[3]["people: upserts: newest"] < 250
    assert sizes[3]["people: upserts: deleted"] <= 40


def test_a_row_without_event_time_is_rejected_where_tombstones_are_freed() -> None:
    with pytest.raises(FlowError, match="of epoch 0 has null in 'at', which orders the rows of a key"):
        timed_flow().run(people=[[{"id": 1, "city": "x", "at": None, "gone": False}]])


def test_what_a_keyed_table_keeps_is_described() -> None:
    forever = "a tombstone (key and order value) of each deleted key forever"
    assert forever in people_flow().describe()
    assert "of each deleted key until the watermark passes it" in timed_flow().describe()


def test_sql_frees_tombstones_by_the_watermark_of_the_order() -> None:
    text = """
        create table people (id long primary key, city string, at long, gone boolean,
            watermark for at as at - 3) tblproperties ('order' = 'at', 'deleted' = 'gone');
        select id, city from people"""
    assert "until the watermark passes it" in ps.sql(text).describe()
    with pytest.raises(ps.errors.SqlError, match="must be that of its 'order' column"):
        ps.sql(text.replace("'order' = 'at', ", ""))


# Mistakes that the families above find.


def _old_rows_lose(patch: pytest.MonkeyPatch) -> None:
    right = OrderedUpserts._greatest

    def greatest(self: OrderedUpserts, rows: pa.RecordBatch) -> pa.RecordBatch:
        stored = len(self._newest.rows_of(rows, self._plan.key)) if rows.num_rows > 1 else 0
        return right(self, rows.slice(min(stored, rows.num_rows - 1)))

    patch.setattr(OrderedUpserts, "_greatest", greatest)


def _deletions_leave_nothing(patch: pytest.MonkeyPatch) -> None:
    right = OrderedUpserts._apply

    def apply(self: OrderedUpserts, context: Any, batch: pa.RecordBatch) -> pa.RecordBatch:  # noqa: ANN401
        change = right(self, context, batch)
        marks = change.filter(change.column(self._mark))
        self._newest.add(with_weights(marks, -marks.column("diff").to_numpy()))
        return change

    patch.setattr(OrderedUpserts, "_apply", apply)


def _arrival_decides_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upsert, "ranks", lambda rows, by: [*ranks(rows, by[:1])] * len(by))


def _deletions_lose_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upsert, "_flags", lambda marks: 1 - np.asarray(marks.to_numpy(zero_copy_only=False)))


def _freed_too_early(patch: pytest.MonkeyPatch) -> None:
    right = Calendar.take
    patch.setattr(Calendar, "take", lambda self, bound: right(self, bound + 1))


def _saved_without_tombstones(patch: pytest.MonkeyPatch) -> None:
    right = OrderedUpserts.save

    def save(self: OrderedUpserts, *, changes_only: bool) -> Mapping[str, Piece]:
        pieces = right(self, changes_only=changes_only)
        table = pieces["newest"].table
        there = replace(pieces["newest"], table=table.filter(pc.invert(table.column(self._mark))))
        return {**pieces, "newest": there}

    patch.setattr(OrderedUpserts, "save", save)


def judge_splits() -> None:
    for seed in range(12):
        rows, cuts = stories(seed)
        epochs = in_epochs(rows, cuts)
        data = [as_rows(each) for each in epochs]
        found = put_out(people_flow().run(people=data, workers=2)["people"], len(epochs))
        assert found[-1] == newest(rows)


def judge_watermarks() -> None:
    # The last row is at the watermark itself, as the deletion is.
    story = [[(1, "x", 5, True)], [(2, "x", 8, False)], [(1, "y", 5, False)]]
    data = [[dict(zip(("id", "city", "at", "gone"), row, strict=True)) for row in epoch] for epoch in story]
    found = put_out(timed_flow().run(people=data)["people"], len(story))
    assert found[-1] == newest([row for epoch in story for row in epoch])


def judge_restarts() -> None:
    story = [(1, "x", 1, False), (1, "x", 3, True), (1, "y", 2, False)]
    assert restarted(story, [1, 2], random.Random(0)) == newest(story)


MISTAKES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "the order decides within an epoch only": (_old_rows_lose, judge_splits),
    "deletions leave no tombstone": (_deletions_leave_nothing, judge_splits),
    "arrival decides ties": (_arrival_decides_ties, judge_splits),
    "deletions lose ties": (_deletions_lose_ties, judge_splits),
    "tombstones at the watermark are freed": (_freed_too_early, judge_watermarks),
    "tombstones are not saved": (_saved_without_tombstones, judge_restarts),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_what_is_right_is_not(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks, judge = MISTAKES[mistake]
    judge()
    breaks(monkeypatch)
    with pytest.raises(AssertionError, match="assert Counter"):
        judge()


def test_a_snapshot_without_tombstones_is_rejected() -> None:
    schema = pa.schema([("id", pa.int64()), ("version", pa.int64()), DIFF_FIELD])
    operator = OrderedUpserts(UpsertPlan(("id",), "version", "gone", schema))
    context = cast("ps.ports.Context", SimpleNamespace(operator="people: upserts"))
    with pytest.raises(
        RecoveryError,
        match=r"'people: upserts': the snapshot of an earlier version has no tombstones .* new checkpoint",
    ):
        operator.restore(context, {"rows": pa.table({"id": [1], "version": [1], "diff": [1]})})
