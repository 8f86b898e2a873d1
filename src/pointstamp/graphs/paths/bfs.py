"""Breadth-first search: the number of edges to the nearest source.

LDBC Graphalytics' BFS, of which this has the vertices that are reached; all others are infinitely far away.
Edges are followed from ``src`` to ``dst``, or both ways where they have no direction. Edges that are there
several times and loops at vertices make no difference.
"""

from collections.abc import Iterable

import pointstamp as ps
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.paths.nearest import nearest
from pointstamp.graphs.paths.saved_ways import DISTANCE


def bfs(graph: Graph, source: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """Return ``id`` and ``level`` of every reachable vertex: 0 for the source, 1 for its neighbors.

    ``source`` is an id, several ids, or a table of ``id``; with several the nearest counts. One that is no
    vertex of the graph is not there.
    """
    check_graph("bfs", graph)
    if graph.needs_numbers:
        return graph.by_id(bfs(graph.in_numbers, graph.numbers_among(source)))
    starts = graph.among(source).select(ID, distance=ps.lit(0, "long")).named("bfs: starts")
    steps = graph.links.select(SRC, DST).named("bfs: ends")
    return nearest(starts, steps, name="bfs", length=1).select(ID, level=ps.col(DISTANCE))
