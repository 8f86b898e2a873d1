"""The algorithms of Graphalytics on Spark, from Parquet files to Parquet files: flows of ours, and GraphX.

GraphX has no Python and is reached through py4j, which can call it but can write no Scala function for its
workers. So it has here what is one call: PageRank until no rank changes by more than a tolerance, components,
label propagation, distances to landmarks (with all edges the other way round that is breadth-first search)
and triangles, of which a join makes coefficients. Shortest paths by weights need a program for its Pregel.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.graphs.cell import flow_of
from benchmarks.graphs.pagerank import DAMPING, TOLERANCE
from benchmarks.graphs.peers import ROUNDS, SOURCE, Answer
from benchmarks.spark.peers import GraphX
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def by_flow(name: str, spark: SparkSession, edges: DataFrame, folder: Path) -> None:
    """One job of ours."""
    flow_of(name).run(on=spark, edges=edges, output=str(folder))


def by_graphx(name: str, spark: SparkSession, edges: DataFrame, folder: Path) -> None:
    """GraphX, and what is left of an algorithm by DataFrames."""
    GRAPHX[name](GraphX(spark), edges.select("src", "dst")).write.parquet(str(folder))


def graphx_bfs(graphx: GraphX, edges: DataFrame) -> DataFrame:
    """Levels from the source."""
    return graphx.distances_to(edges.select("dst", "src"), SOURCE)


def graphx_pagerank(graphx: GraphX, edges: DataFrame) -> DataFrame:
    """Ranks scaled to a sum of one.

    A change below GraphX's tolerance is not sent on, and is lost: half of our bound keeps its ranks within
    ours, and the whole of it did not.
    """
    ranks = graphx.ranks(edges, tolerance=TOLERANCE * (1 - DAMPING) / 2, reset=1 - DAMPING)
    total = ranks.agg(F.sum("value").alias("total"))
    return ranks.crossJoin(total).select("id", (F.col("value") / F.col("total")).alias("value"))


def graphx_lcc(graphx: GraphX, edges: DataFrame) -> DataFrame:
    """Twice the triangles of a vertex, by the pairs of its neighbours."""
    both = edges.union(edges.select(F.col("dst").alias("src"), F.col("src").alias("dst"))).where("src <> dst")
    degrees = both.distinct().groupBy(F.col("src").alias("id")).agg(F.count("*").alias("n"))
    found = graphx.triangles(edges).join(degrees, "id", "left")
    pairs = F.col("n") * (F.col("n") - 1)
    return found.select("id", F.when(pairs > 0, 2 * F.col("value") / pairs).otherwise(0.0).alias("value"))


GRAPHX: dict[str, Callable[[GraphX, DataFrame], DataFrame]] = {
    "bfs": graphx_bfs,
    "pagerank": graphx_pagerank,
    "wcc": lambda graphx, edges: graphx.components(edges),
    "cdlp": lambda graphx, edges: graphx.labels(edges, ROUNDS),
    "lcc": graphx_lcc,
}
WAYS: dict[str, Callable[[str, SparkSession, DataFrame, Path], None]] = {
    "Spark": by_flow,
    "GraphX": by_graphx,
}


def answer_below(folder: Path) -> Answer:
    """The answer in the Parquet files below a folder: ids, and the column beside them."""
    tables = [pq.ParquetFile(file).read() for file in sorted(folder.rglob("*.parquet"))]
    columns = [name for name in tables[0].column_names if name not in ("epoch", "diff")]
    whole = pa.concat_tables([each.select(columns) for each in tables])
    return whole.column(0).to_numpy(), whole.column(1).to_numpy().astype(np.float64)
