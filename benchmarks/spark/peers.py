"""Graphs as Spark's users have them today: GraphX's algorithms, and components with a loop of DataFrames.

Both find components of a DataFrame with the columns src and dst, and return one with vertex and component,
the least vertex of the component, which is computed when it is read. Both keep what they need in Spark's
memory until ``forget`` is called.

GraphX ships with Spark and has no Python: it is reached through py4j, with pairs of longs as its edges. Its
components are Pregel's label propagation, a round for every step of the longest shortest path.

The loop is the two operations of Kiveris et al. (2014), "Connected components in MapReduce and beyond", as
GraphFrames does it: large-star, then small-star, until a round changes nothing. The lineage is cut in every
round. It is not GraphFrames itself: there are no vertex attributes and no joins for skew here, which is to
its advantage.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def graphx(spark: SparkSession, edges: DataFrame) -> DataFrame:
    """The components as GraphX finds them."""
    return GraphX(spark).components(edges).toDF("vertex", "component")


class GraphX:
    """GraphX's own algorithms: edges are two columns of longs, and answers are ``id`` and ``value``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        inner: Any = spark
        self._jvm = inner._jvm  # noqa: SLF001 - GraphX has no Python
        self._session = inner._jsparkSession  # noqa: SLF001 - as above
        self._lib = self._jvm.org.apache.spark.graphx.lib
        self._encoders = self._jvm.org.apache.spark.sql.Encoders
        self._whole = self._jvm.scala.reflect.ClassTag.Int()

    def components(self, edges: DataFrame) -> DataFrame:
        """The least vertex of each vertex's component."""
        found = self._lib.ConnectedComponents.run(self._graph(edges), self._whole, self._whole)
        return self._frame(found, self._encoders.LONG())

    def labels(self, edges: DataFrame, rounds: int) -> DataFrame:
        """Label propagation; of labels that are as frequent any."""
        found = self._lib.LabelPropagation.run(self._graph(edges), rounds, self._whole)
        return self._frame(found, self._encoders.LONG())

    def ranks(self, edges: DataFrame, *, tolerance: float, reset: float) -> DataFrame:
        """PageRank, until no rank changes by more than a tolerance."""
        run = self._lib.PageRank.runUntilConvergence
        found = run(self._graph(edges), tolerance, reset, self._whole, self._whole)
        return self._frame(found, self._encoders.DOUBLE())

    def triangles(self, edges: DataFrame) -> DataFrame:
        """How many triangles each vertex is in."""
        found = self._lib.TriangleCount.run(self._graph(edges), self._whole, self._whole)
        return self._frame(found, self._encoders.INT())

    def distances_to(self, edges: DataFrame, landmark: int) -> DataFrame:
        """How many edges it is from each vertex to a landmark, if it can be reached."""
        which = self._jvm.java.util.ArrayList()
        which.add(self._jvm.java.lang.Long.valueOf(landmark))
        landmarks = self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(which).toSeq()
        found = self._lib.ShortestPaths.run(self._graph(edges), landmarks, self._whole)
        agnostic = self._jvm.org.apache.spark.sql.catalyst.encoders.AgnosticEncoders
        kind = self._jvm.scala.reflect.ClassTag.apply(
            self._jvm.java.lang.Class.forName("scala.collection.Map")
        )
        maps = agnostic.MapEncoder(kind, self._encoders.LONG(), self._encoders.INT(), False)
        frame = self._frame(found, maps)
        return frame.where(F.size("value") > 0).select("id", F.col("value")[landmark].alias("value"))

    def _graph(self, edges: DataFrame) -> Any:  # noqa: ANN401 - an object of the JVM
        pairs = self._encoders.tuple(self._encoders.LONG(), self._encoders.LONG())
        tuples = getattr(_java(edges.toDF("_1", "_2")), "as")(pairs).rdd()
        memory = self._jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
        return self._jvm.org.apache.spark.graphx.Graph.fromEdgeTuples(
            tuples, 1, self._jvm.scala.Option.empty(), memory, memory, self._whole
        )

    def _frame(self, found: Any, encoder: Any) -> DataFrame:  # noqa: ANN401 - objects of the JVM
        pairs = self._encoders.tuple(self._encoders.LONG(), encoder)
        values = self._session.createDataset(found.vertices(), pairs)
        return DataFrame(values.toDF(), self._spark).toDF("id", "value")


def dataframe_loop(spark: SparkSession, edges: DataFrame) -> DataFrame:
    """The components by large-star and small-star, with DataFrames."""
    vertices = edges.select("src").union(edges.select("dst")).distinct().toDF("vertex").localCheckpoint()
    # Every edge leads from its greater end to its lesser end.
    now = _distinct(edges.select(F.greatest("src", "dst").alias("src"), F.least("src", "dst").alias("dst")))
    before = None
    # GraphFrames' test: a round that changes edges changes the sum of their lesser ends, or their number.
    while (total := _total(now)) != before:
        before = total
        now = _small_star(_large_star(now)).localCheckpoint()
    labels = now.select(F.col("src").alias("vertex"), F.col("dst").alias("least"))
    labels = vertices.join(labels, "vertex", "left")
    return labels.select("vertex", F.coalesce("least", "vertex").alias("component"))


def forget(spark: SparkSession) -> None:
    """Let Spark's memory go of everything that was kept in it."""
    context: Any = spark.sparkContext
    for kept in list(context._jsc.getPersistentRDDs().values()):  # noqa: SLF001 - Python sees its own only
        kept.unpersist()


def _large_star(edges: DataFrame) -> DataFrame:
    """Every vertex tells its greater neighbours of the least vertex among itself and all neighbours."""
    both = edges.union(edges.select(F.col("dst").alias("src"), F.col("src").alias("dst")))
    least = both.groupBy("src").agg(F.least(F.min("dst"), "src").alias("least"))
    greater = both.where("dst > src").join(least, "src")
    return _distinct(greater.select(F.col("dst").alias("src"), F.col("least").alias("dst")))


def _small_star(edges: DataFrame) -> DataFrame:
    """Every vertex tells its lesser neighbours and itself of the least of them."""
    least = edges.groupBy("src").agg(F.min("dst").alias("least"))
    told = edges.join(least, "src").select(F.col("dst").alias("src"), F.col("least").alias("dst"))
    return _distinct(told.union(least.select("src", F.col("least").alias("dst"))))


def _distinct(edges: DataFrame) -> DataFrame:
    return edges.where("src <> dst").distinct()


def _total(edges: DataFrame) -> tuple[Any, ...]:
    # As decimals: the sum of many large ids does not fit into 64 bits.
    sums = edges.agg(F.sum(F.col("dst").cast("decimal(38, 0)")), F.count("*")).collect()[0]
    return tuple(sums)


def _java(frame: DataFrame) -> Any:  # noqa: ANN401 - an object of the JVM
    return frame._jdf  # noqa: SLF001
