"""DataFrames at both ends of a run: checked against what a flow declares, and over what was published."""

import os
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pointstamp.dataflow.schema import check_asked, fit
from pointstamp.errors import SchemaError
from pointstamp.recovery.starting import listed
from pointstamp.runtime.epochcolumn import check_type
from pointstamp.sinks.reading import Published, published
from pointstamp.spark.packing import InputSpec
from pointstamp.spark.place import spark_address
from pointstamp.spark.slots import is_connect, is_local


def read(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    """The outputs that were published at a path until now, as DataFrames with the epoch of each row."""
    return frames_over(spark, spark_address(path), published(path))


def frames_over(spark: SparkSession, address: str, found: Published) -> dict[str, DataFrame]:
    """A DataFrame for each output, over the files that were published and no others."""
    frames = {}
    for name, output in found.outputs.items():
        schema = from_arrow_schema(output.schema)
        paths = [f"{address}/{file.path}" for file in output.files]
        frames[name] = (
            spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
        )
    return frames


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
    """Refuse columns of other types here, and not in a task."""
    who = f"input '{spec.name}'"
    arrow = to_arrow_schema(frame.schema, timezone="UTC")
    if spec.epoch is not None:
        # Before the look at all columns, which would propose to declare the type that came.
        check_type(arrow.field(spec.epoch).type, spec.epoch, who)
    empty = pa.RecordBatch.from_pylist([], schema=arrow)
    fit(empty, spec.wanted, who)
