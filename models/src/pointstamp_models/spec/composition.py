"""Composing graphs that share edges, and comparing what can be seen of two models.

This is section 4.3 of Abadi & Isard, "Timely Dataflow: A Model" (2015): the specification of two graphs is
Spec1 and Spec2 and never (Acts1 and Acts2), with Clock as a parameter that spans both and the queues of the
shared edges hidden. The conjunction is taken literally: a joint step is a step or a stutter of each graph,
and each graph must be able to explain what the other does to a shared edge as its own Inp or Outp.

The paper leaves open how this relates to the specification of the whole graph. Two things come out here.
The conjunction lets the environment act in the same instant as a node of the other graph, which the whole
graph does not; ``environment_waits`` forbids it. And a node that takes from one shared edge and sends on
another in one step can never act, because its neighbour would have to explain Inp and Outp at once; buffer
nodes on the shared edges repair that.

External inputs do not grow here: everything that enters is there at the start.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from pointstamp_models.spec.model import Label, Model
from pointstamp_models.spec.node import Edge, Graph, LocalState, Location, Message, Pointstamp, Time
from pointstamp_models.spec.timely_actions import (
    Relation,
    Removal,
    TimelyActions,
    TimelyState,
    is_subsequence,
)

S = TypeVar("S", bound=tuple[Any, ...])

IDLE: Label = ("idle",)

Observation: TypeAlias = Hashable


def shared_edges(first: Graph, second: Graph) -> frozenset[Location]:
    """X12 and X21: the outputs of one graph that are inputs of the other."""
    return frozenset(first.outputs) & set(second.inputs) | frozenset(second.outputs) & set(first.inputs)


def compose(first: Graph, second: Graph) -> Graph:
    """The whole graph, in which the shared edges are internal."""
    if first.times is not second.times or first.payloads != second.payloads:
        raise ValueError(
            "graphs are composed over the same times and payloads, but these have different ones"
        )
    edges = {edge.name: edge for edge in first.edges}
    for edge in second.edges:
        other = edges.get(edge.name, edge)
        edges[edge.name] = Edge(edge.name, edge.source or other.source, edge.destination or other.destination)
    return Graph(first.times, {**first.nodes, **second.nodes}, tuple(edges.values()), first.payloads)


class _ItselfOnly:
    """The relation of a part, whose own Clock is not used: Clock is a parameter."""

    def above(self, pointstamp: Pointstamp) -> Iterable[Pointstamp]:
        return (pointstamp,)


class ComposedState(NamedTuple):
    """Q by edge, LocState and NotRequests by node, in the order of the whole graph."""

    queues: tuple[tuple[Message, ...], ...]
    local: tuple[LocalState, ...]
    requests: tuple[tuple[Time, ...], ...]


class Composed(Model[ComposedState]):
    """Spec1 and Spec2 and never (Acts1 and Acts2), under the Clock of the whole graph."""

    name: ClassVar[str] = "composition"
    state_type: ClassVar[type[Any]] = ComposedState

    def __init__(
        self,
        first: Graph,
        second: Graph,
        relation: Relation,
        *,
        inputs: Mapping[Location, Sequence[Message]],
        removal: Removal = Removal.ANYTHING,
        environment_waits: bool = False,
    ) -> None:
        self.whole = TimelyActions(compose(first, second), relation, inputs=[inputs], removal=removal)
        self.parts = tuple(TimelyActions(graph, _ItselfOnly(), removal=removal) for graph in (first, second))
        self.shared = shared_edges(first, second)
        self.environment_waits = environment_waits

    def initial(self) -> Iterator[ComposedState]:
        """The initial states of the whole graph."""
        for state in self.whole.initial():
            yield ComposedState(state.queues, state.local, state.requests)

    def steps(self, state: ComposedState) -> Iterator[tuple[Label, ComposedState]]:
        """Every pair of moves that fit together, except the two idle ones."""
        clock = self.whole.clock(TimelyState(*state, inputs_left=0, notified=(), retired=0))
        before = [self._seen_by(part, state) for part in self.parts]
        moves = [list(self._moves(part, own, clock)) for part, own in zip(self.parts, before, strict=True)]
        for (label1, after1), (label2, after2) in product(*moves):
            if label1 == label2 == IDLE or not self.may_coincide(label1, label2):
                continue
            joint = self._joined(before, [after1, after2])
            after = [self._seen_by(part, joint) for part in self.parts]
            if (
                self._explains(0, label1, before[0], after1, after[0])
                and self._explains(1, label2, before[1], after2, after[1])
                and not (self.acts(0, before[0], after[0]) and self.acts(1, before[1], after[1]))
            ):
                yield ("both", label1, label2), joint

    def may_coincide(self, label1: Label, label2: Label) -> bool:
        """Return whether these two may happen in one step, as far as the environment is concerned."""
        return not self.environment_waits or IDLE in (label1, label2) or "outp" not in (label1[0], label2[0])

    def acts(self, part: int, before: TimelyState, after: TimelyState) -> bool:
        """Acts_j: an input of this graph shrank properly or an output of it grew properly."""
        model = self.parts[part]
        inputs = [model.edge_index[name] for name in model.graph.inputs]
        outputs = [model.edge_index[name] for name in model.graph.outputs]
        return any(_is_proper(after.queues[i], before.queues[i]) for i in inputs) or any(
            _is_proper(before.queues[o], after.queues[o]) for o in outputs
        )

    def _moves(
        self, part: TimelyActions, state: TimelyState, clock: int
    ) -> Iterator[tuple[Label, TimelyState]]:
        """The actions of one graph, or of its environment at edges that are not shared."""
        own_clock = sum(bit for pointstamp, bit in part.bit.items() if clock & self.whole.bit[pointstamp])
        yield IDLE, state
        yield from part.messages_received(state)
        yield from part.notifications_received(state, own_clock)
        yield from (move for move in part.outputs_changed(state) if move[0][1] not in self.shared)

    def _explains(
        self, part: int, label: Label, before: TimelyState, planned: TimelyState, after: TimelyState
    ) -> bool:
        """Whether Spec_j allows what it sees: its own move exactly, or a change that is Inp or Outp to it."""
        if after.queues == planned.queues:
            return True
        if label[0] not in ("idle", "outp"):
            return False
        model = self.parts[part]
        changed = [
            edge.name
            for edge, old, new in zip(model.graph.edges, before.queues, after.queues, strict=True)
            if old != new
        ]
        index = model.edge_index
        is_inp = all(e in model.graph.inputs for e in changed) and all(
            is_subsequence(before.queues[index[e]], after.queues[index[e]]) for e in changed
        )
        is_outp = all(e in model.graph.outputs for e in changed) and all(
            is_subsequence(after.queues[index[e]], before.queues[index[e]]) for e in changed
        )
        return is_inp or is_outp

    def _seen_by(self, part: TimelyActions, state: ComposedState) -> TimelyState:
        edges = [self.whole.edge_index[edge.name] for edge in part.graph.edges]
        nodes = [self.whole.node_index[p] for p in part.names]
        return TimelyState(
            queues=tuple(state.queues[index] for index in edges),
            local=tuple(state.local[index] for index in nodes),
            requests=tuple(state.requests[index] for index in nodes),
            inputs_left=0,
            notified=tuple(() for _ in nodes),
            retired=0,
        )

    def _joined(self, before: Sequence[TimelyState], after: Sequence[TimelyState]) -> ComposedState:
        """The state after both moves; of a shared edge, what the graph says that changed it."""
        queues: dict[Location, tuple[Message, ...]] = {}
        for part, old, new in zip(self.parts, before, after, strict=True):
            for edge, was, becomes in zip(part.graph.edges, old.queues, new.queues, strict=True):
                if edge.name not in queues or becomes != was:
                    queues[edge.name] = becomes
        return ComposedState(
            queues=tuple(queues[edge.name] for edge in self.whole.graph.edges),
            local=(*after[0].local, *after[1].local),
            requests=(*after[0].requests, *after[1].requests),
        )


def _is_proper(part: tuple[Message, ...], whole: tuple[Message, ...]) -> bool:
    return part != whole and is_subsequence(part, whole)


class Hidden(Generic[S]):
    """A model of which only an observation is seen: Spec, where everything internal is hidden.

    Runs are compared up to stuttering, so steps that change nothing visible are followed silently. Because
    the specifications are safety properties, two of them are equal if they have the same finite runs.
    """

    def __init__(self, model: Model[S], observe: Callable[[S], Observation]) -> None:
        self.model = model
        self.observe = observe
        self._steps: dict[S, list[S]] = {}

    def beginnings(self) -> dict[Observation, frozenset[S]]:
        """For every initial observation, the states in which the model may then be."""
        return self._grouped(self.model.initial())

    def continued(self, states: frozenset[S]) -> dict[Observation, frozenset[S]]:
        """For every observation that may come next, the states in which the model may then be."""
        seen = {self.observe(state) for state in states}
        return self._grouped(
            after for state in states for after in self._next(state) if self.observe(after) not in seen
        )

    def _grouped(self, states: Iterable[S]) -> dict[Observation, frozenset[S]]:
        groups: dict[Observation, set[S]] = {}
        for state in states:
            groups.setdefault(self.observe(state), set()).add(state)
        return {observation: self._settled(group) for observation, group in groups.items()}

    def _settled(self, states: set[S]) -> frozenset[S]:
        """These states and those that follow without a visible change."""
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            for after in self._next(state):
                if after not in states and self.observe(after) == self.observe(state):
                    states.add(after)
                    waiting.append(after)
        return frozenset(states)

    def _next(self, state: S) -> list[S]:
        if state not in self._steps:
            self._steps[state] = [after for _, after in self.model.steps(state)]
        return self._steps[state]


def missing_run(model: Hidden[Any], within: Hidden[Any]) -> tuple[Observation, ...] | None:
    """A shortest visible run of the model that ``within`` does not have, or None if it has them all."""
    allowed = within.beginnings()
    waiting: list[tuple[tuple[Observation, ...], frozenset[Any], frozenset[Any] | None]] = [
        ((seen,), states, allowed.get(seen)) for seen, states in model.beginnings().items()
    ]
    known = set()
    for run, states, others in waiting:
        if others is None:
            return run
        if (states, others) in known:
            continue
        known.add((states, others))
        allowed = within.continued(others)
        for seen, following in model.continued(states).items():
            waiting.append(((*run, seen), following, allowed.get(seen)))
    return None
