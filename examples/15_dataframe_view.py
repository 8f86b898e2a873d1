"""A PySpark DataFrame as an incremental view: rows are added and deleted, changes are computed."""

import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

import pointstamp as ps

os.environ["PYSPARK_PYTHON"] = sys.executable

orders = [
    pa.table({"city": ["Rome", "Oslo", "Rome"], "price": [10, 20, 7], "w": [1, 1, 1]}),
    pa.table({"city": ["Oslo", "Rome"], "price": [5, 10], "w": [1, -1]}),
]

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    spark.createDataFrame([], "city string, price long").createOrReplaceTempView("orders")

    totals = spark.table("orders").groupBy("city").sum("price").withColumnRenamed("sum(price)", "total")
    best = "select city, price from orders order by price desc limit 2"
    flow = ps.views(spark, {"totals": totals, "best": best}, changes={"orders": "w"})

    for output, epochs in flow.run({"orders": orders}).items():
        for epoch, changes in epochs.items():
            for row in sorted(changes.to_pylist(), key=str):
                print(output, epoch, row)
    spark.stop()
# totals 0 {'city': 'Oslo', 'total': 20, 'diff': 1}
# totals 0 {'city': 'Rome', 'total': 17, 'diff': 1}
# totals 1 {'city': 'Oslo', 'total': 20, 'diff': -1}
# totals 1 {'city': 'Oslo', 'total': 25, 'diff': 1}
# totals 1 {'city': 'Rome', 'total': 17, 'diff': -1}
# totals 1 {'city': 'Rome', 'total': 7, 'diff': 1}
# best 0 {'city': 'Oslo', 'price': 20, 'diff': 1}
# best 0 {'city': 'Rome', 'price': 10, 'diff': 1}
# best 1 {'city': 'Rome', 'price': 10, 'diff': -1}
# best 1 {'city': 'Rome', 'price': 7, 'diff': 1}
