"""Many small epochs: 1,000 of 1,000 rows, a running count by key, each result seen before the next is sent.

    .venv/bin/python benchmarks/epochs.py

One JSON line per case: the median and the 99th percentile of the time from sending an epoch to having its
result, and the ratio to a Python ``Counter`` that is told the same rows in the same run. The final counts are
compared.

To beat, measured on such a machine: bytewax 5.4 ms and pathway 9.0 ms per epoch. Aim: under 1 ms.
"""

import json
from collections import Counter
from time import perf_counter

import numpy as np
import pyarrow as pa

import pointstamp as ps

EPOCHS = 1_000
ROWS = 1_000
KEYS = 100_000


def main() -> None:
    """Measure one worker in this process, and the Counter beside it."""
    rng = np.random.default_rng(17)
    batches = [pa.record_batch({"key": rng.integers(0, KEYS, ROWS)}) for _ in range(EPOCHS)]
    counter: Counter[int] = Counter()
    plain = []
    for batch in batches:
        started = perf_counter()
        counter.update(batch["key"].to_pylist())
        plain.append(perf_counter() - started)

    for workers in (1, 2):
        counts: dict[int, int] = {}
        seconds = run(batches, workers, counts)
        assert counts == counter
        print(
            json.dumps(
                {
                    "case": f"{EPOCHS} epochs of {ROWS} rows, running count",
                    "workers_in_process": workers,
                    "median_ms": round(float(np.median(seconds)) * 1e3, 3),
                    "p99_ms": round(float(np.percentile(seconds, 99)) * 1e3, 3),
                    "counter_median_ms": round(float(np.median(plain)) * 1e3, 3),
                    "ratio_to_counter": round(float(np.median(seconds) / np.median(plain)), 2),
                }
            ),
            flush=True,
        )


def run(batches: list[pa.RecordBatch], workers: int, counts: dict[int, int]) -> list[float]:
    """Send each epoch, wait for its result, keep the newest count of each key."""
    flow = ps.Dataflow("epochs")
    keys = flow.input("keys", "key long")
    flow.output("counts", keys.count("key", running=True))
    results: list[pa.Table] = []
    seconds = []
    with flow.open_local(workers, on_result=lambda name, epoch, table: results.append(table)) as session:
        source = session.input("keys")
        for epoch, batch in enumerate(batches):
            started = perf_counter()
            source.send(batch)
            source.advance_to(epoch + 1)
            session.settle()
            seconds.append(perf_counter() - started)
            table = results.pop()
            counts.update(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))
    return seconds


if __name__ == "__main__":
    main()
