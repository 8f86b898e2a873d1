"""Recursive tables with deletions: what 100 edges that come and 100 that go cost, beside scipy from scratch.

    .venv/bin/python -m benchmarks.tables.loops [--vertices N] [--edges N] [--epochs N] [--only NAME]

A random graph of 100,000 vertices and 500,000 edges. *Reachability* from one vertex, *shortest paths* from it
(the number of edges), and *components* (the least vertex that each is connected with), all by ``iterate``.
One JSON line each: ``first_s`` for the whole graph, then the milliseconds of an epoch, one worker in this
process, and ``scipy_ms`` for the same graph from scratch, which is compiled code over arrays; ``times_scipy``
is how many times as fast as it we are. The results after the last epoch are compared with scipy's.
"""

import argparse
import cProfile
import pstats
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.figures import report, timed
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, shortest_path

import pointstamp as ps

Edges = npt.NDArray[np.int64]
CHANGED = 100


def reach(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The vertices that can be reached."""
    return starts.iterate(
        lambda x, starts, edges: (
            x.join(edges, {"node": "src"}).select(node=ps.col("dst")).union(starts).distinct()
        ),
        starts,
        edges,
    )


def paths(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The length of the shortest path to each."""
    begin = starts.select("node", far=ps.lit(0))
    return begin.iterate(
        lambda x, begin, edges: (
            x.join(edges, {"node": "src"})
            .select(node=ps.col("dst"), far=ps.col("far") + 1)
            .union(begin)
            .group_by("node")
            .agg(far=ps.min("far"))
        ),
        begin,
        edges,
    )


def parts(starts: ps.Table, edges: ps.Table) -> ps.Table:
    """The least vertex that each is connected with."""
    del starts
    both = edges.union(edges.select(src=ps.col("dst"), dst=ps.col("src")))
    labels = both.select(node=ps.col("src"), part=ps.col("src")).distinct()
    return labels.iterate(
        lambda x, labels, both: (
            x.join(both, {"node": "src"})
            .select(node=ps.col("dst"), part=ps.col("part"))
            .union(labels)
            .group_by("node")
            .agg(part=ps.min("part"))
        ),
        labels,
        both,
    )


def reach_by_scipy(graph: Any) -> set[Any]:  # noqa: ANN401 - a sparse matrix
    """The same from scratch."""
    return {(int(node),) for node in breadth_first_order(graph, 0, return_predecessors=False)}


def paths_by_scipy(graph: Any) -> set[Any]:  # noqa: ANN401 - a sparse matrix
    """The same from scratch."""
    far = shortest_path(graph, unweighted=True, indices=0)
    return {(int(node), int(far[node])) for node in np.flatnonzero(np.isfinite(far))}


def parts_by_scipy(graph: Any) -> set[Any]:  # noqa: ANN401 - a sparse matrix
    """The same from scratch; vertices without an edge are not there."""
    _, label = connected_components(graph, directed=False)
    least = np.full(label.max() + 1, len(label))
    np.minimum.at(least, label, np.arange(len(label)))
    has_edge = np.asarray(graph.sum(axis=0)).ravel() + np.asarray(graph.sum(axis=1)).ravel() > 0
    return {(int(node), int(least[label[node]])) for node in np.flatnonzero(has_edge)}


QUERIES: dict[str, tuple[Callable[..., ps.Table], Callable[[Any], set[Any]]]] = {
    "reachability": (reach, reach_by_scipy),
    "shortest paths": (paths, paths_by_scipy),
    "components": (parts, parts_by_scipy),
}


def main() -> None:
    """Measure what is asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--vertices", type=int, default=100_000)
    asked.add_argument("--edges", type=int, default=500_000)
    asked.add_argument("--epochs", type=int, default=20)
    asked.add_argument("--only", choices=QUERIES)
    asked.add_argument("--profile", action="store_true")
    given = asked.parse_args()
    for name in QUERIES if given.only is None else (given.only,):
        run(name, given.vertices, given.edges, given.epochs, profiled=given.profile)


def run(name: str, vertices: int, count: int, epochs: int, *, profiled: bool) -> None:
    """Measure one query and print its line."""
    random = np.random.default_rng(3)
    edges = np.unique(random.integers(0, vertices, (count, 2)), axis=0)
    flow = ps.Dataflow("loops")
    table = flow.table("edges", "src long, dst long, w long", weight="w")
    starts = flow.table("starts", "node long")
    make, by_scipy = QUERIES[name]
    flow.output("out", make(starts, table))
    results: list[pa.Table] = []
    with flow.open(on_result=lambda _name, _epoch, rows: results.append(rows)) as session:
        session.input("starts").send(pa.table({"node": [0]}))
        number = 0

        def epoch(rows: Edges, weights: Edges) -> tuple[float, float]:
            nonlocal number
            number += 1
            began, cpu = perf_counter(), process_time()
            session.input("edges").send(pa.table({"src": rows[:, 0], "dst": rows[:, 1], "w": weights}))
            for each in ("edges", "starts"):
                session.input(each).advance_to(number)
            session.settle()
            return perf_counter() - began, process_time() - cpu

        first, _ = epoch(edges, np.ones(len(edges), np.int64))
        profile = cProfile.Profile()
        taken = []
        for _ in range(epochs):
            at = random.choice(len(edges), CHANGED, replace=False)
            gone, new = edges[at], random.integers(0, vertices, (CHANGED, 2))
            edges = np.concatenate([np.delete(edges, at, axis=0), new])
            weights = np.repeat(np.array([-1, 1]), CHANGED)
            if profiled:
                profile.enable()
            taken.append(epoch(np.concatenate([gone, new]), weights))
            profile.disable()
    if profiled:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        pstats.Stats(profile).sort_stats("cumtime").print_stats("tables/|worker.py")
    graph = csr_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (vertices, vertices))
    scipy_s, wanted = timed(lambda: by_scipy(graph))
    assert _added_up(results) == wanted, f"{name}: not what scipy finds"
    wall, cpu = np.array(taken).T * 1e3
    report(
        name,
        vertices=vertices,
        edges=count,
        first_s=first,
        median_ms=float(np.median(wall)),
        cpu_ms=float(np.median(cpu)),
        max_ms=float(wall.max()),
        scipy_ms=scipy_s * 1e3,
        times_scipy=scipy_s * 1e3 / float(np.median(wall)),
    )


def _added_up(results: list[pa.Table]) -> set[Any]:
    table = pa.concat_tables(results)
    names = [name for name in table.column_names if name != "diff"]
    sums = table.group_by(names).aggregate([("diff", "sum")])
    left = sums.filter(pa.compute.not_equal(sums["diff_sum"], 0)).select(names)
    return set(zip(*(column.to_pylist() for column in left.columns), strict=True))


if __name__ == "__main__":
    main()
