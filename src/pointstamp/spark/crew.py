"""Crews on Spark: the members of a generation as barrier tasks, which the driver speaks to through a mesh.

The driver binds its socket first and sends its address along with the tasks. The tasks meet (``meeting``),
and the first of them stores everybody's address and public key below the checkpoint, the one place that the
driver and all tasks can reach and nobody else can write to. The driver reads it there, and then the mesh is
whole: only members know each other's keys.

The job runs in a thread of its own (``errand``), because it lasts as long as the crew does. If it ends too
early, Spark's message is put into words. Ending a crew cancels its job: Spark kills tasks that do not answer.
"""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pointstamp.errors import NotStored, PointstampError, RecoveryError, TransportError
from pointstamp.mesh.door import Address
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.mesh.places import LOOPBACK, address_of
from pointstamp.query.crew import CrewError
from pointstamp.query.membership import be_member
from pointstamp.query.meshcrew import MeshCrew
from pointstamp.query.mission import Mission
from pointstamp.running.failing import failure_in
from pointstamp.running.messages import Failed, Report, encode
from pointstamp.running.posting import post_failure
from pointstamp.running.workerprocess import member_names
from pointstamp.spark.errand import Errand
from pointstamp.spark.failures import in_words
from pointstamp.spark.meeting import (
    MEETING_SECONDS_MAX,
    REPORT,
    listens_at,
    meet,
    meeting_folder,
    own_address,
    report_batch,
    versions,
)
from pointstamp.spark.sendable import check_sendable
from pointstamp.spark.slots import is_connect, is_local, is_stopped
from pointstamp.spark.ui_link import UiLink, job_description
from pointstamp.storage.sealed import seal, unseal

_KIND: Final = "crew"
_LOOK_SECONDS: Final = 0.02
START_SECONDS_MAX: Final = 120.0
"""How long Spark may take to start all tasks of a crew."""


@dataclass(frozen=True, slots=True)
class Task:
    """What runs in each barrier task; it travels to the executors with the function."""

    mission: Mission
    driver: Address
    versions: dict[str, str]
    silence_seconds_max: float
    meeting: str | None
    """The folder where the tasks meet (``meeting_folder``)."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Be one member of the crew; the function of ``mapInArrow``."""
        for _ in batches:
            pass
        context = BarrierTaskContext.get()
        assert context is not None
        number = context.partitionId()
        report = self._run(context, number)
        encoded = [] if report is None else [encode(report)]
        yield report_batch(number, encoded)

    def _run(self, context: BarrierTaskContext, number: int) -> Failed | None:
        mission = self.mission
        mesh = Mesh(
            number,
            mission.workers + 1,
            listen=listens_at(self.meeting, number, lambda: own_address(context, self.driver)),
            names=member_names(mission.workers),
            generation=mission.generation,
            silence_seconds_max=self.silence_seconds_max,
            finds_nearby=True,
        )

        def work() -> None:
            self._meet(context, number, mesh)
            be_member(mission, mesh, number)

        try:
            failure = failure_in(work)
            if failure is not None:
                post_failure(mesh, mission.workers, failure)
            return failure
        finally:
            mesh.close()

    def _meet(self, context: BarrierTaskContext, number: int, mesh: Mesh) -> None:
        addresses = meet(context, mesh.address, self.versions, self.meeting)
        if number == 0:
            place = _place(self.mission.generation)
            content = seal(msgspec.json.encode(addresses), _KIND, place, owner=self.mission.query)
            self.mission.storage.write(place, content)
        mesh.connect([*addresses, self.driver])
        mesh.meet(MEETING_SECONDS_MAX)


class SparkLauncher:
    """Starts crews as barrier jobs of a session; ``crew`` is the last one."""

    def __init__(self, spark: SparkSession, *, silence_seconds_max: float = SILENCE_SECONDS_MAX) -> None:
        self._spark = spark
        self._silence_seconds_max = silence_seconds_max
        self.crew: SparkCrew | None = None
        self.link: UiLink | None = None
        """Where Spark's UI leads to from the jobs of the crews."""
        self.is_wanted: Callable[[], bool] = lambda: True
        """Called while Spark starts the tasks, which may take long: whether they are still wanted."""

    def launch(self, mission: Mission) -> "SparkCrew":
        """Start the tasks of a crew; they have met when this returns."""
        if is_stopped(self._spark):
            raise RecoveryError(
                f"the Spark session in which flow '{mission.plan.name}' ran was stopped. Start the flow in "
                "another one with the same checkpoint; it goes on from there."
            )
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
            task = Task(mission, mesh.address, dict(versions()), self._silence_seconds_max, meeting)
            job = _Job(self._spark, task, self.link)
            try:
                mesh.connect([*self._addresses(mission, job), mesh.address])
                _meet(mesh, job)
                _forget_addresses(mission)
            except BaseException:
                job.cancel()
                mesh.close(linger_ms=0)
                raise
        self.crew = SparkCrew(mesh, job)
        return self.crew

    def _addresses(self, mission: Mission, job: "_Job") -> list[Address]:
        """The addresses of the tasks, as soon as the first of them has stored them."""
        deadline = monotonic() + START_SECONDS_MAX
        place = _place(mission.generation)
        while True:
            try:
                content = unseal(mission.storage.read(place), _KIND, place, owner=mission.query)
                return msgspec.json.decode(content, type=list[Address])
            except NotStored:
                pass
            job.check()
            if not self.is_wanted():
                raise CrewError("the query was stopped while Spark started its workers.")
            if monotonic() > deadline:
                raise CrewError(
                    f"Spark has not started {mission.workers} tasks within {START_SECONDS_MAX:g} seconds; "
                    "other jobs may hold its slots. Free some, or start with fewer workers."
                )
            sleep(_LOOK_SECONDS)


class SparkCrew(MeshCrew):
    """Members in the tasks of one barrier job."""

    def __init__(self, mesh: Mesh, job: "_Job") -> None:
        super().__init__(mesh)
        self._job = job
        self._has_lost = False

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived; the first failure ends the crew without waiting for the others."""
        reports = super().collect()
        if any(isinstance(report, Failed) for _, report in reports):
            self._has_lost = True
        return reports

    def deaths(self) -> str | None:
        """What Spark says about a job that has ended too early."""
        return self._job.words()

    def end(self) -> None:
        """Close the mesh, and see that Spark frees the slots."""
        self._mesh.close()
        if self._has_lost:
            self._job.cancel()  # on a cluster Spark would start the tasks again, for nobody
        else:
            self._job.finish()

    def _lost(self, error: TransportError) -> PointstampError:
        self._has_lost = True
        # Spark knows a moment later what became of the task.
        return CrewError(self._job.words(wait_seconds=1.0) or str(error))


class _Job:
    """A barrier job that runs in a thread of its own."""

    def __init__(self, spark: SparkSession, task: Task, link: UiLink | None) -> None:
        def run() -> None:
            workers = task.mission.workers
            if not is_connect(spark):
                words = job_description(task.mission.plan.name, task.mission.generation, link)
                spark.sparkContext.setJobDescription(words)  # of this thread's jobs
            tasks = spark.range(0, workers, 1, workers)
            tasks.mapInArrow(task, from_arrow_schema(REPORT), barrier=True).collect()

        self._errand = Errand(spark, run)
        self._errand.send()

    def words(self, wait_seconds: float = 0.0) -> str | None:
        """Why the job has ended, in words; None while it runs."""
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

    def cancel(self) -> None:
        """Let Spark kill the tasks, and wait until their slots are free."""
        self._errand.cancel()

    def finish(self) -> None:
        """Wait a moment for tasks that leave by themselves; then cancel."""
        if not self._errand.has_ended(2.0):
            self.cancel()


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


def _meet(mesh: Mesh, job: _Job) -> None:
    deadline = monotonic() + MEETING_SECONDS_MAX
    while not mesh.greet():
        job.check()
        if monotonic() > deadline:
            mesh.meet(0)
        sleep(0.001)


def _forget_addresses(mission: Mission) -> None:
    """Remove the addresses of this crew, and of older ones that failed to start or that Spark restarted."""
    place = _place(mission.generation)
    for name in mission.storage.list("crews/"):
        if name <= place:
            mission.storage.delete(name)


def _place(generation: int) -> str:
    return f"crews/{generation:06d}"
