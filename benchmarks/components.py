"""Connected components against scipy in one thread: what a dataflow costs where one thread would do (COST).

    .venv/bin/python benchmarks/components.py [--case NAME] [--vertices 1000000]

One JSON line per case, each in a process of its own, with one worker in that process. ``seconds`` is from the
edges in Arrow to the last label in Arrow, the best of some runs; ``scipy_seconds`` from numpy arrays to
scipy's labels, in the same process and taken in turn; ``ratio`` is the first by the second. ``peak_mb`` is
the most memory the process had before scipy began, of which ``before_mb`` was there before the flow was. The
incremental case loads the uniform graph and then adds epochs of 100 edges: ``ms_median`` for one epoch, with
the labels that changed, against scipy from scratch. Every answer of every run is compared with scipy's.

The power law: one end of an edge is vertex n*u^3 for uniform u, so degrees fall with exponent 2.5.

To beat, measured on such a machine: pathway 146, 163 and 174 s for uniform, power law and chains; one-thread
label propagation in numpy 22 s for the chains; scipy 0.49, 0.69 and 0.29 s. Incremental: pathway 168 ms an
epoch with 11.5 GB, scipy from scratch 216 ms, a union-find written by hand 0.12 ms. The aim is three times
scipy on the first two, 3 s for the chains and 2 ms an epoch.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components as scipy_components

from pointstamp import Dataflow
from pointstamp.graphs import connected_components
from pointstamp.timely import LocalRun

Ids = npt.NDArray[np.int64]
Edges = tuple[Ids, Ids]

RUNS = 3
EPOCHS = 100
EPOCH_EDGES = 100
CHAIN_LENGTH = 1_000
CHILD_SECONDS_MAX = 600


def uniform(vertices: int) -> Edges:
    """Twice as many edges as vertices, both ends drawn evenly."""
    src, dst = np.random.default_rng(0).integers(0, vertices, (2, 2 * vertices))
    return src, dst


def power_law(vertices: int) -> Edges:
    """Five times as many edges as vertices, one end drawn mostly from a few."""
    chance = np.random.default_rng(0)
    src = (vertices * chance.random(5 * vertices) ** 3).astype(np.int64)
    return src, chance.integers(0, vertices, 5 * vertices)


def chains(vertices: int) -> Edges:
    """Chains of a thousand vertices, numbered along."""
    ids = np.arange(vertices // CHAIN_LENGTH * CHAIN_LENGTH).reshape(-1, CHAIN_LENGTH)
    return ids[:, :-1].ravel(), ids[:, 1:].ravel()


def shuffled_chains(vertices: int) -> Edges:
    """Chains of a thousand vertices, numbered without any order."""
    src, dst = chains(vertices)
    number = np.random.default_rng(0).permutation(vertices)
    return number[src], number[dst]


def spread(vertices: int) -> Edges:
    """The uniform graph with ids all over the 63 bits."""
    src, dst = uniform(vertices)
    number = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, vertices)
    return number[src], number[dst]


CASES: dict[str, Callable[[int], Edges]] = {
    "uniform": uniform,
    "power law": power_law,
    "chains": chains,
    "shuffled chains": shuffled_chains,
    "spread ids": spread,
}
INCREMENTAL = "incremental"


def open_run(results: list[pa.Table]) -> LocalRun:
    """A flow with one worker that keeps its results."""
    flow = Dataflow("components")
    flow.output("components", connected_components(flow.stream_input("edges", "src long, dst long")))
    return flow.open(on_result=lambda _name, _epoch, table: results.append(table))


def add_epoch(run: LocalRun, edges: pa.RecordBatch, epoch: int) -> float:
    """Send one epoch and wait for its result; how long that took."""
    begin = perf_counter()
    run.input("edges").send(edges)
    run.input("edges").advance_to(epoch + 1)
    run.settle()
    return perf_counter() - begin


def batch_of(edges: Edges) -> pa.RecordBatch:
    """Edges as Arrow."""
    return pa.record_batch({"src": edges[0], "dst": edges[1]})


def with_scipy(edges: Edges, bound: int | None) -> tuple[float, Ids, Ids]:
    """Scipy's time, and vertices, ascending, with their least companions.

    With a bound ids are numbers below it, as scipy needs them; otherwise they are first made so.
    """
    begin = perf_counter()
    if bound is None:
        ids, ends = np.unique(np.concatenate(edges), return_inverse=True)
        src, dst = np.split(ends, 2)
    else:
        ids, (src, dst) = np.arange(bound), edges
    ones = np.ones(len(src), np.int8)
    number, component = scipy_components(
        coo_matrix((ones, (src, dst)), shape=(len(ids),) * 2), directed=False
    )
    seconds = perf_counter() - begin
    least = np.full(number, np.iinfo(np.int64).max)
    np.minimum.at(least, component, ids)
    is_there = np.zeros(len(ids), np.bool_)
    is_there[src] = is_there[dst] = True
    return seconds, ids[is_there], least[component[is_there]]


def check(results: list[pa.Table], vertices: Ids, least: Ids) -> None:
    """Raise unless the results, the later before the earlier, are these labels."""
    vertex, label = (
        np.concatenate([table.column(name).to_numpy() for table in reversed(results)])
        for name in ("vertex", "component")
    )
    found, first = np.unique(vertex, return_index=True)
    if not (np.array_equal(found, vertices) and np.array_equal(label[first], least)):
        raise AssertionError("the components are not those that scipy finds")


def peak_mb() -> int:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure_load(name: str, vertices: int) -> dict[str, object]:
    """One epoch with the whole graph."""
    edges = CASES[name](vertices)
    batch = batch_of(edges)
    ours, theirs, memory = [], [], [peak_mb()]
    rows = 0
    for _ in range(RUNS):
        results: list[pa.Table] = []
        with open_run(results) as run:
            ours.append(add_epoch(run, batch, 0))
        memory.append(peak_mb())
        seconds, *expected = with_scipy(edges, None if name == "spread ids" else vertices)
        theirs.append(seconds)
        check(results, *expected)
        rows = sum(map(len, results))
    return {
        "case": name,
        "edges": len(edges[0]),
        "labels": rows,
        "seconds": round(min(ours), 3),
        "scipy_seconds": round(min(theirs), 3),
        "ratio": round(min(ours) / min(theirs), 2),
        "peak_mb": memory[1],
        "before_mb": memory[0],
    }


def measure_incremental(vertices: int) -> dict[str, object]:
    """The uniform graph, and then small epochs."""
    edges = uniform(vertices)
    more = np.random.default_rng(2).integers(0, vertices, (EPOCHS, 2, EPOCH_EDGES))
    batches = [batch_of((src, dst)) for src, dst in more]
    before_mb = peak_mb()
    results: list[pa.Table] = []
    with open_run(results) as run:
        load = add_epoch(run, batch_of(edges), 0)
        loaded = sum(map(len, results))
        took = [add_epoch(run, batch, epoch) for epoch, batch in enumerate(batches, start=1)]
    memory_mb = peak_mb()
    src, dst = (np.concatenate((end, more[:, number].ravel())) for number, end in enumerate(edges))
    theirs, *expected = with_scipy((src, dst), vertices)
    check(results, *expected)
    milliseconds = np.array(took) * 1e3
    return {
        "case": INCREMENTAL,
        "epochs": EPOCHS,
        "edges": EPOCH_EDGES,
        "labels": sum(map(len, results)) - loaded,
        "load_s": round(load, 3),
        "ms_median": round(float(np.median(milliseconds)), 3),
        "ms_mean": round(float(milliseconds.mean()), 3),
        "ms_max": round(float(milliseconds.max()), 3),
        "scipy_ms": round(theirs * 1e3, 1),
        "ratio": round(float(np.median(milliseconds)) / (theirs * 1e3), 5),
        "peak_mb": memory_mb,
        "before_mb": before_mb,
    }


def main() -> None:
    """Measure one case here, or each in a process of its own, so that each has a peak of its own."""
    parser = argparse.ArgumentParser(description="Connected components against scipy.")
    parser.add_argument("--case", choices=[*CASES, INCREMENTAL])
    parser.add_argument("--vertices", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.case == INCREMENTAL:
        print(json.dumps(measure_incremental(given.vertices)), flush=True)
    elif given.case is not None:
        print(json.dumps(measure_load(given.case, given.vertices)), flush=True)
    else:
        for case in (*CASES, INCREMENTAL):
            command = [sys.executable, str(Path(__file__)), "--case", case, "--vertices", str(given.vertices)]
            subprocess.run(command, check=True, timeout=CHILD_SECONDS_MAX)  # noqa: S603 - this very file


if __name__ == "__main__":
    main()
