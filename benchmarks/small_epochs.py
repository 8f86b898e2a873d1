"""Epochs and rounds that move few rows or none, on one worker in this process: what the runtime itself costs.

    .venv/bin/python -m benchmarks.small_epochs

One JSON line per case: an empty round of a loop, an empty epoch, an epoch of one row and of 1,000 rows, and
one row for a table of 20,000 rows; each sent, advanced and its result seen. ``python_us`` and
``compiled_us`` are microseconds of processor time for one, with the core as Python and compiled, from
processes that run in turn: the least of all parts, because others on the machine only add to it.

To beat: 12 us a round, 6 us an empty epoch, 40 us an epoch of one row, 200 us an epoch of 1,000 rows.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from benchmarks.rounds import empty_epochs, empty_rounds

import pointstamp as ps
from pointstamp.dataflow import Dataflow
from pointstamp.driver.local_run import LocalRun

PARTS = 5
TURNS = 5
ROUNDS = 1_000
EPOCHS = 100


def main() -> None:
    """Measure one core, or start a process for each in turn and put their figures together."""
    if sys.argv[1:] == ["--alone"]:
        print(json.dumps(measured()))
        return
    found: dict[str, list[dict[str, float]]] = {"python": [], "compiled": []}
    for _ in range(TURNS):
        for core, figures in found.items():
            said = subprocess.run(
                [sys.executable, "-m", "benchmarks.small_epochs", "--alone"],
                env={**os.environ, "POINTSTAMP_CORE": core},
                stdout=subprocess.PIPE,
                check=core == "python",  # where nothing is compiled there is no other core
            )
            if said.returncode == 0:
                figures.append(json.loads(said.stdout))
    for case in found["python"][0]:
        least = {f"{core}_us": min(each[case] for each in them) for core, them in found.items() if them}
        line = {"case": case, **{name: round(us, 1) for name, us in least.items()}}
        if "compiled_us" in least:
            line["python_to_compiled"] = round(least["python_us"] / least["compiled_us"], 2)
        print(json.dumps(line), flush=True)


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
        "one row, table sum": per_one(inserting(lambda a, _: a.group_by("k").agg(total=ps.sum("v"))), EPOCHS),
        "one row, max": per_one(inserting(lambda a, _: a.group_by("k").agg(most=ps.max("v"))), EPOCHS),
        "one row, top 10": per_one(inserting(lambda a, _: a.top(10, "k", by="v desc")), EPOCHS),
        "one row, join": per_one(inserting(lambda a, b: a.join(b, "k")), EPOCHS),
        "one row, distinct": per_one(inserting(lambda a, _: a.select("k").distinct()), EPOCHS),
    }


def counting() -> Dataflow:
    """A running count by key."""
    flow = Dataflow("counted")
    flow.output("out", flow.stream_input("in", "key long").group_by("key", running=True).count())
    return flow


def per_one(act: Callable[[int], None], times: int) -> float:
    """Microseconds of processor time for one of so many, the least of some parts."""
    return min(processor for _, processor in parts_of(act, times)) * 1e6


def spent_on_one(act: Callable[[int], None], times: int) -> tuple[float, float]:
    """Seconds by the clock and of the processor for one of so many, medians of some parts."""
    clock, processor = (sorted(each)[PARTS // 2] for each in zip(*parts_of(act, times), strict=True))
    return clock, processor


def parts_of(act: Callable[[int], None], times: int) -> list[tuple[float, float]]:
    """Seconds by the clock and of the processor for one, in some parts; the first one warms up."""
    found = []
    for _ in range(PARTS + 1):
        started, began = perf_counter(), process_time()
        act(times)
        found.append(((perf_counter() - started) / times, (process_time() - began) / times))
    return found[1:]


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


def inserting(query: Callable[[ps.Table, ps.Table], ps.Table]) -> Callable[[int], None]:
    """Inserts a row in each epoch into one of two tables of 20,000 rows with 5,000 keys."""
    flow = Dataflow("tables")
    schema = "id long, k long, v long, w long"
    flow.output("out", query(*(flow.table(name, schema, weight="w") for name in "ab")))
    results: list[pa.Table] = []
    run = LocalRun(flow.plan, on_result=lambda name, epoch, table: results.append(table))
    sources = [run.input(name) for name in run.inputs]
    rng = np.random.default_rng(5)
    rows = 20_000

    def made(begin: int, count: int) -> pa.RecordBatch:
        k, v = rng.integers(0, rows // 4, count), rng.integers(0, 2**40, count)
        return pa.record_batch(
            {"id": np.arange(begin, begin + count), "k": k, "v": v, "w": np.ones(count, np.int64)}
        )

    for source in sources:
        source.send(made(0, rows))
        source.advance_to(1)
    run.settle()
    epoch = 1
    single = iter([made(rows + number, 1) for number in range(EPOCHS * (PARTS + 1))])

    def act(times: int) -> None:
        nonlocal epoch
        for _ in range(times):
            epoch += 1
            sources[0].send(next(single))
            for source in sources:
                source.advance_to(epoch)
            run.settle()
            results.clear()

    return act


if __name__ == "__main__":
    main()
