"""Flows with epochs and loops: nodes that are pure functions, edges that move times, and could-result-in.

The dataflow graphs of Abadi & Isard 2015 as far as snapshots need them. A time is (epoch, round); the round
is 0 outside of the loop. An event of a node is the receipt of a message or of a notification; it happens at
a time, and everything it sends leaves at that time and arrives at the time to which the edge moves it.

All edges into a node end in one inbox. A capability (p, t) stands for a node that may still act at time t, a
message (inbox of p, t) for one that has not been received. ``Clock`` (section 4.2) is the set of inbox
locations and times that some capability or message could result in. A flow has few epochs and rounds, so the
set is an int with one bit for each, and could-result-in is computed once, by closing the single steps.

The published definition forbids an edge from a node to itself. Here such an edge ends in the inbox, which is
another location than the node, and is allowed if it advances the time. Nothing here fails or is saved.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, TypeAlias

Epoch: TypeAlias = int
Time: TypeAlias = tuple[Epoch, int]
"""(epoch, round), in the product order."""
Value: TypeAlias = Any
"""The values that nodes store and send: hashable, of the types that a model's state may have."""
NodeIndex: TypeAlias = int
Locations: TypeAlias = int
"""A set of (inbox, time), one bit for each."""


class Effects(NamedTuple):
    """The effects of one event: the next state, the values sent along edges, the requested notifications."""

    state: Value
    sends: tuple[tuple[str, Value], ...] = ()
    requests: tuple[Time, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Emits its records in order, each in its epoch; epochs never decrease along them."""

    name: str
    records: tuple[tuple[Epoch, Value], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator: g1 of the paper, split into its answer to a message and its answer to a notification.

    ``project`` is pi: ``project(state, e)`` is what events of epochs up to e made of the state. A node that
    has one keeps versions of its state; a node without one cannot tell the epochs in its state apart.
    ``notified_by_snapshot``: the notifications of an epoch are not events of their own but are served in the
    step that snapshots the epoch, just before what is stored is read.
    """

    name: str
    on_message: Callable[[Value, Time, Value], Effects]
    on_notify: Callable[[Value, Time], Effects] | None = None
    project: Callable[[Value, Epoch], Value] | None = None
    initial: Value = ()
    notified_by_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """Carries messages from a node or source to an inbox and moves their times.

    It adds to epoch and round; one that ``leaves`` the loop, or starts over in a later epoch, forgets the
    round.
    """

    name: str
    origin: str
    target: str
    epochs: int = 0
    rounds: int = 0
    leaves: bool = False

    def results_in(self, time: Time) -> Time:
        """The time at which what is sent at ``time`` arrives."""
        epoch, round_ = time
        return epoch + self.epochs, 0 if self.leaves else round_ + self.rounds


def less_equal(a: Time, b: Time) -> bool:
    """Return whether a <= b in the product order: (1, 1) and (2, 0) are incomparable."""
    return a[0] <= b[0] and a[1] <= b[1]


@dataclass(frozen=True)
class Flow:
    """Sources, nodes and edges; what the nodes named in ``sinks`` remember is the output.

    Epochs are 1 to ``epochs_max``, rounds 0 to ``rounds_max``. What would arrive in a later epoch is never
    looked at and is not sent at all.
    """

    sources: tuple[Source, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    sinks: tuple[str, ...]
    epochs_max: Epoch
    rounds_max: int

    @cached_property
    def parts(self) -> tuple[Source | Node, ...]:
        """Sources and nodes under one numbering, the sources first."""
        return (*self.sources, *self.nodes)

    @cached_property
    def index_of(self) -> dict[str, NodeIndex]:
        """The number of each source and node."""
        return {part.name: index for index, part in enumerate(self.parts)}

    @cached_property
    def times(self) -> tuple[Time, ...]:
        """Every time that is looked at."""
        return tuple(product(range(1, self.epochs_max + 1), range(self.rounds_max + 1)))

    def arrivals(self, origin: NodeIndex, time: Time, name: str) -> Iterable[tuple[NodeIndex, Time]]:
        """The place and time of arrival of a message along this edge, if it is read."""
        for edge in self.edges:
            if edge.name == name:
                assert edge.origin == self.parts[origin].name, f"{edge} does not begin there"
                arrival = edge.results_in(time)
                if arrival[0] <= self.epochs_max:
                    assert arrival in self.times, f"{edge} leads from {time} out of the flow, to {arrival}"
                    yield self.index_of[edge.target], arrival

    def location(self, inbox: NodeIndex, times: Iterable[Time]) -> Locations:
        """The set of this inbox at these times."""
        width = len(self.times)
        return sum(1 << (inbox * width + self.times.index(time)) for time in set(times))

    @cached_property
    def could_result_in(self) -> tuple[dict[tuple[NodeIndex, Time], Locations], ...]:
        """Close_up of a single capability, and of a single message, at each node and time.

        Both are least fixed points: a message could be received, at its time or later, and lets the node
        act; a node that may act at a time may send at that time or later along each of its edges.
        """
        everywhere = list(product(range(len(self.parts)), self.times))
        later = {time: [t for t in self.times if less_equal(time, t)] for time in self.times}
        of_capability = dict.fromkeys(everywhere, 0)
        of_message = {(p, time): self.location(p, later[time]) for p, time in everywhere}
        changed = True
        while changed:
            changed = False
            for p, time in everywhere:
                sends = [e for e in self.edges if e.origin == self.parts[p].name]
                reached = of_capability[p, time]
                for edge, at in product(sends, later[time]):
                    arrival = self.index_of[edge.target], edge.results_in(at)
                    reached |= of_message.get(arrival, 0)
                changed |= reached != of_capability[p, time]
                of_capability[p, time] = reached
                of_message[p, time] |= reached
        return of_capability, of_message
