"""Verify that a run with crashes equals a failure-free run for an observer.

The recipe is that of Veresov et al. 2024 (theorem 6.9), as ``pointstamp_models.exploring.transparency``
follows it for models, here for the recorded events of real workers: split at the recoveries into
generations; in each, keep the moves of epochs up to e*, the epoch after which the next ones continued, and
drop the rest; concatenate. The result is judged, not trusted:

- every move is taken again on the abstract state of the exchange protocol (Brun et al. 2021, section 4):
  what it pulls was sent and not pulled before, and it sends and keeps only what it has the right to;
- progress is made up: all of it is known at once, so a time that was told complete must be complete by what
  truly exists (the clock of Abadi & Isard 2015);
- each stripped generation ends where the next was restored: the same capabilities on the same workers, and
  the same messages in flight (lemmas B.10-11);
- moves are only moved past later epochs' moves of other operators: one that had handled a later epoch
  before it had finished the earlier ones did not hold back;
- where the run is complete, nothing is left in the end.

This sees pointstamps, not rows: a state that was not saved, or a row that changed, is found by comparing what
was published. What is found here is what such a comparison may miss by luck: a capability or a message that
was lost or is there twice, something told too early, a snapshot that has seen a later epoch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pointstamp.simulate.crash.events import GenerationBegan, Happened
from pointstamp.verify.abstract_state import AbstractState, BrokenError, Counts, broken, times_text
from pointstamp.verify.exchange_rules import ExchangeRules
from pointstamp.verify.shape import Shape, Stamp, Walker
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    Notified,
    SnapshotTaken,
)

EVERYTHING = 2**62
"""The epoch up to which all is kept in a run that came to its end."""


# Moves: events grouped by operator activation, with their epoch.
#
# A move is one perf_op of the models: what an operator pulled, was told, sent and kept, up to the end of its
# activation. Its epoch is that of what it was about: the messages that it pulled and the times of which it
# was told; where there are none, the earliest time for which it gave a capability up or sent something. What
# a move leaves for later epochs does not count. Progress is not a move: it is generated where it is needed.
#
# The first moves of a worker are its start; those of a restored one say what it was restored to.

Act: TypeAlias = MessagePulled | MessageSent | CapabilityChanged | Notified | FrontiersShown | ActivationEnded


@dataclass(frozen=True, slots=True)
class Move:
    """One activation of an operator; ``position`` is its end in the run's events."""

    position: int
    worker: int
    operator: int
    acts: tuple[Act, ...]
    first: int
    last: int
    """The epochs that it was about."""


@dataclass(slots=True)
class GenerationMoves:
    """The moves of one generation: the starts of its workers, and everything after."""

    generation: int
    restored: int
    workers: int
    starts: list[Move] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    started: dict[int, int] = field(default_factory=dict)
    """The number of start moves of each worker."""

    def is_started(self, starts: int) -> bool:
        """Return whether all workers have started."""
        return len(self.started) == self.workers and min(self.started.values()) >= starts


def starts_of(shape: Shape) -> int:
    """Return the number of moves at a worker's start: one per operator with outputs."""
    return len({port.operator for port in shape.ports if port.is_output})


def moves_of(shape: Shape, happened: Sequence[Happened]) -> list[GenerationMoves]:
    """The moves of each generation, in the order of generations."""
    starts = starts_of(shape)
    generations: dict[int, GenerationMoves] = {}
    open_acts: dict[tuple[int, int], list[Act]] = {}
    for position, (generation, event) in enumerate(happened):
        if isinstance(event, GenerationBegan):
            generations[generation] = GenerationMoves(generation, event.restored, event.workers)
        if not isinstance(event, Act | SnapshotTaken):
            continue
        into, acts = generations[generation], open_acts.setdefault((generation, event.worker), [])
        # An operator that was only told or shown something, and changed nothing, reports no end.
        is_next = isinstance(event, SnapshotTaken) or (
            acts and _operator(shape, acts[0]) != _operator(shape, event)
        )
        if acts and is_next:
            _add(into, _move(shape, position - 1, acts), starts)
            acts.clear()
        if isinstance(event, SnapshotTaken):
            continue
        acts.append(event)
        if isinstance(event, ActivationEnded):
            _add(into, _move(shape, position, acts), starts)
            acts.clear()
    return [generations[number] for number in sorted(generations)]


def _add(into: GenerationMoves, move: Move, starts: int) -> None:
    if all(isinstance(act, FrontiersShown) for act in move.acts):
        return  # it looked at frontiers, and did nothing about them
    done = into.started.get(move.worker, 0)
    if done < starts:
        into.started[move.worker] = done + 1
        into.starts.append(move)
    else:
        into.moves.append(move)


def _move(shape: Shape, position: int, acts: Sequence[Act]) -> Move:
    about = [act.time[0] for act in acts if isinstance(act, MessagePulled | Notified)]
    if not about:
        used = [time[0] for time in _used(acts)]
        about = [min(used)] if used else [-1]
    operator = _operator(shape, acts[0])
    return Move(position, acts[0].worker, operator, tuple(acts), min(about), max(about))


def _used(acts: Iterable[Act]) -> Iterable[Stamp]:
    for act in acts:
        if isinstance(act, MessageSent):
            yield act.source_time
        elif isinstance(act, CapabilityChanged) and act.diff < 0:
            yield act.time


def _operator(shape: Shape, act: Act) -> int:
    match act:
        case MessagePulled() | CapabilityChanged():
            return shape.ports[act.location].operator
        case MessageSent():
            return shape.ports[act.source].operator
        case Notified() | FrontiersShown() | ActivationEnded():
            return act.operator


@dataclass(frozen=True, slots=True)
class Judged:
    """A move of the run with crashes; ``number`` is its place in the explanation, None where it has none."""

    generation: int
    move: Move
    number: int | None


@dataclass(frozen=True, slots=True)
class Explained:
    """The kept and dropped moves of a run, and in ``flaw`` why they do not explain the output."""

    moves: tuple[Judged, ...]
    kept_to: tuple[tuple[int, int, int], ...]
    """For each generation: its number, the epoch after which it continued, and e*."""
    flaw: str | None

    @property
    def kept(self) -> int:
        """The number of moves of the explanation."""
        return sum(each.number is not None for each in self.moves)


def explain_run(
    walker: Walker,
    workers: int,
    happened: Sequence[Happened],
    *,
    committed: int,
    is_complete: bool,
    since: int = -1,
) -> Explained:
    """The failure-free run that explains one with crashes; ``committed`` is the last epoch of a commit.

    ``since`` is the epoch after which it began: that of a savepoint, or none.
    """
    generations = moves_of(walker.shape, happened)
    ends = _ends(generations, EVERYTHING if is_complete else committed)
    replay = _Replay(walker, workers)
    judged: list[Judged] = []
    number = 0
    flaw: str | None = None
    try:
        is_begun = False
        # Where what it began with is damaged, an older snapshot of the same chain may be resumed from.
        before = min([since, *(generation.restored for generation in generations)])
        for generation, end in zip(generations, ends, strict=True):
            # One that resumed from a snapshot that was found damaged later leads nowhere.
            is_of_it = generation.restored == before
            if is_of_it and generation.is_started(starts_of(walker.shape)):
                is_begun = replay.begin(generation, is_first=not is_begun)
            before = end
            for move in generation.moves:
                replay.check_held_back(generation.generation, move, end)
                if move.last <= end:
                    judged.append(Judged(generation.generation, move, number))
                    replay.take(move)
                    number += 1
                else:
                    judged.append(Judged(generation.generation, move, None))
        if is_complete:
            replay.check_nothing_is_left()
    except BrokenError as error:
        where = f"step {judged[-1].move.position}: " if judged else ""
        flaw = f"{where}{error}"
    kept_to = tuple((g.generation, g.restored, end) for g, end in zip(generations, ends, strict=True))
    return Explained(tuple(judged), kept_to, flaw)


def _ends(generations: Sequence[GenerationMoves], last: int) -> list[int]:
    """e* of each generation: the least epoch after which a later one continued."""
    ends = [last]
    for generation in reversed(generations[1:]):
        ends.append(min(ends[-1], generation.restored))
    return ends[::-1] if generations else []


class _Replay:
    """Takes the moves of an explanation under the failure-free rules."""

    def __init__(self, walker: Walker, workers: int) -> None:
        self._walker = walker
        self._workers = workers
        self.state = AbstractState(walker, workers)
        self._rules = ExchangeRules(self.state)
        self._inputs: dict[int, list[int]] = {}
        for location, port in enumerate(walker.shape.ports):
            if not port.is_output:
                self._inputs.setdefault(port.operator, []).append(location)
        self._went_on: dict[tuple[int, int, int], Move] = {}

    def begin(self, generation: GenerationMoves, *, is_first: bool) -> bool:
        """The start of the first generation is the beginning; a later one must start where we are."""
        started = self if is_first else _Replay(self._walker, self._workers)
        for move in generation.starts:
            started.take(move)
        if not is_first:
            self._check_same(generation, started.state)
        return True

    def take(self, move: Move) -> None:
        """Take a move; BrokenError where it is not allowed here."""
        rules = self._rules
        for act in move.acts:
            match act:
                case MessagePulled():
                    rules.message_pulled(act)
                case MessageSent():
                    rules.message_sent(act)
                case CapabilityChanged():
                    rules.capability_changed(act)
                case Notified():
                    self._check_complete(act)
                case FrontiersShown():
                    self._check_shown(act)
                case ActivationEnded():
                    rules.activation_ended(act)
        # Progress that is known at once leaves nothing to tell.
        self.state.temp[move.worker].clear()

    def check_held_back(self, generation: int, move: Move, end: int) -> None:
        """No operator goes back to an epoch up to e* once it has been beyond.

        An input may, where rows say their epochs: it has no state, and what lies beyond is read again.
        """
        if move.operator not in self._inputs:
            return
        place = (generation, move.worker, move.operator)
        if move.first <= end < move.last:
            broken("HeldBack", f"{self._who(move)} handled epochs {move.first} and {move.last} at once")
        if move.first > end:
            self._went_on.setdefault(place, move)
        elif place in self._went_on:
            later = self._went_on[place]
            broken(
                "HeldBack",
                f"{self._who(move)} handled epoch {move.first} after it had handled epoch {later.last} "
                f"at step {later.position}, and the snapshot of epoch {end} lies between",
            )

    def check_nothing_is_left(self) -> None:
        """The explanation of a complete run is complete."""
        for worker in range(self._workers):
            for what, counts in (
                ("holds", self.state.caps[worker]),
                ("never got", self.state.data[worker]),
            ):
                if counts:
                    broken("Completes", f"in the explanation worker {worker} {what} {self._show(counts)}")

    def _check_same(self, generation: GenerationMoves, restored: AbstractState) -> None:
        for worker in range(self._workers):
            pairs = (
                ("holds", self.state.caps[worker], restored.caps[worker]),
                ("is yet to get", self.state.data[worker], restored.data[worker]),
            )
            for what, here, there in pairs:
                if here != there:
                    broken(
                        "Restored",
                        f"generation {generation.generation} resumed after epoch {generation.restored} where "
                        f"worker {worker} {what} {self._show(there) or 'nothing'}; in the explanation it "
                        f"{what} {self._show(here) or 'nothing'}",
                    )

    def _check_complete(self, act: Notified) -> None:
        walker = self._walker
        for location in self._inputs.get(act.operator, ()):
            point = walker.point(location, act.time)
            for other in self.state.all_rec():
                if other == point or walker.less(other, point):
                    broken(
                        "NotifiedComplete",
                        f"worker {act.worker} notified that {act.time} is complete, and in the explanation "
                        f"{walker.describe(other)} exists",
                    )

    def _check_shown(self, act: FrontiersShown) -> None:
        implied = self._walker.implied_frontiers(self.state.all_rec())
        for location, shown in act.frontiers.items():
            for time in implied[location]:
                if not any(self._walker.below(lower, time) for lower in shown):
                    name = self._walker.shape.ports[location].name
                    broken(
                        "OperatorFrontierNotAhead",
                        f"worker {act.worker}: the frontier of {name} was shown as {times_text(shown)}, and "
                        f"in the explanation it is {times_text(implied[location])}",
                    )

    def _who(self, move: Move) -> str:
        return f"worker {move.worker}, {self._walker.shape.operator(move.operator)}"

    def _show(self, counts: Counts) -> str:
        return self._rules.show(counts)
