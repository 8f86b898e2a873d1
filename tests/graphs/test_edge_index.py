"""Edges in arrays: found, counted and merged as a plain dictionary of edges would have them.

- *model*: random changes to a dictionary and to the index, with small runs, so that rows move from one to the
  other and rows that are counted down stand among the others; all questions are asked after every change.
- *triads*: corners of the triangles of random graphs, beside networkx, with the edges shared among several.
"""

from collections import Counter

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.graphs.arrays import edges as edge_index
from pointstamp.graphs.arrays.edges import EdgeIndex
from pointstamp.graphs.triangle_counts import Changes, Triads

Edge = tuple[int, int, int]

edges = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2))
changes = st.lists(st.lists(edges, max_size=12), min_size=1, max_size=12)


def array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_index, "_SMALL_RUN_MAX", 4)


@given(changes)
def test_the_index_answers_as_a_dictionary_does(history: list[list[Edge]]) -> None:
    index, model = EdgeIndex(np.int64), Counter[Edge]()
    for new in history:
        by = Counter(new)
        for each in sorted(model)[: len(new) // 2]:
            by[each] -= model[each]
        by = Counter({each: count for each, count in by.items() if count})
        rows = sorted(by, key=lambda each: (hash(each), each))
        vertex, other, length = (array([row[at] for row in rows]) for at in range(3))
        before, after = index.change(vertex, other, length, array([by[row] for row in rows]))
        assert before.tolist() == [model[row] for row in rows]
        model.update(by)
        assert after.tolist() == [model[row] for row in rows]
        model = Counter({each: count for each, count in model.items() if count})
        assert sorted(zip(*(column.tolist() for column in index.rows()), strict=True)) == sorted(
            (*each, count) for each, count in model.items()
        )
        vertices = array([3, 0, 5])
        found = index.of(vertices)
        asked = zip(vertices[found.which].tolist(), found.other.tolist(), found.length.tolist(), strict=True)
        assert sorted(asked) == sorted(each for each in model if each[0] in (3, 0, 5))


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=10), max_size=8),
    st.integers(1, 3),
)
def test_the_corners_that_several_find_add_up_to_all_triangles(
    history: list[list[tuple[int, int]]], sharers: int
) -> None:
    triads, there, corners = [Triads() for _ in range(sharers)], set[tuple[int, int]](), Counter[int]()
    for flips in history:
        flipped = {(min(pair), max(pair)) for pair in flips if pair[0] != pair[1]}
        rows = sorted(flipped, key=lambda pair: (pair[1], pair))
        by = array([-1 if pair in there else 1 for pair in rows])
        there ^= flipped
        owner = array([sum(pair) % sharers for pair in rows])
        for number, each in enumerate(triads):
            # Slots must not matter: each is given the edges in another order.
            order = np.roll(np.arange(len(rows)), number)
            src, dst = (array([pair[at] for pair in rows])[order] for at in (0, 1))
            made = Changes(src, dst, np.ones(len(rows), np.int64), by[order])
            found = each.change(made, owner[order] == number)
            corners.update(dict(zip(found.ids.tolist(), found.sides.tolist(), strict=True)))
        expected = nx.triangles(nx.Graph(there))
        assert {v: count for v, count in corners.items() if count} == {v: n for v, n in expected.items() if n}
