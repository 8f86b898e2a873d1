"""What cannot be kept up to date is rejected when a view is defined, by the name of what it is."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, PointstampError, RecoveryError, SqlError
from support.view_answers import register

REJECTED = {
    "select id from orders where at > current_timestamp()": "current_timestamp",
    "select id, current_date() as today from orders": "current_date",
    "select id, now() as t from orders": r"now\(\)",
    "select id, rand() as r from orders": "rand",
    "select id, uuid() as u from orders": "uuid",
    "select id, monotonically_increasing_id() as m from orders": "monotonically_increasing_id",
    "select a.id, b.id from orders a join orders b on a.city = b.city": "has the column 'id' twice",
    "select id from orders tablesample (10 percent)": "Sample",
    "select a from orders lateral view outer stack(1, id) as a": "Stack .* is not a supported generator",
    "select session_window(at, '1 minute') w, city, count(*) from orders group by rollup(1, 2)": "session",
    "select id as `__row` from orders": "'__row'",
    "select 1 as one": "reads no table",
    "select id from orders o where id < (select sum(id) over (order by at) as s from orders i "
    "where i.at <= o.at order by s limit 1)": "in a window of a correlated subquery",
    "select * from explode(map()), orders": "Spark cannot compute the constant rows of the query: A null",
    "select count(distinct map('a', id)) as n from orders": "distinct maps are not supported",
    "select count(*) as n from orders group by map('a', id)": "is a map, which has no equality here",
    "select city collate utf8_lcase as c from orders": "has a collation, which is not supported",
    "select city from orders group by named_struct('c', city collate utf8_lcase).c, city": "Collate|collat",
    "select nothing from orders": "Spark cannot analyze the text",
}


@pytest.fixture(autouse=True)
def tables(spark: SparkSession) -> None:
    orders = spark.createDataFrame([], "id long, city string, at timestamp")
    orders.createOrReplaceTempView("orders")


@pytest.mark.parametrize("text", REJECTED)
def test_a_text_is_rejected_by_name(spark: SparkSession, text: str) -> None:
    with pytest.raises(PointstampError, match=REJECTED[text]):
        ps.views(spark, {"v": text})


def test_the_view_is_named(spark: SparkSession) -> None:
    with pytest.raises(SqlError, match="view 'second': "):
        ps.views(spark, {"first": "table orders", "second": "select rand() as r, id from orders"})


def test_a_table_without_a_name_says_how_it_gets_one(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "a")], "id long, city string")
    with pytest.raises(SqlError, match=r"columns id, city has no name. Call createOrReplaceTempView"):
        ps.view(frame.groupBy("city").count())
    flow = ps.view(frame.groupBy("city").count(), inputs={"people": frame})
    assert "people" in flow.describe()


def test_options_that_no_view_reads_are_rejected(spark: SparkSession) -> None:
    with pytest.raises(SqlError, match=r"changes: no view reads a table 'orderz'. They read orders."):
        ps.views(spark, {"v": "table orders"}, changes={"orderz": "w"})
    with pytest.raises(SqlError, match="there is no 'wait'"):
        ps.views(spark, {"v": "table orders"}, changes={"orders": {"wait": "w"}})
    with pytest.raises(SqlError, match="'id' is a column of the table"):
        ps.views(spark, {"v": "table orders"}, changes={"orders": "id"})


def test_what_is_no_query_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(FlowError, match="view 'v' must be a DataFrame or a text in Spark's SQL, got int"):
        ps.views(spark, {"v": 1})
    with pytest.raises(FlowError, match="needs at least one view"):
        ps.views(spark, {})


def test_a_restart_with_other_settings_names_the_setting(spark: SparkSession, tmp_path: object) -> None:
    rows = pa.table({"id": [1], "city": ["Rome"], "at": pa.array([0], pa.timestamp("us", tz="UTC"))})
    text = "select city, count(*) as n from orders group by city"
    places = {"checkpoint": f"{tmp_path}/checkpoint", "output": f"{tmp_path}/output", "available_now": True}
    query = ps.views(spark, {"v": text}).start({"orders": [rows]}, **places)  # type: ignore[arg-type]
    query.await_termination()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        register(spark, {"orders": rows.slice(0, 0)})
        other = ps.views(spark, {"v": text})
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    with pytest.raises(RecoveryError, match=r"spark\.sql\.ansi\.enabled"):
        other.start({"orders": [rows]}, **places).await_termination()  # type: ignore[arg-type]


PATTERNS = (
    "date_format(at, 'F')",
    "to_timestamp(city, 'ss.SSSS')",
    "unix_timestamp(city, 'yyyy')",
    "from_unixtime(id, 'yyyy')",
)


@pytest.mark.parametrize("policy", ["LEGACY", "EXCEPTION"])
def test_patterns_of_times_need_the_parser_of_spark_3(spark: SparkSession, policy: str) -> None:
    spark.conf.set("spark.sql.legacy.timeParserPolicy", policy)
    try:
        for each in PATTERNS:
            with pytest.raises(SqlError, match=f"timeParserPolicy={policy} is not supported"):
                ps.views(spark, {"v": f"select id, {each} as v from orders"})  # noqa: S608
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")
    for each in PATTERNS:
        ps.views(spark, {"v": f"select id, {each} as v from orders where id < 0"})  # noqa: S608


def test_a_struct_with_a_collation_is_not_compared_by_its_bytes(
    spark: SparkSession, tmp_path: object
) -> None:
    value = "named_struct('c', case when id = 0 then 'a' else 'A' end collate utf8_lcase) as s"
    spark.range(2).selectExpr("id", value).write.parquet(f"{tmp_path}/collated")
    spark.read.parquet(f"{tmp_path}/collated").createOrReplaceTempView("collated")
    text = "select count(*) as n from collated group by s.c"
    assert spark.sql(text).count() == 1
    with pytest.raises(PointstampError, match="the field 'c' has a collation, which is not supported"):
        ps.views(spark, {"v": text})
    assert "s" not in ps.views(spark, {"v": "select sum(id) as n from collated"}).describe().split()


def test_streams_without_a_name_are_rejected(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(SqlError, match="the table with the columns timestamp, value has no name"):
        ps.view(stream.groupBy("value").count())
