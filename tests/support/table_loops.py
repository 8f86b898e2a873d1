"""Recursive tables, and the same by brute force: reachability, walks, and reachability within parts.

``reach`` ends because rows are distinct; ``walks`` counts copies, so that a row that goes round too often
shows; ``parts`` is a loop in a loop, in which rounds have no total order.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

import pyarrow as pa

import pointstamp as ps
from support.table_queries import Epochs, Row, accumulated, put_out, table_of

EDGES = pa.schema({"src": pa.int64(), "dst": pa.int64(), "w": pa.int64()})
ROUNDS_MAX = 40
"""More than any of these loops needs; a broken one may go round for ever."""
STARTS = pa.schema({"node": pa.int64(), "w": pa.int64()})


def reach(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The nodes that can be reached."""
    once = starts.distinct()
    return once.iterate(
        lambda x, roots, inner: (
            x.join(inner, {"node": "src"}).select(node=ps.col("dst")).union(roots).distinct()
        ),
        once,
        edges,
        max_rounds=ROUNDS_MAX,
    )


def walks(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """Each node as often as there are walks to it; only where there is no cycle does this end."""
    return starts.iterate(
        lambda x, roots, inner: x.join(inner, {"node": "src"}).select(node=ps.col("dst")).union(roots),
        starts,
        edges,
        max_rounds=ROUNDS_MAX,
    )


def parts(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The nodes that are left when those without an edge from a reached node are taken away, again and again.

    The outer loop keeps what the inner one can reach within it by edges that lie in it on both ends, and of
    that the nodes that an edge of the same kind leads to.
    """
    nodes = edges.select(node=ps.col("src")).union(edges.select(node=ps.col("dst"))).distinct()

    def shrink(x: ps.Table, roots: ps.Table, edges: ps.Table) -> ps.Table:
        within = edges.join(x.rename({"node": "src"}), "src").join(x.rename({"node": "dst"}), "dst")
        begun = roots.join(x, "node", how="semi")
        found = begun.iterate(
            lambda y, begun, within: (
                y.join(within, {"node": "src"}).select(node=ps.col("dst")).union(begun).distinct()
            ),
            begun,
            within,
            max_rounds=ROUNDS_MAX,
        )
        inner = within.join(found.rename({"node": "src"}), "src", how="semi")
        return found.join(inner.select(node=ps.col("dst")).distinct(), "node", how="semi")

    return nodes.iterate(shrink, starts.distinct(), edges, max_rounds=ROUNDS_MAX)  # fmt: skip


def brute_reach(starts: Iterable[int], edges: Collection[tuple[int, int]]) -> Counter[Row]:
    """The same as a plain fixpoint."""
    found = set(starts)
    while more := {b for a, b in edges if a in found} - found:
        found |= more
    return Counter((node,) for node in found)


def brute_walks(starts: Iterable[int], edges: Collection[tuple[int, int]]) -> Counter[Row]:
    """The walks from all starts, one step after the other."""
    total, now = Counter[Row](), Counter((node,) for node in starts)
    while now:
        total += now
        nexts: Counter[Row] = Counter()
        for (node,), count in now.items():
            for a, b in edges:
                if a == node:
                    nexts[(b,)] += count
        now = nexts
    return total


def brute_parts(starts: Iterable[int], edges: Collection[tuple[int, int]]) -> Counter[Row]:
    """The outer loop in Python over the inner fixpoint."""
    now = {node for edge in edges for node in edge}
    while True:
        within = [(a, b) for a, b in edges if a in now and b in now]
        found = {node for (node,) in brute_reach(set(starts) & now, within)}
        after = {b for a, b in within if a in found} & found
        if after == now:
            return Counter((node,) for node in now)
        now = after


LOOPS: dict[str, tuple[Callable[[ps.Table, ps.Table], ps.Table], Callable[..., Counter[Row]]]] = {
    "reach": (reach, brute_reach),
    "walks": (walks, brute_walks),
    "parts": (parts, brute_parts),
}


def loop_flow(name: str) -> ps.Dataflow:
    """A flow with the output "nodes" over the inputs edges and starts, with weights."""
    flow = ps.Dataflow(name)
    edges = flow.table("edges", EDGES, weight="w")
    starts = flow.table("starts", STARTS, weight="w")
    flow.output("nodes", LOOPS[name][0](starts, edges))
    return flow


def judge_loop(name: str, edges: Epochs, starts: Epochs, workers: int) -> None:
    """AssertionError where a loop does not add up to what brute force finds after some epoch."""
    results = loop_flow(name).run(
        edges=[table_of(rows, EDGES) for rows in edges],
        starts=[table_of(rows, STARTS) for rows in starts],
        workers=workers,
    )
    for epoch, total in enumerate(put_out(results["nodes"], len(edges))):
        assert total == expected_of(name, edges[: epoch + 1], starts[: epoch + 1]), f"{name}, epoch {epoch}"


def expected_of(name: str, edges: Epochs, starts: Epochs) -> Counter[Row]:
    """What brute force finds for the inputs up to some epoch."""
    there = [(a, b) for a, b in accumulated(edges)]
    return LOOPS[name][1]([row[0] for row in accumulated(starts)], there)
