"""What a running reduction sends are updates; who would add them up is refused when the flow is written.

Families, and what only each can find:
- refused: each way from a running reduction to one that must not aggregate its updates, with both names;
- accepted: what is right whatever was replaced, run and compared with the aggregate of the last rows;
- rules by themselves: that marks are found in cycles, and how they come together.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.flow.updates import Course, Updates, together

COLUMNS = "shop string, item string, price long"
Make: TypeAlias = Callable[[ps.Stream], ps.Stream]


def rows(flow: ps.Dataflow | None = None) -> ps.Stream:
    return (flow or ps.Dataflow("test")).stream_input("rows", COLUMNS)


def best(stream: ps.Stream, aggregate: Any = None, *keys: str) -> ps.Stream:  # noqa: ANN401
    wanted = ps.max("price") if aggregate is None else aggregate
    return stream.group_by(*(keys or ("shop", "item")), running=True).agg(price=wanted).named("best")


def same(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row


# Refused.


@pytest.mark.parametrize(
    ("aggregate", "shown"),
    [
        (ps.mean("price"), r"'n' is mean\(price\)"),
        (ps.sum("price"), r"'n' is sum\(price\)"),
        (ps.count("price"), r"'n' is count\(price\)"),
        (ps.count(), r"'n' is count\(\)"),
        (ps.min("price"), r"'n' is min\(price\), .* only max\('price'\) would be right"),
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_an_aggregate_that_replaced_rows_would_change_is_refused(
    aggregate: ps.functions.Aggregate, shown: str, running: bool
) -> None:
    with pytest.raises(FlowError, match=f"'agg' of stream 'best' aggregates what 'best' sends.*{shown}"):
        best(rows()).group_by("shop", running=running).agg(n=aggregate).named("mine")


@pytest.mark.parametrize("aggregate", [ps.sum("price"), ps.count(), ps.mean("price")])
def test_updates_of_a_column_that_does_not_only_fall_or_rise_are_refused(
    aggregate: ps.functions.Aggregate,
) -> None:
    for again in (ps.min("price"), ps.max("price"), ps.sum("price")):
        with pytest.raises(FlowError, match="aggregates what 'best' sends"):
            best(rows(), aggregate).group_by("shop", "item", running=True).agg(n=again)


def test_counts_of_updates_are_refused() -> None:
    counted = rows().group_by("item", running=True).count()
    with pytest.raises(FlowError, match=r"'agg' of stream 'count' .* 'keys' is count\(\)"):
        counted.group_by("count").agg(keys=ps.count()).named("sizes")


WAYS: dict[str, Make] = {
    "map": lambda s: s.map(same, COLUMNS),
    "map_batches": lambda s: s.map_batches(lambda batch: batch),
    "flat_map": lambda s: s.flat_map(lambda row: [row], COLUMNS),
    "filter": lambda s: s.filter(lambda batch: [True] * batch.num_rows),
    "branch": lambda s: s.split(lambda batch: [True] * batch.num_rows)[1],
    "concat": lambda s: s.union(s.filter(lambda batch: [True] * batch.num_rows)),
    "inspect": lambda s: s.inspect(lambda time, batch: None),
    "delay": lambda s: s.delay(2),
    "exchange": lambda s: s.exchange("item"),
    "copies": lambda s: s.broadcast().exchange("item"),
    "through a loop": lambda s: _through_a_loop(s),
    "all of them": lambda s: _through_a_loop(s.map(same, COLUMNS).delay(1)).union(s),
    "max of them": lambda s: s.group_by("shop", "item", running=True).agg(price=ps.max("price")),
}


def _through_a_loop(stream: ps.Stream) -> ps.Stream:
    with stream.loop("round", max_rounds=2, at_limit="stop") as loop:
        again = loop.variable(stream.schema)
        loop.feedback(again, loop.enter(stream))
        return loop.leave(again)


@pytest.mark.parametrize("way", WAYS)
def test_updates_stay_updates_on_every_way(way: str) -> None:
    with pytest.raises(FlowError, match=r"'agg' of .* aggregates what '(best|agg)'"):
        WAYS[way](best(rows())).group_by("shop").agg(n=ps.sum("price")).named("mine")


def test_updates_that_come_by_feedback_are_refused_where_the_cycle_is_closed() -> None:
    stream = rows()
    with stream.loop("round") as loop:
        again = loop.variable(COLUMNS)
        sums = (
            again.union(loop.enter(stream)).group_by("shop", "item").agg(price=ps.sum("price")).named("sums")
        )
        # So far this is right: nothing says that the variable carries updates.
        again_best = best(sums)
        with pytest.raises(FlowError, match="'sums' aggregates what 'best' sends"):
            loop.feedback(again, again_best)
        loop.feedback(again, sums)


def test_updates_that_come_by_a_cycle_through_epochs_are_refused() -> None:
    flow = ps.Dataflow("cycle")
    before = flow.variable(COLUMNS, ps.timely.delay(1))
    totals = (
        rows(flow)
        .union(before)
        .group_by("shop", "item", running=True)
        .agg(price=ps.sum("price"))
        .named("all")
    )
    with pytest.raises(FlowError, match="'all' aggregates what 'all' sends"):
        flow.feedback(before, totals)


def test_groups_that_rows_move_between_are_refused() -> None:
    with pytest.raises(FlowError, match="groups by 'price', and a row that was replaced stays in its group"):
        best(rows()).group_by("price", running=True).agg(n=ps.max("price"))


def test_an_epoch_by_itself_has_only_what_changed_so_all_keys_are_needed() -> None:
    with pytest.raises(FlowError, match="groups by 'shop' without 'item', so rows that did not change"):
        best(rows()).group_by("shop").agg(price=ps.max("price"))


def test_updates_of_mixed_columns_are_refused_after_a_function_where_names_say_nothing() -> None:
    both = rows().group_by("shop", running=True).agg(low=ps.min("price"), sold=ps.count())
    renamed = both.map(lambda row: {"shop": row["shop"], "n": row["sold"]}, "shop string, n long")
    with pytest.raises(FlowError, match="aggregates what"):
        renamed.group_by("shop", running=True).agg(n=ps.min("n"))
    kept = both.map(lambda row: {"shop": row["shop"], "low": row["low"]}, "shop string, low long")
    kept.group_by("shop", running=True).agg(low=ps.min("low"))


def test_an_operator_of_ones_own_may_do_with_updates_what_it_likes() -> None:
    class Trusted:
        outputs = COLUMNS

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            context.send(batch)

    updates = ps.operator("mine", Trusted(), rows=best(rows()))
    updates.group_by("shop", running=True).count()


# Accepted.

DATA = [
    [{"shop": "a", "item": "x", "price": 5}, {"shop": "a", "item": "y", "price": 7}],
    [{"shop": "a", "item": "x", "price": 3}, {"shop": "b", "item": "x", "price": 9}],
    [{"shop": "a", "item": "y", "price": 8}, {"shop": "b", "item": "x", "price": 10}],
]


def last_of(make: Make, workers: int = 2) -> dict[Any, Any]:
    """The last row of each shop."""
    flow = ps.Dataflow("test")
    flow.output("out", make(rows(flow)))
    found: dict[Any, Any] = {}
    for _, table in sorted(flow.run(rows=DATA, workers=workers)["out"].items()):
        found.update({row["shop"]: row["price"] for row in table.to_pylist()})
    return found


@pytest.mark.parametrize(
    ("make", "right"),
    [
        (lambda s: best(s).group_by("shop", running=True).agg(price=ps.max("price")), {"a": 8, "b": 10}),
        (
            lambda s: best(s, ps.min("price")).group_by("shop", running=True).agg(price=ps.min("price")),
            {"a": 3, "b": 9},
        ),
        (lambda s: best(s).group_by("shop", running=True).agg(price=ps.max("item")), {"a": "y", "b": "x"}),
        (lambda s: best(s).group_by("shop", running=True).agg(price=ps.min("item")), {"a": "x", "b": "x"}),
        (lambda s: best(s, None, "shop").group_by("shop").agg(price=ps.max("price")), {"a": 8, "b": 10}),
        (
            lambda s: (
                best(s).map(same, COLUMNS).union(s).group_by("shop", running=True).agg(price=ps.max("price"))
            ),
            {"a": 8, "b": 10},
        ),
        (
            lambda s: _through_a_loop(best(s)).group_by("shop", running=True).agg(price=ps.max("price")),
            {"a": 8, "b": 10},
        ),
    ],
)
def test_what_replaced_rows_do_not_change_is_right(make: Make, right: dict[str, Any]) -> None:
    assert last_of(make) == right


def test_what_leaves_a_loop_can_be_brought_to_the_last_of_each_epoch() -> None:
    def make(stream: ps.Stream) -> ps.Stream:
        with stream.loop("up") as loop:
            again = loop.variable(COLUMNS)
            most = best(loop.enter(stream).union(again))
            loop.feedback(again, most.flat_map(_dearer, COLUMNS))
            left = loop.leave(most)
        return left.group_by("shop", "item").agg(price=ps.max("price")).named("last")

    flow = ps.Dataflow("test")
    flow.output("out", make(rows(flow)))
    found = flow.run(rows=DATA, workers=2)["out"]
    assert sorted(tuple(row.values()) for row in found[0].to_pylist()) == [("a", "x", 20), ("a", "y", 20)]


def _dearer(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{**row, "price": row["price"] + 1}] if row["price"] < 20 else []


# The rules by themselves.


def test_streams_that_come_together_are_known_as_the_least_of_them() -> None:
    falls = Updates(("one",), frozenset({"k", "j"}), (("v", Course.FALLS),))
    rises = Updates(("two",), frozenset({"k"}), (("v", Course.RISES), ("w", Course.RISES)), is_made=True)
    assert together([None, None]) is None
    assert together([None, falls]) == falls
    assert together([falls, None, rises, falls]) == Updates(
        ("one", "two"), frozenset({"k"}), (("v", Course.CHANGES), ("w", Course.RISES)), is_made=True
    )
