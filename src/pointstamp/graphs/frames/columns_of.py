"""Convert results to the columns that GraphFrames defines."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegralType

from pointstamp.graphs.frames.running import key_of
from pointstamp.graphs.graph import ID


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
