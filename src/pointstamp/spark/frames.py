"""DataFrames as inputs and outputs of a run: checks and schemas."""

import os
import sys
from collections.abc import Mapping
from functools import partial, reduce
from typing import Any, Final

import pyarrow as pa
from pyarrow import types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.arrangement.open_changes import rows_of_table
from pointstamp.arrow.epoch_column import check_type
from pointstamp.arrow.schema import check_asked, check_undeclared, fit
from pointstamp.connectors import staging
from pointstamp.connectors.files.partitions import blank_columns, values_of
from pointstamp.connectors.published.bases import Base
from pointstamp.connectors.published.reader import Published, PublishedOutput, published_now, table_parts
from pointstamp.errors import FlowError, SchemaError
from pointstamp.query.start_checks import listed
from pointstamp.spark.data_source import PointstampSource
from pointstamp.spark.locations import spark_address
from pointstamp.spark.row_packing import InputSpec
from pointstamp.spark.slots import is_connect, is_local
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

# What a run on Spark gives: a DataFrame for each output, and of an output that is a table its rows.
#
# Tables are emitted as changes. Spark adds them up itself, when the DataFrame is used: by all columns, which
# must be of types that Spark can group by.


class FrameResults(dict[str, DataFrame]):
    """The outputs of a run by name, as DataFrames with the epoch of each row; tables as accumulated rows."""

    def __init__(self, frames: Mapping[str, DataFrame], schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(frames)
        self._schemas = dict(schemas)

    def table(self, name: str, *, as_of: int | None = None) -> DataFrame:
        """The rows of an output that is a table: as they are at the end, or were after an epoch."""
        if name not in self:
            known = ", ".join(f"'{each}'" for each in self) or "none"
            raise FlowError(f"unknown output '{name}'. The outputs are {known}.")
        rows_of_table(self._schemas[name], f"output '{name}'")
        frame = self[name] if as_of is None else self[name].where(sql.col("epoch") <= as_of)
        return rows_that_are_there(frame.drop("epoch"))


def rows_that_are_there(changes: DataFrame) -> DataFrame:
    """The accumulated rows of changes, with their copies."""
    names = ["`" + name.replace("`", "``") + "`" for name in changes.columns if name != DIFF]
    total = changes.groupBy(*names).agg(sql.sum(DIFF).alias(DIFF)).where(sql.col(DIFF) != 0)
    # A weight below zero is an error here, too: the array would have a negative length.
    once = sql.when(sql.col(DIFF) > 0, sql.sequence(sql.lit(1), sql.col(DIFF))).otherwise(
        sql.raise_error(sql.lit("the changes give a row a negative multiplicity; some of them are missing"))
    )
    return total.select(*names, sql.explode(once).alias(DIFF)).select(*names)


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
    return not any(staging.missing(storage, base.parts))


def use_this_python(spark: SparkSession) -> None:
    """Run the tasks of a local session in the environment that has pointstamp, unless it is configured."""
    if not is_connect(spark) and is_local(spark) and "PYSPARK_PYTHON" not in os.environ:
        context: Any = spark.sparkContext
        if context.getConf().get("spark.pyspark.python", None) is None:
            context.pythonExec = sys.executable
            # Spark looks for data sources in another Python, the one of its own environment.
            spark.dataSource.register(PointstampSource)


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


# The types that Spark has for the types that a flow's outputs have.
#
# Arrow has more types than Spark. A type that Spark lacks becomes the smallest one of Spark's that holds all
# its values: unsigned integers grow (uint64 to decimal(20,0)), other encodings of text, bytes, lists and
# decimals become the plain one, times of day and of the calendar come in microseconds, a zone becomes UTC
# (the instant stays). Nanoseconds are the exception: those that are not whole microseconds are refused when
# they appear, never cut off. Types without a counterpart (time of day, intervals of months, unions) are
# refused before the job starts.

_SAME: Final = {
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"),
    pa.duration("us"),
}  # fmt: skip
_GROWN: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_DECIMAL_DIGITS_MAX: Final = 38


def spark_schema(schema: pa.Schema, who: str) -> pa.Schema:
    """The schema with Spark's types; SchemaError for a type that Spark does not have."""
    taken = {"epoch"}
    for name in schema.names:
        if name.lower() in taken:
            raise SchemaError(
                f"{who}: column '{name}' has the name of another column; Spark does not distinguish capital "
                "letters from small ones, and 'epoch' is the column with each row's epoch. Rename it in the "
                "flow."
            )
        taken.add(name.lower())
    return pa.schema([_field(field, f"{who}: column '{field.name}'") for field in schema])


def _field(field: pa.Field, where: str) -> pa.Field:
    # Spark takes every column of a file for nullable, whatever it was written as.
    return pa.field(field.name, _type(field.type, where), metadata=field.metadata)


def _type(given: pa.DataType, where: str) -> pa.DataType:
    if given in _SAME:
        return given
    if given in _GROWN:
        return _GROWN[given]
    if types.is_fixed_size_binary(given):
        return pa.binary()
    if types.is_timestamp(given):
        return pa.timestamp("us", tz=None if given.tz is None else "UTC")
    if types.is_duration(given):
        return pa.duration("us")
    if (
        types.is_decimal(given)
        and given.precision <= _DECIMAL_DIGITS_MAX
        and 0 <= given.scale <= given.precision
    ):
        return pa.decimal128(given.precision, given.scale)
    if types.is_dictionary(given):
        return _type(given.value_type, where)
    return _nested(given, where)


def _nested(given: pa.DataType, where: str) -> pa.DataType:
    if types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given):
        return pa.list_(pa.field("element", _type(given.value_type, f"{where}, element")))
    if types.is_map(given):
        key, value = _type(given.key_type, f"{where}, key"), _type(given.item_type, f"{where}, value")
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
    if types.is_struct(given) and given.num_fields:
        return pa.struct([_field(field, f"{where}, field '{field.name}'") for field in given])
    raise SchemaError(f"{where} is {given}, for which Spark has no type in files. Cast it in the flow.")
