"""The 99 queries of TPC-DS, as Spark SQL texts, are kept up to date after every epoch.

The generator is the benchmark's own. Two epochs load the tables, one deletes a tenth of their rows, facts and
dimensions, and replaces some. What is there after the last epoch is compared with Spark's own answer, what is
there before with DuckDB's, which takes a fraction of the time; the long test asks Spark after every epoch, at
ten times the scale. None is rejected: what only these queries find is how their plans look after Catalyst's
rules, all of them at once.
"""

import os
from pathlib import Path
from typing import Final

import duckdb
import pyarrow.parquet as pq
import pytest
from benchmarks.sql.answers import Rows, added_up, check_same, rows_of_table
from benchmarks.views.tpcds_data import Benchmark, benchmark
from pyspark.sql import SparkSession

import pointstamp as ps
from support.batch_answers import WEIGHT, Fed
from support.tpcds import epochs_of
from support.view_answers import check_files, register

SCALE: Final = 0.01
SCALE_LONG: Final = float(os.environ.get("POINTSTAMP_TPCDS_SCALE", "0.1"))
LOADS, CHANGES = 2, 1
LAST: Final = LOADS + CHANGES - 1

Files = dict[int, dict[str, Path]]


@pytest.fixture(scope="module")
def ds() -> Benchmark:
    return benchmark(SCALE)


@pytest.fixture(scope="module")
def fed(ds: Benchmark) -> Fed:
    return epochs_of(ds, LOADS, CHANGES, seed=1)


@pytest.fixture(scope="module")
def files(fed: Fed, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return written(fed, tmp_path_factory.mktemp("tpcds"), [LAST])


@pytest.fixture(scope="module")
def large() -> Benchmark:
    return benchmark(SCALE_LONG)


@pytest.fixture(scope="module")
def large_fed(large: Benchmark) -> Fed:
    return epochs_of(large, LOADS, CHANGES, seed=2)


@pytest.fixture(scope="module")
def large_files(large_fed: Fed, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return written(large_fed, tmp_path_factory.mktemp("tpcds"), range(LAST + 1))


def written(fed: Fed, folder: Path, epochs: list[int] | range) -> Files:
    """The rows that are there after these epochs, as files that Spark reads."""
    made: Files = {}
    for epoch in epochs:
        made[epoch] = {name: folder / f"{name}.{epoch}.parquet" for name in fed.there}
        for name, path in made[epoch].items():
            pq.write_table(fed.there[name][epoch], path)
    return made


@pytest.fixture(scope="module")
def registered(spark: SparkSession, files: Files) -> SparkSession:
    """A session with the tables as they are at the end."""
    register(spark, files[LAST])
    return spark


@pytest.mark.parametrize("number", range(1, 100))
def test_a_query_of_tpcds_is_kept_up_to_date(
    registered: SparkSession, ds: Benchmark, fed: Fed, number: int
) -> None:
    names = ds.read_by(number)
    frame = registered.sql(ds.in_spark(number))
    flow = ps.views(registered, {"result": frame}, changes=dict.fromkeys(names, WEIGHT))
    results = flow.run({name: fed.changes[name] for name in names})["result"]
    for epoch in range(LAST):
        check(ds, number, added_up([results[each] for each in range(epoch + 1)]), fed, epoch)
    ours = added_up([results[each] for each in range(LAST + 1)])
    check_same(ours, rows_of_table(frame.toArrow()), f"q{number}, at the end")


def check(ds: Benchmark, number: int, ours: Rows, fed: Fed, epoch: int) -> None:
    """AssertionError with the first rows that are not DuckDB's."""
    with duckdb.connect(config={"threads": 1}) as engine:
        for name in ds.read_by(number):
            engine.register(name, fed.there[name][epoch])
        theirs = rows_of_table(engine.sql(ds.queries[number]).to_arrow_table())
    if not ours and "rollup" in ds.queries[number].lower():
        assert len(theirs) <= 1  # of no rows Spark has no total, and DuckDB has one
        return
    check_same(ours, theirs, f"q{number}, epoch {epoch}")


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, 100))
def test_a_query_of_tpcds_is_sparks_answer_after_every_epoch(
    spark: SparkSession, large: Benchmark, large_fed: Fed, large_files: Files, number: int
) -> None:
    names = large.read_by(number)
    there = {epoch: {name: tables[name] for name in names} for epoch, tables in large_files.items()}
    check_files(spark, large.in_spark(number), large_fed, there, workers=1 + number % 2)
