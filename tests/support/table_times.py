"""Tables at times that a test chooses: rows that are counted from given rounds of two loops on.

Outside a loop only sums over all rounds can be seen, and these are right of many a table that is wrong
inside. So rows here say the rounds at which they are to arrive, walk around two loops until they are there,
and what the table emits is stamped with the rounds of its time. The oracle then looks at every time: what
was emitted up to it, in the product order of epochs and rounds, is the query of what arrived up to it.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp import functions
from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.dataflow.record import physical_of
from pointstamp.flow.outlet import add_operator
from pointstamp.incremental.physical_table import deltas_of
from pointstamp.incremental.stateless import Appended
from support.by_hand import by_hand
from support.table_queries import Row, table_of

ROWS = pa.schema(
    {"k": pa.int64(), "n": pa.int64(), "outer": pa.int64(), "inner": pa.int64(), "w": pa.int64()}
)
WEIGHED = pa.schema([ROWS.field("k"), ROWS.field("n"), DIFF_FIELD])
ROUNDS = 3

Changes = list[list[Row]]


class Stamp:
    """Sends rows with the rounds of their time."""

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        rounds = [pa.array(np.full(batch.num_rows, each)) for each in context.time[1:]]
        context.send(pa.RecordBatch.from_arrays([*batch.columns, *rounds], schema=context.schema()))


def self_join(table: ps.Table) -> ps.Table:
    """Rows with an even number beside those of their key with an odd one."""
    even, odd = (table.filter(ps.col("n") % 2 == rest) for rest in (0, 1))
    return even.join(odd, "k").select("k", n=ps.col("n") * 10 + ps.col("n_right"))


def joined_rows(rows: Counter[Row]) -> Counter[Row]:
    """The same by brute force."""
    made: Counter[Row] = Counter()
    for ((k, n), one), ((other, m), two) in product(rows.items(), rows.items()):
        if k == other and n % 2 == 0 and m % 2 == 1:
            made[(k, n * 10 + m)] += one * two
    return made


def counted_rows(rows: Counter[Row]) -> Counter[Row]:
    """How many rows each key has."""
    counts: Counter[int] = Counter()
    for (k, _), count in rows.items():
        counts[k] += count
    return Counter((k, count) for k, count in counts.items() if count)


def placed_rows(rows: Counter[Row]) -> Counter[Row]:
    """Every copy of a row with its place among those of its key, the greatest first."""
    made: Counter[Row] = Counter()
    for key in {k for k, _ in rows}:
        values = sorted((n for k, n in rows.elements() if k == key), reverse=True)
        made.update((key, n * 10 + at) for at, n in enumerate(values, 1))
    return made


Maker = Callable[[ps.Table], ps.Table]
QUERIES: dict[str, tuple[Maker, Callable[[Counter[Row]], Counter[Row]]]] = {
    "distinct": (lambda t: t.distinct(), lambda rows: Counter(dict.fromkeys(rows, 1))),
    "count": (lambda t: t.group_by("k").agg(n=ps.count()), counted_rows),
    "different": (
        lambda t: t.group_by("k").agg(n=ps.count_distinct("n")),
        lambda rows: counted_rows(Counter({*rows})),
    ),
    "count of all": (
        lambda t: t.agg(n=ps.count()).select(k=ps.lit(0, "long"), n=ps.col("n")),
        lambda rows: Counter([(0, rows.total())]),
    ),
    "place": (
        lambda t: t.with_columns(at=ps.row_number().over(partition_by="k", order_by="n desc")).select(
            "k", n=ps.col("n") * 10 + ps.col("at")
        ),
        lambda rows: placed_rows(rows),
    ),
    "join": (self_join, joined_rows),
    "anti join": (
        lambda t: t.filter(ps.col("n") % 2 == 0)
        .join(t.filter(ps.col("n") % 2 == 1), "k", how="anti")
        .group_by("k").agg(n=ps.max("n")),
        lambda rows: _greatest_alone(rows),
    ),
    "as of": (
        lambda t: t.filter(ps.col("n") % 2 == 0)
        .join_asof(t.filter(ps.col("n") % 2 == 1), "k", at="n", how="left", direction="forward")
        .select("k", n=ps.col("n") * 10 + functions.coalesce(ps.col("n_right"), -1)),
        lambda rows: _followed(rows),
    ),
}  # fmt: skip


def _followed(rows: Counter[Row]) -> Counter[Row]:
    """Even rows beside the next odd one of their key."""
    made: Counter[Row] = Counter()
    for (k, n), count in rows.items():
        if n % 2 == 0:
            made[
                (k, n * 10 + min((m for other, m in rows if other == k and m % 2 == 1 and m > n), default=-1))
            ] += count
    return made


def _greatest_alone(rows: Counter[Row]) -> Counter[Row]:
    odd = {k for k, n in rows if n % 2 == 1}
    even = [(k, n) for k, n in rows if n % 2 == 0 and k not in odd]
    return Counter((k, max(n for other, n in even if other == k)) for k in {k for k, _ in even})


def timed_flow(query: str) -> ps.Dataflow:
    """A query in a loop in a loop, over rows that arrive at the rounds that they say."""
    flow = ps.Dataflow("timed")
    rows = flow.stream_input("rows", ROWS)
    with rows.loop("outer") as outer:
        again = outer.variable(ROWS)
        here, later = outer.enter(rows).union(again).split(ps.col("outer") <= 0)
        outer.feedback(again, later.with_columns(outer=ps.col("outer") - 1))
        with here.loop("inner") as inner:
            once_more = inner.variable(ROWS)
            now, after = inner.enter(here).union(once_more).split(ps.col("inner") <= 0)
            inner.feedback(once_more, after.with_columns(inner=ps.col("inner") - 1))
            logic = partial(Appended, WEIGHED, "w")
            table = ps.Table(
                by_hand(now, add_operator("arrive", logic, {"in": physical_of(now)}, {"out": WEIGHED})[0])
            )
            made = deltas_of(physical_of(QUERIES[query][0](table)))
            stamped = pa.schema([*made.schema, ("outer", pa.int64()), ("inner", pa.int64())])
            out = by_hand(now, add_operator("stamp", Stamp, {"in": made}, {"out": stamped})[0])
            left = inner.leave(out)
        flow.output("stamped", outer.leave(left))
    return flow


def timed_changes(seed: int, epochs: int = 4) -> Changes:
    """Rows that come at random rounds, and go in later epochs, at rounds at which they are there."""
    rng = random.Random(seed)
    there: list[Row] = []
    made = []
    for _ in range(epochs):
        gone = [there.pop(rng.randrange(len(there))) for _ in range(min(len(there), rng.randrange(4)))]
        new = [(rng.randrange(2), *(rng.randrange(ROUNDS) for _ in range(3))) for _ in range(4)]
        there.extend(new)
        made.append([(*row, 1) for row in new] + [(*_later(rng, row), -1) for row in gone])
    return made


def _later(rng: random.Random, row: Row) -> Row:
    k, n, outer, inner = row
    return k, n, max(outer, rng.randrange(ROUNDS)), max(inner, rng.randrange(ROUNDS))


def judge_times(query: str, changes: Changes, workers: int = 1) -> None:
    """AssertionError where the query is not what it should be at some time."""
    flow = timed_flow(query)
    results = flow.run(rows=[table_of(rows, ROWS) for rows in changes], workers=workers)["stamped"]
    sent: list[tuple[int, Row]] = []
    for epoch in range(len(changes)):
        sent += [(epoch, tuple(row.values())) for row in _rows(results, epoch)]
        arrived = [row for each in changes[: epoch + 1] for row in each]
        for at in product(range(ROUNDS), repeat=2):
            there = _up_to(((k, n), w, (o, i)) for k, n, o, i, w in arrived)(at)
            put_out = _up_to(((k, n), w, (o, i)) for _, (k, n, w, o, i) in sent)(at)
            assert put_out == QUERIES[query][1](there), f"{query} at epoch {epoch}, rounds {at}"


def _rows(results: Any, epoch: int) -> list[dict[str, Any]]:  # noqa: ANN401 - the tables of an output
    return results[epoch].to_pylist() if epoch in results else []


def _up_to(rows: Iterable[tuple[Row, int, Row]]) -> Callable[[Row], Counter[Row]]:
    kept = list(rows)

    def at(rounds: Row) -> Counter[Row]:
        total: Counter[Row] = Counter()
        for row, weight, own in kept:
            if all(a <= b for a, b in zip(own, rounds, strict=True)):
                total[row] += weight
        return Counter({row: weight for row, weight in total.items() if weight})

    return at
