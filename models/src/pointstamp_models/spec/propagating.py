"""The rules of local propagation: how one worker turns counted pointstamps into frontiers.

The actions of Brun et al. (2021), section 5 (Isabelle theory Propagate). A configuration holds, for each
location, signed multisets of times: the pointstamps pts, the implications imp whose frontier operators are
shown, and the worklist work of what imp has not absorbed yet. change_multiplicity enters news into pts;
propagate moves one worklist entry into imp and pushes on what that does to the frontier.

Kept by every step: imp and imp + work are never negative, and their sum is what the pointstamps here and
the frontiers of the predecessors say (WorkSum). Not kept: in the middle of a propagation frontiers are
neither safe nor monotone, so it must not be read. That propagation ends is proved nowhere; it comes from
taking minimal times first, and is checked against a bound (Terminates).

The rules decide no schedule. The model of local propagation explores them alone, under every schedule; the
combined tracker has one configuration per worker and runs propagate until no work is left.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from pointstamp_models.spec.graph import Graph, Location
from pointstamp_models.spec.multiset import count, minus, nonnegative, plus, total, zm

Time: TypeAlias = Any
"""Hashable and sortable; Python's < only sorts, the partial order is the graph's."""

Summary: TypeAlias = Any
"""Whatever the graph's edges carry."""

Counts: TypeAlias = tuple[tuple[Time, int], ...]
"""A signed multiset of times: sorted (time, count) pairs, no count zero."""

PerLocation: TypeAlias = tuple[Counts, ...]

PROPAGATION_STEPS_MAX: Final = 100
"""More propagate steps in a row than any terminating instance here needs."""


class Configuration(NamedTuple):
    """The state of one worker's propagation; each part has one signed multiset per location."""

    pts: PerLocation
    imp: PerLocation
    work: PerLocation


class Propagation:
    """The rules of propagation on a graph, and the predicates that judge its configurations."""

    def __init__(self, graph: Graph[Any, Any], times: Iterable[Time]) -> None:
        self.graph = graph
        self.times = tuple(times)
        if broken := self.broken_axioms():
            names = ", ".join(graph.names)
            raise ValueError(f"the graph over {names} breaks {len(broken)} axioms; the first: {broken[0]}")
        # A state space has far more configurations than it has multisets: what is derived is remembered.
        self._frontier = cache(self.frontier)
        self._true_frontier = cache(graph.frontier)
        self._implied = cache(self._implied_frontiers)
        self._reached = cache(self._arrivals)
        self._longest: dict[tuple[PerLocation, PerLocation], int] = {}

    # What a broken variant may change.

    def broken_axioms(self) -> list[str]:
        """The reasons why this graph is rejected; none for a graph that satisfies the axioms."""
        return self.graph.broken_axioms(self.times)

    def may_change(self, conf: Configuration, location: Location, time: Time) -> bool:
        """Whether news at this time is still expected here: some element of the frontier is at or below."""
        less_equal = self.graph.times.less_equal
        return any(less_equal(element, time) for element, _ in self._frontier(conf.imp[location]))

    def may_propagate(self, conf: Configuration, time: Time) -> bool:
        """Return whether no worklist of any location holds a strictly smaller time."""
        less_equal = self.graph.times.less_equal
        return not any(t != time and less_equal(t, time) for entries in conf.work for t, _ in entries)

    def pushed(self, before: Counts, after: Counts) -> Counts:
        """The change that successors get when imp changes here: of its frontier, not of its counts."""
        return minus(self._frontier(after), self._frontier(before))

    def arrival(self, time: Time, summary: Summary) -> Time | None:
        """The time as it arrives over an edge; None if it never does."""
        return self.graph.times.results_in(time, summary)

    def frontier(self, counts: Counts) -> Counts:
        """The frontier as a multiset: count 1 for each minimal time of positive count."""
        return zm((time, 1) for time in self.graph.frontier(counts))

    # Actions.

    def start(self, pts: PerLocation) -> Configuration:
        """Init: nothing is implied yet, and the frontiers of the pointstamps are still to be propagated."""
        return Configuration(pts, ((),) * len(pts), tuple(self._frontier(counts) for counts in pts))

    def change_multiplicity(
        self, conf: Configuration, location: Location, time: Time, number: int
    ) -> Configuration:
        """Add number to the count at (location, time), and the change of its frontier to the worklist."""
        before = conf.pts[location]
        after = plus(before, ((time, number),))
        news = minus(self._frontier(after), self._frontier(before))
        work = plus(conf.work[location], news)
        return Configuration(
            _replaced(conf.pts, location, after), conf.imp, _replaced(conf.work, location, work)
        )

    def propagate(self, conf: Configuration, location: Location, time: Time) -> Configuration:
        """Absorb one worklist entry into imp, and push the change of the frontier to the successors."""
        before = conf.imp[location]
        after = plus(before, ((time, count(conf.work[location], time)),))
        pushed = self.pushed(before, after)
        work = [
            plus(entries, after_edge(self.arrival, pushed, self.graph.summary(location, successor)))
            for successor, entries in enumerate(conf.work)
        ]
        work[location] = tuple(entry for entry in conf.work[location] if entry[0] != time)
        return Configuration(conf.pts, _replaced(conf.imp, location, after), tuple(work))

    def propagations(self, conf: Configuration) -> Iterator[tuple[Location, Time]]:
        """Every entry that may be propagated now."""
        for location, entries in enumerate(conf.work):
            for time, _ in entries:
                if self.may_propagate(conf, time):
                    yield location, time

    def settle(self, conf: Configuration) -> Configuration | None:
        """Propagate until all worklists are empty; None if that takes more than the bound."""
        for _ in range(PROPAGATION_STEPS_MAX):
            if not any(conf.work):
                break
            conf = self.propagate(conf, *next(self.propagations(conf)))
        return None if any(conf.work) else conf

    # Predicates, by the names of the papers.

    def imp_nonneg(self, conf: Configuration) -> bool:
        """ImpNonneg: no implication has a negative count."""
        return all(nonnegative(counts) for counts in conf.imp)

    def imp_plus_work_nonneg(self, conf: Configuration) -> bool:
        """ImpPlusWorkNonneg: what imp will be once its own worklist is absorbed is never negative."""
        return all(nonnegative(plus(imp, work)) for imp, work in zip(conf.imp, conf.work, strict=True))

    def work_sum(self, conf: Configuration) -> bool:
        """WorkSum: imp + work = frontier(pts) + what the frontiers of all locations push here."""
        shown = [_once_each(antichain) for antichain in self.shown(conf.imp)]
        results_in = self.graph.times.results_in
        return all(
            plus(conf.imp[here], conf.work[here])
            == total(
                (
                    _once_each(self._true_frontier(conf.pts[here])),
                    *(
                        after_edge(results_in, counts, self.graph.summary(there, here))
                        for there, counts in enumerate(shown)
                    ),
                )
            )
            for here in self.graph.locations()
        )

    def work_vacant(self, conf: Configuration, time: Time) -> bool:
        """Return whether no worklist entry can arrive anywhere at or before this time."""
        less_equal = self.graph.times.less_equal
        return not any(
            less_equal(arrival, time)
            for location, entries in enumerate(conf.work)
            for entry, _ in entries
            for _, arrival in self._reached(location, entry)
        )

    def inv_safe(self, conf: Configuration) -> bool:
        """InvSafe: where no work is left at or before it, each time that a pointstamp reaches is expected."""
        return all(
            self._some_at_or_below(conf.imp[target], arrival) or not self.work_vacant(conf, arrival)
            for target, arrival in self._all_reached(conf.pts)
        )

    def converged(self, conf: Configuration) -> bool:
        """Converged: frontiers and implied frontiers agree on every time before which no work is left."""
        implied = self._implied(conf.pts)
        shown = self.shown(conf.imp)
        return all(
            not self.work_vacant(conf, time)
            for here in self.graph.locations()
            for time in shown[here] ^ implied[here]
        )

    def safe(self, conf: Configuration) -> bool:
        """Safe: each time that a pointstamp reaches is expected where it arrives."""
        return self.expected(self._all_reached(conf.pts), conf.imp)

    def impl_safe(self, conf: Configuration) -> bool:
        """ImplSafe: each time that an implication reaches is expected where it arrives."""
        return self.expected(self._all_reached(conf.imp), conf.imp)

    def terminates(self, conf: Configuration) -> bool:
        """Terminates: every schedule of propagate steps ends within the bound."""
        return self.longest_propagation(conf) is not None

    def longest_propagation(self, conf: Configuration, bound: int = PROPAGATION_STEPS_MAX) -> int | None:
        """The most propagate steps until the worklists are empty; None if a schedule exceeds the bound."""
        known = self._longest.get((conf.imp, conf.work))
        if known is not None:
            return known if known <= bound else None
        longest = 0
        for location, time in self.propagations(conf):
            if bound == 0:
                return None
            rest = self.longest_propagation(self.propagate(conf, location, time), bound - 1)
            if rest is None:
                return None
            longest = max(longest, 1 + rest)
        self._longest[conf.imp, conf.work] = longest
        return longest

    # Derived values.

    def shown(self, imp: PerLocation) -> tuple[frozenset[Time], ...]:
        """The frontiers that operators are shown, per location."""
        return tuple(self._true_frontier(counts) for counts in imp)

    def expected(self, arrivals: Iterable[tuple[Location, Time]], imp: PerLocation) -> bool:
        """Return whether at each arrival some element of the frontier is at or below it."""
        return all(self._some_at_or_below(imp[target], time) for target, time in arrivals)

    def no_regress(self, before: Sequence[frozenset[Time]], after: Sequence[frozenset[Time]]) -> bool:
        """Whether each element of each later frontier is at or above some element of the earlier one."""
        less_equal = self.graph.times.less_equal
        return all(
            any(less_equal(old, new) for old in earlier)
            for earlier, later in zip(before, after, strict=True)
            for new in later
        )

    def show(self, conf: Configuration) -> str:
        """A configuration for a reader: ``pts = {x: 0:1}  imp = {}  work = {x: 0:1}``."""
        return "  ".join(f"{field} = {self._show(parts)}" for field, parts in conf._asdict().items())

    def _show(self, parts: PerLocation) -> str:
        named = zip(self.graph.names, parts, strict=True)
        shown = (f"{name}: " + " ".join(f"{t}:{n}" for t, n in counts) for name, counts in named if counts)
        return "{" + ", ".join(shown) + "}"

    def reached(self, location: Location, time: Time) -> tuple[tuple[Location, Time], ...]:
        """Every (location, time) at which something now here may arrive first."""
        return self._reached(location, time)

    def _arrivals(self, location: Location, time: Time) -> tuple[tuple[Location, Time], ...]:
        return tuple(
            (target, arrival)
            for target in self.graph.locations()
            for arrival in self.graph.reached(location, time, target)
        )

    def _all_reached(self, parts: PerLocation) -> Iterator[tuple[Location, Time]]:
        for location, counts in enumerate(parts):
            for time, number in counts:
                if number > 0:
                    yield from self._reached(location, time)

    def _implied_frontiers(self, pts: PerLocation) -> tuple[frozenset[Time], ...]:
        return tuple(self.graph.implied_frontier(pts, location) for location in self.graph.locations())

    def _some_at_or_below(self, counts: Counts, time: Time) -> bool:
        less_equal = self.graph.times.less_equal
        return any(less_equal(element, time) for element in self._true_frontier(counts))


def after_edge(
    results_in: Callable[[Time, Summary], Time | None], counts: Counts, summaries: Iterable[Summary]
) -> Counts:
    """The image of the counts under each summary of an edge, summed; what never arrives is dropped."""
    arrivals = ((results_in(time, s), number) for s in summaries for time, number in counts)
    return zm((time, number) for time, number in arrivals if time is not None)


def _replaced(parts: PerLocation, location: Location, part: Counts) -> PerLocation:
    return (*parts[:location], part, *parts[location + 1 :])


def _once_each(antichain: Iterable[Time]) -> Counts:
    return zm((time, 1) for time in antichain)
