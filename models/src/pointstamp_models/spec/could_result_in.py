"""Could-result-in: which pointstamps may lead to which, computed from what the nodes do.

These are the definitions of Abadi & Isard, "Timely Dataflow: A Model" (2015), section 3: one step of a node
(->1, Definition 1), could-result-in along paths of distinct locations (~>, Definition 2), new notification
requests (->N, Definition 3), Conditions 1 and 2, upward closure, and the embedding into one partial order
(Proposition 2). On a finite set of times all of them are finite and computed exactly; the histories of a
node are all its histories, also those that the rest of the graph never lets happen.

Distinct locations mean simple paths: going round a cycle adds nothing if Condition 2 holds, and if it does
not hold then ~> is not transitive (Theorem 1), which is to be checked and not assumed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from pointstamp_models.spec.multiset import Poset
from pointstamp_models.spec.node import Graph, Location, Pointstamp, Time, local_results

Pairs: TypeAlias = frozenset[tuple[Pointstamp, Pointstamp]]


def one_step(graph: Graph) -> Pairs:
    """->1: (p, t) and (d, t') where an event at t, after some history of p, puts a message of t' on d."""
    return frozenset(
        ((p, time), (edge, sent_time))
        for p in graph.nodes
        for state in {state for state, _ in local_results(graph, p)}
        for time, _, reaction in graph.reactions(p, state)
        for edge, (sent_time, _) in reaction.sent
    )


def same_time(graph: Graph) -> Pairs:
    """Naiad's ->1 for every ordinary node: a message may be sent at the time of the event."""
    return frozenset(
        ((p, time), (edge, time))
        for p in graph.nodes
        for edge in graph.outgoing(p)
        for time in graph.times.points()
    )


class CouldResultIn:
    """~> of a graph, for its own ->1 or for a given approximation of ->1."""

    def __init__(self, graph: Graph, one_step_pairs: Pairs | None = None) -> None:
        self.graph = graph
        self.pointstamps = tuple((x, t) for x in graph.locations for t in graph.times.points())
        self._one_step: dict[tuple[Location, Location], list[tuple[Time, Time]]] = {}
        for (p, time), (edge, sent_time) in one_step(graph) if one_step_pairs is None else one_step_pairs:
            self._one_step.setdefault((p, edge), []).append((time, sent_time))
        self._above = {origin: frozenset(self._reached_from(*origin)) for origin in self.pointstamps}

    def holds(self, lower: Pointstamp, upper: Pointstamp) -> bool:
        """Return whether lower ~> upper."""
        return upper in self._above[lower]

    def above(self, pointstamp: Pointstamp) -> frozenset[Pointstamp]:
        """Every pointstamp that this one could result in, itself included."""
        return self._above[pointstamp]

    def contains(self, other: "CouldResultIn") -> bool:
        """Return whether this relation is a conservative approximation of the other."""
        return all(other.above(pointstamp) <= self._above[pointstamp] for pointstamp in self.pointstamps)

    def _reached_from(self, x: Location, time: Time) -> Iterator[Pointstamp]:
        """Follow every path of distinct locations, with the upward closed set of times that it leads to."""
        paths: list[tuple[tuple[Location, ...], frozenset[Time]]] = [((x,), self._up({time}))]
        while paths:
            path, times = paths.pop()
            yield from ((path[-1], t) for t in times)
            for following, next_times in self._followed(path[-1], times):
                if following not in path and next_times:
                    paths.append(((*path, following), next_times))

    def _followed(self, x: Location, times: frozenset[Time]) -> Iterator[tuple[Location, frozenset[Time]]]:
        """One step of Definition 2: from an edge to its node at equal times, from a node onto its edges."""
        for edge in self.graph.edges:
            if edge.name == x and edge.destination is not None:
                yield edge.destination, times
            if edge.source == x:
                sent = self._one_step.get((x, edge.name), ())
                yield edge.name, self._up({sent_time for time, sent_time in sent if time in times})

    def _up(self, times: Collection[Time]) -> frozenset[Time]:
        order = self.graph.times
        return frozenset(t for t in order.points() if any(order.less_equal(low, t) for low in times))


class NewRequest(NamedTuple):
    """An instance of ->N: an event at ``event`` or later, at p, adds a request at ``request`` or earlier."""

    p: Location
    event: Time
    request: Time


def new_requests(graph: Graph) -> frozenset[NewRequest]:
    """->N: a request is new if it was not pending after the history that came before the event."""
    order = graph.times
    direct = {
        (p, time, asked)
        for p in graph.nodes
        for state, pending in local_results(graph, p)
        for time, _, reaction in graph.reactions(p, state)
        for asked in set(reaction.requests) - set(pending)
    }
    return frozenset(
        NewRequest(p, event, request)
        for p, time, asked in direct
        for event in order.points()
        for request in order.points()
        if order.less_equal(event, time) and order.less_equal(asked, request)
    )


def requests_into_the_past(graph: Graph) -> list[NewRequest]:
    """The violations of Condition 1: if (p, t) ->N (p, t') then t <= t'. Empty if the condition holds."""
    return [found for found in new_requests(graph) if not graph.times.less_equal(found.event, found.request)]


def messages_into_the_past(relation: CouldResultIn) -> list[tuple[Pointstamp, Pointstamp]]:
    """Violations of Condition 2: if (p, t) ~> (e, t') and e leads to p then t <= t'. Empty if it holds."""
    order = relation.graph.times
    return [
        ((p, time), (edge.name, back))
        for edge in relation.graph.edges
        if (p := edge.destination) is not None and edge.source is not None
        for time in order.points()
        for back in order.points()
        if relation.holds((p, time), (edge.name, back)) and not order.less_equal(time, back)
    ]


def is_transitive(relation: CouldResultIn) -> bool:
    """Return whether x ~> y and y ~> z imply x ~> z."""
    return all(
        relation.above(y) <= relation.above(x) for x in relation.pointstamps for y in relation.above(x)
    )


def close_up(relation: CouldResultIn, pointstamps: Iterable[Pointstamp]) -> frozenset[Pointstamp]:
    """Close_up(S): the least upward closed set that contains S, by adding until nothing is missing."""
    closed = set(pointstamps)
    waiting = list(closed)
    while waiting:
        fresh = relation.above(waiting.pop()) - closed
        closed |= fresh
        waiting += fresh
    return frozenset(closed)


def above_any(relation: CouldResultIn, pointstamps: Iterable[Pointstamp]) -> frozenset[Pointstamp]:
    """The pointstamps that some element of S could result in; Close_up(S) if Condition 2 holds (Prop. 3)."""
    return frozenset(upper for lower in pointstamps for upper in relation.above(lower))


class Embedding(NamedTuple):
    """One universal time for all locations: the order T' and where each pointstamp lies in it."""

    order: Poset
    place: Callable[[Pointstamp], int]


def embedding(relation: CouldResultIn) -> Embedding | None:
    """The order into which ~> embeds (Proposition 2), or None if ~> is not transitive.

    Pointstamps that could result in each other are one element. A relation that is not transitive embeds
    into no order, because whatever embeds into an order is transitive.
    """
    if not is_transitive(relation):
        return None
    first_equal = {
        x: next(y for y in relation.pointstamps if relation.holds(x, y) and relation.holds(y, x))
        for x in relation.pointstamps
    }
    elements = sorted(set(first_equal.values()), key=relation.pointstamps.index)
    index = {element: position for position, element in enumerate(elements)}
    names = [f"({x}, {relation.graph.times.names[t]})" for x, t in elements]
    pairs = [
        (names[index[x]], names[index[y]])
        for x in elements
        for y in elements
        if x != y and relation.holds(x, y)
    ]
    return Embedding(Poset(names, pairs), lambda pointstamp: index[first_equal[pointstamp]])
