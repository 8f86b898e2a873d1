"""A Spark task that becomes a worker: registration, rendezvous and work.

The task is an ordinary task: Spark may start it late, twice, or never. It registers at the driver's
rendezvous (``rendezvous``), which decides whether it is a worker, and with which number. What a worker does
is its ``Work``: a member of a query (``QueryWork``), or a share of a bounded run (``bounded``).
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext

from pointstamp.driver.liveness import Sign, Watchdog
from pointstamp.driver.messages import failure_in, post_failure
from pointstamp.driver.worker_process import member_names
from pointstamp.flow.plan import Plan
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.member import be_member
from pointstamp.query.mission import Mission
from pointstamp.query.rendezvous import Placement, Register, Roster
from pointstamp.query.standby import stand_by
from pointstamp.spark.rendezvous import (
    MEETING_SECONDS_MAX,
    Membership,
    RendezvousPlace,
    listens_at,
    register,
    versions,
)


class Work(Protocol):
    """What a worker does once it has met the others; it travels to the executors."""

    @property
    def plan(self) -> Plan:
        """The flow."""
        ...

    @property
    def generation(self) -> int:
        """Which attempt at the work this is; messages of older ones are dropped."""
        ...

    def perform(
        self, mesh: Mesh, seat: Placement, roster: Roster, batches: Iterator[pa.RecordBatch], sign: Sign
    ) -> None:
        """Work until it is done; the driver is the last member of the mesh."""
        ...


@dataclass(frozen=True, slots=True)
class QueryWork:
    """Be a member of a query, at once or as a spare one."""

    mission: Mission
    is_spare: bool = False
    """Whether the workers stand by when they have met, until a driver needs them."""

    @property
    def plan(self) -> Plan:
        """The flow."""
        return self.mission.plan

    @property
    def generation(self) -> int:
        """The generation of the query."""
        return self.mission.generation

    def perform(
        self, mesh: Mesh, seat: Placement, roster: Roster, batches: Iterator[pa.RecordBatch], sign: Sign
    ) -> None:
        """Be a member until the driver dismisses it."""
        del roster
        for _ in batches:
            pass
        mission = replace(self.mission, workers=seat.workers)
        now = stand_by(mission, mesh) if self.is_spare else mission
        if now is not None:
            be_member(now, mesh, seat.number, sign)


@dataclass(frozen=True, slots=True)
class Task:
    """The function of each task; it travels to the executors with everything that a worker needs."""

    work: Work
    place: RendezvousPlace
    silence_seconds_max: float
    meeting: str | None
    """The private folder for unix sockets, in a local session (``meeting_folder``)."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Be a worker, if the driver needs one; the function of ``mapInArrow``."""
        context = TaskContext.get()
        assert context is not None
        # Raises what goes wrong before the driver knows this worker: the driver learns it from Spark.
        hello = Register(context.partitionId(), context.attemptNumber(), socket.gethostname(), versions())
        membership = register(self.place, hello, self._mesh)
        if membership is not None:
            self._work(membership, batches)
        elif isinstance(self.work, QueryWork):
            for _ in batches:  # one row: Spark keeps only a process that has read its input
                pass
        return iter(())

    def _mesh(self, seat: Placement, own_endpoint: str) -> Mesh:
        return Mesh(
            seat.number,
            seat.workers + 1,
            listen=listens_at(self.meeting, f"{seat.round}-{seat.number}", own_endpoint),
            names=member_names(seat.workers),
            generation=self.work.generation,
            silence_seconds_max=self.silence_seconds_max,
            finds_nearby=True,
        )

    def _work(self, membership: Membership, batches: Iterator[pa.RecordBatch]) -> None:
        mesh, seat = membership.mesh, membership.seat

        def work() -> None:
            mesh.connect(membership.roster.addresses)
            mesh.meet(MEETING_SECONDS_MAX)
            sign = Watchdog(self.silence_seconds_max)
            self.work.perform(mesh, seat, membership.roster, batches, sign)

        try:
            failure = failure_in(work)
            if failure is not None:
                post_failure(mesh, seat.workers, failure)
        finally:
            mesh.close()
            membership.close()
