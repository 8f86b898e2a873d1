"""The rules of Catalyst that are called by name exist, and what they remove has Spark's rows."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import SqlError
from pointstamp.spark.catalyst import rules


def test_every_rule_exists_in_the_installed_spark(spark: SparkSession) -> None:
    assert rules.CatalystRules(spark) is not None


def test_a_rule_that_is_missing_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "org.apache.spark.sql.catalyst.optimizer.RemoveEverything"
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, missing))
    with pytest.raises(SqlError, match=f"has no rule {missing}, which views of DataFrames need"):
        rules.CatalystRules(spark)


REMOVED = [
    "from t |> where id > 1 |> aggregate count(*) as n group by s |> extend n + 1 as m |> order by m",
    "select id, (with c as (select t.id + 1 as x) select x from c) as y from t",
    "select id from t where exists (with c as (select id a from t where id > 1) select 1 from c where a = 2)",
    "with o as (select id from t) select o.id, (with c as (select max(id) as m from o i where i.id <= o.id) "
    "select m from c) as m from o",
    "select next_of(cast(id as int)) as n, id from t where next_of(cast(id as int)) < 4",
]


@pytest.mark.parametrize("query", REMOVED)
def test_what_rules_remove_has_sparks_rows(spark: SparkSession, query: str) -> None:
    rows = [(1, "a"), (2, None), (2, "a"), (None, "b"), (7, "")]
    spark.createDataFrame(rows, "id long, s string").createOrReplaceTempView("t")
    spark.sql("create or replace temporary function next_of(x int) returns int return x + 1")

    def counted(table: pa.Table) -> Counter[str]:
        return Counter(map(repr, table.to_pylist()))

    try:
        found = ps.views(spark, {"v": query}).run({"t": spark.table("t").toArrow()})
        assert counted(found.table("v")) == counted(spark.sql(query).toArrow())
    finally:
        spark.sql("drop temporary function next_of")
