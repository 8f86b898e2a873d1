"""Queries whose tables are large and whose changes are small: ours, DuckDB's and polars', and their rows.

Every table has the columns ``id`` (which makes rows distinct), ``k`` and ``v``. A change of n rows deletes
n / 2 rows that are there and inserts as many: by ``to_table(weight="w")``, so that what is measured includes
the check that what is deleted was there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One query: its tables, its result by three engines, and the milliseconds a change should take."""

    name: str
    aim_ms: float
    tables: tuple[str, ...]
    query: Callable[..., ps.Table]
    sql: str
    polars: Callable[..., pl.DataFrame]
    keys: Callable[[int], int]
    """How many different keys a table of so many rows has."""
    deletes_largest: bool = False
    """Whether every change deletes the row with the largest value, which is the worst for a maximum."""
    has_text_keys: bool = False
    """Whether keys are texts such as ``key-17``, and not numbers."""


CASES = (
    Case(
        "join",
        6.0,
        ("a", "b"),
        lambda a, b: a.join(b, "k"),
        "select a.id, a.k, a.v, b.id as id_right, b.v as v_right from a join b using (k)",
        lambda a, b: a.join(b, on="k"),
        lambda rows: rows,
    ),
    Case(
        "sum by key",
        2.0,
        ("a",),
        lambda a: a.group_by("k").agg(total=ps.sum("v")),
        "select k, sum(v)::bigint as total from a group by k",
        lambda a: a.group_by("k").agg(pl.col("v").sum().alias("total")),
        lambda rows: rows,
    ),
    Case(
        "sum by text",
        2.0,
        ("a",),
        lambda a: a.group_by("k").agg(total=ps.sum("v")),
        "select k, sum(v)::bigint as total from a group by k",
        lambda a: a.group_by("k").agg(pl.col("v").sum().alias("total")),
        lambda rows: rows,
        has_text_keys=True,
    ),
    Case(
        "max of one group",
        3.0,
        ("a",),
        lambda a: a.group_by("k").agg(most=ps.max("v")),
        "select k, max(v) as most from a group by k",
        lambda a: a.group_by("k").agg(pl.col("v").max().alias("most")),
        lambda _: 1,
        deletes_largest=True,
    ),
    Case(
        "top 10 by key",
        5.0,
        ("a",),
        lambda a: a.top(10, "k", by="v desc"),
        "select id, k, v from a qualify row_number() over (partition by k order by v desc, id) <= 10",
        lambda a: a.sort(["v", "id"], descending=[True, False]).group_by("k").head(10),
        lambda rows: rows // 10,
    ),
    Case(
        "distinct",
        3.0,
        ("a",),
        lambda a: a.select("k").distinct(),
        "select distinct k from a",
        lambda a: a.select("k").unique(),
        lambda rows: rows,
    ),
)


class Rows:
    """A table of random rows, and changes of it; remembers what is there."""

    def __init__(self, case: Case, rows: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._keys = case.keys(rows)
        self._deletes_largest = case.deletes_largest
        self._has_text_keys = case.has_text_keys
        self.ids: Numbers = np.arange(rows)
        self.k, self.v = self._drawn(rows)
        self._next = rows

    def _drawn(self, count: int) -> tuple[Numbers, Numbers]:
        return self._random.integers(0, self._keys, count), self._random.integers(0, 2**40, count)

    def first(self) -> pa.RecordBatch:
        """All rows, as they are inserted at the beginning."""
        return self._batch(self.ids, self.k, self.v, np.ones(len(self.ids), np.int64))

    def change(self, count: int) -> pa.RecordBatch:
        """Delete half as many rows, and insert others in their places."""
        half = count // 2
        at = np.unique(self._random.integers(0, len(self.ids), half))
        if self._deletes_largest:
            at = np.unique(np.append(at[1:], np.argmax(self.v)))
        gone = self.ids[at].copy(), self.k[at].copy(), self.v[at].copy()
        new = np.arange(self._next, self._next + len(at))
        self._next += len(at)
        self.ids[at] = new
        self.k[at], self.v[at] = self._drawn(len(at))
        ones = np.ones(len(at), np.int64)
        columns = zip(gone, (new, self.k[at], self.v[at]), strict=True)
        ids, k, v = (np.concatenate(each) for each in columns)
        return self._batch(ids, k, v, np.concatenate((-ones, ones)))

    def frame(self) -> pl.DataFrame:
        """What is there now."""
        return pl.DataFrame({"id": self.ids, "k": self._keys_of(self.k), "v": self.v})

    def _batch(self, ids: Numbers, k: Numbers, v: Numbers, w: Numbers) -> pa.RecordBatch:
        columns = [pa.array(ids), self._keys_of(k), pa.array(v), pa.array(w)]
        return pa.RecordBatch.from_arrays(columns, names=["id", "k", "v", "w"])

    def _keys_of(self, k: Numbers) -> pa.Array:
        return text_keys(k) if self._has_text_keys else pa.array(k)


def text_keys(numbers: Numbers) -> pa.Array:
    """A text for each number."""
    return pc.binary_join_element_wise("key-", pa.array(numbers).cast(pa.string()), "")


def tables_of(case: Case, rows: int) -> dict[str, Rows]:
    """The tables of a case at its beginning, the same in every run."""
    return {name: Rows(case, rows, seed) for seed, name in enumerate(case.tables)}


def changes_of(tables: dict[str, Rows], epochs: int, count: int) -> Iterator[dict[str, pa.RecordBatch]]:
    """The changes of a case, epoch by epoch."""
    for _ in range(epochs):
        yield {name: rows.change(count) for name, rows in tables.items()}


def flow_of(case: Case) -> ps.Dataflow:
    """The query as a flow, with the changes of its result as the output."""
    flow = ps.Dataflow("tables")
    schema = f"id long, k {'string' if case.has_text_keys else 'long'}, v long, w long"
    given = [flow.table(name, schema, weight="w") for name in case.tables]
    flow.output("out", case.query(*given))
    return flow


def by_duckdb(case: Case, frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The query from scratch."""
    with duckdb.connect() as connection:
        connection.execute("set threads = 2")
        for name, frame in frames.items():
            connection.register(name, frame.to_arrow())
        found: pl.DataFrame = connection.sql(case.sql).pl()
        return found


def added_up(parts: list[pa.Table]) -> pl.DataFrame:
    """What changes add up to; AssertionError if a row is there less than once or an entry is 0."""
    everything = pl.DataFrame(pa.concat_tables(parts))
    assert not (everything["diff"] == 0).any()
    columns = [name for name in everything.columns if name != "diff"]
    sums = everything.group_by(columns).agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
    assert (sums["diff"] == 1).all()
    return sums.drop("diff")


def check_same(one: pl.DataFrame, other: pl.DataFrame, who: str) -> None:
    """AssertionError where two results are not the same rows."""
    other = other.select(one.columns)
    assert one.height == other.height, f"{who}: {one.height} rows and {other.height}"
    assert one.sort(one.columns).equals(other.sort(other.columns)), f"{who}: other rows"
