"""From the death of an executor to the next published epoch, step by step, beside Spark's own restart of it.

    .venv/bin/python -m benchmarks.spark.lost_executor [--workers 2] [--kills 6] [--loaded]

A query runs in ``local-cluster[2,2,1024]``; the executor of one of its workers is killed (SIGKILL) again and
again, each time when the idle executors have loaded Python (``pointstamp.spark.warm_up``). One JSON line per
step: its median, and the median since the kill; then how long it took until the first new epoch, and with how
many workers that was. ``executor_s`` is from the same kill until Spark has started another executor, which
the query does not wait for. The limit of the same run comes last: an empty job of as many tasks as workers,
submitted when an executor is killed, until it is done. With ``--loaded`` Spark's Python workers are forked
from a daemon that has loaded what they need (``pointstamp.spark.daemon``). The counts are compared with
numpy's.
"""

import argparse
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyspark
from benchmarks.figures import report, timed
from benchmarks.recovery.commits import check
from benchmarks.recovery.kill import EPOCHS_MAX, Drawn, until
from benchmarks.spark.recovery import STEPS, WHERE, noticing, pid_of
from benchmarks.spark.session import session
from benchmarks.spark.steps import Moments, table
from pyspark.sql import SparkSession

from pointstamp import Dataflow, QueryOptions
from pointstamp.connectors.published.reader import read_changes
from pointstamp.query.policy import RestartPolicy
from pointstamp.query.query import Query
from pointstamp.spark.slots import slots_now
from pointstamp.spark.warm_up import WarmUp, tasks_of_executors

MASTER = "local-cluster[2,2,1024]"
EXECUTORS, SLOTS = 2, 4
EXECUTOR_SECONDS_MAX = 120.0
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.deploy.maxExecutorRetries": "-1",
}


def executor_of(pid: int) -> int:
    """The executor whose daemon has started a Python worker."""
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


@dataclass
class Replacement:
    """How long Spark takes until a killed executor is missed and until another has registered."""

    spark: SparkSession
    missed: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def watch(self) -> Thread:
        """Look in another thread, from now on."""
        thread = Thread(target=self._look)
        thread.start()
        return thread

    def _look(self) -> None:
        begun = monotonic()
        for wanted, found in ((range(SLOTS), self.missed), (range(SLOTS, SLOTS + 1), self.seconds)):
            while slots_now(self.spark) not in wanted:
                if monotonic() - begun > EXECUTOR_SECONDS_MAX:
                    raise TimeoutError("Spark has not replaced an executor")
                sleep(0.25)
            found.append(monotonic() - begun)


def is_warm(warm_up: WarmUp, spark: SparkSession, workers: int) -> bool:
    """Whether each executor runs a worker, or has run one task, and no other task runs now."""
    running = tasks_of_executors(spark)
    return (
        len(running) == EXECUTORS
        and sum(running.values()) == workers
        and all(tasks or name in warm_up.warm for name, tasks in running.items())
    )


def disturb(
    query: Query, kills: int, idle_seconds: float, moments: Moments, replaced: Replacement
) -> list[dict[str, float]]:
    """Kill one executor after the other; return the moments of each turn."""
    turns = []
    (warm_up,) = (each for each in query._companions if isinstance(each, WarmUp))  # noqa: SLF001
    until(lambda: query.epoch >= 2, query)
    for _ in range(kills):
        until(lambda: is_warm(warm_up, replaced.spark, len(query.workers())), query)
        sleep(idle_seconds)
        restarts, victim = query.restarts, executor_of(query.workers()[0][1])
        moments.begin()
        moments.take(STEPS[0])
        os.kill(victim, signal.SIGKILL)
        watching = replaced.watch()
        until(lambda restarts=restarts: len(query.recovery_seconds) > restarts, query)  # type: ignore[misc]
        reached = query.epoch
        until(lambda reached=reached: query.epoch > reached, query)  # type: ignore[misc]
        turns.append({**moments.with_tasks(), "workers": float(len(query.workers()))})
        watching.join()
        until(lambda reached=reached: query.epoch > reached + 2, query)  # type: ignore[misc]
    return turns


def measure(
    spark: SparkSession, workers: int, keys: int, kills: int, idle_seconds: float, moments: Moments
) -> None:
    """Run, disturb, stop, compare, and print the steps."""
    flow = Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").group_by("key", running=True).count())
    source = Drawn(keys, EPOCHS_MAX * (1 + int(idle_seconds / 10)))
    restarts = RestartPolicy(restarts_max=1_000, pause_seconds=0.0)
    replaced = Replacement(spark)
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-", dir=Path.cwd()) as folder, noticing(moments):
        places: dict[str, Any] = {"checkpoint": f"{folder}/checkpoint", "output": f"{folder}/out"}
        options = QueryOptions(restarts=restarts)
        query = flow.start(on=spark, keys=source, workers=workers, options=options, **places)
        try:
            turns = disturb(query, kills, idle_seconds, moments, replaced)
        finally:
            query.stop()
        found = read_changes(f"{folder}/out", "counts").sort_by("epoch")
        counts = dict(zip(found["key"].to_pylist(), found["count"].to_pylist(), strict=True))
        check(counts, tuple(pa.record_batch({"key": source.drawn(n)}) for n in range(query.epoch + 1)))
    for name, step, since in table(turns, STEPS):
        report("lost executor", step=name, ms=step, since_ms=since)
    last = [turn[STEPS[-1]] - turn[STEPS[0]] for turn in turns]
    report(
        "lost executor",
        workers=workers,
        kills=kills,
        keys=keys,
        epoch_s=median(last),
        epoch_s_each=" ".join(f"{each:.2f}" for each in last),
        workers_after=" ".join(f"{turn['workers']:.0f}" for turn in turns),
        executor_missed_s=median(replaced.missed),
        executor_s=median(replaced.seconds),
    )


def limits(spark: SparkSession, workers: int, kills: int) -> None:
    """What Spark takes for an empty job when an executor is killed, and otherwise."""
    tasks = spark.range(0, workers, 1, workers).mapInArrow(pid_of, "id long")
    tasks.collect()
    report("an empty job", seconds=min(timed(tasks.collect)[0] for _ in range(3)))
    taken, replaced = [], Replacement(spark)
    for _ in range(kills):
        os.kill(executor_of(tasks.collect()[0][0]), signal.SIGKILL)
        watching = replaced.watch()
        taken.append(timed(tasks.collect)[0])
        watching.join()
    report(
        "an empty job when an executor was killed", seconds=median(taken), executor_s=median(replaced.seconds)
    )


def main() -> None:
    """The steps, then the limits."""
    parser = argparse.ArgumentParser(description="From the death of an executor to the next epoch.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument(
        "--idle", type=float, default=0.0, help="seconds before each kill (Spark ends idle processes)"
    )
    parser.add_argument("--loaded", action="store_true", help="fork workers that have loaded everything")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pointstamp-bench-") as folder:
        os.environ[WHERE] = folder
        settings = {
            **SETTINGS,
            "spark.executorEnv.PYTHONPATH": os.getcwd(),
            f"spark.executorEnv.{WHERE}": folder,
        }
        if given.loaded:
            settings["spark.python.daemon.module"] = "pointstamp.spark.daemon"
        with session("lost executor", settings=settings, master=MASTER) as spark:
            application = spark.sparkContext.applicationId
            while slots_now(spark) != SLOTS:
                sleep(0.25)
            measure(spark, given.workers, given.keys, given.kills, given.idle, Moments(Path(folder)))
            limits(spark, given.workers, given.kills)
    # local-cluster keeps the folders of its executors beside Spark itself.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


if __name__ == "__main__":
    main()
