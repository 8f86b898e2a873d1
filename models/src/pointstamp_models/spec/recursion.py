"""Recursive dataflow: times that are stacks of calls, and how to decide which stacks lead to which.

This is section 3.4 of Abadi & Isard, "Timely Dataflow: A Model" (2015). A base graph has nodes that call the
whole computation. Each call node c is split into call-c, from which an edge leads back to in, and ret-c, to
which an edge leads back from out. Could-result-in is approximated by the least reflexive and transitive
relation on pairs of a node and a stack that follows these edges (hat~> in the paper, *leads to* here).

The paper decides that relation by looking at the longest common prefix of two stacks, without proof. That is
right if no cycle of the base graph passes through a call node and wrong otherwise: a computation may return
below the common prefix, go round such a cycle and make the same call again. ``decide`` looks at every
common prefix, and agrees with ``explore_leads_to``, which follows the edges.

Stacks are written with the newest call last.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final, TypeAlias

from pointstamp_models.spec.multiset import Poset
from pointstamp_models.spec.node import Edge, Graph, LocalState, Location, Message, Node, Reaction, Time

IN: Final = "in"
OUT: Final = "out"

CallNode: TypeAlias = str
Stack: TypeAlias = tuple[CallNode, ...]
Link: TypeAlias = tuple[Location, Location]
Frame: TypeAlias = tuple[Location, Stack]
"""A node of the split graph with the stack under which it works."""


def call(c: CallNode) -> Location:
    """The part of c that calls."""
    return f"call-{c}"


def ret(c: CallNode) -> Location:
    """The part of c that returns."""
    return f"ret-{c}"


@dataclass(frozen=True)
class BaseGraph:
    """A graph from ``in`` to ``out`` in which some nodes call the whole graph."""

    ordinary: tuple[Location, ...]
    calls: tuple[CallNode, ...]
    edges: frozenset[Link]

    def why_not_proper(self) -> str | None:
        """The requirement of the paper that this base graph violates, or None."""
        nodes = {IN, OUT, *self.ordinary, *self.calls}
        if any(target == IN or source == OUT for source, target in self.edges):
            return "in has an incoming edge or out an outgoing one"
        closed = _closure(nodes, self.edges)
        if any((IN, node) not in closed or (node, OUT) not in closed for node in nodes):
            return "some node is not on a path from in to out"
        without_calls = {edge for edge in self.edges if not set(edge) & set(self.calls)}
        if (IN, OUT) not in _closure(nodes, without_calls):
            return "every path from in to out goes through a call, so no computation ends"
        return None

    def on_cycles(self) -> frozenset[Location]:
        """The nodes of the base graph that lie on a cycle of it."""
        closed = _closure({IN, OUT, *self.ordinary, *self.calls}, self.edges)
        return frozenset(source for source, target in self.edges if (target, source) in closed)

    def has_cycle_through_call(self) -> bool:
        """Return whether some call node lies on a cycle of the base graph."""
        return not self.on_cycles().isdisjoint(self.calls)

    @cached_property
    def nodes(self) -> tuple[Location, ...]:
        """The nodes after every call node is split."""
        split = [part for c in self.calls for part in (call(c), ret(c))]
        return (IN, *self.ordinary, *split, OUT)

    @cached_property
    def split_edges(self) -> frozenset[Link]:
        """The edges after every call node is split: into call-c, out of ret-c, none from one to the other."""
        return frozenset(
            (ret(a) if a in self.calls else a, call(b) if b in self.calls else b) for a, b in self.edges
        )

    @cached_property
    def shortcut_paths(self) -> frozenset[Link]:
        """The pairs of nodes with a path, possibly empty, if calls lead to their returns: no back edges."""
        forward = {(call(c), ret(c)) for c in self.calls}
        return _closure(self.nodes, self.split_edges | forward)

    def following(self, frame: Frame) -> Iterator[Frame]:
        """The frames to which one edge leads: a call pushes, a return pops, other edges keep the stack."""
        p, stack = frame
        if p in self._callers:
            yield IN, (*stack, self._callers[p])
        if p == OUT and stack:
            yield ret(stack[-1]), stack[:-1]
        for target in self._targets.get(p, ()):
            yield target, stack

    @cached_property
    def _callers(self) -> dict[Location, CallNode]:
        return {call(c): c for c in self.calls}

    @cached_property
    def _targets(self) -> dict[Location, list[Location]]:
        targets: dict[Location, list[Location]] = {}
        for source, target in sorted(self.split_edges):
            targets.setdefault(source, []).append(target)
        return targets


def _closure(nodes: Collection[Location], edges: Collection[Link]) -> frozenset[Link]:
    """The pairs of nodes with a path, possibly empty, from the first to the second."""
    after: dict[Location, list[Location]] = {node: [] for node in nodes}
    for source, target in edges:
        after[source].append(target)
    pairs = set()
    for node in nodes:
        reached, waiting = {node}, [node]
        while waiting:
            fresh = set(after[waiting.pop()]) - reached
            reached |= fresh
            waiting += fresh
        pairs |= {(node, other) for other in reached}
    return frozenset(pairs)


def stacks(base: BaseGraph, length_max: int) -> list[Stack]:
    """Every stack of at most this length, the shortest first."""
    return [stack for length in range(length_max + 1) for stack in product(base.calls, repeat=length)]


def explore_leads_to(base: BaseGraph, frame: Frame, *, depth_max: int) -> frozenset[Frame]:
    """Every frame that this one leads to, found by following edges, with stacks of at most this depth.

    This is the definition, cut off. A call that returns may take the path from in to out that makes no
    calls, so no way needs a stack more than one deeper than those at its two ends.
    """
    reached = {frame}
    waiting = [frame]
    while waiting:
        for following in base.following(waiting.pop()):
            if following not in reached and len(following[1]) <= depth_max:
                reached.add(following)
                waiting.append(following)
    return frozenset(reached)


def _joined_after(base: BaseGraph, prefix: int, origin: Frame, target: Frame) -> bool:
    """Whether a path leads from where the first stack returns to the prefix to where the second leaves it."""
    (p, stack), (q, other) = origin, target
    start = ret(stack[prefix]) if len(stack) > prefix else p
    end = call(other[prefix]) if len(other) > prefix else q
    return (start, end) in base.shortcut_paths


def _common_prefix_max(stack: Stack, other: Stack) -> int:
    differing = (place for place, (a, b) in enumerate(zip(stack, other, strict=False)) if a != b)
    return next(differing, min(len(stack), len(other)))


def decide_as_published(base: BaseGraph, origin: Frame, target: Frame) -> bool:
    """The paper's test: one path, from the longest common prefix. Right only without cycles through calls."""
    return _joined_after(base, _common_prefix_max(origin[1], target[1]), origin, target)


def decide(base: BaseGraph, origin: Frame, target: Frame) -> bool:
    """Whether origin leads to target: a path joins them at some common prefix, not only at the longest."""
    longest = _common_prefix_max(origin[1], target[1])
    return any(_joined_after(base, prefix, origin, target) for prefix in range(longest + 1))


@dataclass(frozen=True)
class StackTimes:
    """The times of a recursive graph: for each node its stacks, those that lead to each other taken as one.

    The order is a disjoint union, a domain for each node p, in which [f]p <= [g]p if (p, f) leads to (p, g).
    """

    order: Poset
    time_of: Mapping[Frame, Time]


def stack_times(base: BaseGraph, length_max: int) -> StackTimes:
    """The tagged union over all nodes of the stacks of at most this length."""
    names: list[str] = []
    pairs: list[tuple[str, str]] = []
    time_of: dict[Frame, Time] = {}
    for p in base.nodes:
        firsts: list[Stack] = []
        for stack in stacks(base, length_max):
            equal = next((f for f in firsts if _lead_to_each_other(base, (p, f), (p, stack))), None)
            if equal is None:
                firsts.append(stack)
                names.append(f"[{' '.join(stack)}]{p}")
                time_of[p, stack] = len(names) - 1
            else:
                time_of[p, stack] = time_of[p, equal]
        pairs += [
            (names[time_of[p, f]], names[time_of[p, g]])
            for f in firsts
            for g in firsts
            if f != g and decide(base, (p, f), (p, g))
        ]
    return StackTimes(Poset(names, pairs), time_of)


def _lead_to_each_other(base: BaseGraph, one: Frame, other: Frame) -> bool:
    return decide(base, one, other) and decide(base, other, one)


class Stacked(Node):
    """A node p that sends on each message it gets at a time of its own, under every stack of that time."""

    def __init__(self, sends: Mapping[Time, tuple[tuple[Location, Message], ...]]) -> None:
        self.sends = sends

    def on_message(self, state: LocalState, edge: Location, message: Message) -> Reaction:
        """The messages for this time; nothing for a time that is tagged with another node."""
        return Reaction(state, sent=self.sends.get(message[0], ()))


def recursive_graph(base: BaseGraph, length_max: int) -> tuple[Graph, StackTimes]:
    """A dataflow graph that works as the base graph does, with stacks of at most this length.

    Every node obeys the paper's law: what p sends on d at [g] is tagged with the destination of d, and (p, f)
    leads to it for the stack f of the event.
    """
    times = stack_times(base, length_max)
    links = {*base.split_edges, *((call(c), IN) for c in base.calls), *((OUT, ret(c)) for c in base.calls)}
    edges = tuple(Edge(f"{source}>{target}", source, target) for source, target in sorted(links))
    sends: dict[Location, dict[Time, tuple[tuple[Location, Message], ...]]] = {p: {} for p in base.nodes}
    for frame, time in times.time_of.items():
        for target, stack in base.following(frame):
            if (target, stack) in times.time_of:
                sent = (f"{frame[0]}>{target}", (times.time_of[target, stack], "m"))
                sends[frame[0]][time] = (*sends[frame[0]].get(time, ()), sent)
    return Graph(times.order, {p: Stacked(sends[p]) for p in base.nodes}, edges), times
