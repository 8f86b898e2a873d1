"""Graphs that change, flows over them, and what they must emit after every epoch.

A history is a list of epochs, each with edges and vertices that come and go. Graphs are small and dense in
what is hard: loops at vertices, edges that are there several times, vertices without edges, everything
deleted and begun again.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import pointstamp as ps
from pointstamp import graphs
from support.graph_oracles import ORACLES, Whole

Edge = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Epoch:
    """What changes: edges and vertices with +1 or -1."""

    edges: list[tuple[Edge, int]]
    vertices: list[tuple[Any, int]]


SOURCES: dict[str, list[Any]] = {"long": [1, 4], "string": ["v1", "v4"], "double": [1.0, 4.0]}
"""From where searches begin; they may be no vertices of the graph."""

_NAMED: dict[str, Callable[[int], Any]] = {"long": int, "string": "v{}".format, "double": float}

ALGORITHMS: dict[str, Callable[[graphs.Graph, list[Any]], ps.Table]] = {
    "degrees": lambda graph, _: graphs.degrees(graph),
    "bfs": lambda graph, sources: graphs.bfs(graph, sources),
    "sssp": lambda graph, sources: graphs.sssp(graph, sources),
    "shortest_paths": lambda graph, sources: graphs.shortest_paths(graph, sources),
    "weighted_paths": lambda graph, sources: graphs.shortest_paths(graph, sources, weighted=True),
    "cdlp": lambda graph, _: graphs.cdlp(graph, rounds=3),
    "reachable": lambda graph, sources: graphs.reachable(graph, sources),
    "wcc": lambda graph, _: graphs.wcc(graph),
    "scc": lambda graph, _: graphs.scc(graph),
    "k_core": lambda graph, _: graphs.k_core(graph),
    "triangles": lambda graph, _: graphs.triangles(graph),
    "triangle_count": lambda graph, _: graphs.triangle_count(graph),
    "lcc": lambda graph, _: graphs.lcc(graph),
    "minimum_spanning_forest": lambda graph, _: graphs.minimum_spanning_forest(graph),
    "maximal_matching": lambda graph, _: graphs.maximal_matching(graph),
    "topological_levels": lambda graph, _: graphs.topological_levels(graph),
}


def graph_flow(names: Sequence[str], *, directed: bool = True, key: str = "long") -> ps.Dataflow:
    """A flow with an output for each algorithm, over the inputs edges and vertices, with weights."""
    flow = ps.Dataflow("graph")
    edges = flow.table("edges", f"src {key}, dst {key}, km long, w long", weight="w")
    vertices = flow.table("vertices", f"id {key}, w long", weight="w")
    graph = graphs.Graph(edges, vertices, weight="km", directed=directed)
    for name in names:
        flow.output(name, ALGORITHMS[name](graph, SOURCES[key]))
    return flow


def inputs_of(history: Sequence[Epoch], key: str = "long") -> dict[str, list[pa.Table]]:
    """The rows of a history, in epochs."""
    kind = {"long": pa.int64(), "string": pa.string(), "double": pa.float64()}[key]
    edges = pa.schema({"src": kind, "dst": kind, "km": pa.int64(), "w": pa.int64()})
    vertices = pa.schema({"id": kind, "w": pa.int64()})
    return {
        "edges": [_table([(*edge, w) for edge, w in each.edges], edges) for each in history],
        "vertices": [_table(each.vertices, vertices) for each in history],
    }


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def wholes(history: Sequence[Epoch], *, directed: bool, key: str = "long") -> list[Whole]:
    """The graph after every epoch."""
    edges: Counter[Edge] = Counter()
    vertices: Counter[Any] = Counter()
    made = []
    for epoch in history:
        for edge, weight in epoch.edges:
            edges[edge] += weight
        for vertex, weight in epoch.vertices:
            vertices[vertex] += weight
        there = list(edges.elements())
        known = set(vertices.elements()) | {end for edge in there for end in edge[:2]}
        made.append(Whole(sorted(known), there, directed, SOURCES[key]))
    return made


def judge_history(
    names: Sequence[str], history: Sequence[Epoch], *, directed: bool, workers: int, key: str = "long"
) -> None:
    """AssertionError where a table is not what its oracle says after some epoch."""
    results = graph_flow(names, directed=directed, key=key).run(inputs_of(history, key), workers=workers)
    for epoch, whole in enumerate(wholes(history, directed=directed, key=key)):
        for name in names:
            rows = [tuple(row.values()) for row in results.table(name, as_of=epoch).to_pylist()]
            assert len(rows) == len(set(rows)), f"{name}, epoch {epoch}: a row is there twice"
            assert set(rows) == ORACLES[name](whole), f"{name}, epoch {epoch}, {whole}"


def random_history(
    seed: int, *, vertices: int = 9, epochs: int = 6, most: int = 9, key: str = "long"
) -> list[Epoch]:
    """Edges and vertices that come and go; near the end all go at once, and then some come again."""
    chance = random.Random(seed)
    name = _NAMED[key]
    edges: Counter[Edge] = Counter()
    alone: Counter[Any] = Counter()
    made = []
    for number in range(epochs):
        all_go = number == epochs - 2
        gone = _sample(chance, edges, edges.total() if all_go else chance.randrange(most))
        left = _sample(chance, alone, alone.total() if all_go else chance.randrange(2))
        count = 0 if all_go else chance.randrange(1, 2 * most)
        new = [
            (name(chance.randrange(vertices)), name(chance.randrange(vertices)), chance.randrange(5))
            for _ in range(count)
        ]
        come = [] if all_go else [name(chance.randrange(vertices + 3)) for _ in range(chance.randrange(3))]
        edges.subtract(gone)
        edges.update(new)
        alone.subtract(left)
        alone.update(come)
        made.append(
            Epoch(
                [(each, -1) for each in gone] + [(each, 1) for each in new],
                [(each, -1) for each in left] + [(each, 1) for each in come],
            )
        )
    return made


def _sample(chance: random.Random, there: Counter[Any], count: int) -> list[Any]:
    return chance.sample(sorted(there.elements()), min(there.total(), count))
