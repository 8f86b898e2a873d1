"""Degrees, triplets and subgraphs of a GraphFrame, computed by Spark alone.

These are the methods of ``GraphFrame`` that are joins, groups and filters; it has those that go in rounds.
"""

from collections.abc import Iterable
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pointstamp.errors import SchemaError
from pointstamp.graphs.frames.along_edges import aggregated, counted, triplets_of
from pointstamp.graphs.graph import DST, ID, SRC


class PartsOfGraph:
    """Vertices with ``id`` and edges with ``src`` and ``dst``, as DataFrames with any other columns."""

    def __init__(self, v: DataFrame, e: DataFrame, *, workers: int | None = None) -> None:
        for frame, what, wanted in ((v, "vertices", (ID,)), (e, "edges", (SRC, DST))):
            for name in wanted:
                if name not in frame.columns:
                    raise SchemaError(
                        f"GraphFrame: {what} need a column '{name}', got {', '.join(frame.columns)}. "
                        f"Rename the matching column to '{name}'."
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
        return triplets_of(self._vertices, self._edges)

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

    def filterVertices(self, condition: str | Column) -> Self:  # noqa: N802 - GraphFrames' name
        """The vertices for which a condition holds, and the edges between them."""
        vertices = self._vertices.filter(condition)
        edges = self._edges
        for end in (SRC, DST):
            edges = edges.join(vertices.select(sql.col(ID).alias(end)), end, "left_semi")
        return self._with(vertices, edges.select(*self._edges.columns))

    def filterEdges(self, condition: str | Column) -> Self:  # noqa: N802 - GraphFrames' name
        """All vertices, and the edges for which a condition holds."""
        return self._with(self._vertices, self._edges.filter(condition))

    def dropIsolatedVertices(self) -> Self:  # noqa: N802 - GraphFrames' name
        """The vertices that have edges, and all edges."""
        return self._with(self._vertices.join(self.degrees, ID, "left_semi"), self._edges)

    def cache(self) -> Self:
        """Keep vertices and edges in memory, as Spark does."""
        return self._with(self._vertices.cache(), self._edges.cache())

    def unpersist(self, blocking: bool = False) -> Self:
        """Keep them no longer."""
        return self._with(self._vertices.unpersist(blocking), self._edges.unpersist(blocking))

    def _with(self, vertices: DataFrame, edges: DataFrame) -> Self:
        return type(self)(vertices, edges, workers=self._workers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(v:{self._vertices}, e:{self._edges})"
