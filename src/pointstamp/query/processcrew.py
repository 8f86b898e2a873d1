"""Crews in processes of this machine."""

from functools import partial
from typing import Final

from pointstamp.errors import TransportError
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.query.crew import CrewError
from pointstamp.query.membership import be_member
from pointstamp.query.meshcrew import MeshCrew
from pointstamp.query.mission import Mission
from pointstamp.running.board import Sign
from pointstamp.running.gang import ProcessGang
from pointstamp.running.messages import Failed, Finish, InCall, Leave, Order, Report
from pointstamp.running.workerprocess import Seat

_CONSEQUENCE: Final = TransportError.__name__
# How long a death may take to be known after a connection was seen to be closed.
_DEATH_SECONDS_MAX: Final = 0.5


class ProcessCrew(MeshCrew):
    """Members in processes, which end with this one."""

    def __init__(self, gang: ProcessGang, workers: int) -> None:
        assert gang.mesh is not None
        super().__init__(gang.mesh, workers)
        self._gang = gang
        self._were_told = False
        self._stuck: set[int] = set()  # those that are known to be stuck in native code
        gang.forget_folder()

    def post(self, worker: int, order: Order) -> None:
        """Give an order to a member."""
        self._were_told = self._were_told or isinstance(order, (Finish, Leave))
        super().post(worker, order)

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived, and of members that are stuck what is seen from outside."""
        reports = super().collect()
        # What another member says of a connection that was closed says less than who has died of what.
        if any(isinstance(report, Failed) and report.kind == _CONSEQUENCE for _, report in reports):
            self._gang.wait_for_death(_DEATH_SECONDS_MAX)
            if words := self.deaths():
                raise CrewError(words)
        for worker, call in enumerate(self._gang.look()):
            if call is not None and worker not in self._stuck:
                self._stuck.add(worker)
                reports.append((worker, call))
            elif call is None and worker in self._stuck:
                self._stuck.discard(worker)
                reports.append((worker, InCall("", "", "", 0.0)))
        return reports

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


def _be_member(mission: Mission, mesh: Mesh, seat: Seat, sign: Sign | None) -> None:
    be_member(mission, mesh, seat.worker, sign)
