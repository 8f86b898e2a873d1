"""What the hash and the split of a batch cost: rows per second, against named peers in the same run.

    .venv/bin/python benchmarks/hashing.py

One JSON line per case, batch size and peer. ``rows_per_s`` is ours, ``peer_rows_per_s`` that of the peer on
the same rows, ``ratio`` ours over the peer's: above 1 we are faster. The peers are numpy's argsort of int64,
which is what a sort-based exchange would cost at least, and polars (Rust, with as many threads as it likes),
whose ``hash_rows`` promises no stability between versions and which therefore cannot be used itself.

To beat, at 8,192 rows, the size that a dataflow sends: hashing one int64 key is within a quarter of polars,
splitting is faster than polars does it and faster than one argsort, and 8 workers cost what 2 do. Strings are
hashed by a dozen passes of numpy where polars has one loop: a fifth of its speed is what to expect.
"""

import json
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
import polars as pl
import pyarrow as pa

from pointstamp.arrow.row_hashing import hash_columns, partition

BATCH_ROWS = (8_192, 1_000_000)
ROWS_PER_CASE = 4_000_000
REPEATS_MIN = 15

Act = Callable[[], object]


def rows_per_s(ours: Act, theirs: Act, rows: int) -> tuple[float, float]:
    """The best of several repeats of each, taken in turns so that both meet the same machine."""
    best = [float("inf"), float("inf")]
    for _ in range(max(REPEATS_MIN, ROWS_PER_CASE // rows)):
        for which, act in enumerate((ours, theirs)):
            start = perf_counter()
            act()
            best[which] = min(best[which], perf_counter() - start)
    return rows / best[0], rows / best[1]


def edges(rows: int) -> pa.RecordBatch:
    """Edges between random nodes, each with a short name of its source."""
    random = np.random.default_rng(7)
    src, dst = random.integers(0, 1 << 40, rows), random.integers(0, 1 << 40, rows)
    names = [f"n{node % 1_000_000}" for node in src.tolist()]
    return pa.record_batch({"src": src, "dst": dst, "name": names})


def polars_partition(frame: pl.DataFrame, keys: list[str], workers: int) -> list[pl.DataFrame]:
    """The same split in polars: hash, worker, stable groups."""
    worker = frame.select(keys).hash_rows() % workers
    return frame.with_columns(worker=worker).partition_by("worker", maintain_order=True, include_key=False)


def cases(batch: pa.RecordBatch) -> list[tuple[str, Act, dict[str, Act]]]:
    """Name, our act, and the acts of the peers on the same rows."""
    frame = pl.DataFrame(batch)
    src = batch.column("src").to_numpy()
    argsort: dict[str, Act] = {"numpy argsort of int64": lambda: np.argsort(src)}
    found: list[tuple[str, Act, dict[str, Act]]] = []
    for name, keys in {"int64": ["src"], "short string": ["name"], "int64 + string": ["src", "name"]}.items():
        picked = frame.select(keys)
        act: Act = partial(hash_columns, batch, keys)
        found.append((f"hash_columns, {name}", act, {"polars hash_rows": picked.hash_rows, **argsort}))
    pairs = batch.select(["src", "dst"])
    for workers in (2, 8):
        act = partial(partition, pairs, ["src"], workers)
        theirs = partial(polars_partition, frame.select(["src", "dst"]), ["src"], workers)
        peers: dict[str, Act] = {"polars hash_rows + partition_by": theirs, **argsort}
        found.append((f"partition by int64, {workers} workers", act, peers))
    return found


def main() -> None:
    """Print one line per case, batch size and peer."""
    for rows in BATCH_ROWS:
        for name, act, peers in cases(edges(rows)):
            for peer, peer_act in peers.items():
                ours, theirs = rows_per_s(act, peer_act, rows)
                line = {
                    "case": name,
                    "batch_rows": rows,
                    "rows_per_s": round(ours),
                    "peer": peer,
                    "peer_rows_per_s": round(theirs),
                    "ratio": round(ours / theirs, 2),
                }
                print(json.dumps(line))


if __name__ == "__main__":
    main()
