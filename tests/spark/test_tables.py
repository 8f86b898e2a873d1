"""Tables run on Spark: DataFrames in, and the changes of a table out."""

import pytest
from pyspark.sql import SparkSession

import pointstamp as ps

pytestmark = pytest.mark.spark


def test_a_join_of_tables_runs_on_spark(spark: SparkSession) -> None:
    flow = ps.Dataflow("orders")
    orders = flow.table("orders", "shop string, price long")
    shops = flow.table("shops", "shop string, city string")
    sold = orders.filter(ps.col("price") > 1).join(shops, "shop", how="left")
    flow.output("sold", sold.group_by("city").agg(total=ps.sum("price")))
    frames = {
        "orders": spark.createDataFrame([("a", 5), ("a", 1), ("b", 7)], "shop string, price long"),
        "shops": spark.createDataFrame([("a", "Rome")], "shop string, city string"),
    }
    rows = flow.run(frames, on=spark, workers=2)["sold"].collect()
    assert sorted(map(str, (row.asDict() for row in rows))) == [
        "{'epoch': 0, 'city': 'Rome', 'total': 5, 'diff': 1}",
        "{'epoch': 0, 'city': None, 'total': 7, 'diff': 1}",
    ]


def test_a_recursive_view_with_deletions_runs_on_spark(spark: SparkSession) -> None:
    flow = ps.sql("""
        create table edges (src long, dst long, w long) tblproperties ('weight' = 'w');
        create table starts (node long primary key);
        create view reached as
        with recursive r(node) as (
            select node from starts
            union select e.dst from r join edges e on r.node = e.src)
        select node from r
    """)
    edges = [(0, 1, 2, 1), (0, 2, 3, 1), (0, 3, 2, 1), (0, 1, 4, 1), (1, 1, 2, -1)]
    frames = {
        "edges": spark.createDataFrame(edges, "day long, src long, dst long, w long"),
        "starts": spark.createDataFrame([(0, 1)], "day long, node long"),
    }
    results = flow.run(frames, on=spark, workers=2, epoch="day")
    rows = {(row.epoch, row.node, row.diff) for row in results["reached"].collect()}
    assert rows == {(0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1), (1, 2, -1), (1, 3, -1)}
    assert sorted(row.node for row in results.table("reached").collect()) == [1, 4]
