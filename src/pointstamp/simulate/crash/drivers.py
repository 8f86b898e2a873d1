"""The simulated drivers: take over, drive, die, sleep and be fenced.

A recovery is ``begin_generation`` and a round of a driver is ``Session.turn``, the same that a supervisor
calls. Each durable operation in them is a moment at which the driver may die, or fall asleep while another
takes over. Of all generations one is the newest; what is left of the others continues for a while, and
nothing that it does may be published: the judges check that, and nothing here prevents it.
"""

from typing import Final

from pointstamp.errors import DamagedSnapshot, FencedError, StorageError
from pointstamp.query.beginning import Beginning, begin_generation
from pointstamp.query.crew import CrewError
from pointstamp.query.session import Session
from pointstamp.query.unneeded import remove_unneeded
from pointstamp.running.messages import Finish
from pointstamp.simulate.crash.crew import Life, MemberPlace, new_crew
from pointstamp.simulate.crash.durability import DiedError, UnansweredError
from pointstamp.simulate.crash.events import (
    Crashed,
    DriverFenced,
    GenerationBegan,
)
from pointstamp.simulate.crash.setting import Setting
from pointstamp.simulate.world import one_of

# How long something takes; the first of each is the plain one.
_LINGER_TICKS: Final = (0, 30, 200, 600)
_RECOVERY_TICKS: Final = (0, 3, 40)
_SLEEP_TICKS_MAX: Final = 400


class FoundError(BaseException):
    """What failed while a driver slept; no code in between may handle it."""

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
        is_damage = isinstance(cause, DamagedSnapshot) and not self._checks_parts
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
        try:
            begun = begin_generation(
                self.spec,
                "simulated",
                self.clock.now_seconds(),
                writer=f"driver {self._drivers}",
                checks_parts=self._checks_parts,
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
        life = Life(begun.generation, begun, crew, session, watches, self._takeovers)
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
