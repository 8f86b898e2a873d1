"""Core numbers: the greatest k for which a vertex belongs to the k-core.

Outside loops, with numbers for ids of other types, they are kept by an operator in arrays (``whole.shells``).
Otherwise they are a loop of tables.

A vertex is in a k-core if k of its neighbours are. So its number is the greatest k such that k neighbours
have k or more: the h-index of theirs (Lu, Zhou, Zhang and Stanley 2016). Beginning with degrees and taking
the h-index again and again, numbers only fall, and where none falls they are the core numbers.

Direction, loops at vertices and how often an edge is there make no difference (networkx's core_number).
"""

import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.whole.by_vertex import ByVertex
from pointstamp.graphs.whole.gathering import gathered
from pointstamp.graphs.whole.shells import Shells


def k_core(graph: Graph) -> ps.Table:
    """``id`` and ``core`` of every vertex; 0 where it has no neighbour."""
    check_graph("k_core", graph)
    if graph.needs_numbers:
        return graph.by_id(k_core(graph.in_numbers))
    if graph.is_for_arrays:
        answer = pa.schema([(ID, pa.int64()), ("core", pa.int64())])
        pairs = graph.pairs.select(SRC, DST).named("k-core: pairs")
        return gathered(ByVertex(Shells()), answer, pairs, graph.given, name="k-core")
    neighbours = graph.neighbours
    degrees = (
        neighbours.group_by(SRC)
        .agg(core=ps.count())
        .named("k-core: degrees")
        .select(id=ps.col(SRC), core=ps.col("core"))
    )
    cores = degrees.iterate(_h_index, neighbours, name="k-core")
    alone = graph.ids.select(ID, core=ps.lit(0, "long"))
    return cores.union(alone).group_by(ID).agg(core=ps.max("core")).named("k-core: of every vertex")


def _h_index(cores: ps.Table, neighbours: ps.Table) -> ps.Table:
    """Of each vertex the greatest h such that h neighbours have h or more."""
    theirs = neighbours.join(cores, {DST: ID}).named("k-core: of neighbours").select(SRC, DST, "core")
    placed = theirs.with_columns(place=ps.row_number().over(partition_by=SRC, order_by="core desc")).named(
        "k-core: in order"
    )
    enough = placed.filter(ps.col("core") >= ps.col("place"))
    return (
        enough.group_by(SRC)
        .agg(core=ps.count())
        .named("k-core: h-index")
        .select(id=ps.col(SRC), core=ps.col("core"))
    )
