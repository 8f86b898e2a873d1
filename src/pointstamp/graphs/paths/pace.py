"""The order in which keys are relaxed: small distances first.

By distance the nearer half is taken at a time, and all where they are few. With steps that are all equally
long that is breadth-first search, with others it is near to the delta-stepping of Meyer and Sanders (2003).

By rank the least distance is taken first, with all that comes of it, then the next two, then the next four.
That is for labels, of which every vertex has one of its own at the start: passed on all at once, each vertex
would change its label again and again, and a chain would take the square of its length (the order in which
differential dataflow introduces labels).
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pointstamp.graphs.arrays.edge_runs import Lengths
from pointstamp.graphs.arrays.slots import Slots

_FEW: Final = 1_024


class Going(Protocol):
    """The pace of one run."""

    def choose(self, waiting: Slots, distance: Lengths) -> tuple[Slots, Slots]:
        """Return the waiting vertices that relax now, and those that keep waiting."""
        ...


class Pace(Protocol):
    """The progress of a run."""

    def begun(self) -> Going:
        """A run that begins."""
        ...


@dataclass(frozen=True, slots=True)
class ByDistance:
    """The nearer half, and all where they are few."""

    def begun(self) -> Going:
        """It remembers nothing from one choice to the next."""
        return self

    def choose(self, waiting: Slots, distance: Lengths) -> tuple[Slots, Slots]:
        """All that are not farther than the one in the middle."""
        if len(waiting) <= _FEW:
            return waiting, waiting[:0]
        distances = distance[waiting]
        is_near = distances <= np.partition(distances, len(waiting) // 2)[len(waiting) // 2]
        return waiting[is_near], waiting[~is_near]


@dataclass(frozen=True, slots=True)
class ByRank:
    """The least, then the next two, then the next four."""

    def begun(self) -> Going:
        """Begin with the least."""
        return _Ranked()


class _Ranked:
    def __init__(self) -> None:
        self._count = 1
        self._limit: object = None

    def choose(self, waiting: Slots, distance: Lengths) -> tuple[Slots, Slots]:
        distances = distance[waiting]
        is_near = None if self._limit is None else distances <= self._limit
        if is_near is None or not is_near.any():
            place = min(self._count, len(waiting)) - 1
            self._count *= 2
            self._limit = np.partition(distances, place)[place]
            is_near = distances <= self._limit
        return waiting[is_near], waiting[~is_near]
