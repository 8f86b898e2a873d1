"""Python functions of a query, called on the rows and groups that changed, are Spark's own answer.

- functions of rows, of pandas and of Arrow, with values of every type and nulls among them;
- functions of groups, and of groups of two inputs, with and without the key;
- a function that has changed is another operator, and one that has not is the same;
- a function that is not deterministic, and what else cannot be kept up to date, is rejected by its name.
"""

import datetime
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's users call it

import pointstamp as ps
from pointstamp.errors import FlowError, SqlError
from pointstamp.plan.signatures import signatures
from pointstamp.spark.catalyst.views import logical_views
from support.batch_answers import Fed, with_deletions
from support.view_answers import check, register

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers do not find this module
UTC = pa.timestamp("us", "UTC")
START = datetime.datetime(1969, 12, 30, 23, 30, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def fed() -> Fed:
    def rows(first: int) -> pa.Table:
        return pa.table(
            {
                "id": pa.array(range(first, first + 7), pa.int64()),
                "k": ["a", "b", None, "a", "ü", "b", "a"],
                "i": pa.array([1, None, 3, -4, 5, 6, 2**31 - 1], pa.int32()),
                "x": pa.array([1.5, None, -0.25, float("nan"), 4.0, 0.0, 1e300]),
                "d": pa.array(["1.25", None, "2.50", "-7.00", "0.01", "9.99", "3.00"]).cast(
                    pa.decimal128(7, 2)
                ),
                "at": pa.array(
                    [START + datetime.timedelta(hours=9 * each) if each else None for each in range(7)],
                    pa.timestamp("us", "UTC"),
                ),
                "day": pa.array([0, -400, None, 19000, 5, 6, 7], pa.int32()).cast(pa.date32()),
                "tags": pa.array([["p"], [], None, ["q", None], ["r"], ["s", "t"], ["u"]]),
            }
        )

    shops = pa.table({"k": ["a", "b", "b", "z"], "size": pa.array([1, 2, 3, None], pa.int64())})
    empty = shops.slice(0, 0)
    epochs = {"t": [rows(0), rows(7), rows(14)], "shops": [shops, empty, empty]}
    return with_deletions(epochs, 3, {"t": "x", "shops": "size"})


@pytest.fixture(autouse=True)
def zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def longer(text: str | None) -> str:
    return f"{text}!"


def row_of_pieces(i: int | None, text: str | None) -> tuple[int | None, list[str]]:
    return (None if i is None else i // 2, list(text or ""))


def functions_of_rows(*, over_arrow: bool) -> Callable[[SparkSession], DataFrame]:
    """Functions that are called row by row, as Spark does it by pickles or over Arrow."""

    def made(function: Callable[..., Any], gives: str) -> Any:  # noqa: ANN401 - a function of columns
        return F.udf(function, gives, useArrow=over_arrow)

    def query(spark: SparkSession) -> DataFrame:
        t = spark.table("t")
        return t.select(
            "id",
            made(longer, "string")("k").alias("longer"),
            made(lambda i: None if i is None else i * 2, "long")("i").alias("double"),
            made(lambda x: x, "double")("x").alias("same"),
            made(lambda d: None if d is None else -d, "decimal(7,2)")("d").alias("negative"),
            made(lambda day: None if day is None else day + datetime.timedelta(1), "date")("day").alias(
                "next"
            ),
            made(lambda at: at, "timestamp")("at").alias("at"),
            made(lambda tags: None if tags is None else tags[::-1], "array<string>")("tags").alias("tags"),
            made(row_of_pieces, "struct<half:long,letters:array<string>>")("i", "k").alias("pieces"),
            made(lambda k: {k or "": 1}, "map<string,int>")("k").getItem("a").alias("counted"),
            made(lambda k: None if k is None else k.encode(), "binary")("k").alias("bytes"),
            made(longer, "string")(made(longer, "string")("k")).alias("twice"),
            made(lambda one, other: f"{one}-{other}", "string")("k", other="i").alias("named"),
        )

    return query


def doubled(values: pd.Series) -> pd.Series:
    return values * 2


def hour_in_zone(at: pd.Series) -> pd.Series:
    return at.dt.strftime("%Y-%m-%d %H:%M")


def length_by_parts(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for each in parts:
        yield each.str.len().fillna(0).astype("int64")


def two_columns(i: pd.Series, k: pd.Series) -> pd.DataFrame:
    return pd.DataFrame({"a": i.fillna(0).astype("int64"), "b": k})


def arrow_sum(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.add(one.cast(pa.int64()), other)


def is_wanted(i: int | None) -> bool:
    return i is not None and i > 1


def first_letter(k: str | None) -> str | None:
    return k and k[0]


def of_columns(spark: SparkSession) -> DataFrame:
    t = spark.table("t")
    return t.select(
        "id",
        F.pandas_udf(doubled, "double")("x").alias("doubled"),
        F.pandas_udf(hour_in_zone, "string")("at").alias("hour"),
        F.pandas_udf(length_by_parts, "long")("k").alias("length"),
        F.pandas_udf(two_columns, "struct<a:long,b:string>")("i", "k").alias("two"),
        F.arrow_udf(arrow_sum, "long")("i", "id").alias("sum"),
    )


def in_every_place(spark: SparkSession) -> DataFrame:
    wanted, letter = F.udf(is_wanted, "boolean", useArrow=True), F.udf(first_letter, "string", useArrow=True)
    twice = F.pandas_udf(doubled, "double")
    grouped = (
        spark.table("t")
        .where(wanted("i"))
        .groupBy(letter("k").alias("letter"))
        .agg(F.sum(twice(F.nanvl("x", F.lit(0.0)))).alias("total"), F.count("*").alias("n"))
    )
    return grouped.select("letter", "total", twice(F.col("n").cast("double")).alias("n2"))


def over_an_aggregate(spark: SparkSession) -> DataFrame:
    letter = F.udf(first_letter, "string", useArrow=True)
    return spark.table("t").groupBy("k").agg(letter(F.max("k")).alias("letter"), F.count("i").alias("n"))


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    made = rows.sort_values("id").reset_index(drop=True)
    return pd.DataFrame({"id": made["id"], "place": made.index.astype("int64"), "k": made["k"]})


def summed_up(key: tuple[Any, ...], rows: pd.DataFrame) -> pd.DataFrame:
    if len(rows) < 2:
        return pd.DataFrame({"k": pd.Series(dtype=str), "n": pd.Series(dtype="int64")})
    return pd.DataFrame({"n": [len(rows)], "k": [str(key[0])]})


def summed_in_arrow(rows: pa.Table) -> pa.Table:
    return pa.table({"n": [rows.num_rows], "latest": [pc.max(rows["at"]).cast(UTC)]})


def paired(key: tuple[Any, ...], left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": [str(key[0])], "left": [len(left)], "size": [float(right["size"].sum())]})


QUERIES: dict[str, Callable[[SparkSession], DataFrame]] = {
    "rows by pickles": functions_of_rows(over_arrow=False),
    "rows over Arrow": functions_of_rows(over_arrow=True),
    "columns": of_columns,
    "filter, group and aggregate": in_every_place,
    "over an aggregate": over_an_aggregate,
    "groups": lambda spark: (
        spark.table("t").groupBy("k").applyInPandas(ranked, "id long, place long, k string")
    ),
    "groups with a key": lambda spark: (
        spark.table("t").groupBy(F.lower("k").alias("low")).applyInPandas(summed_up, "k string, n long")
    ),
    "groups in Arrow": lambda spark: (
        spark.table("t").groupBy("k").applyInArrow(summed_in_arrow, "n long, latest timestamp")
    ),
    "groups of two": lambda spark: (
        spark.table("t")
        .groupBy("k")
        .cogroup(spark.table("shops").groupBy("k"))
        .applyInPandas(paired, "k string, left long, size double")
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_python_functions_give_what_spark_gives(spark: SparkSession, fed: Fed, name: str) -> None:
    answers = check(spark, QUERIES[name], fed, workers=2 if name.startswith("groups") else 1)
    assert all(answers)


def signature(spark: SparkSession, function: Callable[..., Any]) -> str:
    frame = spark.table("t").select("id", F.udf(function, "long")("i").alias("made"))
    operator = logical_views(spark, {"v": frame}, {}, {}, {}).outputs["v"]
    return signatures([operator])[operator]


def made_with(number: int) -> Callable[[int | None], int]:
    return lambda i: (i or 0) + number


def test_a_function_that_has_changed_is_another_operator(spark: SparkSession, fed: Fed) -> None:
    register(spark, {"t": fed.there["t"][0].slice(0, 0)})
    assert signature(spark, made_with(1)) == signature(spark, made_with(1))
    assert signature(spark, made_with(1)) != signature(spark, made_with(2))


REJECTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "'longer' is not deterministic": lambda t: t.select(
        F.udf(longer, useArrow=True).asNondeterministic()("k").alias("made")
    ),
    "MapInPandas": lambda t: t.mapInPandas(lambda parts: parts, "id long, k string"),
}


@pytest.mark.parametrize("words", REJECTED)
def test_what_cannot_be_kept_up_to_date_is_rejected_by_name(
    spark: SparkSession, fed: Fed, words: str
) -> None:
    register(spark, {"t": fed.there["t"][0].slice(0, 0)})
    with pytest.raises(SqlError, match=words):
        ps.view(REJECTED[words](spark.table("t").select("id", "k")))


def test_an_error_of_a_function_names_it(spark: SparkSession, fed: Fed) -> None:
    register(spark, {"t": fed.there["t"][0].slice(0, 0)})
    flow = ps.view(spark.table("t").select(F.udf(lambda i: 1 // (i - i), "long")("i").alias("made")))
    with pytest.raises(FlowError, match="the Python function '<lambda>' raised ZeroDivisionError"):
        flow.run({"t": fed.there["t"][0].slice(0, 1)})


def test_a_session_that_converts_values_otherwise_is_rejected_by_its_setting(
    spark: SparkSession, fed: Fed
) -> None:
    register(spark, {"t": fed.there["t"][0].slice(0, 0)})
    frame = spark.table("t").select(F.udf(lambda i: i, "long")("i").alias("made"))
    name = "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"
    spark.conf.set(name, "true")
    try:
        with pytest.raises(SqlError, match=f"{name}=true"):
            ps.view(frame)
    finally:
        spark.conf.unset(name)
