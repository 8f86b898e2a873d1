"""Crews on Spark: the members of a generation as barrier tasks, which the driver speaks to through a mesh.

The driver binds its socket first and sends its address along with the tasks (``crewtask``). It reads theirs
below the checkpoint, and then the mesh is whole: only members know each other's keys.

A crew ends when a member is lost. The driver hears that from Spark, whose job ends, or from the mesh,
whichever comes first; it tells the others to leave, so that their slots are free soon. Ending a crew cancels
its job: Spark kills tasks that do not answer. Where a spare crew stands by (``spare``), that is the next one.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import Final, NamedTuple, Protocol

from pyspark.sql import SparkSession

from pointstamp.errors import NotStored, PointstampError, RecoveryError, TransportError
from pointstamp.mesh.door import Address
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.mesh.places import LOOPBACK, address_of
from pointstamp.query.crew import CrewError
from pointstamp.query.meshcrew import MeshCrew
from pointstamp.query.mission import Mission
from pointstamp.query.standby import dismiss
from pointstamp.running.messages import Failed, Ready, Report
from pointstamp.running.workerprocess import member_names
from pointstamp.spark.crewjob import CrewJob
from pointstamp.spark.crewtask import Task, addresses_at
from pointstamp.spark.meeting import MEETING_SECONDS_MAX, listens_at, meeting_folder, versions
from pointstamp.spark.sendable import check_sendable
from pointstamp.spark.slots import is_connect, is_local, is_stopped
from pointstamp.spark.ui_link import UiLink

_LOOK_SECONDS: Final = 0.02
# How long those that were not lost may take to say goodbye, before Spark ends them.
_LEAVE_MS: Final = 50
# How long to wait for what Spark says about the end of a task: it is only for the words.
_WORDS_SECONDS: Final = 0.3
START_SECONDS_MAX: Final = 120.0
"""How long Spark may take to start all tasks of a crew."""


class StartedTasks(NamedTuple):
    """Tasks that have met, and the mesh in which the driver speaks to them."""

    mesh: Mesh
    job: CrewJob


class Spares(Protocol):
    """Who keeps a crew that stands by; used by the launcher and its crew."""

    def prepare(self, mission: Mission) -> None:
        """Start a crew that stands by for this query, unless there is one; it returns at once."""
        ...

    def taken(self, mission: Mission) -> StartedTasks | None:
        """Let the crew that stands by join a mission and set out; None where there is none."""
        ...


class SparkLauncher:
    """Starts crews as barrier jobs of a session; ``crew`` is the last one."""

    def __init__(self, spark: SparkSession, *, silence_seconds_max: float = SILENCE_SECONDS_MAX) -> None:
        self._spark = spark
        self._silence_seconds_max = silence_seconds_max
        self.crew: SparkCrew | None = None
        self.link: UiLink | None = None
        """Where Spark's UI leads to from the jobs of the crews."""
        self.spares: Spares | None = None
        self.is_wanted: Callable[[], bool] = lambda: True
        """Called while Spark starts the tasks, which may take long: whether they are still wanted."""

    def launch(self, mission: Mission) -> "SparkCrew":
        """Start the tasks of a crew, or take over those that stand by; they have met when this returns."""
        if is_stopped(self._spark):
            raise RecoveryError(
                f"the Spark session in which flow '{mission.plan.name}' ran was stopped. Start the flow in "
                "another one with the same checkpoint; it goes on from there."
            )
        spares = self.spares
        tasks = None if spares is None else spares.taken(mission)
        if tasks is None:
            tasks = self.start(mission, f"crews/{mission.generation:06d}", self.is_wanted)
        self.crew = SparkCrew(
            *tasks,
            mission.workers,
            has_spares=spares is not None,
            on_ready=(lambda: None) if spares is None else lambda: spares.prepare(mission),
        )
        return self.crew

    def start(
        self, mission: Mission, place: str, is_wanted: Callable[[], bool], *, is_spare: bool = False
    ) -> StartedTasks:
        """Start tasks that store their addresses at a place; they have met when this returns."""
        check_sendable(mission.plan, mission)
        with meeting_folder(self._spark) as meeting:
            mesh = Mesh(
                mission.workers,
                mission.workers + 1,
                listen=listens_at(meeting, mission.workers, lambda: driver_host(self._spark)),
                names=member_names(mission.workers),
                generation=mission.generation,
                silence_seconds_max=self._silence_seconds_max,
                finds_nearby=True,
            )
            known = dict(versions())
            task = Task(mission, mesh.address, known, self._silence_seconds_max, meeting, place, is_spare)
            job = CrewJob(self._spark, task, self.link)
            try:
                mesh.connect([*_addresses(task, job, is_wanted), mesh.address])
                _meet(mesh, job)
                _forget_addresses(task)
            except BaseException:
                job.cancel()
                mesh.close(linger_ms=0)
                raise
        return StartedTasks(mesh, job)


class SparkCrew(MeshCrew):
    """Members in the tasks of one barrier job."""

    def __init__(
        self,
        mesh: Mesh,
        job: CrewJob,
        workers: int,
        *,
        has_spares: bool = False,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(mesh)
        self._job = job
        self._workers = workers
        self._unready = set(range(workers))
        self._has_spares = has_spares
        self._on_ready = on_ready
        self._has_lost = False
        self._bell, bell = socket.socketpair()
        self._bell.setblocking(False)
        job.when_ended(bell.close)  # which makes the other end readable

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived; the first failure ends the crew without waiting for the others."""
        reports = super().collect()
        if any(isinstance(report, Failed) for _, report in reports):
            self._has_lost = True
        if self._unready:
            self._unready -= {worker for worker, report in reports if isinstance(report, Ready)}
            if not self._unready:
                self._on_ready()
        return reports

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """Wait for a report, for one of these files, for the end of the job, or for a timeout."""
        super().wait(timeout_seconds, [*files, self._bell.fileno()])

    def deaths(self) -> str | None:
        """What Spark says about a job that has ended too early."""
        words = self._job.words()
        self._has_lost = self._has_lost or words is not None
        return words

    def end(self) -> None:
        """Close the mesh, and see that Spark frees the slots; ending again does nothing."""
        if self._bell.fileno() < 0:
            return
        self._bell.close()
        if self._has_lost:
            dismiss(self._mesh, self._workers)
            self._mesh.close(linger_ms=_LEAVE_MS)
            # On a cluster Spark would start the tasks again, for nobody. A spare crew has slots of its own.
            self._job.cancel(waits=not self._has_spares)
        else:
            self._mesh.close()
            self._job.finish()

    def _lost(self, error: TransportError) -> PointstampError:
        self._has_lost = True
        # Spark knows a moment later what became of the task; where a crew stands by, that is not waited for.
        wait_seconds = 0.0 if self._has_spares else _WORDS_SECONDS
        return CrewError(self._job.words(wait_seconds=wait_seconds) or str(error))


def _addresses(task: Task, job: CrewJob, is_wanted: Callable[[], bool]) -> list[Address]:
    """The addresses of the tasks, as soon as the first of them has stored them."""
    deadline = monotonic() + START_SECONDS_MAX
    while True:
        with suppress(NotStored):
            return addresses_at(task.place, task.mission)
        job.check()
        if not is_wanted():
            raise CrewError("the query was stopped while Spark started its workers.")
        if monotonic() > deadline:
            raise CrewError(
                f"Spark has not started {task.mission.workers} tasks within {START_SECONDS_MAX:g} seconds; "
                "other jobs may hold its slots. Free some, or start with fewer workers."
            )
        sleep(_LOOK_SECONDS)


def driver_host(spark: SparkSession) -> str:
    """The address at which the tasks reach this process."""
    named = os.environ.get("POINTSTAMP_DRIVER_HOST")
    if named is None and is_connect(spark):
        remote = str(spark.conf.get("spark.remote", "") or "")
        named = LOOPBACK if "localhost" in remote or remote.startswith("local") else socket.gethostname()
    elif named is None:
        named = LOOPBACK if is_local(spark) else spark.conf.get("spark.driver.host", None)
    try:
        return address_of(named or socket.gethostname())
    except OSError as error:
        raise TransportError(
            f"the address of this driver, '{named}', cannot be found: {error}. Set spark.driver.host or "
            "POINTSTAMP_DRIVER_HOST to a name or address at which the executors reach it."
        ) from error


def _meet(mesh: Mesh, job: CrewJob) -> None:
    deadline = monotonic() + MEETING_SECONDS_MAX
    while not mesh.greet():
        job.check()
        if monotonic() > deadline:
            mesh.meet(0)
        sleep(0.001)


def _forget_addresses(task: Task) -> None:
    """Remove the addresses of this crew, and of older ones that failed to start or that Spark restarted."""
    for name in task.mission.storage.list(task.place.rstrip("0123456789.")):
        if name <= task.place:
            task.mission.storage.delete(name)
