"""Views over Delta and Iceberg tables in a session with their own jars: ``lake_job.py HOME JAR,JAR``.

After each change of the tables the views are refreshed, into Delta tables of the catalog, and compared with
Spark's own answer over the tables. It prints a line for each comparison, and fails with the first difference.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.errors import PointstampError

FEED: Final = "tblproperties (delta.enableChangeDataFeed = true)"
VIEWS: Final = {
    "totals": "select city, sum(price) as total, count(*) as n from orders group by city",
    "joined": "select o.id, o.price, s.size from orders o left join ice.db.shops s on o.city = s.city",
    "sure": "select city, rand() < 2 as sure, count(*) as n from orders group by city",
}
CHANGES: Final = (
    "insert into orders values (5, 'Rome', 7), (6, null, 8), (6, null, 8)",
    "update orders set price = price + 100 where city = 'Rome'",
    "insert into ice.db.shops values ('Lima', 4), ('Rome', 9)",
    "delete from orders where id in (1, 6)",
    "update ice.db.shops set size = size + 10 where city = 'Rome'",
    "delete from ice.db.shops where city = 'Oslo'",
    "merge into orders o using (select 2 as id, 'Lima' as city, 50 as price union all select 9, 'Lima', 60) "
    "n on o.id = n.id when matched then update set * when not matched then insert *",
    "optimize orders",
    "call ice.system.rewrite_data_files('db.shops')",
)


def session(home: Path, jars: str) -> SparkSession:
    """Return a session with catalogs of Delta and Iceberg."""
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    builder: Any = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(home / "ice"),
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """Return how often each row is there."""
    return Counter(tuple(row) for row in frame.collect())


def refreshed(spark: SparkSession, flow: ps.Dataflow, home: Path, output: Any) -> None:  # noqa: ANN401
    """Refresh views into a sink, and raise the error of the query."""
    query = flow.start(
        on=spark, checkpoint=home, output=output, available_now=True, options=ps.QueryOptions(in_driver=True)
    )
    query.await_termination(300)


def rejected(spark: SparkSession, home: Path, text: str) -> str:
    """Return the words with which a view cannot be started."""
    try:
        refreshed(spark, ps.views(spark, {"v": text}), home / "rejected" / "c", home / "rejected" / "out")
    except PointstampError as error:
        return str(error)
    raise AssertionError(f"'{text}' was not rejected")


def tell(*words: object) -> None:
    """Print a line for the test."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run all comparisons."""
    home, jars = Path(sys.argv[1]), sys.argv[2]
    spark = session(home, jars)
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql(f"create table orders (id long, city string, price long) using delta {FEED}")
    spark.sql("insert into orders values (1, 'Rome', 10), (2, 'Oslo', 20), (3, null, 30)")
    spark.sql("create table ice.db.shops (city string, size int) using iceberg")
    spark.sql("insert into ice.db.shops values ('Rome', 1), ('Oslo', 2)")
    spark.sql("create schema gold")
    for number, change in enumerate(("", *CHANGES)):
        if change:
            spark.sql(change)
        flow = ps.views(spark, VIEWS, policy="AUTO")
        refreshed(spark, flow, home / "checkpoint", ps.io.catalog("gold"))
        for name, text in VIEWS.items():
            found, wanted = rows(spark.table(f"gold.{name}")), rows(spark.sql(text))
            assert found == wanted, f"after {change!r}, {name}: {found} is not {wanted}"
        tell("EQUAL", number, change[:40])
    versions = spark.sql("describe history gold.totals").count()
    tell("VERSIONS", versions)
    told = ps.views(spark, VIEWS, policy="AUTO").explain()
    tell("EXPLAIN", told.replace("\n", "\\n"))
    # What cannot be followed.
    spark.sql("create table plain (id long) using delta")
    tell("REJECTED", rejected(spark, home, "select id from plain"))
    spark.sql(
        "alter table ice.db.shops set tblproperties ('format-version' = '2', "
        "'write.delete.mode' = 'merge-on-read')"
    )
    refreshed(spark, ps.views(spark, {"v": "select size from ice.db.shops"}), home / "m", home / "mout")
    spark.sql("insert into ice.db.shops values ('Kyiv', 1), ('Kyiv', 2)")
    spark.sql("delete from ice.db.shops where size = 1")
    try:
        refreshed(spark, ps.views(spark, {"v": "select size from ice.db.shops"}), home / "m", home / "mout")
    except PointstampError as error:
        tell("REJECTED", error)
    spark.stop()


if __name__ == "__main__":
    main()
