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
    begin = graph.edges.select(name="begin", id=ps.col(SRC), begins=one, ends=none)
    end = graph.edges.select(name="end", id=ps.col(DST), begins=none, ends=one)
    alone = graph.ids.select(ID, name="of every vertex", begins=none, ends=none)
    counted = (
        begin.union(end).union(alone).reduce(ID, begins=ps.sum("begins"), ends=ps.sum("ends"), name="degrees")
    )
    both = ps.col("begins") + ps.col("ends")
    return counted.select(
        ID,
        in_degree=ps.col("ends") if graph.directed else both,
        out_degree=ps.col("begins") if graph.directed else both,
        degree=both,
    )
