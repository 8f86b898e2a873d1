"""The Spark job of a query's workers: it runs in a separate thread (``errand``), as long as they do.

If it ends too early, Spark's message is put into words.
"""

from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pointstamp.errors import PointstampError, TransportError
from pointstamp.query.crew import CrewError
from pointstamp.spark.crewtask import Task
from pointstamp.spark.errand import Errand
from pointstamp.spark.failures import in_words
from pointstamp.spark.meeting import REPORT
from pointstamp.spark.slots import is_connect
from pointstamp.spark.ui_link import UiLink, job_description


class CrewJob:
    """A job that runs in a separate thread; its tasks are ordinary ones, or those of a barrier stage."""

    def __init__(self, spark: SparkSession, task: Task, link: UiLink | None, *, barrier: bool) -> None:
        def run() -> None:
            workers = task.mission.workers
            if not is_connect(spark):
                generation = None if task.is_spare else task.mission.generation
                words = job_description(task.mission.plan.name, generation, link)
                spark.sparkContext.setJobDescription(words)  # of this thread's jobs
            tasks = spark.range(0, workers, 1, workers)
            tasks.mapInArrow(task, from_arrow_schema(REPORT), barrier=barrier).collect()

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

    def words(self, wait_seconds: float = 0.0) -> str | None:
        """Why the job has ended, as text; None while it runs."""
        return str(self._failure()) if self._errand.has_ended(wait_seconds) else None

    def check(self) -> None:
        """CrewError, with its cause, if the job has ended: some failures would come again for ever."""
        if self._errand.has_ended():
            cause = self._failure()
            raise CrewError(str(cause)) from cause

    def _failure(self) -> PointstampError:
        if self._errand.error is None:
            return TransportError("all tasks of the crew have ended.")
        return in_words(str(self._errand.error), published="")

    def cancel(self, *, waits: bool = True) -> None:
        """Let Spark kill the tasks, and wait until their slots are free, unless nobody needs them."""
        self._errand.cancel(waits=waits)

    def finish(self) -> None:
        """Wait a moment for tasks that leave by themselves; then cancel."""
        if not self._errand.has_ended(2.0):
            self.cancel()
