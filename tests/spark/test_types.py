"""Types: what goes into a flow on Spark comes out of it, whatever Arrow and Spark share.

Families:
- round trips: one wide DataFrame with every shared type, with nulls at every depth, in a session of another
  time zone than UTC, through Spark's shuffle, the workers' exchange and the files; the judge is Spark itself;
- widening, without Spark: types that Spark lacks become the smallest that holds all their values;
- refusals: what has no counterpart, or would lose something, is said with output and column.
"""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import pointstamp as ps
from pointstamp.errors import SchemaError
from pointstamp.spark.frames import spark_schema

PLAIN = {
    "boolean": ("true", "false"),
    "byte": ("-128Y", "127Y"),
    "short": ("-32768S", "32767S"),
    "int": ("-2147483648", "2147483647"),
    "long": ("-9223372036854775808L", "9223372036854775807L"),
    "float": ("float('NaN')", "float('-Infinity')"),
    "double": ("double('1e-300')", "-0.0D"),
    "decimal(38,10)": ("-9999999999999999999999999999.9999999999BD", "0.0000000001BD"),
    "decimal(5,0)": ("99999BD", "-1BD"),
    "string": ("''", "'a ü \\u0001 \U0001f600'"),
    "binary": ("X''", "X'00FF'"),
    "date": ("date'0001-01-01'", "date'9999-12-31'"),
    "timestamp": (
        "timestamp'1900-01-01 00:00:00.000001 UTC'",
        "timestamp'2024-11-03 01:30:00.123456 -05:00'",
    ),
    "timestamp_ntz": ("timestamp_ntz'1969-12-31 23:59:59.999999'", "timestamp_ntz'2024-03-10 02:30:00'"),
}


@pytest.fixture
def zoned(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose clocks change, and where some local times exist twice or never."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.unset("spark.sql.session.timeZone")


def wide(spark: SparkSession) -> DataFrame:
    """Rows with two values and null of each type, alone and inside of lists, structs and maps."""
    columns = ["id % 2 as key"]
    for number, (kind, (first, second)) in enumerate(PLAIN.items()):
        value = f"cast(case id when 0 then {first} when 1 then {second} end as {kind})"
        columns += [
            f"{value} as plain_{number}",
            f"if(id = 3, null, array({value}, null, cast({first} as {kind}))) as list_{number}",
            f"if(id = 3, null, named_struct('a b', {value}, 'x', id)) as struct_{number}",
            f"if(id = 3, null, map('k', {value}, 'n', null)) as map_{number}",
        ]
    columns += ["cast(array() as array<int>) as empty_list", "map(1, array(map('k', id))) as nested"]
    return spark.range(0, 4, 1, 2).selectExpr(*columns)


def ddl_of(frame: DataFrame) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema)


@pytest.mark.spark
def test_every_type_that_arrow_and_spark_share_comes_back_as_it_went(zoned: SparkSession) -> None:
    frame = wide(zoned)
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    flow = ps.Dataflow("copy")
    # Dealt out by Spark, then exchanged by the workers.
    flow.output("copied", flow.stream_input("rows", schema).map_batches(lambda batch: batch).exchange("key"))
    copied = flow.run(on=zoned, rows=frame)["copied"].drop("epoch")
    assert copied.columns == frame.columns
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert {field.name: field.dataType.simpleString() for field in copied.schema} == kinds
    assert sorted(map(repr, copied.collect())) == sorted(map(repr, frame.collect()))


@pytest.mark.spark
def test_columns_declared_as_a_string_take_the_same_types(zoned: SparkSession) -> None:
    frame = wide(zoned).selectExpr(
        "key", "plain_12 as zoned", "plain_13 as local", "map_7 as amounts", "nested"
    )
    flow = ps.Dataflow("copy")
    flow.output("copied", flow.stream_input("rows", ddl_of(frame)).exchange("key"))
    copied = flow.run(on=zoned, rows=frame)["copied"].drop("epoch")
    assert sorted(map(repr, copied.collect())) == sorted(map(repr, frame.collect()))


@pytest.mark.spark
def test_types_that_spark_lacks_come_out_as_larger_ones(spark: SparkSession) -> None:
    schema = pa.schema(
        [
            ("u8", pa.uint8()),
            ("u64", pa.uint64()),
            ("large", pa.large_list(pa.large_string())),
            ("millis", pa.timestamp("ms", tz="Europe/Paris")),
            ("took", pa.duration("ms")),
            ("fixed", pa.binary(2)),
            ("nothing", pa.null()),
        ]
    )
    when = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
    row = {
        "u8": 255, "u64": 2**64 - 1, "large": ["a", None], "millis": when, "took": dt.timedelta(seconds=-5),
        "fixed": b"ab", "nothing": None,
    }  # fmt: skip

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([row] * batch.num_rows, schema=schema)

    flow = ps.Dataflow("larger")
    flow.output("made", flow.stream_input("numbers", "x long").map_batches(make, schema))
    (made,) = flow.run(on=spark, numbers=spark.range(1).selectExpr("id as x"))["made"].collect()
    assert made.asDict() == {
        "epoch": 0,
        **row,
        "u64": Decimal(2**64 - 1),
        "millis": when.astimezone().replace(tzinfo=None),  # as Spark's rows hold an instant
    }


def test_what_spark_cannot_hold_is_refused_with_output_and_column() -> None:
    with pytest.raises(
        SchemaError, match=r"output 'o': column 'at', element is time64\[us\], for which Spark"
    ):
        spark_schema(pa.schema([("at", pa.list_(pa.time64("us")))]), "output 'o'")
    with pytest.raises(SchemaError, match=r"column 'Epoch' has the name of another column"):
        spark_schema(pa.schema([("Epoch", pa.int64())]), "output 'o'")
    with pytest.raises(SchemaError, match=r"column 'big' is decimal256\(50, 0\)"):
        spark_schema(pa.schema([("big", pa.decimal256(50, 0))]), "output 'o'")


@pytest.mark.spark
def test_nanoseconds_are_never_cut_off_unseen(spark: SparkSession) -> None:
    schema = pa.schema([("t", pa.timestamp("ns"))])

    def nanos(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([pa.array([1] * batch.num_rows, pa.timestamp("ns"))], schema=schema)

    flow = ps.Dataflow("nanos")
    flow.output("times", flow.stream_input("numbers", "x long").map_batches(nanos, schema))
    with pytest.raises(SchemaError, match=r"'times' has values that the types of its files cannot hold"):
        flow.run(on=spark, numbers=spark.range(1).selectExpr("id as x"))
