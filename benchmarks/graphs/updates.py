"""Graphs that change: the load, and then epochs of inserts and deletes, beside igraph and scipy from scratch.

    .venv/bin/python -m benchmarks.graphs.updates [--size 100000] [--graph NAME] [--only NAME] [--epochs 100]
        [--change 100] [--processes 2] [--profile]

A table with a line for each algorithm and graph: ``load_s`` from the edges in Arrow to the first answer, on
one worker in this process; ``peer_s`` the same by igraph or scipy, from arrays of edges; ``load_x`` the first
by the second. Then each epoch inserts and deletes so many edges: ``epoch_ms`` is the median from sending them
to having the change of the answer, ``again_x`` how often that fits into the peer's time from scratch, and
``solve_x`` into its time for the answer alone, with its graph made beforehand. These are seconds of the
processor, so that they say the same beside other work. With ``--processes`` the same is run in so many, by
the clock, where ``epoch_ms`` is the median time between the results of two epochs. What was emitted, added
up, is compared with the peer's answer at the end.
"""

import argparse
import cProfile
import pstats
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from benchmarks.graphs.generators import GRAPHS, Edges, uniform
from benchmarks.graphs.peers import ALGORITHMS, Algorithm

import pointstamp as ps
from pointstamp import graphs

HEADINGS = (
    "algorithm",
    "graph",
    "edges",
    "where",
    "load_s",
    "peer_s",
    "load_x",
    "epoch_ms",
    "again_x",
    "solve_x",
)
COLUMNS = "{:<10} {:<8} {:>9} {:>10} {:>8} {:>8} {:>7} {:>9} {:>8} {:>8}"


def main() -> None:
    """Run what is asked for, and print a line for each."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--size", type=int, default=100_000)
    asked.add_argument("--graph", choices=GRAPHS)
    asked.add_argument("--only", choices=ALGORITHMS)
    asked.add_argument("--epochs", type=int, default=100)
    asked.add_argument("--change", type=int, default=100)
    asked.add_argument("--processes", type=int)
    asked.add_argument("--profile", action="store_true")
    given = asked.parse_args()
    print(COLUMNS.format(*HEADINGS))
    for kind in [given.graph] if given.graph else GRAPHS:
        loaded = GRAPHS[kind](given.size)
        for name in [given.only] if given.only else ALGORITHMS:
            measured = Measured(ALGORITHMS[name], loaded, given.epochs, given.change)
            shown = name, kind, len(loaded)
            show(*shown, "one worker", measured.in_one_worker(profiled=given.profile))
            if given.processes:
                show(*shown, f"{given.processes} procs", measured.in_processes(given.processes))


def show(name: str, kind: str, edges: int, where: str, took: "Took") -> None:
    """Print one line."""
    peer = took.prepare + took.solve
    ratios = took.load, peer, took.load / peer, took.epoch * 1e3, peer / took.epoch, took.solve / took.epoch
    figures = (f"{each:.2f}" for each in ratios)
    print(COLUMNS.format(name, kind, edges, where, *figures), flush=True)


@dataclass(frozen=True)
class Took:
    """Seconds: of the load, of an epoch, and of the peer for its graph and for its answer."""

    load: float
    epoch: float
    prepare: float
    solve: float


class Measured:
    """One algorithm on one graph, and the changes to it."""

    def __init__(self, algorithm: Algorithm, loaded: Edges, epochs: int, change: int) -> None:
        self._algorithm = algorithm
        self._batches = [
            _batch(loaded, np.ones(len(loaded), np.int64)),
            *self._changes(loaded, epochs, change),
        ]

    def _changes(self, there: Edges, epochs: int, change: int) -> Iterator[pa.RecordBatch]:
        chance = np.random.default_rng(1)
        more = uniform(there.vertices, 1)
        gone = chance.choice(len(there), min(epochs * change, len(there) // 2), replace=False)
        new = chance.choice(len(more), epochs * change, replace=True)
        for old, fresh in zip(np.array_split(gone, epochs), np.array_split(new, epochs), strict=True):
            both = there.take(old).and_(more.take(fresh))
            yield _batch(both, np.repeat(np.array([-1, 1]), [len(old), len(fresh)]))
        kept = np.ones(len(there), np.bool_)
        kept[gone] = False
        self._last = there.take(np.flatnonzero(kept)).and_(more.take(new))

    def in_one_worker(self, *, profiled: bool = False) -> Took:
        """Seconds of the load, of an epoch, and of the peer."""
        results: list[pa.Table] = []
        took = []
        profile = cProfile.Profile()
        with self._flow().open(on_result=lambda _name, _epoch, table: results.append(table)) as run:
            for epoch, batch in enumerate(self._batches):
                if profiled and epoch == 1:
                    profile.enable()
                begin = process_time()
                run.input("edges").send(batch)
                run.input("edges").advance_to(epoch + 1)
                run.settle()
                took.append(process_time() - begin)
        profile.disable()
        if profiled:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return Took(took[0], float(np.median(took[1:])), *self._check(results))

    def in_processes(self, processes: int) -> Took:
        """The same in several processes, to which epochs are sent as they are taken."""
        times: list[float] = []
        begin = perf_counter()
        results = self._flow().run(
            edges=[pa.Table.from_batches([each]) for each in self._batches],
            processes=processes,
            on_epoch=lambda *_: times.append(perf_counter()),
        )
        peer = self._check(list(results["answer"].values()))
        return Took(times[0] - begin, float(np.median(np.diff(times))), *peer)

    def _flow(self) -> ps.Dataflow:
        flow = ps.Dataflow("graph")
        edges = flow.table("edges", "src long, dst long, km long, w long", weight="w")
        flow.output("answer", self._algorithm.ours(graphs.Graph(edges, weight="km")))
        return flow

    def _check(self, results: list[pa.Table]) -> tuple[float, float]:
        """The seconds of the peer, whose answer must be ours: to make its graph, and to answer."""
        begin = process_time()
        graph = self._algorithm.prepared(self._last)
        prepared = process_time()
        wanted = self._algorithm.peer(graph, self._last)
        took = prepared - begin, process_time() - prepared
        off = self._algorithm.off(self._algorithm.answer(added_up(results)), wanted)
        if off > self._algorithm.tolerance:
            raise AssertionError(f"our answer is not that of the peer: it is off by {off:.1e}")
        return took


def added_up(results: list[pa.Table]) -> pa.Table:
    """What changes come to, without their weights."""
    changes = pa.concat_tables(results)
    rows = changes.column_names[:-1]
    summed = changes.group_by(rows).aggregate([("diff", "sum")])
    return summed.filter(pa.array(summed.column("diff_sum").to_numpy() > 0)).select(rows)


def _batch(edges: Edges, weights: np.typing.NDArray[np.int64]) -> pa.RecordBatch:
    return pa.record_batch({"src": edges.src, "dst": edges.dst, "km": edges.weight, "w": weights})


if __name__ == "__main__":
    main()
