"""Worlds in which workers form in the slots that a loss has left, beside late tasks of the lost generation.

A driver that loses a worker dismisses the others, and serves the rendezvous of the generation until all tasks
have ended, for a while at most. Meanwhile Spark starts the lost tasks again: they register late, and are
dismissed, or find nobody. Then the driver starts the next workers. They are complete once their tasks fill
the slots that are left, which the production ``SlotsLeft`` decides from what Spark says. An executor that was
lost is counted for a while longer. Sometimes another driver takes over without waiting: two rendezvous are
open at once, and their tasks compete for slots.

Besides what ``FormingWorld`` checks, a crew whose tasks fill all slots must not wait for more tasks.
"""

from typing import Any, ClassVar, Final

from pointstamp.query.recovery import Beginning
from pointstamp.query.rendezvous import Roster, SlotsLeft
from pointstamp.simulate.crash.crew import Life, MemberPlace
from pointstamp.simulate.network import TICKS_PER_SECOND
from support.forming_worlds import DELAY_MAX, LOOK_TICKS, FormingWorld, Job, TaskRun

HURRY_TICKS: Final = 10
LEAVE_TICKS_MAX: Final = 80
COUNTED_TICKS_MAX: Final = 30
FULL_TICKS_MAX: Final = HURRY_TICKS + COUNTED_TICKS_MAX + 2 * LOOK_TICKS + 4 * DELAY_MAX
"""A look finds that the slots are full, and the tasks get a number, an address each, and the roster."""


class LossWorld(FormingWorld):
    """A world whose driver dismisses late tasks after a loss, and starts the next workers at once."""

    settle_ticks: ClassVar[int] = 400
    fault_one_in: ClassVar[int] = 40
    slots_left: ClassVar[type[SlotsLeft]] = SlotsLeft

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the world takes it
        self._leaving: dict[int, int] = {}
        """Until when a lost generation's driver waits for its tasks, by the number of its job."""
        self._counted: list[tuple[int, int]] = []
        """Slots of lost executors that Spark still counts, each with the tick at which it stops."""
        self._full: dict[int, tuple[object, int]] = {}
        """The tasks that fill the slots that are left, and since when they do, by the number of their job."""
        self._was_empty: set[int] = set()
        """Jobs for whose tasks Spark had no slots at some time: others are waited for."""
        self._after_loss = False
        self._resumes_at: int | None = None
        """When the driver starts the next generation, if its tasks have ended by then."""
        super().__init__(*given, **named)
        while sum(self.executors.values()) < self.wish:
            self._add_executor()

    # The driver that has lost a worker.

    def _give_up(self, life: Life, cause: BaseException | None) -> None:
        super()._give_up(life, cause)
        if life is not self.newest:
            return
        (job,) = [each for each in self.jobs if each.life is life]
        self._after_loss = True
        self._leaving[job.number] = self.clock.ticks + self.further.choose(LEAVE_TICKS_MAX)
        if self.further.choose(3) and self.recover_at is not None:  # else another driver takes over
            self._resumes_at = self.recover_at
            self.recover_at = max(self.recover_at, self._leaving[job.number])
        for place in life.crew.places:
            if place.is_alive and self.further.choose(4):  # else the order to leave does not reach it
                place.die()

    def _close(self, job: Job) -> None:
        """A lost generation is closed when all of its tasks have ended, or have had the time to."""
        until = self._leaving.get(job.number)
        if until is not None and self.clock.ticks < until and any(not run.has_ended for run in job.runs):
            return
        super()._close(job)
        if until is not None and self.recover_at is not None and self._resumes_at is not None:
            self.recover_at = max(self._resumes_at, self.clock.ticks)
            self._resumes_at = None

    def _take_over(self) -> None:
        self._resumes_at = None
        super()._take_over()

    def _live(self, begun: Beginning) -> None:
        super()._live(begun)
        job = self.jobs[-1]
        if any(each.number in self._leaving and each.closed_at is None for each in self.jobs):
            self.seen.add("beside a generation that leaves")
        if self._after_loss and job.life is None:
            self._after_loss = False
            job.left = self.slots_left(self._slots_now())

    # Spark.

    def _advance(self, now: int) -> bool:
        happened = False
        for job in self.jobs:
            places: list[MemberPlace] = [] if job.life is None else job.life.crew.places
            for run in job.runs:
                if run.has_ended or run.roster is None or run.seat is None or job.closed_at is not None:
                    continue
                if run.seat.number < len(places) and not places[run.seat.number].is_alive:
                    happened = True
                    self._leave(job, run)
        return super()._advance(now) or happened

    def _leave(self, job: Job, run: TaskRun) -> None:
        """The process of a worker has ended: well, if it was dismissed; else Spark starts the task again."""
        was_dismissed = job.number in self._leaving and self.further.choose(2) == 0
        self._disconnect(run)
        run.has_ended = True
        if was_dismissed:
            job.done.add(run.partition)

    def _end(self, run: TaskRun) -> None:
        if run.is_registered and run.job.life is not None and run.roster is None:
            is_dismissed = run.is_known and run.job.closed_at is None
            self.seen.add("a late task is dismissed" if is_dismissed else "a late task finds nobody")
        super()._end(run)

    def _fault(self, now: int) -> None:
        if self.executors and self.further.choose(2):
            self._lose_executor()
        else:
            super()._fault(now)

    def _lose_executor(self) -> None:
        before = dict(self.executors)
        super()._lose_executor()
        for lost in before.keys() - self.executors.keys():
            self._counted.append((self.clock.ticks + self.further.choose(COUNTED_TICKS_MAX), before[lost]))

    def _slots_now(self) -> int:
        """How many slots Spark says it has."""
        stale = sum(slots for until, slots in self._counted if self.clock.ticks < until)
        return sum(self.executors.values()) + stale

    # The driver that forms workers after a loss.

    def _look(self, job: Job) -> None:
        super()._look(job)
        if job.left is None:
            return
        job.left.look(self._slots_now())
        ticks = HURRY_TICKS if job.left.are_full(job.rendezvous.registered) else self.settle_ticks
        job.rendezvous.settle_seconds = ticks / TICKS_PER_SECOND
        self._check_waiting(job)

    def _check_waiting(self, job: Job) -> None:
        slots = sum(self.executors.values())
        if not self._slots_now():
            self._was_empty.add(job.number)
        runs = [run for run in job.runs if not run.has_ended]
        is_full = (
            len({run.partition for run in runs}) >= slots > 0
            and all(run.is_known and run.is_connected for run in runs)
            and job.number not in self._was_empty
            and len({run.partition for run in runs}) >= job.least
        )
        now, filled = self.clock.ticks, (slots, [run.connection for run in runs])
        if not is_full or self._full.get(job.number, (filled, now))[0] != filled:
            self._full.pop(job.number, None)
        elif now - self._full.setdefault(job.number, (filled, now))[1] > FULL_TICKS_MAX:
            raise AssertionError(f"job {job.number} waits, though its tasks fill the slots that are left")

    def _begin(self, job: Job, roster: Roster) -> None:
        if job.left is not None and len(roster.addresses) < self.wish:
            self.seen.add("in the slots that are left")
        super()._begin(job, roster)
