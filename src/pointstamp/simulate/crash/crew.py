"""One simulated generation: a driver, its members and their scribes.

The members are the production ``Member``, the driver is the production ``Session`` and ``Coordinator``.
Replaced are the network between members, the channels for orders and reports (in order, each with a delay),
and the scribe, whose writes are done when the world says so. A member that dies takes its memory with it;
what it had sent is in flight. The messages of a generation reach no other one, as a mesh sees to.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from pointstamp.driver.messages import Order, Ready, Report
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.crew import CrewError
from pointstamp.query.member import Member
from pointstamp.query.mission import Mission
from pointstamp.query.recovery import Beginning
from pointstamp.query.session import Session
from pointstamp.query.snapshot_writer import Job
from pointstamp.simulate.crash.events import Happened
from pointstamp.simulate.crash.feed import SimulatedWatch
from pointstamp.simulate.network import Choices, SimulatedClock, SimulatedNetwork, SimulatedTransport
from pointstamp.worker.events import Event

T = TypeVar("T")
Call: TypeAlias = Callable[[Session], None]


class Channel(Generic[T]):
    """Carries things in order, each with a delay."""

    def __init__(self, clock: SimulatedClock, choices: Choices, delay_max: int) -> None:
        self._clock = clock
        self._choices = choices
        self._delay_max = delay_max
        self._waiting: deque[tuple[int, T]] = deque()

    def put(self, thing: T) -> None:
        """Send a message, in order."""
        arrival = self._clock.ticks + self._choices.choose(self._delay_max + 1)
        if self._waiting:
            arrival = max(arrival, self._waiting[-1][0])
        self._waiting.append((arrival, thing))

    def take(self) -> list[T]:
        """Return the received messages."""
        taken = []
        while self.has_arrived:
            taken.append(self._waiting.popleft()[1])
        return taken

    @property
    def has_arrived(self) -> bool:
        """Whether something waits to be taken."""
        return bool(self._waiting) and self._waiting[0][0] <= self._clock.ticks

    def __len__(self) -> int:
        return len(self._waiting)


class SimulatedScribe:
    """Does jobs in order, each when the world calls ``work``."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.results: deque[Report | Exception] = deque()

    def submit(self, job: Job) -> None:
        """Let a job wait until it is done."""
        self.jobs.append(job)

    def work(self) -> None:
        """Do the oldest job."""
        job = self.jobs.popleft()
        try:
            report = job()
            if report is not None:
                self.results.append(report)
        except Exception as error:  # raised again where the member looks
            self.results.append(error)

    def done(self) -> list[Report]:
        """The reports of jobs that are done; raises what a job raised."""
        reports: list[Report] = []
        while self.results:
            result = self.results.popleft()
            if isinstance(result, Exception):
                raise result
            reports.append(result)
        return reports

    @property
    def is_idle(self) -> bool:
        """Whether every job is done and its report was taken."""
        return not self.jobs and not self.results


class _CrewLog:
    """Takes events down with their generation."""

    def __init__(self, happened: list[Happened], generation: int) -> None:
        self._happened = happened
        self._generation = generation

    def record(self, event: Event) -> None:
        """Take down one event."""
        self._happened.append(Happened(self._generation, event))


MakeMember = Callable[..., Member]


@dataclass(slots=True)
class MemberPlace:
    """The process of one member: it starts at its first step, and may die at any."""

    number: int
    orders: Channel[Order]
    reports: "Channel[Report | Exception | None]"
    scribe: SimulatedScribe
    pace: int
    member: Member | None = None
    is_alive: bool = True
    is_idle: bool = False

    def die(self) -> None:
        """Lose everything that is in memory; held capabilities are not an error."""
        self.is_alive = False
        if self.member is not None:
            self.member.close()
            self.member = None


@dataclass(slots=True)
class SimulatedCrew:
    """The members of one generation as their driver sees them."""

    mission: Mission
    network: SimulatedNetwork
    places: list[MemberPlace]
    log: _CrewLog
    choices: Choices
    silent_activations_max: int
    make_member: MakeMember = Member

    # As a crew.

    @property
    def workers(self) -> int:
        """The number of members."""
        return self.mission.workers

    @property
    def could_grow(self) -> bool:
        """No other member offers itself in a simulated world."""
        return False

    def post(self, worker: int, order: Order) -> None:
        """Send an order."""
        self.places[worker].orders.put(order)

    def collect(self) -> list[tuple[int, Report]]:
        """The reports that have arrived; CrewError where a member is lost."""
        collected: list[tuple[int, Report]] = []
        for place in self.places:
            for report in place.reports.take():
                if report is None:
                    raise CrewError(f"worker {place.number} is lost")
                if isinstance(report, Exception):
                    raise CrewError(f"worker {place.number} has failed") from report
                collected.append((place.number, report))
        return collected

    def wait(self, timeout_seconds: float, files: Sequence[int] = ()) -> None:
        """Nobody waits in a simulated world."""

    def end(self) -> None:
        """End all members."""
        for place in self.places:
            place.die()

    # For the world.

    def step(self, place: MemberPlace) -> None:
        """Let one member take its orders and do one thing; its errors are reported to the driver."""
        try:
            if place.member is None:
                place.member = self._start(place)
                place.is_idle = False
                return
            for order in place.orders.take():
                place.member.follow(order)
            place.is_idle = not place.member.step()
        except Exception as error:
            place.die()
            place.reports.put(error)

    def lose(self, place: MemberPlace) -> None:
        """Kill a member; its driver learns of it later."""
        place.die()
        place.reports.put(None)

    def _start(self, place: MemberPlace) -> Member:
        number = place.number
        member = self.make_member(
            self.mission,
            number,
            SimulatedTransport(self.network, WorkerIndex(number)),
            place.reports.put,
            place.scribe,
            chooser=self.choices,
            log=self.log,
        )
        member.worker.silent_activations_max = self.silent_activations_max
        place.reports.put(Ready(0, f"place {number}"))
        return member


@dataclass(slots=True)
class Life:
    """A generation with its driver; ``until`` is when what is left of it ends, once it is replaced."""

    generation: int
    begun: Beginning
    crew: SimulatedCrew
    session: Session
    watches: Mapping[str, SimulatedWatch]
    turn: int
    """The number of takeovers and attempts when this driver took over."""
    checks_parts: bool
    """Whether its driver has read all parts of the snapshot itself."""
    calls: deque[Call] = field(default_factory=deque)
    """The user's calls to the query, between two rounds of the driver."""
    driver_is_alive: bool = True
    is_asleep: bool = False
    is_finishing: bool = False
    is_idle: bool = False
    until: int | None = None

    def die(self) -> None:
        """End all of its processes."""
        self.driver_is_alive = False
        self.crew.end()

    @property
    def is_alive(self) -> bool:
        """Whether anything of it can act."""
        return self.driver_is_alive or any(place.is_alive for place in self.crew.places)

    @property
    def is_finished(self) -> bool:
        """Whether all members have done their work and left."""
        places = self.crew.places
        return self.is_finishing and all(p.member is not None and p.member.has_left for p in places)


def new_crew(
    mission: Mission,
    happened: list[Happened],
    clock: SimulatedClock,
    choices: Choices,
    *,
    paces: Sequence[int],
    delays_max: Sequence[Sequence[int]],
    control_delay_max: int,
    silent_activations_max: int,
    make_member: MakeMember = Member,
) -> SimulatedCrew:
    """Places for all members of a mission, none of whom has started."""
    network = SimulatedNetwork(mission.workers, clock, choices)
    network.delays_max = [list(row) for row in delays_max]
    places = [
        MemberPlace(
            number,
            Channel(clock, choices, control_delay_max),
            Channel(clock, choices, control_delay_max),
            SimulatedScribe(),
            paces[number],
        )
        for number in range(mission.workers)
    ]
    return SimulatedCrew(
        mission,
        network,
        places,
        _CrewLog(happened, mission.generation),
        choices,
        silent_activations_max,
        make_member,
    )
