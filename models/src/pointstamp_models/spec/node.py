"""Dataflow graphs and what their nodes do: g1, local histories and g.

These are the definitions of Abadi & Isard, "Timely Dataflow: A Model" (2015), section 2. A node reacts to a
message or to a notification with a new local state, notification requests and messages, deterministically
and atomically. Times are the points of one finite partial order, which may be a disjoint union of time
domains, so that each edge may have its own; a node ignores what comes in a domain it does not know.

What happens between nodes (queues, and when a notification may come) is not here but in
``timely_actions.py``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from pointstamp_models.spec.multiset import Poset

Time: TypeAlias = int
"""A time is a point of the graph's partial order of times."""

Message: TypeAlias = tuple[Time, str]
"""The time of a message and what it carries."""

LocalState: TypeAlias = tuple[Any, ...]
Location: TypeAlias = str
"""The name of a node or of an edge; no two things of a graph have the same name."""

Pointstamp: TypeAlias = tuple[Location, Time]


class Reaction(NamedTuple):
    """The result of g1: the next local state, new requests, and messages with their edges, in order."""

    state: LocalState
    requests: tuple[Time, ...] = ()
    sent: tuple[tuple[Location, Message], ...] = ()


class Node:
    """The behaviour of one node: Initial(p) and g1(p). This one begins in () and ignores everything."""

    def initial(self) -> Iterable[tuple[LocalState, tuple[Time, ...]]]:
        """Every pair of a local state and notification requests in which the node may begin."""
        return [((), ())]

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """The reaction to a message on an incoming edge."""
        return Reaction(state)

    def on_notification(self, state: LocalState, time: Time) -> Reaction:
        """The reaction to a notification."""
        return Reaction(state)


class Buffer(Node):
    """A buffer node: passes every message on and ignores notifications; a relay between two queues."""

    def __init__(self, out: Location) -> None:
        self.out = out

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """The same message on the only outgoing edge."""
        return Reaction(state, sent=((self.out, message),))


class Edge(NamedTuple):
    """A channel; an input edge has no source, an output edge no destination."""

    name: Location
    source: Location | None
    destination: Location | None


@dataclass(frozen=True)
class Graph:
    """A dataflow graph with the behaviour of its nodes, its times, and what messages may carry."""

    times: Poset
    nodes: Mapping[Location, Node]
    edges: tuple[Edge, ...]
    payloads: tuple[str, ...] = ("m",)

    def __post_init__(self) -> None:
        if len(set(self.locations)) < len(self.locations):
            raise ValueError(f"two nodes or edges of {self.locations} have the same name")
        for edge in self.edges:
            ends = {edge.source, edge.destination} - {None}
            if not ends or not ends <= set(self.nodes):
                raise ValueError(f"edge {edge.name} has ends {ends}; it needs nodes of {set(self.nodes)}")
            if edge.source == edge.destination:
                raise ValueError(f"edge {edge.name} leads from {edge.source} to itself; put a buffer between")

    @cached_property
    def locations(self) -> tuple[Location, ...]:
        """Every edge, then every node."""
        return (*(edge.name for edge in self.edges), *self.nodes)

    @cached_property
    def inputs(self) -> tuple[Location, ...]:
        """The input edges I."""
        return tuple(edge.name for edge in self.edges if edge.source is None)

    @cached_property
    def outputs(self) -> tuple[Location, ...]:
        """The output edges O."""
        return tuple(edge.name for edge in self.edges if edge.destination is None)

    def incoming(self, p: Location) -> tuple[Location, ...]:
        """The edges whose destination is p."""
        return tuple(edge.name for edge in self.edges if edge.destination == p)

    def outgoing(self, p: Location) -> tuple[Location, ...]:
        """The edges whose source is p."""
        return tuple(edge.name for edge in self.edges if edge.source == p)

    def messages(self) -> Iterator[Message]:
        """Every message there can be."""
        return ((time, payload) for time in self.times.points() for payload in self.payloads)

    def reactions(self, p: Location, state: LocalState) -> Iterator[tuple[Time, bool, Reaction]]:
        """g1(p)(state, x) for every event x: its time, whether it is a notification, and the reaction."""
        node = self.nodes[p]
        for time in self.times.points():
            yield time, True, node.on_notification(state, time)
        for edge in self.incoming(p):
            for message in self.messages():
                yield message[0], False, node.on_message(state, edge, message)


def local_results(graph: Graph, p: Location) -> frozenset[tuple[LocalState, tuple[Time, ...]]]:
    """Every local state and request set to which g(p) takes a history of p, whatever the other nodes do."""
    reached = {(state, tuple(sorted(requests))) for state, requests in graph.nodes[p].initial()}
    waiting = list(reached)
    while waiting:
        state, requests = waiting.pop()
        for time, is_notification, reaction in graph.reactions(p, state):
            kept = set(requests) - {time} if is_notification else set(requests)
            result = (reaction.state, tuple(sorted(kept | set(reaction.requests))))
            if result not in reached:
                reached.add(result)
                waiting.append(result)
    return frozenset(reached)
