"""The drivers of a simulated world: they take over, drive a generation, die, sleep, and are fenced.

A recovery is ``begin_generation`` and a round of a driver is ``Session.turn``, the same that a supervisor
calls. Each durable operation in them is a moment at which the driver may die, or fall asleep while another
takes over. Of all generations one is the newest; what is left of the others goes on for a while, and whatever
it does, nothing of it may be published: that is for the judges to see, and nothing here prevents it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pointstamp.check.choices import Choices
from pointstamp.check.crash_choices import FurtherChoices
from pointstamp.check.crash_crew import Life, MakeMember, Place, new_crew
from pointstamp.check.crash_events import (
    Crashed,
    DriverFenced,
    EpochCommitted,
    GenerationBegan,
    Happened,
    TickTaken,
    WorldEvent,
)
from pointstamp.check.crash_features import NOTHING_FURTHER, Features
from pointstamp.check.crash_feed import Feed
from pointstamp.check.crash_makeup import Makeup
from pointstamp.check.crash_storage import SimulatedStorage
from pointstamp.check.crash_user import User
from pointstamp.check.durability import DiedError, Durability, SimulatedSink, UnansweredError
from pointstamp.check.feed import Items
from pointstamp.check.network import SimulatedClock
from pointstamp.check.world import STEPS_MAX, Run, one_of
from pointstamp.dataflow.plan import Plan
from pointstamp.errors import FencedError, InternalError, StorageError
from pointstamp.recovery.beginning import Beginning, begin_generation, remove_unneeded
from pointstamp.recovery.crew import CrewError
from pointstamp.recovery.ledger import Committed, Ledger, Ticked
from pointstamp.recovery.member import Member
from pointstamp.recovery.orders import Finish
from pointstamp.recovery.queryspec import QuerySpec, SavepointPlace
from pointstamp.recovery.session import Session

# How long something takes; the first of each is the plain one.
_LINGER_TICKS: Final = (0, 30, 200, 600)
_RECOVERY_TICKS: Final = (0, 3, 40)
_SLEEP_TICKS_MAX: Final = 400


class FoundError(BaseException):
    """What went wrong while a driver slept; nobody in between may handle it."""

    def __init__(self, found: Exception) -> None:
        super().__init__(str(found))
        self.found = found


class Doom(NamedTuple):
    """After how many operations somebody dies, and whether the last is done."""

    after: int
    is_late: bool


@dataclass(slots=True)
class CrashRun(Run):
    """What happened in a world with crashes; ``outputs`` is what was published."""

    since: int = -1
    """The epoch of the savepoint that the query began with."""
    successor: "CrashRun | None" = None
    """What happened to a query that began with a savepoint of this one."""

    happened: list[Happened] = field(default_factory=list)
    ticks: dict[int, Ticked] = field(default_factory=dict)
    fed: dict[str, Items] = field(default_factory=dict)
    """What each tick took, as items."""
    workers: int = 0
    published_through: int = -1
    complete_to: int = 0
    """Up to where everything must be published, once the run has come to its end."""
    undeclared: tuple[str, ...] = ()
    """What was said of operators that keep something between epochs and declare no state."""


class Kept(NamedTuple):
    """A savepoint, and the world that has it."""

    of: "Drivers"
    name: str

    @property
    def place(self) -> SavepointPlace:
        """Where it is, for a query."""
        return SavepointPlace(self.of.storage, self.name)


class Drivers:
    """What a world is made of, and its drivers; changed by the world alone."""

    make_member: MakeMember = Member
    has_features: bool = True
    """Whether it may have what is drawn from the further choices; a world of before has nothing of it."""

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Items],
        *,
        workers: int,
        crashes: int,
        seed: int,
        kept: frozenset[int] | None = None,
        steps_max: int = STEPS_MAX,
        begins_with: Kept | None = None,
    ) -> None:
        self.choices, self.further, self.features = self._chosen(seed, kept, begins_with)
        choices = self.choices
        self.clock = SimulatedClock()
        self.durability = Durability()
        if self.has_features:
            self.durability.draw = self.further.choose
        self.storage = SimulatedStorage(self.durability)
        self.sink = SimulatedSink(self.durability)
        self.feed: Feed = (
            Feed.of(inputs, choices, self.further if self.features.has_columns else None)
            if begins_with is None
            else begins_with.of.feed
        )
        self.user = User()
        self.crashes_left = crashes
        self.lives: list[Life] = []
        self.result = CrashRun([], self.sink.visible, workers=workers)
        self._steps_max = steps_max
        self.makeup = Makeup.of(choices, workers)
        self.spec = QuerySpec(
            plan,
            self.feed.sources,
            self.sink,
            self.storage,
            workers,
            "simulated",
            replace(self.makeup.snapshots, keep=self.features.chains_kept),
            epochs_max=self.makeup.epochs_max,
            closes=self.features.closes,
            epoch_columns=self.feed.columns,
            savepoint=None if begins_with is None else begins_with.place,
        )
        self.recover_at: int | None = 0
        """When the next driver takes over, if one is to."""
        self.doomed: Doom | None = None
        """How the driver, or the next recovery, dies."""
        self.sleeps_in: int | None = None
        """After so many operations of its own a driver sleeps, while another takes over."""
        self.damaged: str | None = None
        """The part that a disk has spoiled; it does so once."""
        self.powers = 0
        """How often the power has failed."""
        self.newest: Life | None = None
        self._drivers = 0
        self._takeovers = 0
        self._turn = 0
        self._quiet_ticks = 0
        self._acts_as_driver: Life | bool = False
        self.durability.before = self._before_operation

    def _chosen(
        self, seed: int, kept: frozenset[int] | None, begins_with: Kept | None
    ) -> tuple[Choices, FurtherChoices, Features]:
        """The choices of a new world, or those of the one that it follows, which are not used up."""
        if begins_with is not None:
            before = begins_with.of
            return before.choices, before.further, replace(before.features, savepoints_one_in=0)
        further = FurtherChoices(seed, kept)
        return (
            Choices(seed, kept),
            further,
            Features.of(further) if self.has_features else NOTHING_FURTHER,
        )

    def _go_on(self, until: int | None = None) -> None:
        """Let things happen, to the end of the world or up to a moment."""
        raise NotImplementedError

    def _drive(self, life: Life, _: Place | None) -> None:
        """One round of a driver, which may be its last."""
        doomed = self.doomed if life is self.newest else None
        if doomed is not None:
            self.doomed = None
            self.durability.dies_after, self.durability.dies_late = doomed
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
        if self.choices.happens(self.makeup.summaries_one_in):
            self._note_ticks(ledger, life.generation)
            gone = ledger.summarize()
            remove_unneeded(self.spec, ledger, life.generation, gone)
        if life.session.coordinator.is_finished and not life.is_finishing:
            life.is_finishing = True
            for place in life.crew.places:
                life.crew.post(place.number, Finish())

    def _give_up(self, life: Life, cause: BaseException | None) -> None:
        """A driver has lost a member or its storage: it starts anew, unless it was replaced."""
        if life is not self.newest:
            life.die()
            return
        if cause is not None and not isinstance(cause, UnansweredError):
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
        if self.doomed is not None:
            self.durability.dies_after, self.durability.dies_late = self.doomed
            self.doomed = None
        self._acts_as_driver = True
        try:
            begun = begin_generation(
                self.spec, "simulated", self.clock.now_seconds(), writer=f"driver {self._drivers}"
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
        """What of an older generation's messages reaches a new one: nothing, as a mesh sees to."""

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

    # Taking down.

    def note(self, generation: int, event: WorldEvent) -> None:
        """Take down what has happened."""
        self.result.happened.append(Happened(generation, event))

    def _note_commit(self, life: Life, commit: Committed) -> None:
        self.note(life.generation, EpochCommitted(commit.number, commit.epoch))

    def _note_ticks(self, ledger: Ledger, generation: int) -> None:
        for tick in ledger.ticks:
            known = self.result.ticks.get(tick.number)
            if known is None:
                self.result.ticks[tick.number] = tick
                self.note(generation, TickTaken(tick.number, {n: len(u) for n, u in tick.units.items()}))
            elif known != tick:
                raise InternalError(f"tick {tick.number} was {known} and is {tick}.")
