"""One task of a crew on Spark: it meets the others and is a member, at once or after it has stood by.

The tasks meet (``meeting``), and the first of them stores everybody's address and public key below the
checkpoint, the one place that the driver and all tasks can reach and nobody else can write to; the driver
reads it there (``addresses_at``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext

from pointstamp.mesh.door import Address
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.membership import be_member
from pointstamp.query.mission import Mission
from pointstamp.query.standby import stand_by
from pointstamp.running.failing import failure_in
from pointstamp.running.messages import Failed, encode
from pointstamp.running.posting import post_failure
from pointstamp.running.watchdog import Watchdog
from pointstamp.running.workerprocess import member_names
from pointstamp.spark.meeting import MEETING_SECONDS_MAX, listens_at, meet, own_address, report_batch
from pointstamp.storage.sealed import seal, unseal

_KIND: Final = "crew"


@dataclass(frozen=True, slots=True)
class Task:
    """What runs in each barrier task; it travels to the executors with the function."""

    mission: Mission
    driver: Address
    versions: dict[str, str]
    silence_seconds_max: float
    meeting: str | None
    """The folder where the tasks meet (``meeting_folder``)."""
    place: str
    """Where the first task stores the addresses of all, below the checkpoint."""
    is_spare: bool = False
    """Whether the tasks stand by when they have met, until a driver needs them."""

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
            now = stand_by(mission, mesh) if self.is_spare else mission
            if now is not None:
                be_member(now, mesh, number, Watchdog(self.silence_seconds_max))

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
            content = seal(msgspec.json.encode(addresses), _KIND, self.place, owner=self.mission.query)
            self.mission.storage.write(self.place, content)
        mesh.connect([*addresses, self.driver])
        mesh.meet(MEETING_SECONDS_MAX)


def addresses_at(place: str, mission: Mission) -> list[Address]:
    """The addresses of all tasks of a crew; NotStored until the first of them has stored them."""
    content = unseal(mission.storage.read(place), _KIND, place, owner=mission.query)
    return msgspec.json.decode(content, type=list[Address])
