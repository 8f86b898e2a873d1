"""Explain a frontier: the pointstamps that hold it back, and their paths.

An element f of a port's frontier stands there because some counted pointstamp (p, t) has a path summary s
to the port with s(t) = f. ``holders`` names each such pointstamp with a shortest such path, which is all
that there is to know: take these pointstamps away, and the frontier moves.

A pure function of a tracker between propagations. It searches backwards from the port, so it costs what
the part of the graph upstream of the port costs; it is for people, not for the inner loop.
"""

from collections import deque
from dataclasses import dataclass

from pointstamp.progress.pointstamp import Pointstamp
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.levels import Hop
from pointstamp.topology.ports import Location, Port
from pointstamp.topology.summary import Summary, identity, insert_minimal


@dataclass(frozen=True, slots=True)
class Holder:
    """A pointstamp that holds the frontier of a port at ``arrival``, its count, and its path to the port."""

    pointstamp: Pointstamp
    count: int
    path: tuple[Port, ...]
    summary: Summary
    arrival: Time
    place: str
    """The port where it stands, as text."""
    description: str

    def __str__(self) -> str:
        return self.description


@dataclass(frozen=True, slots=True)
class _Way:
    """A path from a location to the port that is asked about, as its first hop and the way from there."""

    summary: Summary
    locations: tuple[Location, ...]


def holders(tracker: Tracker, port: Port) -> list[Holder]:
    """The pointstamps that hold back the frontier of this port; none where the port is complete."""
    graph = tracker.graph
    target = graph.location(port)
    frontier = set(tracker.frontier(target))
    found = []
    for location, ways in _ways_to(graph, target).items():
        for time, count in sorted(tracker.occurrences(location).items(), key=lambda item: str(item[0])):
            for way in ways:
                arrival = way.summary.results_in(time) if count > 0 else None
                if arrival is not None and arrival in frontier:
                    found.append(_holder(graph, Pointstamp(location, time), count, way, arrival))
    return found


def _holder(graph: OperatorGraph, point: Pointstamp, count: int, way: _Way, arrival: Time) -> Holder:
    hops = " -> ".join(graph.describe(location) for location in way.locations)
    times = "is outstanding" if count == 1 else f"is outstanding {count} times"
    place = graph.describe(point.location)
    here = f"time {point.time} {times} at {place}"
    if len(way.locations) > 1:
        here += f" and could result in {arrival} at {graph.describe(way.locations[-1])}, by {hops}"
    path = tuple(graph.ports[location] for location in way.locations)
    return Holder(point, count, path, way.summary, arrival, place, here)


def _ways_to(graph: OperatorGraph, target: Location) -> dict[Location, list[_Way]]:
    """For each location upstream, the minimal summaries to the target, each with a shortest path."""
    incoming: dict[Location, list[Hop]] = {}
    for hops in graph.hops:
        for hop in hops:
            incoming.setdefault(hop.target, []).append(hop)
    start = _Way(identity(graph.domains[target].rounds), (target,))
    best: dict[Location, list[Summary]] = {target: [start.summary]}
    ways: dict[Location, list[_Way]] = {target: [start]}
    waiting = deque([start])
    while waiting:
        way = waiting.popleft()
        for hop in incoming.get(way.locations[0], ()):
            summary = hop.summary.followed_by(way.summary)
            if summary is None or not insert_minimal(best.setdefault(hop.origin, []), summary):
                continue
            longer = _Way(summary, (hop.origin, *way.locations))
            kept = [other for other in ways.get(hop.origin, []) if other.summary in best[hop.origin]]
            ways[hop.origin] = [*kept, longer]
            waiting.append(longer)
    return ways
