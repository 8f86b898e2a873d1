"""Completeness promises of inputs with an epoch column.

A user or a source promises that the units found by then hold all rows of an input before an epoch. So the
promise takes effect once these units are taken; and a unit that was found later must keep it: a row of an
earlier epoch in such a unit is late. Both follow from the promise and from the names of the units that waited
then. They do not depend on how fast anything was, and a driver that reads the journal again comes to the same
result.

Invariant: ``complete`` never goes back, and no promise is less than an earlier one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pointstamp.journal.history import Said
from pointstamp.sources.port import Unit


@dataclass(slots=True)
class Promises:
    """The promises about one input; its owner changes it as promises are made and units are taken."""

    complete: int = 0
    """The epoch before which the input is complete, by the promises that have taken effect."""
    _waiting: list[tuple[int, set[str]]] = field(default_factory=list)
    """Promises that have not taken effect: the epoch, and the units that must be taken first."""

    @classmethod
    def of(cls, entries: Iterable[Said], complete: int = 0) -> "Promises":
        """The promises in these entries, for an input that is complete at least before an epoch."""
        promises = cls(complete)
        for entry in entries:
            promises.say(entry.epoch, entry.waiting)
        return promises

    def say(self, epoch: int, waiting: Iterable[str]) -> None:
        """Take note of a promise: the units that wait now complete the input before an epoch."""
        self._waiting.append((epoch, set(waiting)))
        self._believe()

    def take(self, units: Sequence[Unit]) -> None:
        """Take note that these units were taken, and of what they say that they complete."""
        taken = {unit.name for unit in units}
        for _, waiting in self._waiting:
            waiting -= taken
        self.reach(max((unit.complete_to or 0 for unit in units), default=0))

    def reach(self, epoch: int) -> None:
        """Take note that no unit left to take has rows before this epoch."""
        self.complete = max(self.complete, epoch)
        self._believe()

    def held_to(self, name: str) -> int:
        """The epoch before which rows of a unit are late: the last promise made before it was found."""
        return max([self.complete, *(epoch for epoch, waiting in self._waiting if name not in waiting)])

    @property
    def waited_for(self) -> set[str]:
        """The names of the units that must be taken before all promises take effect."""
        return {name for _, waiting in self._waiting for name in waiting}

    @property
    def last(self) -> int:
        """The last promise."""
        return max([self.complete, *(epoch for epoch, _ in self._waiting)])

    def is_known(self, epoch: int, waiting: Iterable[str]) -> bool:
        """Whether this promise would add nothing."""
        return epoch <= self.complete or (epoch, set(waiting)) in self._waiting

    def entries(self, name: str) -> list[Said]:
        """The fewest entries that say the same about an input."""
        believed = [Said(name, self.complete, [])] if self.complete else []
        return [*believed, *(Said(name, epoch, sorted(waiting)) for epoch, waiting in self._waiting)]

    def _believe(self) -> None:
        for epoch, waiting in self._waiting:
            if not waiting:
                self.complete = max(self.complete, epoch)
        self._waiting = [each for each in self._waiting if each[0] > self.complete]
