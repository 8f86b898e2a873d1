"""In-degrees, out-degrees and degrees.

A loop at a vertex begins and ends there, so it counts twice in ``degree``; an edge that is there several
times counts as often (networkx, igraph). A change costs its own edges.
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph


def degrees(graph: Graph) -> ps.Table:
    """``id``, ``in_degree``, ``out_degree`` and ``degree``, their sum, of every vertex.

    Where edges have no direction all three are the number of ends of edges at the vertex.
    """
    check_graph("degrees", graph)
    none, one = ps.lit(0, "long"), ps.lit(1, "long")
    begin = graph.edges.select(id=ps.col(SRC), begins=one, ends=none).named("begin")
    end = graph.edges.select(id=ps.col(DST), begins=none, ends=one).named("end")
    alone = graph.ids.select(ID, begins=none, ends=none).named("of every vertex")
    counted = (
        begin.union(end)
        .union(alone)
        .group_by(ID)
        .agg(begins=ps.sum("begins"), ends=ps.sum("ends"))
        .named("degrees")
    )
    both = ps.col("begins") + ps.col("ends")
    return counted.select(
        ID,
        in_degree=ps.col("ends") if graph.directed else both,
        out_degree=ps.col("begins") if graph.directed else both,
        degree=both,
    )
