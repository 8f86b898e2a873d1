"""A graph that changes: one algorithm of ours, epoch by epoch, beside igraph or scipy from scratch.

    .venv/bin/python -m benchmarks.graphs.epochs ALGORITHM GRAPH SIZE FOLDER EPOCHS CHANGE

``run`` starts it. One JSON line: ``load_s`` from the edges in Arrow to the first answer, ``epoch_ms`` the
median of the epochs by the clock, each with CHANGE inserts and as many deletes, and ``epoch_processor_ms`` of
the processor, until the changes of the answer are there. ``peer_ms`` and ``peer_processor_ms`` are the same
library's from scratch for the graph as it is at the end, its graph made of arrays included, of which
``solve_ms`` is the answer alone. The answer is compared with the oracle's after the load, in the middle and
at the end (``compared``), and every row that is taken back must have been there.
"""

import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.figures import report
from benchmarks.graphs.generators import Edges
from benchmarks.graphs.given import Given
from benchmarks.graphs.peers import ALGORITHMS, Answer

import pointstamp as ps
from pointstamp import graphs


class ChangingGraph:
    """The edges of a graph, of which some go and others come in each epoch."""

    def __init__(self, edges: Edges, change: int) -> None:
        self.now = edges
        self._change = change
        self._chance = np.random.default_rng(1)

    def whole(self) -> pa.RecordBatch:
        """All edges, as inserts."""
        return _batch(self.now, np.ones(len(self.now), np.int64))

    def step(self) -> pa.RecordBatch:
        """The inserts and deletes of the next epoch."""
        change = min(self._change, len(self.now))
        gone = self._chance.choice(len(self.now), change, replace=False)
        src, dst = self._chance.integers(0, self.now.vertices, (2, change))
        new = Edges(self.now.vertices, src, dst, self._chance.integers(1, 100, change))
        changes = self.now.take(gone).and_(new)
        for name in ("src", "dst", "weight"):
            getattr(self.now, name)[gone] = getattr(new, name)
        return _batch(changes, np.repeat(np.array([-1, 1]), change))


class Kept:
    """The answer as its changes add up, by vertex."""

    def __init__(self, vertices: int) -> None:
        self._values = np.full(vertices, np.nan)

    def take(self, _name: str, _epoch: int, table: pa.Table) -> None:
        """Take rows back and put rows in."""
        ids, values, diff = (table.column(place).to_numpy() for place in range(3))
        gone, come = diff < 0, diff > 0
        if not np.array_equal(self._values[ids[gone]], values[gone]):
            raise AssertionError("a row was taken back that was not there")
        self._values[ids[gone]] = np.nan
        self._values[ids[come]] = values[come]

    def answer(self) -> Answer:
        """All vertices that have a value."""
        there = np.flatnonzero(~np.isnan(self._values))
        return there, self._values[there]


def main() -> None:
    """Load, change, compare."""
    name, graph, size, folder, epochs, change = sys.argv[1:]
    algorithm = ALGORITHMS[name]
    edges = Given(graph, int(size), Path(folder)).edges()
    changing, kept = ChangingGraph(edges, int(change)), Kept(edges.vertices)
    flow = ps.Dataflow("graph")
    coming = flow.table("edges", "src long, dst long, km long, w long", weight="w")
    flow.output("answer", algorithm.ours(graphs.Graph(coming, weight="km")))
    took: list[tuple[float, float]] = []
    worst, compared = 0.0, 0
    with flow.open(on_result=kept.take) as run:
        for epoch in range(int(epochs) + 1):
            batch = changing.step() if epoch else changing.whole()
            begin, processor = perf_counter(), process_time()
            run.input("edges").send(batch)
            run.input("edges").advance_to(epoch + 1)
            run.settle()
            took.append((perf_counter() - begin, process_time() - processor))
            if epoch in (0, int(epochs) // 2, int(epochs)):
                wanted, peer, peer_processor, solve = _peer(name, changing.now)
                worst = max(worst, algorithm.off(kept.answer(), wanted))
                compared += 1
    epoch_s, epoch_processor = np.median(np.array(took[1:]), axis=0).tolist()
    report(
        name,
        vertices=edges.vertices,
        edges=len(edges),
        epochs=int(epochs),
        change=int(change),
        load_s=took[0][0],
        load_processor_s=took[0][1],
        epoch_ms=epoch_s * 1e3,
        epoch_processor_ms=epoch_processor * 1e3,
        worst_ms=max(each[0] for each in took[1:]) * 1e3,
        peer_ms=peer * 1e3,
        peer_processor_ms=peer_processor * 1e3,
        solve_ms=solve * 1e3,
        compared=compared,
        checked=worst <= algorithm.tolerance,
        off=f"{worst:.1e}",
    )


def _peer(name: str, edges: Edges) -> tuple[Answer, float, float, float]:
    """The peer's answer, its seconds by the clock, of the processor, and those for the answer alone."""
    begin, processor = perf_counter(), process_time()
    graph = ALGORITHMS[name].prepared(edges)
    made = perf_counter()
    answer = ALGORITHMS[name].peer(graph, edges)
    return answer, perf_counter() - begin, process_time() - processor, perf_counter() - made


def _batch(edges: Edges, weights: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return pa.record_batch({"src": edges.src, "dst": edges.dst, "km": edges.weight, "w": weights})


if __name__ == "__main__":
    main()
