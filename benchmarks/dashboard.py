"""What an open dashboard costs a query: processor time and rows per second with one by those without.

    .venv/bin/python -m benchmarks.dashboard [--turns 5] [--epochs 40] [--operators 100] [--workers 8]

A chain of operators with an exchange after every tenth, on workers in this process, where the dashboard
shares one lock with all of them: the hardest place for it. Both ways go over the same epochs in turn.
``cpu_ratio`` is the median processor time of the whole process with a page open by that without; ``ratio`` is
the same for the clock, which says less where others use the machine, too. The page is a process of its own
that reads all events, as a browser does. ``moments_per_second`` is how often it was told something, and
``kilobytes`` the size of one moment. ``cores`` is the processor time that the page has cost in each second of
the clock: it stays the same where the machine is busy and the query gets little of it, and ratios do not.

The aim is a ratio of at most 1.02 in processor time.
"""

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.figures import report

import pointstamp as ps

READER = """
import sys, urllib.request
moments = size = 0
try:
    for line in urllib.request.urlopen(sys.argv[1] + "events"):
        if line.startswith(b"data:"):
            moments, size = moments + 1, size + len(line)
except OSError:
    pass
print(moments, size)
"""


def chain(operators: int) -> ps.Dataflow:
    """So many operators one after the other, every tenth behind an exchange."""
    flow = ps.Dataflow("chain")
    stream = flow.stream_input("rows", "k long, x long")
    for number in range(operators - 1):
        if number % 10 == 0:
            stream = stream.exchange("k")
        stream = stream.filter(ps.col("x") >= 0).named(f"step {number}")
    flow.output("counts", stream.group_by("k", running=True).count())
    return flow


def epochs_of(count: int, rows: int) -> list[pa.Table]:
    """The epochs of the input."""
    random = np.random.default_rng(1)
    return [
        pa.table({"k": random.integers(0, 1000, rows), "x": random.integers(0, 1000, rows)})
        for _ in range(count)
    ]


def run(flow: ps.Dataflow, data: list[pa.Table], workers: int, *, watched: bool) -> tuple[float, float, str]:
    """Seconds by the clock and of this process' processors, and what the page has counted."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        place = Path(folder)
        (place / "in").mkdir()
        query = flow.start(
            rows=ps.io.files(f"{folder}/in", units_per_tick=4),
            checkpoint=place / "c",
            output=place / "o",
            workers=workers,
        )
        opened.callback(query.stop, finish=False)
        reader = None
        if watched:
            dashboard = opened.enter_context(query.dashboard())
            command = [sys.executable, "-c", READER, dashboard.address]
            reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
            while not dashboard.lookers:
                query.await_termination(0.05)
        for number, table in enumerate(data):
            pq.write_table(table, place / f"{number}.parquet")
        begin, processor = perf_counter(), process_time()
        for number in range(len(data)):
            (place / f"{number}.parquet").rename(place / "in" / f"{number:06}.parquet")
        query.process_all_available()
        took = perf_counter() - begin, process_time() - processor
        opened.close()
        return *took, "" if reader is None else reader.communicate(timeout=60)[0]


def main() -> None:
    """Measure both ways in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--operators", type=int, default=100)
    parser.add_argument("--workers", type=int, default=8)
    given = parser.parse_args()
    flow, data = chain(given.operators), epochs_of(given.epochs, given.rows)
    run(flow, data, given.workers, watched=False)  # what is loaded once is not counted
    alone, seen, told = [], [], [0, 0]
    for _ in range(given.turns):
        alone.append(run(flow, data, given.workers, watched=False)[:2])
        *took, words = run(flow, data, given.workers, watched=True)
        seen.append(tuple(took))
        told = [a + int(b) for a, b in zip(told, words.split(), strict=True)]
    clock, processor = (
        median(each[at] for each in seen) / median(each[at] for each in alone) for at in (0, 1)
    )
    report(
        f"{given.operators} operators, {given.workers} workers",
        ratio=clock,
        cpu_ratio=processor,
        cores=(median(each[1] for each in seen) - median(each[1] for each in alone))
        / median(each[0] for each in seen),
        rows_per_second_alone=given.epochs * given.rows / median(each[0] for each in alone),
        rows_per_second_watched=given.epochs * given.rows / median(each[0] for each in seen),
        moments_per_second=told[0] / sum(each[0] for each in seen),
        kilobytes=told[1] / max(1, told[0]) / 1000,
    )


if __name__ == "__main__":
    main()
