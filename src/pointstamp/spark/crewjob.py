"""The Spark job of some workers: it runs in a separate thread (``errand``), as long as they do.

If it ends too early, Spark's message is put into words.
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pointstamp.errors import PointstampError, TransportError
from pointstamp.query.crew import CrewError
from pointstamp.spark.crewtask import Task
from pointstamp.spark.errand import Errand
from pointstamp.spark.failures import in_words
from pointstamp.spark.slots import is_connect

_LOOK_SECONDS: Final = 0.05


class CrewJob:
    """A job that runs in a separate thread; its tasks are ordinary ones, or those of a barrier stage."""

    def __init__(
        self,
        spark: SparkSession,
        task: Task,
        rows: Callable[[], DataFrame],
        description: str | None,
        *,
        barrier: bool,
        published: str = "",
    ) -> None:
        def run() -> None:
            if description is not None and not is_connect(spark):
                spark.sparkContext.setJobDescription(description)  # of this thread's jobs
            rows().mapInArrow(task, "worker int", barrier=barrier).collect()

        self._published = published
        self._errand = Errand(spark, run)
        self._errand.send()

    def active_tasks(self) -> int | None:
        """How many tasks Spark runs now; None where it does not say."""
        return self._errand.active_tasks()

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, well or not."""
        return self._errand.has_ended()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Have something called when the job has ended, in whichever thread sees that; at once if it has."""
        self._errand.when_ended(call)

    def words(self) -> str | None:
        """Why the job has ended, as text; None while it runs."""
        return str(self._failure()) if self._errand.has_ended() else None

    def cause(self, wait_seconds: float) -> PointstampError | None:
        """Why a task has failed, as Spark knows it after a moment; None if it does not say."""
        deadline = monotonic() + wait_seconds
        while True:
            if self._errand.has_ended():
                return self._failure()
            message = self._errand.failed_task()
            if message is not None:
                return in_words(message, published=self._published)
            if monotonic() >= deadline:
                return None
            sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """CrewError, with its cause, if the job has ended: some failures would come again for ever."""
        if self._errand.has_ended():
            cause = self._failure()
            raise CrewError(str(cause)) from cause

    def _failure(self) -> PointstampError:
        if self._errand.error is None:
            return TransportError("all tasks of the crew have ended.")
        return in_words(str(self._errand.error), published=self._published)

    def cancel(self, *, waits: bool = True) -> None:
        """Let Spark kill the tasks, and wait until their slots are free, unless that is not needed."""
        self._errand.cancel(waits=waits)

    def finish(self) -> None:
        """Wait a moment for tasks that leave by themselves; then cancel."""
        if not self._errand.has_ended(2.0):
            self.cancel()
