"""What each built-in operator costs in an epoch of 1 to 1,000 rows, on one worker in this process.

    .venv/bin/python -m benchmarks.one_operator [PART OF A NAME]

One JSON line per operator: microseconds of processor time of an epoch of so many rows through it alone, sent,
advanced and its result seen, and in ``beyond`` the same less an epoch through nothing, which is the limit:
what is left is the operator's own. Each is the least of some parts: whoever else uses the machine only adds
to it. Rows are (k, v, s): k of 1,000 keys, v an integer, s a short text. Tables have 10,000 rows when it
begins, and every epoch inserts and none deletes.
"""

import json
import sys
from collections.abc import Callable
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.small_epochs import PARTS

import pointstamp as ps
from pointstamp.driver.local_run import LocalRun

SIZES: Final = (1, 10, 100, 1_000)
KEYS: Final = 1_000
ROWS_BEFORE: Final = 10_000
COLUMNS: Final = "k long, v long, s string"
TIMES: Final = {1: 200, 10: 150, 100: 100, 1_000: 30}
"""How many epochs of a size make a part."""


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What it is given."""
    return batch


BUILT_INS: Final[dict[str, Callable[[ps.Stream], ps.Stream]]] = {
    "nothing": lambda rows: rows,
    "select": lambda rows: rows.select("k", w=ps.col("v") * 2 + 1),
    "drop": lambda rows: rows.drop("s"),
    "filter": lambda rows: rows.filter(ps.col("v") >= 0),
    "filter by pyarrow": lambda rows: rows.filter(pc.field("v") >= 0),
    "branch": lambda rows: rows.split(ps.col("v") >= 0)[0],
    "concat": lambda rows: rows.union(rows),
    "map_batches": lambda rows: rows.map_batches(same),
    "map": lambda rows: rows.map(dict, COLUMNS),
    "count": lambda rows: rows.count("k"),
    "count by text": lambda rows: rows.count("s"),
    "running count": lambda rows: rows.group_by("k", running=True).count(),
    "running count by text": lambda rows: rows.group_by("s", running=True).count(),
    "running sum": lambda rows: rows.group_by("k", running=True).agg(total=ps.sum("v")),
    "running sum, min and mean": lambda rows: rows.group_by("k", running=True).agg(
        total=ps.sum("v"), least=ps.min("v"), typical=ps.mean("v")
    ),
    "sum of an epoch": lambda rows: rows.group_by("k").agg(total=ps.sum("v")),
    "distinct of an epoch": lambda rows: rows.distinct(),
    "top of an epoch": lambda rows: rows.top(3, "k", by="v desc"),
    "join of an epoch": lambda rows: rows.join(rows.drop("s"), "k"),
    "rolling": lambda rows: rows.with_columns(
        typical=ps.mean("v").over(partition_by="k", order_by="v", rows=10)
    ),
    "window": lambda rows: rows.window("v", 10),
    "table": lambda rows: rows.to_table().changes(),
    "table: filter": lambda rows: rows.to_table().filter(ps.col("v") >= 0).changes(),
    "table: count": lambda rows: rows.to_table().count("k").changes(),
    "table: sum": lambda rows: rows.to_table().group_by("k").agg(total=ps.sum("v")).changes(),
    "table: max": lambda rows: rows.to_table().group_by("k").agg(best=ps.max("v")).changes(),
    "table: distinct": lambda rows: rows.to_table().distinct().changes(),
    "table: top": lambda rows: rows.to_table().top(3, "k", by="v desc").changes(),
    "table: join": lambda rows: rows.to_table().join(rows.select("k").to_table().distinct(), "k").changes(),
    "table: minus": lambda rows: rows.to_table().except_(rows.filter(ps.col("v") < 0).to_table()).changes(),
    "table: lookup": lambda rows: rows.lookup(rows.to_table().count("k"), "k"),
    "table: upserts": lambda rows: rows.to_table().count("k").upserts("k"),
}


def main() -> None:
    """Print each built-in."""
    limit: dict[int, float] = {}
    for name, built_in in BUILT_INS.items():
        if name != "nothing" and not any(part in name for part in sys.argv[1:] or [""]):
            continue
        found = {size: microseconds(built_in, size) for size in SIZES}
        limit = limit or found
        beyond = {size: round(us - limit[size]) for size, us in found.items()}
        told = {"case": name, "rows": list(SIZES), "processor_us": [round(us) for us in found.values()]}
        print(json.dumps(told | {"beyond": list(beyond.values())}), flush=True)


def microseconds(built_in: Callable[[ps.Stream], ps.Stream], size: int) -> float:
    """Processor time of one epoch of so many rows."""
    flow = ps.Dataflow("built in")
    flow.output("out", built_in(flow.stream_input("in", COLUMNS)))
    results: list[pa.Table] = []
    run = LocalRun(flow.plan, on_result=lambda name, epoch, table: results.append(table))
    source, epoch = run.input("in"), 0
    rng = np.random.default_rng(17)
    times = TIMES[size]

    def act(batches: list[pa.RecordBatch]) -> None:
        nonlocal epoch
        for batch in batches:
            epoch += 1
            source.send(batch)
            source.advance_to(epoch)
            run.settle()
            results.clear()

    act([rows(rng, ROWS_BEFORE)])
    assert run.is_done("out", 0)
    found = []
    for _ in range(PARTS + 1):
        batches = [rows(rng, size) for _ in range(times)]
        started = process_time()
        act(batches)
        found.append((process_time() - started) / times * 1e6)
    return min(found[1:])


def rows(rng: np.random.Generator, count: int) -> pa.RecordBatch:
    """So many rows."""
    keys = rng.integers(0, KEYS, count)
    values = rng.integers(0, 1_000_000, count)
    texts = pa.array([f"key {key}" for key in keys.tolist()])
    return pa.record_batch({"k": keys, "v": values, "s": texts})


if __name__ == "__main__":
    main()
