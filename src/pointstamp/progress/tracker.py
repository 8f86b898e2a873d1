"""The tracker: counts of pointstamps in, the frontier of every port out, incrementally.

This is local propagation (Brun et al. 2021, section 5). For each port it holds the *occurrences*, the
counted pointstamps there, and the *implications*, what the occurrences anywhere imply for it: its own
frontier of occurrences plus the frontiers of the implications at its predecessors, moved along the edges.
The frontier of the implications is what an operator may see.

Only changes of frontiers flow on, so work is proportional to the ports whose frontier moves and not to the
graph. Pending work is taken in a linear extension of could-result-in (``pointstamp.topology.levels``):
nothing taken later can change what was taken before, so each pointstamp is touched at most once in a
propagation, and propagation ends, also round loops.

Invariant, whenever ``propagate`` has returned: the frontier of the implications at a port is the implied
frontier, the minimal elements of all s(t) with a counted pointstamp (p, t) and a path summary s from p.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

from pointstamp.errors import InternalError, ProgressError
from pointstamp.order.antichain import Antichain
from pointstamp.order.frontier import MutableAntichain
from pointstamp.progress.pointstamp import Change
from pointstamp.topology.domain import Domain, Time
from pointstamp.topology.graph import Graph
from pointstamp.topology.levels import PointKey, point_key
from pointstamp.topology.ports import Location, Port
from pointstamp.topology.summary import Summary

Move: TypeAlias = Callable[[Time], Time | None] | None
"""What an edge does to a time; None where it does nothing."""


class Tracker:
    """The progress of one worker's view of the whole graph.

    ``update`` gathers changes, ``propagate`` draws the conclusions. Frontiers are read between
    propagations only, and not before the first one: until then an empty frontier would look like a
    stream that is complete.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._occurrences = [MutableAntichain(domain) for domain in graph.domains]
        self._implications = [MutableAntichain(domain) for domain in graph.domains]
        self._keys: list[PointKey] = [
            point_key(domain, positions)
            for domain, positions in zip(graph.domains, graph.levels, strict=True)
        ]
        self._edges: list[tuple[tuple[Location, Move], ...]] = [
            tuple((hop.target, _move(hop.summary, graph.domains[hop.origin])) for hop in hops)
            for hops in graph.hops
        ]
        # Work that is not done: the sum for each (location, time), and a heap that says what comes next.
        self._work: dict[tuple[Location, Time], int] = {}
        self._heap: list[tuple[tuple[Any, ...], int, Location, Time]] = []
        self._pushed = 0
        self._frontiers: dict[Location, Antichain[Time]] = {}
        self._readable = False

    def update(self, location: Location, time: Time, count: int) -> None:
        """Change the count of one pointstamp; the conclusions wait for ``propagate``."""
        for moved, change in self._occurrences[location].update(time, count):
            self._push(location, moved, change)

    def update_all(self, changes: Iterable[Change]) -> None:
        """Change many counts."""
        for location, time, count in changes:
            for moved, change in self._occurrences[location].update(time, count):
                self._push(location, moved, change)

    def propagate(self) -> list[Location]:
        """Draw all conclusions; return the locations whose frontier is another than before."""
        self._readable = False
        before: dict[Location, tuple[Time, ...]] = {}
        work, heap, implications, edges = self._work, self._heap, self._implications, self._edges
        while heap:
            _, _, location, time = heappop(heap)
            count = work.pop((location, time))
            if not count:
                continue
            implied = implications[location]
            frontier = tuple(implied.frontier)
            changes = implied.update(time, count)
            if not changes:
                continue
            before.setdefault(location, frontier)
            for target, move in edges[location]:
                for moved, change in changes:
                    after = moved if move is None else move(moved)
                    if after is not None:
                        self._push(target, after, change)
        self._readable = True
        return [
            location for location, old in before.items() if set(old) != set(implications[location].frontier)
        ]

    def frontier(self, location: Location) -> Sequence[Time]:
        """The frontier of a port as it is after the last propagation; do not keep or change the list."""
        if not self._readable:
            raise ProgressError(
                f"the frontier of {self.graph.describe(location)} was read before or during a propagation; "
                "frontiers are read between propagations only."
            )
        return self._implications[location].frontier

    def may_come(self, location: Location, time: Time) -> bool:
        """Whether a message at this time may still arrive at, or leave, this port."""
        less_equal = self.graph.domains[location].less_equal
        return any(less_equal(lower, time) for lower in self.frontier(location))

    def frontier_at(self, port: Port) -> Antichain[Time]:
        """The frontier of a port as a value that can be kept and compared."""
        location = self.graph.location(port)
        return Antichain.of(self.graph.domains[location], self.frontier(location))

    def occurrences(self, location: Location) -> dict[Time, int]:
        """The counts at a location as they are known here; counts may be negative for a while."""
        return dict(self._occurrences[location].counts)

    def is_complete(self) -> bool:
        """Whether nothing is counted anywhere: every stream is complete."""
        return not any(occurrences.counts for occurrences in self._occurrences)

    def expect_consistent(self) -> None:
        """Raise InternalError if an implied count is negative or work is left; for tests and debugging."""
        if self._heap or self._work:
            raise InternalError(f"{len(self._work)} pieces of propagation were left undone")
        for number, implied in enumerate(self._implications):
            negative = {time: count for time, count in implied.counts.items() if count < 0}
            if negative:
                where = self.graph.describe(Location(number))
                raise InternalError(f"the implications at {where} have negative counts: {negative}")

    def _push(self, location: Location, time: Time, count: int) -> None:
        point = (location, time)
        waiting = self._work.get(point)
        if waiting is not None:
            self._work[point] = waiting + count
            return
        self._work[point] = count
        # The number breaks ties of a user's sort keys, so that times themselves are never compared.
        self._pushed += 1
        heappush(self._heap, (self._keys[location](time), self._pushed, location, time))


def _move(summary: Summary, origin: Domain) -> Move:
    """The fastest function that does what the summary does; epochs in and out of one loop are spelt out."""
    if summary.is_identity(origin):
        return None
    return summary.results_in
