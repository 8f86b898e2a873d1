"""Graphs that change from epoch to epoch, and what is left of them: the rows of flows, and of their oracles.

Edges come and go, some several times, some from a vertex to itself; vertices come without edges. In one epoch
everything goes, and the graph restarts from scratch.
"""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs import Graph

Edge = tuple[Any, Any]
Changes = list[tuple[Edge, int]]


def changing_edges(seed: int, epochs: int = 5, vertices: int = 12, most: int = 14) -> list[Changes]:
    """The changes of edges, in epochs; the last epoch but one takes all edges away."""
    rng = random.Random(seed)
    there: Counter[Edge] = Counter()
    made: list[Changes] = []
    for epoch in range(epochs):
        now = sorted(there.elements())
        gone = now if epoch == epochs - 2 else rng.sample(now, min(len(now), rng.randrange(most // 2)))
        new = [] if epoch == epochs - 2 else [_edge(rng, vertices) for _ in range(rng.randrange(1, most))]
        there.subtract(gone)
        there.update(new)
        made.append([(edge, -1) for edge in gone] + [(edge, 1) for edge in new])
    return made


def _edge(rng: random.Random, vertices: int) -> Edge:
    # The lesser a vertex, the more edges it has.
    return min(rng.randrange(vertices), rng.randrange(vertices)), rng.randrange(vertices)


def edge_tables(changes: list[Changes], named: str = "{}") -> list[pa.Table]:
    """The epochs of an input "src, dst, w"; with a format the ids are texts."""
    is_text = named != "{}"
    key = pa.string() if is_text else pa.int64()

    def name(vertex: int) -> Any:  # noqa: ANN401 - text or number
        return named.format(vertex) if is_text else vertex

    return [
        pa.table(
            {
                "src": pa.array([name(src) for (src, _), _ in epoch], key),
                "dst": pa.array([name(dst) for (_, dst), _ in epoch], key),
                "w": pa.array([weight for _, weight in epoch], pa.int64()),
            }
        )
        for epoch in changes
    ]


def graph_input(flow: ps.Dataflow, key: str = "long", **options: Any) -> Graph:  # noqa: ANN401 - as Graph's
    """A graph whose edges come and go."""
    return Graph(flow.table("edges", f"src {key}, dst {key}, w long", weight="w"), **options)


def edges_after(changes: list[Changes], epoch: int) -> list[Edge]:
    """The edges that are there after an epoch, as often as they are."""
    there: Counter[Edge] = Counter()
    for each in changes[: epoch + 1]:
        for edge, weight in each:
            there[edge] += weight
    return sorted(there.elements())


def values_of(table: pa.Table, column: str, key: str = "id") -> Mapping[Any, Any]:
    """A result by key; no key is there twice."""
    keys = table[key].to_pylist()
    assert len(keys) == len(set(keys))
    return dict(zip(keys, table[column].to_pylist(), strict=True))
