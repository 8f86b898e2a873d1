"""Workers of a query on Spark: tasks of a job, connected through the mesh.

How they are formed is in ``worker_formation``. The workers of a generation end when one of them is lost. The
driver learns that from Spark, whose job ends, or from the mesh, whichever is first; it tells the others to
leave, so that their slots are free soon. Ending them cancels the job: Spark kills tasks that do not answer.
With spare workers (``spare``), those are the next ones.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from time import monotonic
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession

from pointstamp.driver.messages import Failed, Ready, Report
from pointstamp.errors import PointstampError, RecoveryError, TransportError
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX
from pointstamp.query.crew import CrewError, MeshCrew
from pointstamp.query.mission import Mission
from pointstamp.query.rendezvous import SETTLE_SECONDS
from pointstamp.query.standby import dismiss
from pointstamp.spark.crew_task import QueryWork
from pointstamp.spark.errand import inheritance
from pointstamp.spark.failures import check_sendable
from pointstamp.spark.slots import SlotPlan, is_connect, is_stopped, slots_now
from pointstamp.spark.worker_formation import (
    HURRY_SECONDS,
    SLOTS_SECONDS_MAX,
    StartedTasks,
    Waiting,
    Wanted,
    start_workers,
)

# How long the orders to leave may take to get out, the workers that were not lost to follow them, and all
# tasks to end: then Spark keeps their processes, with all that they have loaded, for the next generation.
# What Spark starts for a lost task may have to load everything first.
_LEAVE_MS: Final = 50
_LEAVE_SECONDS: Final = 0.3
_WORKERS_SECONDS: Final = 1.0
_COPIES_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.03
# How long to wait for what Spark says about the end of a task: it is only for the words.
_WORDS_SECONDS: Final = 0.3


class Spares(Protocol):
    """Who keeps a crew that stands by; used by the launcher and its crew."""

    def prepare(self, mission: Mission) -> None:
        """Start a crew that stands by for this query, unless there is one; it returns at once."""
        ...

    def taken(self, mission: Mission) -> StartedTasks | None:
        """Let the crew that stands by join a mission and set out; None where there is none."""
        ...


class SparkLauncher:
    """Starts workers as jobs of a session; ``crew`` is the last generation's."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        slots: SlotPlan,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        barrier: bool = False,
        slots_seconds_max: float = SLOTS_SECONDS_MAX,
    ) -> None:
        self._spark = spark
        self._slots = slots
        self._silence_seconds_max = silence_seconds_max
        self._barrier = barrier
        self._slots_seconds_max = slots_seconds_max
        # All generations run in the pool, and with the job group, of the thread that starts the query.
        self._inherit = inheritance(spark)
        self.crew: SparkCrew | None = None
        self._has_lost = False
        self.link: UiLink | None = None
        """Where Spark's UI leads to from the jobs of the workers."""
        self.spares: Spares | None = None
        self.is_wanted: Callable[[], bool] = lambda: True
        """Called while Spark starts the tasks, which may take long: whether they are still wanted."""
        self.on_waiting: Callable[[str], None] = lambda words: None
        """Told what is waited for while Spark has not started enough workers."""

    def launch(self, mission: Mission) -> "SparkCrew":
        """Start the workers of a generation, or take over those that stand by; they have met at the end."""
        if is_stopped(self._spark):
            raise RecoveryError(
                f"the Spark session in which flow '{mission.plan.name}' ran was stopped. Start the flow in "
                "another one with the same checkpoint; it resumes from there."
            )
        # The slots that are left are enough at once: executors that come later join with a new generation.
        self._has_lost = self.crew is not None and self.crew.has_lost
        spares = self.spares
        tasks = None if spares is None else spares.taken(mission)
        if tasks is None:
            tasks = self.start(mission, self.is_wanted)
        self.crew = SparkCrew(
            tasks,
            has_spares=spares is not None,
            on_ready=(lambda: None) if spares is None else lambda: spares.prepare(mission),
        )
        return self.crew

    def is_at_work(self) -> bool:
        """Whether all workers of a generation are ready, and none was lost; any thread may ask."""
        return self.crew is not None and self.crew.is_at_work

    def start(
        self, mission: Mission, is_wanted: Callable[[], bool], *, is_spare: bool = False
    ) -> StartedTasks:
        """Start workers, at most ``mission.workers``; they have met when this returns."""
        check_sendable(mission.plan, mission)
        self._inherit()
        after_loss = self._has_lost and not is_spare and not self._barrier
        hurries = after_loss and self._slots.is_eager
        spark, wish = self._spark, self._slots.capped(slots_now(self._spark), hurries=hurries)
        wanted = Wanted(
            QueryWork(replace(mission, workers=wish), is_spare),
            lambda: spark.range(0, wish, 1, wish),
            wish,
            wish if self._barrier else min(self._slots.least, wish),
            description=job_description(
                mission.plan.name, None if is_spare else mission.generation, self.link
            ),
            barrier=self._barrier,
        )
        waiting = Waiting(
            is_wanted,
            lambda words: self.on_waiting(words),
            self._slots_seconds_max,
            settle_seconds=HURRY_SECONDS if hurries else SETTLE_SECONDS,
            hurries=hurries,
            after_loss=after_loss,
        )
        return start_workers(spark, wanted, waiting, silence_seconds_max=self._silence_seconds_max)


class SparkCrew(MeshCrew):
    """Workers in the tasks of one job."""

    def __init__(
        self,
        tasks: StartedTasks,
        *,
        has_spares: bool = False,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(tasks.mesh, tasks.workers)
        self._job = job = tasks.job
        self._rendezvous = tasks.rendezvous
        self._opened = tasks.opened
        self._unready = set(range(tasks.workers))
        self._has_spares = has_spares
        self._on_ready = on_ready
        self.has_lost = False
        """Whether a worker was lost, or has failed."""
        self._bell, bell = socket.socketpair()
        self._bell.setblocking(False)
        job.when_ended(bell.close)  # which makes the other end readable

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived; the first failure ends the crew without waiting for the others."""
        self._rendezvous.poll(0)  # tasks that are late
        reports = super().collect()
        if any(isinstance(report, Failed) for _, report in reports):
            self.has_lost = True
        if self._unready:
            self._unready -= {worker for worker, report in reports if isinstance(report, Ready)}
            if not self._unready:
                self._on_ready()
        return reports

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """Wait for a report, for one of these files, for the end of the job, or for a timeout."""
        super().wait(timeout_seconds, [*files, self._bell.fileno(), self._rendezvous.fileno()])

    @property
    def is_at_work(self) -> bool:
        """Whether all workers are ready, and none was lost; any thread may ask."""
        return not self._unready and not self.has_lost and self._bell.fileno() >= 0

    @property
    def could_grow(self) -> bool:
        """Whether tasks have registered too late for this generation, which has fewer workers than wished."""
        return self._rendezvous.late > 0 and self.workers < self._rendezvous.wish

    def deaths(self) -> str | None:
        """What Spark says about a job that has ended too early."""
        words = self._job.words()
        self.has_lost = self.has_lost or words is not None
        return words

    def end(self) -> None:
        """Close the mesh, and see that Spark frees the slots; ending again does nothing."""
        if self._bell.fileno() < 0:
            return
        self._bell.close()
        if self.has_lost:
            dismiss(self._mesh, self.workers)
            self._mesh.close(linger_ms=_LEAVE_MS)
            if self._has_spares:  # it has slots of its own
                self._rendezvous.wait_until_left(_LEAVE_SECONDS)
            else:
                self._wait_for_tasks()
            self._opened.close()
            self._job.cancel(waits=not self._has_spares)
        else:
            self._mesh.close()
            self._opened.close()
            self._job.finish()

    def _wait_for_tasks(self) -> None:
        """Let the tasks end by themselves, also those that Spark starts for lost ones.

        Spark starts those at once, in the slots that the next generation needs. They register and are
        dismissed. A task that is cancelled would take its Python process along.
        """
        begun = monotonic()
        while not self._job.has_ended:
            self._rendezvous.poll(_LOOK_SECONDS)
            active, connected = self._job.active_tasks() or 0, self._rendezvous.connected
            patience = _COPIES_SECONDS if active > connected else _WORKERS_SECONDS
            if not active or monotonic() - begun > patience:
                break

    def _lost(self, error: TransportError) -> PointstampError:
        self.has_lost = True
        # Spark knows a moment later what became of the task; where a crew stands by, that is not waited for.
        wait_seconds = 0.0 if self._has_spares else _WORDS_SECONDS
        return CrewError(str(self._job.cause(wait_seconds) or error))


# A link from Spark's UI to the dashboard of a query.
#
# Spark shows the description of a job as text, with links in it only if they are relative to its own UI. So
# the description of a query's job links to a path of Spark's UI, and that path sends the browser on to the
# dashboard. Whoever may open Spark's UI may follow it: Spark's own filters and access lists are before it.
# Where there is no UI, or no Java behind the session (Spark Connect), there is no link.

_DEFAULT: Final = "createRedirectHandler$default$"
"""What Scala calls the default of an argument, before its number."""


class UiLink:
    """The link of one query; it leads to the dashboard that was opened last."""

    def __init__(self, spark: SparkSession, query_id: str) -> None:
        self._spark = spark
        self._handler: Any = None
        self.path = f"/pointstamp/{query_id}"

    def lead_to(self, address: str) -> str | None:
        """Let the path lead to a dashboard; the path's complete address, or None where Spark has no UI."""
        if is_connect(self._spark):
            return None
        context: Any = self._spark.sparkContext
        try:
            found = context._jsc.sc().ui()  # noqa: SLF001 - the one way to Spark's own objects
            if found.isEmpty():
                return None
            ui, utils = found.get(), context._jvm.org.apache.spark.ui.JettyUtils  # noqa: SLF001
            defaults = [getattr(utils, f"{_DEFAULT}{number}")() for number in (3, 4, 5, 6)]
            handler = utils.createRedirectHandler(self.path, address, *defaults)
            if self._handler is not None:
                ui.detachHandler(self._handler)
            ui.attachHandler(handler)
            self._handler = handler
            return f"{ui.webUrl()}{self.path}/"
        except Exception:  # py4j's errors say only that another Spark names it otherwise
            return None


def job_description(flow: str, generation: int | None, link: UiLink | None) -> str:
    """What Spark's UI says of the job of a crew; a spare one has no generation yet.

    >>> job_description("a < b", 2, None)
    "pointstamp: flow 'a &lt; b', generation 2"
    """
    which = "a spare crew" if generation is None else f"generation {generation}"
    words = f"pointstamp: flow '{escape(flow, quote=False)}', {which}"
    return words if link is None else f'{words}, <a href="{escape(link.path)}/">dashboard</a>'


def run_description(flow: str, workers: int) -> str:
    """What Spark's UI says of the job of a bounded run.

    >>> run_description("a < b", 2)
    "pointstamp: flow 'a &lt; b', 2 workers"
    """
    return f"pointstamp: flow '{escape(flow, quote=False)}', {workers} worker{'s' if workers > 1 else ''}"
