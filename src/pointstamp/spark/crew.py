"""Workers of a query on Spark: the tasks of a job, which the driver speaks to through a mesh.

The driver opens a rendezvous and sends its address along with the tasks (``crewtask``). Tasks register as
Spark starts them, and as soon as enough have, they are the workers of a generation: as many as wished for,
or fewer, if Spark has no slot for more. Then the mesh connects them with each other and the driver, and
nobody else.

The workers of a generation end when one of them is lost. The driver learns that from Spark, whose job ends,
or from the mesh, whichever is first; it tells the others to leave, so that their slots are free soon.
Ending them cancels the job: Spark kills tasks that do not answer. With spare workers (``spare``), those are
the next ones.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic, sleep
from typing import Final, NamedTuple, Protocol

from pyspark.sql import SparkSession

from pointstamp.errors import PointstampError, RecoveryError, TransportError
from pointstamp.mesh.door import Address
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.mesh.places import LOOPBACK, address_of
from pointstamp.query.crew import CrewError
from pointstamp.query.meshcrew import MeshCrew
from pointstamp.query.mission import Mission
from pointstamp.query.rendezvous import Rendezvous
from pointstamp.query.standby import dismiss
from pointstamp.running.messages import Failed, Ready, Report
from pointstamp.running.workerprocess import member_names
from pointstamp.spark.crewjob import CrewJob
from pointstamp.spark.crewtask import Task
from pointstamp.spark.meeting import MEETING_SECONDS_MAX, listens_at, meeting_folder, versions
from pointstamp.spark.rendezvous import RendezvousServer
from pointstamp.spark.sendable import check_sendable
from pointstamp.spark.slots import SlotPlan, is_connect, is_local, is_stopped, slots_now
from pointstamp.spark.ui_link import UiLink

_LOOK_SECONDS: Final = 0.02
_ACTIVE_SECONDS: Final = 0.5
# Before it is worth a word that workers have not started yet.
_PATIENCE_SECONDS: Final = 3.0
# How long those that were not lost may take to say goodbye, before Spark ends them.
_LEAVE_MS: Final = 50
# How long to wait for what Spark says about the end of a task: it is only for the words.
_WORDS_SECONDS: Final = 0.3
SLOTS_SECONDS_MAX: Final = 600.0
"""How long a query waits for slots before it ends with an error; executors may have to start first."""


class StartedTasks(NamedTuple):
    """Workers that have met, the mesh in which the driver speaks to them, and what to close after them."""

    mesh: Mesh
    job: CrewJob
    workers: int
    rendezvous: RendezvousServer
    opened: ExitStack


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
        self.crew: SparkCrew | None = None
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

    def start(
        self, mission: Mission, is_wanted: Callable[[], bool], *, is_spare: bool = False
    ) -> StartedTasks:
        """Start workers, at most ``mission.workers``; they have met when this returns."""
        check_sendable(mission.plan, mission)
        wish = self._slots.capped(slots_now(self._spark))
        mission = replace(mission, workers=wish)
        with ExitStack() as opened:
            folder = opened.enter_context(meeting_folder(self._spark))
            server = RendezvousServer(folder, lambda: driver_host(self._spark))
            opened.callback(server.close)
            least = wish if self._barrier else min(self._slots.least, wish)
            machine = Rendezvous(wish, least, versions(), now_seconds=monotonic())
            meshes: list[Mesh] = []

            def driver_address(workers: int) -> Address:
                if not meshes:
                    meshes.append(self._mesh(mission, workers, folder))
                return meshes[0].address

            server.serve(machine, driver_address)
            task = Task(mission, server.place, self._silence_seconds_max, folder, is_spare)
            job = CrewJob(self._spark, task, self.link, barrier=self._barrier)
            try:
                addresses = self._form(machine, server, job, is_wanted)
                (mesh,) = meshes
                mesh.connect([*addresses, mesh.address])
                _meet(mesh, job, server)
            except BaseException:
                job.cancel()
                for mesh in meshes:
                    mesh.close(linger_ms=0)
                raise
            return StartedTasks(mesh, job, len(addresses), server, opened.pop_all())

    def _mesh(self, mission: Mission, workers: int, folder: str | None) -> Mesh:
        return Mesh(
            workers,
            workers + 1,
            listen=listens_at(folder, "driver", lambda: driver_host(self._spark)),
            names=member_names(workers),
            generation=mission.generation,
            silence_seconds_max=self._silence_seconds_max,
            finds_nearby=True,
        )

    def _form(
        self, machine: Rendezvous, server: RendezvousServer, job: CrewJob, is_wanted: Callable[[], bool]
    ) -> list[Address]:
        """Serve the rendezvous until the workers are decided; return their addresses."""
        begun = next_look = monotonic()
        while machine.roster is None:
            server.poll(_LOOK_SECONDS)
            if monotonic() > next_look:
                machine.expect(job.active_tasks() or 0, monotonic())
                next_look = monotonic() + _ACTIVE_SECONDS
            if machine.refusal is not None:
                raise CrewError(machine.refusal) from RecoveryError(machine.refusal)
            job.check()
            if not is_wanted():
                raise CrewError("the query was stopped while Spark started its workers.")
            waited = monotonic() - begun
            if waited > _PATIENCE_SECONDS:
                self.on_waiting(
                    f"waiting for Spark to start workers: {machine.needs()}, {_slots_words(self._spark)}"
                )
            if waited > self._slots_seconds_max:
                words = (
                    f"Spark has not started enough workers within {self._slots_seconds_max:g} seconds: "
                    f"{machine.needs()}, {_slots_words(self._spark)}. Free slots that other jobs hold, let "
                    "Spark start more executors, or start with fewer workers."
                )
                raise CrewError(words) from RecoveryError(words)
        return machine.roster.addresses


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
        self._has_lost = False
        self._bell, bell = socket.socketpair()
        self._bell.setblocking(False)
        job.when_ended(bell.close)  # which makes the other end readable

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived; the first failure ends the crew without waiting for the others."""
        self._rendezvous.poll(0)  # tasks that are late
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
        super().wait(timeout_seconds, [*files, self._bell.fileno(), self._rendezvous.fileno()])

    @property
    def could_grow(self) -> bool:
        """Whether tasks have registered too late for this generation, which has fewer workers than wished."""
        return self._rendezvous.late > 0 and self.workers < self._rendezvous.wish

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
            dismiss(self._mesh, self.workers)
            self._mesh.close(linger_ms=_LEAVE_MS)
            # On a cluster Spark would start the tasks again, for nobody. A spare crew has slots of its own.
            self._opened.close()
            self._job.cancel(waits=not self._has_spares)
        else:
            self._mesh.close()
            self._opened.close()
            self._job.finish()

    def _lost(self, error: TransportError) -> PointstampError:
        self._has_lost = True
        # Spark knows a moment later what became of the task; where a crew stands by, that is not waited for.
        wait_seconds = 0.0 if self._has_spares else _WORDS_SECONDS
        return CrewError(self._job.words(wait_seconds=wait_seconds) or str(error))


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


def _meet(mesh: Mesh, job: CrewJob, server: RendezvousServer) -> None:
    deadline = monotonic() + MEETING_SECONDS_MAX
    while not mesh.greet():
        job.check()
        server.poll(0)
        if monotonic() > deadline:
            mesh.meet(0)
        sleep(0.001)


def _slots_words(spark: SparkSession) -> str:
    slots = slots_now(spark)
    return "and Spark does not say how many slots it has" if slots is None else f"and Spark has {slots} slots"
