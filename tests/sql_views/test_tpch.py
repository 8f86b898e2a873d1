"""The 22 queries of TPC-H as views of one flow are what DuckDB says of all rows, after every epoch.

The tables are those of the benchmark, with its sizes and distributions. What only they find: decimals that
grow, joins of many rows with one, conditions that are moved to where they should not be, and names that 22
queries share.
"""

import re

import duckdb
import pyarrow as pa
import pytest
from benchmarks.sql.answers import Rows, added_up, check_same, rows_of_table
from benchmarks.sql.tpch_changes import Changes, ChangingTables, declared
from benchmarks.sql.tpch_data import SCHEMAS
from benchmarks.sql.tpch_queries import NAMES, queries

import pointstamp as ps


def flow_of(scale: float) -> ps.Dataflow:
    views = "".join(f"create view {name} as {text};\n" for name, text in queries(scale).items())
    return ps.sql(declared(SCHEMAS) + views, name="TPC-H")


def judge(scale: float, loads: int, changes: int, rows: int, workers: int) -> dict[str, Rows]:
    """The views after the last epoch; each of them was compared after every epoch."""
    tables = ChangingTables(scale)
    loaded = tables.loaded(loads)
    found: dict[str, list[pa.Table]] = {name: [] for name in NAMES}
    views: dict[str, Rows] = {}
    with flow_of(scale).open(workers, on_result=lambda name, _, table: found[name].append(table)) as run:
        for epoch in range(loads + changes):
            change = loaded[epoch] if epoch < loads else tables.change(rows, suppliers=True)
            for name, table in change.items():
                run.input(name).send(table)
                run.input(name).advance_to(epoch + 1)
            run.settle()
            there = _loaded(loaded[: epoch + 1]) if epoch < loads else tables
            views = {name: added_up(each) for name, each in found.items()}
            answers = by_duckdb(scale, {name: _there(there, name) for name in SCHEMAS})
            for name in NAMES:
                check_same(views[name], answers[name], f"{name} on {workers} workers, epoch {epoch}")
    return views


def _loaded(epochs: list[Changes]) -> Changes:
    return {name: pa.concat_tables([each[name] for each in epochs]) for name in SCHEMAS}


def _there(tables: Changes | ChangingTables, name: str) -> pa.Table:
    return tables.there(name) if isinstance(tables, ChangingTables) else tables[name]


def by_duckdb(scale: float, tables: Changes) -> dict[str, Rows]:
    engine = duckdb.connect(config={"threads": 1})
    for name, table in tables.items():
        engine.register(f"arrow_{name}", table)
        engine.execute(f"create table {name} as from arrow_{name}")
    return {name: rows_of_table(engine.sql(text).to_arrow_table()) for name, text in queries(scale).items()}


def test_every_query_is_duckdbs_when_rows_come_and_go() -> None:
    views = judge(0.01, loads=2, changes=3, rows=2_000, workers=2)
    assert [name for name in NAMES if not views[name]] == [], "a query without rows shows nothing"


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 3])
def test_every_query_is_duckdbs_on_ten_times_as_many_rows(workers: int) -> None:
    views = judge(0.1, loads=3, changes=4, rows=5_000, workers=workers)
    assert [name for name in NAMES if not views[name]] == []


def test_a_column_that_only_a_condition_needs_is_not_joined() -> None:
    query = """
        select count(*) as n from customer, orders
        where c_custkey = o_custkey and c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15'
    """
    plan = ps.sql(declared(["customer", "orders"]) + query).plan
    (join,) = [node for node in plan.nodes if node.name == "join"]
    assert [re.sub(r".*\.", "", each) for each in join.outputs[0].schema.names] == ["c_custkey", "diff"]
