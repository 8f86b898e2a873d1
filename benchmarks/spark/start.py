"""The first job of a session, step by step, and later ones, beside a bare one.

    .venv/bin/python -m benchmarks.spark.start [--only bare|flow|barrier|loaded]

Four sessions, one after the other, each in a process of its own, because only the first job of a Java
process pays for its classes: *bare* is a job with an empty function, which is the limit; *flow* is a
flow with one row, from the call to the published result; *barrier* is the same with ``barrier=True``, and
*loaded* with ``pointstamp.spark.daemon``. One JSON line per step of the first job, with the ms since the step
before and since the call, and the processor time that a task's process had taken when its function was
called; then the seconds of the first job, and the median of later ones. "a bare Python" is the
processor time of loading: what Spark's worker loads anyway, and with it what ours does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

import pyarrow as pa
from benchmarks.figures import report, timed
from benchmarks.spark.gang import start_up
from benchmarks.spark.session import SLOTS, session
from benchmarks.spark.steps import Moments, born, note, table
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from pointstamp.spark import job, worker_formation
from pointstamp.spark.crew_task import Task

STEPS = [
    "called",
    "the inputs are prepared",
    "the job is submitted",
    "a task's process is born",
    "the task's function is called",
    "the job is over",
    "the files are published",
    "returned",
]
BORN, CALLED = STEPS[3:5]
LOADED = "processor time"
WHERE = "POINTSTAMP_BENCH_MOMENTS"
KINDS = ("bare", "flow", "barrier", "loaded")
LATER = 7
LOADS = ("pyspark.worker, pyarrow", "pyspark.worker, pyarrow, pointstamp.spark.bounded")


def arrive() -> None:
    """Note that a task's function is called."""
    note(os.environ[WHERE], BORN, born())
    note(os.environ[WHERE], CALLED)
    note(os.environ[WHERE], LOADED, process_time())


@dataclass(frozen=True, slots=True)
class NotedTask(Task):
    """A task that writes its moments down."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Be a worker, as any task."""
        arrive()
        yield from Task.__call__(self, batches)


def empty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of a bare job."""
    arrive()
    yield from batches


def run_bare(spark: SparkSession, moments: Moments) -> None:
    """A job that does nothing."""
    moments.take(STEPS[0])
    rows = spark.range(0, SLOTS, 1, SLOTS).mapInArrow(empty, "id long")
    moments.take(STEPS[2])
    assert len(rows.collect()) == SLOTS
    moments.take(STEPS[5])


def run_flow(spark: SparkSession, moments: Moments, *, barrier: bool) -> None:
    """A flow with one row."""
    with ExitStack() as opened:
        opened.enter_context(moments.around(job, "input_specs", before=STEPS[1]))
        opened.enter_context(moments.around(job, "start_workers", before=STEPS[2]))
        opened.enter_context(moments.around(job, "collect_files", after=STEPS[5]))
        opened.enter_context(moments.around(job, "publish", after=STEPS[6]))
        opened.callback(setattr, worker_formation, "Task", Task)
        setattr(worker_formation, "Task", NotedTask)  # noqa: B010 - the name is imported there
        moments.take(STEPS[0])
        start_up(spark, barrier=barrier)
        moments.take(STEPS[7])


def measure(kind: str) -> None:
    """The first job of one session, and later ones."""
    settings = {"spark.python.daemon.module": "pointstamp.spark.daemon"} if kind == "loaded" else {}
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        os.environ[WHERE] = folder
        moments = Moments(Path(folder))
        with session("start", SLOTS, settings) as spark:
            act = run_bare if kind == "bare" else partial(run_flow, barrier=kind == "barrier")
            act(spark, moments)
            found = moments.with_tasks()
            later = [timed(partial(act, spark, moments))[0] for _ in range(LATER)]
    for name, step, since in table([found], STEPS):
        report(kind, step=name, ms=step, since_ms=since)
    report(kind, which="first", seconds=found[STEPS[5 if kind == "bare" else 7]] - found[STEPS[0]])
    report(kind, which="later", seconds=median(later), seconds_best=min(later))
    report(kind, step="loaded by a task's process", processor_ms=found[LOADED] * 1000)


def main() -> None:
    """All sessions, or one."""
    parser = argparse.ArgumentParser(description="The first job of a session, step by step.")
    parser.add_argument("--only", choices=KINDS)
    given = parser.parse_args()
    if given.only is not None:
        cloudpickle.register_pickle_by_value(sys.modules[__name__])
        measure(given.only)
        return
    for kind in KINDS:
        subprocess.run([sys.executable, "-m", "benchmarks.spark.start", "--only", kind], check=True)  # noqa: S603
    for loads in LOADS:
        code = f"import time\nimport {loads}\nprint(time.process_time())"
        turns = [
            float(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout)  # noqa: S603
            for _ in range(5)
        ]
        report("a bare Python", loads=loads, processor_ms=min(turns) * 1000)


if __name__ == "__main__":
    main()
