"""Aggregates and functions in an order beside DuckDB: one table with columns of many types, asked in SQL."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import pointstamp as ps
from support.table_queries import ENGINE, Epochs, Row, accumulated, table_of

SALES = pa.schema(
    {
        "k": pa.int64(),
        "s": pa.string(),
        "v": pa.float64(),
        "n": pa.int64(),
        "d": pa.decimal128(10, 2),
        "ok": pa.bool_(),
        "w": pa.int64(),
    }
)

SALES_ROWS = st.tuples(
    st.one_of(st.none(), st.integers(0, 1)),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, 0.5, -0.0, 0.0, 3.25, 1e9]),
    st.one_of(st.none(), st.integers(-2, 3), st.just(2**60)),
    st.sampled_from([None, Decimal("0.01"), Decimal("-2.50"), Decimal("99999999.99")]),
    st.sampled_from([None, True, False]),
)


@dataclass(frozen=True)
class Asked:
    """Something that is asked of the table a, and the same in SQL, column by column."""

    make: Callable[[ps.Table], ps.Table]
    sql: str


def judge_sales(asked: Asked, epochs: Epochs, workers: int = 1) -> None:
    """AssertionError where what was emitted does not add up to DuckDB's answer after some epoch."""
    flow = ps.Dataflow("law")
    made = asked.make(flow.table("a", SALES, weight="w"))
    flow.output("result", made)
    results = flow.run(a=[table_of(rows, SALES) for rows in epochs], workers=workers)["result"]
    total: Counter[Row] = Counter()
    for epoch in range(len(epochs)):
        for row in results[epoch].to_pylist() if epoch in results else []:
            weight = row.pop("diff")
            assert weight, f"epoch {epoch} has {row} without a weight"
            total[rounded(row.values())] += weight
        total = Counter({row: count for row, count in total.items() if count})
        wanted = answer(asked.sql, epochs[: epoch + 1])
        assert total == wanted, f"epoch {epoch}: too many {total - wanted}, too few {wanted - total}"


def answer(sql: str, epochs: Epochs) -> Counter[Row]:
    """DuckDB's answer for the rows that are there."""
    ENGINE.register("a", table_of([(*row, 1) for row in accumulated(epochs)], SALES))
    return Counter(map(rounded, ENGINE.execute(sql).fetchall()))


def rounded(row: Sequence[Any]) -> Row:
    """A row whose equal values are equal in Python, too; doubles to twelve digits."""
    return tuple(map(_rounded, row))


def _rounded(value: Any) -> Any:  # noqa: ANN401 - of any type
    if isinstance(value, list):
        return rounded(value)
    if isinstance(value, float):
        # Times pi, because a standard deviation may lie just between two numbers of twelve digits.
        return "nan" if math.isnan(value) else float(f"{value * math.pi:.12g}") + 0.0
    return value
