"""Degrees, messages and search paths, computed by Spark alone."""

from collections.abc import Iterable
from typing import Final, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.edge_tables import DST, ID, SRC

_MESSAGE: Final = "MSG"


class _MessageColumns(type):
    """The columns of messages as attributes of a class; made when they are asked for, within a session."""

    @property
    def src(cls) -> Column:
        return sql.col(SRC)

    @property
    def dst(cls) -> Column:
        return sql.col(DST)

    @property
    def edge(cls) -> Column:
        return sql.col("edge")

    @property
    def msg(cls) -> Column:
        return sql.col(_MESSAGE)


class AggregateMessages(metaclass=_MessageColumns):
    """``src``, ``dst`` and ``edge``, of which messages are made, and ``msg``, which is aggregated."""


def triplets_of(vertices: DataFrame, edges: DataFrame) -> DataFrame:
    """Every edge with its ends, as the structs ``src``, ``edge`` and ``dst``."""
    ends = edges.select(sql.struct("*").alias("edge"))
    for end in (SRC, DST):
        there = vertices.select(sql.struct("*").alias(end))
        ends = ends.join(there, sql.col("edge")[end] == sql.col(end)[ID])
    return ends.select(SRC, "edge", DST)


def aggregated(
    triplets: DataFrame,
    aggregates: str | Column | Iterable[str | Column],
    to_src: str | Column | None,
    to_dst: str | Column | None,
) -> DataFrame:
    """``id`` and aggregates of what triplets send to their ends."""
    sent = []
    for end, message in ((SRC, to_src), (DST, to_dst)):
        if message is not None:
            sent.append(triplets.select(sql.col(end)[ID].alias(ID), _column(message).alias(_MESSAGE)))
    if not sent:
        raise FlowError("aggregateMessages: no message was defined. Give sendToSrc, sendToDst or both.")
    messages = sent[0] if len(sent) == 1 else sent[0].unionAll(sent[1])
    asked = [aggregates] if isinstance(aggregates, str | Column) else list(aggregates)
    return messages.groupBy(ID).agg(*map(_column, asked))


def counted(ids: DataFrame, name: str) -> DataFrame:
    """Count the rows of each ``id``."""
    return ids.groupBy(ID).agg(sql.count("*").cast("int").alias(name))


def paths_of(
    length: int, levels: DataFrame, edges: DataFrame, starts: DataFrame, ends: DataFrame
) -> DataFrame:
    """All paths of a length from starts to ends on which every step is one ``level`` further."""
    found = starts.select(sql.struct("*").alias("from"))
    if length == 0:
        also = ends.select(sql.struct("*").alias("to"))
        return found.join(also, sql.col("from")[ID] == sql.col("to")[ID])
    last = "from"
    for step in range(length):
        edge, after = f"e{step}", "to" if step == length - 1 else f"v{step + 1}"
        found = found.join(edges.select(sql.struct("*").alias(edge)), sql.col(last)[ID] == sql.col(edge)[SRC])
        there = ends if after == "to" else levels.filter(sql.col("level") == step + 1).drop("level")
        found = found.join(
            there.select(sql.struct("*").alias(after)), sql.col(edge)[DST] == sql.col(after)[ID]
        )
        last = after
    return found


def _column(given: str | Column) -> Column:
    return sql.expr(given) if isinstance(given, str) else given


# Degrees, triplets and subgraphs of a GraphFrame, computed by Spark alone.
#
# These are the methods of ``GraphFrame`` that are joins, groups and filters; it has those that go in rounds.


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
