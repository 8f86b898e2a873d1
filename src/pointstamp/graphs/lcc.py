"""The local clustering coefficient: how many of the edges that could be among neighbours are there.

LDBC Graphalytics' LCC: the neighbours of a vertex are those beside it in either direction, without itself; of
n neighbours, n (n - 1) edges could lead from one to another, and those that are there count once each.
Without directions each counts both ways. A vertex with fewer than two neighbours has 0.
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph
from pointstamp.graphs.triangles import sides_at_corners


def lcc(graph: Graph) -> ps.Table:
    """``id`` and ``coefficient``, from 0 to 1, of every vertex."""
    one_way = graph.links.select(SRC, DST).filter(ps.col(SRC) != ps.col(DST)).distinct(name="lcc: links")
    both_ways = one_way.union(one_way.select(src=ps.col(DST), dst=ps.col(SRC)))
    # In which directions a pair is connected: one or two. Of an undirected graph each is here twice.
    sides = both_ways.reduce(SRC, DST, sides=ps.count(), name="lcc: neighbours")
    if not graph.directed:
        sides = sides.select(SRC, DST, sides=ps.lit(2, "long"))
    edges = sides_at_corners(sides).select(
        ID, name="lcc: edges", edges=ps.col("sides"), places=ps.lit(0, "long")
    )
    places = sides.select(
        name="lcc: places", id=ps.col(SRC), edges=ps.lit(0, "long"), places=ps.lit(1, "long")
    )
    alone = graph.ids.select(
        ID, name="lcc: of every vertex", edges=ps.lit(0, "long"), places=ps.lit(0, "long")
    )
    counted = (
        edges.union(places)
        .union(alone)
        .reduce(ID, edges=ps.sum("edges"), places=ps.sum("places"), name="lcc")
    )
    pairs = ps.col("places") * (ps.col("places") - 1)
    share = ps.functions.try_divide(ps.col("edges").cast("double"), pairs.cast("double"))
    return counted.select(ID, coefficient=ps.functions.coalesce(share, ps.lit(0.0)))
