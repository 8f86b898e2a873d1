"""One cell: an algorithm on a graph by one system, in a process of its own, which ``run`` starts and limits.

    .venv/bin/python -m benchmarks.graphs.cell SYSTEM ALGORITHM GRAPH SIZE FOLDER

Prints a JSON line with ``seconds`` by the clock and ``processor_s`` of all processes that this one started,
and leaves the answer in FOLDER. What is measured begins with the edges in memory as arrays, or on Spark as
Parquet files, and ends with the answer in the same form; processes and sessions are there before, and on
Spark a small graph is done first, so that no figure holds the loading of classes.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from benchmarks.figures import report
from benchmarks.graphs.given import Given, write_answer
from benchmarks.graphs.libraries import IGRAPH, ORACLES, SCIPY, Way
from benchmarks.graphs.peers import ALGORITHMS, Answer
from benchmarks.limits import processor_seconds

import pointstamp as ps
from pointstamp import graphs

T = TypeVar("T")

Cost = tuple[float, float]
"""Seconds by the clock, and of the processor."""

SMALL = 1_000


def costing(act: Callable[[], T]) -> tuple[Cost, T]:
    """What something costs, and what it returns."""
    begin, processor = perf_counter(), processor_seconds()
    made = act()
    return (perf_counter() - begin, processor_seconds() - processor), made


def flow_of(name: str) -> ps.Dataflow:
    """An algorithm of ours on a graph to which edges are only added."""
    flow = ps.Dataflow("graph")
    edges = flow.table("edges", "src long, dst long, km long")
    flow.output("answer", ALGORITHMS[name].ours(graphs.Graph(edges, weight="km")))
    return flow


def ours(name: str, given: Given, *, processes: int = 0) -> tuple[Cost, Answer]:
    """One worker in this process, or several processes."""
    edges = given.edges()
    table = pa.table({"src": edges.src, "dst": edges.dst, "km": edges.weight})
    found: list[pa.Table] = []
    flow = flow_of(name)

    def keep(_name: str, _epoch: int, result: pa.Table) -> None:
        found.append(result)

    def solve(run: Any) -> None:  # noqa: ANN401 - either kind of run
        run.input("edges").send(table)
        run.input("edges").advance_to(1)
        run.step_until(lambda: run.is_done("answer", 0))

    with flow.open(processes=processes, on_result=keep) if processes else flow.open(on_result=keep) as run:
        cost, _ = costing(lambda: solve(run))
        run.settle()
    return cost, ALGORITHMS[name].answer(pa.concat_tables(found).drop(["diff"]))


def by_library(ways: dict[str, Way], name: str, given: Given) -> tuple[Cost, Answer]:
    """A library in one thread."""
    edges = given.edges()
    return costing(lambda: ways[name](edges))


def on_spark(contender: str, name: str, given: Given) -> tuple[Cost, Answer]:
    """A flow of ours or GraphX, in a session with two slots."""
    from benchmarks.graphs import spark_cells
    from benchmarks.spark.session import session

    way = partial(spark_cells.WAYS[contender], name)
    with session("graphs") as spark, tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as temporary:
        small = Given("uniform", SMALL, given.folder)
        way(spark, spark.read.parquet(small.parquet()), Path(temporary, "small"))
        frame = spark.read.parquet(given.parquet())
        cost, _ = costing(lambda: way(spark, frame, Path(temporary, "answer")))
        return cost, spark_cells.answer_below(Path(temporary, "answer"))


SYSTEMS: dict[str, Callable[[str, Given], tuple[Cost, Answer]]] = {
    "one worker": ours,
    "two processes": partial(ours, processes=2),
    "Spark": partial(on_spark, "Spark"),
    "igraph": partial(by_library, IGRAPH),
    "scipy": partial(by_library, SCIPY),
    "GraphX": partial(on_spark, "GraphX"),
    "oracle": partial(by_library, ORACLES),
}


def main() -> None:
    """Measure one cell."""
    system, name, graph, size, folder = sys.argv[1:]
    given = Given(graph, int(size), Path(folder))
    (seconds, processor), answer = SYSTEMS[system](name, given)
    write_answer(Path(folder, "answer.npz"), (answer[0], answer[1].astype(np.float64)))
    edges = given.edges()
    report(name, vertices=edges.vertices, edges=len(edges), seconds=seconds, processor_s=processor)


if __name__ == "__main__":
    main()
