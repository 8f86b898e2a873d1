"""What Spark's own features do to queries and runs, on a standalone master whose workers are two hosts.

``python faults_job.py MASTER FOLDER`` prints one line of JSON: what happened, for ``test_task_faults.py``.
The two hosts are loopback addresses: Spark starts a speculative copy of a task only on another host.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

import pointstamp as ps
from support.options import with_options
from support.streams import counts_by_epoch, published_by_epoch, put, until, words_flow

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "600m",
    "spark.executor.cores": "2",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": "2",
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "1",
    "spark.excludeOnFailure.application.maxFailedTasksPerExecutor": "100",
    "spark.decommission.enabled": "true",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.deploy.maxExecutorRetries": "-1",
}


BROKEN_HOST = "127.0.0.2"
PYTHON = """#!/bin/sh
[ -e {broken} ] && grep -aq -- {host} /proc/$PPID/cmdline && exit 1
exec {python} "$@"
"""
"""The executors' Python, which does not start on one of the hosts as long as a file is there."""


class Story:
    """One query, the words that were put in, and what is told about it."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:  # noqa: ANN401
        self.folder = folder
        self.batches: list[list[str]] = []
        self.feed()
        self.query = words_flow("words").start(
            on=spark,
            words=ps.io.files(folder / "in"),
            checkpoint=str(folder / "c"),
            output=str(folder / "o"),
            **with_options(
                options, ps.QueryOptions(restarts=ps.RestartPolicy(restarts_max=100, pause_seconds=0.01))
            ),
        )
        self.catch_up()

    def feed(self) -> None:
        """Let one more epoch arrive."""
        number = len(self.batches)
        self.batches.append([f"w{number % 3}", "always"])
        put(self.folder / "in", f"{number:05}", {"word": self.batches[-1]})

    def catch_up(self) -> None:
        """Wait until all that has arrived is published."""
        until(lambda: not self.query.is_active or self.query.epoch >= len(self.batches) - 1)
        assert self.query.is_active, self.query.exception()

    def strike(self, act: Callable[[], object]) -> float:
        """Do harm, and wait until the query has restarted and published more; the seconds that took."""
        before, begun = self.query.restarts, monotonic()
        act()
        until(lambda: self.query.restarts > before)
        self.feed()
        self.catch_up()
        return round(monotonic() - begun, 2)

    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [pid for _, pid in self.query.workers()]

    def is_right(self) -> bool:
        """Whether every epoch is published once, and is what an oracle says."""
        return published_by_epoch(self.folder / "o", "counts") == counts_by_epoch(self.batches)


def tasks_of(spark: SparkSession) -> list[Any]:
    """The tasks of workers that Spark runs now, as it shows them."""
    context: Any = spark.sparkContext
    store = context._jsc.sc().statusStore()
    stages = store.activeStages()
    found = []
    for number in range(stages.size()):
        stage = stages.apply(number)
        if "loads executors" in str(stage.description()):
            continue
        tasks = store.taskList(stage.stageId(), stage.attemptId(), 100)
        found += [(stage, tasks.apply(each)) for each in range(tasks.size())]
    return found


def executor_of(pid: int) -> int:
    """The executor whose daemon has started a worker."""
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def host_of(pid: int) -> str:
    """The host of an executor, as Spark names it."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return words[words.index("--hostname") + 1]


def kill(pid: int) -> None:
    """End a process at once."""
    os.kill(pid, signal.SIGKILL)


def excluded_nodes(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Python does not start on one of the hosts: the attempt that fails there is repeated on the other."""
    story = Story(spark, folder, workers=2)
    found = {
        "failed on": sorted({task.host() for _, task in tasks_of(spark) if task.status() == "FAILED"}),
        "workers on": sorted({host_of(executor_of(pid)) for pid in story.pids()}),
        "workers": len(story.pids()),
        "restarts": story.query.restarts,
    }
    story.query.stop()
    return {**found, "is right": story.is_right()}


def speculation_and_pools(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Copies of the tasks wait beside the workers; then more workers are lost than a task may fail."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "mine")
    story = Story(spark, folder, workers=2)
    until(lambda: any(task.speculative() for _, task in tasks_of(spark)))
    for _ in range(5):
        story.feed()
        story.catch_up()
    found: dict[str, Any] = {"restarts under speculation": story.query.restarts}
    seconds = [story.strike(lambda: kill(story.pids()[0])) for _ in range(4)]
    found["seconds after a lost worker"] = seconds
    until(lambda: tasks_of(spark))
    found["pools"] = sorted({stage.schedulingPool() for stage, _ in tasks_of(spark)})
    found["seconds after a lost executor"] = story.strike(lambda: kill(executor_of(story.pids()[0])))
    found["restarts"] = story.query.restarts
    story.query.stop()
    found["is right"] = story.is_right()
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)
    return found


def decommissioning(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """An executor with a worker is decommissioned: the query continues; when it ends, the query restarts."""
    story = Story(spark, folder, workers=2)
    victim = next(task.executorId() for _, task in tasks_of(spark))
    java: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext
    scheduler: Any = java.org.apache.spark.scheduler
    info = scheduler.ExecutorDecommissionInfo("test", java.scala.Option.empty())
    backend = context._jsc.sc().schedulerBackend()
    accepted = backend.decommissionExecutor(victim, info, False, False)
    story.feed()
    story.catch_up()
    restarts = story.query.restarts
    seconds = story.strike(lambda: kill(executor_of(story.pids()[0])))
    story.query.stop()
    return {
        "accepted": accepted,
        "restarts before it ends": restarts,
        "seconds after it ended": seconds,
        "is right": story.is_right(),
    }


def bounded_run_beside(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A run loses an executor with the rows that it has shuffled, and another session's batch job goes on."""
    flag = folder / "begun"

    def slow(batch: Any) -> Any:  # noqa: ANN401 - sent with the flow
        import time

        flag.parent.mkdir(parents=True, exist_ok=True)
        (flag.parent / f"pid-{os.getpid()}").touch()
        time.sleep(0.0 if flag.exists() else 2.0)
        return batch

    flow = ps.Dataflow("counts")
    numbers = flow.stream_input("numbers", "x long").exchange("x").map_batches(slow)
    flow.output("counts", numbers.count("x"))
    frame = spark.range(0, 2_000, 1, 4).selectExpr("id % 91 as x", "id % 3 as at")
    rows: list[Any] = []
    run = threading.Thread(
        target=lambda: rows.extend(
            flow.run(on=spark, numbers=frame, epoch="at", workers=2, output=str(folder / "out"))[
                "counts"
            ].collect()
        )
    )
    run.start()
    until(lambda: list(folder.glob("pid-*")))
    victim = int(next(iter(folder.glob("pid-*"))).name.removeprefix("pid-"))
    flag.touch()
    kill(executor_of(victim))
    beside = spark.range(0, 100, 1, 4).count()
    run.join()
    expected = frame.groupBy("at", "x").count().collect()
    return {"is right": sorted(map(tuple, rows)) == sorted(map(tuple, expected)), "beside": beside}


def main() -> None:
    """Run all stories in one session."""
    master, folder = sys.argv[1], Path(sys.argv[2])
    broken, python = folder / "broken", folder / "python"
    folder.mkdir()
    broken.touch()
    python.write_text(PYTHON.format(broken=broken, host=BROKEN_HOST, python=sys.executable))
    python.chmod(0o755)
    os.environ["PYSPARK_PYTHON"] = str(python)
    settings = {**SETTINGS, "spark.executorEnv.PYTHONPATH": ":".join(sys.path)}
    spark = SparkSession.builder.master(master).config(map=dict(settings)).getOrCreate()
    until(lambda: spark.sparkContext.defaultParallelism >= 4)
    found = {}
    for story in (excluded_nodes, speculation_and_pools, decommissioning, bounded_run_beside):
        (folder / story.__name__).mkdir(parents=True)
        found[story.__name__] = story(spark, folder / story.__name__)
        broken.unlink(missing_ok=True)
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
