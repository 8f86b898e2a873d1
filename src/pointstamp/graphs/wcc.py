"""Weakly connected components: which vertices hang together if edges lead both ways.

A component is named by its least vertex. LDBC Graphalytics takes every labeling in which two vertices have
the same label if and only if a path connects them; this is one, and always the same.
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph
from pointstamp.graphs.nearest import is_for_arrays
from pointstamp.graphs.searching import DISTANCE, searched
from pointstamp.graphs.spreading import least_label


def wcc(graph: Graph) -> ps.Table:
    """``id`` and ``component`` of every vertex."""
    links = graph.undirected().links.select(SRC, DST, name="wcc: ends")
    if not is_for_arrays(graph.ids):
        return least_label(graph.ids, links, name="wcc")
    # The label of a vertex is the least start that reaches it, if passing it on changes nothing.
    own = graph.ids.select(ID, name="wcc: own labels", distance=ps.col(ID))
    labels = searched(own, links, name="wcc", length=0, by_rank=True)
    return labels.select(ID, component=ps.col(DISTANCE))
