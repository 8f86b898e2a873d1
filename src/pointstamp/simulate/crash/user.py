"""What the user of a simulated query does while it runs: says how far inputs are complete, takes savepoints.

A user calls a query, which listens between two rounds of its driver, and is answered or not. A user knows
what was put into an input, not what the driver has found of it. An answer holds, whatever crashes afterwards;
a request without an answer may be done or not, and is made again.
"""

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from pointstamp.simulate.crash.events import SavepointTaken, UserSaid

if TYPE_CHECKING:
    from pointstamp.query.session import Session
    from pointstamp.simulate.crash.crew import Life
    from pointstamp.simulate.crash.drivers import Drivers
    from pointstamp.simulate.crash.feed import SimulatedSource

_NAMES: Final = ("monday", "tuesday")
_SAVEPOINTS_MAX: Final = 6


@dataclass(slots=True)
class User:
    """What was asked of a query, and what was answered."""

    asked: dict[str, int] = field(default_factory=dict)
    """Before which epoch each input with a column was said to be complete, heard or not."""
    said: dict[str, int] = field(default_factory=dict)
    """The same, as far as it was answered."""
    savepoints: dict[str, int] = field(default_factory=dict)
    """The epochs of the savepoints that were answered."""
    savepoints_asked: int = 0


def unsaid(world: "Drivers") -> "list[SimulatedSource]":
    """The inputs of which more could be said."""
    said = world.user.said
    return [
        source
        for name, source in world.feed.sources.items()
        if source.complete_after is not None and said.get(name, 0) < source.complete_after[source.found]
    ]


def say(world: "Drivers", source: "SimulatedSource") -> None:
    """Say how far an input is complete by now, or a little less; nothing where no driver listens."""
    life = _listening(world)
    if life is None or source.complete_after is None:
        return
    before, most = world.user.asked.get(source.name, 0), source.complete_after[source.found]
    epoch = most - world.further.choose(most - before + 1)
    world.user.asked[source.name] = epoch

    def call(session: "Session") -> None:
        # At the end of all inputs everything is complete, and less is not believed.
        if epoch >= session.coordinator.ledger.open_from:
            session.advance(source.name, epoch)
        world.user.said[source.name] = epoch
        world.note(life.generation, UserSaid(source.name, epoch))

    life.calls.append(call)


def is_answered(world: "Drivers") -> bool:
    """Whether everything that can be said is said, and is published as far as it is complete.

    An input that has come to its end holds nothing back.
    """
    if unsaid(world):
        return False
    complete = [
        world.user.said.get(name, 0)
        for name, source in world.feed.sources.items()
        if source.complete_after is not None and source.found < len(source.units)
    ]
    through = world.sink.published_through()
    return min(complete, default=0) <= (-1 if through is None else through) + 1


def take_savepoint(world: "Drivers") -> None:
    """Ask for a savepoint under one of a few names; nothing where no driver listens."""
    life = _listening(world)
    if life is None or world.user.savepoints_asked >= _SAVEPOINTS_MAX:
        return
    world.user.savepoints_asked += 1
    name = _NAMES[world.further.choose(len(_NAMES))]
    answer: Future[int] = Future()
    answer.add_done_callback(partial(_saved, world, life, name))
    life.calls.append(lambda session: session.save_soon(name, answer))


def _saved(world: "Drivers", life: "Life", name: str, answer: "Future[int]") -> None:
    if answer.exception() is None:
        world.user.savepoints[name] = answer.result()
        world.note(life.generation, SavepointTaken(name, answer.result()))


def _listening(world: "Drivers") -> "Life | None":
    life = world.newest
    return None if life is None or not life.driver_is_alive or life.is_asleep else life
