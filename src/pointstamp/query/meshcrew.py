"""A crew that the driver speaks to through a mesh, of which it is the last member."""

from collections.abc import Sequence

from pointstamp.errors import PointstampError, TransportError
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.crew import CrewError
from pointstamp.running.messages import Order, Report
from pointstamp.running.posting import post, report_in


class MeshCrew:
    """Members in a mesh; a subclass starts and ends them, and says in ``_cause`` why one was lost."""

    def __init__(self, mesh: Mesh, workers: int) -> None:
        self._mesh = mesh
        self.workers = workers

    @property
    def could_grow(self) -> bool:
        """Whether a new generation would have more members."""
        return False

    def post(self, worker: int, order: Order) -> None:
        """Give an order to a member."""
        try:
            post(self._mesh, worker, order)
        except TransportError as error:
            raise self._lost(error) from None

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived; CrewError if a member is lost."""
        try:
            parcels = self._mesh.collect()
        except TransportError as error:
            raise self._lost(error) from None
        reports = [(int(parcel.sender), report_in(parcel)) for parcel in parcels]
        if not reports and (words := self.deaths()):
            raise CrewError(words)
        return reports

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """Wait for a report, for one of these files, or for a timeout."""
        self._mesh.watch(files)
        try:
            self._mesh.wait(timeout_seconds)
        except TransportError as error:
            raise self._lost(error) from None

    def deaths(self) -> str | None:
        """What is known about members that have ended, as text; None if all are alive."""
        return None

    def end(self) -> None:
        """End all members."""
        self._mesh.close(linger_ms=0)

    def _lost(self, error: TransportError) -> PointstampError:
        # Without the error as its cause: that a connection was closed says less than who has died of what.
        return CrewError(self.deaths() or str(error))
