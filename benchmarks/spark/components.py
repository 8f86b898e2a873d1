"""Connected components on Spark: a flow against GraphX and against a loop of DataFrames, in one session.

    .venv/bin/python -m benchmarks.spark.components [--case NAME] [--vertices 1000000] [--limit 300]

One JSON line per case and contender. All read the same Parquet files of edges and end when the labels lie in
Parquet files; ``seconds`` is the best of their turns. For the flow that includes its gang: ``gang_seconds``
is what the same flow takes for a single edge, and ``seconds_without_gang`` the difference. ``ratio`` is the
contender's time by the flow's, its gang included. A contender that is not done within the limit is cancelled
and has ``seconds`` null and a ``ratio`` that is a lower bound. Every answer is compared with scipy's. Before
anything is measured, each contender does a small graph, so that no figure holds the loading of classes.

To beat, measured on such a machine: GraphX 19.3 and 13.5 s for uniform and power law, and more than 300 s for
the chains; the loop of DataFrames 47.5, 35.7 and 59 s. The aim is a fifth of GraphX.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from threading import Event, Timer
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.components import CASES, Edges, Ids, batch_of, check, with_scipy
from benchmarks.figures import report, timed
from benchmarks.spark.peers import dataframe_loop, forget, graphx
from benchmarks.spark.session import SLOTS, TURNS_MAX, best_of_turns, session
from pyspark.sql import DataFrame, SparkSession

from pointstamp import Dataflow
from pointstamp.graphs import connected_components

Peer = Callable[[SparkSession, DataFrame], DataFrame]

GRAPHS = ("uniform", "power law", "chains")
PEERS: dict[str, Peer] = {"GraphX": graphx, "DataFrame loop": dataframe_loop}
SMALL = 1_000

Way = Callable[[Path], None]
"""Writes the labels of a graph below a folder, as Parquet files."""


def with_flow(spark: SparkSession, edges: DataFrame, folder: Path) -> None:
    """The components by a flow, one gang for all."""
    flow = Dataflow("components")
    flow.output("components", connected_components(flow.stream_input("edges", "src long, dst long")))
    flow.run(on=spark, edges=edges, output=str(folder))


def with_peer(find: Peer, spark: SparkSession, edges: DataFrame, limit_seconds: float, folder: Path) -> None:
    """The components by another way, within some time."""
    try:
        # A group that was cancelled stays so: each has its own.
        limited(
            spark,
            uuid4().hex,
            limit_seconds,
            lambda: find(spark, edges).write.parquet(str(folder)),
        )
    finally:
        forget(spark)


def seconds_of(way: Way, expected: tuple[Ids, Ids]) -> float:
    """The best seconds of a way; every answer is checked."""
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        turns = count()

        def turn() -> Path:
            answer = Path(folder, f"turn-{next(turns)}")
            way(answer)
            return answer

        return best_of_turns(turn, lambda answer: check([labels_below(answer)], *expected))


def labels_below(folder: Path) -> pa.Table:
    """All labels in the Parquet files below a folder."""
    files = sorted(folder.rglob("*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read(["vertex", "component"]) for file in files])


def limited(spark: SparkSession, group: str, limit_seconds: float, act: Callable[[], None]) -> None:
    """Do something with Spark; after so many seconds cancel it and raise TimeoutError."""
    context = spark.sparkContext
    is_over = Event()

    def cancel() -> None:
        is_over.set()
        # Also the jobs that come later: between two of its jobs a loop would not notice.
        context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001 - Python has no name for it

    context.setJobGroup(group, group)
    timer = Timer(limit_seconds, cancel)
    timer.start()
    try:
        act()
    except Exception as error:  # Spark's and py4j's errors have no common kind
        if is_over.is_set():
            raise TimeoutError(f"not within {limit_seconds:g} s") from error
        raise
    finally:
        timer.cancel()
        context.setJobGroup("unlimited", "what comes after")


def written(edges: Edges, folder: Path) -> str:
    """Where the edges lie, in a file for each slot."""
    table = pa.Table.from_batches([batch_of(edges)])
    each = -(-table.num_rows // SLOTS)
    folder.mkdir()
    for slot in range(SLOTS):
        pq.write_table(table.slice(slot * each, each), folder / f"{slot}.parquet")
    return str(folder)


def gang_seconds(spark: SparkSession) -> float:
    """What the flow takes for one edge: everything but the components."""
    edge = spark.range(1).selectExpr("id as src", "id as dst")
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        return median(
            timed(partial(with_flow, spark, edge, Path(folder, str(turn))))[0] for turn in range(TURNS_MAX)
        )


def measure(spark: SparkSession, name: str, vertices: int, limit_seconds: float) -> None:
    """One graph, all ways."""
    edges = CASES[name](vertices)
    scipy_seconds, *expected = with_scipy(edges, vertices)
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        frame = spark.read.parquet(written(edges, Path(folder, "edges")))
        gang = gang_seconds(spark)
        ours = seconds_of(partial(with_flow, spark, frame), (expected[0], expected[1]))
        report(
            name,
            contender="flow",
            edges=len(edges[0]),
            seconds=ours,
            gang_seconds=gang,
            seconds_without_gang=ours - gang,
            scipy_seconds=scipy_seconds,
        )
        for peer, find in PEERS.items():
            way = partial(with_peer, find, spark, frame, limit_seconds)
            try:
                theirs = seconds_of(way, (expected[0], expected[1]))
            except TimeoutError as error:
                report(name, contender=peer, seconds=None, said=str(error), ratio=limit_seconds / ours)
            else:
                without = theirs / (ours - gang)
                report(name, contender=peer, seconds=theirs, ratio=theirs / ours, ratio_without_gang=without)


def warm_up(spark: SparkSession, limit_seconds: float) -> None:
    """Every way once, on a small graph."""
    edges = spark.createDataFrame(pa.Table.from_batches([batch_of(CASES["uniform"](SMALL))]))
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        with_flow(spark, edges, Path(folder, "flow"))
        for name, find in PEERS.items():
            with_peer(find, spark, edges, limit_seconds, Path(folder, name))


def main() -> None:
    """Measure one graph or all."""
    parser = argparse.ArgumentParser(description="Connected components on Spark.")
    parser.add_argument("--case", choices=GRAPHS, action="append")
    parser.add_argument("--vertices", type=int, default=1_000_000)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a peer is cancelled")
    given = parser.parse_args()
    with session("components") as spark:
        warm_up(spark, given.limit)
        for name in given.case or GRAPHS:
            measure(spark, name, given.vertices, given.limit)


if __name__ == "__main__":
    main()
