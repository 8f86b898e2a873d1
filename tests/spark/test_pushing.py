"""What Spark does before the workers means the same there: pushed, not pushed and without Spark.

Families:
- every kind of expression on the allow-list, on nulls, NaN, both ends of every range and odd texts;
- parts of aggregates, by null keys, over sums that leave 64 bits on the way, in epochs, running or not;
- what goes through a pushed filter all the same: a row whose epoch is none is refused.
"""

from collections import Counter
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import pointstamp as ps
from pointstamp.errors import SchemaError
from pointstamp.expressions.tree import Expression
from pointstamp.pushing.steps import KeepRows, MakeColumns, MakeParts
from pointstamp.rows.schema import as_schema
from pointstamp.spark.pushing import pushed_into

pytestmark = pytest.mark.spark

DDL: Final = (
    "id int, b boolean, i8 tinyint, i16 smallint, i32 int, i64 long, d double, s string, day date, "
    "at timestamp, plain timestamp_ntz, n decimal(20, 3), list array<int>"
)
NAN, INFINITY = float("nan"), float("inf")
ENDS: Final[dict[str, list[Any]]] = {
    "b": [None, True, False],
    "i8": [None, 0, 1, -1, 127, -128],
    "i16": [None, 7, -7, 32767, -32768],
    "i32": [None, 0, 3, -3, 2**31 - 1, -(2**31)],
    "i64": [None, 0, 5, -5, 2**63 - 1, -(2**63), 2**31],
    "d": [None, 0.0, -0.0, NAN, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, 0.1],
    "s": [None, "", "a", "A", "\\", "'", "é", "e\u0301", "\U0001f600", "a ", "%"],
    "day": [None, date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10)],
    "at": [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)],
    "plain": [None, datetime(1900, 1, 1), datetime(2024, 3, 31, 2, 30)],
    "n": [None],
    "list": [None, [], [1, None]],
}


def rows() -> list[dict[str, Any]]:
    """Rows in which each value of a column stands beside different values of the others."""
    made = []
    for number in range(97):
        places = {name: number * (2 * place + 1) for place, name in enumerate(ENDS)}
        made.append({"id": number} | {name: ENDS[name][at % len(ENDS[name])] for name, at in places.items()})
    return made


def asked() -> dict[str, Expression]:
    """Expressions of every kind on the list."""
    i8, i32, i64, s, b, d = (ps.col(name) for name in ("i8", "i32", "i64", "s", "b", "d"))
    long = i32.cast("long")
    made: dict[str, Expression] = {
        "less": i8 < i64,
        "same": i32 == i64,
        "other": s != "a",
        "most": i64 >= 2**63 - 1,
        "least": i64 <= -(2**63),
        "safe": s.eq_null_safe(""),
        "texts": s < "a",
        "texts2": s > "\\",
        "mark": s == "'",
        "booleans": b == (i8 > 0),
        "days": ps.col("day") >= date(1582, 10, 15),
        "times": ps.col("at") < ps.col("at"),
        "in": s.is_in("a", "\\", "é"),
        "in2": i32.is_in(3, 2**31 - 1, 2**40),
        "and": b & (i8 > 0),
        "or": b | (i8 > 0),
        "not": ~b,
        "null": d.is_null(),
        "there": s.is_not_null(),
        "coalesced": ps.functions.coalesce(i8, i32, i64),
        "sum": long + i8,
        "difference": i8.cast("int") - 200,
        "product": long * -(2**31),
        "rest": i64 % 7,
        "rest2": i32 % (2**31 - 1),
        "floats": d + d * 2.5 - 1.0,
        "choice": ps.when(i8 > 0, i32).when(b, i8).otherwise(i64),
        "no default": ps.when(b, s),
        "wide": i8.cast("long"),
        "constant": ps.lit("x\\n'"),
        "number": ps.lit(2**40),
        "day": ps.lit(date(2000, 1, 1)),
        "a (b)'": i8,
    }
    return made


def all_expressions() -> ps.Dataflow:
    flow = ps.Dataflow("expressions")
    made = [each.alias(name) for name, each in asked().items()]
    stream = flow.stream_input("rows", DDL)
    flow.output("made", stream.select("id", "list", *made))
    table = flow.table("table", DDL)
    kept = table.filter(~ps.col("b") | (ps.col("i32") % 5 == 3)).with_columns(
        more=ps.col("i8").cast("int") + 1
    )
    flow.output("kept", kept.select("id", "more", "s", "n"))
    return flow


def sums() -> ps.Dataflow:
    flow = ps.Dataflow("sums")
    stream = flow.stream_input("rows", DDL).filter(ps.col("id") < 90)
    aggregates = {
        "n": ps.count(),
        "values": ps.count("d"),
        "total": ps.sum("id"),
        "small": ps.sum("i8"),
        "lowest": ps.min("i64"),
        "text": ps.max("s"),
        "day": ps.min("day"),
        "time": ps.max("at"),
        "where": ps.count(where=ps.col("i8") > 0),
    }
    flow.output("by key", stream.group_by("s", "b").agg(**aggregates))
    other = flow.stream_input("large", "k string, v long")
    flow.output("running", other.group_by("k", running=True).agg(total=ps.sum("v")))
    return flow


def found(result: Any, name: str, schema: pa.Schema) -> Counter[str]:  # noqa: ANN401 - of both kinds
    frame = result[name]
    table = frame.toArrow() if isinstance(frame, DataFrame) else frame.table()
    return Counter(map(repr, table.cast(schema).to_pylist()))


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def same_everywhere(spark: SparkSession, flow: ps.Dataflow, epoch: str | None, **inputs: pa.Table) -> None:
    frames = {name: frame_of(spark, table) for name, table in inputs.items()}
    alone = flow.run(inputs, epoch=epoch)
    for push in (True, False):
        result = flow.run(frames, on=spark, epoch=epoch, options=ps.QueryOptions(pushdown=push))
        for name in alone:
            schema = alone[name].table().schema
            assert found(result, name, schema) == found(alone, name, schema), f"{name}, push={push}"


def table_of(made: list[dict[str, Any]], ddl: str) -> pa.Table:
    return pa.Table.from_pylist(made, as_schema(ddl))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_expression_on_the_list_means_the_same_in_spark(spark: SparkSession, ansi: str) -> None:
    flow, data = all_expressions(), table_of(rows(), DDL)
    frame = frame_of(spark, data)
    steps = pushed_into(flow.plan, {"rows": frame, "table": frame}, {}).inputs
    assert [type(step) for step in steps["rows"].steps] == [MakeColumns]
    assert [type(step) for step in steps["table"].steps] == [MakeColumns, KeepRows, MakeColumns]
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        same_everywhere(spark, flow, None, rows=data, table=data)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_parts_of_aggregates_make_the_same_sums_also_where_64_bits_do_not_hold_a_part(
    spark: SparkSession,
) -> None:
    flow = sums()
    most = 2**63 - 1
    large = [
        ("a", most, 0),
        ("a", most, 0),
        ("a", -most, 0),
        ("a", -most, 0),
        ("b", None, 0),
        ("b", -most - 1, 1),
        (None, 2**32, 1),
        ("a", 0, 1),
        ("b", 5, 2),
        (None, -(2**32), 2),
        ("c", 0, 2),
    ]
    data = table_of([{**row, "e": row["id"] % 3} for row in rows()], DDL + ", e long")
    other = table_of([dict(zip("kve", row, strict=True)) for row in large], "k string, v long, e long")
    frames = {"rows": frame_of(spark, data), "large": frame_of(spark, other)}
    steps = pushed_into(flow.plan, frames, {"rows": "e", "large": "e"}).inputs
    assert [type(step) for step in steps["rows"].steps] == [KeepRows, MakeColumns, MakeParts]
    assert [type(step) for step in steps["large"].steps] == [MakeParts]
    same_everywhere(spark, flow, "e", rows=data, large=other)


def test_a_row_whose_epoch_is_none_is_refused_and_not_filtered_away(spark: SparkSession) -> None:
    flow = ps.Dataflow("refusing")
    flow.output("kept", flow.stream_input("rows", "x long").filter(ps.col("x") > 5))
    frame = spark.range(0, 10).selectExpr("id as x", "id - 1 as e")
    assert pushed_into(flow.plan, {"rows": frame}, {"rows": "e"}).inputs
    with pytest.raises(SchemaError, match="epoch"):
        flow.run(on=spark, rows=frame, epoch="e")
