"""A source a hundred times faster than the sink: the sink sets the pace, and memory stays bounded.

    .venv/bin/python benchmarks/flow_control.py

The source has batches of 1 MB ready as fast as it is asked; one operator takes ten milliseconds for each.
One JSON line per case: how fast each side would be alone, how many epochs were on their way at most, how
many bytes went through in all, and how much the memory of all processes grew at most. To beat: growth stays
below what flow control lets in (8 epochs here, and a few copies of them), however much goes through.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.driver.feeder import FlowControl, feeder
from pointstamp.driver.local_run import LocalRun
from pointstamp.driver.processes import ProcessRun
from pointstamp.driver.run_loop import Collector, drive

ROWS = 131_072
EPOCHS = 300
SINK_SECONDS = 0.01
BATCHES = [pa.record_batch({"x": np.full(ROWS, number)}) for number in range(4)]
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Ten milliseconds for a batch, whatever its size; one row continues."""
    sleep(SINK_SECONDS)
    return batch.slice(0, 1)


def resident_bytes(pids: list[int]) -> int:
    """The memory that these processes hold at this moment."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES for pid in pids)


def measure(run: LocalRun | ProcessRun, pids: list[int], where: str) -> dict[str, object]:
    """Drive a run to its end and watch what is on its way."""
    made = 0
    most_epochs = most_bytes = 0

    def source() -> Iterator[pa.RecordBatch]:
        nonlocal made
        for number in range(EPOCHS):
            made += 1
            yield BATCHES[number % len(BATCHES)]

    collector = Collector(run.plan.output_schemas())
    run.on_result = collector.on_result
    fed = feeder(run, {"numbers": source()}, control=FlowControl(epochs_max=8))
    before = resident_bytes(pids)
    finished = 0
    started = perf_counter()
    for _ in drive(run, fed, collector, reads_ahead=isinstance(run, ProcessRun)):
        finished += 1
        most_epochs = max(most_epochs, made - finished)
        most_bytes = max(most_bytes, resident_bytes(pids) - before)
    seconds = perf_counter() - started
    assert finished == EPOCHS
    return {
        "case": where,
        "sink_epochs_per_second": round(EPOCHS / seconds),
        "most_epochs_on_their_way": most_epochs,
        "bytes_through_mb": EPOCHS * ROWS * 8 // 2**20,
        "memory_growth_mb": most_bytes // 2**20,
    }


def main() -> None:
    """Measure in this process and with two."""
    started = perf_counter()
    for number in range(EPOCHS):
        BATCHES[number % len(BATCHES)].slice(0)
    alone = EPOCHS / (perf_counter() - started)
    flow = ps.Dataflow("slow sink")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(slow))
    with flow.open() as run:
        line = measure(run, [os.getpid()], "1 worker in this process")
        print(json.dumps({**line, "source_epochs_per_second": round(alone)}), flush=True)
    with flow.open(processes=2) as processes:
        line = measure(processes, [os.getpid(), *processes.pids], "2 processes")
        print(json.dumps({**line, "source_epochs_per_second": round(alone)}), flush=True)


if __name__ == "__main__":
    main()
