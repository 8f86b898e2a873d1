"""The 22 queries of TPC-H are DuckDB's after every epoch, under inserts, deletes and updates of all tables.

What only they find: queries that real people ask, with five joins in a row, subqueries in subqueries, and
decimals and dates throughout.
"""

import inspect

import pyarrow.compute as pc
import pytest

import pointstamp as ps
from support import tpch_queries
from support.batch_answers import WEIGHT, judge, judged, with_deletions
from support.tpch import CHANGED, SCHEMAS, epochs
from support.tpch_sql import SQL

NUMBERS = range(1, 23)


def flow_of(number: int) -> ps.Dataflow:
    flow = ps.Dataflow(f"q{number}")
    query = getattr(tpch_queries, flow.name)
    inputs = list(inspect.signature(query).parameters)
    streams = {name: flow.stream_input(name, f"{SCHEMAS[name]}, {WEIGHT} long") for name in inputs}
    flow.output("result", query(*(streams[name].to_table(weight=WEIGHT) for name in inputs)))
    return flow


@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_of_tpch_is_duckdbs_under_inserts_and_deletes(number: int) -> None:
    fed = with_deletions(epochs(number, 4, 50), number, CHANGED)
    made = judged(flow_of(number), SQL[f"q{number}"], fed, 1 + number % 2)
    # Of tables in which a query finds nothing, every answer is right.
    assert sum(table.num_rows > 0 for table in made) > 1
    assert any(pc.any(pc.less(table["diff"], 0)).as_py() for table in made)


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_a_query_of_tpch_is_duckdbs_on_larger_tables(number: int) -> None:
    fed = with_deletions(epochs(number + 1, 8, 300), number + 1, CHANGED)
    assert judge(flow_of(number), SQL[f"q{number}"], fed, 1 + number % 3) == 8
