"""Shrink a failing world: fewer workers, crashes, epochs and rows, a shorter schedule.

Each part is made smaller by leaving out halves, then quarters, and so on (delta debugging), as long as the
same property breaks. With other rows the seed's choices mean something else, so a few other seeds are tried
too; the schedule comes last, when the rest stands, and is shortened choice by choice. How many worlds are
tried is bounded, so the result is small, not always the smallest. Where a flow has custom times, items
of the inputs take the place of epochs; the times that stay are the user's.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from pointstamp.simulate.case import Case
from pointstamp.simulate.seeds import NOTHING_BY_CHANCE, Outcome, Simulator

WORLDS_MAX: Final = 1_000
"""The most worlds that are tried for the inputs, and as many again for the schedule."""

_SEEDS_TRIED: Final = 25
_SEEDS_TRIED_OF_MANY: Final = 4
_FEW_ROWS: Final = 16

T = TypeVar("T")


class Shrinking:
    """One failure while it shrinks; ``best`` is the smallest so far."""

    def __init__(
        self, simulator: Simulator, found: Outcome, notice: Callable[["Shrinking"], None] | None = None
    ) -> None:
        self.simulator = simulator
        self._found = found
        self._notice = notice
        self._left = WORLDS_MAX
        self.best = found
        self.worlds = 0
        self.is_repeatable = True
        """Whether the smallest failure came again when it was repeated."""

    def run(self) -> Outcome:
        """Shrink as far as the bound allows, and return the smallest failure found."""
        if self._found.case != NOTHING_BY_CHANCE:
            self._shrink_workers()
            self._shrink_crashes()
        self._shrink_inputs()
        if self._found.case != NOTHING_BY_CHANCE:
            self._left = WORLDS_MAX
            self._shrink_choices()
        self.is_repeatable = self._comes_again()
        return self.best

    def _comes_again(self) -> bool:
        best, again = self.best, self.simulator.run(self.best.case)
        return (
            again.is_like(best)
            and again.run.events == best.run.events
            and self.simulator.difference(best.run.outputs, again.run.outputs) is None
        )

    def _shrink_workers(self) -> None:
        for workers in range(1, self.best.case.workers):
            if self._fails(replace(self.best.case, workers=workers)):
                return

    def _shrink_crashes(self) -> None:
        for crashes in range(self.best.case.crashes or 0):
            if self._fails(replace(self.best.case, crashes=crashes)):
                return

    def _shrink_inputs(self) -> None:
        inputs = self.simulator.inputs
        length = max((len(items) for items in inputs.values()), default=0)
        fewest(range(length), lambda kept: self._fails(replace(self.best.case, epochs=tuple(kept))))
        epochs = self.best.case.epochs if self.best.case.epochs is not None else tuple(range(length))
        rows = [
            (name, epoch, row)
            for name, items in inputs.items()
            for epoch in epochs
            if epoch < len(items)
            for row in range(items[epoch].batch.num_rows)
        ]
        fewest(
            rows,
            lambda kept: self._fails(
                replace(self.best.case, rows=tuple(kept)),
                _SEEDS_TRIED if len(kept) <= _FEW_ROWS else _SEEDS_TRIED_OF_MANY,
            ),
        )
        # Fewer rows may need fewer epochs; those that have none left say nothing by their number.
        if self.best.case.rows is not None:
            used = {epoch for _, epoch, _ in self.best.case.rows}
            wanted = tuple(epoch for epoch in epochs if epoch in used)
            self._fails(replace(self.best.case, epochs=wanted))

    def _shrink_choices(self) -> None:
        self._fails(replace(self.best.case, choices=frozenset(self.best.run.choices)), seeds=1)
        made = self.best.run.choices
        fewest(made, lambda kept: self._fails(replace(self.best.case, choices=frozenset(kept)), seeds=1))

    def _fails(self, case: Case, seeds: int = _SEEDS_TRIED) -> bool:
        """Return whether a case fails as the first did, with its own seed or with one of a few others."""
        for seed in _some(case.seed, 1 if case.choices == frozenset() else seeds):
            if self._left <= 0:
                return False
            self._left -= 1
            self.worlds += 1
            outcome = self.simulator.run(replace(case, seed=seed))
            if outcome.is_like(self._found):
                self.best = outcome
            if self._notice is not None:
                self._notice(self)
            if outcome is self.best:
                return True
        return False


def fewest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Search the fewest items with which it still fails; all items together fail.

    >>> fewest(range(10), lambda kept: 3 in kept and 7 in kept)
    [3, 7]
    """
    kept = list(items)
    size = (len(kept) + 1) // 2
    while size:
        before = len(kept)
        position = 0
        while position < len(kept):
            fewer = kept[:position] + kept[position + size :]
            if fails(fewer):
                kept = fewer
            else:
                position += size
        # What could not be left out may be now that others are gone.
        size = size // 2 if size > 1 else int(len(kept) < before)
    return kept


def _some(first: int, count: int) -> Iterable[int]:
    return (first, *(seed for seed in range(count) if seed != first))[:count]
