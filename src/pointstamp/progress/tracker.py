"""The tracker: from counts of pointstamps to frontiers of ports, incrementally.

This is local propagation (Brun et al. 2021, section 5). For each port it holds the *occurrences*, the
counted pointstamps there, and the *implications*, what the occurrences anywhere imply for it: its own
frontier of occurrences plus the frontiers of the implications at its predecessors, moved along the edges.
The frontier of the implications is what an operator may see.

Only changes of frontiers flow on, so work is proportional to the ports whose frontier moves and not to the
graph. Pending work is taken in a linear extension of could-result-in (``pointstamp.topology.levels``):
nothing taken later can change what was taken before. So a port outside loops is visited at most once in a
propagation, with all its changes together, and inside a loop each time at each port; propagation ends.

Invariant, whenever ``propagate`` has returned: the frontier of the implications at a port is the implied
frontier, the minimal elements of all s(t) with a counted pointstamp (p, t) and a path summary s from p.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from pointstamp.errors import InternalError, ProgressError
from pointstamp.order.frontier import MutableAntichain
from pointstamp.progress.loops import AnyLoop, Changes, Move, PlainLoop, is_plain
from pointstamp.progress.pointstamp import Change
from pointstamp.topology.domain import Domain, Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location
from pointstamp.topology.summary import Summary

NOTHING: Final[Changes] = ()


class Tracker:
    """The progress of the complete graph as one worker sees it.

    ``update`` gathers changes, ``propagate`` draws the conclusions. Frontiers are read between
    propagations only, and not before the first one: until then an empty frontier would look like a
    stream that is complete.
    """

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self._occurrences = [MutableAntichain(domain) for domain in graph.domains]
        self._implications = [MutableAntichain(domain) for domain in graph.domains]
        self._edges: list[tuple[tuple[Location, Move], ...]] = [
            tuple((hop.target, _move(hop.summary, graph.domains[hop.origin])) for hop in hops)
            for hops in graph.hops
        ]
        self._ranks = [positions[0] for positions in graph.levels]
        self._members: list[list[Location]] = [[] for _ in set(self._ranks)]
        for number, rank in enumerate(self._ranks):
            self._members[rank].append(Location(number))
        # Each component with cycles has its work in one of these.
        self._plain: list[PlainLoop | None] = [None] * len(self._members)
        self._loops: list[AnyLoop | None] = [None] * len(self._members)
        for rank, members in enumerate(self._members):
            if len(members) > 1 and is_plain(graph, members):
                self._plain[rank] = PlainLoop(graph, members)
            elif len(members) > 1:
                self._loops[rank] = AnyLoop(graph, members)
        # Work that is not done outside loops, by location, and the ranks of the components that have some.
        self._pending: list[Changes] = [NOTHING] * len(graph.ports)
        self._waiting: list[int] = []
        self._readable = False

    def update(self, location: Location, time: Time, diff: int) -> None:
        """Change the count of one pointstamp; the conclusions wait for ``propagate``."""
        self.update_all((Change(location, time, diff),))

    def update_all(self, changes: Sequence[Change]) -> None:
        """Change many counts."""
        done, many = 0, len(changes)
        while done < many:
            location, time, diff = changes[done]
            done += 1
            occurrences = self._occurrences[location]
            if done < many and changes[done][0] == location:
                # A capability that moves on: what it leaves is taken first, and what comes stands there then.
                after, other = changes[done][1], changes[done][2]
                done += 1
                pair = ((time, diff), (after, other)) if diff < 0 else ((after, other), (time, diff))
                moved = occurrences.update_all(pair)
            else:
                moved = occurrences.update(time, diff)
            if moved:
                self._push(location, None, moved)

    def propagate(self) -> list[Location]:
        """Draw all conclusions; return the locations whose frontier has changed."""
        self._readable = False
        moved: list[Location] = []
        waiting, pending = self._waiting, self._pending
        while waiting:
            rank = heappop(waiting)
            plain = self._plain[rank]
            if plain is not None:
                moved.extend(self._propagate_plain(plain, rank))
                continue
            loop = self._loops[rank]
            if loop is not None:
                moved.extend(self._propagate_loop(loop, rank))
                continue
            location = self._members[rank][0]
            work, pending[location] = pending[location], NOTHING
            changes = self._implications[location].update_all(work)
            if changes:
                moved.append(location)
                for target, move in self._edges[location]:
                    self._push(target, move, changes)
        self._readable = True
        return moved

    def frontier(self, location: Location) -> Sequence[Time]:
        """The frontier of a port as it is after the last propagation; do not keep or change the list."""
        if not self._readable:
            raise ProgressError(
                f"the frontier of {self.graph.describe(location)} was read before or during a "
                "propagation. Read frontiers between propagations only."
            )
        return self._implications[location].frontier

    def may_come(self, location: Location, time: Time) -> bool:
        """Return whether a message at this time may still arrive at, or leave, this port."""
        less_equal = self.graph.domains[location].less_equal
        for lower in self.frontier(location):  # noqa: SIM110 - any() takes longer
            if less_equal(lower, time):
                return True
        return False

    def is_covered(self, location: Location, time: Time) -> bool:
        """Return whether another counted pointstamp could result in this one, as of the last propagation.

        As long as one does, no frontier anywhere depends on how often this one is counted.
        """
        implied = self._implications[location]
        less_equal = self.graph.domains[location].less_equal
        for lower in implied.frontier:
            if lower == time:
                # The port's own occurrences imply it once at most; what is more has come along edges.
                own = 1 if time in self._occurrences[location].frontier else 0
                return implied.counts[time] > own
            if less_equal(lower, time):
                return True
        return False

    def occurrences(self, location: Location) -> dict[Time, int]:
        """The counts at a location as they are known here; counts may be negative for a while."""
        return dict(self._occurrences[location].counts)

    def count(self, location: Location, time: Time) -> int:
        """Return the count of one pointstamp; temporarily negative counts are legal."""
        return self._occurrences[location].counts.get(time, 0)

    def is_complete(self) -> bool:
        """Return whether nothing is counted anywhere: every stream is complete."""
        return not any(occurrences.counts for occurrences in self._occurrences)

    def expect_consistent(self) -> None:
        """Raise InternalError if work is left or an implied count is negative; for tests and debugging."""
        loops = [loop for loop in (*self._plain, *self._loops) if loop is not None]
        if self._waiting or any(self._pending) or any(not loop.is_idle() for loop in loops):
            raise InternalError("propagation left work undone")
        for number, implied in enumerate(self._implications):
            negative = {time: count for time, count in implied.counts.items() if count < 0}
            if negative:
                where = self.graph.describe(Location(number))
                raise InternalError(f"the implications at {where} have negative counts: {negative}")

    def _push(self, location: Location, move: Move, changes: Changes) -> None:
        """Leave changes at a location as work, moved along an edge, and let its component wait its turn."""
        rank = self._ranks[location]
        plain = self._plain[rank]
        if plain is not None:
            if plain.is_idle():
                heappush(self._waiting, rank)
            plain.push(location, move, changes)
            return
        loop = self._loops[rank]
        if loop is not None:
            if loop.is_idle():
                heappush(self._waiting, rank)
            loop.push(location, move, changes)
            return
        if move is not None:
            changes = [(after, diff) for time, diff in changes if (after := move(time)) is not None]
        work = self._pending[location]
        if work:
            self._pending[location] = [*work, *changes]
        elif changes:
            self._pending[location] = changes
            heappush(self._waiting, rank)

    def _propagate_plain(self, loop: PlainLoop, rank: int) -> list[Location]:
        """Draw the conclusions inside a loop without loops in it, time by time."""
        before: dict[Location, list[Time]] = {}
        members = loop.members
        while not loop.is_idle():
            time, diffs = loop.first()
            for position in range(len(members)):
                # What is taken at one member adds to this time at later ones only.
                diff = diffs[position]
                if diff:
                    location = members[position]
                    implied = self._implications[location]
                    if location not in before:
                        before[location] = list(implied.frontier)
                    changes = implied.update(time, diff)
                    if changes:
                        for target, move in self._edges[location]:
                            if self._ranks[target] == rank:
                                loop.push(target, move, changes)
                            else:
                                self._push(target, move, changes)
            loop.end()
        return self._moved_since(before)

    def _propagate_loop(self, loop: AnyLoop, rank: int) -> list[Location]:
        """Draw the conclusions inside any component, time by time, until it has no work left."""
        before: dict[Location, list[Time]] = {}
        while not loop.is_idle():
            location, time, diff = loop.pop()
            if not diff:
                continue
            implied = self._implications[location]
            if location not in before:
                before[location] = list(implied.frontier)
            changes = implied.update(time, diff)
            if changes:
                for target, move in self._edges[location]:
                    if self._ranks[target] == rank:
                        loop.push(target, move, changes)
                    else:
                        self._push(target, move, changes)
        return self._moved_since(before)

    def _moved_since(self, before: dict[Location, list[Time]]) -> list[Location]:
        """The locations that have another frontier than they had."""
        return [at for at, old in before.items() if _moved(old, self._implications[at].frontier)]


def _moved(old: Sequence[Time], new: Sequence[Time]) -> bool:
    """Return whether a frontier has other elements than before; they are few, and in no order."""
    return len(old) != len(new) or any(time not in new for time in old)


def _move(summary: Summary, origin: Domain) -> Move:
    """The effect of the summary on a time of this domain, as a function; None for the identity."""
    return None if summary.is_identity(origin) else summary.compiled()
