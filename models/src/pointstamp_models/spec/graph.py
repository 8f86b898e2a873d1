"""Locations, path summaries and could-result-in: what is fixed before any progress is tracked.

The graph of Brun et al. (2021), section 5, with the axioms of the Isabelle theory Graph: ports are
locations, an edge carries an antichain of summaries, and a summary says by how much a time at least grows
in flight. From these follow the path summaries, the order "a pointstamp here could result in one there",
and the frontier that a set of pointstamps implies at each location.

Everything is computed from its definition and from scratch: this is the oracle for the incremental
tracker, so it shares nothing with ``pointstamp.order`` and ``pointstamp.topology``. Times and summaries
are whatever a ``Times`` gives functions for. The axioms are not assumed: ``broken_axioms`` tests them on
the times it is given. One time domain for all locations, as in the paper.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T", bound=Hashable)
Z = TypeVar("Z", bound=Hashable)
Element = TypeVar("Element", bound=Hashable)

Location: TypeAlias = int
"""A port, as its position among the names of a graph."""


@dataclass(frozen=True, slots=True)
class Times(Generic[T, Z]):
    """A partial order of times T and an ordered monoid of summaries Z that acts on it.

    ``results_in`` and ``followed_by`` may answer None: the time never arrives. None then stands for a
    top element that is above every time and is never stored.
    """

    less_equal: Callable[[T, T], bool]
    results_in: Callable[[T, Z], T | None]
    zero: Z
    summary_less_equal: Callable[[Z, Z], bool]
    followed_by: Callable[[Z, Z], Z | None]


def counters(bound: int | None = None) -> Times[int, int]:
    """Times 0, 1, 2, ... with summaries +k; a time above the bound never arrives."""
    bounded = partial(_bounded_sum, bound)
    return Times(_int_less_equal, bounded, 0, _int_less_equal, bounded)


def vectors(width: int) -> Times[tuple[int, ...], tuple[int, ...]]:
    """Tuples in the product order, in which (0, 1) and (1, 0) are incomparable; summaries add to each."""
    return Times(_vector_less_equal, _vector_sum, (0,) * width, _vector_less_equal, _vector_sum)


def _int_less_equal(lower: int, upper: int) -> bool:
    return lower <= upper


def _bounded_sum(bound: int | None, first: int, second: int) -> int | None:
    summed = first + second
    return summed if bound is None or summed <= bound else None


def _vector_less_equal(lower: tuple[int, ...], upper: tuple[int, ...]) -> bool:
    return all(low <= high for low, high in zip(lower, upper, strict=True))


def _vector_sum(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def minimal(
    elements: Iterable[Element], less_equal: Callable[[Element, Element], bool]
) -> frozenset[Element]:
    """The antichain of the elements that have no other element below them."""
    distinct = frozenset(elements)
    return frozenset(e for e in distinct if not any(o != e and less_equal(o, e) for o in distinct))


class Graph(Generic[T, Z]):
    """Locations by name, the summaries on the edges between them, and what follows from both."""

    def __init__(
        self, names: Sequence[str], edges: Mapping[tuple[str, str], Iterable[Z]], times: Times[T, Z]
    ) -> None:
        self.names = tuple(names)
        self.times = times
        index = {name: location for location, name in enumerate(self.names)}
        self._summary = {
            (index[origin], index[target]): minimal(labels, times.summary_less_equal)
            for (origin, target), labels in edges.items()
        }
        self._path_summary = {
            (origin, target): minimal(totals, times.summary_less_equal)
            for origin in self.locations()
            for target, totals in self._path_totals(origin).items()
        }

    def locations(self) -> range:
        """Every location."""
        return range(len(self.names))

    def summary(self, origin: Location, target: Location) -> frozenset[Z]:
        """The antichain on the edge from origin to target; empty where there is no edge."""
        return self._summary.get((origin, target), frozenset())

    def path_summary(self, origin: Location, target: Location) -> frozenset[Z]:
        """The minimal totals over all paths; zero is among those from a location to itself."""
        return self._path_summary.get((origin, target), frozenset())

    def frontier(self, counts: Iterable[tuple[T, int]]) -> frozenset[T]:
        """The minimal times of positive count; zero and negative counts are invisible."""
        return minimal((time for time, number in counts if number > 0), self.times.less_equal)

    def reached(self, origin: Location, time: T, target: Location) -> Iterator[T]:
        """The times at which something now at (origin, time) may arrive at target, one per path summary."""
        for total in self.path_summary(origin, target):
            arrival = self.times.results_in(time, total)
            if arrival is not None:
                yield arrival

    def could_result_in(self, origin: Location, time: T, target: Location, later: T) -> bool:
        """Whether (origin, time) <=p (target, later): some path brings the one no later than the other."""
        return any(self.times.less_equal(arrival, later) for arrival in self.reached(origin, time, target))

    def implied_frontier(self, pts: Sequence[Iterable[tuple[T, int]]], target: Location) -> frozenset[T]:
        """The frontier at target of everything that the positive counts of pts may still bring there.

        ``pts[l]`` gives the times at location l with their counts. Quadratic in the locations: this is
        the definition, not the algorithm.
        """
        return minimal(
            (
                arrival
                for origin in self.locations()
                for time, number in pts[origin]
                if number > 0
                for arrival in self.reached(origin, time, target)
            ),
            self.times.less_equal,
        )

    def broken_axioms(self, times: Iterable[T]) -> list[str]:
        """Every axiom that fails on these times and on the summaries of this graph, as a sentence."""
        samples = tuple(times)
        return [
            *self._self_edges(),
            *_broken_orders(self.times, samples, self._summaries()),
            *_broken_monoid(self.times, self._summaries()),
            *_broken_action(self.times, samples, self._summaries()),
            *self._cycles_that_stand_still(samples),
        ]

    def _path_totals(self, origin: Location) -> dict[Location, set[Z]]:
        """The totals of simple paths from origin, without those that a total found earlier is below.

        Simple paths suffice because 0 <= s: leaving a cycle out never makes a total larger. For the same
        reason nothing is lost by not following a path whose total is not below what is known already.
        """
        times = self.times
        totals: dict[Location, set[Z]] = {origin: {times.zero}}
        waiting: list[tuple[tuple[Location, ...], Z]] = [((origin,), times.zero)]
        while waiting:
            path, total = waiting.pop()
            for target in self.locations():
                for label in self.summary(path[-1], target) if target not in path else ():
                    longer = times.followed_by(total, label)
                    known = totals.setdefault(target, set())
                    if longer is None or any(times.summary_less_equal(other, longer) for other in known):
                        continue
                    known.add(longer)
                    waiting.append(((*path, target), longer))
        return totals

    def _simple_cycles(self) -> Iterator[tuple[tuple[Location, ...], Z]]:
        """Every simple closed path with its total, once for each location that it may start from."""
        for start in self.locations():
            waiting: list[tuple[tuple[Location, ...], Z]] = [((start,), self.times.zero)]
            while waiting:
                path, total = waiting.pop()
                for target in self.locations():
                    for label in self.summary(path[-1], target):
                        longer = self.times.followed_by(total, label)
                        if longer is None or (target in path and target != start):
                            continue
                        if target == start:
                            yield (*path, target), longer
                        else:
                            waiting.append(((*path, target), longer))

    def _summaries(self) -> tuple[Z, ...]:
        found = {self.times.zero}
        found.update(*self._summary.values(), *self._path_summary.values())
        return tuple(found)

    def _self_edges(self) -> Iterator[str]:
        for (origin, target), labels in self._summary.items():
            if origin == target and labels:
                yield f"self-edge at {self.names[origin]}"

    def _cycles_that_stand_still(self, times: Sequence[T]) -> Iterator[str]:
        for path, total in self._simple_cycles():
            for time in times:
                arrival = self.times.results_in(time, total)
                if arrival is not None and (arrival == time or not self.times.less_equal(time, arrival)):
                    names = " -> ".join(self.names[location] for location in path)
                    yield f"cycle {names} with total {total} does not advance time {time}"


def _no_later(less_equal: Callable[[Element, Element], bool], a: Element | None, b: Element | None) -> bool:
    """The order with None on top."""
    return b is None or (a is not None and less_equal(a, b))


def _broken_orders(times: Times[T, Z], samples: Sequence[T], summaries: Sequence[Z]) -> Iterator[str]:
    """Both relations are partial orders, and zero is the least summary."""
    yield from _broken_partial_order("time", times.less_equal, samples)
    yield from _broken_partial_order("summary", times.summary_less_equal, summaries)
    for s in summaries:
        if not times.summary_less_equal(times.zero, s):
            yield f"summary {s} is not at or above zero"


def _broken_partial_order(
    kind: str, less_equal: Callable[[Any, Any], bool], elements: Sequence[Any]
) -> Iterator[str]:
    for a in elements:
        if not less_equal(a, a):
            yield f"{kind} {a} is not below or equal to itself"
    for a, b in product(elements, repeat=2):
        if a != b and less_equal(a, b) and less_equal(b, a):
            yield f"{kind}s {a} and {b} are each below the other"
    for a, b, c in product(elements, repeat=3):
        if less_equal(a, b) and less_equal(b, c) and not less_equal(a, c):
            yield f"{kind}s {a}, {b}, {c} are not transitive"


def _broken_monoid(times: Times[T, Z], summaries: Sequence[Z]) -> Iterator[str]:
    """Summaries form a monoid in which + is monotone in both arguments."""
    below, followed_by = times.summary_less_equal, times.followed_by
    for s in summaries:
        if followed_by(times.zero, s) != s or followed_by(s, times.zero) != s:
            yield f"zero is not neutral for summary {s}"
    for r, s, u in product(summaries, repeat=3):
        first, last = followed_by(r, s), followed_by(s, u)
        from_left = None if first is None else followed_by(first, u)
        from_right = None if last is None else followed_by(r, last)
        if from_left != from_right:
            yield f"summaries {r}, {s}, {u} are not associative"
        if below(r, s) and not _no_later(below, followed_by(r, u), followed_by(s, u)):
            yield f"{r} <= {s}, but not when each is followed by {u}"
        if below(r, s) and not _no_later(below, followed_by(u, r), followed_by(u, s)):
            yield f"{r} <= {s}, but not when each follows {u}"


def _broken_action(times: Times[T, Z], samples: Sequence[T], summaries: Sequence[Z]) -> Iterator[str]:
    """results_in is an action of the summaries on the times, monotone in both arguments."""
    results_in = times.results_in
    for t in samples:
        if results_in(t, times.zero) != t:
            yield f"zero does not leave time {t} as it is"
    for t, r, s in product(samples, summaries, summaries):
        arrival, total = results_in(t, r), times.followed_by(r, s)
        stepwise = None if arrival is None else results_in(arrival, s)
        at_once = None if total is None else results_in(t, total)
        if stepwise != at_once:
            yield f"time {t} after {r} and then {s} is not time {t} after both at once"
        if times.summary_less_equal(r, s) and not _no_later(times.less_equal, arrival, results_in(t, s)):
            yield f"{r} <= {s}, but time {t} arrives later after {r}"
    for s in summaries:
        for t, u in product(samples, repeat=2):
            if times.less_equal(t, u) and not _no_later(times.less_equal, results_in(t, s), results_in(u, s)):
                yield f"times {t} <= {u}, but not after {s}"
