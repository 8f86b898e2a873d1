"""Triangle counts per vertex and in total.

Outside loops, with numbers for ids of other types, they are found by the operator of ``counting``, from the
edges that change. Otherwise they are a join: each pair of neighbours is taken in one direction, from the one
with fewer neighbours to the one with more, and a triangle is a vertex from which two arrows lead and an arrow
between their ends (Latapy 2008). No vertex has more arrows than the square root of twice the edges, so a hub
costs no more than others; but all pairs of arrows are kept. Numbers of neighbours are compared by their
powers of two, and then by id: a vertex that gains or loses one seldom turns any arrow round.

Direction, loops at vertices and how often an edge is there make no difference (networkx, GraphFrames).
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.patterns.counting import SIDES, corners


def triangles(graph: Graph) -> ps.Table:
    """``id`` and ``triangles``, in how many it is a corner, of every vertex."""
    check_graph("triangles", graph)
    if graph.needs_numbers:
        return graph.by_id(triangles(graph.in_numbers))
    alone = graph.ids.select(ID, sides=ps.lit(0, "long"))
    return _sides(graph).union(alone).group_by(ID).agg(triangles=ps.sum(SIDES)).named("triangles")


def triangle_count(graph: Graph) -> ps.Table:
    """One row with ``triangles``: how many there are in all."""
    check_graph("triangle_count", graph)
    if graph.needs_numbers:
        return triangle_count(graph.in_numbers)
    counted = _sides(graph).agg(corners=ps.sum(SIDES)).named("triangle count")
    return counted.select(triangles=ps.functions.coalesce(ps.col("corners") / 3, ps.lit(0)).cast("long"))


def _sides(graph: Graph) -> ps.Table:
    """``id`` of each corner of a triangle, with 1 in ``sides`` for each."""
    if graph.is_for_arrays:
        pairs = graph.pairs.select(SRC, DST).filter(ps.col(SRC) < ps.col(DST)).named("triangles: ends")
        once = pairs.distinct().named("triangles: neighbours").select(SRC, DST, sides=ps.lit(1, "long"))
        found = corners(once, name="triangles").filter(ps.col("is_corner"))
        return found.select(ID, sides=ps.lit(1, "long"))
    return sides_in_join(graph.neighbours.select(SRC, DST, sides=ps.lit(1, "long")))


def sides_in_join(neighbours: ps.Table) -> ps.Table:
    """``id`` of each vertex that is a corner, with the ``sides`` opposite to it, as a join.

    Neighbors are in both directions, each pair once, without self-loops, with the same ``sides`` in either
    direction.
    """
    return _closed(_arrows(neighbours)).group_by(ID).agg(sides=ps.sum(SIDES)).named("triangles: at corners")


def _closed(arrows: ps.Table) -> ps.Table:
    """``id`` of each corner of each triangle, with the ``sides`` of the pair opposite to it."""
    ways = {"mid": ps.col(DST), "one": ps.col(SIDES)}, {"end": ps.col(DST), "two": ps.col(SIDES)}
    first, second = (arrows.select(SRC, **names).named("triangles: two arrows") for names in ways)
    wedges = first.join(second, SRC, where=ps.col("mid") < ps.col("end")).named("triangles: wedges")
    closing = arrows.select(
        mid=ps.functions.least(ps.col(SRC), ps.col(DST)),
        end=ps.functions.greatest(ps.col(SRC), ps.col(DST)),
        three=ps.col(SIDES),
    ).named("triangles: closing")
    found = wedges.join(closing, ["mid", "end"]).named("triangles: closed")
    at_src = found.select(id=ps.col(SRC), sides=ps.col("three"))
    at_mid = found.select(id=ps.col("mid"), sides=ps.col("two"))
    return at_src.union(at_mid).union(found.select(id=ps.col("end"), sides=ps.col("one")))


def _arrows(neighbours: ps.Table) -> ps.Table:
    """Each pair once, from the vertex with fewer neighbours to the one with more."""
    size = ps.functions.floor(ps.functions.log2(ps.col("count"))).cast("long")
    sizes = neighbours.count(SRC).named("triangles: degrees").select(id=ps.col(SRC), size=size)
    both = (
        neighbours.join(sizes, {SRC: ID})
        .named("triangles: of sources")
        .join(sizes, {DST: ID})
        .named("triangles: of targets")
    )
    less = (ps.col("size") == ps.col("size_right")) & (ps.col(SRC) < ps.col(DST))
    upward = both.filter((ps.col("size") < ps.col("size_right")) | less).named("triangles: arrows")
    return upward.select(SRC, DST, "sides")
