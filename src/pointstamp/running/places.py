"""Pointstamps as text: one phrase per port.

A loop that has gone far may have thousands of times counted at one input; they are told together, as how
many messages there are and from which time to which.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.progress.pointstamp import Pointstamp
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.domain import EPOCHS, Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, Target


@dataclass(frozen=True, slots=True)
class Place:
    """All that is counted at one port: how much, and the first and last time in the order of sorting."""

    location: Location
    count: int
    first: Time
    last: Time


def counted_by(tracker: Tracker) -> dict[Pointstamp, int]:
    """Every pointstamp that a tracker counts, without those that are negative for a while."""
    return {
        Pointstamp(location, time): count
        for location in map(Location, range(len(tracker.graph.ports)))
        for time, count in tracker.occurrences(location).items()
        if count > 0
    }


def places_of(graph: OperatorGraph, counted: Iterable[tuple[Pointstamp, int]]) -> list[Place]:
    """The counted pointstamps by port, in the order in which their ports come first."""
    times: dict[Location, list[Time]] = {}
    counts: dict[Location, int] = {}
    for (location, time), count in counted:
        times.setdefault(location, []).append(time)
        counts[location] = counts.get(location, 0) + count
    places = []
    for location, here in times.items():
        sort_key = graph.domains[location].sort_key
        places.append(Place(location, counts[location], min(here, key=sort_key), max(here, key=sort_key)))
    return places


def place_words(
    plan: Plan, graph: OperatorGraph, place: Place, rows: Mapping[Location, int] | None = None
) -> str:
    """Describe a pointstamp: waiting messages at an input, or an output that may still send."""
    first, last = time_words(plan, place.first), time_words(plan, place.last)
    port = graph.ports[place.location]
    if isinstance(port, Target):
        waiting = (rows or {}).get(place.location, 0)
        content = f" with {number_words(waiting, 'row')}" if waiting else ""
        when = f"at {first}" if first == last else f"from {first} to {last}"
        messages = number_words(place.count, "message")
        return f"{messages} {when}{content} for {graph.describe(place.location)}"
    node = plan.nodes[port.operator]
    who = f"input '{node.name}'" if node.kind is NodeKind.INPUT else graph.describe(place.location)
    return f"{who} may still send at {first}" + ("" if first == last else " and later")


def time_words(plan: Plan, time: Time) -> str:
    """A time as text: ``epoch 3`` outside loops, ``(3, 7)`` within."""
    if len(time) > 1:
        return f"({', '.join(map(str, time))})"
    return f"epoch {time[0]}" if plan.root == EPOCHS else str(time[0])


def number_words(count: int, noun: str) -> str:
    """A number of things: ``1 row``, ``1,204 rows``."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
