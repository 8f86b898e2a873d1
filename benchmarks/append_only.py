"""Counts of rows that only arrive: a running reduction of a stream, and an aggregation of a table.

    .venv/bin/python -m benchmarks.append_only [ROWS]

One JSON line per case: seconds of processor time of both, the least of some turns in one process and on one
worker, and their ratio. Rows have one of 100,000 keys; ``count`` counts them, ``sum`` adds a column
up, too. They arrive in one epoch, and in 1,000 epochs of 1,000 rows.

To beat: a ratio of 1.1 at counts.
"""

import json
import sys
from collections.abc import Callable, Mapping
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa

import pointstamp as ps

KEYS: Final = 100_000
ROWS: Final = 10_000_000
TURNS: Final = 3
BATCH_ROWS: Final = 262_144

Made = Callable[[ps.Stream], "ps.Stream | ps.Table"]
CASES: Final[Mapping[str, Mapping[str, Made]]] = {
    "count": {
        "running": lambda rows: rows.group_by("key", running=True).count(),
        "table": lambda rows: rows.to_table().group_by("key").count(),
    },
    "sum": {
        "running": lambda rows: rows.group_by("key", running=True).agg(total=ps.sum("value")),
        "table": lambda rows: rows.to_table().group_by("key").agg(total=ps.sum("value")),
    },
}


def main() -> None:
    """Measure each case with both."""
    rows = int(sys.argv[1]) if sys.argv[1:] else ROWS
    rng = np.random.default_rng(17)
    one = [table(rng, rows)]
    small = [table(rng, 1_000) for _ in range(1_000)]
    for name, ways in CASES.items():
        for epochs in (one, small):
            found: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(TURNS):
                for way, made in ways.items():
                    found[way].append(seconds(made, epochs))
            least = {f"{way}_seconds": round(min(times), 3) for way, times in found.items()}
            ratio = round(least["table_seconds"] / least["running_seconds"], 2)
            said = {"case": name, "epochs": len(epochs), "rows": sum(map(len, epochs)), "keys": KEYS}
            print(json.dumps({**said, **least, "table_to_running": ratio}), flush=True)


def table(rng: np.random.Generator, rows: int) -> pa.Table:
    """So many rows, in batches."""
    keys, values = rng.integers(0, KEYS, rows), rng.integers(0, 1_000, rows)
    whole = pa.table({"key": keys, "value": values})
    return pa.Table.from_batches(whole.to_batches(max_chunksize=BATCH_ROWS))


def seconds(made: Made, epochs: list[pa.Table]) -> float:
    """Processor time of all epochs, each result seen and dropped."""
    flow = ps.Dataflow("append only")
    flow.output("out", made(flow.stream_input("rows", "key long, value long")))
    began, seen = process_time(), 0
    for _, tables in flow.stream(epochs):
        seen += tables["out"].num_rows
    spent = process_time() - began
    assert seen >= min(KEYS, sum(map(len, epochs))) // 2
    return spent


if __name__ == "__main__":
    main()
