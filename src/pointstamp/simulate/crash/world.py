"""A simulated query with driver, members, journal, snapshots and sink, from one seed.

Members, coordinator, journal and ledger are the production code, as in ``pointstamp.simulate.world`` the
workers are. At any step members, the driver or all may die: what they had in memory is gone, what they were
writing is done, cut off between two operations or in the middle of one, or not done, and their messages
arrive or not. Storage may fail or not answer, and the power may fail. Processes that survive continue for a
while beside the generation that replaces them: a driver that does not know that it was replaced, also one
that slept between two operations of its own; members whose driver is dead. Recovery itself may crash. The
number of crashes is bounded, so that the world comes to an end.

A recovery is ``begin_generation``, the same that a supervisor calls. Which crash happens when is said by
``pointstamp.simulate.crash.world``.
"""

import gc
import logging
import warnings
from collections.abc import Callable
from typing import Final, TypeAlias

from pointstamp.driver.messages import Finish
from pointstamp.errors import DamagedSnapshot, FencedError, PointstampWarning, StorageError
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.crew import CrewError
from pointstamp.query.recovery import Beginning, begin_generation
from pointstamp.query.savepoints import remove_unneeded
from pointstamp.query.session import Session
from pointstamp.simulate.crash.crew import Life, MemberPlace, new_crew
from pointstamp.simulate.crash.durability import DiedError, UnansweredError
from pointstamp.simulate.crash.events import Crashed, DriverFenced, GenerationBegan
from pointstamp.simulate.crash.setting import CrashRun, Doom, Setting
from pointstamp.simulate.world import Ended, one_of
from pointstamp.worker.events import Event

_log = logging.getLogger("pointstamp.query")

_FINDS_ONE_IN: Final = 6
_SAYS_ONE_IN: Final = 12
_END_OF_TIME: Final = 2**62
# Nothing takes as long as this: after it nothing will happen any more.
_QUIET_TICKS_MAX: Final = 700

Act: TypeAlias = "Callable[[Life, MemberPlace | None], None]"


# The simulated drivers: take over, drive, die, sleep and be fenced.
#
# A recovery is ``begin_generation`` and a round of a driver is ``Session.turn``, the same that a supervisor
# calls. Each durable operation in them is a moment at which the driver may die, or fall asleep while another
# takes over. Of all generations one is the newest; what is left of the others continues for a while, and
# nothing that it does may be published: the judges check that, and nothing here prevents it.

# How long something takes; the first of each is the plain one.
_LINGER_TICKS: Final = (0, 30, 200, 600)
_RECOVERY_TICKS: Final = (0, 3, 40)
_SLEEP_TICKS_MAX: Final = 400


class FoundError(BaseException):
    """A failure while a driver slept, which no code in between may handle."""

    def __init__(self, found: Exception) -> None:
        super().__init__(str(found))
        self.found = found


class Drivers(Setting):
    """The drivers of a world, one after the other and some at once."""

    def _go_on(self, until: int | None = None) -> None:
        """Let things happen, to the end of the world or up to a moment."""
        raise NotImplementedError

    def _drive(self, life: Life, _: MemberPlace | None) -> None:
        """One round of a driver, which may be its last."""
        doomed = self.doomed if life is self.newest else None
        if doomed is not None:
            self.doomed = None
            self.durability.dies_after, self.durability.dies_late = doomed.after, doomed.is_late
        self._acts_as_driver = life
        try:
            self._round(life)
            if doomed is not None:
                raise DiedError
        except DiedError:
            life.driver_is_alive = False
            self.note(life.generation, Crashed("the driver died"))
            if life is self.newest:
                self.recover_soon()
        except FencedError:
            if life is self.newest and life.turn == self._takeovers:
                raise
            self.note(life.generation, DriverFenced())
            life.die()
            if life is self.newest and self.recover_at is None:
                self.recover_soon()
        except (CrewError, StorageError) as error:
            self._give_up(life, error.__cause__ if isinstance(error, CrewError) else error)
        finally:
            self._acts_as_driver = False
            self.durability.dies_after = None
            self._note_ticks(life.begun.ledger, life.generation)

    def _round(self, life: Life) -> None:
        while life.calls:
            life.calls.popleft()(life.session)
        life.is_idle = not life.session.turn()
        ledger = life.begun.ledger
        if self.choices.happens(self.makeup.summaries_one_in) and life.session.is_ready:
            self._note_ticks(ledger, life.generation)
            gone = ledger.summarize()
            remove_unneeded(self.spec, ledger, life.generation, gone)
        if life.session.coordinator.is_finished and not life.is_finishing:
            life.is_finishing = True
            for place in life.crew.places:
                life.crew.post(place.number, Finish())

    def _give_up(self, life: Life, cause: BaseException | None) -> None:
        """A driver has lost a member or its storage: it starts again, unless it was replaced."""
        if life is not self.newest:
            life.die()
            return
        is_damage = isinstance(cause, DamagedSnapshot) and not life.checks_parts
        self._checks_parts = self._checks_parts or is_damage
        if cause is not None and not isinstance(cause, UnansweredError) and not is_damage:
            raise cause
        life.driver_is_alive = False
        if self.choices.choose(2) == 0:
            life.die()
        self.recover_soon()

    def recover_soon(self) -> None:
        """Let the next driver take over, after a while."""
        self.recover_at = self.clock.ticks + one_of(self.choices, _RECOVERY_TICKS)

    # Generations.

    def _take_over(self) -> None:
        """Begin a generation; all older ones are replaced, whether they know it or not."""
        self.recover_at = None
        self._drivers += 1
        if (doomed := self.doomed) is not None:
            self.durability.dies_after, self.durability.dies_late = doomed.after, doomed.is_late
            self.doomed = None
        self._acts_as_driver = True
        checks_parts = self._checks_parts  # of this driver: it may fall asleep, and another finds the damage
        try:
            begun = begin_generation(
                self.spec,
                "simulated",
                self.clock.now_seconds(),
                writer=f"driver {self._drivers}",
                checks_parts=checks_parts,
            )
        except (DiedError, UnansweredError) as error:
            self.note(-1, Crashed(f"a recovery failed ({type(error).__name__})"))
            self.recover_soon()
            return
        except FencedError:
            self.note(-1, DriverFenced())
            return
        finally:
            self._acts_as_driver = False
            self.durability.dies_after = None
            self._takeovers += 1
        self._has_checked = checks_parts
        self._live(begun)

    def _live(self, begun: Beginning) -> None:
        is_newest = self.newest is None or begun.generation > self.newest.generation
        restored = -1 if begun.chain is None else begun.chain.epoch
        self.note(begun.generation, GenerationBegan(self.spec.workers, restored, is_newest))
        crew = new_crew(
            begun.mission,
            self.result.happened,
            self.clock,
            self.choices,
            paces=self.makeup.paces,
            delays_max=self.makeup.delays_max,
            control_delay_max=self.makeup.control_delay_max,
            silent_activations_max=self.makeup.silent_activations_max,
            make_member=self.make_member,
        )
        watches = {
            name: source.watch(begun.ledger.positions[name]) for name, source in self.feed.sources.items()
        }
        session = Session(
            crew,
            begun.coordinator(self.spec, self.clock.now_seconds()),
            watches,
            self.spec.workers,
            on_commit=lambda commit: self._note_commit(life, commit),
            on_ready=lambda: None,
            now_seconds=self.clock.now_seconds,
        )
        life = Life(begun.generation, begun, crew, session, watches, self._takeovers, self._has_checked)
        self._note_ticks(begun.ledger, begun.generation)
        if is_newest:
            self._replace_all()
            self.carry_over(self.newest, life)
            self.newest = life
        else:
            life.until = self.clock.ticks + one_of(self.choices, _LINGER_TICKS)
        self.lives.append(life)

    def carry_over(self, before: Life | None, after: Life) -> None:
        """Drop messages of older generations, as a mesh does."""

    def _replace_all(self) -> None:
        for life in self.lives:
            if life.until is None:
                life.until = self.clock.ticks + one_of(self.choices, _LINGER_TICKS)

    def _end_the_replaced(self) -> None:
        for life in self.lives:
            if life.until is not None and self.clock.ticks >= life.until and not life.is_asleep:
                life.die()
        self.lives = [life for life in self.lives if life.is_alive or life is self.newest]

    def _before_operation(self, what: str) -> None:
        """A driver may sleep before an operation, while another one takes over."""
        acting = self._acts_as_driver
        if self.sleeps_in is None or acting is False:
            return
        self.sleeps_in -= 1
        if self.sleeps_in >= 0:
            return
        self.sleeps_in = None
        generation = acting.generation if isinstance(acting, Life) else -1
        self.note(generation, Crashed(f"the driver fell asleep before it could {what}"))
        durability = self.durability
        doom, durability.dies_after = durability.dies_after, None
        powers = self.powers
        if isinstance(acting, Life):
            acting.is_asleep = True
        self.recover_at = self.clock.ticks
        try:
            self._go_on(self.clock.ticks + 1 + self.choices.choose(_SLEEP_TICKS_MAX))
        except Exception as error:
            raise FoundError(error) from error
        finally:
            if isinstance(acting, Life):
                acting.is_asleep = False
        self._acts_as_driver, durability.dies_after = acting, doom
        if self.powers > powers:
            raise DiedError
        self.note(generation, Crashed("the driver woke up"))


class CrashWorld(Drivers):
    """One world; ``run`` lets it happen, once."""

    def run(self) -> CrashRun:
        """Let it happen until all is published, something fails, or the limit is reached."""
        result = self.result
        # A capability in a cycle of references would be released whenever the collector comes by.
        collects, was_disabled = gc.isenabled(), _log.disabled
        said: list[warnings.WarningMessage] = []
        gc.disable()
        _log.disabled = True  # what a recovery has to say is in what happened
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", PointstampWarning)
                self._go_on()
        except (Exception, FoundError) as error:
            found = error.found if isinstance(error, FoundError) else error
            result.ended, result.error = Ended.FAILED, found
            result.reason = f"{type(found).__name__}: {found}"
        finally:
            words = dict.fromkeys(str(each.message) for each in said)
            result.undeclared = tuple(each for each in words if "declares no state" in each)
            _log.disabled = was_disabled
            if collects:
                gc.enable()
            for life in self.lives:
                life.die()
        result.choices = [*self.choices.made, *self.further.made]
        through = self.sink.published_through()
        result.published_through = -1 if through is None else through
        if result.ended is Ended.COMPLETE:
            closed = _END_OF_TIME if self.features.closes else 0
            result.complete_to = max([closed, *(tick.complete_to for tick in result.ticks.values())])
        result.events = [each for _, each in result.happened if isinstance(each, Event)]
        result.fed = self.feed.items_of([result.ticks[number] for number in sorted(result.ticks)])
        return result

    # What happens next.

    def _go_on(self, until: int | None = None) -> None:
        """Let things happen, to the end of the world or up to a moment."""
        result = self.result
        while result.steps < self._steps_max:
            now = self.clock.ticks
            if until is not None and now >= until:
                return
            self._end_the_replaced()
            if self._has_ended():
                return
            if self._may_crash() and self.choices.happens(self.makeup.crashes_one_in):
                self.crashes_left -= 1
                result.crashes += 1
                crash(self)
            self._do_something(now)
            self.clock.ticks += 1
        result.reason = f"it had not come to an end after {result.steps} steps"

    def _do_something(self, now: int) -> None:
        self._quiet_ticks += 1
        if self.recover_at is not None and now >= self.recover_at:
            self._take_over()
            self._quiet_ticks = 0
            return
        ready = self._ready(now)
        unfound = self.feed.unfound(is_last_due=self.user.is_answered(), is_quiet=not ready)
        if self.further.happens(self.features.savepoints_one_in):
            self.user.take_savepoint()
        may_say = self.user.unsaid()
        if may_say and ((not ready and not unfound) or self.further.happens(_SAYS_ONE_IN)):
            self.user.say(may_say[self.further.choose(len(may_say))])
        elif unfound and (not ready or self.choices.happens(_FINDS_ONE_IN)):
            unfound[self.choices.choose(len(unfound))].found += 1
            self._quiet_ticks = 0
        elif ready:
            self._turn += 1
            act, life, place = ready[(self._turn + self.choices.choose(len(ready))) % len(ready)]
            self.result.steps += 1
            act(life, place)
            self._quiet_ticks = 0

    def _ready(self, now: int) -> list[tuple[Act, Life, MemberPlace | None]]:
        """The actions that some process could take now."""
        ready: list[tuple[Act, Life, MemberPlace | None]] = []
        for life in self.lives:
            if life.driver_is_alive and not life.is_asleep and self._has_news(life):
                ready.append((self._drive, life, None))
            network = life.crew.network
            for place in life.crew.places:
                if not place.is_alive:
                    continue
                if place.scribe.jobs and now % self.makeup.scribe_pace == 0:
                    ready.append((self._write, life, place))
                has_left = place.member is not None and place.member.has_left
                has_news = (
                    not place.is_idle
                    or place.orders.has_arrived
                    or bool(place.scribe.results)
                    or network.has_arrived(WorkerIndex(place.number))
                )
                if has_news and not has_left and now % place.pace == 0:
                    ready.append((self._step, life, place))
        return ready

    def _has_news(self, life: Life) -> bool:
        if not life.is_idle or life.calls or any(place.reports.has_arrived for place in life.crew.places):
            return True
        if any(watch.has_news for watch in life.watches.values()):
            return True
        return life.session.coordinator.seconds_until_due(self.clock.now_seconds()) == 0

    def _may_crash(self) -> bool:
        return self.crashes_left > 0 and (self.newest is None or not self.newest.is_finished)

    def _has_ended(self) -> bool:
        newest = self.newest
        if newest is not None and newest.is_finished and self.recover_at is None:
            if any(life is not newest and life.is_alive for life in self.lives):
                return False
            self.result.ended = Ended.COMPLETE
            return True
        if self._quiet_ticks > _QUIET_TICKS_MAX:
            self.result.ended = Ended.STUCK
            self.result.reason = "nothing is left to do, and not everything is published"
            return True
        return False

    # Acting.

    def _step(self, life: Life, place: MemberPlace | None) -> None:
        assert place is not None
        life.crew.step(place)

    def _write(self, life: Life, place: MemberPlace | None) -> None:
        assert place is not None
        place.scribe.work()


# The failures of a simulated world, one function each.
#
# All of it is what processes, machines and storages do: members are lost, a driver is lost between two
# operations, a driver is replaced though it lives, or sleeps and is replaced, a storage fails or does not
# answer, a driver dies during a recovery, a disk spoils a part of the newest snapshot. Beside any of these
# the power may fail: then everything that runs is gone, and with it what was written and not on the disk yet.

_OPERATIONS_MAX: Final = 8
_RECOVERY_OPERATIONS_MAX: Final = 20


def crash(world: Drivers) -> None:
    """Let one thing go wrong; where there is no generation yet, the next recovery is lost."""
    kind = KINDS[world.choices.choose(len(KINDS))]
    life = world.newest
    if life is None or not life.driver_is_alive or world.recover_at is not None:
        _doom(world, _RECOVERY_OPERATIONS_MAX)
    else:
        kind(world, life)
    if world.further.happens(world.features.power_one_in):
        power_fails(world)


def power_fails(world: Drivers) -> None:
    """The machine stops: all processes are gone, and the disk has what is on it."""
    world.powers += 1
    for life in world.lives:
        for place in life.crew.places:
            if place.is_alive:
                _lose(world, life, place)
        life.driver_is_alive = False
    changed = world.storage.lose_power() + world.sink.lose_power()
    generation = -1 if world.newest is None else world.newest.generation
    world.note(generation, Crashed(f"the power failed, and {changed} things are as they were before"))
    world.recover_soon()


def members_die(world: Drivers, life: Life) -> None:
    """Some members are lost, at least one."""
    alive = [place for place in life.crew.places if place.is_alive]
    if not alive:
        return
    chosen = 1 + world.choices.choose(2 ** len(alive) - 1)
    lost = [place for number, place in enumerate(alive) if chosen >> number & 1]
    world.note(life.generation, Crashed(f"workers {', '.join(str(p.number) for p in lost)} died"))
    for place in lost:
        _lose(world, life, place)


def driver_dies(world: Drivers, life: Life) -> None:
    """The driver is lost during its next round, between any two operations."""
    _doom(world, _OPERATIONS_MAX)


def everybody_dies(world: Drivers, life: Life) -> None:
    """All members and the driver are lost at once."""
    world.note(life.generation, Crashed("all processes died"))
    for place in life.crew.places:
        if place.is_alive:
            _lose(world, life, place)
    life.driver_is_alive = False
    world.recover_soon()


def driver_is_replaced(world: Drivers, life: Life) -> None:
    """Another driver takes over while all processes live and do not know of it."""
    world.note(life.generation, Crashed("the driver is replaced and does not know it"))
    world.recover_at = world.clock.ticks


def driver_sleeps(world: Drivers, life: Life) -> None:
    """The driver falls asleep between two operations; another takes over, and then it wakes up."""
    world.sleeps_in = world.choices.choose(_OPERATIONS_MAX)


def recovery_sleeps(world: Drivers, life: Life) -> None:
    """A driver that takes over falls asleep between two operations, and is replaced meanwhile."""
    everybody_dies(world, life)
    world.sleeps_in = world.choices.choose(_RECOVERY_OPERATIONS_MAX)


def recovery_dies(world: Drivers, life: Life) -> None:
    """All are lost, and then the driver that recovers is lost, too."""
    everybody_dies(world, life)
    _doom(world, _RECOVERY_OPERATIONS_MAX)


def storage_fails(world: Drivers, life: Life) -> None:
    """An operation on the storage or the sink fails, or is done and not answered; perhaps in a recovery."""
    fails = ("fail", "no answer")[world.choices.choose(2)]
    after = world.choices.choose(_RECOVERY_OPERATIONS_MAX)
    world.note(life.generation, Crashed(f"after {after} operations the storage: {fails}"))
    world.durability.fails, world.durability.fails_after = fails, after
    if world.choices.choose(2):
        everybody_dies(world, life)


def snapshot_is_damaged(world: Drivers, life: Life) -> None:
    """All are lost, and a part of the newest snapshot is spoiled; there is an older one to go back to."""
    commits = life.begun.ledger.commits
    if len(commits) > 1 and world.damaged is None:
        parts = commits[-1].parts
        name = parts[world.choices.choose(len(parts))].name
        world.note(life.generation, Crashed(f"'{name}' is damaged"))
        world.damaged = name
        world.user.savepoints.clear()  # one of them may hold that part, and nobody can help it
        world.storage.damage(name)
    everybody_dies(world, life)


KINDS: Final[tuple[Callable[[Drivers, Life], None], ...]] = (
    members_die,
    everybody_dies,
    driver_dies,
    driver_is_replaced,
    driver_sleeps,
    recovery_sleeps,
    recovery_dies,
    storage_fails,
    snapshot_is_damaged,
)


def _doom(world: Drivers, operations_max: int) -> None:
    world.doomed = Doom(world.choices.choose(operations_max), bool(world.choices.choose(2)))


def _lose(world: Drivers, life: Life, place: MemberPlace) -> None:
    """A member dies; what it was writing is done, cut off between two operations, or not done."""
    jobs, durability = place.scribe.jobs, world.durability
    life.crew.lose(place)
    durability.dies_after, durability.dies_late = world.choices.choose(4), bool(world.choices.choose(2))
    try:
        for job in list(jobs):
            job()
    except DiedError:
        pass
    finally:
        durability.dies_after = None
        jobs.clear()
