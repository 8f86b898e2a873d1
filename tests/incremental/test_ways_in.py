"""The ways into a table: what is taken, and what is refused at the border with its row and epoch.

- weights: a row that is deleted must be there, and a weight must be one;
- fingerprints: of a long row 16 bytes are kept, which tell apart what one hash does not;
- upserts by key without an order, beside a dictionary (with one: test_keyed_splits.py);
- streams that make no table: updates, and times that are no epochs.
"""

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.driver.status import status_of
from pointstamp.errors import FlowError, SchemaError
from support.table_queries import put_out

SALES = "shop string, price long, w long"


def run_weighed(*epochs: list[tuple[Any, ...]], workers: int = 2) -> Any:  # noqa: ANN401 - tables by epoch
    flow = ps.Dataflow("test")
    flow.output("sales", flow.table("sales", SALES, weight="w"))
    rows = [[dict(zip(("shop", "price", "w"), row, strict=True)) for row in epoch] for epoch in epochs]
    return flow.run(sales=rows, workers=workers)["sales"]


# Weights.


def test_a_row_that_is_inserted_twice_can_be_deleted_twice() -> None:
    found = put_out(run_weighed([("a", 1, 2)], [("a", 1, -1)], [("a", 1, -1)]), 3)
    assert found == [Counter({("a", 1): 2}), Counter({("a", 1): 1}), Counter()]


def test_a_row_may_come_and_go_in_one_epoch() -> None:
    assert put_out(run_weighed([("a", 1, -1), ("a", 1, 1)]), 1) == [Counter()]


def test_a_weight_of_0_is_no_row() -> None:
    assert put_out(run_weighed([("a", 1, 0)]), 1) == [Counter()]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_is_not_there_cannot_be_deleted(workers: int) -> None:
    said = r"epoch 1 deletes 1 of row \{'shop': 'a', 'price': 2\}, of which the table contains 0\. Delete"
    with pytest.raises(FlowError, match=said):
        run_weighed([("a", 1, 1)], [("a", 2, -1)], workers=workers)


def test_nothing_of_an_epoch_that_is_refused_is_put_out() -> None:
    flow = ps.Dataflow("test")
    flow.output("sales", flow.table("sales", SALES, weight="w"))
    epochs = [
        [{"shop": "a", "price": 1, "w": 1}],
        [{"shop": "b", "price": 1, "w": 1}, {"shop": "a", "price": 9, "w": -1}],
    ]
    seen: list[int] = []
    with pytest.raises(FlowError, match="deletes 1 of row"):
        flow.run(sales=epochs, on_epoch=lambda epoch, tables: seen.append(epoch))
    assert seen == [0]


def test_a_null_is_no_weight() -> None:
    with pytest.raises(FlowError, match=r"in epoch 0 the weight must not be null, got row .*'w': None"):
        run_weighed([("a", 1, None)])


def test_a_weight_must_be_an_integer() -> None:
    with pytest.raises(SchemaError, match="the weight 'shop' must be an integer, got string"):
        ps.Dataflow("test").table("sales", SALES, weight="shop")


# Fingerprints of long rows.

WIDE = "name string, n long, x decimal(38, 0), l array<long>, note string"
_NULLS_HASH = 0x6E756C6C
"""The number whose published hash is that of a null."""
_WIDE_ROWS = st.fixed_dictionaries(
    {
        "name": st.sampled_from([None, "", "a", "a" * 70, "a" * 69 + "b"]),
        "n": st.sampled_from([None, 0, _NULLS_HASH]),
        "x": st.sampled_from([None, Decimal(-1), Decimal(2**64 - 1), Decimal(2**63), Decimal(-(2**63))]),
        "l": st.sampled_from([None, [], [None], [_NULLS_HASH]]),
        "note": st.just("what makes a row long"),
    }
)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(_WIDE_ROWS, max_size=4), gone=_WIDE_ROWS, workers=st.integers(1, 3))
def test_a_long_row_is_deleted_only_where_each_of_its_values_is_there(
    rows: list[dict[str, Any]], gone: dict[str, Any], workers: int
) -> None:
    flow = ps.Dataflow("test")
    table = flow.table("rows", f"{WIDE}, w long", weight="w")
    flow.output("n", table.select("name", "n"))
    flow.output("all", table)  # so that all columns are read, and looked at
    epochs = [[{**row, "w": 1} for row in rows], [{**gone, "w": -1}]]
    if gone in rows:
        left = Counter((row["name"], row["n"]) for row in rows) - Counter([(gone["name"], gone["n"])])
        assert put_out(flow.run(rows=epochs, workers=workers)["n"], 2)[1] == left
        return
    with pytest.raises(FlowError, match=r"epoch 1 deletes 1 of row .*of which the table contains 0") as error:
        flow.run(rows=epochs, workers=workers)
    assert str(gone["x"]) in str(error.value)


def test_a_map_whose_entries_come_in_another_order_is_another_row() -> None:
    flow = ps.Dataflow("test")
    flow.output("m", flow.table("rows", "m map<string, long>, w long", weight="w").select(a=ps.lit(1)))
    one = [("a", 1), ("b", 2)]
    with pytest.raises(FlowError, match="of which the table contains 0"):
        flow.run(rows=[[{"m": one, "w": 1}], [{"m": one[::-1], "w": -1}]])
    assert flow.run(rows=[[{"m": one, "w": 1}], [{"m": one, "w": -1}]])


def test_of_a_long_row_little_is_kept() -> None:
    flow = ps.Dataflow("test")
    flow.output("n", flow.table("rows", f"{WIDE}, w long", weight="w").agg(n=ps.count()))
    rows = [{"name": "a" * 500, "n": n, "x": None, "l": [n] * 20, "note": "", "w": 1} for n in range(1_000)]
    with flow.open() as run:
        run.input("rows").send(rows)
        run.input("rows").advance_to(1)
        run.settle()
        (border,) = [each for each in status_of(run).kept if "border" in each.name]
    assert border.size_bytes <= 33 * len(rows), "16 bytes, a weight, and a word by which they are found"


# Upserts.

PEOPLE = "id long, city string, version long, gone boolean"
_UPSERTS = st.dictionaries(
    st.integers(0, 3), st.tuples(st.sampled_from([None, "x", "y"]), st.booleans()), max_size=4
)


@settings(max_examples=20, deadline=None)
@given(epochs=st.lists(_UPSERTS, min_size=1, max_size=4), workers=st.integers(1, 3))
def test_without_an_order_the_row_of_the_latest_epoch_wins(epochs: list[Any], workers: int) -> None:
    flow = ps.Dataflow("test")
    flow.output("people", flow.table("people", PEOPLE, key="id", deleted="gone").select("id", "city"))
    data = [
        [{"id": key, "city": city, "version": -number, "gone": gone} for key, (city, gone) in epoch.items()]
        for number, epoch in enumerate(epochs)
    ]
    found = put_out(flow.run(people=data, workers=workers)["people"], len(epochs))
    there: dict[int, Any] = {}
    for epoch, rows in enumerate(epochs):
        there.update(rows)
        assert found[epoch] == Counter((key, city) for key, (city, gone) in there.items() if not gone)


def test_without_an_order_two_rows_of_a_key_in_one_epoch_are_rejected() -> None:
    flow = ps.Dataflow("test")
    flow.output("people", flow.table("people", PEOPLE, key="id"))
    rows = [{"id": 1, "city": city, "version": 7, "gone": False} for city in "xy"]
    said = "epoch 0 has two rows with one key, .*'x'.*'y'.*no order= to choose the later"
    with pytest.raises(FlowError, match=said):
        flow.run(people=[rows])


def test_a_column_that_marks_deletions_must_be_boolean() -> None:
    with pytest.raises(SchemaError, match="'city', which marks deletions, must be boolean, got string"):
        ps.Dataflow("test").table("people", PEOPLE, key="id", deleted="city")


# Words for operations, and whole states.


@pytest.mark.parametrize(
    "words", [("insert", "update_preimage", "update_postimage", "delete"), ("+I", "-U", "+U", "-D")]
)
def test_words_say_what_is_inserted_and_what_is_deleted(words: tuple[str, ...]) -> None:
    insert, before, after, delete = words
    flow = ps.Dataflow("test")
    flow.output("people", flow.table("feed", "op string, id long, city string", operation="op"))
    epochs = [[(insert, 1, "x"), (insert, 2, "x")], [(before, 1, "x"), (after, 1, "y")], [(delete, 2, "x")]]
    data = [[dict(zip(("op", "id", "city"), row, strict=True)) for row in epoch] for epoch in epochs]
    assert put_out(flow.run(feed=data, workers=2)["people"], 3) == [
        Counter([(1, "x"), (2, "x")]),
        Counter([(1, "y"), (2, "x")]),
        Counter([(1, "y")]),
    ]


def test_a_word_that_is_not_known_is_refused_with_its_row() -> None:
    flow = ps.Dataflow("test")
    flow.output("people", flow.table("feed", "op string, id long", operation="op"))
    with pytest.raises(FlowError, match=r"in epoch 0 the weight must not be null, got row .*'id': 4"):
        flow.run(feed=[[{"op": "upsert", "id": 4}]])


_ROWS = st.lists(st.tuples(st.integers(0, 5)), min_size=1, max_size=5)


@settings(max_examples=20, deadline=None)
@given(epochs=st.lists(_ROWS, min_size=1, max_size=4), workers=st.integers(1, 3))
def test_a_table_of_states_has_the_rows_of_the_last_epoch(epochs: list[Any], workers: int) -> None:
    flow = ps.Dataflow("test")
    flow.output("now", flow.table("rows", "n long", snapshots=True))
    data = [[{"n": n} for (n,) in epoch] for epoch in epochs]
    found = put_out(flow.run(rows=data, workers=workers)["now"], len(epochs))
    assert found == [Counter(epoch) for epoch in epochs]


# What makes no table.


def test_updates_are_no_rows_of_a_table() -> None:
    sales = ps.Dataflow("test").stream_input("sales", SALES)
    with pytest.raises(FlowError, match=r"accumulates what 'count' sends.*they would count"):
        sales.group_by("shop", running=True).count().to_table()


def test_a_column_cannot_be_called_as_the_weight_is() -> None:
    with pytest.raises(SchemaError, match="a column cannot be called 'diff', which is taken"):
        ps.Dataflow("test").table("rows", "diff long")


def test_times_that_are_no_epochs_make_no_table() -> None:
    flow = ps.Dataflow("test", times=ps.timely.Stacks(2))
    with pytest.raises(FlowError, match="a table needs epochs, but flow 'test' has custom times"):
        flow.table("rows", "n long")
