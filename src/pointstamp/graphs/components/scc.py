"""Strongly connected components.

Outside loops, with numbers for ids of other types, they are kept by an operator in arrays (``whole.parts``).
Otherwise they are a loop of tables.

Two vertices of one component have the same ancestors and the same descendants, so the least of each, too. A
link whose ends differ in one of these lies between two components and is left out; this is done again, with
the links that are left, until none goes. What is left connects components within themselves (forward and
backward search, Fleischer, Hendrickson and Pinar 2000, for all components at once). Each pass spreads labels,
which is a loop in the loop.
"""

import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.components.spreading import COMPONENT, by_least_id, least_label
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.whole.by_vertex import ByVertex
from pointstamp.graphs.whole.gathering import gathered
from pointstamp.graphs.whole.parts import StrongParts


def scc(graph: Graph) -> ps.Table:
    """``id`` and ``component`` of every vertex; a component is named by its least vertex."""
    check_graph("scc", graph)
    if graph.needs_numbers:
        return by_least_id(graph, scc(graph.in_numbers), name="scc")
    if graph.is_for_arrays:
        answer = pa.schema([(ID, pa.int64()), (COMPONENT, pa.int64())])
        edges = graph.links.select(SRC, DST).named("scc: ends")
        return gathered(ByVertex(StrongParts()), answer, edges, graph.given, name="scc")
    links = graph.links.select(SRC, DST).filter(ps.col(SRC) != ps.col(DST)).distinct().named("scc: links")
    within = links.iterate(lambda left: _reversed(_within(_reversed(_within(left)))), name="scc")
    return least_label(graph.ids, within, name="scc: names")


def _within(links: ps.Table) -> ps.Table:
    """The links whose ends have the same least ancestor among these links."""
    ends = links.select(id=ps.col(SRC)).union(links.select(id=ps.col(DST))).distinct().named("scc: ends")
    least = least_label(ends, links, name="scc: ancestors")
    at_src = links.join(least, {SRC: ID}).named("scc: at source")
    same = at_src.join(least, {DST: ID}, where=ps.col(COMPONENT) == ps.col("component_right")).named(
        "scc: at target"
    )
    return same.select(SRC, DST)


def _reversed(links: ps.Table) -> ps.Table:
    return links.select(src=ps.col(DST), dst=ps.col(SRC))
