"""DataFrames at both ends of a run: checked against what a flow declares, and over what was published."""

import os
import sys
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pointstamp.errors import SchemaError
from pointstamp.query.starting import listed
from pointstamp.rows.epochcolumn import check_type
from pointstamp.rows.schema import check_asked, fit
from pointstamp.rows.undeclared import check_undeclared
from pointstamp.sinks import files
from pointstamp.sinks.bases import Base
from pointstamp.sinks.hive import blank_columns, values_of
from pointstamp.sinks.reading import Published, PublishedOutput, published_now, table_parts
from pointstamp.spark.frame_results import FrameResults, rows_that_are_there
from pointstamp.spark.packing import InputSpec
from pointstamp.spark.place import spark_address
from pointstamp.spark.slots import is_connect, is_local
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage


def read(spark: SparkSession, path: str) -> FrameResults:
    """The outputs that were published at a path until now, as DataFrames with the epoch of each row."""
    return frames_over(spark, spark_address(path), published_now(path))


def read_table(spark: SparkSession, path: str, output: str, *, as_of: int | None = None) -> DataFrame:
    """The rows of a table that is published at a path: as they are now, or were after an epoch."""
    storage = storage_at(path)
    found = published_now(path)
    parts = table_parts(storage, path, found, output, as_of, partial(_is_whole, storage))
    address = spark_address(path)
    changes = frame_over(spark, address, PublishedOutput(parts.schema, parts.files))
    after = -1 if parts.base is None else parts.base.epoch
    rows = changes.where((col("epoch") > after) & (col("epoch") <= parts.epoch)).drop("epoch")
    if parts.base is not None and parts.base.parts:
        schema = from_arrow_schema(pa.schema(list(parts.schema)[1:]))
        paths = [f"{address}/{part.path}" for part in parts.base.parts]
        rows = rows.unionByName(spark.read.schema(schema).parquet(*paths))
    return rows_that_are_there(rows)


def frames_over(spark: SparkSession, address: str, found: Published) -> FrameResults:
    """A DataFrame for each output, over the files that were published and no others.

    Spark reads the files when the DataFrame is used; those that were merged meanwhile stay as long as the
    sink's policy of compaction says.
    """
    frames = {name: frame_over(spark, address, output) for name, output in found.outputs.items()}
    return FrameResults(frames, {name: output.schema for name, output in found.outputs.items()})


def frame_over(spark: SparkSession, address: str, output: PublishedOutput) -> DataFrame:
    """A DataFrame over the files of an output, the epoch of each row first."""
    schema = from_arrow_schema(output.schema)
    layouts: dict[tuple[Any, ...], list[str]] = {}
    for file in output.files:
        layout = (tuple(values_of(file.path)), blank_columns(file.path))
        layouts.setdefault(layout, []).append(f"{address}/{file.path}")
    frames = [
        _laid_out(spark, paths, schema, list(columns), blank) for (columns, blank), paths in layouts.items()
    ]
    return (
        reduce(lambda one, other: one.union(other), frames) if frames else spark.createDataFrame([], schema)
    )


def _laid_out(
    spark: SparkSession, paths: list[str], schema: StructType, columns: list[str], blank: tuple[int, ...]
) -> DataFrame:
    """Files in folders by the same columns; some values are empty strings where Spark sees null."""
    reader = spark.read.schema(schema)
    if not columns:
        return reader.parquet(*paths)
    # The folder above those of the values, from which on Spark looks for columns in their names.
    base = paths[0].rsplit("/", len(columns) + 1)[0]
    frame = reader.option("basePath", base).parquet(*paths)
    for place in blank:
        frame = frame.withColumn(columns[place], lit(""))
    return frame.select(*("`" + name.replace("`", "``") + "`" for name in schema.names))


def _is_whole(storage: Storage, base: Base) -> bool:
    return not any(files.missing(storage, base.parts))


def use_this_python(spark: SparkSession) -> None:
    """Let the tasks of a local session run in the environment that has pointstamp, unless told otherwise."""
    if not is_connect(spark) and is_local(spark) and "PYSPARK_PYTHON" not in os.environ:
        context: Any = spark.sparkContext
        if context.getConf().get("spark.pyspark.python", None) is None:
            context.pythonExec = sys.executable


def chosen(frame: DataFrame, spec: InputSpec) -> DataFrame:
    """The columns that an input needs, with the types that it declares."""
    wanted = spec.wanted.names
    check_asked(frame.columns, spec.wanted, f"input '{spec.name}'")
    check_undeclared(frame.columns, wanted, f"input '{spec.name}'", spec.extra)
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise SchemaError(
            f"input '{spec.name}': the DataFrame has no column {listed(missing)}; it has "
            f"{listed(frame.columns)}."
        )
    # In backquotes, because Spark takes a dot in a name for a field of a struct.
    chosen = frame.select(*("`" + column.replace("`", "``") + "`" for column in wanted))
    _check_types(chosen, spec)
    return chosen


def _check_types(frame: DataFrame, spec: InputSpec) -> None:
    """Refuse columns of other types here, before a task does."""
    who = f"input '{spec.name}'"
    arrow = to_arrow_schema(frame.schema, timezone="UTC")
    if isinstance(spec.epoch, str):
        # Before the look at all columns, which would propose to declare the type that came.
        check_type(arrow.field(spec.epoch).type, spec.epoch, who)
    empty = pa.RecordBatch.from_pylist([], schema=arrow)
    fit(empty, spec.wanted, who)
