"""The intake: what sources have offered and no tick has taken yet, and how far each input is complete.

An input with an epoch column is complete before an epoch when the user or the source promises it. A promise
covers the units that were found before it, so it takes effect once these are taken, and not before; units
that were found later must keep it (``pointstamp.journal.promises``). A source may make such a promise with
its units. A tick takes only units of an input that must keep the same promise, so that it can say for all of
them which rows are late.

Invariant: no unit is taken twice, units of one input are taken in order, and ``complete_to`` never goes back.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from pointstamp.errors import FlowError
from pointstamp.journal.promises import Promises
from pointstamp.sources.port import Unit


def _no_share(unit: Unit) -> float:
    """Where a source says nothing of the sizes of its units."""
    del unit
    return 0.0


class Intake:
    """The inputs of one generation; changed by the coordinator that owns it."""

    def __init__(
        self,
        units_per_tick: Mapping[str, int | None],
        columns: Collection[str],
        open_from: int,
        said: Mapping[str, Promises] | None = None,
        shares: Mapping[str, Callable[[Unit], float]] | None = None,
    ) -> None:
        self._limits = units_per_tick
        self._shares = shares or {}
        self._offered: dict[str, deque[tuple[Unit, int]]] = {name: deque() for name in units_per_tick}
        self._ended: set[str] = set()
        before = {name: each.entries(name) for name, each in (said or {}).items()}
        self._promises = {name: Promises.of(before.get(name, ()), open_from) for name in columns}

    # What the sources and the user say.

    def offer(self, name: str, units: Sequence[Unit]) -> None:
        """Take note of units that were found."""
        promises = self._promises.get(name)
        self._offered[name].extend((unit, promises.held_to(unit.name) if promises else 0) for unit in units)
        self._believe_source(name)

    def end(self, name: str) -> None:
        """Take note that an input will have no further units."""
        self._ended.add(name)

    def waiting(self, name: str) -> list[str]:
        """The names of the units of an input that wait to be taken."""
        return [unit.name for unit, _ in self._offered[name]]

    def check_advance(self, name: str, epoch: int) -> None:
        """FlowError if an input cannot be declared complete before this epoch."""
        if name not in self._promises:
            raise FlowError(
                f"input '{name}' has no epoch column, so its epochs are complete when their tick is. Only "
                f"inputs with an epoch column can be advanced: {', '.join(self._promises) or 'none'}."
            )
        before = self._promises[name].last
        if epoch < before:
            raise FlowError(
                f"input '{name}' was said to be complete before epoch {before}; it cannot go back to epoch "
                f"{epoch}. Advance it to epoch {before} or later."
            )

    def advance(self, name: str, epoch: int) -> None:
        """Take note that what was offered completes an input before an epoch."""
        self._promises[name].say(epoch, self.waiting(name))

    def reach(self, name: str, epoch: int) -> None:
        """Take note that what was taken completes an input before an epoch."""
        self._promises[name].reach(epoch)

    # What to let in.

    @property
    def has_units(self) -> bool:
        """Whether something waits to be taken."""
        return any(self._offered.values())

    @property
    def has_ended(self) -> bool:
        """Whether every input has come to its end."""
        return len(self._ended) == len(self._offered)

    def take(self) -> tuple[dict[str, list[Unit]], dict[str, int]]:
        """The units of the next tick, which no longer wait, and the promise that each input's must keep."""
        taken: dict[str, list[Unit]] = {}
        held_to: dict[str, int] = {}
        for name, offered in self._offered.items():
            limit = self._limits[name]
            promises = self._promises.get(name)
            held = offered[0][1] if offered else 0
            share_of = self._shares.get(name, _no_share)
            units: list[Unit] = []
            taken_up = 0.0
            while offered and offered[0][1] == held and (limit is None or len(units) < limit):
                taken_up += share_of(offered[0][0])
                if units and taken_up > 1.0:
                    break
                units.append(offered.popleft()[0])
            taken[name] = units
            if promises is not None:
                promises.take(units)
                self._believe_source(name)
                if units:
                    held_to[name] = held
        return taken, held_to

    def _believe_source(self, name: str) -> None:
        """The next units may promise that nothing before an epoch follows them."""
        offered, promises = self._offered[name], self._promises.get(name)
        if offered and promises is not None and (least := offered[0][0].least_epoch) is not None:
            promises.reach(least)

    def complete_to(self, open_from: int, silent: Collection[str] = ()) -> int:
        """The epoch before which all inputs with an epoch column are complete; it never goes back.

        Those that are silent do not count; where all are, the one that is farthest does.
        """
        still_open = self.still_open
        counted = [self._promises[name].complete for name in still_open if name not in silent]
        if not counted and still_open:
            return max(open_from, *(each.complete for each in self._promises.values()))
        return max(open_from, min(counted, default=open_from))

    @property
    def still_open(self) -> list[str]:
        """The inputs with an epoch column that have not come to their end."""
        # One that has ended says nothing more, once everything that it had is taken.
        return [name for name in self._promises if name not in self._ended or self._offered[name]]

    def complete(self, name: str) -> int:
        """The epoch before which one input is complete."""
        return self._promises[name].complete
