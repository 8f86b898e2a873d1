"""What moving rows between processes costs: an exchange by key, against a bare socket copy of the same bytes.

    .venv/bin/python benchmarks/exchange.py

One JSON line per case. Rows are made inside the workers, exchanged by key between two processes, and counted:
half of them stay, half travel. ``rows_per_second`` and ``bytes_per_second`` are of all rows of both workers.
``socket_bytes_per_second`` is what two processes reach that do nothing but send each other the bytes that
travel, in writes of the same size, through a unix socket pair; ``ratio`` is the exchange's share of that,
counting only the bytes that travel. Every case ends by comparing the counts with what was sent.

To beat: a tenth of the bare copy for rows of 100 bytes. Hashing and splitting read and copy each row once
before it travels, and counting reads it once more.
"""

import argparse
import json
import multiprocessing
import os
import socket
from collections import deque
from collections.abc import Callable
from itertools import repeat
from threading import Thread
from time import perf_counter

import numpy as np
import pyarrow as pa

from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.operator import operator
from pointstamp.driver.processes import ProcessRun
from pointstamp.operators.context import Context

PROCESSES = 2
KEY = pa.schema([("key", pa.int64())])
WIDE = pa.schema([("key", pa.int64()), ("payload", pa.binary(92))])
COUNTS = pa.schema([("rows", pa.int64()), ("sum", pa.int64())])


class Make:
    """On a signal, sends the same rows a number of times."""

    def __init__(self, schema: pa.Schema, rows: int, batches: int) -> None:
        self.outputs = schema
        self.rows, self.batches = rows, batches

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows once for each worker's batch and number."""
        made = rows_of(self.outputs, self.rows)
        for _ in range(self.batches):
            context.send(made)


class Count:
    """Counts rows and sums keys, and tells both when a time is complete."""

    outputs = COUNTS

    def __init__(self) -> None:
        self.rows = self.sum = 0

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Count."""
        self.rows += batch.num_rows
        self.sum += int(batch.column("key").to_numpy().sum())
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Tell and restart from scratch."""
        context.send(pa.record_batch([[self.rows], [self.sum]], schema=COUNTS))
        self.rows = self.sum = 0


def rows_of(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Rows with keys from 0, and a payload where the schema has one."""
    columns = [pa.array(np.arange(rows))]
    if len(schema) > 1:
        columns.append(pa.array([b"x" * 92] * rows, pa.binary(92)))
    return pa.record_batch(columns, schema=schema)


def exchange(schema: pa.Schema, rows: int, batches: int, transport: str, *, encrypted: bool | None) -> float:
    """Seconds for one epoch of an exchange of so many batches from each worker."""
    flow = Dataflow("exchange")
    signal = flow.stream_input("signal", "go long")
    made = operator("make", Make(schema, rows, batches), signal=signal)
    flow.output("counts", operator("count", Count(), rows=made.exchange("key")))
    results: list[pa.Table] = []
    seconds = []
    with ProcessRun(
        flow.plan,
        PROCESSES,
        transport=transport,
        encrypted=encrypted,
        on_result=lambda _, __, table: results.append(table),
    ) as run:
        handle = run.input("signal")
        for epoch in range(4):
            started = perf_counter()
            for _ in range(PROCESSES):  # one signal for each worker, in turn
                handle.send(pa.record_batch({"go": [1]}))
            handle.advance_to(epoch + 1)
            run.step_until(lambda: len(results) > epoch)  # noqa: B023 - used within this round
            seconds.append(perf_counter() - started)
    for table in results:
        found = {name: sum(table[name].to_pylist()) for name in ("rows", "sum")}
        total = PROCESSES * batches
        assert found == {"rows": rows * total, "sum": rows * (rows - 1) // 2 * total}, found
    return min(seconds[1:])


def bare_copy(size: int, count: int) -> float:
    """Seconds for two processes to send each other so many blocks, each reading while it writes."""
    ours, theirs = socket.socketpair()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_swap, args=(theirs, size, count))
    process.start()
    try:
        _swap(ours, size, 1)  # meet
        started = perf_counter()
        _swap(ours, size, count - 1)
        return (perf_counter() - started) * count / (count - 1)
    finally:
        process.join()
        ours.close()
        theirs.close()


def _swap(end: socket.socket, size: int, count: int) -> None:
    """Send so many blocks while as many are received."""
    block, inbox = bytes(size), memoryview(bytearray(size))
    sender = Thread(target=lambda: deque(map(end.sendall, repeat(block, count)), maxlen=0))
    sender.start()
    left = size * count
    while left:
        left -= end.recv_into(inbox[: min(size, left)])
    sender.join()


def best(measure: Callable[[], float]) -> float:
    """The least of three."""
    return min(measure() for _ in range(3))


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows in a batch")
    parser.add_argument("--batches", type=int, default=20, help="batches from each worker in an epoch")
    given = parser.parse_args()
    for width, schema in ((8, KEY), (100, WIDE)):
        block = given.rows * width // PROCESSES
        travelling = block * given.batches * PROCESSES
        copy = travelling / best(lambda: bare_copy(block, given.batches))  # noqa: B023 - used at once
        for transport, encrypted in (("ipc", False), ("tcp", False), ("tcp", True)):
            seconds = exchange(schema, given.rows, given.batches, transport, encrypted=encrypted)
            rows = given.rows * given.batches * PROCESSES
            figures = {
                "case": f"exchange of rows of {width} bytes",
                "transport": transport + (" encrypted" if encrypted else ""),
                "rows_per_second": round(rows / seconds),
                "bytes_per_second": round(rows * width / seconds),
                "socket_bytes_per_second": round(copy),
                "ratio": round(travelling / seconds / copy, 3),
                "cores": os.cpu_count(),
                "load": round(os.getloadavg()[0], 1),
            }
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
