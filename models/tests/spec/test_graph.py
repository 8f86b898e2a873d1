"""The graph of local propagation, computed from its definitions.

Three families. *Hand cases* fix path summaries, could-result-in and implied frontiers on graphs small enough
to check on paper. *Laws* hold for every graph that satisfies the axioms; only they meet graphs with many
paths, antichains of summaries and incomparable times. *Refusals* break one axiom each, so that a check that
has silently stopped looking shows.
"""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp_models.spec.graph import Graph, Times, counters, minimal, vectors

Pair = tuple[int, ...]
COUNTERS = counters()
LOOP: Graph[int, int] = Graph("xy", {("x", "y"): [0], ("y", "x"): [1]}, COUNTERS)
X, Y = LOOP.locations()
PAIRS = vectors(2)
SMALL_PAIRS = tuple(product(range(3), repeat=2))


@st.composite
def graphs(draw: st.DrawFn) -> Graph[Pair, Pair]:
    """Up to four locations over pairs; an edge forward may add nothing, an edge back adds something."""
    names = "wxyz"[: draw(st.integers(1, 4))]
    forward = st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)])
    back = st.sampled_from([(0, 1), (1, 0), (1, 1)])
    edges = {
        (origin, target): draw(st.lists(forward if origin < target else back, max_size=2))
        for origin in names
        for target in names
        if origin != target
    }
    return Graph(names, edges, PAIRS)


def pointstamps(graph: Graph[Pair, Pair]) -> st.SearchStrategy[list[list[tuple[Pair, int]]]]:
    counts = st.lists(st.tuples(st.sampled_from(SMALL_PAIRS), st.integers(-2, 2)), max_size=3)
    return st.lists(
        counts.map(lambda items: list(dict(items).items())),
        min_size=len(graph.names),
        max_size=len(graph.names),
    )


def totals_of_walks(graph: Graph[Pair, Pair], steps: int) -> dict[tuple[int, int], set[Pair]]:
    """The totals of all walks of up to so many edges, cycles included."""
    totals: dict[tuple[int, int], set[Pair]] = {(here, here): {(0, 0)} for here in graph.locations()}
    for _ in range(steps):
        for (origin, here), known in list(totals.items()):
            for target in graph.locations():
                longer = {(a + c, b + d) for a, b in tuple(known) for c, d in graph.summary(here, target)}
                totals.setdefault((origin, target), set()).update(longer)
    return totals


# Hand cases.


def test_minimal_keeps_incomparable_elements_and_drops_what_lies_above_another() -> None:
    assert minimal([(0, 1), (1, 0), (1, 1), (0, 1)], PAIRS.less_equal) == {(0, 1), (1, 0)}


def test_the_path_summaries_of_a_loop_leave_out_going_round() -> None:
    assert LOOP.path_summary(X, X) == {0}
    assert LOOP.path_summary(X, Y) == {0}
    assert LOOP.path_summary(Y, X) == {1}
    assert LOOP.path_summary(Y, Y) == {0}


def test_two_ways_of_incomparable_cost_are_both_kept() -> None:
    diamond: Graph[Pair, Pair] = Graph(
        "abcd",
        {
            ("a", "b"): [(0, 2)],
            ("a", "c"): [(1, 0)],
            ("b", "d"): [(0, 0)],
            ("c", "d"): [(0, 0), (0, 5)],
        },
        PAIRS,
    )
    assert diamond.summary(2, 3) == {(0, 0)}
    assert diamond.path_summary(0, 3) == {(0, 2), (1, 0)}
    assert diamond.path_summary(3, 0) == frozenset()


def test_a_longer_path_of_lower_total_replaces_a_shorter_one() -> None:
    graph: Graph[int, int] = Graph("abc", {("a", "c"): [2], ("a", "b"): [0], ("b", "c"): [1]}, counters())
    assert graph.path_summary(0, 2) == {1}


def test_could_result_in_orders_the_pointstamps_of_the_loop_in_one_chain() -> None:
    chain = [(X, 0), (Y, 0), (X, 1), (Y, 1)]
    for i, early in enumerate(chain):
        for j, late in enumerate(chain):
            assert LOOP.could_result_in(*early, *late) == (i <= j)


def test_only_positive_counts_imply_a_frontier() -> None:
    assert LOOP.frontier([(0, -1), (1, 1)]) == {1}
    assert LOOP.implied_frontier([[(0, -1), (1, 1)], []], X) == {1}
    assert LOOP.implied_frontier([[], []], X) == frozenset()


def test_the_implied_frontier_takes_the_earliest_of_what_is_here_and_what_comes() -> None:
    assert LOOP.implied_frontier([[(3, 1)], [(1, 2)]], X) == {2}
    assert LOOP.implied_frontier([[(3, 1)], [(1, 2)]], Y) == {1}


def test_a_time_beyond_the_bound_never_arrives() -> None:
    bounded: Graph[int, int] = Graph("xy", {("x", "y"): [0], ("y", "x"): [1]}, counters(bound=2))
    assert bounded.implied_frontier([[], [(2, 1)]], X) == frozenset()
    assert not bounded.could_result_in(Y, 2, X, 2)
    assert bounded.broken_axioms(range(3)) == []


# Laws.


@given(graphs())
def test_a_graph_whose_edges_back_advance_satisfies_the_axioms(graph: Graph[Pair, Pair]) -> None:
    assert graph.broken_axioms(SMALL_PAIRS) == []


@given(graphs())
def test_path_summaries_are_the_minimal_totals_of_all_walks(graph: Graph[Pair, Pair]) -> None:
    totals = totals_of_walks(graph, steps=len(graph.names))
    for origin, target in product(graph.locations(), repeat=2):
        expected = minimal(totals.get((origin, target), set()), PAIRS.less_equal)
        assert graph.path_summary(origin, target) == expected


@given(graphs())
def test_could_result_in_is_a_partial_order(graph: Graph[Pair, Pair]) -> None:
    points = [(location, time) for location in graph.locations() for time in product(range(2), repeat=2)]
    below = {(p, q) for p, q in product(points, repeat=2) if graph.could_result_in(*p, *q)}
    assert all((p, p) in below for p in points)
    assert not any(p != q and (q, p) in below for p, q in below)
    assert all((p, r) in below for p, q in below for q2, r in below if q == q2)


@given(st.data())
def test_frontiers_alone_imply_the_same_frontier_as_all_positive_counts(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    pts = data.draw(pointstamps(graph))
    frontiers = [[(time, 1) for time in graph.frontier(counts)] for counts in pts]
    for location in graph.locations():
        assert graph.implied_frontier(pts, location) == graph.implied_frontier(frontiers, location)


@given(st.data())
def test_a_time_is_at_or_above_the_implied_frontier_exactly_if_something_could_result_in_it(
    data: st.DataObject,
) -> None:
    graph = data.draw(graphs())
    pts = data.draw(pointstamps(graph))
    for location in graph.locations():
        implied = graph.implied_frontier(pts, location)
        for time in SMALL_PAIRS:
            assert any(PAIRS.less_equal(f, time) for f in implied) == any(
                graph.could_result_in(origin, t, location, time)
                for origin, counts in enumerate(pts)
                for t, n in counts
                if n > 0
            )


# Refusals.


def over(times: Times[int, int]) -> Graph[int, int]:
    """The loop, over other times."""
    return Graph("xy", {("x", "y"): [0], ("y", "x"): [1]}, times)


def over_counters(**edges: list[int]) -> Graph[int, int]:
    return Graph("xy", {(name[0], name[1]): labels for name, labels in edges.items()}, COUNTERS)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (over_counters(xx=[1]), "self-edge at x"),
        (over_counters(xy=[0], yx=[0]), "cycle x -> y -> x with total 0 does not advance time 0"),
        (over_counters(xy=[-1]), "summary -1 is not at or above zero"),
        (over(replace(COUNTERS, less_equal=lambda t, u: t < u)), "time 0 is not below or equal to itself"),
        (over(replace(COUNTERS, less_equal=lambda t, u: True)), "times 0 and 1 are each below the other"),
        (
            over(replace(COUNTERS, less_equal=lambda t, u: 0 <= u - t <= 1)),
            "times 0, 1, 2 are not transitive",
        ),
        (
            over(replace(COUNTERS, summary_less_equal=lambda s, r: s == r)),
            "summary 1 is not at or above zero",
        ),
        (over(replace(COUNTERS, followed_by=lambda s, r: s + 2 * r)), "zero is not neutral for summary 1"),
        (
            over(replace(COUNTERS, followed_by=lambda s, r: abs(s - r))),
            "0 <= 1, but not when each is followed by 1",
        ),
        (over(replace(COUNTERS, followed_by=lambda s, r: abs(s - r))), "0 <= 1, but not when each follows 1"),
        (
            over(replace(COUNTERS, followed_by=lambda s, r: s + 2 * r)),
            "summaries 1, 1, 1 are not associative",
        ),
        (over(replace(COUNTERS, results_in=lambda t, s: t + s + 1)), "zero does not leave time 0 as it is"),
        (over(replace(COUNTERS, results_in=lambda t, s: t + s * s * 2)), "after both at once"),
        (
            over(replace(COUNTERS, results_in=lambda t, s: max(t - s, 0))),
            "0 <= 1, but time 1 arrives later after 0",
        ),
        (
            over(replace(COUNTERS, results_in=lambda t, s: t + 3 * s * (2 - t))),
            "times 0 <= 1, but not after 1",
        ),
        (
            over(replace(COUNTERS, results_in=lambda t, s: None if s and not t else t + s)),
            "times 0 <= 1, but not after 1",
        ),
    ],
)
def test_a_broken_axiom_is_named(graph: Graph[int, int], reason: str) -> None:
    assert any(reason in broken for broken in graph.broken_axioms(range(3)))
