"""The simulated user: promises about inputs, and savepoints.

A user calls a query, which listens between two rounds of its driver, and is answered or not. A user knows of
an input what was put there, not what the driver has found of it. What was answered holds, whatever crashes
afterwards; what was not may be done or not, and is asked for again. Of the world a user knows the inputs,
what is published, and the generation that listens, if one does; nothing of drivers and how they die.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeAlias

from pointstamp.query.session import Session
from pointstamp.simulate.choices import Choices
from pointstamp.simulate.crash.crew import Life
from pointstamp.simulate.crash.durability import SimulatedSink
from pointstamp.simulate.crash.events import SavepointTaken, UserSaid, WorldEvent
from pointstamp.simulate.crash.feed import Feed, SimulatedSource

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
        """Whether all promises are made, and all complete epochs are published.

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
