"""Weakly connected components.

A component is named by its least vertex. LDBC Graphalytics takes every labeling in which two vertices have
the same label if and only if a path connects them; this is one, and always the same.

It goes by one of three ways, and ``flow.describe()`` shows which. Where edges are only added and ids are
longs, labels are joined by union-find (``connected_components``), which can take nothing back. Where edges
can go, it is a search in which every vertex starts with its own id for a distance and no step makes it
longer, by an operator in arrays. Ids of other types get numbers first. Graphs in loops spread
labels in a loop of tables.
"""

import pointstamp as ps
from pointstamp.graphs.arrays.columns import DIFF
from pointstamp.graphs.arrays.ends import named_by
from pointstamp.graphs.components.growing import connected_components
from pointstamp.graphs.components.relabelling import Relabelled
from pointstamp.graphs.components.spreading import by_least_id, least_label
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.paths.saved_ways import DISTANCE
from pointstamp.graphs.paths.searching import searched


def wcc(graph: Graph) -> ps.Table:
    """``id`` and ``component`` of every vertex."""
    check_graph("wcc", graph)
    if graph.needs_numbers:
        return by_least_id(graph, wcc(graph.in_numbers), name="wcc")
    if not graph.is_for_arrays:
        return least_label(graph.ids, graph.undirected().links.select(SRC, DST), name="wcc")
    if graph.is_append_only:
        return _joined(graph)
    pairs = graph.pairs.select(SRC, DST).named("wcc: ends").changes().named("wcc: pairs")
    ids = graph.with_given(named_by(pairs, name="wcc: vertices"))
    own = ids.select(ID, distance=ps.col(ID)).named("wcc: own labels")
    labels = searched(own, ps.Table(pairs), name="wcc", length=0, by_rank=True, both_ways=True)
    return labels.select(ID, component=ps.col(DISTANCE))


def _joined(graph: Graph) -> ps.Table:
    """By union-find, of a graph that only grows."""
    ends = graph.edges.select(SRC, DST).named("wcc: ends")
    if graph.given is not None:
        alone = graph.given.select(src=ps.col(ID), dst=ps.col(ID)).named("wcc: vertices")
        ends = ends.union(alone).named("wcc: links")
    changes = ends.changes().named("wcc: new links")
    labels = connected_components(changes, diff=DIFF).exchange("vertex")
    return ps.Table(ps.operator("wcc by union-find", Relabelled(changes.schema.field(DIFF)), labels=labels))
