"""Run a table algorithm on DataFrames as one Spark job."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pointstamp import Dataflow, Table
from pointstamp.graphs.graph import DST, ID, SRC, Graph

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
