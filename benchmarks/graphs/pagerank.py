"""PageRank of a graph that changes: what 500 edges that come and 500 that go cost, beside igraph and scipy.

    .venv/bin/python -m benchmarks.graphs.pagerank [--vertices N] [--edges N] [--epochs N] [--scaled]

A uniform graph of 1,000,000 vertices and 5,000,000 edges, one worker in this process. One JSON line:
``first_s`` from the edges in Arrow to all ranks in Arrow, ``epoch_ms`` the median of an epoch, with the ranks
that changed (``rows``) emitted. Beside them, in the same run and for the graph as it is at the end,
``igraph_s`` (PRPACK) and ``scipy_s`` (power iterations of a sparse matrix, made of the edges, until they are
as near as ours), each from scratch; ``times_igraph`` and ``times_scipy`` say how many epochs of ours go into
one of theirs. All are seconds of the processor, so that they say the same beside other work. Every rank after
the last epoch must be within the tolerance of the exact one, which is worked out by scipy to ten more digits.

Ranks are Brin and Page's, which a change moves where it matters; with ``--scaled`` they add up to one, and an
epoch puts all of them out.
"""

import argparse
import cProfile
import pstats
from collections.abc import Callable
from statistics import median
from time import process_time

import igraph
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.figures import report
from scipy.sparse import csr_matrix

import pointstamp as ps
from pointstamp import graphs

Numbers = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.float64]

CHANGED = 500
DAMPING = 0.85
TOLERANCE = 1e-4


class Ranked:
    """A flow of ranks, driven epoch by epoch, and its result by vertex."""

    def __init__(self, vertices: int, *, scaled: bool) -> None:
        flow = ps.Dataflow("ranks")
        edges = flow.table("edges", "src long, dst long, w long", weight="w")
        ranks = graphs.pagerank(
            graphs.Graph(edges), damping=DAMPING, tolerance=TOLERANCE, sums_to="one" if scaled else None
        )
        flow.output("ranks", ranks)
        self.ranks: Ranks = np.zeros(vertices)
        self.rows = 0
        self._run = flow.open(on_result=self._keep)
        self._epoch = 0

    def send(self, src: Numbers, dst: Numbers, weight: Numbers) -> float:
        """One epoch; what it costs until all of it is out."""
        table = pa.table({"src": src, "dst": dst, "w": weight})
        begin = process_time()
        handle = self._run.input("edges")
        handle.send(table)
        self._epoch += 1
        handle.advance_to(self._epoch)
        self._run.settle()
        return process_time() - begin

    def _keep(self, name: str, epoch: int, table: pa.Table) -> None:
        del name, epoch
        ids, ranks, diff = (table[column].to_numpy() for column in ("id", "rank", "diff"))
        self.ranks[ids[diff < 0]] = 0
        self.ranks[ids[diff > 0]] = ranks[diff > 0]
        self.rows = len(ids)


def by_scipy(vertices: int, src: Numbers, dst: Numbers, tolerance: float) -> Ranks:
    """(1 - d) + d * (what comes in), by iteration from scratch, until no residual exceeds the tolerance."""
    out = np.bincount(src, minlength=vertices)
    shares = csr_matrix((DAMPING / out[src], (dst, src)), shape=(vertices, vertices))
    is_there = (out + np.bincount(dst, minlength=vertices)) > 0
    resets = (1 - DAMPING) * is_there
    ranks: Ranks = is_there.astype(np.float64)
    while True:
        after: Ranks = resets + shares @ ranks
        if np.abs(after - ranks).max() <= tolerance * (1 - DAMPING):
            return after
        ranks = after


def cost(act: Callable[[], object]) -> float:
    """The seconds of the processor that something takes."""
    begin = process_time()
    act()
    return process_time() - begin


def main() -> None:
    """Load, change, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vertices", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--scaled", action="store_true")
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    chance = np.random.default_rng(0)
    src, dst = chance.integers(0, asked.vertices, (2, asked.edges))
    ranked = Ranked(asked.vertices, scaled=asked.scaled)
    profile = cProfile.Profile()
    if asked.profile:
        profile.enable()
    first_s = ranked.send(src, dst, np.ones(asked.edges, np.int64))
    epochs, rows = [], []
    for _ in range(asked.epochs):
        gone = chance.choice(len(src), CHANGED, replace=False)
        new_src, new_dst = chance.integers(0, asked.vertices, (2, CHANGED))
        weights = np.repeat([-1, 1], CHANGED)
        changed_src, changed_dst = np.concatenate((src[gone], new_src)), np.concatenate((dst[gone], new_dst))
        epochs.append(ranked.send(changed_src, changed_dst, weights))
        rows.append(ranked.rows)
        src[gone], dst[gone] = new_src, new_dst
    if asked.profile:
        profile.disable()
        pstats.Stats(profile).sort_stats("cumulative").print_stats(30)
    scipy_s = cost(lambda: by_scipy(asked.vertices, src, dst, TOLERANCE))
    igraph_s = cost(lambda: igraph.Graph(asked.vertices, np.stack((src, dst), 1), directed=True).pagerank())
    wanted = by_scipy(asked.vertices, src, dst, 1e-14)
    if asked.scaled:
        wanted = wanted / wanted.sum()
    there = wanted > 0
    assert np.array_equal(ranked.ranks > 0, there), "other vertices have a rank"
    off = float(np.abs(ranked.ranks[there] / wanted[there] - 1).max())
    assert off <= 2.2 * TOLERANCE, f"a rank is off by {off:.1e} of itself"
    epoch = median(epochs)
    report(
        "scaled" if asked.scaled else "as they are",
        first_s=first_s,
        epoch_ms=1000 * epoch,
        rows=median(rows),
        scipy_s=scipy_s,
        igraph_s=igraph_s,
        times_scipy=scipy_s / epoch,
        times_igraph=igraph_s / epoch,
        off=f"{off:.1e}",
    )


if __name__ == "__main__":
    main()
