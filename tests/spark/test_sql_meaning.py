"""Views say what Spark says: of queries that are drawn, and of what other engines mean differently.

What only Spark itself can show: that a query which DuckDB and we agree on is read by Spark, too, and means
the same there.
"""

import json
import re
from decimal import Decimal
from math import isnan
from typing import Any, Final

import pytest
from benchmarks.sql.answers import Rows, added_up, check_same
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import PointstampError
from support.batch_answers import Fed
from support.random_sql import selects
from support.sql_cases import SCHEMAS, declared, fed, used_in
from support.sql_differences import DIFFERENCES, ERROR, ROWS, SCHEMA

pytestmark = pytest.mark.spark

QUERIES: Final = 2_000
TOGETHER: Final = 40
"""How many queries are one job of Spark."""


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


def compare(spark: SparkSession, query: str, number: int) -> None:
    """The view after all epochs, and Spark's answer over the rows that are there then."""
    names = used_in(query)
    rows = fed(number, epochs=3, size=8)
    results = ps.sql(declared(*names) + query).run({name: rows.changes[name] for name in names})
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
@given(query=selects(), number=st.integers(0, 10**6))
def test_a_query_that_was_drawn_is_sparks(spark: SparkSession, query: str, number: int) -> None:
    compare(spark, query, number)


def test_queries_that_are_asked_together_have_their_own_answers(spark: SparkSession) -> None:
    queries = ["select k, b from t", "select k, x / 0 as q from t", "select count(*) as n from u"]
    answers = answers_of(spark, queries, fed(3, epochs=2, size=8))
    assert [answer is None for answer in answers] == [False, True, False], (
        "an error is the error of one query"
    )


@pytest.mark.long
@pytest.mark.parametrize("number", range(QUERIES // TOGETHER))
def test_many_queries_that_were_drawn_are_sparks(spark: SparkSession, number: int) -> None:
    """Queries are asked of Spark together, so that two thousand of them take minutes."""
    rows = fed(number, epochs=3, size=8)
    queries = drawn(number, TOGETHER)
    wrong = []
    for query, theirs in zip(queries, answers_of(spark, queries, rows), strict=True):
        names = used_in(query)
        changes = {name: rows.changes[name] for name in names}
        said = ""
        try:
            results = ps.sql(declared(*names) + query).run(changes, workers=1 + number % 2)
            ours = as_text(added_up(list(results["result"].values())))
        except PointstampError as error:
            ours = None
            said = str(error)
        if ours is None or theirs is None:
            if ours is not None and has_a_defect(spark, query):
                continue
            if (ours is None) != (theirs is None):
                wrong.append((query, "here" if ours is None else "in Spark", said))
            continue
        try:
            check_same(ours, theirs, "final rows")
        except AssertionError as error:
            wrong.append((query, str(error), ""))
    assert not wrong, f"{len(wrong)} of {len(queries)}, such as {wrong[0]}"


def has_a_defect(spark: SparkSession, query: str) -> bool:
    """Whether Spark's analyzer fails by itself.

    It loses a column with CUBE behind joins USING, in FILTER, and it does not widen the types of a recursion.
    """
    try:
        spark.sql(query)
    except (AnalysisException, Py4JJavaError) as error:
        return any(
            word in str(error) for word in ("MISSING_ATTRIBUTES", "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE")
        )
    return False


def drawn(number: int, count: int) -> list[str]:
    """So many queries, the same ones for a number."""
    found: list[str] = []

    @seed(number)
    @settings(DRAWN, max_examples=count, database=None)
    @given(selects())
    def collect(query: str) -> None:
        found.append(query)

    collect()
    return (found * count)[:count]  # where fewer were found that differ


def answers_of(spark: SparkSession, queries: list[str], rows: Fed) -> list[Rows | None]:
    """What Spark says of the rows that are there at last, in one job; None where it is an error."""
    for name, schema in SCHEMAS.items():
        values = [tuple(each.values()) for each in rows.there[name][-1].to_pylist()]
        spark.createDataFrame(values, schema=schema).coalesce(1).createOrReplaceTempView(name)
    row = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    asked = [
        f"select {number} as number, {row} as row from ({query})"  # noqa: S608 - our own text
        for number, query in enumerate(queries)
    ]
    try:
        found = spark.sql(" union all ".join(asked)).collect()
    except (PySparkException, Py4JJavaError):
        if len(queries) == 1:
            return [None]
        half = len(queries) // 2
        return answers_of(spark, queries[:half], rows) + answers_of(spark, queries[half:], rows)
    answers: list[Rows | None] = [[] for _ in queries]
    for each in found:
        answer = answers[each["number"]]
        assert answer is not None
        answer.append(tuple(json.loads(each["row"]).values()))
    return answers


def as_text(rows: Rows) -> Rows:
    """Values as JSON has them: what is no number, no truth and no null is a text."""
    return [tuple(_as_text(each) for each in row) for row in rows]


def _as_text(value: Any) -> Any:  # noqa: ANN401 - of any type
    if isinstance(value, float) and isnan(value):
        return "NaN"
    return value if value is None or isinstance(value, bool | int | float | Decimal) else str(value)
