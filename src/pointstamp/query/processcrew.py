"""Crews in processes of this machine."""

from functools import partial

from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.query.membership import be_member
from pointstamp.query.meshcrew import MeshCrew
from pointstamp.query.mission import Mission
from pointstamp.running.gang import ProcessGang
from pointstamp.running.messages import Finish, Leave, Order
from pointstamp.running.workerprocess import Seat


class ProcessCrew(MeshCrew):
    """Members in processes, which end with this one."""

    def __init__(self, gang: ProcessGang, workers: int) -> None:
        assert gang.mesh is not None
        super().__init__(gang.mesh, workers)
        self._gang = gang
        self._were_told = False
        gang.forget_folder()

    def post(self, worker: int, order: Order) -> None:
        """Give an order to a member."""
        self._were_told = self._were_told or isinstance(order, (Finish, Leave))
        super().post(worker, order)

    @property
    def pids(self) -> list[int]:
        """The process of each member."""
        return self._gang.pids

    def deaths(self) -> str | None:
        """How processes have ended that should still run."""
        deaths = [death for death in self._gang.deaths() if death.code != 0]
        return "; ".join(death.words for death in deaths) + "." if deaths else None

    def end(self) -> None:
        """End all processes; at once if one is lost, because the others would wait for it in vain."""
        self._gang.end(were_told=self._were_told)


class ProcessLauncher:
    """Starts crews in processes; ``crew`` is the last one, for tests that disturb it."""

    def __init__(self, *, silence_seconds_max: float = SILENCE_SECONDS_MAX) -> None:
        self._silence_seconds_max = silence_seconds_max
        self.crew: ProcessCrew | None = None

    def launch(self, mission: Mission) -> ProcessCrew:
        """Start a process for each member; they have met when this returns."""
        gang = ProcessGang(
            mission.plan,
            mission.workers,
            run=partial(_be_member, mission),
            silence_seconds_max=self._silence_seconds_max,
            generation=mission.generation,
        )
        self.crew = ProcessCrew(gang, mission.workers)
        return self.crew


def _be_member(mission: Mission, mesh: Mesh, seat: Seat) -> None:
    be_member(mission, mesh, seat.worker)
