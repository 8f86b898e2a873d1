"""From the death of a Spark worker to the next published epoch, step by step.

    .venv/bin/python -m benchmarks.spark.recovery [--kills 10] [--keys 1000000] [--spare] [--loaded]

The flow, the epochs and the kills are those of ``benchmarks/recovery/kill.py``. One JSON line per step: its
median, and the median since the kill; and the processor time that the process of a new task had taken when
its function was called, which is what it had loaded. With ``--spare`` a spare crew stands by, in two slots
more, when a worker is killed; with ``--loaded`` Spark's Python workers are forked from a daemon that has
loaded what they need (``pointstamp.spark.daemon``). The counts are compared with numpy's.

The limits of the same run come last: an empty barrier job, the same in which one
worker has to be started, because the last one was killed, and the processor time of a bare Python worker,
which is to load ``pyspark.worker``, with what a task of ours loads beyond that.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time, sleep
from typing import Any

import pyarrow as pa
from benchmarks.figures import report, timed
from benchmarks.recovery.commits import check
from benchmarks.recovery.kill import EPOCHS_MAX, WORKERS, Drawn, until
from benchmarks.spark.session import session
from benchmarks.spark.steps import Moments, born, note, table
from pyspark.sql import SparkSession

from pointstamp import Dataflow, QueryOptions
from pointstamp.connectors.published.reader import read_changes
from pointstamp.driver.liveness import Sign
from pointstamp.mesh.mesh import Mesh
from pointstamp.query import supervisor
from pointstamp.query.policy import RestartPolicy
from pointstamp.query.query import Query
from pointstamp.query.rendezvous import Placement, Roster
from pointstamp.spark import crew, worker_formation
from pointstamp.spark.crew_task import QueryWork, Task
from pointstamp.spark.rendezvous import Membership
from pointstamp.spark.spare import SpareKeeper

STEPS = [
    "killed",
    "the driver notices",
    "Spark has said why",
    "the old job is over",
    "the next generation has begun",
    "a task's process is born",
    "the task's function is called",
    "the tasks know each other",
    "the mesh is whole",
    "the state is restored",
    "an epoch is published",
]
BORN, CALLED, KNOWN, WHOLE = STEPS[5:9]
LOADED = "processor time"
WHERE = "POINTSTAMP_BENCH_MOMENTS"


@dataclass(frozen=True, slots=True)
class NotedTask(Task):
    """A task that writes its moments down."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Be a member, as any task."""
        note(os.environ[WHERE], BORN, born())
        note(os.environ[WHERE], CALLED)
        note(os.environ[WHERE], LOADED, process_time())
        yield from Task.__call__(self, batches)

    def _work(self, membership: Membership, batches: Iterator[pa.RecordBatch]) -> None:
        note(os.environ[WHERE], KNOWN)
        Task._work(self, membership, batches)  # noqa: SLF001 - the moment before it is wanted


@dataclass(frozen=True, slots=True)
class NotedWork(QueryWork):
    """A member that writes down when it has met the others."""

    def perform(
        self, mesh: Mesh, seat: Placement, roster: Roster, batches: Iterator[pa.RecordBatch], sign: Sign
    ) -> None:
        """Be a member, as any."""
        note(os.environ[WHERE], WHOLE)
        QueryWork.perform(self, mesh, seat, roster, batches, sign)


@contextmanager
def noticing(moments: Moments) -> Iterator[None]:
    """Let the driver and all tasks note their moments."""
    with ExitStack() as opened:
        for owner, name, before, after in (
            (crew.SparkCrew, "_lost", STEPS[1], STEPS[2]),
            (supervisor.Supervisor, "_recover", STEPS[3], ""),
            (supervisor, "begin_generation", "", STEPS[4]),
            (supervisor.Supervisor, "_on_ready", STEPS[9], ""),
            (supervisor.Supervisor, "_on_commit", "", STEPS[10]),
        ):
            opened.enter_context(moments.around(owner, name, before, after))
        for module, name, kind, noted in (
            (worker_formation, "Task", Task, NotedTask),
            (crew, "QueryWork", QueryWork, NotedWork),
        ):
            opened.callback(setattr, module, name, kind)
            setattr(module, name, noted)
        yield


def disturb(query: Query, kills: int, moments: Moments, *, has_spare: bool) -> list[dict[str, float]]:
    """Kill one worker after the other, when a spare crew stands by; return the moments of each turn."""
    turns = []
    spares = [each for each in query._companions if isinstance(each, SpareKeeper)]  # noqa: SLF001
    keeper = spares[0] if has_spare else None
    until(lambda: query.epoch >= 2, query)
    for number in range(kills):
        if keeper is not None:
            until(lambda: keeper.is_standing, query)
        restarts, victim = query.restarts, query.workers()[number % WORKERS][1]
        moments.begin()
        moments.take(STEPS[0])
        os.kill(victim, signal.SIGKILL)
        until(lambda restarts=restarts: len(query.recovery_seconds) > restarts, query)  # type: ignore[misc]
        reached = query.epoch
        until(lambda reached=reached: query.epoch > reached, query)  # type: ignore[misc]
        turns.append(moments.with_tasks())
        until(lambda reached=reached: query.epoch > reached + 2, query)  # type: ignore[misc]
    return turns


def measure(spark: SparkSession, keys: int, kills: int, moments: Moments, *, has_spare: bool) -> None:
    """Run, disturb, stop, compare, and print the steps."""
    flow = Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    source = Drawn(keys, EPOCHS_MAX)
    restarts = RestartPolicy(restarts_max=1_000, pause_seconds=0.0)
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder, noticing(moments):
        places: dict[str, Any] = {"checkpoint": f"{folder}/checkpoint", "output": f"{folder}/out"}
        query = flow.start(
            on=spark,
            keys=source,
            workers=WORKERS,
            options=QueryOptions(restarts=restarts, spare_crew=has_spare),
            **places,
        )
        try:
            turns = disturb(query, kills, moments, has_spare=has_spare)
        finally:
            query.stop()
        found = read_changes(f"{folder}/out", "counts").sort_by("epoch")
        counts = dict(zip(found["key"].to_pylist(), found["count"].to_pylist(), strict=True))
        check(counts, tuple(pa.record_batch({"key": source.drawn(n)}) for n in range(query.epoch + 1)))
    # The tasks of a spare crew have noted theirs before; what is found is of the one that comes after it.
    steps = [name for name in STEPS if not has_spare or name not in (BORN, CALLED, KNOWN, WHOLE)]
    for name, step, since in table(turns, steps):
        report("recovery", step=name, ms=step, since_ms=since)
    loaded = [turn[LOADED] for turn in turns if LOADED in turn]
    if loaded:
        report("a new task's process", processor_ms=median(loaded) * 1000)
    last = [turn[STEPS[-1]] - turn[STEPS[0]] for turn in turns]
    report("recovery", kills=kills, keys=keys, epoch_ms=median(last) * 1000, epoch_ms_worst=max(last) * 1000)


def pid_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The process of this task."""
    for batch in batches:
        yield pa.record_batch({"id": pa.array([os.getpid()] * batch.num_rows, pa.int64())})


def limits(spark: SparkSession) -> None:
    """What Spark itself takes, and a bare Python."""
    tasks = spark.range(0, WORKERS, 1, WORKERS).mapInArrow(pid_of, "id long", barrier=True)
    tasks.collect()
    report("an empty barrier job", ms=min(timed(tasks.collect)[0] for _ in range(5)) * 1000)
    taken = []
    for _ in range(5):
        with suppress(ProcessLookupError):
            os.kill(tasks.collect()[0][0], signal.SIGKILL)
        sleep(0.1)  # Spark sees that an idle worker is dead before it takes it again
        taken.append(timed(tasks.collect)[0])
    report("an empty barrier job with a new Python worker", ms=median(taken) * 1000)
    for loads in ("pyspark.worker", "pyspark.worker, pointstamp.spark.crew"):
        code = f"import time\nimport {loads}\nprint(time.process_time())"
        seconds = [
            float(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout)  # noqa: S603
            for _ in range(5)
        ]
        report("a bare Python", loads=loads, processor_ms=min(seconds) * 1000)


def main() -> None:
    """The steps, then the limits."""
    parser = argparse.ArgumentParser(description="From the death of a Spark worker to the next epoch.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--spare", action="store_true", help="let a spare crew stand by")
    parser.add_argument("--loaded", action="store_true", help="fork workers that have loaded everything")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        os.environ[WHERE] = folder
        settings = {"spark.python.daemon.module": "pointstamp.spark.daemon"} if given.loaded else {}
        with session("recovery", 2 * WORKERS if given.spare else WORKERS, settings) as spark:
            measure(spark, given.keys, given.kills, Moments(Path(folder)), has_spare=given.spare)
            limits(spark)


if __name__ == "__main__":
    main()
