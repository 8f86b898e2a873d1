"""Epochs and rounds that move few rows or none, on one worker in this process: what the runtime itself costs.

    .venv/bin/python -m benchmarks.small_epochs

One JSON line per case: an empty round of a loop, an empty epoch, an epoch of one row and of 1,000 rows, each
sent, advanced and its result seen. ``processor_us`` is processor time for one, the median of some parts.

To beat: 12 us a round, 6 us an empty epoch, 40 us an epoch of one row, 200 us an epoch of 1,000 rows.
"""

import json
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from benchmarks.rounds import empty_epochs, empty_rounds

from pointstamp.dataflow import Dataflow
from pointstamp.running.local import LocalRun

PARTS = 5
ROUNDS = 1_000


def main() -> None:
    """Print each case."""
    for case, us in measured().items():
        print(json.dumps({"case": case, "processor_us": round(us, 1)}), flush=True)


def measured() -> dict[str, float]:
    """Microseconds of processor time for one of each case."""
    rng = np.random.default_rng(17)
    one = pa.record_batch({"key": pa.array([1], pa.int64())})
    thousand = pa.record_batch({"key": rng.integers(0, 100_000, 1_000)})
    counted = counting()
    rounds = advancing(empty_rounds(ROUNDS))
    return {
        "empty round": per_one(lambda _: rounds(1), 1) / ROUNDS,
        "empty epoch": per_one(advancing(empty_epochs()), 1_000),
        "epoch of one row, passed on": per_one(sending(empty_epochs(), one), 500),
        "epoch of one row, counted": per_one(sending(counted, one), 500),
        "epoch of 1,000 rows, counted": per_one(sending(counted, thousand), 200),
    }


def counting() -> Dataflow:
    """A running count by key."""
    flow = Dataflow("counted")
    flow.output("out", flow.input("in", "key long").count("key", running=True))
    return flow


def per_one(act: Callable[[int], None], times: int) -> float:
    """Microseconds of processor time for one of so many, the median of some parts."""
    return spent_on_one(act, times)[1] * 1e6


def spent_on_one(act: Callable[[int], None], times: int) -> tuple[float, float]:
    """Seconds by the clock and of the processor for one, medians of some parts; the first one warms up."""
    found = []
    for _ in range(PARTS + 1):
        started, began = perf_counter(), process_time()
        act(times)
        found.append(((perf_counter() - started) / times, (process_time() - began) / times))
    clock, processor = (sorted(each)[PARTS // 2] for each in zip(*found[1:], strict=True))
    return clock, processor


def advancing(flow: Dataflow) -> Callable[[int], None]:
    """Advances epochs without rows, each seen to be done."""
    run = LocalRun(flow.plan)
    source, epoch = run.input("in"), 0

    def act(times: int) -> None:
        nonlocal epoch
        for _ in range(times):
            epoch += 1
            source.advance_to(epoch)
            run.step_until(partial(run.is_done, "out", epoch - 1))

    return act


def sending(flow: Dataflow, batch: pa.RecordBatch) -> Callable[[int], None]:
    """Sends the batch in one epoch after the other, each result seen before the next is sent."""
    results: list[pa.Table] = []
    run = LocalRun(flow.plan, on_result=lambda name, epoch, table: results.append(table))
    source, epoch = run.input("in"), 0

    def act(times: int) -> None:
        nonlocal epoch
        for _ in range(times):
            epoch += 1
            source.send(batch)
            source.advance_to(epoch)
            run.settle()
            assert results.pop().num_rows
            assert not results

    return act


if __name__ == "__main__":
    main()
