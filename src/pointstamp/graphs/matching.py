"""A maximal matching of the edges.

All edges stand in an order. An edge that comes before all others at both of its ends is taken, and all that
share an end with it are out; this is done until none is left. That is what a greedy search in this order
finds, one edge after the other, so there is one answer for each graph. The order is by a hash of both ends:
then some logarithm of rounds is enough (Blelloch, Fineman and Shun 2012), where an order by ids could take a
round for every edge of a chain.

Direction, how often an edge is there and loops at vertices make no difference. A graph may be bipartite or
not. A maximal matching has at least half as many edges as a greatest one.
"""

from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph


def maximal_matching(graph: Graph) -> ps.Table:
    """Compute a maximal matching.

    Returns:
        A table of the matched edges, ``src`` and ``dst``; ``src`` is the lesser end.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"), directed=False)
        >>> flow.output("out", ps.graphs.maximal_matching(graph))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("src").to_pydict()
        {'src': [2, 4], 'dst': [3, 5]}

    """
    check_graph("maximal_matching", graph)
    ends = {
        SRC: ps.functions.least(ps.col(SRC), ps.col(DST)),
        DST: ps.functions.greatest(ps.col(SRC), ps.col(DST)),
    }
    pairs = graph.links.filter(ps.col(SRC) != ps.col(DST)).select(**ends).distinct().named("matching: pairs")
    schema = pa.schema([*pairs.schema, pa.field("turn", pa.int64())])
    edges = pairs.map_batches(_with_turns, schema).named("matching: turns")
    with edges.loop("matching") as loop:
        edges = loop.enter(edges)
        matched = loop.variable(schema, "matched")
        grown = matched.union(_first_at_both_ends(_free(edges, matched))).named("matching: grown")
        loop.feedback(matched, grown)
        return loop.leave(grown).select(SRC, DST)


def _free(edges: ps.Table, matched: ps.Table) -> ps.Table:
    """The edges neither of whose ends is matched."""
    taken = matched.select(id=ps.col(SRC)).union(matched.select(id=ps.col(DST)))
    at_src = edges.join(taken, {SRC: ID}, how="anti").named("matching: source is free")
    return at_src.join(taken, {DST: ID}, how="anti").named("matching: target is free")


def _first_at_both_ends(edges: ps.Table) -> ps.Table:
    """The edges that come before all others at both of their ends."""
    at_src = edges.select("turn", SRC, DST, id=ps.col(SRC))
    at_ends = at_src.union(edges.select("turn", SRC, DST, id=ps.col(DST)))
    first = at_ends.distinct(ID, by=["turn", SRC, DST]).named("matching: first at an end")
    ends = first.group_by(SRC, DST, "turn").agg(ends=ps.count()).named("matching: ends at which it is first")
    return ends.filter(ps.col("ends") == 2).select(SRC, DST, "turn")


def _with_turns(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """Each pair with its place in the order: a hash of both ends."""
    src, dst = (_numbers(column) for column in pairs.columns)
    turn = _mixed(_mixed(src) + dst)
    return pa.RecordBatch.from_arrays(
        [*pairs.columns, pa.array(turn.view(np.int64))], names=[SRC, DST, "turn"]
    )


def _numbers(column: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each id, equal for values that are one id: itself, or a checksum of its text."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64(), safe=False)).view(np.uint64)
    if pa.types.is_floating(column.type):
        values = np.asarray(column.cast(pa.float64())) + 0.0  # -0.0 + 0.0 is 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    texts = column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
    return np.fromiter((crc32(text) for text in texts.to_pylist()), np.uint64, len(texts))


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Steele, Lea and Flood's splitmix64."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
