"""Distances to landmarks, in edges or weights (shortestPaths of GraphFrames).

Edges are followed from the vertex to the landmark, so the search goes from the landmarks against them.

A few landmarks that are named by their ids have a search each (``bfs`` or ``sssp``), outside loops. More of
them, and those of a table, which may come and go, are searched for side by side in one loop of tables.
"""

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs.edge_tables import DST, ID, SRC, WEIGHT, Graph, check_graph
from pointstamp.graphs.search_operator import searched
from pointstamp.graphs.search_state import DISTANCE, LENGTH
from pointstamp.graphs.validation import Key, named

SEARCHES_MAX: Final = 32
"""So many landmarks have searches of their own, each of which keeps the edges by both ends."""


def shortest_paths(
    graph: Graph, landmarks: ps.Table | Iterable[Key] | Key, *, weighted: bool = False
) -> ps.Table:
    """Compute the distance of each vertex to each landmark that it can reach.

    Args:
        graph: The graph.
        landmarks: An id, several ids, or a table of ``id``.
        weighted (bool, default False): Sum the weights of edges, which must not be negative; otherwise count
            edges.

    Returns:
        A table of ``id``, ``landmark`` and ``distance``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.shortest_paths(graph, 3))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'landmark': [3, 3, 3], 'distance': [2, 1, 0]}

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


# Breadth-first search: the number of edges to the nearest source.
#
# LDBC Graphalytics' BFS, of which this has the vertices that are reached; all others are infinitely far away.
# Edges are followed from ``src`` to ``dst``, or both ways where they have no direction. Edges that are there
# several times and loops at vertices make no difference.


def bfs(graph: Graph, source: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """Compute the level of each reachable vertex: 0 for the source, 1 for its neighbors.

    Args:
        graph: The graph.
        source: An id, several ids, or a table of ``id``; with several, the nearest counts. An id that is not
            a vertex is ignored.

    Returns:
        A table of ``id`` and ``level``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.bfs(graph, 1))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'level': [0, 1, 2]}

    """
    check_graph("bfs", graph)
    if graph.needs_numbers:
        return graph.by_id(bfs(graph.in_numbers, graph.numbers_among(source)))
    starts = graph.among(source).select(ID, distance=ps.lit(0, "long")).named("bfs: starts")
    steps = graph.links.select(SRC, DST).named("bfs: ends")
    return nearest(starts, steps, name="bfs", length=1).select(ID, level=ps.col(DISTANCE))


# The vertices that are reachable from a set of sources.


def reachable(graph: Graph, sources: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """Compute the vertices that are reachable from the sources, including the sources.

    Args:
        graph: The graph.
        sources: An id, several ids, or a table of ``id``; ids that are not vertices are ignored.

    Returns:
        A table of ``id``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.reachable(graph, 1))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3]}

    """
    check_graph("reachable", graph)
    if graph.needs_numbers:
        return graph.by_id(reachable(graph.in_numbers, graph.numbers_among(sources)))
    starts = graph.among(sources).select(ID, distance=ps.lit(0, "long")).named("reachable: starts")
    steps = graph.links.select(SRC, DST).named("reachable: ends")
    return nearest(starts, steps, name="reachable", length=0).select(ID)


# Single-source shortest paths by weight.
#
# LDBC Graphalytics' SSSP, of which this has the vertices that are reached; all others are infinitely far
# away. Of edges that are there several times the lightest counts, and loops at vertices make no difference.
# Weights must not be less than 0: a cycle of such edges would have no shortest way.


def sssp(graph: Graph, source: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """Compute the shortest distance of each reachable vertex from the source.

    Args:
        graph: A graph with weights. A weight that is negative, null or NaN raises FlowError.
        source: An id, several ids, or a table of ``id``; with several, the nearest counts.

    Returns:
        A table of ``id`` and ``distance``; 0 for the source.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long, cost double"), weight="cost")
        >>> flow.output("out", ps.graphs.sssp(graph, 1))
        >>> edges = pa.table({"src": [1, 2, 1], "dst": [2, 3, 3], "cost": [1.0, 1.0, 5.0]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'distance': [0.0, 1.0, 2.0]}

    """
    check_graph("sssp", graph)
    if graph.needs_numbers and graph.weight is not None:
        checked = with_checked_weights(graph)
        return checked.by_id(sssp(checked.in_numbers, checked.numbers_among(source)))
    steps = weighed_steps(graph, "sssp")
    zero = ps.lit(0, steps.schema.field(LENGTH).type)
    starts = graph.among(source).select(ID, distance=zero).named("sssp: starts")
    return nearest(starts, steps, name="sssp")


def weighed_steps(graph: Graph, name: str) -> ps.Table:
    """``src``, ``dst`` and ``length`` of every edge, whose weights are not less than 0."""
    if graph.weight is None:
        raise FlowError(
            f"'{name}' of {graph}: the edges have no weights. Name their column with Graph(..., "
            "weight='km'), or use bfs, which counts edges."
        )
    kind = pa.int64() if pa.types.is_integer(graph.links.schema.field(WEIGHT).type) else pa.float64()
    steps = graph.links.select(SRC, DST, length=ps.col(WEIGHT).cast(kind)).named(f"{name}: steps")
    return steps.map_batches(not_negative).named(f"{name}: weights are not negative")


def with_checked_weights(graph: Graph) -> Graph:
    """Return the graph with a check that rejects negative weights by the ids of their edges."""
    assert graph.weight is not None
    return graph.checked(partial(_not_negative, graph.weight), name="weights are not negative")


def not_negative(steps: pa.RecordBatch) -> pa.RecordBatch:
    """The steps as they are, all of whose lengths must be 0 or more."""
    return _not_negative(LENGTH, steps)


def _not_negative(weight: str, steps: pa.RecordBatch) -> pa.RecordBatch:
    holds = pc.fill_null(pc.greater_equal(steps.column(weight), 0), False)
    if not pc.all(holds, min_count=0).as_py():
        first = steps.filter(pc.invert(holds)).slice(0, 1).to_pylist()[0]
        raise FlowError(
            f"shortest paths: weights must be 0 or more, but the edge from {first[SRC]!r} to "
            f"{first[DST]!r} has {first[weight]}. Filter such edges out, or add a constant to all "
            "weights."
        )
    return steps


# Topological levels: the length of the longest path to each vertex.
#
# What lies on a cycle, or behind one, has no level. These vertices are found first: all have an edge from one
# of them, so taking those without such an edge away, again and again, leaves exactly them (Kahn 1962). The
# levels of the others grow along the edges until none does.


def topological_levels(graph: Graph) -> ps.Table:
    """Compute the topological level of each vertex.

    A self-loop is a cycle, and so is an undirected edge.

    Returns:
        A table of ``id`` and ``level``: 0 for a vertex without incoming edges, null on and after a cycle.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.topological_levels(graph))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3, 4, 5], 'level': [0, 1, 2, 0, 1]}

    """
    check_graph("topological_levels", graph)
    links = graph.links.select(SRC, DST).distinct().named("levels: links")
    endless = graph.ids.iterate(
        lambda left, links: (
            links.join(left, {SRC: ID}).named("levels: from those left").select(id=ps.col(DST)).distinct()
        ).named("levels: left"),
        links,
        name="levels: cycles",
    )
    ordered = graph.ids.except_(endless).named("levels: in order")
    inside = links.join(ordered, {DST: ID}).named("levels: links in order").select(SRC, DST)
    starts = ordered.select(ID, level=ps.lit(0, "long"))
    levels = starts.iterate(_higher, starts, inside, name="levels")
    return levels.union(endless.select(ID, level=ps.lit(None, "long"))).named("levels: of every vertex")


def _higher(levels: ps.Table, starts: ps.Table, links: ps.Table) -> ps.Table:
    """One level more than the highest that leads to a vertex."""
    above = (
        levels.join(links, {ID: SRC}).named("levels: above").select(id=ps.col(DST), level=ps.col("level") + 1)
    )
    return starts.union(above).group_by(ID).agg(level=ps.max("level")).named("levels: highest")


# The least distance of each vertex from the sources, by arrays or a loop.
#
# Where ids are whole numbers, and outside loops, it is the operator of
# ``search_operator``. Otherwise it is a loop of tables (Bellman and Ford), which takes
# ids of every type and continues inside other loops.
#
# In round i a vertex has its least distance by at most i steps; when a round changes nothing, it is the least
# of all. The loop keeps what was known in each round, so that a step that is taken away is taken out of the
# distances that were found by it, round by round, and no distance rests on itself.


def nearest(starts: ps.Table, steps: ps.Table, *, name: str, length: int | None = None) -> ps.Table:
    """``id`` and least ``distance`` of all that can be reached from ``starts`` by ``steps``.

    Starts have ``id`` and ``distance``; steps lead from ``src`` to ``dst`` and have a column ``length``, 0 or
    more, unless all have the one that is given.
    """
    if is_for_arrays(starts):
        return searched(starts, steps, name=name, length=length)
    if length is not None:
        kind = starts.schema.field(DISTANCE).type
        steps = steps.select(SRC, DST, length=ps.lit(length, kind)).named(f"{name}: lengths")
    return nearest_in_loop(starts, steps, name=name)


def nearest_in_loop(starts: ps.Table, steps: ps.Table, *beside: str, name: str) -> ps.Table:
    """The same as a loop; the columns ``beside`` the id distinguish concurrent searches."""

    def further(reached: ps.Table, starts: ps.Table, steps: ps.Table) -> ps.Table:
        distance = ps.col(DISTANCE) + ps.col(LENGTH)
        beyond = (
            reached.join(steps, {ID: SRC})
            .named(f"{name}: steps on")
            .select(*beside, id=ps.col(DST), distance=distance)
            .named(f"{name}: beyond")
        )
        both = starts.union(beyond).named(f"{name}: ways")
        return both.group_by(ID, *beside).agg(distance=ps.min(DISTANCE)).named(f"{name}: least")

    return starts.iterate(further, starts, steps, name=name)


def is_for_arrays(table: ps.Table, key: str = ID) -> bool:
    """Return whether operators in arrays can take a table: its ids are longs, and it stands in no loop."""
    return table.schema.field(key).type == pa.int64() and not table.loops
