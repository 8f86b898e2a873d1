"""The setting of a simulated query: the query, its surroundings, and a log.

Everything is decided by one seed: the choices, what the world is like
(``pointstamp.simulate.crash.setting``) and what it has (``features``), its input, storage and sink. A world
that begins with a savepoint of another takes over the other's input, and continues with its choices, so that
both are one case. Nothing happens here: drivers are ``world``, and what goes wrong is ``crashes``.

Optional features of simulated worlds, each present in some of them.

Rows may carry their epochs in a column; savepoints may be taken, and another query begin with one of them;
the end of all inputs may be the end of time; the power may fail; fewer snapshots may be kept. All of it is
drawn from further choices of the same seed, which are independent of the first ones, so that a world that has
none of it is what it was before there was any. Their numbers begin where those of the first never come, so
that both are shrunk alike and fit on the same command line.

    >>> plain = further_choices(seed=7, kept=frozenset())
    >>> [plain.choose(10) for _ in range(3)]
    [0, 0, 0]
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from pointstamp.errors import InternalError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.journal.history import Committed, Ticked
from pointstamp.journal.ledger import TICKS_GATHERED_MAX, Ledger
from pointstamp.journal.snapshot_parts import INLINE_BYTES_MAX
from pointstamp.query.member import Member
from pointstamp.query.mission import QuerySpec, SavepointPlace
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.session import Session
from pointstamp.simulate.crash.crew import Life, MakeMember
from pointstamp.simulate.crash.durability import Durability, SimulatedSink, SimulatedStorage
from pointstamp.simulate.crash.events import (
    EpochCommitted,
    Happened,
    SavepointTaken,
    TickTaken,
    UserSaid,
    WorldEvent,
)
from pointstamp.simulate.crash.feed import Feed, SimulatedSource
from pointstamp.simulate.feed import Items
from pointstamp.simulate.network import Choices, SimulatedClock
from pointstamp.simulate.world import DELAYS_MAX, PACES, SILENT_ACTIVATIONS, STEPS_MAX, WorldRun, one_of

_LANES_MAX: Final = 3


class Doom(NamedTuple):
    """After how many operations a process dies, and whether the last is done."""

    after: int
    is_late: bool


@dataclass(slots=True)
class CrashRun(WorldRun):
    """The record of a world with crashes; ``outputs`` is the published output."""

    since: int = -1
    """The epoch of the savepoint that the query began with."""
    successor: "CrashRun | None" = None
    """The course of a query that started from a savepoint of this one."""

    happened: list[Happened] = field(default_factory=list)
    ticks: dict[int, Ticked] = field(default_factory=dict)
    fed: dict[str, Items] = field(default_factory=dict)
    """The items of each tick."""
    workers: int = 0
    published_through: int = -1
    complete_to: int = 0
    """Up to where everything must be published, once the run has come to its end."""
    undeclared: tuple[str, ...] = ()
    """The warnings about operators that keep something between epochs and declare no state."""


class KeptChoices(NamedTuple):
    """A savepoint, and the world that has it."""

    of: "Setting"
    name: str

    @property
    def place(self) -> SavepointPlace:
        """The address of the storage."""
        return SavepointPlace(self.of.storage, self.name, self.of.spec.query_id)


FIRST_NUMBER: Final = 10_000_000
_OTHER_SEEDS: Final = 2**40
_POWER_ONE_IN: Final = (0, 2, 6)
_CHAINS_KEPT: Final = (2, 1)
_SAVEPOINTS_ONE_IN: Final = (0, 0, 20, 100)


@dataclass(frozen=True, slots=True)
class Features:
    """The enabled features; ``*_one_in`` is their frequency, 0 for never."""

    has_columns: bool = False
    savepoints_one_in: int = 0
    closes: bool = False
    power_one_in: int = 0
    chains_kept: int = 2

    @classmethod
    def of(cls, further: Choices) -> "Features":
        """Draw the features from choices."""
        choose = further.choose
        return cls(
            has_columns=choose(3) == 2,
            savepoints_one_in=_SAVEPOINTS_ONE_IN[choose(len(_SAVEPOINTS_ONE_IN))],
            closes=choose(3) == 2,
            power_one_in=_POWER_ONE_IN[choose(len(_POWER_ONE_IN))],
            chains_kept=_CHAINS_KEPT[choose(len(_CHAINS_KEPT))],
        )


NOTHING_FURTHER: Final = Features()


def further_choices(seed: int, kept: frozenset[int] | None = None) -> Choices:
    """The further choices of the world of a seed."""
    return Choices(seed + _OTHER_SEEDS, kept, first=FIRST_NUMBER)


class Setting:
    """The parts of a world, and its log; changed by the world only."""

    make_member: MakeMember = Member
    has_features: bool = True
    """Whether the world may have what the further choices decide; older worlds have nothing of it."""

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
        begins_with: KeptChoices | None = None,
    ) -> None:
        self.choices, self.further, self.features = self._chosen(seed, kept, begins_with)
        choices = self.choices
        self.clock = SimulatedClock()
        self.durability = Durability()
        if self.has_features:
            self.durability.draw = self.further.choose
        self.storage = SimulatedStorage(self.durability)
        self.sink = SimulatedSink(self.durability)
        self.feed: Feed = self._fed(plan, inputs, seed) if begins_with is None else begins_with.of.feed
        self.user = User(self.feed, self.sink, self.further, self.note, lambda: self.newest)
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
            replace(
                self.makeup.snapshots,
                keep=self.features.chains_kept,
                # By the seed, and not by a choice: in some worlds every write is one of its own.
                inline_bytes_max=0 if seed % 3 == 0 else INLINE_BYTES_MAX,
            ),
            epochs_max=self.makeup.epochs_max,
            closes=self.features.closes,
            epoch_columns=self.feed.columns,
            waits_for_silent=True,
            savepoint=None if begins_with is None else begins_with.place,
            ticks_gathered_max=1 if seed % 2 == 0 else TICKS_GATHERED_MAX,
        )
        self.recover_at: int | None = 0
        """The step at which the next driver takes over, if any."""
        self.doomed: Doom | None = None
        """The death of the driver, or of the next recovery."""
        self.sleeps_in: int | None = None
        """After so many operations of its own a driver sleeps, while another takes over."""
        self.damaged: str | None = None
        """The part that a disk has spoiled; it does so once."""
        self._checks_parts = False
        """Whether the driver reads all parts itself, because a member has found one damaged."""
        self._has_checked = False
        """Whether the driver that has just begun a generation did so."""
        self.powers = 0
        """The number of power failures."""
        self.newest: Life | None = None
        self._drivers = 0
        self._takeovers = 0
        self._turn = 0
        self._quiet_ticks = 0
        self._acts_as_driver: Life | bool = False
        self.durability.before = self._before_operation

    def _chosen(
        self, seed: int, kept: frozenset[int] | None, begins_with: KeptChoices | None
    ) -> tuple[Choices, Choices, Features]:
        """The choices of a new world, or those of the one that it follows, which are not used up."""
        if begins_with is not None:
            before = begins_with.of
            return before.choices, before.further, replace(before.features, savepoints_one_in=0)
        further = further_choices(seed, kept)
        return (
            Choices(seed, kept),
            further,
            Features.of(further) if self.has_features else NOTHING_FURTHER,
        )

    def _fed(self, plan: Plan, inputs: Mapping[str, Items], seed: int) -> Feed:
        """The input of a new world; the seed itself says how many lanes it has."""
        declared = plan.named(NodeKind.INPUT)
        return Feed.of(
            inputs,
            self.choices,
            self.further if self.features.has_columns else None,
            {name: each.event_epochs for name, each in declared.items() if each.event_epochs is not None},
            1 + seed // 3 % _LANES_MAX,
        )

    def _before_operation(self, what: str) -> None:
        """Is called before each durable operation."""

    # Taking down.

    def note(self, generation: int, event: WorldEvent) -> None:
        """Take down what has happened."""
        self.result.happened.append(Happened(generation, event))

    def _note_commit(self, life: Life, commit: Committed) -> None:
        self.note(life.generation, EpochCommitted(commit.number, commit.epoch))

    def _note_ticks(self, ledger: Ledger, generation: int) -> None:
        for tick in ledger.ticks_stored():
            known = self.result.ticks.get(tick.number)
            if known is None:
                self.result.ticks[tick.number] = tick
                self.note(generation, TickTaken(tick.number, {n: len(u) for n, u in tick.units.items()}))
            elif known != tick:
                raise InternalError(f"tick {tick.number} was {known} and is {tick}.")


# The constant properties of a simulated world: speeds, rates, snapshot intervals.
#
# The first of the options of each choice is the plain one. The order of the choices is part of what a seed
# means: changing it changes every world.

_SNAPSHOT_EPOCHS: Final = (1, 1, 2, 3)
_CHAINS_MAX: Final = (256, 1, 2, 4)
_CRASHES_ONE_IN: Final = (40, 10, 25, 120, 400)
_SUMMARIES_ONE_IN: Final = (0, 4, 15)
_SCRIBE_PACES: Final = (1, 3, 12)
_EPOCHS_IN_FLIGHT: Final = (64, 2, 4)


@dataclass(frozen=True, slots=True)
class Makeup:
    """Paces are in ticks of the world's clock; ``*_one_in`` is how often something happens, 0 for never."""

    paces: list[int]
    delays_max: list[list[int]]
    control_delay_max: int
    silent_activations_max: int
    crashes_one_in: int
    summaries_one_in: int
    scribe_pace: int
    snapshots: SnapshotPolicy
    epochs_max: int

    @classmethod
    def of(cls, choices: Choices, workers: int) -> "Makeup":
        """Draw the makeup from choices, in this order."""
        return cls(
            paces=[one_of(choices, PACES) for _ in range(workers)],
            delays_max=[[one_of(choices, DELAYS_MAX) for _ in range(workers)] for _ in range(workers)],
            control_delay_max=one_of(choices, DELAYS_MAX),
            silent_activations_max=one_of(choices, SILENT_ACTIVATIONS),
            crashes_one_in=one_of(choices, _CRASHES_ONE_IN),
            summaries_one_in=one_of(choices, _SUMMARIES_ONE_IN),
            scribe_pace=one_of(choices, _SCRIBE_PACES),
            snapshots=SnapshotPolicy(
                one_of(choices, _SNAPSHOT_EPOCHS), chain_max=one_of(choices, _CHAINS_MAX)
            ),
            epochs_max=one_of(choices, _EPOCHS_IN_FLIGHT),
        )


# The simulated user: promises about inputs, and savepoints.
#
# A user calls a query, which listens between two rounds of its driver, and is answered or not. A user knows
# of an input what was put there, not what the driver has found of it. What was answered holds, whatever
# crashes afterwards; what was not may be done or not, and is asked for again. Of the world a user knows the
# inputs, what is published, and the generation that listens, if one does; nothing of drivers and how they
# die.

Note: TypeAlias = Callable[[int, WorldEvent], None]
"""Takes down what has happened, in which generation."""

_NAMES: Final = ("monday", "tuesday")
_SAVEPOINTS_MAX: Final = 6


class User:
    """The requests of the user and their answers."""

    def __init__(
        self,
        feed: Feed,
        sink: SimulatedSink,
        choices: Choices,
        note: Note,
        newest: Callable[[], Life | None],
    ) -> None:
        self.asked: dict[str, int] = {}
        """Before which epoch each input with a column was said to be complete, heard or not."""
        self.said: dict[str, int] = {}
        """The same, as far as it was answered."""
        self.savepoints: dict[str, int] = {}
        """The epochs of the savepoints that were answered."""
        self._savepoints_asked = 0
        self._feed = feed
        self._sink = sink
        self._choices = choices
        self._note = note
        self._newest = newest

    def unsaid(self) -> list[SimulatedSource]:
        """Return the inputs with promises left to make."""
        return [
            source
            for name, source in self._feed.sources.items()
            if source.complete_after is not None
            and self.said.get(name, 0) < source.complete_after[source.found]
        ]

    def say(self, source: SimulatedSource) -> None:
        """Say how far an input is complete by now, or a little less; nothing where no driver listens."""
        life = self._listening()
        if life is None or source.complete_after is None:
            return
        before, most = self.asked.get(source.name, 0), source.complete_after[source.found]
        epoch = most - self._choices.choose(most - before + 1)
        self.asked[source.name] = epoch

        def call(session: Session) -> None:
            # At the end of all inputs everything is complete, and less is not believed.
            if epoch >= session.coordinator.ledger.open_from:
                session.advance(source.name, epoch)
            self.said[source.name] = epoch
            self._note(life.generation, UserSaid(source.name, epoch))

        life.calls.append(call)

    def is_answered(self) -> bool:
        """Return whether all promises are made, and all complete epochs are published.

        An input that has come to its end holds nothing back.
        """
        if self.unsaid():
            return False
        unfinished = [each for each in self._feed.sources.values() if each.found < len(each.units)]
        complete = [self.said.get(each.name, 0) for each in unfinished if each.complete_after is not None]
        complete += [each.passed_after[each.found] for each in unfinished if each.passed_after is not None]
        through = self._sink.published_through()
        return min(complete, default=0) <= (-1 if through is None else through) + 1

    def take_savepoint(self) -> None:
        """Ask for a savepoint under one of a few names; nothing where no driver listens."""
        life = self._listening()
        if life is None or self._savepoints_asked >= _SAVEPOINTS_MAX:
            return
        self._savepoints_asked += 1
        name = _NAMES[self._choices.choose(len(_NAMES))]
        answer: Future[int] = Future()
        answer.add_done_callback(partial(self._saved, life, name))
        life.calls.append(lambda session: session.save_soon(name, answer))

    def _saved(self, life: Life, name: str, answer: "Future[int]") -> None:
        if answer.exception() is None:
            self.savepoints[name] = answer.result()
            self._note(life.generation, SavepointTaken(name, answer.result()))

    def _listening(self) -> Life | None:
        life = self._newest()
        return None if life is None or not life.driver_is_alive or life.is_asleep else life
