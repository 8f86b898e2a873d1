"""PageRank that streams on Spark: from a file of changed edges that becomes visible to its published ranks.

    .venv/bin/python -m benchmarks.graphs.streaming [--graph uniform] [--size 100000] [--epochs 20]
        [--change 1000] [--scaled]

The edges lie in a folder as one Parquet file, and a query on Spark with two workers reads the folder
(``ps.io.files``). Then files of inserts and deletes are put there, half of each, one after the other, each
when the ranks of the one before are published. One JSON line, which is added to the results: ``load_s`` from
the first file to its ranks, with the start of the workers; ``ms_median``, ``ms_p95`` and ``ms_worst`` from
the rename that makes a file visible to the published ranks that changed (``rows``, the median). What was
published, added up, is compared with igraph's ranks for the graph as it is at the end.

Ranks are Brin and Page's, which a change moves where it matters; with ``--scaled`` they add up to one, and
every epoch publishes all of them.
"""

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import line_of
from benchmarks.graphs.epochs import ChangingGraph
from benchmarks.graphs.generators import GRAPHS
from benchmarks.graphs.libraries import IGRAPH
from benchmarks.graphs.pagerank import TOLERANCE
from benchmarks.graphs.peers import ALGORITHMS, by_vertex, scaled
from benchmarks.graphs.run import RESULTS
from benchmarks.graphs.updates import added_up
from benchmarks.spark.session import SLOTS, session
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp import graphs
from pointstamp.connectors.published.reader import read_changes

WAIT_SECONDS_MAX = 600.0


def ranked(*, is_scaled: bool) -> ps.Dataflow:
    """Ranks of the edges that are there."""
    flow = ps.Dataflow("ranks")
    edges = flow.table("edges", "src long, dst long, km long, w long", weight="w")
    ranks = graphs.pagerank(graphs.Graph(edges), tolerance=TOLERANCE, sums_to="one" if is_scaled else None)
    flow.output("ranks", ranks)
    return flow


def streamed(
    spark: SparkSession, flow: ps.Dataflow, changing: ChangingGraph, epochs: int, folder: Path
) -> list[float]:
    """The seconds of each epoch, the first of which is the load."""
    arriving = folder / "in"
    arriving.mkdir()
    query = flow.start(
        on=spark,
        edges=ps.io.files(arriving, in_order=True),
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "out"),
        workers=SLOTS,
    )
    took = []
    try:
        for number in range(epochs + 1):
            batch = changing.step() if number else changing.whole()
            pq.write_table(pa.Table.from_batches([batch]), folder / "new.parquet")
            begin = perf_counter()
            os.rename(folder / "new.parquet", arriving / f"{number:06d}.parquet")
            while query.epoch < number:
                if perf_counter() - begin > WAIT_SECONDS_MAX:
                    raise TimeoutError(f"epoch {number} was not published within {WAIT_SECONDS_MAX:g} s")
                sleep(0.001)
            took.append(perf_counter() - begin)
    finally:
        query.stop()
    return took


def main() -> None:
    """Load, change, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", choices=GRAPHS, default="uniform")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--change", type=int, default=1_000)
    parser.add_argument("--scaled", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    edges = GRAPHS[asked.graph](asked.size)
    changing = ChangingGraph(edges, asked.change // 2)
    flow = ranked(is_scaled=asked.scaled)
    with (
        session("ranks", slots=SLOTS + 1) as spark,
        tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder,
    ):
        took = streamed(spark, flow, changing, asked.epochs, Path(folder))
        published = read_changes(str(Path(folder, "out")), "ranks")
    found = added_up([published.select(["id", "rank", "diff"])])
    ids, ranks = by_vertex(found)
    shares = np.zeros(edges.vertices)
    shares[ids] = ranks
    off = ALGORITHMS["pagerank"].off(scaled(shares, changing.now), IGRAPH["pagerank"](changing.now))
    counts = np.bincount(published["epoch"].to_numpy(), minlength=asked.epochs + 1)[1:]
    line = line_of(
        "scaled" if asked.scaled else "as they are",
        measure="streaming",
        contender="Spark",
        graph=asked.graph,
        size=asked.size,
        vertices=edges.vertices,
        edges=len(edges),
        epochs=asked.epochs,
        change=asked.change,
        load_s=took[0],
        ms_median=median(took[1:]) * 1e3,
        ms_p95=float(np.percentile(took[1:], 95)) * 1e3,
        ms_worst=max(took[1:]) * 1e3,
        rows=float(np.median(counts)),
        checked=off <= ALGORITHMS["pagerank"].tolerance,
        off=f"{off:.1e}",
    )
    with asked.results.open("a") as results:
        results.write(line + "\n")
    print(line)


if __name__ == "__main__":
    main()
