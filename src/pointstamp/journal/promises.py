"""How far an input with an epoch column is complete, as was said of it, and which units that holds for.

Somebody says that an input has, with the units that were found by then, everything before an epoch. So what
was said is believed once these units are taken; and a unit that was found later is held to it: a row of an
earlier epoch in it is late. Both follow from what was said and from the names of the units that waited then.
Nobody's pace decides it, and a driver that reads the journal again comes to the same.

Invariant: ``complete`` never goes back, and what is said never is less than what was said before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pointstamp.journal.history import Said


@dataclass(slots=True)
class Promises:
    """What was said of one input; changed by whoever keeps it, as things are said and units are taken."""

    complete: int = 0
    """Before which epoch the input is complete, as far as that is believed."""
    _waiting: list[tuple[int, set[str]]] = field(default_factory=list)
    """What is not believed yet: the epoch, and the units that were there and are not taken."""

    @classmethod
    def of(cls, entries: Iterable[Said], complete: int = 0) -> "Promises":
        """What these entries of the journal say, of an input that is complete before an epoch at least."""
        promises = cls(complete)
        for entry in entries:
            promises.say(entry.epoch, entry.waiting)
        return promises

    def say(self, epoch: int, waiting: Iterable[str]) -> None:
        """Take note that with the units that wait now the input has everything before an epoch."""
        self._waiting.append((epoch, set(waiting)))
        self._believe()

    def take(self, names: Iterable[str]) -> None:
        """Take note that units wait no more."""
        taken = set(names)
        for _, waiting in self._waiting:
            waiting -= taken
        self._believe()

    def reach(self, epoch: int) -> None:
        """Take note that nothing that is not taken is of an epoch before this one."""
        self.complete = max(self.complete, epoch)
        self._believe()

    def held_to(self, name: str) -> int:
        """The epoch before which a unit has none but late rows: what was said before it was found."""
        return max([self.complete, *(epoch for epoch, waiting in self._waiting if name not in waiting)])

    @property
    def last(self) -> int:
        """What was said last."""
        return max([self.complete, *(epoch for epoch, _ in self._waiting)])

    def is_known(self, epoch: int, waiting: Iterable[str]) -> bool:
        """Whether to say this would say nothing new."""
        return epoch <= self.complete or (epoch, set(waiting)) in self._waiting

    def entries(self, name: str) -> list[Said]:
        """The least that says the same of an input."""
        believed = [Said(name, self.complete, [])] if self.complete else []
        return [*believed, *(Said(name, epoch, sorted(waiting)) for epoch, waiting in self._waiting)]

    def _believe(self) -> None:
        for epoch, waiting in self._waiting:
            if not waiting:
                self.complete = max(self.complete, epoch)
        self._waiting = [each for each in self._waiting if each[0] > self.complete]
