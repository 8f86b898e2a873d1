"""Worlds with crashes in which the workers of each generation form from the tasks of a simulated Spark.

The driver's side is the production ``Rendezvous``. Simulated are Spark (executors with slots that arrive and
are lost, tasks that start late, are tried again, or run twice because of speculation) and the connections
between tasks and drivers, which deliver in order with a delay, or are lost. Every generation submits a job;
as many members as its roster has begin to work, so what is published is compared as in every world. Slots of
a job are free some time after its driver has closed it.

``check`` raises for what must never be: two tasks with one number, two attempts at one partition in a roster,
a task of an older job among the workers, a roster that names another address than the task's, or a worker
that Spark kills because a copy of it has ended.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from pointstamp.mesh.admission import Address
from pointstamp.query.recovery import Beginning
from pointstamp.query.rendezvous import (
    Dismissed,
    Listening,
    Placement,
    Register,
    Rendezvous,
    Roster,
    Sent,
    SlotsLeft,
)
from pointstamp.simulate.crash.crew import Channel, Life, MemberPlace
from pointstamp.simulate.crash.events import Crashed
from pointstamp.simulate.crash.world import CrashWorld
from pointstamp.simulate.network import TICKS_PER_SECOND

SETTLE_TICKS: Final = 40
START_TICKS_MAX: Final = 30
DELAY_MAX: Final = 20
CLOSE_TICKS_MAX: Final = 60
FAULTS_MAX: Final = 20
FAULT_ONE_IN: Final = 12
EXECUTORS_MAX: Final = 4
LOOK_TICKS: Final = 5
LEAST_MAX: Final = 2
VERSIONS: Final = {"Python": "3.11"}


@dataclass(slots=True)
class TaskRun:
    """One attempt at one partition of a job, on an executor."""

    job: "Job"
    partition: int
    attempt: int
    executor: int
    connection: int
    up: Channel[Register | Listening]
    down: Channel[Placement | Roster | Dismissed]
    starts_at: int
    is_registered: bool = False
    is_known: bool = False
    """Whether a driver has taken note of it."""
    is_connected: bool = True
    has_ended: bool = False
    seat: Placement | None = None
    roster: Roster | None = None

    def address(self, round_number: int) -> Address:
        """Where this attempt listens in a round."""
        return Address(f"tcp://{self.job.number}-{self.connection}:{round_number}")


@dataclass(slots=True)
class Job:
    """The tasks of one generation, and its driver's rendezvous."""

    number: int
    secret: int
    begun: Beginning
    partitions: int
    rendezvous: Rendezvous
    least: int
    turn: int
    """How often a driver had taken over, or had tried to, when this job was submitted."""
    runs: list[TaskRun] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    closed_at: int | None = None
    life: Life | None = None
    left: SlotsLeft | None = None
    """The slots that a loss has left, where its workers form after one."""


class FormingWorld(CrashWorld):
    """A world whose generations begin when their workers have formed."""

    rendezvous: ClassVar[type[Rendezvous]] = Rendezvous
    has_secrets: ClassVar[bool] = True
    """Whether the rendezvous of a generation takes the tasks of no other one."""
    settle_ticks: ClassVar[int] = SETTLE_TICKS
    fault_one_in: ClassVar[int] = FAULT_ONE_IN

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        super().__init__(*given, **named)
        self.wish = self.spec.workers
        self.executors: dict[int, int] = {}
        self.jobs: list[Job] = []
        self.faults_left = FAULTS_MAX
        self.seen: set[str] = set()
        self._numbers = 0
        for _ in range(1 + self.further.choose(2)):
            self._add_executor()

    # Generations.

    def _take_over(self) -> None:
        self.spec = replace(self.spec, workers=self.wish)
        super()._take_over()

    def _live(self, begun: Beginning) -> None:
        """Submit the job of a generation, and begin when its workers have formed."""
        for job in self.jobs:
            if job.begun.generation < begun.generation:  # one that slept meanwhile ends no newer one
                self._close(job)
        now = self.clock.now_seconds()
        least = 1 + self.further.choose(min(LEAST_MAX, self.wish))
        machine = self.rendezvous(
            self.wish, least, VERSIONS, now_seconds=now, settle_seconds=self.settle_ticks / TICKS_PER_SECOND
        )
        number = len(self.jobs)
        secret = number if self.has_secrets else 0
        self.jobs.append(Job(number, secret, begun, self.wish, machine, least, self._takeovers))

    def _begin(self, job: Job, roster: Roster) -> None:
        workers = len(roster.addresses)
        self.spec = replace(self.spec, workers=workers)
        before = len(self.lives)
        super()._live(replace(job.begun, mission=replace(job.begun.mission, workers=workers)))
        job.life = self.lives[before]
        job.life.turn = job.turn
        self.seen.add("fewer workers" if workers < self.wish else "all workers")

    def _close(self, job: Job) -> None:
        """The driver closes its rendezvous and cancels the job; Spark ends the tasks a while later."""
        if job.closed_at is None:
            job.closed_at = self.clock.ticks + self.further.choose(CLOSE_TICKS_MAX)
            if job.life is None:
                self.seen.add("closed while it formed")

    # What happens.

    def _do_something(self, now: int) -> None:
        if self._advance(now):
            self._quiet_ticks = 0
        super()._do_something(now)

    def _has_ended(self) -> bool:
        forming = [job for job in self.jobs if job.life is None and job.closed_at is None]
        return not (forming and self._quiet_ticks <= self.settle_ticks * 4) and super()._has_ended()

    def _advance(self, now: int) -> bool:
        """Let Spark and the connections do what is due; whether anything has happened."""
        happened = self._schedule(now)
        for job in self.jobs:
            if job.life is not None and not job.life.driver_is_alive:
                self._close(job)
            for run in job.runs:
                happened |= not run.has_ended and self._run(run, now)
            if job.closed_at is None and job.life is None:
                machine, seconds = job.rendezvous, self.clock.now_seconds()
                if now % LOOK_TICKS == 0:
                    self._look(job)
                self._deliver(job, machine.tick(seconds))
                if machine.roster is not None:
                    self._begin(job, machine.roster)
                    happened = True
        if self.faults_left and self.further.happens(self.fault_one_in):
            self.faults_left -= 1
            self._fault(now)
        return happened

    def _look(self, job: Job) -> None:
        """The driver looks at what Spark runs."""
        active = sum(not run.has_ended for run in job.runs)
        job.rendezvous.expect(active, self.clock.now_seconds())

    def _schedule(self, now: int) -> bool:
        """Give free slots to partitions that wait for one; end the tasks of closed jobs."""
        happened = False
        for job in self.jobs:
            if job.closed_at is not None and now >= job.closed_at:
                for run in job.runs:
                    happened |= not run.has_ended
                    run.has_ended = True
        while sum(self.executors.values()) < LEAST_MAX:
            self._add_executor()  # tasks that wait make Spark ask for one
        for job in self.jobs:
            if job.closed_at is not None:
                continue
            running = {run.partition for run in job.runs if not run.has_ended}
            for partition in range(job.partitions):
                executor = self._free_executor()
                if executor is None:
                    return happened
                if partition not in running | job.done:
                    self._start(job, partition, executor, now)
                    happened = True
        return happened

    def _free_executor(self) -> int | None:
        taken = [run.executor for job in self.jobs for run in job.runs if not run.has_ended]
        free = [each for each, slots in sorted(self.executors.items()) if taken.count(each) < slots]
        return free[self.further.choose(len(free))] if free else None

    def _add_executor(self) -> None:
        self.executors[self._numbers] = 1 + self.further.choose(2)
        self._numbers += 1

    def _start(self, job: Job, partition: int, executor: int, now: int) -> TaskRun:
        attempt = sum(run.partition == partition for run in job.runs)
        self.seen |= {"another attempt"} if attempt else set()
        run = TaskRun(
            job,
            partition,
            attempt,
            executor,
            sum(len(each.runs) for each in self.jobs),
            Channel(self.clock, self.further, DELAY_MAX),
            Channel(self.clock, self.further, DELAY_MAX),
            now + self.further.choose(START_TICKS_MAX),
        )
        job.runs.append(run)
        return run

    def _run(self, run: TaskRun, now: int) -> bool:
        """Let a task do what is due on its side and on the driver's."""
        if now < run.starts_at:
            return False
        happened = False
        if not run.is_registered:
            run.is_registered = happened = True
            run.up.put(Register(run.partition, run.attempt, f"executor {run.executor}", VERSIONS))
        target = self._rendezvous_of(run)
        if target is None:
            if run.is_connected:  # the driver has closed the connection
                run.is_connected, happened = False, True
                if run.roster is None:
                    self._end(run)
            return happened
        for request in run.up.take() if run.is_connected else ():
            happened = True
            if isinstance(request, Register):
                run.is_known = True
                answers = target.rendezvous.register(run.connection, request, self.clock.now_seconds())
            else:
                answers = target.rendezvous.bound(run.connection, request)
            self._deliver(target, answers)
        for answer in run.down.take() if run.is_connected else ():
            happened = True
            match answer:
                case Placement():
                    run.seat = answer
                    run.up.put(Listening(answer.round, run.address(answer.round)))
                case Roster():
                    run.roster = answer
                    self.check(target, run)
                case Dismissed():
                    self._end(run)
        return happened

    def _rendezvous_of(self, run: TaskRun) -> Job | None:
        """The job whose rendezvous takes this task; without secrets it may be a newer one."""
        for job in reversed(self.jobs):
            if job.closed_at is None and job.secret == run.job.secret:
                return job if job is run.job or not self.has_secrets else None
        return None

    def _deliver(self, job: Job, answers: list[Sent]) -> None:
        runs = {run.connection: run for each in self.jobs for run in each.runs}
        for connection, answer in answers:
            runs[connection].down.put(answer)

    def _end(self, run: TaskRun) -> None:
        """A task ends well, so Spark has no need of other attempts at its partition."""
        run.has_ended = True
        if run.job.closed_at is not None:
            return
        run.job.done.add(run.partition)
        for other in run.job.runs:
            if other.partition == run.partition and not other.has_ended:
                if other.roster is not None:
                    raise AssertionError(f"Spark kills worker {other.seat}, because its copy has ended")
                self._lose(other)

    # What goes wrong.

    def _fault(self, now: int) -> None:
        alive = [run for job in self.jobs if job.closed_at is None for run in job.runs if not run.has_ended]
        kind = self.further.choose(5)
        if kind == 0 and len(self.executors) < EXECUTORS_MAX:
            self._add_executor()
            self.seen.add("an executor arrives")
        elif kind == 1 and self.executors:
            self._lose_executor()
        elif kind == 2 and alive:
            # The connection is lost, and the task runs on: it comes back after its replacement.
            run = alive[self.further.choose(len(alive))]
            if run.roster is None:
                self.seen.add("a connection is lost")
                self._disconnect(run)
        elif kind == 3 and alive and (executor := self._free_executor()) is not None:
            run = alive[self.further.choose(len(alive))]
            self.seen.add("speculation")
            self._start(run.job, run.partition, executor, now)
        elif kind == 4:
            for job in self.jobs:
                if job.closed_at is None and job.life is None:
                    self.note(-1, Crashed("the driver died while its workers formed"))
                    self._close(job)
                    self.recover_soon()

    def _lose_executor(self) -> None:
        lost = sorted(self.executors)[self.further.choose(len(self.executors))]
        del self.executors[lost]
        self.seen.add("an executor is lost")
        self.note(-1, Crashed(f"executor {lost} is lost"))
        for job in self.jobs:
            for run in job.runs:
                if job.closed_at is None and not run.has_ended and run.executor == lost:
                    self._lose(run)

    def _lose(self, run: TaskRun) -> None:
        """A task is gone; if it is a worker, its generation loses a member."""
        run.has_ended = True
        if run.roster is not None and run.seat is not None and run.job.life is not None:
            places: list[MemberPlace] = run.job.life.crew.places
            if run.seat.number < len(places) and places[run.seat.number].is_alive:
                run.job.life.crew.lose(places[run.seat.number])
        self._disconnect(run)

    def _disconnect(self, run: TaskRun) -> None:
        target = self._rendezvous_of(run)
        if run.is_connected and target is not None:
            answers = target.rendezvous.disconnected(run.connection, self.clock.now_seconds())
            self._deliver(target, answers)
        run.is_connected = False
        run.up = Channel(self.clock, self.further, DELAY_MAX)  # what was on its way is lost
        if run.roster is None and not run.has_ended:
            run.has_ended = True  # the task sees that the driver is gone; Spark tries it again

    # What must never be.

    def check(self, job: Job, run: TaskRun) -> None:
        """Look at a task that was told that it is a worker."""
        seat, roster = run.seat, run.roster
        assert seat is not None
        assert roster is not None
        if run.job is not job:
            raise AssertionError(f"a task of job {run.job.number} is a worker of job {job.number}")
        if len(roster.addresses) != seat.workers:
            raise AssertionError(f"{seat.workers} workers have a roster of {len(roster.addresses)}")
        if roster.addresses[seat.number] != run.address(seat.round):
            raise AssertionError(f"worker {seat.number} is told another address than its own")
        others = [
            each
            for each in job.runs
            if each is not run and each.roster is not None and each.seat is not None and not each.has_ended
        ]
        if any(each.seat is not None and each.seat.number == seat.number for each in others):
            raise AssertionError(f"two tasks are worker {seat.number} of job {job.number}")
        if any(each.partition == run.partition for each in others):
            raise AssertionError(f"two attempts at partition {run.partition} are workers")
