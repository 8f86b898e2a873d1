"""What can be reached from a set of vertices: those from which it begins, and all that an edge leads to."""

from collections.abc import Iterable

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph, Key


def reachable(graph: Graph, sources: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """``id`` of every vertex to which a path leads from one of the sources, and of the sources.

    ``sources`` are several ids, one, or a table of ``id``; who is no vertex of the graph is not there.
    """

    def further(reached: ps.Table, starts: ps.Table, links: ps.Table) -> ps.Table:
        beyond = reached.join(links, {ID: SRC}, name="reachable: steps on").select(id=ps.col(DST))
        return beyond.union(starts).distinct(name="reachable: each once")

    starts = graph.among(sources)
    return starts.iterate(further, starts, graph.links.select(SRC, DST), name="reachable")
