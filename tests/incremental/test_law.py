"""The law of tables: what a query has emitted up to an epoch, added up, is the batch query of its inputs.

- random queries over random changes, beside DuckDB, which is asked again from scratch after every epoch;
- loops, beside a fixpoint by brute force after every epoch, with deletions;
- queries at every time of a loop in a loop, in the product order of epochs and rounds;
- the same in worlds that the simulator chooses is in test_worlds.py.

All are run on one to three workers: how many there are must not show.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.random_queries import BINARY, LEAVES, UNARY, binary, queries, unary
from support.table_loops import judge_loop
from support.table_queries import LEFT_ROWS, RIGHT_ROWS, Query, changes, judge
from support.table_times import QUERIES, judge_times, timed_changes

EPOCHS = st.integers(1, 4)
WORKERS = st.integers(1, 3)


@pytest.mark.parametrize("kind", sorted(UNARY))
@settings(max_examples=8, deadline=None)
@given(data=st.data(), child=st.sampled_from(LEAVES), workers=WORKERS, epochs=EPOCHS)
def test_one_operation_is_duckdbs_after_every_epoch(
    kind: str, data: st.DataObject, child: Query, workers: int, epochs: int
) -> None:
    left, right = data.draw(changes(LEFT_ROWS, epochs)), data.draw(changes(RIGHT_ROWS, epochs))
    judge(unary(child, kind), left, right, workers)


@pytest.mark.parametrize("kind", sorted(BINARY))
@settings(max_examples=8, deadline=None)
@given(
    data=st.data(), one=st.sampled_from(LEAVES), other=st.sampled_from(LEAVES), workers=WORKERS, epochs=EPOCHS
)
def test_one_operation_on_two_tables_is_duckdbs_after_every_epoch(
    kind: str, data: st.DataObject, one: Query, other: Query, workers: int, epochs: int
) -> None:
    left, right = data.draw(changes(LEFT_ROWS, epochs)), data.draw(changes(RIGHT_ROWS, epochs))
    judge(binary(one, other, kind), left, right, workers)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), query=queries(), workers=WORKERS, epochs=EPOCHS)
def test_a_random_query_is_duckdbs_after_every_epoch(
    data: st.DataObject, query: Query, workers: int, epochs: int
) -> None:
    left, right = data.draw(changes(LEFT_ROWS, epochs)), data.draw(changes(RIGHT_ROWS, epochs))
    judge(query, left, right, workers)


@pytest.mark.long
@settings(max_examples=2000, deadline=None)
@given(data=st.data(), query=queries(8), workers=WORKERS, epochs=st.integers(1, 8))
def test_two_thousand_random_queries_are_duckdbs_after_every_epoch(
    data: st.DataObject, query: Query, workers: int, epochs: int
) -> None:
    left, right = data.draw(changes(LEFT_ROWS, epochs)), data.draw(changes(RIGHT_ROWS, epochs))
    judge(query, left, right, workers)


NODES = st.integers(0, 4)
# Edges that go from lesser to greater nodes make no cycle.
FORWARD = st.tuples(NODES, NODES).filter(lambda edge: edge[0] < edge[1])


@pytest.mark.parametrize("loop", ["reach", "parts", "walks"])
@settings(max_examples=12, deadline=None)
@given(data=st.data(), workers=WORKERS, epochs=st.integers(1, 5))
def test_a_loop_with_deletions_is_the_fixpoint_after_every_epoch(
    loop: str, data: st.DataObject, workers: int, epochs: int
) -> None:
    _judge_random_loop(loop, data, workers, epochs)


@pytest.mark.parametrize("query", QUERIES)
def test_at_every_time_of_two_loops_a_query_is_that_of_what_arrived_up_to_it(query: str) -> None:
    for seed in range(8):
        judge_times(query, timed_changes(seed), 1 + seed % 3)


@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES)
def test_at_every_time_of_two_loops_many_queries_are_right(query: str) -> None:
    for seed in range(16):
        judge_times(query, timed_changes(seed, 6), 1 + seed % 3)


@pytest.mark.long
@pytest.mark.parametrize(("loop", "examples"), [("reach", 120), ("parts", 16), ("walks", 120)])
def test_many_loops_with_deletions_are_the_fixpoint_after_every_epoch(loop: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(data=st.data(), workers=WORKERS, epochs=st.integers(1, 10))
    def judge_all(data: st.DataObject, workers: int, epochs: int) -> None:
        _judge_random_loop(loop, data, workers, epochs)

    judge_all()


def _judge_random_loop(loop: str, data: st.DataObject, workers: int, epochs: int) -> None:
    rows = FORWARD if loop == "walks" else st.tuples(NODES, NODES)
    edges = data.draw(changes(rows, epochs))
    judge_loop(loop, edges, data.draw(changes(st.tuples(NODES), epochs)), workers)
