"""Each of the 23 queries of Nexmark is DuckDB's after every epoch.

- with events as the generator makes them, out of order, on one and two workers;
- with deletions and updates of people, auctions and bids, for the queries that keep tables;
- the generator itself: the same for the same seed, in the known proportions, out of order within its bound.

examples/nexmark/sql.py has each query in SQL, support/batch_answers.py the comparison.
"""

import inspect
from typing import Any

import numpy as np
import pytest
from examples.nexmark import queries
from examples.nexmark.events import SCHEMAS, Site, side_input
from examples.nexmark.flows import Query, flow_of, inputs_of
from examples.nexmark.sql import SQL

import pointstamp as ps
from support.batch_answers import Fed, flowing, inserted, judge, with_deletions

QUERIES: list[Query] = [
    each for name, each in inspect.getmembers(queries, inspect.isfunction) if name[1:].isdigit()
]
TABLES = [each for each in QUERIES if ps.Table in inputs_of(each).values()]

CHANGED = {"person": "state", "auction": "category", "bid": "price", "side_input": "value"}
"""The column that differs when a row is replaced."""


def name_of(query: Query) -> str:
    return query.__name__


def site(query: Query, events: int, epochs: int, seed: int, *, deleting: bool = False) -> Fed:
    """The inputs of a query; with deletions, those that it takes as tables have some."""
    made: dict[str, Any] = dict(Site(seed).epochs(events, epochs))
    made["side_input"] = [side_input().slice(n * 1_000, 1_000) for n in range(epochs)]
    inputs = inputs_of(query)
    streams = flowing({name: made[name] for name in inputs if inputs[name] is ps.Stream})
    tables = {name: made[name] for name in inputs if inputs[name] is ps.Table}
    return streams | (with_deletions(tables, seed, CHANGED) if deleting else inserted(tables))


@pytest.mark.parametrize("query", QUERIES, ids=name_of)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_query_of_nexmark_is_duckdbs_after_every_epoch(query: Query, workers: int) -> None:
    fed = site(query, 6_000, 5, seed=workers)
    assert judge(flow_of(query), SQL[query.__name__], fed, workers) == 5


@pytest.mark.parametrize("query", TABLES, ids=name_of)
def test_a_query_of_nexmark_is_duckdbs_when_rows_are_deleted_and_replaced(query: Query) -> None:
    fed = site(query, 4_000, 4, seed=3, deleting=True)
    assert judge(flow_of(query, with_deletions=True), SQL[query.__name__], fed, 2) == 4


@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES, ids=name_of)
def test_a_query_of_nexmark_is_duckdbs_on_a_hundred_thousand_events(query: Query) -> None:
    fed = site(query, 100_000, 10, seed=0)
    assert judge(flow_of(query), SQL[query.__name__], fed, 1 + QUERIES.index(query) % 2) == 10


@pytest.mark.long
@pytest.mark.parametrize("query", TABLES, ids=name_of)
def test_a_query_of_nexmark_is_duckdbs_on_many_events_with_deletions(query: Query) -> None:
    fed = site(query, 100_000, 10, seed=4, deleting=True)
    assert judge(flow_of(query, with_deletions=True), SQL[query.__name__], fed, 1) == 10


def test_there_are_23_queries_and_each_is_said_in_sql() -> None:
    assert {query.__name__ for query in QUERIES} == {f"q{n}" for n in range(23)} == set(SQL)


def test_the_same_seed_makes_the_same_events_and_another_one_others() -> None:
    assert Site(5).epochs(1_000, 3) == Site(5).epochs(1_000, 3)
    assert Site(5).epochs(1_000, 3) != Site(6).epochs(1_000, 3)


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_others_bids() -> None:
    made = Site().epochs(5_000, 7)
    assert {name: sum(table.num_rows for table in tables) for name, tables in made.items()} == {
        "person": 100,
        "auction": 300,
        "bid": 4_600,
    }
    for name, tables in made.items():
        flow = ps.Dataflow("schemas")
        assert all(table.schema.equals(flow.stream_input(name, SCHEMAS[name]).schema) for table in tables[:1])


def test_events_are_out_of_order_and_by_no_more_than_the_bound() -> None:
    times = Site(disorder_seconds=2.0).between(0, 20_000)["bid"]["date_time"].to_numpy()
    seconds = times.astype("datetime64[us]").astype(np.int64) / 1e6
    behind = np.maximum.accumulate(seconds) - seconds
    assert 1.0 < behind.max() <= 2.0
