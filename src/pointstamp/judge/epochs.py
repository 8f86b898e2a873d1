"""A walker that remembers its answers for all epochs at once, for a judge that sees epoch after epoch.

No edge depends on which epoch it is: each keeps the epoch or adds to it. So if one thing could result in
another, it could do so any number of epochs later, too, and an answer depends on how far epochs lie apart,
not on which they are. A *place* is a location with the rounds of a time there, all of a pointstamp but its
epoch. From place to place there is a least number of epochs that things must be apart, the *delay*; and of a
set of pointstamps the implied frontiers are remembered as seen from its earliest epoch.

The answers are those of ``Walker``, which finds all of them by walking the edges; so does this one, each time
that it meets something new. It is not for flows with times of their own, to which nothing can be added.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, TypeAlias

from pointstamp.judge.roots import Stamp
from pointstamp.judge.shape import Point, Shape, Walker

Place: TypeAlias = int
"""A location and rounds, by number."""

Frontiers: TypeAlias = tuple[frozenset[Stamp], ...]

REMEMBERED_MAX: Final = 50_000
"""The most answers that are remembered before all are forgotten."""
_EPOCH: Final = 1 << 32
"""One epoch in the number that stands for a place in an epoch; there are fewer places."""


class _Memory:
    """What was found out about a shape; all its walkers may share it."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, tuple[int, ...]], Place] = {}
        self.places: list[tuple[int, tuple[int, ...]]] = []
        self.reached: dict[Place, Frontiers] = {}
        self.delays: dict[Place, dict[Place, float]] = {}
        """By the place where something arrives, then by the place where it comes from."""
        self.implied: dict[frozenset[int], Frontiers] = {}
        self.size = 0


class EpochWalker(Walker):
    """Answers as a ``Walker`` does, and faster the more epochs are alike."""

    def __init__(self, shape: Shape, memory: _Memory | None = None) -> None:
        super().__init__(shape)
        self._memory = memory or _Memory()
        self._delays = self._memory.delays
        self._places: list[Place] = []
        self._epochs: list[int] = []
        self._later: dict[int, dict[frozenset[Stamp], frozenset[Stamp]]] = {}

    def fresh(self) -> "EpochWalker":
        """A walker that has numbered nothing, and knows what this one has found out."""
        return EpochWalker(self.shape, self._memory if self._memory.size <= REMEMBERED_MAX else None)

    def point(self, location: int, time: Stamp) -> Point:
        """The number of a pointstamp."""
        number = self._numbers.get((location, time))
        if number is None:
            number = super().point(location, time)
            self._epochs.append(time[0])
            self._places.append(self._place(location, time[1:]))
        return number

    def less(self, lower: Point, upper: Point) -> bool:
        """Whether one pointstamp could result in another one; never in itself."""
        return self.less_any((lower,), upper)

    def less_any(self, lowers: Iterable[Point], upper: Point) -> bool:
        """Whether one of these pointstamps could result in another one; none does in itself."""
        places, epochs, to = self._places, self._epochs, self._places[upper]
        delays, epoch = self._delays.get(to), epochs[upper]
        if delays is None:
            delays = self._delays[to] = {}
        for lower in lowers:
            delay = delays.get(places[lower])
            if delay is None:
                delay = delays[places[lower]] = self._delay(places[lower], to)
            if epoch - epochs[lower] >= delay and lower != upper:
                return True
        return False

    def implied_frontiers(self, points: Iterable[Point]) -> Frontiers:
        """For each location the minimal times that any of these pointstamps could result in."""
        places, epochs, minimal = self._places, self._epochs, self._minimal(points)
        first = epochs[minimal[0]] if minimal else 0
        key = frozenset([places[point] + (epochs[point] - first) * _EPOCH for point in minimal])
        known = self._memory.implied.get(key)
        if known is None:
            seen = (self.points[point] for point in minimal)
            known = self._walk((at, (epoch - first, *rounds)) for at, (epoch, *rounds) in seen)
            self._memory.implied[key] = known
            self._memory.size += len(known)
        later = self._later.setdefault(first, {})
        return tuple([later.get(times) or self._delayed(times, first) if times else times for times in known])

    def earliest(self, points: Iterable[Point]) -> Iterable[Point]:
        """Those of these pointstamps that none of the others is in an earlier epoch."""
        places, epochs = self._places, self._epochs
        found: dict[Place, Point] = {}
        for point in points:
            other = found.setdefault(places[point], point)
            if epochs[point] < epochs[other]:
                found[places[point]] = point
        return found.values()

    def _minimal(self, points: Iterable[Point]) -> list[Point]:
        """These pointstamps without those that an earlier one could result in, which add nothing."""
        found: list[Point] = []
        for point in sorted(self.earliest(points), key=self._epochs.__getitem__):
            if not self.less_any(found, point):
                found.append(point)
        return found

    def _delayed(self, times: frozenset[Stamp], epochs: int) -> frozenset[Stamp]:
        """The times so many epochs later."""
        found = frozenset([(time[0] + epochs, *time[1:]) for time in times])
        self._later[epochs][times] = found
        return found

    def _place(self, location: int, rounds: tuple[int, ...]) -> Place:
        memory = self._memory
        number = memory.numbers.get((location, rounds))
        if number is None:
            number = memory.numbers[location, rounds] = len(memory.places)
            memory.places.append((location, rounds))
        return number

    def _delay(self, origin: Place, to: Place) -> float:
        """How many epochs later something must be at a place for another place to result in it."""
        memory = self._memory
        memory.size += 1
        reached = memory.reached.get(origin)
        if reached is None:
            location, rounds = memory.places[origin]
            reached = memory.reached[origin] = self._walk([(location, (0, *rounds))])
            memory.size += len(reached)
        location, rounds = memory.places[to]
        return min((time[0] for time in reached[location] if self.below(time[1:], rounds)), default=inf)
