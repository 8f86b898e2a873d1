"""Many small epochs: 1,000 of 1,000 rows, a running count by key, each result seen before the next is sent.

    .venv/bin/python benchmarks/epochs.py

One JSON line per case: the median and the 99th percentile of the time from sending an epoch to having its
result, and the ratio to a Python ``Counter`` that is told the same rows in the same run. The final counts are
compared. For two processes the line of the large epoch has what a run takes from its call, the first of this
process, which loads modules, and a later one; and the processor time of the driver and of the busier worker
between the start of the workers and the last result, beside that of one worker in this process; by the clock,
both without the start of processes.

To beat, measured on such a machine: bytewax 5.4 ms and pathway 9.0 ms per epoch. Aim: under 1 ms. The last
line is one large epoch against polars. Aim: at least half of its rate.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

import pointstamp as ps
from pointstamp.driver.processes import ProcessRun

Rows: TypeAlias = "pa.RecordBatch | pa.Table"

EPOCHS = 1_000
ROWS = 1_000
KEYS = 100_000


def main() -> None:
    """Measure one worker in this process, two processes, the Counter beside them, and one large epoch."""
    rng = np.random.default_rng(17)
    print(json.dumps(large_in_processes(rng)), flush=True)  # first, while no process was started yet
    batches = [pa.record_batch({"key": rng.integers(0, KEYS, ROWS)}) for _ in range(EPOCHS)]
    counter: Counter[int] = Counter()
    plain = []
    for batch in batches:
        started = perf_counter()
        counter.update(batch["key"].to_pylist())
        plain.append(perf_counter() - started)
    for where, processes in (("1 worker in this process", 0), ("2 processes", 2)):
        counts, seconds = counted(batches, processes)
        assert counts == counter
        print(json.dumps(_line(where, seconds, plain)), flush=True)
    print(json.dumps(one_large_epoch(rng)), flush=True)


def _keep(results: list[pa.Table], name: str, epoch: int, table: pa.Table) -> None:
    results.append(table)


def counted(batches: Sequence[Rows], processes: int, key: str = "long") -> tuple[dict[Any, int], list[float]]:
    """A running count of epochs: the newest count of each key, and the seconds of each epoch."""
    flow = ps.Dataflow("epochs")
    flow.output("counts", flow.stream_input("keys", f"key {key}").group_by("key", running=True).count())
    results: list[pa.Table] = []
    on_result = partial(_keep, results)
    if processes:
        with flow.open(processes=processes, on_result=on_result) as session:
            return run(session, batches, results)
    with flow.open(on_result=on_result) as session_here:
        return run(session_here, batches, results)


def run(
    session: ps.timely.LocalRun | ProcessRun, batches: Sequence[Rows], results: list[pa.Table]
) -> tuple[dict[Any, int], list[float]]:
    """Send each epoch, wait for its result, keep the newest count of each key."""
    counts: dict[Any, int] = {}
    seconds = []
    source = session.input("keys")
    for epoch, batch in enumerate(batches):
        started = perf_counter()
        source.send(batch)
        source.advance_to(epoch + 1)
        session.step_until(lambda e=epoch: session.is_done("counts", e) and bool(results))  # type: ignore[misc]
        seconds.append(perf_counter() - started)
        table = results.pop()
        counts.update(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))
    return counts, seconds


def one_large_epoch(rng: np.random.Generator) -> dict[str, object]:
    """Count 10 M keys over 100 k in one epoch, through a whole flow, against polars; the best of three."""
    table = pa.table({"key": rng.integers(0, KEYS, 10_000_000)})
    flow = ps.Dataflow("large")
    flow.output("counts", flow.stream_input("keys", "key long").count("key"))
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    ours = theirs = float("inf")
    for _ in range(3):
        started = perf_counter()
        counts = flow.run(keys=table)["counts"][0]
        ours = min(ours, perf_counter() - started)
        started = perf_counter()
        expected = frame.group_by("key").len()
        theirs = min(theirs, perf_counter() - started)
    assert dict(zip(counts["key"].to_pylist(), counts["count"].to_pylist(), strict=True)) == dict(
        expected.iter_rows()
    )
    return {
        "case": "one epoch of 10 M rows over 100 k keys, count",
        "ms": round(ours * 1e3, 1),
        "polars_ms": round(theirs * 1e3, 1),
        "rate_to_polars": round(theirs / ours, 2),
    }


def large_in_processes(rng: np.random.Generator) -> dict[str, object]:
    """The same epoch in two processes beside one worker; by the clock, and by processor time."""
    table = pa.table({"key": rng.integers(0, KEYS, 10_000_000)})
    flow = ps.Dataflow("large")
    flow.output("counts", flow.stream_input("keys", "key long").count("key"))
    walls, warm, here, workers = [], list[float](), float("inf"), float("inf")
    for _ in range(3):
        started, results = perf_counter(), list[pa.Table]()
        with flow.open(processes=2, on_result=partial(_keep, results)) as run:
            begun = perf_counter()
            before, own = [_processor_seconds(pid) for pid in run.pids], process_time()
            run.input("keys").send(table)
            run.input("keys").close()
            run.settle()
            warm.append(perf_counter() - begun)
            here = min(here, process_time() - own)
            spent = [_processor_seconds(pid) - b for pid, b in zip(run.pids, before, strict=True)]
            workers = min(workers, max(spent))
        walls.append(perf_counter() - started)
        assert sum(result["count"].to_numpy().sum() for result in results) == table.num_rows
    one = alone = float("inf")
    for _ in range(3):
        started, own = perf_counter(), process_time()
        flow.run(keys=table)
        one, alone = min(one, process_time() - own), min(alone, perf_counter() - started)
    return {
        "case": "one epoch of 10 M rows over 100 k keys, count, 2 processes",
        "first_ms": round(walls[0] * 1e3, 1),
        "later_ms": round(min(walls[1:]) * 1e3, 1),
        "after_start_ms": round(min(warm) * 1e3, 1),
        "one_worker_ms": round(alone * 1e3, 1),
        "driver_processor_ms": round(here * 1e3, 1),
        "worker_processor_ms": round(workers * 1e3, 1),
        "one_worker_processor_ms": round(one * 1e3, 1),
        "ratio_to_one_worker": round((here + workers) / one, 2),
    }


def _processor_seconds(pid: int) -> float:
    """What the system says that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _line(where: str, seconds: list[float], plain: list[float]) -> dict[str, object]:
    return {
        "case": f"{EPOCHS} epochs of {ROWS} rows, running count",
        "where": where,
        "median_ms": round(float(np.median(seconds)) * 1e3, 3),
        "p99_ms": round(float(np.percentile(seconds, 99)) * 1e3, 3),
        "counter_median_ms": round(float(np.median(plain)) * 1e3, 3),
        "ratio_to_counter": round(float(np.median(seconds) / np.median(plain)), 2),
    }


if __name__ == "__main__":
    main()
