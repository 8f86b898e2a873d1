"""Views find their inputs: tables, files and streams are followed without being named.

Families:
- files: what a query has published after files were added is Spark's own answer over the same folder, for
  Parquet (read by the workers) and for other formats and partitioned folders (through Structured Streaming);
- rows of the session and DataFrames given by name: read once, as explain says;
- what cannot be followed: rejected when the query starts, with the name of the table;
- names: tables of several schemas or folders with one name are inputs of several names;
- columns whose types are not supported: left out, unless the view reads them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, PointstampError, SqlError
from pointstamp.flow.plan import NodeKind

TEXT = "select city, sum(price) as total, count(*) as n from {} group by city"
SECONDS_MAX = 120


def rows(frame: DataFrame | Any) -> Counter[str]:  # noqa: ANN401 - a DataFrame, or a table of Arrow
    found: Iterable[Any] = (
        (each.asDict() for each in frame.collect()) if isinstance(frame, DataFrame) else frame.to_pylist()
    )
    return Counter(str(sorted(each.items())) for each in found)


def orders(spark: SparkSession, number: int) -> DataFrame:
    cities = ["Rome", "Oslo", None, 'x, "y"']
    found = [(cities[each % 4], each * 10, each % 2) for each in range(number, number + 6)]
    return spark.createDataFrame(found, "city string, price long, half int")


def refreshed(spark: SparkSession, flow: ps.Dataflow, home: Path) -> Any:  # noqa: ANN401
    query = flow.start(
        on=spark,
        checkpoint=home / "checkpoint",
        output=home / "out",
        workers=1,
        available_now=True,
        options=ps.QueryOptions(in_driver=True),
    )
    assert query.await_termination(SECONDS_MAX)
    if (error := query.exception()) is not None:
        raise error
    return ps.read_table(home / "out", next(iter(flow.logical_plan)))


Write = Callable[[DataFrame, str], None]
Read = Callable[[SparkSession, str], DataFrame]

FORMATS: dict[str, tuple[Write, Read]] = {
    "parquet": (
        lambda frame, path: frame.coalesce(1).write.mode("append").parquet(path),
        lambda spark, path: spark.read.parquet(path),
    ),
    "partitioned": (
        lambda frame, path: frame.write.mode("append").partitionBy("half").parquet(path),
        lambda spark, path: spark.read.parquet(path),
    ),
    "csv": (
        lambda frame, path: frame.write.mode("append").option("header", True).option("sep", ";").csv(path),
        lambda spark, path: spark.read.schema("city string, price long, half int").csv(
            path, header=True, sep=";"
        ),
    ),
    "json": (
        lambda frame, path: frame.write.mode("append").json(path),
        lambda spark, path: spark.read.schema("city string, price long").json(path),
    ),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_of_files_is_followed_by_its_path(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    write, read = FORMATS[kind]
    folder = str(tmp_path / "orders")
    for number in (0, 3):
        write(orders(spark, number), folder)
        read(spark, folder).createOrReplaceTempView("sold")
        flow = ps.views(spark, {"totals": TEXT.format("sold")})
        theirs = rows(spark.sql(TEXT.format("sold")))
        assert rows(refreshed(spark, flow, tmp_path)) == theirs
    assert f"input sold: {'parquet' if kind == 'partitioned' else kind} files '{folder}'" in flow.explain()


def test_a_table_of_the_catalog_is_followed_by_its_folder(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("drop table if exists sold_here")
    try:
        for number in (0, 3):
            orders(spark, number).write.mode("append").option("path", str(tmp_path / "t")).saveAsTable(
                "sold_here"
            )
            flow = ps.view(spark.table("sold_here").groupBy("city").count())
            assert rows(refreshed(spark, flow, tmp_path)) == rows(
                spark.table("sold_here").groupBy("city").count()
            )
    finally:
        spark.sql("drop table if exists sold_here")


def test_a_stream_is_followed_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "orders")
    orders(spark, 0).write.parquet(folder)
    stream = spark.readStream.schema("city string, price long, half int").parquet(folder)
    flow = ps.view(stream.groupBy("city").count())
    assert rows(refreshed(spark, flow, tmp_path)) == rows(spark.read.parquet(folder).groupBy("city").count())
    assert "input orders: stream FileSource" in flow.explain()


def test_rows_of_the_session_are_read_once_and_explain_says_so(spark: SparkSession, tmp_path: Path) -> None:
    orders(spark, 0).createOrReplaceTempView("here")
    flow = ps.views(spark, {"totals": TEXT.format("here")})
    assert rows(refreshed(spark, flow, tmp_path)) == rows(spark.sql(TEXT.format("here")))
    assert "input here: rows in the memory of the session, read once" in flow.explain()
    assert rows(
        flow.run(on=spark, workers=1, options=ps.QueryOptions(in_driver=True)).table("totals")
    ) == rows(spark.sql(TEXT.format("here")))


def test_a_source_can_be_given_by_the_name_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    orders(spark, 0).write.parquet(str(tmp_path / "orders"))
    spark.createDataFrame([], "city string, price long, half int").createOrReplaceTempView("given")
    flow = ps.views(
        spark, {"totals": TEXT.format("given")}, inputs={"given": ps.io.files(tmp_path / "orders", "parquet")}
    )
    found = refreshed(spark, flow, tmp_path)
    spark.read.parquet(str(tmp_path / "orders")).createOrReplaceTempView("given")
    assert rows(found) == rows(spark.sql(TEXT.format("given")))


def test_what_cannot_be_followed_is_rejected_by_name(spark: SparkSession, tmp_path: Path) -> None:
    for number in (0, 1):
        orders(spark, number).write.parquet(str(tmp_path / f"orders{number}"))
    two = spark.read.parquet(str(tmp_path / "orders0"), str(tmp_path / "orders1"))
    two.createOrReplaceTempView("both")
    flow = ps.views(spark, {"totals": TEXT.format("both")})
    with pytest.raises(FlowError, match=r"input 'both' .* cannot be followed: it has 2 paths"):
        flow.start(on=spark, checkpoint=tmp_path / "checkpoint", output=tmp_path / "out")
    assert "input both: parquet files in 2 places, not followed: it has 2 paths" in flow.explain()


def test_tables_of_several_schemas_with_one_name_are_named_by_their_schemas(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = "select a.city, a.price as p, b.price as q from one.sold a join two.sold b on a.city = b.city"
    for schema in ("one", "two"):
        spark.sql(f"create database {schema} location '{tmp_path}/{schema}'")
    try:
        for number in (0, 3):
            for place, schema in enumerate(("one", "two")):
                orders(spark, number + place).write.mode("append").saveAsTable(f"{schema}.sold")
            flow = ps.views(spark, {"v": text})
            assert set(flow.plan.named(NodeKind.INPUT)) == {"one.sold", "two.sold"}
            assert rows(refreshed(spark, flow, tmp_path)) == rows(spark.sql(text))
        alone = ps.views(spark, {"v": "select city from two.sold"})
        assert set(alone.plan.named(NodeKind.INPUT)) == {"sold"}
        given = ps.views(spark, {"v": text}, changes={"one.sold": "w"})
        assert given.plan.named(NodeKind.INPUT).keys() == {"one.sold", "two.sold"}
        # A temporary view keeps its name, and a table next to it is named by its schema.
        spark.createDataFrame([("Rome", 1)], "city string, price long").createOrReplaceTempView("sold")
        beside = ps.views(spark, {"v": "select a.city from sold a join two.sold b on a.city = b.city"})
        assert set(beside.plan.named(NodeKind.INPUT)) == {"sold", "two.sold"}
    finally:
        spark.catalog.dropTempView("sold")
        for schema in ("one", "two"):
            spark.sql(f"drop database if exists {schema} cascade")


def test_folders_with_one_name_are_named_by_the_folder_above(spark: SparkSession, tmp_path: Path) -> None:
    for number, place in enumerate(("north", "south")):
        orders(spark, number).write.parquet(str(tmp_path / place / "orders"))
    north, south = (spark.read.parquet(str(tmp_path / each / "orders")) for each in ("north", "south"))
    joined = north.join(south, "city").select(north.city, south.price)
    flow = ps.view(joined)
    assert set(flow.plan.named(NodeKind.INPUT)) == {"north.orders", "south.orders"}
    assert rows(refreshed(spark, flow, tmp_path)) == rows(joined)


def test_two_frames_with_one_name_are_rejected(spark: SparkSession) -> None:
    frames = []
    for number in (0, 1):
        orders(spark, number).createOrReplaceTempView("same")
        frames.append(spark.table("same"))
    with pytest.raises(SqlError, match=r"two tables have the name 'same'\. Give one of them another name"):
        ps.views(spark, {"one": frames[0], "two": frames[1]})


def test_columns_of_other_types_are_left_out_unless_the_view_reads_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = "city, price, parse_json('{\"a\": 1}') as v, city collate utf8_lcase as c"
    orders(spark, 0).selectExpr(*texts.split(", ")).write.parquet(str(tmp_path / "orders"))
    spark.read.parquet(str(tmp_path / "orders")).createOrReplaceTempView("wide")
    for text in (
        TEXT.format("wide"),
        "select a.city, b.price from wide a join wide b on a.city = b.city where b.price > 10",
        "select city from wide union all select city from wide",
        "select count(*) as n from wide",
    ):
        flow = ps.views(spark, {"v": text})
        assert rows(flow.run(on=spark, options=ps.QueryOptions(in_driver=True)).table("v")) == rows(
            spark.sql(text)
        )
    flow = ps.views(spark, {"v": TEXT.format("wide")})
    assert rows(refreshed(spark, flow, tmp_path)) == rows(spark.sql(TEXT.format("wide")))
    for text, name in (
        ("select v:a::int as a from wide", "column 'v': the type variant"),
        ("select city from wide where c = 'rome'", "column 'c': the type string collate UTF8_LCASE"),
        (
            "select distinct c is null as d from (select distinct city, c from wide)",
            "column 'c': the type string",
        ),
        ("select * from wide", "the field 'c' has a collation, which is not supported"),
    ):
        with pytest.raises(PointstampError, match=name):
            ps.views(spark, {"v": text})
    for text in ("_metadata.file_name as f", "city, _metadata.file_size > 1 as g", "_metadata as m"):
        frame = spark.read.parquet(str(tmp_path / "orders")).selectExpr(*text.split(", "))
        with pytest.raises(PointstampError, match=r"_metadata.* is not (in the input|a column of the rows)"):
            ps.view(frame)
    orders(spark, 0).selectExpr("parse_json(city) as v").where("false").write.parquet(str(tmp_path / "one"))
    spark.read.parquet(str(tmp_path / "one")).createOrReplaceTempView("narrow")
    with pytest.raises(PointstampError, match="column 'v': the type variant is not supported"):
        ps.views(spark, {"v": "select count(*) as n from narrow"})
