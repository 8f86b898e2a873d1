"""Events of a simulated query: generations, crashes, ticks and commits.

A run with crashes is a list of pairs: the generation, and what has happened in it. The events of workers are
those of ``pointstamp.worker.events``; each generation's are judged by themselves, and the whole is explained
by ``pointstamp.simulate.crash.explaining``.
"""

from typing import NamedTuple, TypeAlias

import msgspec

from pointstamp.worker.events import Event


class GenerationBegan(msgspec.Struct, frozen=True, tag=True):
    """A driver has taken over, and so many workers continue after this epoch; -1 from nothing."""

    workers: int
    restored: int
    is_newest: bool = True


class TickTaken(msgspec.Struct, frozen=True, tag=True):
    """A tick is durable: how many units of which input it takes."""

    number: int
    units: dict[str, int]


class EpochCommitted(msgspec.Struct, frozen=True, tag=True):
    """A commit is durable."""

    number: int
    epoch: int


class Crashed(msgspec.Struct, frozen=True, tag=True):
    """An error happened, as text."""

    what: str


class UserSaid(msgspec.Struct, frozen=True, tag=True):
    """The user has promised that an input has no more rows before an epoch."""

    input: str
    epoch: int


class SavepointTaken(msgspec.Struct, frozen=True, tag=True):
    """A request for a savepoint was answered."""

    name: str
    epoch: int


class DriverFenced(msgspec.Struct, frozen=True, tag=True):
    """A driver that was replaced has found out."""


WorldEvent: TypeAlias = (
    GenerationBegan | TickTaken | EpochCommitted | Crashed | UserSaid | SavepointTaken | DriverFenced
)


class Happened(NamedTuple):
    """Something of a generation, in the order in which it happened."""

    generation: int
    event: Event | WorldEvent


def describe_world_event(event: WorldEvent) -> str:
    """An event as text."""
    match event:
        case GenerationBegan():
            start = "without state" if event.restored < 0 else f"after epoch {event.restored}"
            late = "" if event.is_newest else "; it is already replaced"
            return f"generation began with {event.workers} workers, {start}{late}"
        case TickTaken():
            units = ", ".join(f"{count} of '{name}'" for name, count in event.units.items())
            return f"tick {event.number} took {units or 'no units'}"
        case EpochCommitted():
            return f"commit {event.number}: everything up to epoch {event.epoch}"
        case Crashed():
            return f"CRASH: {event.what}"
        case UserSaid():
            return f"the user declared input '{event.input}' complete before epoch {event.epoch}"
        case SavepointTaken():
            return f"savepoint '{event.name}' was taken at epoch {event.epoch}"
        case DriverFenced():
            return "the replaced driver was fenced"
