"""GraphFrame: the methods and columns of GraphFrames, run as flows on Spark.

    from pointstamp.graphs import GraphFrame                       # instead of graphframes

    g = GraphFrame(vertices, edges)                                # "id", ...; "src", "dst", ...
    g.pageRank(resetProbability=0.15, tol=0.01).vertices.select("id", "pagerank").show()

What goes in rounds is a flow of this package, begun and ended within the call, and its result is a DataFrame
(this module). What is a join or a group, such as degrees, messages and the paths of a search, is left to
Spark, whose expressions these methods take (``triplets``, ``triplets``); so is ``pregel``, round by round.

Where GraphFrames leaves something open it is decided here: labels and components are always the same, and of
labels that are equally frequent the least wins. Ranks are those that GraphFrames comes nearer to with every
iteration, so ``maxIter`` is accepted and makes no difference. Edges to vertices that were not given are left
out. A graph that changes is a ``Graph`` of tables; this one is the graph at one moment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final, Self, TypeAlias

from pyspark.ml.functions import array_to_vector
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegralType

from pointstamp import Dataflow, Table, lit
from pointstamp.errors import FlowError
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph
from pointstamp.graphs.frames.pregel import Pregel
from pointstamp.graphs.frames.triplets import PartsOfGraph, paths_of
from pointstamp.graphs.label_propagation import cdlp
from pointstamp.graphs.motifs import find, names_of, terms_of
from pointstamp.graphs.page_rank import pagerank, personalised_pagerank
from pointstamp.graphs.path_lengths import bfs, shortest_paths
from pointstamp.graphs.strong_components import scc
from pointstamp.graphs.triangle_counts import triangles
from pointstamp.graphs.validation import Key
from pointstamp.graphs.weak_components import wcc

# Run a table algorithm on DataFrames as one Spark job.

Algorithm: TypeAlias = Callable[..., Table]
"""A function from a graph, and perhaps from a table of sources, to a table."""


def run_flow(
    name: str, frames: Mapping[str, DataFrame], algorithm: Algorithm, workers: int | None
) -> DataFrame:
    """The result of an algorithm for ``vertices`` and ``edges``, and ``sources`` if there are any."""
    flow = Dataflow(name)
    tables = {each: _input(flow, each, frame) for each, frame in frames.items()}
    graph = Graph(tables.pop("edges"), tables.pop("vertices"))
    flow.output("result", algorithm(graph, *tables.values()))
    return flow.run(frames, on=frames["vertices"].sparkSession, workers=workers).table("result")


def known(vertices: DataFrame, edges: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Vertices and edges with ids of one type, without edges to vertices that are not there."""
    columns = edges.columns
    for end in (SRC, DST):
        edges = edges.withColumn(end, sql.col(end).cast(key_of(vertices)))
        edges = edges.join(vertices.select(sql.col(ID).alias(end)), end, "left_semi")
    return vertices, edges.select(*columns)


def key_of(vertices: DataFrame) -> str:
    """The type of the ids, in Spark's words."""
    return str(vertices.schema[ID].dataType.simpleString())


def _input(flow: Dataflow, name: str, frame: DataFrame) -> Table:
    columns = (f"`{field.name.replace('`', '``')}` {field.dataType.simpleString()}" for field in frame.schema)
    return flow.table(name, ", ".join(columns)).named(f"{name} so far")


# Run PageRank on the ids of a graph of two DataFrames.
#
# These are the methods of ``GraphFrame`` that give vertices their ranks, and edges their shares of them.


class RanksOfGraph(PartsOfGraph):
    """A graph of two DataFrames, with ranks."""

    def pageRank(  # noqa: N802 - GraphFrames' name
        self,
        resetProbability: float = 0.15,  # noqa: N803 - GraphFrames' name
        sourceId: Key | None = None,  # noqa: N803 - as above
        maxIter: int | None = None,  # noqa: N803 - as above
        tol: float | None = None,
    ) -> Self:
        """The graph with ``pagerank`` of vertices, and ``weight`` of edges, which share it out evenly.

        Ranks sum to the number of vertices, and with a ``sourceId`` to one.
        """
        if (maxIter is None) == (tol is None):
            raise FlowError("pageRank: expected either maxIter or tol. Give exactly one of them.")
        damping, tolerance = 1 - resetProbability, TOLERANCE_OF_ITERATIONS if tol is None else allowed(tol)
        ranks = self._run("pageRank", partial(ranked, sourceId, damping, tolerance))
        return self._with_ranks(ranks.withColumnRenamed("rank", "pagerank"))

    def parallelPersonalizedPageRank(  # noqa: N802 - GraphFrames' name
        self,
        resetProbability: float = 0.15,  # noqa: N803 - GraphFrames' name
        sourceIds: Iterable[Key] | None = None,  # noqa: N803 - as above
        maxIter: int | None = None,  # noqa: N803 - as above
    ) -> Self:
        """The graph with ``pageranks`` of vertices: a vector of the ranks as seen from each source.

        The ranks of one source sum to one. All sources are one job, which keeps the edges for each of them.
        """
        sources = list(sourceIds or ())
        if not sources or maxIter is None:
            raise FlowError(
                "parallelPersonalizedPageRank: sourceIds and maxIter are required. Give one "
                "source id or more, and maxIter."
            )
        ranks = self._run("pageRanks", partial(ranked_from_each, sources, 1 - resetProbability))
        return self._with_ranks(side_by_side(ranks, len(sources)))

    def _with_ranks(self, ranks: DataFrame) -> Self:
        """The vertices with their ranks, and the edges with their shares."""
        shares = self.outDegrees.select(sql.col(ID).alias(SRC), (1 / sql.col("outDegree")).alias("weight"))
        return self._with(self._vertices.join(ranks, ID), self._edges.drop("weight").join(shares, SRC))

    def _run(
        self,
        name: str,
        algorithm: Algorithm,
        *,
        edges: DataFrame | None = None,
        sources: DataFrame | None = None,
    ) -> DataFrame:
        """The result of an algorithm for the ids alone; properties are joined by Spark afterwards."""
        ends = (self._edges if edges is None else edges).select(SRC, DST)
        vertices, ends = known(self._vertices.select(ID), ends)
        frames = {"vertices": vertices, "edges": ends}
        if sources is not None:
            frames["sources"] = sources.select(ID)
        return run_flow(name, frames, algorithm, self._workers)


# PageRank in its GraphFrames variants: global, personalized, parallel.

TOLERANCE_OF_ITERATIONS: Final = 1e-6
"""The tolerance of ranks if a number of iterations was requested."""

_PLACE: Final = "place"


def allowed(tolerance: float) -> float:
    """The nearest tolerance that ranks can have."""
    return min(max(tolerance, 1e-9), 0.1)


def ranked(source: Key | None, damping: float, tolerance: float, graph: Graph) -> Table:
    """Return ``id`` and ``rank``; ranks sum to the number of vertices, personalized ranks to one."""
    if source is None:
        return pagerank(graph, damping=damping, tolerance=tolerance, sums_to="vertices")
    return personalised_pagerank(graph, source, damping=damping, tolerance=tolerance, sums_to="one")


def ranked_from_each(sources: Sequence[Key], damping: float, graph: Graph) -> Table:
    """``id``, ``rank`` and ``place``, which is that of a source among the sources."""
    each = (
        ranked(source, damping, TOLERANCE_OF_ITERATIONS, graph)
        .select(ID, "rank", place=lit(place, "long"))
        .named(f"ranks from {place}")
        for place, source in enumerate(sources)
    )
    return reduce(Table.union, each)


def side_by_side(ranks: DataFrame, sources: int) -> DataFrame:
    """``id`` and ``pageranks``, a vector with a rank for each place."""
    at = [sql.max(sql.when(sql.col(_PLACE) == place, sql.col("rank"))) for place in range(sources)]
    vector = array_to_vector(sql.array(*(sql.coalesce(each, sql.lit(0.0)) for each in at)))
    return ranks.groupBy(ID).agg(vector.alias("pageranks"))


class GraphFrame(RanksOfGraph):
    """A graph of two DataFrames, with iterative algorithms and motifs."""

    def connectedComponents(self, **options: Any) -> DataFrame:  # noqa: ANN401, N802 - GraphFrames' own
        """Return the vertices with ``component``, a long; other options have no effect."""
        return labelled(self._vertices, self._run("connected components", wcc), "component")

    def stronglyConnectedComponents(self, maxIter: int = 10) -> DataFrame:  # noqa: N802, N803 - as above
        """Return the vertices with ``component``, a long; it runs until all components are found."""
        return labelled(self._vertices, self._run("strongly connected components", scc), "component")

    def labelPropagation(self, maxIter: int) -> DataFrame:  # noqa: N802, N803 - GraphFrames' names
        """Return the vertices with ``label``, a long: the community after the given rounds."""
        made = self._run("label propagation", lambda graph: cdlp(graph, rounds=maxIter))
        return labelled(self._vertices, made, "label")

    @property
    def pregel(self) -> Pregel:
        """Return a builder of a vertex program."""
        return Pregel(self)

    def shortestPaths(self, landmarks: Iterable[Key]) -> DataFrame:  # noqa: N802 - GraphFrames' name
        """Return the vertices with ``distances``, a map from reachable landmarks to numbers of edges."""
        paths = self._run("shortest paths", lambda graph: shortest_paths(graph, list(landmarks)))
        return with_distances(self._vertices, paths)

    def triangleCount(self, **options: Any) -> DataFrame:  # noqa: ANN401, N802 - GraphFrames' own
        """Return the vertices with ``count``, the number of triangles at each."""
        counts = self._run("triangles", triangles).withColumnRenamed("triangles", "count")
        return self._vertices.join(counts, ID).select("count", *self._vertices.columns)

    def find(self, pattern: str) -> DataFrame:
        """Return a row for each match of a motif, with a struct for each name."""
        vertices, edges = known(self._vertices, self._edges)
        frames = {"vertices": vertices, "edges": edges}
        found = run_flow("find", frames, partial(find, motif=pattern), self._workers)
        columns = {False: vertices.columns, True: edges.columns}
        return found.select(
            *(as_struct(name, columns[is_edge]) for name, is_edge in names_of(terms_of(pattern)))
        )

    def bfs(
        self,
        fromExpr: str,  # noqa: N803 - GraphFrames' name
        toExpr: str,  # noqa: N803 - as above
        edgeFilter: str | None = None,  # noqa: N803 - as above
        maxPathLength: int = 10,  # noqa: N803 - as above
    ) -> DataFrame:
        """Return all shortest paths: ``from``, ``e0``, ``v1``, ``e1``, ..., ``to``; empty without one."""
        edges = self._edges if edgeFilter is None else self._edges.filter(edgeFilter)
        starts, ends = self._vertices.filter(fromExpr), self._vertices.filter(toExpr)
        levels = self._run("bfs", bfs, edges=edges, sources=starts)
        nearest = ends.join(levels, ID).agg(sql.min("level")).first()
        length = None if nearest is None else nearest[0]
        if length is None or length > maxPathLength:
            nobody = self._vertices.limit(0)
            return nobody.select(sql.struct("*").alias("from"), sql.struct("*").alias("to"))
        return paths_of(length, self._vertices.join(levels, ID), edges, starts, ends)


# Convert results to the columns that GraphFrames defines.


def labelled(vertices: DataFrame, made: DataFrame, column: str) -> DataFrame:
    """Return the vertices with a label each, as a long: an integer id, or the rank of any other id."""
    if isinstance(vertices.schema[ID].dataType, IntegralType):
        made = made.withColumn(column, sql.col(column).cast("long"))
    else:
        names = made.select(column).distinct()
        number = sql.row_number().over(Window.orderBy(column)).cast("long") - 1
        places = names.select(sql.col(column).alias("name"), number.alias("place"))
        made = made.join(places, sql.col(column) == sql.col("name")).select(
            ID, sql.col("place").alias(column)
        )
    return vertices.drop(column).join(made, ID)


def with_distances(vertices: DataFrame, paths: DataFrame) -> DataFrame:
    """The vertices with ``distances``, a map from each landmark in reach to a number of edges."""
    entry = sql.struct("landmark", sql.col("distance").cast("int"))
    maps = paths.groupBy(ID).agg(sql.map_from_entries(sql.collect_list(entry)).alias("distances"))
    none = sql.map_from_entries(sql.array().cast(f"array<struct<k: {key_of(vertices)}, v: int>>"))
    found = vertices.join(maps, ID, "left")
    return found.withColumn("distances", sql.coalesce("distances", none))


def as_struct(name: str, columns: Iterable[str]) -> Column:
    """Return the names of a motif in its columns ``name.column``."""
    fields = [sql.col(f"`{name}.{column}`").alias(column) for column in columns]
    return sql.struct(*fields).alias(name)
