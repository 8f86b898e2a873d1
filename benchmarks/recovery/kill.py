"""From the death of a worker to its successor: how long a query stands still.

    .venv/bin/python -m benchmarks.recovery.kill [--kills 10] [--keys 1000000] [--spark]

A running count over many keys; epochs arrive without end. A worker's process is killed (SIGKILL) again and
again; ``ready_ms`` is from the kill until all workers of the next generation have restored their state, and
``epoch_ms`` until the first new epoch is published: median and worst. With ``--spark`` the workers are tasks
of a Spark of two slots, and ``spark_ms`` is what Spark itself takes to start two barrier tasks of an empty
job: ``beyond_spark_ms`` is the rest. The final counts are compared with numpy's: nothing is lost or twice.

The aim is under 5 s beyond Spark's own restart.
"""

import argparse
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.figures import report, timed
from benchmarks.recovery.commits import check

from pointstamp import Dataflow, QueryOptions
from pointstamp.connectors.published.reader import read_changes
from pointstamp.connectors.source import AllAtOnce, Part, Unit
from pointstamp.query.policy import RestartPolicy
from pointstamp.query.query import Query

WORKERS = 2
ROWS = 10_000
EPOCHS_MAX = 20_000
WAIT_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Drawn:
    """Epochs of keys that are drawn where they are read: first each key once, then some at random."""

    keys: int
    epochs: int
    units_per_tick: int | None = 1

    def watch(self, position: Any, *, available_now: bool = False) -> AllAtOnce:  # noqa: ANN401
        """All epochs after so many."""
        numbers = map(str, range(position or 0, self.epochs))
        return AllAtOnce([Unit(number, (Part(number, 8 * ROWS),)) for number in numbers])

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The keys of one epoch."""
        yield pa.record_batch([self.drawn(int(part.locator))], schema=schema)

    def drawn(self, number: int) -> Any:  # noqa: ANN401 - an array
        """The keys of one epoch, the same every time."""
        if number == 0:
            return np.arange(self.keys)
        return np.random.default_rng(number).integers(0, self.keys, ROWS)

    def after(self, position: Any, unit: Unit) -> int:  # noqa: ANN401 - a number or None
        """The number of epochs up to this one."""
        return max(position or 0, int(unit.name) + 1)

    def describe(self) -> str:
        """Who this is."""
        return "drawn keys"


def until(condition: Callable[[], bool], query: Query) -> float:
    """Wait for something; return the moment."""
    deadline = perf_counter() + WAIT_SECONDS_MAX
    while not condition():
        if perf_counter() > deadline or not query.is_active:
            raise TimeoutError(f"it did not come: {query!r}, {query.exception()}")
        sleep(0.001)
    return perf_counter()


def disturb(query: Query, kills: int) -> tuple[list[float], list[float]]:
    """Kill one worker after the other; return the ms until ready and until the next epoch."""
    ready, published = [], []
    until(lambda: query.epoch >= 2, query)
    for number in range(kills):
        restarts, victim = query.restarts, query.workers()[number % WORKERS][1]
        begin = perf_counter()
        os.kill(victim, signal.SIGKILL)
        until(lambda restarts=restarts: len(query.recovery_seconds) > restarts, query)  # type: ignore[misc]
        ready.append((perf_counter() - begin) * 1000)
        reached = query.epoch
        published.append((until(lambda reached=reached: query.epoch > reached, query) - begin) * 1000)  # type: ignore[misc]
        until(lambda reached=reached: query.epoch > reached + 2, query)  # type: ignore[misc]
    return ready, published


def measure(start: Callable[..., Query], keys: int, kills: int) -> dict[str, float]:
    """Run, disturb, stop, and compare."""
    flow = Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    source = Drawn(keys, EPOCHS_MAX)
    restarts = RestartPolicy(restarts_max=1_000, pause_seconds=0.0)
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder:
        places: dict[str, Any] = {"checkpoint": f"{folder}/checkpoint", "output": f"{folder}/out"}
        query = start(flow, keys=source, options=QueryOptions(restarts=restarts), **places)
        try:
            ready, published = disturb(query, kills)
        finally:
            query.stop()
        table = read_changes(f"{folder}/out", "counts").sort_by("epoch")
        counts = dict(zip(table["key"].to_pylist(), table["count"].to_pylist(), strict=True))
        check(counts, tuple(pa.record_batch({"key": source.drawn(n)}) for n in range(query.epoch + 1)))
    return {
        "kills": kills,
        "ready_ms": float(np.median(ready)),
        "ready_ms_worst": max(ready),
        "epoch_ms": float(np.median(published)),
        "epoch_ms_worst": max(published),
    }


def in_processes(flow: Dataflow, **given: Any) -> Query:  # noqa: ANN401 - what start takes
    """Two workers in processes."""
    return flow.start(processes=WORKERS, **given)


def main() -> None:
    """Processes, and Spark if asked for."""
    parser = argparse.ArgumentParser(description="From the death of a worker to its successor.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    report("processes", keys=given.keys, **measure(in_processes, given.keys, given.kills))
    if given.spark:
        from benchmarks.spark.session import session  # pyspark is loaded where it is used

        with session("kill") as spark:

            def on_spark(flow: Dataflow, **options: Any) -> Query:  # noqa: ANN401 - as above
                return flow.start(on=spark, workers=WORKERS, **options)

            tasks = spark.range(0, WORKERS, 1, WORKERS).mapInArrow(
                lambda batches: batches, "id long", barrier=True
            )
            own = min(timed(tasks.collect)[0] for _ in range(3)) * 1000
            found = measure(on_spark, given.keys, given.kills)
            beyond = found["epoch_ms"] - own
            report("Spark", keys=given.keys, **found, spark_ms=own, beyond_spark_ms=beyond)


if __name__ == "__main__":
    main()
