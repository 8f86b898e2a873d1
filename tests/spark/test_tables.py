"""Tables run on Spark: DataFrames in, and the changes of a table out."""

import pytest
from pyspark.sql import SparkSession

import pointstamp as ps

pytestmark = pytest.mark.spark


def test_a_join_of_tables_runs_on_spark(spark: SparkSession) -> None:
    flow = ps.Dataflow("orders")
    orders = flow.input("orders", "shop string, price long").running()
    shops = flow.input("shops", "shop string, city string").running()
    sold = orders.filter(ps.col("price") > 1).join(shops, "shop", how="left")
    flow.output("sold", sold.reduce("city", total=ps.sum("price")))
    frames = {
        "orders": spark.createDataFrame([("a", 5), ("a", 1), ("b", 7)], "shop string, price long"),
        "shops": spark.createDataFrame([("a", "Rome")], "shop string, city string"),
    }
    rows = flow.run(spark, frames, workers=2)["sold"].collect()
    assert sorted(map(str, (row.asDict() for row in rows))) == [
        "{'epoch': 0, 'city': 'Rome', 'total': 5, 'diff': 1}",
        "{'epoch': 0, 'city': None, 'total': 7, 'diff': 1}",
    ]
