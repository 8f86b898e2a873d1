"""The answers of Nexmark's queries: what a run emitted, added up, beside DuckDB's answer to all events."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from benchmarks.figures import timed
from examples.nexmark.events import Epochs, Site, side_input
from examples.nexmark.sql import SQL

PER_SECOND = 10_000
"""How many events have one second of event time between them."""


def made_events(events: int, epochs: int) -> Epochs:
    """The inputs of all queries; an epoch is a second or so of event time."""
    made = Site(per_second=PER_SECOND).epochs(events, epochs)
    side = side_input()
    return made | {"side_input": [side, *[side.slice(0, 0)] * (epochs - 1)]}


def all_rows(inputs: Epochs, names: Iterable[str]) -> dict[str, pa.Table]:
    """The rows of all epochs."""
    return {name: pa.concat_tables(inputs[name]) for name in names}


def added_up(results: Mapping[Any, pa.Table]) -> pa.Table:
    """What all epochs of an output add up to: its rows, with how often each is there."""
    found = pa.concat_tables(list(results.values()))
    if "diff" not in found.column_names:
        return found
    with duckdb.connect() as engine:
        engine.register("found", found)
        columns = quoted(name for name in found.column_names if name != "diff")
        asked = f"select {columns}, sum(diff)::bigint as diff from found group by all having diff <> 0"  # noqa: S608
        return engine.sql(asked).to_arrow_table()


def check(query: str, inputs: Mapping[str, pa.Table], answer: pa.Table) -> float:
    """The seconds that DuckDB takes for a query from scratch; AssertionError where its answer is another."""
    with duckdb.connect() as engine:
        for name, table in inputs.items():
            engine.register(name, table)
        seconds, expected = timed(lambda: engine.sql(SQL[query]).to_arrow_table())
    assert_same(query, answer, expected)
    return seconds


def assert_same(query: str, answer: pa.Table, expected: pa.Table) -> None:
    """AssertionError unless two answers have the same rows, each as often; columns go by name."""
    if query == "q12":  # a window is an epoch there, so that only their sum can be compared
        answer, expected = (_summed(each) for each in (answer, expected))
    with duckdb.connect() as engine:
        engine.register("answer", answer)
        engine.register("expected", expected)
        columns = quoted(name for name in expected.column_names if name != "diff")
        ours, theirs = (_counted(table, columns, each) for table, each in
                        (("answer", answer), ("expected", expected)))  # fmt: skip
        wrong: Sequence[Any] = engine.execute(
            f"(select 'too many', * from ({ours} except all {theirs}) limit 3) union all "  # noqa: S608
            f"(select 'too few', * from ({theirs} except all {ours}) limit 3)"
        ).fetchall()
    if wrong:
        raise AssertionError(f"{query}: {wrong}")


def quoted(names: Iterable[str]) -> str:
    """Names as SQL has them."""
    return ", ".join(f'"{name}"' for name in names)


def _counted(table: str, columns: str, found: pa.Table) -> str:
    weight = "sum(diff)" if "diff" in found.column_names else "count(*)"
    return f"select {columns}, {weight} as n from {table} group by {columns}"  # noqa: S608 - our own text


def _summed(counts: pa.Table) -> pa.Table:
    return counts.group_by("bidder").aggregate([("count", "sum")])
