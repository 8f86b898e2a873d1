"""Moves: events grouped by operator activation, with their epoch.

A move is one perf_op of the models: what an operator pulled, was told, sent and kept, up to the end of its
activation. Its epoch is that of what it was about: the messages that it pulled and the times of which it was
told; where there are none, the earliest time for which it gave a capability up or sent something. What a
move leaves for later epochs does not count. Progress is not a move: it is generated where it is needed.

The first moves of a worker are its start; those of a restored one say what it was restored to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pointstamp.judge.roots import Stamp
from pointstamp.judge.shape import Shape
from pointstamp.simulate.crash.events import GenerationBegan, Happened
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    Notified,
    SnapshotTaken,
)

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
    """How many moves of its start each worker has made."""

    def is_started(self, starts: int) -> bool:
        """Whether all workers have started."""
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
