"""Start workers: submit a Spark job, and serve the rendezvous.

The driver opens a rendezvous and sends its address along with the tasks (``crew_task``). Tasks register as
Spark starts them. Once enough have, they are the workers: as many as wished for, or fewer, if Spark has no
slot for more. Then the mesh connects them with each other and the driver.

Waiting is never silent: ``Waiting.on_waiting`` is told what is needed and what there is, and after
``seconds_max`` it ends with an error that says the same.
"""

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pointstamp.driver.worker_process import member_names
from pointstamp.errors import PointstampError, RecoveryError, TransportError
from pointstamp.mesh.addresses import LOOPBACK, address_of
from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.crew import CrewError
from pointstamp.query.rendezvous import SETTLE_SECONDS, Rendezvous, SlotsLeft
from pointstamp.spark.crew_task import Task, Work
from pointstamp.spark.errand import Errand
from pointstamp.spark.failures import in_words
from pointstamp.spark.rendezvous import (
    MEETING_SECONDS_MAX,
    RendezvousServer,
    listens_at,
    meeting_folder,
    versions,
)
from pointstamp.spark.slots import is_connect, is_local, slots_now

_LOOK_SECONDS: Final = 0.02
_ACTIVE_SECONDS: Final = 0.5
_ACTIVE_SECONDS_AFTER_LOSS: Final = 0.1
HURRY_SECONDS: Final = 0.3
"""After a loss, how long no task may register once those that there are slots for have."""
_PATIENCE_SECONDS: Final = 3.0
"""How long workers may take to start before waiting for them is reported."""
SLOTS_SECONDS_MAX: Final = 600.0
"""How long to wait for slots before it is an error; executors may have to start first."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How the driver waits for its workers."""

    is_wanted: Callable[[], bool] = lambda: True
    """Called while Spark starts the tasks, which may take long: whether they are still wanted."""
    on_waiting: Callable[[str], None] = lambda words: None
    """Told what is waited for while Spark has not started enough workers."""
    seconds_max: float = SLOTS_SECONDS_MAX
    settle_seconds: float = SETTLE_SECONDS
    hurries: bool = False
    """Whether tasks that have started, but have not registered yet, are not waited for."""
    after_loss: bool = False
    """Whether tasks in all slots that Spark has left are enough: executors that start are not waited for."""
    has_other_tasks: bool = False
    """Whether the job has tasks that never register: as long as they run, time does not count."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The job to start, and how many of its tasks become workers."""

    work: Work
    rows: Callable[[], DataFrame]
    """The rows that the tasks read, with a partition for each task."""
    wish: int
    least: int
    needs_all: bool = False
    """Whether each partition must have a worker: then fewer tasks are not used, but counted."""
    description: str | None = None
    barrier: bool = False
    published: str = ""
    """What an error says about published output."""


class FewerSlots(CrewError):  # noqa: N818 - it is no mistake of anyone
    """Spark has started fewer tasks than partitions, but enough to run with fewer partitions."""

    def __init__(self, words: str, tasks: int) -> None:
        super().__init__(words)
        self.tasks = tasks
        """How many tasks have registered."""


# The Spark job of some workers: it runs in a separate thread (``errand``), as long as they do.
#
# If it ends too early, Spark's message is put into words.

_JOB_LOOK_SECONDS: Final = 0.05


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
            sleep(_JOB_LOOK_SECONDS)

    def check(self) -> None:
        """CrewError, with its cause, if the job has ended: some failures would come again forever."""
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


class StartedTasks(NamedTuple):
    """Workers that have met, the mesh that connects them to the driver, and what to close after them."""

    mesh: Mesh
    job: CrewJob
    workers: int
    rendezvous: RendezvousServer
    opened: ExitStack


def start_workers(
    spark: SparkSession, wanted: Wanted, waiting: Waiting, *, silence_seconds_max: float
) -> StartedTasks:
    """Start workers, at most ``wanted.wish``; they have met when this returns."""
    with ExitStack() as opened:
        folder = opened.enter_context(meeting_folder(spark))
        server = RendezvousServer(folder, lambda: driver_host(spark))
        opened.callback(server.close)
        least = wanted.wish if wanted.needs_all else wanted.least
        machine = Rendezvous(
            wanted.wish,
            least,
            versions(),
            now_seconds=monotonic(),
            settle_seconds=waiting.settle_seconds,
        )
        meshes: list[Mesh] = []

        def driver_address(workers: int) -> Address:
            if not meshes:
                meshes.append(
                    Mesh(
                        workers,
                        workers + 1,
                        listen=listens_at(folder, "driver", lambda: driver_host(spark)),
                        names=member_names(workers),
                        generation=wanted.work.generation,
                        silence_seconds_max=silence_seconds_max,
                        finds_nearby=True,
                    )
                )
            return meshes[0].address

        server.serve(machine, driver_address)
        task = Task(wanted.work, server.place, silence_seconds_max, folder)
        job = CrewJob(
            spark,
            task,
            wanted.rows,
            wanted.description,
            barrier=wanted.barrier,
            published=wanted.published,
        )
        try:
            addresses = _form(spark, wanted, machine, server, job, waiting)
            (mesh,) = meshes
            mesh.connect([*addresses, mesh.address])
            _meet(mesh, job, server)
        except BaseException:
            job.cancel()
            for mesh in meshes:
                mesh.close(linger_ms=0)
            raise
        return StartedTasks(mesh, job, len(addresses), server, opened.pop_all())


def _form(
    spark: SparkSession,
    wanted: Wanted,
    machine: Rendezvous,
    server: RendezvousServer,
    job: CrewJob,
    waiting: Waiting,
) -> list[Address]:
    """Serve the rendezvous until the workers are decided; return their addresses."""
    begun = next_look = monotonic()
    left = SlotsLeft(slots_now(spark) or 0) if waiting.after_loss else None
    while machine.roster is None:
        server.poll(_LOOK_SECONDS)
        job.check()
        if machine.refusal is not None:
            raise CrewError(machine.refusal) from RecoveryError(machine.refusal)
        if not waiting.is_wanted():
            raise CrewError("it was stopped while Spark started its workers.")
        now = monotonic()
        if now < next_look:
            continue
        next_look = now + (_ACTIVE_SECONDS if left is None else _ACTIVE_SECONDS_AFTER_LOSS)
        if left is not None:
            left.look(slots_now(spark) or 0)
            is_full = left.are_full(machine.registered)
            machine.settle_seconds = HURRY_SECONDS if is_full else waiting.settle_seconds
        active = job.active_tasks() or 0
        if not waiting.hurries:
            machine.expect(active, now)
        if waiting.has_other_tasks and active > machine.registered:
            begun = now
        is_enough = wanted.needs_all and wanted.least <= machine.registered < wanted.wish
        if is_enough and machine.has_settled(now):
            raise FewerSlots(f"{machine.needs()}, {_slots_words(spark)}.", machine.registered)
        if now - begun > _PATIENCE_SECONDS:
            needs = f"{machine.needs()}, {_slots_words(spark)}"
            waiting.on_waiting(f"waiting for Spark to start workers: {needs}")
            if now - begun > waiting.seconds_max:
                words = (
                    f"Spark has not started enough workers within {waiting.seconds_max:g} seconds: {needs}. "
                    "Free slots that other jobs hold, let Spark start more executors, or start with fewer "
                    "workers."
                )
                raise CrewError(words) from RecoveryError(words)
    return machine.roster.addresses


def _meet(mesh: Mesh, job: CrewJob, server: RendezvousServer) -> None:
    deadline = monotonic() + MEETING_SECONDS_MAX
    while not mesh.greet():
        job.check()
        server.poll(0)
        if monotonic() > deadline:
            mesh.meet(0)
        sleep(0.001)


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


def _slots_words(spark: SparkSession) -> str:
    slots = slots_now(spark)
    return "and Spark does not say how many slots it has" if slots is None else f"and Spark has {slots} slots"
