"""``pointstamp demo``: the main job. A graph grows on Spark, and its connected components are maintained.

A million edges arrive in twenty epochs. The flow runs as a Spark job on this machine, each epoch's changes
are published as Parquet when the epoch is complete, and at the end the components are compared with
scipy's.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EDGES: Final = 1_000_000
VERTICES: Final = 600_000
EPOCHS: Final = 20
SEED: Final = 20_150_101


def add_to(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = add_parser(
        "demo",
        help="run the main job: connected components of a growing graph, on Spark",
        description="Maintains the connected components of a graph of a million edges that arrive in twenty "
        "epochs, as a Spark job on this machine, and checks the result with scipy.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--output", metavar="DIR", help="where the Parquet files go (default: a temporary folder)"
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many workers (default: 2)")
    parser.add_argument(
        "--edges", type=int, default=EDGES, metavar="N", help=f"how many edges (default: {EDGES:,})"
    )
    parser.set_defaults(command=parser, run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the main job; 0 where the components are those that scipy finds."""
    import pointstamp as ps
    from pointstamp import graphs

    folder = arguments.output or tempfile.mkdtemp(prefix="pointstamp-demo-")
    flow = ps.Dataflow("components of a growing graph")
    edges = flow.input("edges", "src long, dst long")
    flow.output("components", graphs.connected_components(edges))
    _say(f"starting Spark with {arguments.workers} slots")
    spark = _session(arguments.workers)
    try:
        frame = _growing_graph(spark, arguments.edges).cache()
        count = frame.count()
        _say(f"{count:,} edges over {VERTICES:,} vertices arrive in {EPOCHS} epochs")
        started = monotonic()
        with _Watch(Path(folder, "components"), started):
            result = flow.run(spark, edges=frame, epoch="epoch", workers=arguments.workers, path=folder)[
                "components"
            ]
        seconds = monotonic() - started
        _say(
            f"done in {seconds:.1f} s: {count / seconds:,.0f} edges per second, with the start of the workers"
        )
        return _summary(result, frame, folder)
    finally:
        spark.stop()


def _summary(result: "DataFrame", frame: "DataFrame", folder: str) -> int:
    """Put the changes of all epochs together, compare with scipy, and say what came out."""
    changes = result.toPandas().sort_values("epoch", kind="stable")
    latest = changes.drop_duplicates("vertex", keep="last")
    per_epoch = changes.groupby("epoch").size()
    components = latest["component"].nunique()
    largest = int(latest["component"].value_counts().iloc[0])
    for epoch, changed in per_epoch.items():
        _say(f"  epoch {epoch:>2}: {changed:>9,} labels changed")
    _say(f"{len(latest):,} vertices in {components:,} components; the largest has {largest:,}")
    expected = _by_scipy(frame)
    agrees = dict(zip(latest["vertex"], latest["component"], strict=True)) == expected
    _say(
        "scipy finds the same components" if agrees else "scipy finds OTHER components: this is a bug of ours"
    )
    _say(f"the changes of every epoch lie in {folder}")
    return 0 if agrees else 1


def _by_scipy(frame: "DataFrame") -> dict[int, int]:
    """The least vertex of each vertex's component, by another program."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pandas = frame.select("src", "dst").toPandas()
    ids, ends = np.unique(pandas.to_numpy(), return_inverse=True)
    ends = ends.reshape(-1, 2)
    graph = coo_array((np.ones(len(ends), np.int8), (ends[:, 0], ends[:, 1])), shape=(len(ids), len(ids)))
    count, labels = connected_components(graph, directed=False)
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, labels, ids)
    return dict(zip(ids.tolist(), least[labels].tolist(), strict=True))


def _growing_graph(spark: "SparkSession", edges: int) -> "DataFrame":
    """Edges with a fixed seed; a vertex that comes late joins those that are there."""
    numbered = spark.range(0, edges, 1, 4)
    return numbered.selectExpr(
        f"cast(id * {EPOCHS} div {edges} as long) as epoch",
        f"abs(xxhash64(id, {SEED})) % {VERTICES} as src",
        f"abs(xxhash64(id, {SEED + 1})) % {VERTICES} as dst",
    )


def _session(slots: int) -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session: Any = (
        SparkSession.builder.master(f"local[{slots}]")
        .appName("pointstamp demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(slots))
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


class _Watch:
    """Says which epochs have been written, while the job runs."""

    def __init__(self, folder: Path, started: float) -> None:
        self._folder = folder
        self._started = started
        self._done = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._seen = -1

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._report()

    def _look(self) -> None:
        while not self._done.wait(0.5):
            self._report()

    def _report(self) -> None:
        files = self._folder.glob("epoch-*.parquet") if self._folder.exists() else ()
        latest = max((int(path.name.split("-")[1]) for path in files), default=-1)
        if latest > self._seen:
            self._seen = latest
            _say(f"  {monotonic() - self._started:5.1f} s: epochs up to {latest} are complete")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
