"""Aggregates of Spark SQL texts are Spark's own answer after every epoch, with and without ANSI mode.

- each aggregate with DISTINCT, with FILTER and over nulls;
- sums that overflow: null for ``try_sum``, and wrapped without ANSI mode;
- what has no exact counterpart is rejected by its name when the view is defined.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import FlowError
from support.batch_answers import Fed, with_deletions
from support.view_answers import check, register

LARGE = 2**62


@pytest.fixture(scope="module")
def fed() -> Fed:
    def rows(first: int) -> pa.Table:
        numbers = [None, 1, 2, 2, 7, -3, 5, 9]
        return pa.table(
            {
                "id": pa.array(range(first, first + 8), pa.int64()),
                "k": ["a", "a", "b", "b", None, "a", "b", None],
                "i": pa.array(numbers, pa.int32()),
                "n": pa.array([LARGE, LARGE, 3, None, LARGE, 5, 4, 1], pa.int64()),
                "x": pa.array([1.5, None, 0.25, -2.0, 4.0, 4.0, None, 8.5]),
                "d": pa.array(["1.25", None, "2.50", "2.50", "-7.00", "0.01", "9.99", "3.00"]).cast(
                    pa.decimal128(7, 2)
                ),
                "b": [True, None, False, True, None, False, True, True],
            }
        )

    return with_deletions({"t": [rows(0), rows(8)]}, 3, {"t": "x"})


@pytest.fixture
def without_ansi(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.set("spark.sql.ansi.enabled", "true")


GROUPED, GLOBAL = "select k, {} from t group by k", "select {} from t"
AGGREGATES = {
    "counts": "count(*), count(2), count(i), count(x, d), count(distinct i), count(distinct i, b)",
    "filters": "sum(i) filter (where b), count(*) filter (where x > 1), max(d) filter (where id > 3)",
    "distinct": "sum(distinct i), avg(distinct d), min(distinct i), count_if(b), sum(distinct x)",
    "averages": "avg(i), avg(d), avg(x), sum(d), sum(x), try_avg(i)",
    "moments": "stddev(i), stddev_pop(x), var_samp(d), variance(i), var_pop(i)",
    "booleans": "bool_and(b), bool_or(b), every(b), any(b), min(b), max(b)",
    "extremes": "min(x), max(d), max_by(id, n + id), min_by(id, id), max(k)",
    "quantiles": "median(i), percentile(x, 0.25), percentile_cont(0.75) within group (order by i)",
    "collected": "sort_array(collect_list(i)), sort_array(collect_set(i)), size(array_agg(x))",
    "inside": "sum(i) * 2 + count(*), coalesce(max(x), 0), case when count(*) > 2 then sum(d) end",
}


@pytest.mark.spark
@pytest.mark.parametrize("aggregates", AGGREGATES.values(), ids=AGGREGATES)
def test_aggregates_are_sparks_after_every_epoch(spark: SparkSession, fed: Fed, aggregates: str) -> None:
    check(spark, GROUPED.format(aggregates), fed)
    check(spark, GLOBAL.format(aggregates), fed)


@pytest.mark.spark
def test_a_tried_sum_that_overflows_is_null(spark: SparkSession, fed: Fed) -> None:
    check(spark, "select k, try_sum(n) from t group by k", fed)


@pytest.mark.spark
@pytest.mark.usefixtures("without_ansi")
def test_a_sum_without_ansi_mode_wraps_around(spark: SparkSession, fed: Fed) -> None:
    check(spark, "select k, sum(n), sum(i), count(distinct n) from t group by k", fed)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["mode(i)", "listagg(k)", "approx_count_distinct(i)", "bit_xor(i)"])
def test_an_aggregate_without_an_exact_counterpart_is_rejected(
    spark: SparkSession, fed: Fed, name: str
) -> None:
    register(spark, {"t": fed.there["t"][0]})
    with pytest.raises(FlowError, match="is not supported in an incremental view"):
        ps.views(spark, {"v": GLOBAL.format(name)})
