"""The local clustering coefficient of each vertex.

LDBC Graphalytics' LCC: the neighbours of a vertex are those beside it in either direction, without itself; of
n neighbours, n (n - 1) edges could lead from one to another, and those that are there count once each.
Without directions each counts both ways. A vertex with fewer than two neighbours has 0.
"""

import pointstamp as ps
from pointstamp import functions
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.patterns.counting import corners
from pointstamp.graphs.patterns.triangles import sides_in_join


def lcc(graph: Graph) -> ps.Table:
    """``id`` and ``coefficient``, from 0 to 1, of every vertex."""
    check_graph("lcc", graph)
    if graph.needs_numbers:
        return graph.by_id(lcc(graph.in_numbers))
    found = _in_arrays(graph) if graph.is_for_arrays else _in_join(graph)
    alone = graph.ids.select(ID, edges=ps.lit(0, "long"), places=ps.lit(0, "long")).named(
        "lcc: of every vertex"
    )
    counted = found.union(alone).group_by(ID).agg(edges=ps.sum("edges"), places=ps.sum("places")).named("lcc")
    pairs = ps.col("places") * (ps.col("places") - 1)
    share = ps.functions.try_divide(ps.col("edges").cast("double"), pairs.cast("double"))
    return counted.select(ID, coefficient=ps.functions.coalesce(share, ps.lit(0.0)))


def _in_arrays(graph: Graph) -> ps.Table:
    """``id`` with 1 in ``edges`` for each edge among its neighbours, and in ``places`` for each of these."""
    links = ps.Table(graph.link_changes)
    if graph.directed:
        one_way = links.filter(ps.col(SRC) != ps.col(DST)).distinct().named("lcc: links")
        ends = {SRC: functions.least(SRC, DST), DST: functions.greatest(SRC, DST)}
        pairs = (
            one_way.select(**ends)
            .named("lcc: pairs")
            .group_by(SRC, DST)
            .agg(sides=ps.count())
            .named("lcc: neighbours")
        )
    else:
        there = links.filter(ps.col(SRC) < ps.col(DST)).distinct().named("lcc: neighbours")
        pairs = there.select(SRC, DST, sides=ps.lit(2, "long"))
    is_corner = ps.col("is_corner")
    return (
        corners(pairs, name="lcc: triangles")
        .select(ID, edges=is_corner.cast("long"), places=(~is_corner).cast("long"))
        .named("lcc: edges")
    )


def _in_join(graph: Graph) -> ps.Table:
    """``id`` with the number of ``edges`` among its neighbours, and 1 in ``places`` for each of these."""
    one_way = graph.links.select(SRC, DST).filter(ps.col(SRC) != ps.col(DST)).distinct().named("lcc: links")
    both_ways = one_way.union(one_way.select(src=ps.col(DST), dst=ps.col(SRC)))
    # In which directions a pair is connected: one or two. Of an undirected graph each is here twice.
    sides = both_ways.group_by(SRC, DST).agg(sides=ps.count()).named("lcc: neighbours")
    if not graph.directed:
        sides = sides.select(SRC, DST, sides=ps.lit(2, "long"))
    edges = sides_in_join(sides).select(ID, edges=ps.col("sides"), places=ps.lit(0, "long"))
    places = sides.select(id=ps.col(SRC), edges=ps.lit(0, "long"), places=ps.lit(1, "long"))
    return edges.union(places).named("lcc: edges")
