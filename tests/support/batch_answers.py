"""What a flow is fed, epoch by epoch with deletions, and the comparison of its result with DuckDB's answer.

DuckDB is asked from scratch after every epoch, over the rows that are there then; they are kept beside the
changes, and not worked out of them. The comparison itself is a query, so that a hundred thousand rows take no
time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.flow.plan import NodeKind

WEIGHT = "w"
"""The column of weights of inputs with deletions."""

Epochs: TypeAlias = Mapping[str, Sequence[pa.Table]]
"""For each input a table for each epoch."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What a flow is fed in each epoch, and the rows that are there after it."""

    changes: Epochs
    there: Epochs

    def __or__(self, other: "Fed") -> "Fed":
        """The inputs of both."""
        return Fed({**self.changes, **other.changes}, {**self.there, **other.there})


def flowing(epochs: Epochs) -> Fed:
    """Streams: of each nothing is there but the rows of the epoch."""
    return Fed(epochs, epochs)


def inserted(epochs: Epochs) -> Fed:
    """Tables to which rows are only added."""
    there = {
        name: [pa.concat_tables(tables[: n + 1]) for n in range(len(tables))]
        for name, tables in epochs.items()
    }
    return Fed(epochs, there)


def with_deletions(epochs: Epochs, seed: int, changed: Mapping[str, str]) -> Fed:
    """The same rows with weights; in each epoch a tenth of those before is deleted, and half of it replaced.

    A row that is replaced has another value in the column that is named for its input.
    """
    random = np.random.default_rng(seed)
    changes: dict[str, list[pa.Table]] = {name: [] for name in epochs}
    after: dict[str, list[pa.Table]] = {name: [] for name in epochs}
    for name, tables in epochs.items():
        there = tables[0].slice(0, 0)
        for new in tables:
            is_gone = random.random(there.num_rows) < 0.1
            gone = there.filter(pa.array(is_gone))
            other = _with_other_values(gone.slice(gone.num_rows // 2), changed[name])
            changes[name].append(pa.concat_tables([_weighed(new, 1), _weighed(gone, -1), _weighed(other, 1)]))
            there = pa.concat_tables([there.filter(pa.array(~is_gone)), new, other])
            after[name].append(there)
    return Fed(changes, after)


def _with_other_values(table: pa.Table, column: str) -> pa.Table:
    """Each row with the value that another one has."""
    position = table.schema.get_field_index(column)
    values = table.column(position).combine_chunks()
    return table.set_column(position, table.schema.field(position), values[::-1])


def _weighed(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(np.full(table.num_rows, weight)))


def judge(flow: ps.Dataflow, sql: str, fed: Fed, workers: int) -> int:
    """How many epochs were compared, as ``judged`` does."""
    return len(judged(flow, sql, fed, workers))


def judged(flow: ps.Dataflow, sql: str, fed: Fed, workers: int) -> list[pa.Table]:
    """What each epoch emitted, compared; AssertionError names the first that is not DuckDB's answer.

    DuckDB is asked of what is there of each input, and of the rows of an epoch where an input is a stream.
    """
    names = list(flow.plan.named(NodeKind.INPUT))
    results = flow.run({name: fed.changes[name] for name in names}, workers=workers)["result"]
    epochs = len(fed.changes[names[0]])
    so_far: list[pa.Table] = []
    engine = _engine()
    try:
        for epoch in range(epochs):
            found, who = results[epoch], f"{flow.name} on {workers} workers, epoch {epoch}"
            if "diff" in found.column_names:
                assert not (twice := _twice(engine, found)), f"{who}: {twice}"
                so_far.append(found)
                found = pa.concat_tables(so_far)
            wrong = _differences(engine, sql, {name: fed.there[name][epoch] for name in names}, found)
            assert not wrong, f"{who}: {wrong}"
    finally:
        for name in names:
            engine.unregister(name)
    return [results[epoch] for epoch in range(epochs)]


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One for all questions, because to make one takes longer than most of them; its zone is the views'."""
    engine = duckdb.connect(config={"threads": 1})
    engine.execute("set TimeZone = 'UTC'")  # else it is that of the machine
    return engine


def _twice(engine: duckdb.DuckDBPyConnection, changes: pa.Table) -> Sequence[Any]:
    """Rows of which an epoch has several changes, or one that is none."""
    engine.register("changes", changes)
    columns = _quoted(changes.column_names[:-1])
    return engine.execute(
        f"select {columns}, count(*), min(diff) from changes group by {columns} "  # noqa: S608 - our own text
        "having count(*) > 1 or bool_or(diff = 0) limit 3"
    ).fetchall()


def _differences(
    engine: duckdb.DuckDBPyConnection, sql: str, inputs: Mapping[str, pa.Table], found: pa.Table
) -> Sequence[Any]:
    """Some rows that are there too often or too seldom, with how often they are, or should be."""
    for name, table in inputs.items():
        engine.register(name, table)
    engine.register("found", found)
    columns = _quoted(name for name in found.column_names if name != "diff")
    weight = "sum(diff)" if "diff" in found.column_names else "count(*)"
    ours = f"select {columns}, {weight} as n from found group by {columns} having {weight} <> 0"  # noqa: S608
    theirs = f"select {columns}, count(*) as n from ({sql}) group by {columns}"  # noqa: S608
    return engine.execute(
        f"(select 'too many', * from ({ours} except all {theirs}) limit 3) union all "  # noqa: S608
        f"(select 'too few', * from ({theirs} except all {ours}) limit 3)"
    ).fetchall()


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
