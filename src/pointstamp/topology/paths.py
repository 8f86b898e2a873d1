"""Minimal path summaries between all pairs of ports.

``between(a, b)`` is the antichain of minimal summaries over all paths from a to b; a port reaches itself
by the identity. Rows are computed when they are first asked for: nothing in the inner loop of progress
tracking needs them, and a graph of a thousand operators has millions of pairs.

Paths through a port twice matter: with nested loops, going round the outer loop resets the inner round,
and (e, 1, 0) is not above (e, 0, 5). So the search is a fixpoint over summaries, not a search of simple
paths. It ends because every cycle advances time, and going round a second time never leads lower.
"""

from collections import deque

from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, Port
from pointstamp.topology.summary import Summary, identity, insert_minimal


class PathSummaries:
    """The minimal path summaries of one graph, computed row by row."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self._rows: dict[Location, dict[Location, tuple[Summary, ...]]] = {}

    def between(self, origin: Port, target: Port) -> tuple[Summary, ...]:
        """The minimal summaries from one port to another; empty where there is no path."""
        row = self.row(self.graph.location(origin))
        return row.get(self.graph.location(target), ())

    def row(self, origin: Location) -> dict[Location, tuple[Summary, ...]]:
        """The locations that one location reaches, with the minimal summaries."""
        if origin not in self._rows:
            self._rows[origin] = self._search(origin)
        return self._rows[origin]

    def all_pairs(self) -> dict[tuple[Location, Location], tuple[Summary, ...]]:
        """The complete table; quadratic in the number of ports."""
        return {
            (Location(origin), target): summaries
            for origin in range(len(self.graph.ports))
            for target, summaries in self.row(Location(origin)).items()
        }

    def _search(self, origin: Location) -> dict[Location, tuple[Summary, ...]]:
        start = identity(self.graph.domains[origin].rounds)
        best: dict[Location, list[Summary]] = {origin: [start]}
        waiting = deque([(origin, start)])
        while waiting:
            location, summary = waiting.popleft()
            if summary not in best[location]:
                continue  # a lower one has taken its place
            for hop in self.graph.hops[location]:
                further = summary.followed_by(hop.summary)
                if further is not None and insert_minimal(best.setdefault(hop.target, []), further):
                    waiting.append((hop.target, further))
        return {location: tuple(summaries) for location, summaries in best.items()}
