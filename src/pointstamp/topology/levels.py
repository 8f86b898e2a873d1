"""A linear extension of could-result-in, which proves that every cycle advances time.

Propagation must take pointstamps in an order in which nothing taken later can still change what was taken
before: a linear extension of could-result-in on (port, time). With one time domain for all ports sorting
by time would do; here domains differ, and leaving a loop makes a time shorter, so ports take part.

The ports fall into strongly connected components, which have a topological order. A port that is alone in
its component, without a hop to itself, needs nothing more: its position comes before its time. Inside any
other component time must decide first. Without the edges that advance the root coordinate it falls into
components again; one with a cycle is a loop: all its ports must have a round to continue with, and every edge
in it must keep that round, or some cycle ends where it began. The same is then done inside, without the edges
that advance the round as well, and so on inwards: an edge that has advanced an outer coordinate stays out of
every inner level, where its own key has grown already. The key of (port, time) alternates positions and
coordinates, ``(position, epoch, position, round, position, ...)``: along every edge it grows.

Condition kept: for every cycle with summary s and every time t, never s(t) <= t. That makes
could-result-in a partial order. It asks less than t < s(t), on purpose: with nested loops the way from an
inner port round the outer loop leads from (e, 0, 5) to (e, 1, 0), which is incomparable and legitimate.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pointstamp.errors import TopologyError
from pointstamp.order.components import strongly_connected_components
from pointstamp.topology.domain import Domain, Epochs, Time
from pointstamp.topology.ports import Location
from pointstamp.topology.summary import Summary
from pointstamp.topology.times import interleaver

Levels: TypeAlias = tuple[tuple[int, ...], ...]
"""For each location its position in the complete graph, then in its component, and so on inwards.

The first positions number the components of the complete graph; a location on no cycle has only that one.
"""

PointKey: TypeAlias = Callable[[Time], tuple[Any, ...]]
"""From a time at one location to its key in the linear extension."""


_WHOLE_GRAPH: Final = -1
"""The outermost level, at which no coordinate of time plays a part."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One edge between ports, with one of its summaries."""

    origin: Location
    target: Location
    summary: Summary


@dataclass(frozen=True, slots=True)
class Hops:
    """The graph as this file sees it: for each location its operator's name, its domain, its hops."""

    names: Sequence[str]
    domains: Sequence[Domain]
    outgoing: Sequence[Sequence[Hop]]


def levels_of(graph: Hops) -> Levels:
    """The positions of every location; raise TopologyError where a cycle does not advance time."""
    positions: list[tuple[int, ...]] = [()] * len(graph.names)
    pending = [(_WHOLE_GRAPH, tuple(Location(number) for number in range(len(graph.names))))]
    while pending:
        level, members = pending.pop()
        standing = _standing_hops(graph, members, level)
        following = {location: [hop.target for hop in hops] for location, hops in standing.items()}
        components = strongly_connected_components(members, following.__getitem__)
        for position, component in enumerate(components):
            for location in component:
                positions[location] += (position,)
            if len(component) > 1 or component[0] in following[component[0]]:
                _check_goes_on(graph, component, standing, level + 1)
                pending.append((level + 1, component))
    return tuple(positions)


def point_key(domain: Domain, positions: tuple[int, ...]) -> PointKey:
    """The sort key of a location's times among all pointstamps of the graph."""
    inner = interleaver(positions)
    if type(domain.root) is Epochs:
        return inner
    root_key = domain.root.sort_key
    return lambda time: inner((root_key(time[0]), *time[1:]))


def _standing_hops(graph: Hops, members: Collection[Location], level: int) -> dict[Location, list[Hop]]:
    """The hops among these locations that advance no coordinate up to that of this level."""
    inside = set(members)
    return {
        location: [
            hop
            for hop in graph.outgoing[location]
            if hop.target in inside and not any(map(hop.summary.advances, range(level + 1)))
        ]
        for location in members
    }


def _check_goes_on(
    graph: Hops, component: Sequence[Location], standing: dict[Location, list[Hop]], coordinate: int
) -> None:
    inside = set(component)
    for location in component:
        hops = [hop for hop in standing[location] if hop.target in inside]
        lost = [hop for hop in hops if not hop.summary.keeps(coordinate)]
        if graph.domains[location].rounds < coordinate:
            raise _zero_cycle(graph, location, inside, standing)
        if lost:
            raise _zero_cycle(graph, lost[0].target, inside, standing)


def _zero_cycle(
    graph: Hops, start: Location, inside: set[Location], standing: dict[Location, list[Hop]]
) -> TopologyError:
    """Name the operators on a shortest cycle through this location that does not advance time."""
    came_from: dict[Location, Location] = {}
    waiting = [start]
    for location in waiting:
        for hop in standing[location]:
            if hop.target in inside and hop.target not in came_from:
                came_from[hop.target] = location
                waiting.append(hop.target)
    cycle = [start]
    while (previous := came_from[cycle[-1]]) != start:
        cycle.append(previous)
    names: list[str] = []
    for location in [start, *reversed(cycle)]:
        name = graph.names[location]
        if not names or names[-1] != name:
            names.append(name)
    if len(names) > 1 and names[0] == names[-1]:
        names.pop()
    return TopologyError(
        f"the cycle {' -> '.join([*names, names[0]])} does not strictly advance time: a row that goes "
        "round it comes back at the time at which it left. Put a feedback of a loop, or a delay, on it."
    )
