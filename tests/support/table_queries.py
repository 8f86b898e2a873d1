"""Queries over tables beside DuckDB, and loops beside brute force: what the law of tables is judged by.

A query is said twice, as operations on tables and as SQL, and both are asked after every epoch. The oracles
work on plain lists of rows and share no code with what they judge.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

import pointstamp as ps

Row: TypeAlias = tuple[Any, ...]
"""The values of a row, the weight last where it is a change."""

Epochs: TypeAlias = Sequence[Sequence[Row]]

ENGINE = duckdb.connect(config={"threads": 1})

# k is a key that often meets; v has duplicates, nulls and NaN.
LEFT = pa.schema({"k": pa.int64(), "s": pa.string(), "v": pa.float64(), "w": pa.int64()})
RIGHT = pa.schema({"k": pa.int64(), "n": pa.int64(), "w": pa.int64()})

_KEYS = st.one_of(st.none(), st.integers(0, 3))
_FLOATS = st.sampled_from([None, 0.5, -0.0, 0.0, float("nan"), 1e16, 3.0])
LEFT_ROWS = st.tuples(_KEYS, st.sampled_from([None, "", "a", "b"]), _FLOATS)
RIGHT_ROWS = st.tuples(_KEYS, st.one_of(st.none(), st.integers(-2, 2)))


@dataclass(frozen=True)
class Query:
    """A query over the tables a and b whose result has the columns k and n."""

    text: str
    make: Callable[[ps.Table, ps.Table], ps.Table]
    sql: str

    def __repr__(self) -> str:
        return self.text


@st.composite
def changes(draw: st.DrawFn, rows: st.SearchStrategy[Row], epochs: int) -> list[list[Row]]:
    """For each epoch rows with +1 or -1; nothing is deleted that is not there."""
    there: list[Row] = []
    made = []
    for _ in range(epochs):
        now = [(*row, 1) for row in draw(st.lists(rows, max_size=5))]
        gone = []
        if there:
            for position in sorted(draw(st.sets(st.integers(0, len(there) - 1), max_size=3)), reverse=True):
                gone.append((*there.pop(position), -1))
        there.extend(row[:-1] for row in now)
        made.append(now + gone)
    return made


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows as an Arrow table, which is a part of a larger one: its columns begin with an offset."""
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * len(schema)
    arrays = [
        shifted_array(pa.array(column, field.type)) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


def shifted_array(values: pa.Array) -> pa.Array:
    """The same values as a slice of an array that has others before and behind them."""
    if not len(values):
        return values
    return pa.concat_arrays([values.slice(len(values) - 1), values, values.slice(0, 1)]).slice(1, len(values))


def accumulated(epochs: Epochs) -> list[Row]:
    """The rows that are there: inserted ones without deleted ones, by brute force."""
    there: list[Row] = []
    for rows in epochs:
        there.extend(row[:-1] for row in rows if row[-1] > 0)
        for row in rows:
            if row[-1] < 0:
                there.pop(next(i for i, other in enumerate(there) if repr(other) == repr(row[:-1])))
    return there


def put_out(results: Any, epochs: int) -> list[Counter[Row]]:  # noqa: ANN401 - the tables of an output
    """What an output adds up to after each epoch; AssertionError for a row without a weight, or one twice."""
    total: Counter[Row] = Counter()
    made = []
    for epoch in range(epochs):
        seen = set()
        for row in results[epoch].to_pylist() if epoch in results else []:
            weight = row.pop("diff")
            known = canonical(tuple(row.values()))
            assert weight, f"epoch {epoch} has {known} without a weight"
            assert known not in seen, f"epoch {epoch} has {known} twice"
            seen.add(known)
            total[known] += weight
        made.append(Counter({row: count for row, count in total.items() if count}))
    return made


def canonical(row: Row) -> Row:
    """A row whose equal values are equal in Python, too: one NaN, one zero."""
    return tuple(
        "nan" if value != value else value + 0 if isinstance(value, float) else value for value in row
    )


def judge(
    query: Query, left: Epochs, right: Epochs, workers: int, memory_per_worker: int | None = None
) -> None:
    """AssertionError where a query does not add up to DuckDB's answer after some epoch."""
    flow = ps.Dataflow("law")
    if memory_per_worker is not None:
        flow.spill_beyond(memory_per_worker)
    a, b = (flow.table(name, schema, weight="w") for name, schema in (("a", LEFT), ("b", RIGHT)))
    flow.output("result", query.make(a, b))
    results = flow.run(
        a=[table_of(rows, LEFT) for rows in left],
        b=[table_of(rows, RIGHT) for rows in right],
        workers=workers,
    )
    for epoch, total in enumerate(put_out(results["result"], len(left))):
        assert total == asked(query.sql, left[: epoch + 1], right[: epoch + 1]), f"{query}, epoch {epoch}"


def asked(sql: str, left: Epochs, right: Epochs) -> Counter[Row]:
    """DuckDB's answer for the inputs up to some epoch."""
    ENGINE.register("a", table_of([(*row, 1) for row in accumulated(left)], LEFT))
    ENGINE.register("b", table_of([(*row, 1) for row in accumulated(right)], RIGHT))
    found = ENGINE.execute(f"select k, n from ({sql})").fetchall()  # noqa: S608 - our own text
    return Counter(map(canonical, found))
