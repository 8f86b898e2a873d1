"""State of four times the memory that is allowed, and what it costs beside the same state in memory.

    .venv/bin/python -m benchmarks.tables.spilling [--rows N] [--allowed BYTES]

Orders are joined with their customers and added up by customer; they are loaded in epochs of 20,000 rows,
and then changed in epochs of 1,000: half of them deleted, half new. It runs twice, in processes of their own:
with ``flow.spill_beyond(allowed / 2)``, where the process may hold no more than ``allowed`` of data beyond
what it holds after a short flow (RLIMIT_DATA, which counts all memory but what is mapped from files), and
without any limit. One JSON line for each: the bytes of the state and by the memory that is allowed, what of
it lies in files, the anonymous memory beyond that of the short flow at its highest, rows a second of the
load, and the median and the longest of an epoch; then one with ratios, of processor time and by the clock.

Aim: four times the memory that is allowed, and an epoch within three times that in memory.
"""

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
from benchmarks.figures import Figures, lines_in, report

import pointstamp as ps
from pointstamp.driver.local_run import workers_of
from pointstamp.state.memory_budget import KeptRows

LOADED_ROWS = 20_000
CHANGED_ROWS = 1_000
CHANGED_EPOCHS = 200
ORDERS = pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("price", pa.int64()), ("w", pa.int64())])


def main() -> None:
    """Run both in processes of their own, and compare."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", type=int, default=1_000_000)
    asked.add_argument("--allowed", type=int, default=26 << 20)
    asked.add_argument("--alone", choices=["spilled", "in memory"])
    given = asked.parse_args()
    if given.alone is not None:
        measure(given.alone, given.rows, given.allowed)
        return
    spilled, inside = (_alone(case, given.rows, given.allowed) for case in ("spilled", "in memory"))
    names = ("load_cpu_rows_s", "load_rows_s", "epoch_cpu_ms", "epoch_ms", "epoch_ms_max")
    report("spilled by in memory", **{name: spilled[name] / inside[name] for name in names})


def _alone(case: str, rows: int, allowed: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.tables.spilling", "--alone", case]
    # Arrow's own pools keep memory for later, which would count as data.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    made = subprocess.run(  # noqa: S603 - this very file
        [*command, "--rows", str(rows), "--allowed", str(allowed)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    print(made.stdout, end="", flush=True)
    return lines_in(made.stdout)[-1]


def measure(case: str, rows: int, allowed: int) -> None:
    """Load the orders, change some, and say what that took."""
    fill(flow_of("short"), 4 * LOADED_ROWS, 4)
    anonymous, data = held("Anonymous", "smaps_rollup"), held("VmData", "status")
    flow = flow_of("orders")
    if case == "spilled":
        flow.spill_beyond(allowed // 2)
        resource.setrlimit(resource.RLIMIT_DATA, (data + allowed, data + allowed))
    load, epochs, most, kept = fill(flow, rows, CHANGED_EPOCHS)
    state = sum(each.size_bytes for each in kept)
    report(
        case,
        rows=rows,
        state_mb=state / 1e6,
        state_by_allowed=state / allowed,
        files_mb=sum(each.mapped_bytes for each in kept) / 1e6,
        anonymous_mb=(most - anonymous) / 1e6,
        load_rows_s=rows / load[0],
        load_cpu_rows_s=rows / load[1],
        epoch_ms=1e3 * median(each[0] for each in epochs),
        epoch_cpu_ms=1e3 * median(each[1] for each in epochs),
        epoch_ms_max=1e3 * max(each[0] for each in epochs),
    )


def flow_of(name: str) -> ps.Dataflow:
    """Orders with the country of their customer, added up by customer."""
    flow = ps.Dataflow(name)
    orders = flow.table("orders", ORDERS, weight="w")
    customers = flow.table("customers", "customer long, country long")
    both = orders.join(customers, "customer")
    flow.output("sums", both.group_by("customer", "country").agg(n=ps.count(), total=ps.sum("price")))
    return flow


Spent = tuple[float, float]
"""Seconds by the clock, and of the processor."""


def fill(flow: ps.Dataflow, rows: int, changed: int) -> tuple[Spent, list[Spent], int, list[KeptRows]]:
    """Load orders and change some: what the load and each epoch took, the most memory, and what is kept."""
    customers = rows // 10
    with flow.open() as run:
        people = np.arange(customers)
        run.input("customers").send(pa.table({"customer": people, "country": people % 200}))
        run.input("customers").close()
        spent, most = [], 0
        for epoch, batch in enumerate(batches(rows, customers, changed)):
            begin, begin_cpu = perf_counter(), process_time()
            run.input("orders").send(batch)
            run.input("orders").advance_to(epoch + 1)
            run.settle()
            spent.append((perf_counter() - begin, process_time() - begin_cpu))
            if epoch % 4 == 0:
                most = max(most, held("Anonymous", "smaps_rollup"))
        kept = list(workers_of(run)[0].kept().values())
    loaded = spent[:-changed]
    return (sum(each[0] for each in loaded), sum(each[1] for each in loaded)), spent[-changed:], most, kept


def batches(rows: int, customers: int, changed: int) -> Iterator[pa.RecordBatch]:
    """The orders in batches, and then batches that delete some and bring others."""
    for begin in range(0, rows, LOADED_ROWS):
        yield orders(np.arange(begin, min(begin + LOADED_ROWS, rows)), customers, 1)
    half = CHANGED_ROWS // 2
    gone = np.random.default_rng(1).permutation(rows)[: changed * half].copy()
    for number in range(changed):
        old = orders(gone[number * half : (number + 1) * half], customers, -1)
        new = orders(np.arange(rows + number * half, rows + (number + 1) * half), customers, 1)
        yield pa.concat_batches([old, new])


def orders(ids: np.typing.NDArray[np.int64], customers: int, weight: int) -> pa.RecordBatch:
    """The orders of these numbers; each has the same customer and price whenever it is asked for."""
    columns = [ids, ids * 7919 % customers, ids * 31 % 10_007, np.full(len(ids), weight)]
    return pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=ORDERS)


def held(what: str, file: str) -> int:
    """What the kernel says that this process holds, in bytes."""
    with open(f"/proc/self/{file}") as lines:
        line = next(each for each in lines if each.startswith(f"{what}:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
