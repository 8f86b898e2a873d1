"""Views say what Spark says: of queries that are drawn, and of what other engines mean differently.

What only Spark itself can show: that a query which DuckDB and we agree on is read by Spark, too, and means
the same there.
"""

import re
from typing import Any

import pytest
from benchmarks.sql.answers import added_up, check_same
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pointstamp as ps
from support.random_sql import selects
from support.sql_cases import SCHEMAS, declared, fed, used_in
from support.sql_differences import DIFFERENCES, ERROR, ROWS, SCHEMA

pytestmark = pytest.mark.spark


def test_differences_are_as_they_are_listed(spark: SparkSession) -> None:
    spark.createDataFrame(ROWS, schema=SCHEMA).createOrReplaceTempView("one")
    found = {each.about: asked(spark, each.query) for each in DIFFERENCES}
    assert {about: repr(value) for about, value in found.items()} == {
        each.about: repr(each.spark) for each in DIFFERENCES
    }


def asked(spark: SparkSession, query: str) -> Any:  # noqa: ANN401 - a value of any type
    try:
        return spark.sql(query).collect()[0][0]
    except PySparkException:
        return ERROR


def compare(spark: SparkSession, query: str, seed: int) -> None:
    """The view after all epochs, and Spark's answer over the rows that are there then."""
    names = used_in(query)
    rows = fed(seed, epochs=3, size=8)
    results = ps.sql(declared(*names) + query).run_local({name: rows.changes[name] for name in names})
    for name in names:
        there = rows.there[name][-1].to_pylist()
        values = [tuple(each.values()) for each in there]
        spark.createDataFrame(values, schema=SCHEMAS[name]).coalesce(1).createOrReplaceTempView(name)
    ours = added_up(list(results["result"].values()))
    theirs = [tuple(row) for row in spark.sql(query).collect()]
    check_same(ours, theirs, re.sub(r"\s+", " ", query))


DRAWN = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # with Spark it would take long to find the shortest query
)


@settings(DRAWN, max_examples=10)
@given(query=selects(), seed=st.integers(0, 10**6))
def test_a_query_that_was_drawn_is_sparks(spark: SparkSession, query: str, seed: int) -> None:
    compare(spark, query, seed)


@pytest.mark.long
@settings(DRAWN, max_examples=100)
@given(query=selects(), seed=st.integers(0, 10**6))
def test_many_queries_that_were_drawn_are_sparks(spark: SparkSession, query: str, seed: int) -> None:
    compare(spark, query, seed)
