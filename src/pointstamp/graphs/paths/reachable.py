"""The vertices that are reachable from a set of sources."""

from collections.abc import Iterable

import pointstamp as ps
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.paths.nearest import nearest


def reachable(graph: Graph, sources: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """``id`` of every vertex to which a path leads from one of the sources, and of the sources.

    ``sources`` are several ids, one, or a table of ``id``; an id that is not a vertex of the graph is absent.
    """
    check_graph("reachable", graph)
    if graph.needs_numbers:
        return graph.by_id(reachable(graph.in_numbers, graph.numbers_among(sources)))
    starts = graph.among(sources).select(ID, distance=ps.lit(0, "long")).named("reachable: starts")
    steps = graph.links.select(SRC, DST).named("reachable: ends")
    return nearest(starts, steps, name="reachable", length=0).select(ID)
