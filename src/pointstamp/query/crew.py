"""A crew: the members of one generation, wherever they run, as the driver sees them.

The driver posts orders and collects reports; a crew raises ``CrewError`` when a member is lost, as text that
say which and how. ``InProcessCrew`` has its members in this process and steps them itself, one after the
other: for runs without Spark, and for tests of everything above.
"""

import select
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from pointstamp.driver.event_reports import EventTeller, TellRows
from pointstamp.driver.local_run import LocalTransport
from pointstamp.driver.messages import (
    AskLoad,
    Order,
    Ready,
    Report,
    TellEvents,
    error_of,
    failure_of,
    post,
    report_in,
)
from pointstamp.driver.worker_loop import LoadMeter
from pointstamp.errors import PointstampError, TransportError
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import Body
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.member import Member
from pointstamp.query.mission import Mission
from pointstamp.query.snapshot_writer import InlineScribe
from pointstamp.worker.protocols import Message

# How many rounds members in this process may work before the driver looks up.
_ROUNDS_MAX: Final = 1000
# And how many before it hears whether somebody has called it.
_ROUNDS_UNHEARD: Final = 20


class CrewError(PointstampError):
    """A member of the crew is lost: the message says which one, and what is known about its end."""


class Crew(Protocol):
    """The members of one generation; used by the driver's loop alone."""

    @property
    def workers(self) -> int:
        """The number of members, numbered from 0; a launcher may have found fewer than requested."""
        ...

    @property
    def could_grow(self) -> bool:
        """Whether a new generation would have more members, because others have offered themselves."""
        ...

    def post(self, worker: int, order: Order) -> None:
        """Give an order to a member."""
        ...

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived, with their senders; CrewError if a member is lost."""
        ...

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """Return when a report may have arrived, when one of these files is readable, or after a timeout."""
        ...

    def end(self) -> None:
        """End all members, wherever they are; ending again does nothing."""
        ...


class Launcher(Protocol):
    """Sends a crew out."""

    def launch(self, mission: Mission) -> Crew:
        """Start the members of a mission, which report when they are ready; at most ``mission.workers``."""
        ...


class InProcessCrew:
    """All members in this process."""

    def __init__(self, mission: Mission) -> None:
        self.workers = mission.workers
        self.could_grow = False
        self._reports: deque[tuple[int, Report]] = deque()
        self.members: list[Member] = []
        self._tellers: list[EventTeller | None] = []
        inboxes: list[deque[Message]] = [deque() for _ in range(mission.workers)]
        for number in range(mission.workers):
            transport = LocalTransport(WorkerIndex(number), inboxes)
            tell, log = self._tell_of(number), None
            if mission.is_observed:
                log = EventTeller(tell)
                tell = log.before(tell)
            self._tellers.append(log)
            with _lost(number):
                member = Member(mission, number, transport, tell, InlineScribe(), log=log)
            self.members.append(member)
            self._reports.append((number, Ready(0, "")))
        self._meter = LoadMeter([member.worker for member in self.members])

    def post(self, worker: int, order: Order) -> None:
        """Give an order to a member."""
        teller = self._tellers[worker]
        if isinstance(order, AskLoad):
            self._reports.append((worker, self._meter.told(worker, with_keys=order.with_keys)))
            return
        if isinstance(order, TellEvents):
            if teller is not None:
                teller.answer(order.number)
            return
        with _lost(worker):
            self.members[worker].follow(order)

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have come."""
        reports = list(self._reports)
        self._reports.clear()
        return reports

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """Let the members work until one of them has a report, or none has anything to do.

        It returns after a while in any case: an epoch that never ends must not keep the driver from stopping.
        """
        for number in range(_ROUNDS_MAX):
            if self._reports or (number % _ROUNDS_UNHEARD == 0 and _is_readable(files)):
                return
            # Every member takes a step, also after one had something to do.
            stepped = [self._step(member) for member in self.members if not member.has_left]
            if not any(stepped):
                for teller in self._tellers:
                    if teller is not None:
                        teller.flush()
                if not self._reports and timeout_seconds > 0:
                    select.select(files, [], [], timeout_seconds)
                return

    def end(self) -> None:
        """End all members."""
        self._meter.end()
        for member in self.members:
            member.close()

    def _step(self, member: Member) -> bool:
        with _lost(member.number):
            return member.step()

    def _tell_of(self, number: int) -> TellRows:
        def tell(report: Report, bodies: Sequence[Body] = (), /) -> None:
            del bodies  # no report of a query has any
            self._reports.append((number, report))

        return tell


@contextmanager
def _lost(number: int) -> Iterator[None]:
    """An error of a member ends that member, and nothing else."""
    try:
        yield
    except PointstampError as error:
        raise CrewError(f"worker {number} has failed: {error}") from error
    except Exception:
        raise
    except BaseException as error:  # a function's: an interrupt of the keyboard does not come to this thread
        if threading.current_thread() is threading.main_thread():
            raise
        cause = error_of(failure_of(error), f"worker {number}")
        raise CrewError(f"worker {number} has failed: {cause}") from cause


def _is_readable(files: Sequence[int]) -> bool:
    return bool(files) and bool(select.select(files, [], [], 0)[0])


class InProcessLauncher:
    """Starts crews in this process."""

    def launch(self, mission: Mission) -> InProcessCrew:
        """Start all members here."""
        return InProcessCrew(mission)


# A crew that the driver speaks to through a mesh, of which it is the last member.


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
        """The known facts about members that have ended, as text; None if all are alive."""
        return None

    def end(self) -> None:
        """End all members."""
        self._mesh.close(linger_ms=0)

    def _lost(self, error: TransportError) -> PointstampError:
        # Without the error as its cause: that a connection was closed says less than who has died of what.
        return CrewError(self.deaths() or str(error))
