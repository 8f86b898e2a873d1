"""Incremental PageRank: the changed ranks of each epoch.

    graph = graphs.Graph(flow.table("edges", "src long, dst long, w long", weight="w"))
    flow.output("ranks", graphs.pagerank(graph))                   # id, rank double

The ranks p of Brin and Page (1998) solve p = b + d A p, where b is the *reset*, 1 for every vertex, d the
*damping*, and A p shares the rank of a vertex out evenly among its links. For any other p the *residual* r =
b + d A p - p says what is missing. A change of some links changes r at the targets of their sources, and
nowhere else. So nothing starts over: ranks stay as they are, and residuals are pushed along the links until
none exceeds the tolerance t (``residuals``; Gauss-Southwell, as in Andersen, Chung and Lang 2006).

Why that is enough: the exact ranks x differ from p by e = x - p, and e = d A e + r. So e is the sum of (d
A)^k r over all k. No entry of A is negative, so from -t b <= r <= t b it follows that e lies between the sums
of -t (d A)^k b and t (d A)^k b, which are -t x and t x. **Every rank p(v) is within t x(v) of the exact one:
the tolerance is relative, at each vertex.** Scaling ranks to a sum at most doubles it. Shares are rounded to
units of t / 2^20 or less, which adds half a unit for each link that comes in, and vertices with more than
2^19 (1 - d) links are pushed later; so t holds for up to some 10^5 links at a vertex, and grows with their
number beyond that. Ranks are whole numbers of these units until they are scaled at the very end: they depend
on the epochs so far alone, and on no schedule, crash or number of workers.

What becomes of a vertex without links, of which nothing continues? In Graphalytics, networkx and igraph its
rank is spread over all vertices, as the reset is. That multiplies all ranks by one number, for b is
multiplied by it, so those ranks are these, scaled to a sum of one. GraphX and GraphFrames scale to a sum of
the number of vertices. Where all ranks are scaled, all change with each; ``sums_to=None`` leaves them as the
formula of Brin and Page has them, (1 - d) + d A p, and then a change is told where it matters and nowhere
else.
"""

from collections.abc import Iterable
from typing import Final, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp import Stream, Table, col, count, operator, when
from pointstamp import sum as sum_of
from pointstamp.errors import FlowError
from pointstamp.graphs.arrays.columns import DIFF
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import Graph, check_graph
from pointstamp.graphs.ranks.pushing import PushResiduals
from pointstamp.graphs.ranks.units import units

SumsTo = Literal["one", "vertices"] | None

_COUNTS: Final = pa.schema([(DIFF, pa.int64())])


def pagerank(
    graph: Graph, *, damping: float = 0.85, tolerance: float = 1e-4, sums_to: SumsTo = "one"
) -> Table:
    """The PageRank of every vertex: ``id`` and ``rank``, each within the relative tolerance of the exact one.

    An edge that is there twice counts twice, and an edge from a vertex to itself counts. With
    ``sums_to="one"`` ranks are those of networkx and igraph, with ``"vertices"`` those of GraphFrames, and
    with None (1 - damping) + damping * (what comes in), where a change costs the ranks that change.
    """
    check_graph("pagerank", graph)
    ranks = _pushed("pagerank", graph, None, damping, tolerance)
    return _scaled("pagerank", ranks, damping, tolerance, sums_to)


def personalised_pagerank(
    graph: Graph,
    sources: Table | Iterable[Key] | Key,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    sums_to: SumsTo = "one",
) -> Table:
    """The PageRank of every vertex as seen from some: ``id`` and ``rank``, with resets at the sources only.

    ``sources`` are ids, one or several, or a table of ``id``; those that are no vertices count for nothing.
    Before scaling, a rank differs from the exact one by at most the tolerance times the vertex's PageRank. So
    with few sources in a large graph, set it well below the number of sources divided by that of vertices.
    While none of the sources is a vertex, all ranks are 0, exactly.
    """
    check_graph("personalised_pagerank", graph)
    who = "personalised_pagerank"
    ranks = _pushed(who, graph, graph.among(sources), damping, tolerance)
    return _scaled(who, ranks, damping, tolerance, sums_to)


def _pushed(who: str, graph: Graph, sources: Table | None, damping: float, tolerance: float) -> Table:
    """The ranks in units, kept up to date by a loop around one operator."""
    if not 0 <= damping <= 0.99:
        raise FlowError(
            f"{who}: damping must be from 0 to 0.99, got {damping!r}. Give a value in this range."
        )
    if not 1e-9 <= tolerance <= 0.1:
        raise FlowError(
            f"{who}: tolerance must be from 1e-9 to 0.1, got {tolerance!r}. Give a value in this range."
        )
    links = graph.link_changes
    if links.loops:
        raise FlowError(
            f"{who} of {graph}: the graph must be outside of loops, got one in loop '{links.loops[-1]}'. "
            "Leave the loop first."
        )
    ids = graph.ids.changes().named("vertices")
    resets = ids if sources is None else sources.changes().named("resets")
    logic = PushResiduals(graph.key_type, damping, tolerance, counts_sources=sources is not None)
    with links.loop("residuals") as loop:
        again = loop.variable(logic.outputs["again"], "incoming")
        inputs = {
            "ids": loop.enter(ids).exchange("id"),
            "resets": loop.enter(resets).exchange("id"),
            "links": loop.enter(links).exchange("src"),
            "again": again.exchange("id"),
        }
        if sources is not None:
            counts = resets.map_batches(_summed, _COUNTS).named("number of sources")
            inputs["sources"] = loop.enter(counts).broadcast()
        told, ranks = cast("tuple[Stream, Stream]", operator(who, logic, **inputs))
        loop.feedback(again, told)
        return Table(loop.leave(ranks))


def _summed(changes: pa.RecordBatch) -> pa.RecordBatch:
    """By how much the number of rows changes."""
    total = pc.sum(changes.column(DIFF), min_count=0).as_py()
    return pa.RecordBatch.from_pylist([{DIFF: total}], schema=_COUNTS)


def _scaled(who: str, ranks: Table, damping: float, tolerance: float, sums_to: SumsTo) -> Table:
    if sums_to is None:
        return ranks.select("id", rank=col("units") * ((1 - damping) / units(tolerance))).named(who)
    if sums_to not in ("one", "vertices"):
        raise FlowError(
            f"{who}: sums_to must be 'one', 'vertices' or None, got {sums_to!r}. Choose one of these."
        )
    # As doubles, for a sum of units may exceed a long; a sum of doubles is exact here.
    masses = ranks.select("id", mass=col("units").cast("double")).named(f"{who}: masses")
    all_of_it = masses.agg(total=sum_of("mass"), vertices=count()).named(f"{who}: total")
    parts = masses.join(all_of_it, how="cross").named(f"{who}: parts")
    wanted = 1.0 if sums_to == "one" else col("vertices")
    # If no source is a vertex, all ranks are 0, and so is their sum.
    total = when(col("total") > 0, col("total")).otherwise(1.0)
    return parts.select("id", rank=col("mass") / total * wanted).named(who)
