"""The 99 queries of TPC-DS, as Spark SQL texts, are Spark's own answer after every epoch.

The generator is the benchmark's own (``support.tpcds``). Two epochs load the tables, one deletes a tenth of
their rows and replaces some. Spark is asked over the files of the rows that are there. None is rejected: what
only these queries find is how their plans look after Catalyst's rules, all of them at once.
"""

import re
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from support.batch_answers import Fed
from support.tpcds import Benchmark, benchmark
from support.view_answers import check_files

SCALE: Final = 0.01
LOADS, CHANGES = 2, 1
LAST: Final = LOADS + CHANGES - 1
SHORT: Final = (3, 7, 12, 18, 22, 36, 44, 52, 67, 70, 86, 97)
"""Queries with rollups, windows, outer joins, intersections and limits, each quick for Spark."""


@pytest.fixture(scope="module")
def ds() -> Benchmark:
    return benchmark(SCALE)


@pytest.fixture(scope="module")
def fed(ds: Benchmark) -> Fed:
    return ds.epochs(LOADS, CHANGES, seed=1)


@pytest.fixture(scope="module")
def files(fed: Fed, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Path]]:
    """The rows that are there after each epoch, as files that Spark reads."""
    folder = tmp_path_factory.mktemp("tpcds")
    made: dict[int, dict[str, Path]] = {}
    for epoch in range(LAST + 1):
        made[epoch] = {name: folder / f"{name}.{epoch}.parquet" for name in fed.there}
        for name, path in made[epoch].items():
            pq.write_table(fed.there[name][epoch], path)
    return made


@pytest.mark.parametrize("number", SHORT)
def test_a_query_of_tpcds_is_sparks_answer_at_the_end(
    spark: SparkSession, ds: Benchmark, fed: Fed, files: dict[int, dict[str, Path]], number: int
) -> None:
    check_files(spark, ds.in_spark(number), fed, _used(ds, number, {LAST: files[LAST]}), workers=1)


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, 100))
def test_a_query_of_tpcds_is_sparks_answer_after_every_epoch(
    spark: SparkSession, ds: Benchmark, fed: Fed, files: dict[int, dict[str, Path]], number: int
) -> None:
    there = _used(ds, number, files)
    check_files(spark, ds.in_spark(number), fed, there, workers=1 + number % 2)


def _used(ds: Benchmark, number: int, files: dict[int, dict[str, Path]]) -> dict[int, dict[str, Path]]:
    """The files of the tables that a query names."""
    names = [name for name in ds.tables if re.search(rf"\b{name}\b", ds.queries[number])]
    return {epoch: {name: tables[name] for name in names} for epoch, tables in files.items()}
