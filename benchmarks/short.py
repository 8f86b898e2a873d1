"""A short set of figures against peers, for every change: about twenty seconds, one worker, no Spark.

    make bench-short

One JSON line per case. ``cpu_seconds`` is the processor time of ours, ``peer_cpu_s`` that of a peer in the
same run, both the best of some runs, taken in turn; ``ratio`` is ours by the peer's. The peers are pyarrow's
``group_by`` for a keyed count, a Python ``Counter`` for epochs of 1,000 rows, scipy for connected components,
and for rounds of a loop without rows a loop over a Python dictionary.
"""

from collections import Counter
from collections.abc import Callable
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa
from benchmarks.figures import report
from benchmarks.rounds import empty_rounds
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

from pointstamp import Dataflow, count
from pointstamp.graphs import connected_components
from pointstamp.timely import LocalRun

RUNS: Final = 7
ROWS: Final = 1_000_000
KEYS: Final = 10_000
EPOCHS: Final = 200
EPOCH_ROWS: Final = 1_000
VERTICES: Final = 100_000
ROUNDS: Final = 2_000
TURNS: Final = 200
"""How many turns of the dictionary stand for one round."""


def spent(act: Callable[[], object]) -> float:
    """The processor time that something takes."""
    begin = process_time()
    act()
    return process_time() - begin


def compared(case: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    """One line: the best of some runs of each, taken in turn."""
    pairs = [(spent(ours), spent(theirs)) for _ in range(RUNS)]
    mine, others = (min(each) for each in zip(*pairs, strict=True))
    report(case, cpu_seconds=mine, peer=peer, peer_cpu_s=others, ratio=mine / others)


def fed(flow: Dataflow, epochs: list[pa.RecordBatch]) -> None:
    """Run a flow over epochs, one batch each."""
    with LocalRun(flow.plan) as run:
        handle = run.inputs["rows"]
        for number, batch in enumerate(epochs):
            handle.send(batch)
            handle.advance_to(number + 1)
            while run.step():
                pass


def counting() -> Dataflow:
    """A running count by key."""
    flow = Dataflow("count")
    flow.output("out", flow.stream_input("rows", "key long").group_by("key", running=True).agg(n=count()))
    return flow


def keyed_count() -> None:
    """A million rows in one epoch."""
    keys = pa.record_batch({"key": np.random.default_rng(0).integers(0, KEYS, ROWS)})
    table = pa.Table.from_batches([keys])
    compared(
        "keyed count, 1 M rows, 10 k keys",
        "pyarrow",
        lambda: fed(counting(), [keys]),
        lambda: table.group_by("key", use_threads=False).aggregate([("key", "count")]),
    )


def small_epochs() -> None:
    """Epochs of 1,000 rows."""
    drawn = np.random.default_rng(1).integers(0, KEYS, (EPOCHS, EPOCH_ROWS))
    epochs = [pa.record_batch({"key": each}) for each in drawn]

    def plainly() -> None:
        counts: Counter[int] = Counter()
        for each in epochs:
            counts.update(each.column("key").to_pylist())

    compared(f"{EPOCHS} epochs of 1,000 rows", "Counter", lambda: fed(counting(), epochs), plainly)


def components() -> None:
    """A random graph with twice as many edges as vertices."""
    src, dst = np.random.default_rng(2).integers(0, VERTICES, (2, 2 * VERTICES))
    edges = pa.record_batch({"src": src, "dst": dst})
    flow = Dataflow("components")
    flow.output("out", connected_components(flow.stream_input("rows", "src long, dst long")))

    def by_scipy() -> object:
        graph = coo_matrix((np.ones(len(src), bool), (src, dst)), shape=(VERTICES, VERTICES))
        return scipy_components(graph, directed=False)

    compared("components, 100 k vertices", "scipy", lambda: fed(flow, [edges]), by_scipy)


def rounds() -> None:
    """Rounds of a loop in which nothing circulates."""

    def ours() -> None:
        with LocalRun(empty_rounds(ROUNDS).plan) as run:
            run.inputs["in"].advance_to(1)
            while run.step():
                pass

    def plainly() -> None:
        counts: dict[int, int] = {}
        for turn in range(ROUNDS * TURNS):
            counts[turn % 64] = counts.get(turn % 64, 0) + 1

    compared(f"{ROUNDS} rounds without rows", f"{TURNS} turns of a dictionary", ours, plainly)


def main() -> None:
    """Print the lines."""
    for case in (keyed_count, small_epochs, components, rounds):
        case()


if __name__ == "__main__":
    main()
