"""The setting of a simulated query: the query, its surroundings, and a log.

Everything is decided by one seed: the choices, what the world is like
(``pointstamp.simulate.crash.makeup``) and what it has (``features``), its input, storage and sink. A world
that begins with a savepoint of another takes over the other's input, and continues with its choices, so that
both are one case. Nothing happens here: drivers are ``drivers``, and what goes wrong is ``crashes``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pointstamp.errors import InternalError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.journal.history import Committed, Ticked
from pointstamp.journal.ledger import TICKS_GATHERED_MAX, Ledger
from pointstamp.journal.parts import INLINE_BYTES_MAX
from pointstamp.query.member import Member
from pointstamp.query.queryspec import QuerySpec, SavepointPlace
from pointstamp.simulate.choices import Choices
from pointstamp.simulate.crash.crew import Life, MakeMember
from pointstamp.simulate.crash.durability import Durability, SimulatedSink
from pointstamp.simulate.crash.events import EpochCommitted, Happened, TickTaken, WorldEvent
from pointstamp.simulate.crash.features import NOTHING_FURTHER, Features, further_choices
from pointstamp.simulate.crash.feed import Feed
from pointstamp.simulate.crash.makeup import Makeup
from pointstamp.simulate.crash.storage import SimulatedStorage
from pointstamp.simulate.crash.user import User
from pointstamp.simulate.feed import Items
from pointstamp.simulate.network import SimulatedClock
from pointstamp.simulate.world import STEPS_MAX, WorldRun

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
    """The warnings about operators that keep something between epochs and declare no state."""


class KeptChoices(NamedTuple):
    """A savepoint, and the world that has it."""

    of: "Setting"
    name: str

    @property
    def place(self) -> SavepointPlace:
        """The address of the storage."""
        return SavepointPlace(self.of.storage, self.name, self.of.spec.query_id)


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
        """When the next driver takes over, if one is to."""
        self.doomed: Doom | None = None
        """How the driver, or the next recovery, dies."""
        self.sleeps_in: int | None = None
        """After so many operations of its own a driver sleeps, while another takes over."""
        self.damaged: str | None = None
        """The part that a disk has spoiled; it does so once."""
        self._checks_parts = False
        """Whether the driver reads all parts itself, because a member has found one damaged."""
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
