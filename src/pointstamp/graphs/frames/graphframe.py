"""GraphFrame: a graph of two DataFrames, with the methods and columns of GraphFrames, run as flows on Spark.

    from pointstamp.graphs import GraphFrame                       # instead of graphframes

    g = GraphFrame(vertices, edges)                                # "id", ...; "src", "dst", ...
    g.pageRank(resetProbability=0.15, tol=0.01).vertices.select("id", "pagerank").show()

What goes in rounds is a flow of this package, begun and ended within the call, and its result is a DataFrame
(``running``). What is a join or a group, such as degrees, messages and the paths of a search, is left to
Spark, whose expressions these methods take.

Where GraphFrames leaves something open it is decided here: labels and components are always the same, and of
labels that are equally frequent the least wins. Ranks are those that GraphFrames comes nearer to with every
iteration, so ``maxIter`` is accepted and makes no difference. Edges to vertices that were not given are left
out. A graph that changes is a ``Graph`` of tables; this one is the graph at one moment.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegralType

from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.bfs import bfs
from pointstamp.graphs.cdlp import cdlp
from pointstamp.graphs.frames.along_edges import aggregated, counted, paths_of
from pointstamp.graphs.frames.running import Algorithm, key_of, known, run_flow
from pointstamp.graphs.graph import DST, ID, SRC, Key
from pointstamp.graphs.motif_text import names_of, terms_of
from pointstamp.graphs.motifs import find
from pointstamp.graphs.pagerank import pagerank, personalised_pagerank
from pointstamp.graphs.scc import scc
from pointstamp.graphs.shortest_paths import shortest_paths
from pointstamp.graphs.triangles import triangles
from pointstamp.graphs.wcc import wcc

_TOLERANCE_OF_ITERATIONS: Final = 1e-6


class GraphFrame:
    """Vertices with ``id`` and edges with ``src`` and ``dst``, as DataFrames with any other columns."""

    def __init__(self, v: DataFrame, e: DataFrame, *, workers: int | None = None) -> None:
        for frame, what, wanted in ((v, "vertices", (ID,)), (e, "edges", (SRC, DST))):
            for name in wanted:
                if name not in frame.columns:
                    raise SchemaError(
                        f"a GraphFrame's {what} need the column '{name}', and have "
                        f"{', '.join(frame.columns)}. Rename the one that it is."
                    )
        self._vertices = v
        self._edges = e
        self._workers = workers

    @property
    def vertices(self) -> DataFrame:
        """The vertices."""
        return self._vertices

    @property
    def edges(self) -> DataFrame:
        """The edges."""
        return self._edges

    @property
    def triplets(self) -> DataFrame:
        """Every edge with its ends, as the structs ``src``, ``edge`` and ``dst``."""
        edges = self._edges.select(sql.struct("*").alias("edge"))
        ends = edges
        for end in (SRC, DST):
            vertices = self._vertices.select(sql.struct("*").alias(end))
            ends = ends.join(vertices, sql.col("edge")[end] == sql.col(end)[ID])
        return ends.select(SRC, "edge", DST)

    # Degrees, messages and parts.

    @property
    def inDegrees(self) -> DataFrame:  # noqa: N802 - GraphFrames' name
        """``id`` and ``inDegree`` of vertices to which edges lead."""
        return counted(self._edges.select(sql.col(DST).alias(ID)), "inDegree")

    @property
    def outDegrees(self) -> DataFrame:  # noqa: N802 - GraphFrames' name
        """``id`` and ``outDegree`` of vertices from which edges lead."""
        return counted(self._edges.select(sql.col(SRC).alias(ID)), "outDegree")

    @property
    def degrees(self) -> DataFrame:
        """``id`` and ``degree`` of vertices that have edges."""
        ends = (self._edges.select(sql.col(end).alias(ID)) for end in (SRC, DST))
        return counted(next(ends).unionAll(next(ends)), "degree")

    def aggregateMessages(  # noqa: N802 - GraphFrames' name
        self,
        aggCol: str | Column | Iterable[str | Column],  # noqa: N803 - GraphFrames' name
        sendToSrc: str | Column | None = None,  # noqa: N803 - as above
        sendToDst: str | Column | None = None,  # noqa: N803 - as above
    ) -> DataFrame:
        """``id`` and aggregates of messages; ``AggregateMessages`` has the columns to say them in."""
        return aggregated(self.triplets, aggCol, sendToSrc, sendToDst)

    def filterVertices(self, condition: str | Column) -> "GraphFrame":  # noqa: N802 - GraphFrames' name
        """The vertices for which a condition holds, and the edges between them."""
        vertices = self._vertices.filter(condition)
        edges = self._edges
        for end in (SRC, DST):
            edges = edges.join(vertices.select(sql.col(ID).alias(end)), end, "left_semi")
        return self._with(vertices, edges.select(*self._edges.columns))

    def filterEdges(self, condition: str | Column) -> "GraphFrame":  # noqa: N802 - GraphFrames' name
        """All vertices, and the edges for which a condition holds."""
        return self._with(self._vertices, self._edges.filter(condition))

    def dropIsolatedVertices(self) -> "GraphFrame":  # noqa: N802 - GraphFrames' name
        """The vertices that have edges, and all edges."""
        return self._with(self._vertices.join(self.degrees, ID, "left_semi"), self._edges)

    def cache(self) -> "GraphFrame":
        """Keep vertices and edges in memory, as Spark does."""
        return self._with(self._vertices.cache(), self._edges.cache())

    def unpersist(self, blocking: bool = False) -> "GraphFrame":
        """Keep them no longer."""
        return self._with(self._vertices.unpersist(blocking), self._edges.unpersist(blocking))

    # What goes in rounds, and motifs.

    def connectedComponents(self, **options: Any) -> DataFrame:  # noqa: ANN401, N802 - GraphFrames' own
        """The vertices with ``component``, a long; options of GraphFrames' algorithms make no difference."""
        return self._labelled(self._run("connected components", wcc), "component")

    def stronglyConnectedComponents(self, maxIter: int = 10) -> DataFrame:  # noqa: N802, N803 - as above
        """The vertices with ``component``, a long; it goes on until all components are found."""
        return self._labelled(self._run("strongly connected components", scc), "component")

    def labelPropagation(self, maxIter: int) -> DataFrame:  # noqa: N802, N803 - GraphFrames' names
        """The vertices with ``label``, a long: the community after so many rounds."""
        made = self._run("label propagation", lambda graph: cdlp(graph, rounds=maxIter))
        return self._labelled(made, "label")

    def pageRank(  # noqa: N802 - GraphFrames' name
        self,
        resetProbability: float = 0.15,  # noqa: N803 - GraphFrames' name
        sourceId: Key | None = None,  # noqa: N803 - as above
        maxIter: int | None = None,  # noqa: N803 - as above
        tol: float | None = None,
    ) -> "GraphFrame":
        """The graph with ``pagerank`` of vertices, and ``weight`` of edges, which share it out evenly.

        Ranks add up to the number of vertices, and with a ``sourceId`` to one.
        """
        if (maxIter is None) == (tol is None):
            raise FlowError("pageRank needs maxIter or tol, and not both.")
        tolerance = _TOLERANCE_OF_ITERATIONS if tol is None else min(max(tol, 1e-9), 0.1)
        options: dict[str, Any] = {"damping": 1 - resetProbability, "tolerance": tolerance}
        ranks = self._run(
            "pageRank",
            lambda graph: (
                pagerank(graph, sums_to="vertices", **options)
                if sourceId is None
                else personalised_pagerank(graph, sourceId, sums_to="one", **options)
            ),
        )
        vertices = self._vertices.join(ranks.withColumnRenamed("rank", "pagerank"), ID)
        shares = self.outDegrees.select(sql.col(ID).alias(SRC), (1 / sql.col("outDegree")).alias("weight"))
        edges = self._edges.drop("weight").join(shares, SRC)
        return self._with(vertices, edges)

    def shortestPaths(self, landmarks: Iterable[Key]) -> DataFrame:  # noqa: N802 - GraphFrames' name
        """The vertices with ``distances``, a map from each landmark in reach to a number of edges."""
        paths = self._run("shortest paths", lambda graph: shortest_paths(graph, list(landmarks)))
        entry = sql.struct("landmark", sql.col("distance").cast("int"))
        maps = paths.groupBy(ID).agg(sql.map_from_entries(sql.collect_list(entry)).alias("distances"))
        none = sql.map_from_entries(sql.array().cast(f"array<struct<k: {key_of(self._vertices)}, v: int>>"))
        found = self._vertices.join(maps, ID, "left")
        return found.withColumn("distances", sql.coalesce("distances", none))

    def triangleCount(self, **options: Any) -> DataFrame:  # noqa: ANN401, N802 - GraphFrames' own
        """``count``, the number of triangles of which each vertex is a corner, and the vertices."""
        counts = self._run("triangles", triangles).withColumnRenamed("triangles", "count")
        return self._vertices.join(counts, ID).select("count", *self._vertices.columns)

    def find(self, pattern: str) -> DataFrame:
        """A row for each place where the motif is found; what has a name in it is a struct."""
        vertices, edges = known(self._vertices, self._edges)
        frames = {"vertices": vertices, "edges": edges}
        found = run_flow("find", frames, partial(find, motif=pattern), self._workers)
        structs = []
        for name, is_edge in names_of(terms_of(pattern)):
            columns = edges.columns if is_edge else vertices.columns
            fields = [sql.col(f"`{name}.{column}`").alias(column) for column in columns]
            structs.append(sql.struct(*fields).alias(name))
        return found.select(*structs)

    def bfs(
        self,
        fromExpr: str,  # noqa: N803 - GraphFrames' name
        toExpr: str,  # noqa: N803 - as above
        edgeFilter: str | None = None,  # noqa: N803 - as above
        maxPathLength: int = 10,  # noqa: N803 - as above
    ) -> DataFrame:
        """All shortest paths: ``from``, ``e0``, ``v1``, ``e1``, ..., ``to``; no rows where there is none."""
        edges = self._edges if edgeFilter is None else self._edges.filter(edgeFilter)
        starts, ends = self._vertices.filter(fromExpr), self._vertices.filter(toExpr)
        levels = self._run("bfs", bfs, edges=edges, sources=starts)
        nearest = ends.join(levels, ID).agg(sql.min("level")).first()
        length = None if nearest is None else nearest[0]
        if length is None or length > maxPathLength:
            nobody = self._vertices.limit(0)
            return nobody.select(sql.struct("*").alias("from"), sql.struct("*").alias("to"))
        return paths_of(length, self._vertices.join(levels, ID), edges, starts, ends)

    # How a flow is run.

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

    def _labelled(self, made: DataFrame, column: str) -> DataFrame:
        """The vertices with a label each, as a long: an id, or the place of an id that is no number."""
        if isinstance(self._vertices.schema[ID].dataType, IntegralType):
            made = made.withColumn(column, sql.col(column).cast("long"))
        else:
            names = made.select(column).distinct()
            number = sql.row_number().over(Window.orderBy(column)).cast("long") - 1
            places = names.select(sql.col(column).alias("name"), number.alias("place"))
            made = made.join(places, sql.col(column) == sql.col("name")).select(
                ID, sql.col("place").alias(column)
            )
        return self._vertices.drop(column).join(made, ID)

    def _with(self, vertices: DataFrame, edges: DataFrame) -> "GraphFrame":
        return GraphFrame(vertices, edges, workers=self._workers)

    def __repr__(self) -> str:
        return f"GraphFrame(v:{self._vertices}, e:{self._edges})"
