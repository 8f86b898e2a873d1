"""A view is what DuckDB says of the rows that are there, after every epoch.

Families, and what only each can find:
- one query for each thing that SQL has, over small tables with nulls, copies and deletions: a part of SQL
  that means something else here;
- TPC-H: long queries that people ask, with subqueries in subqueries;
- Nexmark: windows, first rows and sessions over events;
- queries that are drawn: parts of SQL that do not fit together.
"""

import re
from typing import Any

import pytest
from examples.nexmark.events import Site, side_input
from examples.nexmark.sql import SQL as NEXMARK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.ddl import to_ddl
from support import tpch
from support.batch_answers import WEIGHT, Fed, judge, with_deletions
from support.nexmark_sql import SPARK
from support.random_sql import selects
from support.sql_cases import CASES, Case, declared, fed, used_in
from support.tpch_sql import SQL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_a_view_is_duckdbs_after_every_epoch(case: Case) -> None:
    flow = ps.sql(declared() + case.sql)
    assert judge(flow, case.theirs, fed(CASES.index(case), epochs=3), 1 + CASES.index(case) % 2) == 3


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_a_view_is_duckdbs_on_many_tables(case: Case) -> None:
    flow = ps.sql(declared() + case.sql)
    for seed in range(4):
        assert judge(flow, case.theirs, fed(seed, epochs=6, size=20), 1 + seed % 3) == 6


def tpch_flow(number: int) -> ps.Dataflow:
    query = SQL[f"q{number}"]
    tables = "".join(
        f"create table {name} ({schema}, {WEIGHT} long) tblproperties ('weight' = '{WEIGHT}');\n"
        for name, schema in tpch.SCHEMAS.items()
        if re.search(rf"\b{name}\b", query)
    )
    return ps.sql(tables + query, name=f"q{number}")


@pytest.mark.parametrize("number", range(1, 23))
def test_a_query_of_tpch_in_sql_is_duckdbs_under_inserts_and_deletes(number: int) -> None:
    rows = with_deletions(tpch.epochs(number, 3, 40), number, tpch.CHANGED)
    assert judge(tpch_flow(number), SQL[f"q{number}"], rows, 1 + number % 2) == 3


@pytest.mark.long
@pytest.mark.parametrize("number", range(1, 23))
@pytest.mark.parametrize("workers", [1, 3])
def test_a_query_of_tpch_in_sql_is_duckdbs_on_larger_tables(number: int, workers: int) -> None:
    rows = with_deletions(tpch.epochs(workers, 6, 200), workers, tpch.CHANGED)
    assert judge(tpch_flow(number), SQL[f"q{number}"], rows, workers) == 6


def nexmark(number: int, events: int, epochs: int) -> tuple[ps.Dataflow, Fed]:
    made: dict[str, Any] = dict(Site(number).epochs(events, epochs))
    made["side_input"] = [side_input().slice(n * 1_000, 1_000) for n in range(epochs)]
    query = SPARK.get(f"q{number}", NEXMARK[f"q{number}"].replace("exclude (", "except ("))
    used = {name: rows for name, rows in made.items() if re.search(rf"\b{name}\b", query)}
    tables = "".join(
        f"create table {name} ({to_ddl(rows[0].schema)}, {WEIGHT} long) "
        f"tblproperties ('weight' = '{WEIGHT}');\n"
        for name, rows in used.items()
    )
    changed = {"person": "state", "auction": "category", "bid": "price", "side_input": "value"}
    return ps.sql(tables + query, name=f"q{number}"), with_deletions(used, number, changed)


@pytest.mark.parametrize("number", range(23))
def test_a_query_of_nexmark_in_sql_is_duckdbs_when_rows_are_deleted(number: int) -> None:
    flow, rows = nexmark(number, 900, 3)
    assert judge(flow, NEXMARK[f"q{number}"], rows, 1 + number % 2) == 3


@pytest.mark.long
@pytest.mark.parametrize("number", range(23))
def test_a_query_of_nexmark_in_sql_is_duckdbs_on_many_events(number: int) -> None:
    flow, rows = nexmark(number, 12_000, 5)
    assert judge(flow, NEXMARK[f"q{number}"], rows, 1 + number % 3) == 5


@settings(max_examples=36, deadline=None, suppress_health_check=list(HealthCheck))
@given(selects(), st.integers(0, 10**6))
def test_a_query_that_was_drawn_is_duckdbs(query: str, seed: int) -> None:
    flow = ps.sql(declared(*used_in(query)) + query)
    assert judge(flow, query, fed(seed, epochs=3, size=8), 1 + seed % 2) == 3


@pytest.mark.long
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(selects(), st.integers(0, 10**6))
def test_many_queries_that_were_drawn_are_duckdbs(query: str, seed: int) -> None:
    flow = ps.sql(declared(*used_in(query)) + query)
    assert judge(flow, query, fed(seed, epochs=3, size=10), 1 + seed % 3) == 3
