"""One task of a query on Spark: it registers with the driver and is a worker, at once or as a spare.

The task is an ordinary task: Spark may start it late, twice, or never. It registers at the driver's
rendezvous (``rendezvous``), which decides whether it is a worker of this generation and with which number.
"""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from pointstamp.mesh.mesh import Mesh
from pointstamp.query.membership import be_member
from pointstamp.query.mission import Mission
from pointstamp.query.rendezvous import Placement, Register
from pointstamp.query.standby import stand_by
from pointstamp.running.failing import failure_in
from pointstamp.running.messages import Failed, encode
from pointstamp.running.posting import post_failure
from pointstamp.running.watchdog import Watchdog
from pointstamp.running.workerprocess import member_names
from pointstamp.spark.meeting import MEETING_SECONDS_MAX, listens_at, report_batch, versions
from pointstamp.spark.rendezvous import Membership, RendezvousPlace, register


@dataclass(frozen=True, slots=True)
class Task:
    """The function of each task; it travels to the executors with everything that a worker needs."""

    mission: Mission
    place: RendezvousPlace
    silence_seconds_max: float
    meeting: str | None
    """The private folder for unix sockets, in a local session (``meeting_folder``)."""
    is_spare: bool = False
    """Whether the workers stand by when they have met, until a driver needs them."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Be a worker, if the driver needs one; the function of ``mapInArrow``."""
        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None
        # Raises what goes wrong before the driver knows this worker: the driver learns it from Spark.
        partition, attempt = context.partitionId(), context.attemptNumber()
        hello = Register(partition, attempt, socket.gethostname(), versions())
        membership = register(self.place, hello, self._mesh)
        report = None if membership is None else self._work(membership)
        yield report_batch(partition, [] if report is None else [encode(report)])

    def _mesh(self, seat: Placement, own_endpoint: str) -> Mesh:
        return Mesh(
            seat.number,
            seat.workers + 1,
            listen=listens_at(self.meeting, f"{seat.round}-{seat.number}", own_endpoint),
            names=member_names(seat.workers),
            generation=self.mission.generation,
            silence_seconds_max=self.silence_seconds_max,
            finds_nearby=True,
        )

    def _work(self, membership: Membership) -> Failed | None:
        mesh, seat = membership.mesh, membership.seat
        mission = replace(self.mission, workers=seat.workers)

        def work() -> None:
            self._meet(membership)
            now = stand_by(mission, mesh) if self.is_spare else mission
            if now is not None:
                be_member(now, mesh, seat.number, Watchdog(self.silence_seconds_max))

        try:
            failure = failure_in(work)
            if failure is not None:
                post_failure(mesh, mission.workers, failure)
            return failure
        finally:
            mesh.close()
            membership.close()

    def _meet(self, membership: Membership) -> None:
        """Connect with all workers of the roster and the driver."""
        membership.mesh.connect(membership.roster.addresses)
        membership.mesh.meet(MEETING_SECONDS_MAX)
