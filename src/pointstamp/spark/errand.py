"""Calls of Spark in a separate thread, whose jobs can be cancelled.

An interrupt of the keyboard comes to the main thread, wherever it is. In the middle of a call to Java it
breaks more than that call: py4j then closes every connection to the same gateway, those of other threads and
those that are made meanwhile, and the job continues although no caller waits for it. So no call is made where
an interrupt can come. The thread of the errand calls Spark; the caller waits for its result at a lock,
where an interrupt breaks nothing.

Invariant: when an exception ends the wait or the work, the jobs of the errand are cancelled. They are
cancelled again and again until its thread has ended, because a job that is about to be submitted is not found
yet; and by a separate thread, so that a second interrupt ends the wait but not the cancelling. What the
errand does after its last job is not undone, so publishing happens outside.

The thread inherits the local properties of the one that makes the errand (job group, pool, tags).
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager
from time import sleep
from types import FrameType
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

from pyspark.sql import SparkSession

from pointstamp.spark.slots import is_connect

END_SECONDS_MAX: Final = 30.0
"""How long Spark may take to end the tasks of a job that was cancelled."""

_AGAIN_SECONDS: Final = 0.2
_ATTEMPTS: Final = 5
_STAGE_ATTEMPTS_MAX: Final = 4
_TASKS_MAX: Final = 1_000
"""How many tasks of a stage are looked through for one that has failed."""
_ATTEMPT_SECONDS: Final = 0.2

_Result = TypeVar("_Result")
_log = logging.getLogger("pointstamp.spark")


class Errand(Generic[_Result]):
    """Work that is done once, in a thread; ``send`` starts it, any thread may wait for it or cancel it."""

    def __init__(self, spark: SparkSession, work: Callable[[], _Result]) -> None:
        self._spark = spark
        self._work = work
        self._inherit = inheritance(spark)
        self._tag = f"pointstamp-{uuid4().hex}"
        self._outcome: Future[_Result] = Future()
        self._is_cancelled = False

    def send(self) -> None:
        """Start the work."""
        threading.Thread(target=self._run, name="pointstamp-errand", daemon=True).start()

    def has_ended(self, seconds_max: float = 0.0) -> bool:
        """Whether the work has ended, well or not, after waiting this long."""
        return not futures.wait([self._outcome], seconds_max).not_done

    @property
    def error(self) -> BaseException | None:
        """The exception of the work, after it has ended."""
        return self._outcome.exception(0)

    def result(self) -> _Result:
        """Wait for the result of the work, or raise its exception; leaving the wait early ends the work."""
        try:
            return self._outcome.result()
        except BaseException:
            self.cancel()
            raise

    def when_ended(self, call: Callable[[], None]) -> None:
        """Have something called when the work has ended, in its thread; at once if it has."""
        self._outcome.add_done_callback(lambda _: call())

    def active_tasks(self) -> int | None:
        """How many tasks of its jobs Spark runs now; None where Spark does not say."""
        try:
            # Spark's status store is late by up to a heartbeat of the executors; its scheduler is not.
            inner: Any = self._spark.sparkContext
            scheduler = inner._jsc.sc().taskScheduler()  # noqa: SLF001 - not public in Python
            sets = [
                scheduler.taskSetManagerForAttempt(stage, attempt)
                for stage in self._stages()
                for attempt in range(_STAGE_ATTEMPTS_MAX)
            ]
            return sum(int(each.get().runningTasks()) for each in sets if each.isDefined())
        except Exception:  # py4j's; the session may be stopped, and the job says so better
            return None

    def failed_task(self) -> str | None:
        """Spark's message about a task of its jobs that has failed; None while there is none, or unknown."""
        try:
            context: Any = self._spark.sparkContext
            # Not public in Python; filled with the UI off as well.
            store = context._jsc.sc().statusStore()  # noqa: SLF001
            for stage in self._stages():
                tasks = store.taskList(stage, 0, _TASKS_MAX)
                for number in range(tasks.size()):
                    message = tasks.apply(number).errorMessage()
                    if message.isDefined():
                        return str(message.get())
        except Exception as error:  # as above, and Connect's, which has no store
            _log.debug("Spark was not asked about failed tasks: %s", error)
        return None

    def _tracker(self) -> Any:  # noqa: ANN401 - of the JVM
        context: Any = self._spark.sparkContext
        # Not public in Python.
        return context._jsc.sc().statusTracker()  # noqa: SLF001

    def _stages(self) -> list[int]:
        """The stages of its jobs."""
        tracker = self._tracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(self._tag)]
        return [stage for job in jobs if job.isDefined() for stage in job.get().stageIds()]

    def cancel(self, *, waits: bool = True) -> None:
        """Let Spark kill the tasks, and wait until the work has ended, at most for ``END_SECONDS_MAX``."""
        self._is_cancelled = True
        if self._outcome.done():
            return
        threading.Thread(target=self._cancel_until_ended, name="pointstamp-cancel", daemon=True).start()
        if waits and not self.has_ended(END_SECONDS_MAX):
            _log.warning(
                "Spark has not ended the tasks of a job within %g seconds; their slots stay taken until it "
                "does.",
                END_SECONDS_MAX,
            )

    def _cancel_until_ended(self) -> None:
        while not self._outcome.done():
            self._interrupt()
            self.has_ended(_AGAIN_SECONDS)

    def _run(self) -> None:
        try:
            self._inherit()
            self._mark()
            # Who cancels says so first and looks for jobs then: one of the two sees the other.
            if self._is_cancelled:
                raise KeyboardInterrupt
            result = self._work()
        except BaseException as error:  # raised again by whoever waits
            self._leave_nothing()
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(result)

    def _leave_nothing(self) -> None:
        """Cancel a job that still runs; a lost connection does not tell."""
        for _ in range(_ATTEMPTS):
            if self._interrupt():
                return
            sleep(_ATTEMPT_SECONDS)

    def _interrupt(self) -> bool:
        """Cancel the jobs that there are now; False where Spark could not be told."""
        try:
            # Not the session's own tags in a classic session: another thread would interrupt nothing by them.
            if is_connect(self._spark):
                self._spark.interruptTag(self._tag)
            else:
                self._spark.sparkContext.cancelJobsWithTag(self._tag)
        except Exception as error:  # py4j's and grpc's have no common kind; the session may be stopped
            _log.debug("a job could not be cancelled: %s", error)
            return False
        return True

    def _mark(self) -> None:
        if is_connect(self._spark):
            self._spark.addTag(self._tag)
        else:
            self._spark.sparkContext.addJobTag(self._tag)


def inheritance(spark: SparkSession) -> Callable[[], object]:
    """What another thread needs to inherit from the caller: the same job group, pool and tags.

    pyspark's own ``InheritableThread`` does not do: it takes every session of a process for one of Connect
    where any is, and what fails in it fails before our function is called, unheard.
    """
    if is_connect(spark):
        tags = spark.getTags()
        return lambda: [spark.addTag(tag) for tag in tags]
    context: Any = spark.sparkContext
    try:
        with _undisturbed():
            inner = context._jsc.sc()  # noqa: SLF001 - Python has no name for it
            properties = inner.getLocalProperties().clone()
    except Exception:  # the session is stopped, and the work says so better
        return lambda: None
    return lambda: inner.setLocalProperties(properties)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put an interrupt off until a short call to Java, which only this thread can make, is over."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def put_off(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))
        if len(came) > 1:  # somebody insists: the call does not end
            before(number, frame)

    signal.signal(signal.SIGINT, put_off)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])


def fetch(spark: SparkSession, work: Callable[[], _Result]) -> _Result:
    """Do something with Spark and return its result; an interrupt cancels its jobs."""
    errand = Errand(spark, work)
    try:
        errand.send()
    except BaseException:
        errand.cancel()
        raise
    return errand.result()
