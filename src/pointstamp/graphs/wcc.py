"""Weakly connected components: which vertices hang together if edges lead both ways.

A component is named by its least vertex. LDBC Graphalytics takes every labeling in which two vertices have
the same label if and only if a path connects them; this is one, and always the same.
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, SRC, Graph
from pointstamp.graphs.spreading import least_label


def wcc(graph: Graph) -> ps.Table:
    """``id`` and ``component`` of every vertex."""
    both_ways = graph.undirected()
    return least_label(graph.ids, both_ways.links.select(SRC, DST), name="wcc")
