"""The 99 queries of TPC-DS are what DuckDB says of the rows that are there, after every epoch.

The generator is the benchmark's own (``support.tpcds``). What only its queries find: conditions with common
parts in correlated subqueries, grouping sets with windows over them, outer joins of grouped tables, and long
chains of common tables.
"""

from typing import Final

import duckdb
import pytest
from benchmarks.sql.answers import Rows, added_up, check_same, rows_of_table
from benchmarks.views.tpcds_data import Benchmark, benchmark

import pointstamp as ps
from pointstamp.arrow.ddl import to_ddl
from pointstamp.errors import SqlError
from support.batch_answers import WEIGHT, Fed
from support.tpcds import epochs_of

SCALE: Final = 0.01
LOADS, CHANGES = 2, 2

REJECTED: Final = {
    77: "is joined without an equality of columns",  # cs, cr in FROM: all pairs
}
"""Which queries are rejected, and with which words."""


@pytest.fixture(scope="module")
def ds() -> Benchmark:
    return benchmark(SCALE)


@pytest.fixture(scope="module")
def fed(ds: Benchmark) -> Fed:
    return epochs_of(ds, LOADS, CHANGES, seed=1)


def flow_of(ds: Benchmark, number: int) -> ps.Dataflow:
    tables = "".join(
        f"create table {name} ({to_ddl(ds.tables[name].schema)}, {WEIGHT} long) "
        f"tblproperties ('weight' = '{WEIGHT}');\n"
        for name in ds.read_by(number)
    )
    return ps.sql(tables + ds.in_spark(number), name=f"q{number}")


def by_duckdb(ds: Benchmark, number: int, fed: Fed, epoch: int) -> Rows:
    with duckdb.connect(config={"threads": 1}) as engine:
        for name in ds.read_by(number):
            engine.register(name, fed.there[name][epoch])
        return rows_of_table(engine.sql(ds.queries[number]).to_arrow_table())


def check(ds: Benchmark, number: int, ours: Rows, theirs: Rows, epoch: int) -> None:
    """AssertionError with the first rows that differ."""
    if not ours and "rollup" in ds.queries[number].lower():
        assert len(theirs) <= 1  # of no rows Spark has no total, and DuckDB has one
        return
    check_same(ours, theirs, f"q{number}, epoch {epoch}")


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, 100))
def test_a_query_of_tpcds_is_duckdbs_after_every_epoch(ds: Benchmark, fed: Fed, number: int) -> None:
    if number in REJECTED:
        with pytest.raises(SqlError, match=REJECTED[number]):
            flow_of(ds, number)
        return
    flow = flow_of(ds, number)
    changes = {name: fed.changes[name] for name in ds.read_by(number)}
    results = flow.run(changes, workers=1 + number % 2)["result"]
    for epoch in range(LOADS + CHANGES):
        ours = added_up([results[each] for each in range(epoch + 1)])
        check(ds, number, ours, by_duckdb(ds, number, fed, epoch), epoch)
