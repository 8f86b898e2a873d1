"""A graph that grows: small epochs of edges on a loaded graph, against finding all components again.

    .venv/bin/python -m benchmarks.spark.incremental [--vertices 1000000] [--limit 300]

The uniform graph (twice as many edges as vertices) is loaded as one epoch; then epochs of 100 edges arrive as
files, each when the result of the one before is published. ``ms_median`` and ``ms_p99`` are from the rename
that makes a file visible to the published labels that changed. ``ratio`` is what GraphX takes for the whole
graph, read from the same kind of files and written as Parquet, by the flow's epoch. The labels after the last
epoch are compared with scipy's. The aim is fifty times.
"""

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.components import EPOCH_EDGES, EPOCHS, batch_of, check, uniform, with_scipy
from benchmarks.figures import report
from benchmarks.spark.components import seconds_of, with_peer, written
from benchmarks.spark.peers import graphx
from benchmarks.spark.session import SLOTS, session
from pyspark.sql import SparkSession

from pointstamp import Dataflow
from pointstamp.connectors.files.source import files
from pointstamp.connectors.published.reader import read_changes
from pointstamp.graphs import connected_components

WAIT_SECONDS_MAX = 300.0


def epochs_of(spark: SparkSession, vertices: int, folder: Path) -> tuple[float, list[float]]:
    """Load the graph, then add to it; return the seconds of the load and the ms of each epoch."""
    flow = Dataflow("components")
    flow.output("components", connected_components(flow.stream_input("edges", "src long, dst long")))
    arriving = folder / "in"
    arriving.mkdir()
    query = flow.start(
        on=spark,
        edges=files(arriving, in_order=True),
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "out"),
        workers=SLOTS,
    )
    base = uniform(vertices)
    added = np.random.default_rng(1).integers(0, vertices, (EPOCHS, 2, EPOCH_EDGES))
    taken = []
    try:
        for number in range(EPOCHS + 1):
            edges = base if number == 0 else (added[number - 1][0], added[number - 1][1])
            new = folder / "new.parquet"
            pq.write_table(pa.Table.from_batches([batch_of(edges)]), new)
            begin = perf_counter()
            os.rename(new, arriving / f"{number:06d}.parquet")
            while query.epoch < number:
                if perf_counter() - begin > WAIT_SECONDS_MAX or not query.is_active:
                    raise TimeoutError(f"epoch {number} was not published: {query.exception()}")
                sleep(0.0005)
            taken.append((perf_counter() - begin) * 1000)
    finally:
        query.stop()
    whole = (
        np.concatenate([base[0], *(each[0] for each in added)]),
        np.concatenate([base[1], *(each[1] for each in added)]),
    )
    _, *answer = with_scipy(whole, vertices)
    labels = read_changes(str(folder / "out"), "components").sort_by("epoch")
    tables = [
        labels.filter(pa.compute.equal(labels["epoch"], number)).select(["vertex", "component"])
        for number in range(EPOCHS + 1)
    ]
    check(tables, answer[0], answer[1])
    return taken[0] / 1000, taken[1:]


def main() -> None:
    """Measure the epochs, then GraphX from scratch."""
    parser = argparse.ArgumentParser(description="A growing graph on Spark.")
    parser.add_argument("--vertices", type=int, default=1_000_000)
    parser.add_argument("--limit", type=float, default=300.0)
    given = parser.parse_args()
    with session("incremental") as spark, tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        load, taken = epochs_of(spark, given.vertices, Path(folder))
        middle = float(np.median(taken))
        edges = uniform(given.vertices)
        _, *answer = with_scipy(edges, given.vertices)
        frame = spark.read.parquet(written(edges, Path(folder, "edges")))
        again = seconds_of(partial(with_peer, graphx, spark, frame, given.limit), (answer[0], answer[1]))
        report(
            "incremental",
            load_seconds=load,
            ms_median=middle,
            ms_p99=float(np.percentile(taken, 99)),
            graphx_seconds=again,
            ratio=again * 1000 / middle,
        )


if __name__ == "__main__":
    main()
