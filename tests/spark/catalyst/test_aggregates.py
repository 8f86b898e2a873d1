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
from support.view_answers import check, flow_of, register

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
    "percentiles": (
        "percentile(i, array(0.1, 0.5, 0.9)), percentile(d, 0.3), percentile(i, 0.4, abs(i)), "
        "percentile_cont(0.75) within group (order by x desc), "
        "percentile_disc(0.3) within group (order by i), "
        "percentile_disc(0.6) within group (order by x desc) filter (where b), median(d)"
    ),
    "texts": (
        "listagg(k, '-') within group (order by k), "
        "string_agg(distinct k, ';') within group (order by k desc), "
        "listagg(cast(id as string), ',') within group (order by x desc nulls first, id), "
        "listagg(cast(k as binary), x'2c') within group (order by id)"
    ),
    "bits": "bit_and(i), bit_or(i), bit_xor(n), bit_xor(distinct i), bit_or(i) filter (where b)",
    "modes": "mode() within group (order by i), mode() within group (order by x desc), mode(i, true) as b",
    "pairs": (
        "corr(i, x), covar_pop(i, x), covar_samp(i, x), regr_sxx(i, x), regr_sxy(i, x), regr_syy(i, x), "
        "regr_slope(i, x), regr_intercept(i, x), regr_r2(i, x), regr_count(i, x), regr_avgx(i, x), "
        "regr_avgy(i, x), skewness(i), kurtosis(x), corr(distinct i, x)"
    ),
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
@pytest.mark.parametrize(
    "name",
    [
        "approx_count_distinct(i)",
        "percentile_approx(x, 0.5)",
        "hll_sketch_agg(i)",
        "kll_sketch_agg_bigint(n)",
    ],
)
def test_an_aggregate_that_is_approximate_is_rejected_by_name(
    spark: SparkSession, fed: Fed, name: str
) -> None:
    register(spark, {"t": fed.there["t"][0]})
    with pytest.raises(FlowError, match="is approximate, and its value depends on the order"):
        ps.views(spark, {"v": GLOBAL.format(name)})


@pytest.mark.spark
def test_what_a_query_leaves_open_is_decided_by_the_values(spark: SparkSession, fed: Fed) -> None:
    """Of several values that are there most often it is the least; a list without an order is sorted."""
    asked = "select mode(b), listagg(cast(i as string), ',') from t where i in (1, 2, 5, 7)"
    ordered = (
        "select mode() within group (order by b), listagg(cast(i as string), ',') "
        "within group (order by cast(i as string)) from t where i in (1, 2, 5, 7)"
    )
    assert changes_of(spark, asked, fed) == changes_of(spark, ordered, fed)


def changes_of(spark: SparkSession, query: str, fed: Fed) -> list[list[tuple[object, ...]]]:
    flow = flow_of(spark, query, {"t": fed.there["t"][0]})
    results = flow.run({"t": fed.changes["t"]})["result"]
    return [
        sorted(zip(*results[each].to_pydict().values(), strict=True), key=str) for each in sorted(results)
    ]
