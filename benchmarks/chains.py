"""Flows of many cheap operators in small epochs: what chains save, and who is woken in vain.

    .venv/bin/python -m benchmarks.chains

One JSON line per case, on one worker in this process. *Operators*: 1, 5 and 20 of them one behind the other,
a column worked out in each, in empty epochs, in which nothing but progress moves, and in epochs of 1 and of
1,000 rows, sent, advanced and the result seen. With chains and without, in turns: ``processor_us`` is
processor time for one epoch, the least of some parts. The rows are compared with what they must be. *Join*:
how many steps a worker makes, and how often an operator is called, where the two inputs advance in turn.
"""

import json
from collections.abc import Callable
from functools import partial
from time import process_time

import pyarrow as pa

from pointstamp.dataflow import Dataflow
from pointstamp.driver.local_run import LocalRun, workers_of
from pointstamp.expressions.tree import col

PARTS = 5


def main() -> None:
    """Print each case."""
    for rows in (0, 1, 1_000):
        for length in (1, 5, 20):
            print(json.dumps(chain(length, rows, epochs=100)), flush=True)
    print(json.dumps(wakes(50)), flush=True)


def chained(length: int, *, has_chains: bool) -> Dataflow:
    """So many operators, each of which adds one to a column."""
    flow = Dataflow("chained")
    stream = flow.stream_input("in", "key long, value long")
    for number in range(length):
        stream = stream.with_columns(value=col("value") + 1).named(f"add {number}")
    flow.output("out", stream)
    flow.plan.has_chains = has_chains
    return flow


def chain(length: int, rows: int, epochs: int) -> dict[str, object]:
    """Microseconds of processor time for an epoch, with chains and without."""
    acts = {
        has_chains: sending(chained(length, has_chains=has_chains), rows, length)
        for has_chains in (True, False)
    }
    least = dict.fromkeys(acts, float("inf"))
    for part in range(PARTS + 1):
        for has_chains, act in acts.items():
            started = process_time()
            act(epochs)
            if part:  # the first one warms up
                least[has_chains] = min(least[has_chains], (process_time() - started) / epochs * 1e6)
    return {
        "case": f"{length} operators, epochs of {rows} rows",
        "processor_us": round(least[True], 1),
        "without_chains_us": round(least[False], 1),
        "ratio": round(least[True] / least[False], 2),
    }


def sending(flow: Dataflow, rows: int, length: int) -> Callable[[int], None]:
    """Sends a batch in one epoch after the other, each result seen and checked before the next is sent."""
    results: list[pa.Table] = []
    run = LocalRun(flow.plan, on_result=lambda name, epoch, table: results.append(table))
    batch = pa.record_batch(
        {"key": pa.array(range(rows), pa.int64()), "value": pa.array(range(rows), pa.int64())}
    )
    expected = [value + length for value in range(rows)]
    source, epoch = run.input("in"), 0

    def act(times: int) -> None:
        nonlocal epoch
        for _ in range(times):
            epoch += 1
            if rows:
                source.send(batch)
            source.advance_to(epoch)
            run.step_until(partial(run.is_done, "out", epoch - 1))
            run.settle()
        assert len(results) == (times if rows else 0)
        assert not rows or results[-1]["value"].to_pylist() == expected
        results.clear()

    return act


def wakes(epochs: int) -> dict[str, object]:
    """How often operators of a join are let act, and how often that was for nothing."""
    flow = Dataflow("join")
    left = flow.table("left", "key long, a long").named("left rows")
    right = flow.table("right", "key long, b long").named("right rows")
    flow.output("out", left.join(right, on="key"))
    with LocalRun(flow.plan) as run:
        (worker,) = workers_of(run)
        steps = 0
        for epoch in range(epochs):
            run.input("left").send(pa.record_batch({"key": [epoch % 7], "a": [epoch]}))
            run.input("right").send(pa.record_batch({"key": [epoch % 5], "b": [epoch]}))
            for name in ("left", "right"):
                run.input(name).advance_to(epoch + 1)
                while run.step():
                    steps += 1
        calls = sum(instance.calls for instance in worker.instances.values())
    return {"case": f"join, {epochs} epochs, its inputs advance in turn", "steps": steps, "calls": calls}


if __name__ == "__main__":
    main()
