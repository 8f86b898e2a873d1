"""The tracker's inner loops: changed times and the next work item.

A component with cycles takes its work in a linear extension of could-result-in: the coordinates of a time
alternate with the positions of its port (``pointstamp.topology.levels``). In a loop that has no other loop in
it, that is the order of the times, and at one time the order of the ports; ``PlainLoop`` needs no more than a
row of counts for each time. ``AnyLoop`` sorts by the complete key, for loops in loops and times of a user's
own.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, TypeAlias

from pointstamp.topology.domain import Epochs, Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.levels import PointKey, point_key
from pointstamp.topology.ports import Location

Move: TypeAlias = Callable[[Time], Time | None] | None
"""The effect of an edge on a time; None if it has none."""

Changes: TypeAlias = Sequence[tuple[Time, int]]
"""The times that joined (+1) and left (-1) a frontier; immutable, so that it can be shared."""


class PlainLoop:
    """The work of a loop without loops in it: by time, and for each by the position of its port."""

    __slots__ = ("_position", "_rows", "members", "times")

    def __init__(self, graph: OperatorGraph, members: Sequence[Location]) -> None:
        self.members = sorted(members, key=graph.levels.__getitem__)
        self._position: dict[Location, int] = {at: number for number, at in enumerate(self.members)}
        self._rows: dict[Time, list[int]] = {}
        self.times: list[Time] = []

    def is_idle(self) -> bool:
        """Return whether nothing is left to do."""
        return not self.times

    def push(self, location: Location, move: Move, changes: Changes) -> None:
        """Add changes at a location, moved along an edge."""
        position = self._position[location]
        rows = self._rows
        for time, diff in changes:
            after = time if move is None else move(time)
            if after is None:
                continue
            row = rows.get(after)
            if row is None:
                row = [0] * len(self.members)
                rows[after] = row
                heappush(self.times, after)
            row[position] += diff

    def first(self) -> tuple[Time, list[int]]:
        """The first time that has changed, and how at each member; more may be added at later members."""
        time = self.times[0]
        return time, self._rows[time]

    def end(self) -> None:
        """The first time is done with."""
        del self._rows[heappop(self.times)]


class AnyLoop:
    """The work of any component with cycles: taken in the order of its keys, each pointstamp once."""

    __slots__ = ("_heap", "_keys", "_pushed", "_work")

    def __init__(self, graph: OperatorGraph, members: Sequence[Location]) -> None:
        self._work: dict[tuple[Location, Time], int] = {}
        self._heap: list[tuple[tuple[Any, ...], int, Location, Time]] = []
        self._keys: dict[Location, PointKey] = {
            location: point_key(graph.domains[location], graph.levels[location]) for location in members
        }
        self._pushed = 0

    def is_idle(self) -> bool:
        """Return whether nothing is left to do."""
        return not self._heap

    def push(self, location: Location, move: Move, changes: Changes) -> None:
        """Add changes at a location, moved along an edge."""
        work = self._work
        for time, diff in changes:
            after = time if move is None else move(time)
            if after is None:
                continue
            point = (location, after)
            if point in work:
                work[point] += diff
                continue
            work[point] = diff
            # The number breaks ties of a user's sort keys, so that times themselves are never compared.
            self._pushed += 1
            heappush(self._heap, (self._keys[location](after), self._pushed, location, after))

    def pop(self) -> tuple[Location, Time, int]:
        """Take out the first pointstamp, and how its count has changed."""
        _, _, location, time = heappop(self._heap)
        return location, time, self._work.pop((location, time))


def is_plain(graph: OperatorGraph, members: Sequence[Location]) -> bool:
    """Return whether the keys of a component sort by the time alone, and at one time by the last position."""
    above = graph.levels[members[0]][:-1]
    for location in members:
        levels, domain = graph.levels[location], graph.domains[location]
        if levels[:-1] != above or len(levels) != domain.rounds + 2 or type(domain.root) is not Epochs:
            return False
    return True
