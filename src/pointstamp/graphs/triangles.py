"""Triangles: three vertices each beside the others, counted at each of their corners and in all.

Each pair of neighbours is kept in one direction, from the one with fewer neighbours to the one with more. A
triangle then is a vertex from which two arrows lead, and an arrow between their ends (Latapy 2008). No vertex
has more arrows than the square root of twice the edges, so a hub costs no more than others.

Numbers of neighbours are compared by their powers of two, and then by id: a vertex that gains or loses one
seldom turns any arrow round.

Direction, loops at vertices and how often an edge is there make no difference (networkx, GraphFrames).
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph


def triangles(graph: Graph) -> ps.Table:
    """``id`` and ``triangles``, in how many it is a corner, of every vertex."""
    corners = corners_of(graph.neighbours.select(SRC, DST, sides=ps.lit(1, "long")))
    alone = graph.ids.select(ID, sides=ps.lit(0, "long"))
    return corners.union(alone).reduce(ID, triangles=ps.sum("sides"), name="triangles")


def triangle_count(graph: Graph) -> ps.Table:
    """One row with ``triangles``: how many there are in all."""
    corners = corners_of(graph.neighbours.select(SRC, DST, sides=ps.lit(1, "long")))
    return corners.reduce(corners=ps.count(), name="triangle count").select(
        triangles=(ps.col("corners") / 3).cast("long")
    )


def corners_of(neighbours: ps.Table) -> ps.Table:
    """``id`` of each corner of each triangle, with the ``sides`` of the pair opposite to it.

    Neighbours are both ways, each pair once, nobody beside itself, and the same ``sides`` either way.
    """
    arrows = _arrows(neighbours)
    ways = {"mid": ps.col(DST), "one": ps.col("sides")}, {"end": ps.col(DST), "two": ps.col("sides")}
    first, second = (arrows.select(SRC, name="triangles: two arrows", **names) for names in ways)
    wedges = first.join(second, SRC, where=ps.col("mid") < ps.col("end"), name="triangles: wedges")
    closing = arrows.select(
        name="triangles: closing",
        mid=ps.functions.least(ps.col(SRC), ps.col(DST)),
        end=ps.functions.greatest(ps.col(SRC), ps.col(DST)),
        three=ps.col("sides"),
    )
    found = wedges.join(closing, ["mid", "end"], name="triangles: closed")
    at_src = found.select(id=ps.col(SRC), sides=ps.col("three"))
    at_mid = found.select(id=ps.col("mid"), sides=ps.col("two"))
    return at_src.union(at_mid).union(found.select(id=ps.col("end"), sides=ps.col("one")))


def _arrows(neighbours: ps.Table) -> ps.Table:
    """Each pair once, from the vertex with fewer neighbours to the one with more."""
    size = ps.functions.floor(ps.functions.log2(ps.col("count"))).cast("long")
    sizes = neighbours.count(SRC, name="triangles: degrees").select(id=ps.col(SRC), size=size)
    both = neighbours.join(sizes, {SRC: ID}, name="triangles: of sources").join(
        sizes, {DST: ID}, name="triangles: of targets"
    )
    less = (ps.col("size") == ps.col("size_right")) & (ps.col(SRC) < ps.col(DST))
    upward = both.filter((ps.col("size") < ps.col("size_right")) | less, name="triangles: arrows")
    return upward.select(SRC, DST, "sides")
