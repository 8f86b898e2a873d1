"""What one worker knows of a whole graph that changes: core numbers, the lightest forest, strong components.

Families, and what only each can find:
- *oracle*: igraph, and Kruskal's algorithm in plain Python, after every change of small graphs and of some
  that have hundreds of edges, without a flow around them;
- *proof*: the two conditions that levels must meet, counted by hand. Numbers can be right while these are
  broken, and a later change goes wrong.
- *ways*: components by whole arrays and by Tarjan's walk are the same, whichever is taken.
- *cost*: whom a change touches, counted and not timed.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import igraph
import numpy as np
import numpy.typing as npt
import pytest

from pointstamp.graphs import strong_components
from pointstamp.graphs.core_numbers import Shells
from pointstamp.graphs.gathering import CountedEdges, CountedVertices, SlotEdges, WholeGraph
from pointstamp.graphs.search_state import Ways
from pointstamp.graphs.spanning_forest import LightestForest, lightest
from pointstamp.graphs.strong_components import StrongParts

Edge = tuple[Any, ...]
Change = tuple[set[Edge], set[Edge], set[Edge]]


def histories(
    seeds: range, *, vertices: int, first: int, more: int, columns: int = 2
) -> Iterator[list[Change]]:
    """Lists of changes: edges that go, edges that come, all that are there then; no loops at vertices."""
    for seed in seeds:
        chance = np.random.default_rng(seed)
        there: set[Edge] = set()
        changes = []
        for epoch in range(8):
            drawn = chance.integers(0, vertices, (chance.integers(1, more if epoch else first), columns))
            new = {(*row[:2], *(n % 4 for n in row[2:])) for row in drawn.tolist() if row[0] != row[1]}
            gone = {edge for edge in sorted(there) if chance.random() < chance.choice([0, 0.1, 0.5, 1])}
            come = new - there
            there = (there - gone) | come
            changes.append((gone, come, there))
        yield changes


SMALL: dict[str, Any] = {"seeds": range(40), "vertices": 16, "first": 50, "more": 10}
LARGE: dict[str, Any] = {"seeds": range(2), "vertices": 150, "first": 1200, "more": 60}


def ends(edges: set[Edge]) -> SlotEdges:
    rows = np.array(sorted(edges), np.int64).reshape(-1, 2)
    return SlotEdges(rows[:, 0].copy(), rows[:, 1].copy(), np.zeros(len(rows), np.int8))


def undirected(change: Change) -> tuple[set[Edge], set[Edge], set[Edge]]:
    """As edges that lead both ways: what is there in one direction at least."""
    gone, come, there = change
    before = {(min(edge), max(edge)) for edge in (there - come) | gone}
    now = {(min(edge), max(edge)) for edge in there}
    return before - now, now - before, now


# Core numbers.


def neighbours(edges: set[Edge], count: int) -> list[set[int]]:
    beside: list[set[int]] = [set() for _ in range(count)]
    for one, other in edges:
        beside[one].add(other)
        beside[other].add(one)
    return beside


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_core_numbers_are_igraphs_and_their_levels_prove_it(sizes: dict[str, Any]) -> None:
    count = sizes["vertices"]
    for history in histories(**sizes):
        shells = Shells()
        for gone, come, there in map(undirected, history):
            shells.change(np.arange(count), ends(gone), ends(come))
            cores = shells.of(np.arange(count)).tolist()
            assert cores == igraph.Graph(count, sorted(there)).coreness()
            levels = shells._level.tolist()
            for vertex, beside in enumerate(neighbours(there, count)):
                assert sum(levels[each] >= levels[vertex] for each in beside) <= cores[vertex]
                assert sum(cores[each] >= cores[vertex] for each in beside) >= cores[vertex]


def test_an_edge_that_changes_no_core_number_moves_few() -> None:
    count = 20_000
    src, dst = np.random.default_rng(0).integers(0, count, (2, 5 * count))
    drawn = {(min(edge), max(edge)) for edge in zip(src.tolist(), dst.tolist(), strict=True)}
    edges = {edge for edge in drawn if edge[0] != edge[1]}
    shells = Shells()
    shells.change(np.arange(count), ends(set()), ends(edges))
    moved = []
    for edge in sorted(edges)[:: len(edges) // 40]:
        moved.append(len(set(shells.change(np.arange(count), ends({edge}), ends(set())).tolist())))
        moved.append(len(set(shells.change(np.arange(count), ends(set()), ends({edge})).tolist())))
    assert np.mean(moved) < count / 200


# The lightest forest.


def kruskal(edges: set[Edge]) -> set[Edge]:
    part: dict[int, set[int]] = defaultdict(set)
    forest = set()
    for edge in sorted(edges, key=lambda edge: (edge[2], edge[0], edge[1])):
        one, other, _ = edge
        mine, theirs = part[one] | {one}, part[other] | {other}
        if other not in mine:
            forest.add(edge)
            for each in mine | theirs:
                part[each] = mine | theirs
    return forest


def weighed(change: Change) -> tuple[set[Edge], set[Edge], set[Edge]]:
    gone, come, there = change
    before = {(min(edge[:2]), max(edge[:2]), edge[2]) for edge in (there - come) | gone}
    now = {(min(edge[:2]), max(edge[:2]), edge[2]) for edge in there}
    return before - now, now - before, now


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_the_forest_is_kruskals_and_each_change_of_it_is_said_once(sizes: dict[str, Any]) -> None:
    none = CountedVertices(np.empty(0, np.int64), np.empty(0, np.int64))
    for number, history in enumerate(histories(**sizes, columns=3)):
        graph, forest = WholeGraph(np.int64), LightestForest(np.int64)
        found: set[Edge] = set()
        chance = np.random.default_rng(number)
        name = chance.permutation(np.arange(-50, 1000))[
            : sizes["vertices"]
        ]  # slots are in another order than ids
        for gone, come, there in map(weighed, [named(change, name) for change in history]):
            rows = np.array([(*e, -1) for e in gone] + [(*e, 1) for e in come], np.int64).reshape(-1, 4)
            rows = chance.permutation(rows)
            changed = forest.changed(graph, graph.change(CountedEdges(*rows.T.copy()), none))
            for *edge, diff in zip(*(column.tolist() for column in changed), strict=True):
                assert (tuple(edge) in found) == (diff < 0)
                found ^= {tuple(edge)}
            assert found == kruskal(there)


def named(change: Change, name: npt.NDArray[np.int64]) -> Change:
    gone, come, there = ({(int(name[a]), int(name[b]), w) for a, b, w in edges} for edges in change)
    return gone, come, there


def test_of_a_forest_the_lightest_edges_come_first() -> None:
    chain = np.random.default_rng(0).permutation(50_000)
    assert lightest(len(chain), chain[:-1], chain[1:]).all()


# Strong components.


def by_least(component: list[int]) -> list[int]:
    least: dict[int, int] = {}
    for vertex, each in enumerate(component):
        least.setdefault(each, vertex)
    return [least[each] for each in component]


def igraph_strong(edges: set[Edge], count: int) -> list[int]:
    return by_least(
        igraph.Graph(count, sorted(edges), directed=True).connected_components("strong").membership
    )


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_components_are_igraphs_after_every_change(sizes: dict[str, Any]) -> None:
    count = sizes["vertices"]
    for history in histories(**sizes):
        parts = StrongParts()
        for gone, come, there in history:
            before = parts.of(np.arange(count)).tolist() if len(parts._root) else []
            changed = parts.change(np.arange(count), ends(gone), ends(come)).tolist()
            found = parts.of(np.arange(count)).tolist()
            assert found == igraph_strong(there, count)
            differ = [n for n, (one, other) in enumerate(zip(before, found, strict=False)) if one != other]
            assert set(changed) >= set(differ)


@pytest.mark.parametrize("few", [0, 20, 1 << 20])
@pytest.mark.parametrize("steps", [2, 64])
def test_arrays_and_the_walk_find_the_same_components(
    few: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strong_components, "_FEW", few)
    monkeypatch.setattr(strong_components, "_STEPS_MAX", steps)
    for history in histories(range(20), vertices=30, first=120, more=2):
        there = history[0][2]
        edges = ends(there)
        assert by_least(
            strong_components.strong_components(30, edges.src, edges.dst).tolist()
        ) == igraph_strong(there, 30)


def test_a_long_cycle_is_one_component() -> None:
    ring = np.random.default_rng(0).permutation(20_000)
    assert len(set(strong_components.strong_components(len(ring), ring, np.roll(ring, 1)).tolist())) == 1


def parents(ways: Ways) -> set[int]:
    """On whom somebody rests."""
    parent = ways._keys.parent[: ways._keys.vertices.count]
    return set(ways._keys.vertices.ids[parent[parent >= 0]].tolist())


def test_an_edge_on_which_no_way_rests_goes_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2_000
    src, dst = np.random.default_rng(1).integers(0, count, (2, 6 * count))
    edges = {edge for edge in zip(src.tolist(), dst.tolist(), strict=True) if edge[0] != edge[1]}
    parts = StrongParts()
    parts.change(np.arange(count), ends(set()), ends(edges))
    monkeypatch.setattr(
        "pointstamp.graphs.strong_components.strong_components", None
    )  # whoever calls it fails
    rested_on = parents(parts._from_root) | parents(parts._to_root)
    unused = [edge for edge in sorted(edges) if rested_on.isdisjoint(edge)]
    names = parts.of(np.arange(count))
    inside = [edge for edge in unused if names[edge[0]] == names[edge[1]]][:20]
    assert inside
    assert not len(parts.change(np.arange(count), ends(set(inside)), ends(set())))
