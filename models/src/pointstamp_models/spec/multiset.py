"""Finite partial orders and signed multisets, as the models use them.

A signed multiset ZM[Point] is a sorted tuple of (point, count) pairs without zero counts; points are
small ints, so that states stay compact, and an order gives them names and says which lie below which.
The predicates of the papers stand here once: upright, vacant, nonpos, justified, justified_with.

This file shares nothing with ``pointstamp.order``, on purpose: it judges it.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol, TypeAlias

Point: TypeAlias = int
ZM: TypeAlias = tuple[tuple[Point, int], ...]
"""A signed multiset: sorted (point, count) pairs, no count zero."""

EMPTY: ZM = ()


class StrictOrder(Protocol):
    """The order that the predicates need: which points are strictly below which."""

    def less(self, lower: Point, upper: Point) -> bool:
        """Return whether lower < upper in the partial order, never for equal points."""
        ...


class Poset:
    """A finite partial order over named points, given by some of its strict pairs and closed here."""

    def __init__(self, names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> None:
        self.names = tuple(names)
        index = {name: point for point, name in enumerate(self.names)}
        self._less = [[False] * len(names) for _ in names]
        for below, above in pairs:
            self._less[index[below]][index[above]] = True
        for middle in self.points():
            for lower in self.points():
                for upper in self.points():
                    if self._less[lower][middle] and self._less[middle][upper]:
                        self._less[lower][upper] = True
        if any(self._less[point][point] for point in self.points()):
            raise ValueError(f"the pairs over {self.names} contain a cycle, so they are not a strict order")

    def points(self) -> range:
        """Every point, as an int."""
        return range(len(self.names))

    def less(self, lower: Point, upper: Point) -> bool:
        """Return whether lower < upper."""
        return self._less[lower][upper]

    def less_equal(self, lower: Point, upper: Point) -> bool:
        """Return whether lower <= upper."""
        return lower == upper or self._less[lower][upper]


def chain(names: Sequence[str]) -> Poset:
    """The total order in which the names are listed: ``chain("ab")`` is a < b."""
    return Poset(names, pairwise(names))


def vee() -> Poset:
    """The smallest order with incomparable points: a < b, a < c, and b beside c."""
    return Poset("abc", [("a", "b"), ("a", "c")])


def zm(counts: Iterable[tuple[Point, int]]) -> ZM:
    """Sum the counts of equal points and drop zeros."""
    total: dict[Point, int] = {}
    for point, count in counts:
        total[point] = total.get(point, 0) + count
    return tuple(sorted(item for item in total.items() if item[1]))


def count(m: ZM, point: Point) -> int:
    """M(p), zero where the point does not occur."""
    for other, number in m:
        if other == point:
            return number
    return 0


def plus(a: ZM, b: ZM) -> ZM:
    """The sum of two signed multisets."""
    if not a:
        return b
    if not b:
        return a
    return zm(a + b)


def minus(a: ZM, b: ZM) -> ZM:
    """The difference of two signed multisets."""
    return plus(a, tuple((point, -number) for point, number in b))


def total(parts: Iterable[ZM]) -> ZM:
    """The sum of many; equal parts count as often as they occur."""
    return zm(item for part in parts for item in part)


def restrict(m: ZM, points: Iterable[Point]) -> ZM:
    """M|P: the part of m on the given points."""
    kept = frozenset(points)
    return tuple(item for item in m if item[0] in kept)


def nonnegative(m: ZM) -> bool:
    """Return whether no count is below zero."""
    return all(number > 0 for _, number in m)


def frontier(order: StrictOrder, m: ZM) -> tuple[Point, ...]:
    """The minimal points of positive count; zero and negative counts are invisible."""
    positive = [point for point, number in m if number > 0]
    return tuple(p for p in positive if not any(order.less(q, p) for q in positive))


def vacant(order: StrictOrder, m: ZM, point: Point) -> bool:
    """Return whether every count at or below the point is zero."""
    return not any(p == point or order.less(p, point) for p, _ in m)


def nonpos(order: StrictOrder, m: ZM, point: Point) -> bool:
    """Return whether no count at or below the point is positive."""
    return not any(n > 0 and (p == point or order.less(p, point)) for p, n in m)


def supported(order: StrictOrder, m: ZM, point: Point) -> bool:
    """Return whether some count strictly below the point is negative."""
    return any(n < 0 and order.less(p, point) for p, n in m)


def covered(order: StrictOrder, m: ZM, point: Point) -> bool:
    """Return whether some count strictly below the point is positive."""
    return any(n > 0 and order.less(p, point) for p, n in m)


def upright(order: StrictOrder, m: ZM) -> bool:
    """Return whether every positive count is supported by a strictly lower negative one."""
    return all(supported(order, m, point) for point, number in m if number > 0)


def justified(order: StrictOrder, caps: ZM, m: ZM) -> bool:
    """Whether each positive count is supported, or covered by a capability below, or less than caps hold."""
    return all(
        supported(order, m, point) or covered(order, caps, point) or number < count(caps, point)
        for point, number in m
        if number > 0
    )


def justified_with(order: StrictOrder, caps: ZM, m: ZM, later: ZM) -> bool:
    """Like justified, but later messages of the same worker may support m as well."""
    return all(
        supported(order, m, point)
        or supported(order, later, point)
        or covered(order, caps, point)
        or count(m, point) + count(later, point) < count(caps, point)
        for point, number in m
        if number > 0
    )


def show(order: Poset, m: ZM) -> str:
    """A signed multiset for a reader: ``{a:1, b:-2}``."""
    return "{" + ", ".join(f"{order.names[point]}:{number}" for point, number in m) + "}"
