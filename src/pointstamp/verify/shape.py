"""The verifier's view of a flow: ports and edges as plain data, and could-result-in.

A time is a tuple, the root time first and then the rounds. An edge keeps the first coordinates of a time,
adds to them and appends constants; where a flow has custom times, a summary of the user's may move the
root (``pointstamp.verify.shape``). Pointstamps are ordered by could-result-in (Abadi & Isard 2015; Brun et
al. 2021, section 6): (p, t) is at or below (q, u) where some way from p to q brings t to a time at or below
u. That is found by walking the edges, and a time that lies above one already seen at its port is not followed
further: every cycle advances time, so the walk ends. Paths that pass a port twice matter: the way round an
outer loop leads from (e, 0, 5) to (e, 1, 0) at the same port inside, and neither of the two is below the
other.

Nothing here knows the code that is judged: a shape is plain data, read off a plan once by
``pointstamp.verify.plan_shape``; a user's order and summaries are none and stay outside.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import add, le
from typing import Any, Protocol, TypeAlias

import msgspec

Point: TypeAlias = int
"""A pointstamp by its number, as ``Walker.point`` gave it."""

_REACHED_MAX = 200_000
"""The most answers that are remembered before all are forgotten."""


class PortShape(msgspec.Struct, frozen=True):
    """One port: its operator, whether it is an output, and how many loops stand around it."""

    name: str
    operator: int
    is_output: bool
    rounds: int


# A flow's custom root times, read from the user's code only.
#
# For epochs the judge has arithmetic of its own. Where a flow brings its own order of root times
# (``ps.Dataflow(..., times=...)``), only that order can say what lies below what, and only the user's root
# summaries can say where a time comes out; so these are called as they are: ``minimum`` and ``less_equal`` of
# the order, ``results_in`` of the summaries. Rounds and constants stay the judge's own arithmetic.
#
# Taken for granted, because no judge can check it for all times: the order is a partial order, and summaries
# are monotone. Where they are not, real messages come too late sooner or later, and that is judged. A summary
# may answer None: no row takes that way. Frontiers may hold times that no row ever has.


class RootOrder(Protocol):
    """The methods of a user's order that the judge calls."""

    def minimum(self) -> Any:  # noqa: ANN401 - a root time of any type
        """The least time."""
        ...

    def less_equal(self, a: Any, b: Any, /) -> bool:  # noqa: ANN401 - as above
        """Return whether one time is at or before another."""
        ...


class RootMove(Protocol):
    """The method of a user's root summary that the judge calls."""

    def results_in(self, time: Any, /) -> Any:  # noqa: ANN401 - as above
        """Return the resulting time; None if the path is not taken."""
        ...


Stamp: TypeAlias = tuple[Any, ...]
"""A time: the root time, by default the epoch, then one round for each loop around the port."""

Move: TypeAlias = Callable[[Stamp], Stamp | None]
"""The time after an edge; None if no time takes the edge."""


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """A user's order of root times, and the root summaries of a flow, numbered as its edges name them."""

    order: RootOrder
    summaries: tuple[RootMove, ...]

    def below(self, a: Stamp, b: Stamp) -> bool:
        """Return whether a <= b in the product of the user's order and the order of rounds."""
        return bool(self.order.less_equal(a[0], b[0])) and all(map(le, a[1:], b[1:]))

    def move(self, summary: int | None, add: tuple[int, ...], append: tuple[int, ...]) -> Move:
        """The effect of an edge: a numbered summary, or an increment."""
        later, *rounds = add
        if summary is not None:
            results_in = self.summaries[summary].results_in
        elif later:
            results_in = later.__add__
        else:
            if not any(rounds) and not append:
                kept = len(add)
                return lambda time: time[:kept]
            results_in = _itself

        def move(time: Stamp) -> Stamp | None:
            root = results_in(time[0])
            if root is None:
                return None
            return (root, *(t + n for t, n in zip(time[1:], rounds, strict=False)), *append)

        return move


def _itself(time: Any) -> Any:  # noqa: ANN401 - a root time of any type
    return time


class Edge(msgspec.Struct, frozen=True):
    """From port to port: ``add`` to as many first coordinates, drop the rest, append constants."""

    origin: int
    target: int
    add: tuple[int, ...]
    append: tuple[int, ...] = ()
    root: int | None = None
    """The number of the user's summary that moves the root time, where one does."""

    def arrival(self, time: Stamp) -> Stamp:
        """The time as it arrives over this edge, where times are epochs and rounds."""
        return (*map(add, time, self.add), *self.append)

    def move(self) -> Move:
        """The same as a function; most edges add nothing."""
        if any(self.add) or self.append:
            return self.arrival
        kept = len(self.add)
        return lambda time: time[:kept]


class Shape(msgspec.Struct, frozen=True):
    """All ports, numbered as locations are, and all edges of a flow."""

    ports: tuple[PortShape, ...]
    edges: tuple[Edge, ...]
    has_own_times: bool = False
    in_order: tuple[int, ...] = ()
    """The operators that take their times in order."""
    names: tuple[str, ...] = ()
    """The names of the operators by number; without, the ports say them."""

    def operator(self, number: int) -> str:
        """An operator as text."""
        if self.names:
            return f"'{self.names[number]}'"
        said = (port.name for port in self.ports if port.operator == number)
        return min(name.partition(" of ")[2] or name for name in said)


def below(a: Stamp, b: Stamp) -> bool:
    """Return whether a <= b in the product order of times of one length."""
    return all(map(le, a, b))


class Walker:
    """Answers questions about pointstamps of one shape, and remembers the answers; good for many traces.

    A shape with times of its own needs what the user supplied for them.
    """

    def __init__(self, shape: Shape, own: OwnTimes | None = None) -> None:
        if shape.has_own_times and own is None:
            raise ValueError("the flow has custom times, but no order to compare them with")
        self.shape = shape
        self._own = own
        self.least: Any = 0 if own is None else own.order.minimum()
        self.below = below if own is None else own.below
        self._early_first = own is None
        self._outgoing: list[list[tuple[int, Move]]] = [[] for _ in shape.ports]
        for edge in shape.edges:
            move = edge.move() if own is None else own.move(edge.root, edge.add, edge.append)
            self._outgoing[edge.origin].append((edge.target, move))
        self._numbers: dict[tuple[int, Stamp], Point] = {}
        self.points: list[tuple[int, Stamp]] = []
        self._reached: dict[Point, tuple[frozenset[Stamp], ...]] = {}
        self._implied: dict[frozenset[Point], tuple[frozenset[Stamp], ...]] = {}
        self._less: dict[tuple[Point, Point], bool] = {}

    def fresh(self) -> "Walker":
        """A walker that has numbered nothing, for the same shape."""
        return Walker(self.shape, self._own)

    def point(self, location: int, time: Stamp) -> Point:
        """The number of a pointstamp."""
        key = (location, time)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.points)
            self.points.append(key)
        return number

    def less(self, lower: Point, upper: Point) -> bool:
        """Return whether one pointstamp could result in another one; never in itself."""
        known = self._less.get((lower, upper))
        if known is None:
            if len(self._less) > _REACHED_MAX:
                self._less.clear()
            location, time = self.points[upper]
            known = lower != upper and any(self.below(first, time) for first in self.reached(lower)[location])
            self._less[lower, upper] = known
        return known

    def less_any(self, lowers: Iterable[Point], upper: Point) -> bool:
        """Return whether one of these pointstamps could result in another one; none does in itself."""
        return any(self.less(lower, upper) for lower in lowers)

    def earliest(self, points: Iterable[Point]) -> Iterable[Point]:
        """At least those of these pointstamps that none of the others is in an earlier epoch."""
        return points

    def reached(self, point: Point) -> tuple[frozenset[Stamp], ...]:
        """For each location the minimal times at which something at this pointstamp may arrive."""
        known = self._reached.get(point)
        if known is None:
            if len(self._reached) > _REACHED_MAX:
                self._reached.clear()
            known = self._reached[point] = self._walk([self.points[point]])
        return known

    def implied_frontiers(self, points: Iterable[Point]) -> tuple[frozenset[Stamp], ...]:
        """For each location the minimal times that any of these pointstamps could result in."""
        key = frozenset(points)
        known = self._implied.get(key)
        if known is None:
            if len(self._implied) > _REACHED_MAX:
                self._implied.clear()
            known = self._implied[key] = self._walk(self.points[point] for point in key)
        return known

    def _walk(self, points: Iterable[tuple[int, Stamp]]) -> tuple[frozenset[Stamp], ...]:
        below = self.below
        seen: list[list[Stamp]] = [[] for _ in self.shape.ports]
        waiting = list(points)
        if self._early_first:
            # So that later ones are seldom followed in vain; what the user's order sorts by is not asked for.
            waiting.sort(key=lambda at: at[1], reverse=True)
        while waiting:
            location, time = waiting.pop()
            here = seen[location]
            if any(below(other, time) for other in here):
                continue
            seen[location] = [other for other in here if not below(time, other)]
            seen[location].append(time)
            for target, move in self._outgoing[location]:
                after = move(time)
                if after is not None:
                    waiting.append((target, after))
        return tuple(map(frozenset, seen))

    def describe(self, point: Point) -> str:
        """A pointstamp as text."""
        location, time = self.points[point]
        return f"{time} at {self.shape.ports[location].name}"


def first_points(walker: Walker) -> Sequence[Point]:
    """Return the initial capabilities: each output at the least time."""
    return [
        walker.point(number, (walker.least, *(0,) * port.rounds))
        for number, port in enumerate(walker.shape.ports)
        if port.is_output
    ]
