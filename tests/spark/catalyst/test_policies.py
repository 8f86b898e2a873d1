"""Refresh policies: which views are incremental is said before anything runs, and kept to.

Families:
- texts: statements with policies, comments and quotes; what is not one is rejected;
- verdicts: explain says for each view whether it is incremental, and why not;
- refreshes: a view that Spark recomputes is Spark's own answer after each refresh, published in the same
  commit as the incremental views; a table that changes while Spark recomputes does not mix two moments.
"""

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError, SqlError
from pointstamp.sql_views.policies import check_policy, declared_view, is_statement, statements

TOTALS = "select city, sum(price) as total from {} group by city"
NOT_INCREMENTAL = "select city, rand() < 2 as sure, count(*) as n from {} group by city"


def test_statements_are_told_apart_by_semicolons_outside_of_texts_and_comments() -> None:
    text = """
    -- the totals; of each city
    create or replace materialized view gold.`the totals` comment 'it''s; so' refresh policy auto as
    select ';' as a, "b;" as b, `c;` as c from t /* one; two */ where x - 1 > 2;
    create materialized view if not exists v as select 1 / 2;;
    """
    one, two = map(declared_view, statements(text))
    assert (one.name, one.policy) == ("the totals", "AUTO")
    assert " ".join(one.query.split()) == "select ';' as a, \"b;\" as b, `c;` as c from t where x - 1 > 2"
    assert (two.name, two.policy, two.query) == ("v", None, "select 1 / 2")


@pytest.mark.parametrize(
    ("policy", "known"),
    [("auto", "AUTO"), ("Incremental  Strict", "INCREMENTAL STRICT"), ("full", "FULL")],
)
def test_policies_are_databricks_words(policy: str, known: str) -> None:
    text = f"EXPLAIN CREATE MATERIALIZED VIEW v REFRESH POLICY {policy} AS SELECT 1"
    assert declared_view(text).policy == known == check_policy(policy)


def test_what_is_no_policy_and_no_statement_is_rejected() -> None:
    with pytest.raises(FlowError, match="policy must be one of AUTO, INCREMENTAL, INCREMENTAL STRICT, FULL"):
        check_policy("sometimes")
    assert not is_statement("select 1")
    with pytest.raises(SqlError, match=r"'create view v as select 1' is not a materialized view\. Write"):
        declared_view("create view v as select 1")


# With Spark.


def orders(spark: SparkSession, number: int) -> DataFrame:
    found = [(("Rome", "Oslo", None)[each % 3], each * 10) for each in range(number, number + 5)]
    return spark.createDataFrame(found, "city string, price long").coalesce(1)


@pytest.fixture
def sold(spark: SparkSession, tmp_path: Path) -> str:
    orders(spark, 0).write.parquet(str(tmp_path / "orders"))
    spark.read.parquet(str(tmp_path / "orders")).createOrReplaceTempView("sold_by_policy")
    return "sold_by_policy"


def rows(found: Any) -> Counter[str]:  # noqa: ANN401 - a DataFrame, or a table of Arrow
    table = found.toArrow() if isinstance(found, DataFrame) else found
    return Counter(str(sorted(each.items())) for each in table.to_pylist())


def test_explain_says_of_each_view_what_becomes_of_it(spark: SparkSession, sold: str) -> None:
    text = f"""
    explain create materialized view totals as {TOTALS.format(sold)};
    explain create materialized view some refresh policy auto as {NOT_INCREMENTAL.format(sold)};
    explain create materialized view strict refresh policy incremental strict as
    {NOT_INCREMENTAL.format(sold)};
    explain create materialized view whole refresh policy full as {TOTALS.format(sold)}
    """
    told = ps.explain_views(spark, text)
    assert "view 'totals' (refresh policy INCREMENTAL): incremental" in told
    assert "view 'some' (refresh policy AUTO): recomputed in full by Spark at each refresh, bec" in told
    assert "view 'strict' (refresh policy INCREMENTAL STRICT): REJECTED, because it cannot be inc" in told
    assert "view 'whole' (refresh policy FULL): recomputed in full by Spark at each refresh, because" in told
    assert "rand" in told.split("view 'some'")[1].split("\n")[0].lower()
    for policy in ("INCREMENTAL", "INCREMENTAL STRICT"):
        with pytest.raises(SqlError, match="view 'some'"):
            ps.views(spark, {"some": NOT_INCREMENTAL.format(sold)}, policy=policy)


def refreshed(spark: SparkSession, flow: ps.Dataflow, home: Path) -> Any:  # noqa: ANN401
    query = flow.start(
        on=spark,
        checkpoint=home / "c",
        output=home / "out",
        available_now=True,
        options=ps.QueryOptions(in_driver=True),
    )
    assert query.await_termination(120)
    return query


def test_a_view_that_spark_recomputes_is_published_in_the_same_commit(
    spark: SparkSession, sold: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    views = {"totals": TOTALS.format(sold), "some": NOT_INCREMENTAL.format(sold)}
    queries = {name: spark.sql(text) for name, text in views.items()}
    for turn in range(3):
        flow = ps.views(spark, queries if turn == 1 else views, policy="AUTO")
        with caplog.at_level(logging.WARNING, "pointstamp.query"):
            query = refreshed(spark, flow, tmp_path)
        for told in (caplog.text, query.status["message"]):
            assert "view 'some' was recomputed in full by Spark in " in told
            assert "view 'totals'" not in told
        spark.read.parquet(str(tmp_path / "orders")).createOrReplaceTempView(sold)
        for name, text in views.items():
            assert rows(ps.read_table(tmp_path / "out", name)) == rows(spark.sql(text)), (turn, name)
        changes = ps.read_changes(tmp_path / "out")
        assert {max(each["epoch"].to_pylist()) for each in changes.values()} == {turn}
        orders(spark, 5 * turn + 3).write.mode("append").parquet(str(tmp_path / "orders"))


def test_a_table_that_changes_while_spark_recomputes_does_not_mix_two_moments(
    spark: SparkSession, sold: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pointstamp.spark import refreshing

    written: list[int] = []
    write = refreshing._write

    def and_more_arrives(view: Any, folder: str, name: str) -> float:  # noqa: ANN401
        took = write(view, folder, name)
        if not written:
            written.append(1)
            orders(spark, 40).write.mode("append").parquet(str(tmp_path / "orders"))
        return took

    monkeypatch.setattr(refreshing, "_write", and_more_arrives)
    views = {"totals": TOTALS.format(sold), "some": NOT_INCREMENTAL.format(sold)}
    refreshed(spark, ps.views(spark, views, policy="AUTO"), tmp_path)
    spark.read.parquet(str(tmp_path / "orders")).createOrReplaceTempView(sold)
    for name, text in views.items():
        assert rows(ps.read_table(tmp_path / "out", name)) == rows(spark.sql(text))
    assert spark.table(sold).count() == 10
    states = list((tmp_path / "c" / "recomputed" / "some").glob("*.done"))
    assert len(states) == 1  # that of the first attempt is removed


def test_an_empty_result_is_a_result(spark: SparkSession, sold: str, tmp_path: Path) -> None:
    flow = ps.views(spark, {"none": spark.table(sold).where("price < 0")}, policy="FULL")
    refreshed(spark, flow, tmp_path)
    assert ps.read_table(tmp_path / "out", "none").num_rows == 0


def test_a_query_that_keeps_running_rejects_views_that_are_recomputed(
    spark: SparkSession, sold: str, tmp_path: Path
) -> None:
    flow = ps.views(spark, {"some": NOT_INCREMENTAL.format(sold)}, policy="AUTO")
    with pytest.raises(FlowError, match="'some' is recomputed in full, which a query that keeps running"):
        flow.start(on=spark, checkpoint=tmp_path / "c", output=tmp_path / "out")


def test_inputs_that_cannot_be_fixed_at_a_moment_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    orders(spark, 0).write.csv(str(tmp_path / "csv"))
    texts = spark.read.schema("city string, price long").csv(str(tmp_path / "csv"))
    with pytest.raises(SqlError, match="view 'v' cannot be recomputed in full, because its csv files"):
        ps.views(spark, {"v": texts.groupBy("city").count()}, policy="FULL")
    orders(spark, 0).write.parquet(str(tmp_path / "parquet"))
    spark.read.parquet(str(tmp_path / "parquet")).createOrReplaceTempView("sold_by_policy")
    views = {"texts": texts.groupBy("city").count(), "some": NOT_INCREMENTAL.format("sold_by_policy")}
    flow = ps.views(spark, views, policy="AUTO")
    with pytest.raises(FlowError, match="input 'csv' is a streaming DataFrame, whose rows cannot be fixed"):
        refreshed(spark, flow, tmp_path)
