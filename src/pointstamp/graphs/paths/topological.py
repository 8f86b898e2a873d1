"""Topological levels: the length of the longest path to each vertex.

What lies on a cycle, or behind one, has no level. These vertices are found first: all have an edge from one
of them, so taking those without such an edge away, again and again, leaves exactly them (Kahn 1962). The
levels of the others grow along the edges until none does.
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph


def topological_levels(graph: Graph) -> ps.Table:
    """Return ``id`` and ``level`` of every vertex: 0 without incoming edges, null on and after a cycle.

    An edge from a vertex to itself is a cycle, and so is every edge that has no direction.
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
