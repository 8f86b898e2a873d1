"""Inputs whose deletions are trusted: the same tables, with less state.

Families:
- honest inputs: every operator gives what it gives of a checked input, and brute force agrees;
- state: nothing is kept to check deletions; which inputs are trusted by default;
- broken promises: what is noticed, and what is wrong, as the guide has it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, PointstampError, SqlError

ROWS = "k string, n long, w long"
Change = tuple[str, int, int]


def _run(
    make: Callable[[ps.Table], ps.Table], epochs: list[list[Change]], *, trusted: bool, workers: int = 1
) -> list[Counter[Any]]:
    """The changes of each epoch."""
    flow = ps.Dataflow("test")
    flow.output("out", make(flow.table("rows", ROWS, weight="w", trusted=trusted)))
    rows = [[dict(zip("knw", row, strict=True)) for row in epoch] for epoch in epochs]
    found = flow.run(rows=rows, workers=workers)["out"]
    changes = []
    for table in found.values():
        counted: Counter[Any] = Counter()
        for row in table.to_pylist():
            diff = row.pop("diff")
            counted[tuple(row.values())] += diff
        changes.append(counted)
    return changes


@st.composite
def _epochs(draw: st.DrawFn) -> list[list[Change]]:
    """Changes that delete only what is there, in any order within an epoch."""
    there: Counter[tuple[str, int]] = Counter()
    epochs = []
    for _ in range(draw(st.integers(1, 4))):
        epoch: list[Change] = []
        for _ in range(draw(st.integers(0, 6))):
            alive = sorted((+there).elements())
            is_deletion = bool(alive) and draw(st.booleans())
            row = (
                st.sampled_from(alive) if is_deletion else st.tuples(st.sampled_from("ab"), st.integers(0, 3))
            )
            k, n = draw(row)
            there[k, n] += -1 if is_deletion else 1
            epoch.append((k, n, -1 if is_deletion else 1))
        epochs.append(list(draw(st.permutations(epoch))))
    return epochs


VERBS: dict[str, Callable[[ps.Table], ps.Table]] = {
    "rows": lambda table: table,
    "sums": lambda table: table.group_by("k").agg(total=ps.sum("n"), rows=ps.count()),
    "median": lambda table: table.group_by("k").agg(middle=ps.median("n")),
    "least": lambda table: table.group_by("k").agg(least=ps.min("n"), most=ps.max("n")),
    "distinct": lambda table: table.distinct(),
    "join": lambda table: table.join(table.select("k", m=ps.col("n")), "k"),
    "left": lambda table: table.join(
        table.filter(ps.col("n") > 1).select("k", m=ps.col("n")), "k", how="left"
    ),
    "top": lambda table: table.top(1, "k", by="n desc"),
    "minus": lambda table: table.select("k").except_(table.filter(ps.col("n") > 1).select("k")),
    "order": lambda table: table.with_columns(
        {"place": ps.row_number().over(partition_by="k", order_by="n")}
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_honest_input_gives_the_same_table_whether_it_is_trusted_or_checked(verb: str) -> None:
    @settings(max_examples=12, deadline=None)
    @given(_epochs())
    def check(epochs: list[list[Change]]) -> None:
        checked, trusted = (_run(VERBS[verb], epochs, trusted=each) for each in (False, True))
        assert _accumulated(trusted) == _accumulated(checked)
        if verb == "rows":
            assert _accumulated(trusted) == _by_hand(epochs)

    check()


def _accumulated(changes: list[Counter[Any]]) -> list[dict[Any, int]]:
    total: Counter[Any] = Counter()
    found = []
    for each in changes:
        total.update(each)
        found.append({row: count for row, count in total.items() if count})
    return found


def _by_hand(epochs: list[list[Change]]) -> list[dict[Any, int]]:
    changes: list[Counter[Any]] = []
    for epoch in epochs:
        changes.append(Counter())
        for k, n, w in epoch:
            changes[-1][k, n] += w
    return _accumulated(changes)


def test_a_trusted_input_gives_the_same_on_several_workers() -> None:
    epochs: list[list[Change]] = [[("a", 1, 1), ("b", 2, 2)], [("b", 2, -1), ("a", 1, -1), ("a", 3, 1)]]
    one, three = (_run(VERBS["sums"], epochs, trusted=True, workers=count) for count in (1, 3))
    assert _accumulated(one) == _accumulated(three)


# State.


def _checks(make: Callable[[ps.Dataflow], ps.Table]) -> bool:
    flow = ps.Dataflow("test")
    flow.output("out", make(flow))
    return "to refuse a deletion of what is not there" in flow.explain()


FEED = "id long, _change_type string"
EVENTS = "op string, before struct<id long>, after struct<id long>"


@pytest.mark.parametrize(
    ("make", "is_checked"),
    [
        (lambda flow: flow.table("r", ROWS, weight="w"), True),
        (lambda flow: flow.table("r", ROWS, weight="w", trusted=True), False),
        (lambda flow: flow.table("r", ROWS, operation="k"), True),
        (lambda flow: flow.table("r", ROWS, operation="k", trusted=True), False),
        (lambda flow: flow.table("r", FEED, operation="_change_type"), False),
        (lambda flow: flow.table("r", FEED, operation="_change_type", trusted=False), True),
        (lambda flow: flow.stream_input("r", EVENTS).to_table(format="debezium"), False),
        (lambda flow: flow.stream_input("r", EVENTS).to_table(format="debezium", trusted=False), True),
    ],
)
def test_feeds_of_databases_are_trusted_unless_they_are_not(
    make: Callable[[ps.Dataflow], ps.Table], is_checked: bool
) -> None:
    assert _checks(make) == is_checked


def test_rows_that_are_never_deleted_need_no_trust() -> None:
    stream = ps.Dataflow("test").stream_input("rows", ROWS)
    with pytest.raises(FlowError, match="trusted= needs weight= or operation=, because rows without them"):
        stream.to_table(trusted=True)


def test_a_declared_table_can_be_trusted() -> None:
    text = (
        "create table t (id long, op string) tblproperties ('operation' = 'op'{}); "
        "create view v as select id from t"
    )
    assert "to refuse a deletion" in ps.sql(text.format("")).explain()
    assert "to refuse a deletion" not in ps.sql(text.format(", 'trusted' = 'true'")).explain()
    with pytest.raises(SqlError, match="'trusted' must be true or false, got 'yes'"):
        ps.sql(text.format(", 'trusted' = 'yes'"))


# Broken promises.

BROKEN: list[list[Change]] = [[("a", 1, 1)], [("b", 5, -1)]]


@pytest.mark.parametrize("verb", ["sums", "least"])
def test_aggregates_by_key_notice_that_more_was_deleted_than_inserted(verb: str) -> None:
    with pytest.raises(FlowError, match=r"more of the rows of \{'k': 'b'\} were deleted than inserted"):
        _run(VERBS[verb], BROKEN, trusted=True)


@pytest.mark.parametrize("verb", ["median", "order"])
def test_operators_that_look_at_all_rows_fail(verb: str) -> None:
    with pytest.raises(PointstampError, match="failed when it was notified"):
        _run(VERBS[verb], BROKEN, trusted=True)


def test_an_output_shows_the_row_that_was_deleted_too_often() -> None:
    assert _run(VERBS["rows"], BROKEN, trusted=True)[1] == {("b", 5): -1}


def test_a_checked_input_names_the_row() -> None:
    with pytest.raises(FlowError, match=r"epoch 1 deletes 1 of row \{'k': 'b', 'n': 5\}, of which the table"):
        _run(VERBS["distinct"], BROKEN, trusted=False)


def test_floats_are_counted_as_well() -> None:
    flow = ps.Dataflow("test")
    table = flow.table("rows", "k string, x double, w long", weight="w", trusted=True)
    flow.output("out", table.group_by("k").agg(total=ps.sum("x")))
    rows = [pa.table({"k": ["a"], "x": [0.5], "w": [-1]})]
    with pytest.raises(FlowError, match="were deleted than inserted"):
        flow.run(rows=rows)
