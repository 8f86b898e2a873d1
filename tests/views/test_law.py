"""A view is what DuckDB says of the rows that are there, after every epoch.

Families, and what only each can find:
- one query for each thing that SQL has, over small tables with nulls, copies and deletions: a part of SQL
  that means something else here;
- TPC-H: long queries that people ask, with subqueries in subqueries;
- Nexmark: windows, first rows and sessions over events;
- queries that are drawn: parts of SQL that do not fit together.
"""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pointstamp as ps
from support import tpch
from support.batch_answers import WEIGHT, judge, with_deletions
from support.random_sql import selects
from support.sql_cases import CASES, Case, declared, fed
from support.tpch_sql import SQL


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_a_view_is_duckdbs_after_every_epoch(case: Case) -> None:
    flow = ps.sql(declared() + case.sql)
    assert judge(flow, case.theirs, fed(CASES.index(case)), 1 + CASES.index(case) % 2) == 4


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_a_view_is_duckdbs_on_many_tables(case: Case) -> None:
    flow = ps.sql(declared() + case.sql)
    for seed in range(20):
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
    for seed in range(4):
        rows = with_deletions(tpch.epochs(seed, 6, 300), seed, tpch.CHANGED)
        assert judge(tpch_flow(number), SQL[f"q{number}"], rows, workers) == 6


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(selects(), st.integers(0, 10**6))
def test_a_query_that_was_drawn_is_duckdbs(query: str, seed: int) -> None:
    assert judge(ps.sql(declared() + query), query, fed(seed, epochs=3, size=8), 1 + seed % 2) == 3


@pytest.mark.long
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(selects(), st.integers(0, 10**6))
def test_many_queries_that_were_drawn_are_duckdbs(query: str, seed: int) -> None:
    assert judge(ps.sql(declared() + query), query, fed(seed, epochs=4, size=10), 1 + seed % 3) == 4
