"""Executors without a worker load what one needs, so that workers that start there start soon.

The first Python task of an executor is slow: the executor loads Java classes, starts Spark's daemon of Python
workers, and a Python worker loads pyspark, pyarrow, numpy and pointstamp. After a lost executor the query
restarts on the others, and one that has not run any task yet would make it wait for all that. So while a
query runs and an executor is idle and new, short tasks load the same, as many on each executor as it would
have workers. They take free slots for that long only, and never while workers start. Spark ends idle Python
processes after a minute; the daemon and the classes stay.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from pointstamp.errors import PointstampError
from pointstamp.spark.errand import Errand, inheritance
from pointstamp.spark.slots import slots_now

_LOOK_SECONDS: Final = 1.0
_log = logging.getLogger("pointstamp.spark")


class WarmUp:
    """Looks for new executors as long as its query runs; a companion of the query."""

    def __init__(self, spark: SparkSession, flow: str, is_at_work: Callable[[], bool]) -> None:
        self._spark = spark
        self._flow = flow
        self._is_at_work = is_at_work
        # Its tasks run in the pool, and with the job group, of the thread that starts the query.
        self._inherit = inheritance(spark)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="pointstamp-warm-up", daemon=True)
        self.warm: set[str] = set()
        """The executors that have run a task of this."""

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def failure(self) -> PointstampError | None:
        """A query does not fail because executors start slowly."""
        return None

    def drain(self) -> None:
        """Wait for nothing: no row passes here."""

    def stop(self) -> None:
        """End the look, and the task that may run."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    # Inside.

    def _look(self) -> None:
        self._inherit()
        while not self._stopped.wait(_LOOK_SECONDS):
            if not self._is_at_work():
                continue
            running = tasks_of_executors(self._spark)
            self.warm &= running.keys()
            idle = {each for each, tasks in running.items() if not tasks}
            # Spark deals tasks out in turn. Those that wait for a slot would make it start executors.
            free = (slots_now(self._spark) or 0) - sum(running.values())
            if idle - self.warm and free > 0 and self._load(min(free, _tasks_for(running))):
                self.warm |= idle

    def _load(self, tasks: int) -> bool:
        """Run so many tasks that load; whether they have ended, well or not."""

        def run() -> None:
            self._spark.sparkContext.setJobDescription(f"pointstamp: flow '{self._flow}', loads executors")
            self._spark.range(0, tasks, 1, tasks).mapInArrow(load, "id long").collect()

        errand = Errand(self._spark, run)
        errand.send()
        while not errand.has_ended(_LOOK_SECONDS):
            if self._stopped.is_set() or not self._is_at_work():
                errand.cancel(waits=False)
                return False
        if errand.error is not None:
            _log.debug("executors could not be loaded: %s", errand.error)
        return True


def _tasks_for(running: dict[str, int]) -> int:
    """How many tasks load what the workers need when an executor is lost and the others take their share."""
    executors = len(running)
    return executors * max(1, ceil(sum(running.values()) / max(1, executors - 1)))


def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load what a worker loads; the function of each task."""
    from pointstamp.spark import crew_task  # noqa: F401 - it is loaded only to be there

    yield from batches


def tasks_of_executors(spark: SparkSession) -> dict[str, int]:
    """How many tasks each executor runs now; empty where Spark does not say."""
    try:
        context: Any = spark.sparkContext
        # Not public in Python.
        running = context._jsc.sc().taskScheduler().runningTasksByExecutors()  # noqa: SLF001
        found = context._jvm.scala.jdk.javaapi.CollectionConverters.asJava(running)  # noqa: SLF001
        return {str(each): int(found[each]) for each in found}
    except Exception:  # py4j's errors say only that another Spark names it otherwise, or that it is stopped
        return {}
