"""Expressions and time zones, compared with Spark itself.

- a flow on Spark computes in the time zone of the session, or in its own, with and without push-down;
- the stored answers of Spark are still Spark's (long);
- the examples of Spark's own manual give the same here, for every function that there is (long).
"""

import re
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

import pointstamp as ps
from pointstamp.sql_views.sql_functions import SCALARS
from support.spark_answers import differences, load
from support.spark_expressions import EXPRESSIONS
from support.spark_grid import REJECTED, Asked, AskedSpark, answers_here

pytestmark = pytest.mark.spark

INSTANTS = [
    datetime(2024, 3, 31, 22, 30, tzinfo=UTC) + timedelta(minutes=37 * step) for step in range(-60, 60, 7)
]
QUERY = """
    select month(at) as m, cast(at as date) as d, hour(at) as h, count(*) as n,
           count(*) filter (where at >= timestamp '2024-04-01 00:00:00') as later,
           min(date_format(at, 'EEE HH:mm')) as f, max(cast(at as string)) as s
    from t where at < timestamp '2024-04-02 00:00:00' and k > 0
    group by month(at), cast(at as date), hour(at)"""


def _session_zone(spark: SparkSession, zone: str) -> DataFrame:
    spark.conf.set("spark.sql.session.timeZone", zone)
    rows = [(at, number) for number, at in enumerate(INSTANTS)]
    return spark.createDataFrame(rows, schema="at timestamp, k long")


@pytest.mark.parametrize("push", [True, False])
def test_a_flow_on_spark_computes_in_the_zone_of_the_session(spark: SparkSession, push: bool) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        flow = ps.sql(QUERY, t="at timestamp, k long")
        frame = _session_zone(spark, "Europe/Berlin")
        frame.createOrReplaceTempView("t")
        expected = sorted(tuple(row) for row in spark.sql(QUERY).collect())
        found = flow.run(on=spark, t=frame, workers=2, options=ps.QueryOptions(pushdown=push)).table("result")
        assert sorted(tuple(row) for row in found.collect()) == expected
        if push:
            fixed = ps.sql(QUERY, t="at timestamp, k long", time_zone="Europe/Berlin")
            elsewhere = _session_zone(spark, "Asia/Kathmandu")
            found = fixed.run(on=spark, t=elsewhere, workers=2).table("result")
            assert sorted(tuple(row) for row in found.collect()) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.long
def test_the_stored_answers_are_sparks(spark: SparkSession) -> None:
    ask, stored = AskedSpark(spark), load()
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        changed = [each for each in EXPRESSIONS if ask(each) != stored[each]]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert changed == []


EXAMPLES_REJECTED = 40
"""How many examples may be rejected here: those with lists, and arguments that must be literals."""


@pytest.mark.long
def test_the_examples_of_sparks_manual_give_the_same_here(spark: SparkSession) -> None:
    ask = AskedSpark(spark)
    before = spark.conf.get("spark.sql.session.timeZone")
    wrong, rejected, same = [], [], 0
    try:
        for name in SCALARS.keys() - {"iff"}:  # of Databricks alone
            manual = "\n".join(row[0] for row in spark.sql(f"describe function extended {name}").collect())
            for example in re.findall(r"> SELECT (.*?);", manual, re.IGNORECASE | re.DOTALL):
                asked = Asked(example)
                if asked.columns or " from " in example.lower() or "," in _outside(example):
                    continue
                there = ask(asked)
                if there.type == REJECTED:
                    continue
                here = answers_here(asked)
                if here.type == REJECTED:
                    rejected.append(f"{example}: {here.values[0]}")
                elif found := list(differences(asked, here, there)):
                    wrong.extend(found)
                else:
                    same += 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert not wrong, "\n".join(wrong)
    assert same > 100, same
    assert len(rejected) <= EXAMPLES_REJECTED, "\n".join(rejected)


def _outside(example: str) -> str:
    """What of a text stands outside of all parentheses and quotes."""
    plain = re.sub(r"'[^']*'", "", example)
    while plain != (inner := re.sub(r"\([^()]*\)", "", plain)):
        plain = inner
    return plain
