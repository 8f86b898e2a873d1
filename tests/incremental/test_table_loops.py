"""Loops of tables as blocks, what they say when they do not end, and what only tables that grow may use.

- blocks with one and with several variables, and one in another, beside brute force with deletions;
- loops that swing: both rounds are shown;
- tables that only grow: which ones do, and fast operators that refuse the others;
- misuse.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp import graphs
from pointstamp.errors import FlowError, LoopError, SchemaError
from support.table_loops import EDGES, ROUNDS_MAX, STARTS, brute_parts, brute_reach
from support.table_queries import Epochs, Row, accumulated, changes, put_out, table_of

NODES = st.integers(0, 4)


def step(reached: ps.Table, edges: ps.Table) -> ps.Table:
    """The nodes one edge further."""
    return reached.join(edges, {"node": "src"}).select(node=ps.col("dst"))


def reach_block(starts: ps.Table, edges: ps.Table, *, from_nothing: bool) -> ps.Table:
    """The nodes that can be reached; the variable begins with the starts, or without rows."""
    with edges.loop("reach", max_rounds=ROUNDS_MAX) as loop:
        begun = starts.distinct()
        reached = loop.variable("node long" if from_nothing else begun)
        now = step(reached, loop.enter(edges)).union(begun.enter(loop)).distinct()
        loop.feedback(reached, now)
        return loop.leave(now)


def by_turns(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The nodes that can be reached in an even number of steps, and in an odd one: two variables."""
    begun = starts.distinct()
    with starts.loop("by turns", max_rounds=ROUNDS_MAX) as loop:
        even, odd = loop.variable(begun, "even"), loop.variable(STARTS.remove(1), "odd")
        inner = loop.enter(edges)
        evenly = step(odd, inner).union(loop.enter(begun)).distinct()
        oddly = step(even, inner).distinct()
        loop.feedback(even, evenly)
        loop.feedback(odd, oddly)
        left = (
            loop.leave(evenly).select("node", rest=ps.lit(0)),
            loop.leave(oddly).select("node", rest=ps.lit(1)),
        )
    return left[0].union(left[1])


def brute_turns(starts: list[int], edges: list[tuple[int, int]]) -> Counter[Row]:
    found = {(node, 0) for node in starts}
    while more := {(b, 1 - rest) for a, b in edges for node, rest in found if a == node} - found:
        found |= more
    return Counter(found)


def parts_block(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """A block in a block: what stays when nodes without an edge from a reached one are taken away."""
    nodes = edges.select(node=ps.col("src")).union(edges.select(node=ps.col("dst"))).distinct()
    roots = starts.distinct()
    with nodes.loop("shrink", max_rounds=ROUNDS_MAX) as outer:
        x = outer.variable(nodes)
        within = (
            outer.enter(edges).join(x.rename({"node": "src"}), "src").join(x.rename({"node": "dst"}), "dst")
        )
        begun = outer.enter(roots).join(x, "node", how="semi")
        found = reach_block(begun, within, from_nothing=False)
        kept = (
            within.join(found.rename({"node": "src"}), "src", how="semi")
            .select(node=ps.col("dst"))
            .distinct()
        )
        shrunk = found.join(kept, "node", how="semi")
        outer.feedback(x, shrunk)
        return outer.leave(shrunk)


Maker = Callable[[ps.Table, ps.Table], ps.Table]
QUERIES: dict[str, tuple[Maker, Callable[..., Counter[Row]]]] = {
    "reach": (lambda starts, edges: reach_block(starts, edges, from_nothing=False), brute_reach),
    "reach from nothing": (lambda starts, edges: reach_block(starts, edges, from_nothing=True), brute_reach),
    "by turns": (by_turns, brute_turns),
    "parts": (parts_block, brute_parts),
}


def judge(name: str, edges: Epochs, starts: Epochs, workers: int) -> None:
    make, brute = QUERIES[name]
    flow = ps.Dataflow(name)
    made = make(flow.table("starts", STARTS, weight="w"), flow.table("edges", EDGES, weight="w"))
    flow.output("nodes", made)
    results = flow.run(
        edges=[table_of(rows, EDGES) for rows in edges],
        starts=[table_of(rows, STARTS) for rows in starts],
        workers=workers,
    )["nodes"]
    for epoch, total in enumerate(put_out(results, len(edges))):
        there = [row[0] for row in accumulated(starts[: epoch + 1])]
        assert total == brute(there, [(a, b) for a, b in accumulated(edges[: epoch + 1])]), f"epoch {epoch}"


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=10, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 4))
def test_a_block_is_the_fixpoint_after_every_epoch(
    name: str, data: st.DataObject, workers: int, epochs: int
) -> None:
    edges = data.draw(changes(st.tuples(NODES, NODES), epochs))
    judge(name, edges, data.draw(changes(st.tuples(NODES), epochs)), workers)


@pytest.mark.long
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), workers=st.integers(1, 3), epochs=st.integers(1, 8))
def test_many_blocks_are_the_fixpoint_after_every_epoch(
    name: str, data: st.DataObject, workers: int, epochs: int
) -> None:
    edges = data.draw(changes(st.tuples(NODES, NODES), epochs))
    judge(name, edges, data.draw(changes(st.tuples(NODES), epochs)), workers)


# Loops that do not end.


def test_a_loop_that_swings_shows_what_went_round_last() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("rows", "n long")
    flow.output("out", rows.iterate(lambda x: x.select(n=1 - ps.col("n")), max_rounds=6, name="swing"))
    with pytest.raises(LoopError, match="has not converged in 6 rounds of epoch 1") as raised:
        flow.run(rows=[[], [{"n": 0}]])
    words = str(raised.value)
    assert "loop 'swing' has not converged in 6 rounds of epoch 1. In round 4 " in words
    before, last = words.partition(" went round, and in round 5 ")[::2]
    for row in ("-1 of {'n': 0}", "+1 of {'n': 1}"):
        assert row in before
    for row in ("+1 of {'n': 0}", "-1 of {'n': 1}"):
        assert row in last


def test_a_row_whose_number_doubles_raises_before_the_number_overflows() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("rows", "n long")
    flow.output("out", rows.iterate(lambda x: x.union(x), max_rounds=100, name="doubles"))
    with pytest.raises(
        LoopError, match=r"'doubles': round \d+ of epoch 0 has 2,147,483,648 copies of {'n': 7}"
    ):
        flow.run(rows=[[{"n": 7}]])


def test_a_loop_that_grows_for_ever_shows_a_few_of_many_rows() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("rows", "n long")
    flow.output("out", rows.iterate(lambda x: x.select(n=ps.col("n") + 10).union(x), max_rounds=3))
    with pytest.raises(LoopError, match=r"and 7 more rows went round, and in round 2 .* and 12 more rows"):
        flow.run(rows=[[{"n": n} for n in range(5)]])


# Tables that only grow.


def test_which_tables_only_grow_is_known_and_said() -> None:
    flow = ps.Dataflow("test")
    a, b = (flow.table(name, "k long, n long, l array<long>") for name in "ab")
    weighed = flow.table("w", "k long, w long", weight="w")
    grow = [
        a,
        a.filter(ps.col("n") > 1).select("k", "n"),
        a.join(b, "k"),
        a.union(b).distinct(),
        a.explode("l"),
        a.select("k").join(b.select("n"), how="cross"),
        a.map_batches(lambda batch: batch),
        a.join(b, "k", how="semi"),
        a.intersect(b),
    ]
    shrink = [
        weighed,
        a.join(weighed, "k"),
        a.join(b, "k", how="left"),
        a.join(b, "k", how="anti"),
        a.count("k"),
        a.top(1, "k", by="n"),
        a.except_(b),
        a.iterate(lambda x: x.distinct()),
        flow.table("upserts", "k long, n long", key="k"),
        flow.table("s", "n long", snapshots=True),
    ]
    assert [table.is_append_only for table in grow] == [True] * len(grow)
    assert [table.is_append_only for table in shrink] == [False] * len(shrink)
    flow.output("joined", a.join(b, "k").select("k"))
    flow.output("counts", a.count("k"))
    said = flow.describe()
    assert "sends k long, diff long not null; rows are only added" in said
    assert (
        "sends k long, count long not null, diff long not null\n" in said
        or "count long, diff long not null\n" in said
    )


def test_rows_of_a_table_that_only_grows_are_a_stream_again() -> None:
    flow = ps.Dataflow("test")
    a, b = (flow.table(name, "k long") for name in "ab")
    flow.output("pairs", a.join(b, "k").to_stream())
    results = flow.run(a=[[{"k": 1}], [{"k": 1}, {"k": 2}]], b=[[{"k": 1}, {"k": 1}], []], workers=2)["pairs"]
    assert [results[epoch].to_pylist() for epoch in (0, 1)] == [[{"k": 1}] * 2] * 2
    with pytest.raises(
        FlowError, match=r"'to stream' of table 'count.*': rows of this table .*can be deleted"
    ):
        a.count("k").to_stream()


def test_components_take_a_table_that_only_grows_and_refuse_others() -> None:
    flow = ps.Dataflow("test")
    edges = flow.table("edges", "src long, dst long")
    flow.output("components", graphs.connected_components(edges.filter(ps.col("src") != ps.col("dst"))))
    grown = flow.run(edges=[[{"src": 1, "dst": 2}], [{"src": 2, "dst": 0}, {"src": 5, "dst": 5}]])[
        "components"
    ]
    assert sorted(map(str, grown[1].to_pylist())) == [f"{{'vertex': {v}, 'component': 0}}" for v in range(3)]
    weighed = flow.table("more", "src long, dst long, w long", weight="w")
    with pytest.raises(FlowError, match=r"edges of this table can be deleted.*with iterate"):
        graphs.connected_components(weighed)


def test_what_the_refusal_of_components_proposes_is_right() -> None:
    flow = ps.Dataflow("test")
    one_way = flow.table("edges", "src long, dst long, w long", weight="w")
    edges = one_way.union(one_way.select(src=ps.col("dst"), dst=ps.col("src")))
    labels = edges.select(vertex=ps.col("src"), component=ps.col("src")).distinct()
    made = labels.iterate(
        lambda x, labels, edges: (
            x.join(edges, {"vertex": "src"})
            .select(vertex=ps.col("dst"), component=ps.col("component"))
            .union(labels)
            .group_by("vertex")
            .agg(component=ps.min("component"))
        ),
        labels,
        edges,
    )
    flow.output("components", made)
    path = [{"src": n, "dst": n + 1, "w": 1} for n in range(4)]
    found = put_out(flow.run(edges=[path, [{"src": 1, "dst": 2, "w": -1}]])["components"], 2)
    assert found == [
        Counter((n, 0) for n in range(5)),
        Counter({(0, 0): 1, (1, 0): 1, (2, 2): 1, (3, 2): 1, (4, 2): 1}),
    ]


def test_a_running_reduction_of_changes_is_for_tables_that_only_grow() -> None:
    flow = ps.Dataflow("test")
    a = flow.table("a", "k long")
    changes_of_counts = a.count("k").changes()
    with pytest.raises(
        FlowError,
        match=r"'count.*' of stream .* is running, and reads the changes of a table that 'changes' sends",
    ):
        changes_of_counts.filter(ps.col("k") > 0).group_by("k", running=True).count()
    assert a.changes().group_by("k", running=True).count().schema.names == ["k", "count"]
    assert changes_of_counts.count("k").schema.names == ["k", "count"]
    assert changes_of_counts.drop("diff").group_by("k", running=True).count().schema.names == ["k", "count"]


# Misuse.


def test_what_cannot_be_asked_of_a_block_is_refused_in_words() -> None:
    flow = ps.Dataflow("test")
    stream = flow.stream_input("rows", "n long")
    rows = stream.to_table()
    with rows.loop("l") as loop:
        x = loop.variable(rows)
        with pytest.raises(FlowError, match="loop 'l': enter of a loop of tables needs a table, got Stream"):
            loop.enter(stream)  # type: ignore[arg-type]
        with pytest.raises(FlowError, match="needs its table in round 0, or the columns of an empty one"):
            loop.variable(5)
        with pytest.raises(FlowError, match="enter takes a stream from outside the loop"):
            loop.variable(x)
        with pytest.raises(SchemaError, match="a column cannot be called 'diff'"):
            loop.variable("diff long")
        with pytest.raises(FlowError, match="feedback needs a variable of this loop, got table"):
            loop.feedback(loop.enter(rows), x)
        with pytest.raises(SchemaError, match="needs the same columns on both sides"):
            loop.feedback(x, x.select(m=ps.col("n")))
        with pytest.raises(FlowError, match="leave takes a stream from inside the loop"):
            loop.leave(rows)
        loop.feedback(x, x.distinct())
        with pytest.raises(FlowError, match="is fed twice"):
            loop.feedback(x, x.distinct())
    with pytest.raises(FlowError, match="was never fed"), rows.loop("m") as loop:
        loop.variable(rows)
