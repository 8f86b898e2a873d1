"""Degrees, messages and search paths, computed by Spark alone."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pointstamp.errors import FlowError
from pointstamp.graphs.graph import DST, ID, SRC

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
