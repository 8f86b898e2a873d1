"""Half floats: Arrow has few kernels for them, and every operation gives what it gives for floats.

What floats give is judged beside DuckDB elsewhere (``test_aggregates``, ``test_law``); here the same rows
come as halves and as floats, with weights, nulls, NaN and both zeros, and the answers must be the same.
"""

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps

VALUES = (None, float("nan"), -0.0, 0.0, 1.5, -2.0, 1024.0)
AGGREGATES = [
    "count",
    "count_distinct",
    "sum",
    "mean",
    "min",
    "max",
    "median",
    "var_samp",
    "stddev_pop",
    "collect_list",
    "collect_set",
]

Make = Callable[[ps.Table], ps.Table]
QUERIES: dict[str, Make] = {
    **{name: lambda t, name=name: t.group_by("k").agg(v=getattr(ps, name)("h")) for name in AGGREGATES},  # type: ignore[misc]
    "max_by": lambda t: t.group_by("k").agg(v=ps.max_by("n", "h")),
    "first": lambda t: t.group_by("k").agg(v=ps.first("h", by="n")),
    "quantile": lambda t: t.group_by("k").agg(v=ps.quantile("h", 0.3)),
    "key": lambda t: t.count("h"),
    "distinct": lambda t: t.select("h").distinct(),
    "top": lambda t: t.top(2, "k", by=["h desc", "n"]),
    "join": lambda t: t.join(t, "h"),
    "left join": lambda t: t.join(t.filter(ps.col("n") > 1), "h", how="left"),
    "with order": lambda t: t.with_columns(
        before=ps.lag("h").over(partition_by="k", order_by=["h", "n"]),
        low=ps.min("h").over(partition_by="k", order_by=["h", "n"]),
    ),
    "minus": lambda t: t.select("h").except_(t.filter(ps.col("n") > 1).select("h")),
    "expression": lambda t: t.select(x=ps.col("h") + 1, y=ps.col("h") > 1),
}


def rows(seed: int) -> list[list[tuple[int, float | None, int, int]]]:
    """Epochs of rows that come, and of some that go again."""
    rng = random.Random(seed)
    there: list[tuple[int, float | None, int]] = []
    epochs = []
    for _ in range(4):
        new = [(rng.randrange(2), rng.choice(VALUES), rng.randrange(4)) for _ in range(6)]
        gone = [there.pop(rng.randrange(len(there))) for _ in range(min(3, len(there)))]
        there += new
        epochs.append([*((*row, 1) for row in new), *((*row, -1) for row in gone)])
    return epochs


def put_out_with(half: pa.DataType, make: Make, seed: int) -> list[Counter[str]]:
    schema = pa.schema({"k": pa.int64(), "h": half, "n": pa.int64(), "w": pa.int64()})
    flow = ps.Dataflow("halves")
    flow.output("result", make(flow.table("rows", schema, weight="w")))
    to = np.float16 if half == pa.float16() else float
    epochs = [
        pa.table(
            [
                pa.array([row[0] for row in epoch], pa.int64()),
                pa.array([None if row[1] is None else to(row[1]) for row in epoch], half),
                pa.array([row[2] for row in epoch], pa.int64()),
                pa.array([row[3] for row in epoch], pa.int64()),
            ],
            schema=schema,
        )
        for epoch in rows(seed)
    ]
    totals: Counter[str] = Counter()
    made = []
    for changes in flow.run(rows=epochs, workers=2)["result"].values():
        for row in changes.to_pylist():
            weight = row.pop("diff")
            totals[str(list(row.values()))] += weight
        made.append(Counter({row: count for row, count in totals.items() if count}))
    return made


@pytest.mark.parametrize("make", QUERIES.values(), ids=QUERIES)
def test_halves_give_what_floats_give(make: Make) -> None:
    for seed in range(2):
        assert put_out_with(pa.float16(), make, seed) == put_out_with(pa.float32(), make, seed)
