"""``spark.read.format("pointstamp")`` and tables of the catalog: the same rows as the readers without Spark.

Families:
- reads: a table now, as of an epoch, its changes; what is published, and what a checkpoint says;
- streams: Structured Streaming takes each epoch once;
- tables of the catalog: ``spark.table`` reads the value of a closed epoch, and grows with the query;
- views over published views: found by themselves, as inputs.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, RecoveryError

EPOCHS = [
    pa.table({"city": ["Rome", "Oslo", None], "price": [10, 20, 30], "w": [1, 1, 1]}),
    pa.table({"city": ["Rome", "Oslo"], "price": [5, 20], "w": [1, -1]}),
    pa.table({"city": ["Kyiv"], "price": [7], "w": [1]}),
]


def sales() -> ps.Dataflow:
    flow = ps.Dataflow("sales")
    orders = flow.stream_input("orders", "city string, price long, w long")
    table = orders.to_table(weight="w")
    flow.output("totals", table.group_by("city").agg(total=ps.sum("price")))
    flow.output("all", orders.filter(ps.col("price") > 6))
    return flow


def published(home: Path, epochs: list[pa.Table], output: Any = None) -> Path:  # noqa: ANN401 - a sink
    query = sales().start(
        {"orders": epochs},
        checkpoint=home / "checkpoint",
        output=home / "out" if output is None else output,
    )
    query.await_termination(60)
    if (error := query.exception()) is not None:
        raise error
    return home / "out"


def rows(found: DataFrame | pa.Table) -> Counter[tuple[Any, ...]]:
    table = found.toArrow() if isinstance(found, DataFrame) else found
    return Counter(tuple(each.values()) for each in table.to_pylist())


def test_a_published_view_is_read_now_as_of_an_epoch_and_as_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = published(tmp_path, EPOCHS)
    reader = spark.read.format("pointstamp").option("output", "totals")
    assert rows(reader.load(str(out))) == rows(ps.read_table(out, "totals"))
    for epoch in range(3):
        found = spark.read.format("pointstamp").load(str(out), output="totals", asOf=epoch)
        assert rows(found) == rows(ps.read_table(out, "totals", as_of=epoch))
    changes = spark.read.format("pointstamp").load(str(out), output="totals", changes=True, after=0)
    assert rows(changes) == rows(ps.read_changes(out, "totals", after=0))
    assert changes.columns == ["epoch", "city", "total", "diff"]
    stream = spark.read.format("pointstamp").load(str(out), output="all")
    assert rows(stream) == rows(ps.read_changes(out, "all"))
    outputs = spark.read.format("pointstamp").load(str(out), show="outputs").collect()
    assert {(each.output, each.is_table, each.published_through) for each in outputs} == {
        ("totals", True, 2),
        ("all", False, 2),
    }


def test_a_checkpoint_is_read_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    published(tmp_path, EPOCHS)

    def shown(what: str) -> list[Any]:
        frame = spark.read.format("pointstamp").load(str(tmp_path / "checkpoint"), show=what)
        return list(frame.collect())

    kept = {each.operator: each.rows for each in shown("operators")}
    assert any(rows for rows in kept.values())
    assert shown("commits")[-1].epoch == 2
    (orders,) = shown("inputs")
    assert (orders.input, orders.committed_epoch, orders.complete_to) == ("orders", 2, 3)


def test_a_stream_takes_each_epoch_once(spark: SparkSession, tmp_path: Path) -> None:
    out = published(tmp_path, EPOCHS)
    for _ in range(2):  # the second time there is nothing new
        stream = spark.readStream.format("pointstamp").load(str(out), output="totals", changes=True)
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "offsets"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "copy"), format="parquet")
        assert query.awaitTermination(100)
    assert rows(spark.read.parquet(str(tmp_path / "copy"))) == rows(ps.read_changes(out, "totals"))


def test_options_that_have_no_meaning_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    out = str(published(tmp_path, EPOCHS[:1]))
    for options, said in [
        ({}, "needs the option output. Give output, one of totals, all"),
        ({"output": "sums"}, "has no output 'sums'"),
        ({"output": "all", "asof2": "1"}, "unknown option 'asof2'"),
        ({"output": "all", "asOf": "now"}, "option asOf must be an epoch, got 'now'"),
        ({"show": "frontier"}, "option show must be one of outputs, operators, commits, inputs"),
    ]:
        with pytest.raises(PySparkException, match=said):
            spark.read.format("pointstamp").load(out, **options).collect()


def test_outputs_are_tables_of_the_catalog(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"create schema gold_views location '{tmp_path}/gold'")
    try:
        sink = ps.io.catalog("gold_views", format="parquet")
        flow = sales()
        for count in (1, 3):
            if count == 3:  # as if the driver had died before it made the entry
                spark.sql("drop table gold_views.totals")
            query = flow.start({"orders": EPOCHS[:count]}, checkpoint=tmp_path / "checkpoint", output=sink)
            query.await_termination(60)
            assert query.exception() is None
            wanted = {1: {"Rome": 10, "Oslo": 20, None: 30}, 3: {"Rome": 15, None: 30, "Kyiv": 7}}[count]
            assert rows(spark.table("gold_views.totals")) == Counter(wanted.items())
        assert rows(spark.sql("select count(*) from gold_views.`all`")) == Counter([(5,)])
    finally:
        spark.sql("drop schema gold_views cascade")


def test_a_catalog_that_cannot_take_the_tables_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"there is no such schema\. Run CREATE SCHEMA nowhere"):
        published(tmp_path, EPOCHS, ps.io.catalog("nowhere"))
    with pytest.raises(FlowError, match="the session has no Delta catalog"):
        published(tmp_path, EPOCHS, ps.io.catalog("default", path=str(tmp_path / "out")))
    with pytest.raises(FlowError, match="format must be one of delta, parquet, got 'csv'"):
        ps.io.catalog("default", format="csv")  # type: ignore[arg-type]
    spark.sql(f"create table totals (a int) using csv location '{tmp_path}/other'")
    try:
        with pytest.raises(RecoveryError, match=r"default\.totals exists already"):
            published(tmp_path, EPOCHS, ps.io.catalog("default", format="parquet", path=str(tmp_path / "o")))
    finally:
        spark.sql("drop table totals")


def test_a_view_over_a_published_view_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    out = published(tmp_path, EPOCHS)
    totals = spark.read.format("pointstamp").load(str(out), output="totals")
    flow = ps.view(totals.where("total > 10"))
    query = flow.start(
        on=spark,
        checkpoint=tmp_path / "c2",
        output=tmp_path / "out2",
        available_now=True,
        options=ps.QueryOptions(in_driver=True),
    )
    assert query.await_termination(60)
    assert query.exception() is None
    assert rows(ps.read_table(tmp_path / "out2", "result")) == rows(totals.where("total > 10"))


def test_a_view_over_published_rows_finds_them(spark: SparkSession, tmp_path: Path) -> None:
    out = published(tmp_path, EPOCHS)
    everything = spark.read.format("pointstamp").load(str(out), output="all")
    flow = ps.view(everything.groupBy("city").count())
    query = flow.start(
        on=spark,
        checkpoint=tmp_path / "c2",
        output=tmp_path / "out2",
        available_now=True,
        options=ps.QueryOptions(in_driver=True),
    )
    assert query.await_termination(60)
    assert rows(ps.read_table(tmp_path / "out2", "result")) == rows(everything.groupBy("city").count())
