"""Distances to landmarks, in edges or weights (shortestPaths of GraphFrames).

Edges are followed from the vertex to the landmark, so the search goes from the landmarks against them.

A few landmarks that are named by their ids have a search each (``bfs`` or ``sssp``), outside loops. More of
them, and those of a table, which may come and go, are searched for side by side in one loop of tables.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.given import Key, named
from pointstamp.graphs.graph import ID, Graph, check_graph
from pointstamp.graphs.paths.bfs import bfs
from pointstamp.graphs.paths.nearest import nearest_in_loop
from pointstamp.graphs.paths.saved_ways import LENGTH
from pointstamp.graphs.paths.sssp import sssp, weighed_steps, with_checked_weights

SEARCHES_MAX: Final = 32
"""So many landmarks have searches of their own, each of which keeps the edges by both ends."""


def shortest_paths(
    graph: Graph, landmarks: ps.Table | Iterable[Key] | Key, *, weighted: bool = False
) -> ps.Table:
    """``id``, ``landmark`` and ``distance``: of every vertex to every landmark that it can reach.

    ``landmarks`` are several ids, one, or a table of ``id``. Distances are numbers of edges, or with
    ``weighted`` sums of weights, which must not be less than 0.
    """
    check_graph("shortest_paths", graph)
    if not isinstance(landmarks, ps.Table):
        ids = named(landmarks)
        landmarks = ids
        if 0 < len(ids) <= SEARCHES_MAX and (graph.is_for_arrays or graph.needs_numbers):
            return _one_by_one(graph, ids, weighted=weighted)
    back = graph.reversed()
    if weighted:
        steps = weighed_steps(back, "shortest paths")
    else:
        steps = back.links.select("src", "dst", length=ps.lit(1, "long")).named("shortest paths: steps")
    zero = ps.lit(0, steps.schema.field(LENGTH).type)
    starts = graph.among(landmarks).select(ID, landmark=ps.col(ID), distance=zero).named("landmarks")
    return nearest_in_loop(starts, steps, "landmark", name="shortest paths").select(
        ID, "landmark", "distance"
    )


def _one_by_one(graph: Graph, landmarks: list[Key], *, weighted: bool) -> ps.Table:
    """A search from each landmark against the edges."""
    kind = graph.key_type
    if graph.needs_numbers:
        whole = with_checked_weights(graph) if weighted else graph
        starts = [whole.numbers_among(each) for each in landmarks]
        return whole.by_id(_side_by_side(whole.in_numbers, landmarks, starts, kind, weighted=weighted))
    return _side_by_side(graph, landmarks, landmarks, kind, weighted=weighted)


def _side_by_side(
    graph: Graph,
    landmarks: Sequence[Key],
    starts: Sequence[ps.Table | Key],
    kind: pa.DataType,
    *,
    weighted: bool,
) -> ps.Table:
    back = graph.reversed()
    found = (
        (sssp(back, start) if weighted else bfs(back, start).rename({"level": "distance"}))
        .select(ID, landmark=ps.lit(each, kind), distance=ps.col("distance"))
        .named("shortest paths: to one")
        for each, start in zip(landmarks, starts, strict=True)
    )
    return reduce(lambda one, other: one.union(other).named("shortest paths"), found)
