"""The actions of a timely dataflow graph: queues, notification requests, Clock, and Mess, Not, Inp, Outp.

This is the specification of Abadi & Isard, "Timely Dataflow: A Model" (2015), section 4.2, over the graphs
of ``node.py``: Mess, Not, Inp and Outp. Clock is the upward closure of the pointstamps at which work may
remain. A notification of t at p waits until no incoming edge of p has (e, t) in Clock, and for nothing
else: not for p's own requests at smaller times.

The could-result-in relation by which Clock is closed is a parameter, because an implementation may use any
relation that contains the true one; ``could_result_in.py`` computes the true one. Inp inserts one message
and Outp removes one message at a time: inserting or removing several is as many such steps.

What must hold of all this is not here but in ``timely.py``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from pointstamp_models.spec.model import Label, Model
from pointstamp_models.spec.node import Graph, LocalState, Location, Message, Pointstamp, Reaction, Time


class Relation(Protocol):
    """A could-result-in relation, or anything that contains it."""

    def above(self, pointstamp: Pointstamp) -> Iterable[Pointstamp]:
        """The pointstamps that this one could result in."""
        ...


class Removal(Enum):
    """The messages that Outp may take from an output edge; from the head only is the environment's choice."""

    NOTHING = "nothing"
    HEAD = "the head"
    ANYTHING = "any message"


class TimelyState(NamedTuple):
    """Q by edge, LocState and NotRequests by node, how often Inp may still act, and two history variables.

    ``notified`` are the times of which each node has been notified, ``retired`` the pointstamps of edges
    that have been outside Clock, as a bit set.
    """

    queues: tuple[tuple[Message, ...], ...]
    local: tuple[LocalState, ...]
    requests: tuple[tuple[Time, ...], ...]
    inputs_left: int
    notified: tuple[tuple[Time, ...], ...]
    retired: int


def is_subsequence(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Return whether part is whole with zero or more elements left out."""
    rest = iter(whole)
    return all(element in rest for element in part)


def _replace(values: tuple[Any, ...], index: int, value: object) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


def union(bit_sets: Iterable[int]) -> int:
    """The union of sets of pointstamps that are held as bits."""
    united = 0
    for bits in bit_sets:
        united |= bits
    return united


class TimelyActions(Model[TimelyState]):
    """ISpec of one graph: each hook is a guard or an effect that a broken variant may change.

    ``inputs`` are the alternatives for the initial content of the input edges; ``supply`` is what Inp may
    insert, ``supply_max`` times at most; ``expects`` names the witnesses that this graph must show.
    """

    name: ClassVar[str] = "timely"
    state_type: ClassVar[type[Any]] = TimelyState

    def __init__(
        self,
        graph: Graph,
        relation: Relation,
        *,
        inputs: Sequence[Mapping[Location, Sequence[Message]]] = ({},),
        supply: Sequence[tuple[Location, Message]] = (),
        supply_max: int = 0,
        removal: Removal = Removal.ANYTHING,
        reordering: bool = False,
        expects: Collection[str] = (),
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self.supply = supply
        self.supply_max = supply_max
        self.removal = removal
        self.reordering = reordering
        self.expects = expects
        self.names = tuple(graph.nodes)
        self.edge_index = {edge.name: index for index, edge in enumerate(graph.edges)}
        self.node_index = {name: index for index, name in enumerate(graph.nodes)}
        self.bit = {
            (location, time): 1 << (position * len(graph.times.points()) + time)
            for position, location in enumerate(graph.locations)
            for time in graph.times.points()
        }
        self.edge_bits = sum(bit for (location, _), bit in self.bit.items() if location in self.edge_index)
        self.closure = self.close_up(relation)

    def close_up(self, relation: Relation) -> dict[Pointstamp, int]:
        """Close_up of each single pointstamp: the least upward closed set that contains it, as a bit set."""
        direct = {
            p: bit | sum(self.bit[q] for q in set(relation.above(p)) - {p}) for p, bit in self.bit.items()
        }
        while True:
            closed = {p: union(direct[q] for q, b in self.bit.items() if b & direct[p]) for p in direct}
            if closed == direct:
                return closed
            direct = closed

    def clock(self, state: TimelyState) -> int:
        """Clock: what the queued messages and the pending requests could still result in."""
        edges = zip(self.graph.edges, state.queues, strict=True)
        nodes = zip(self.names, state.requests, strict=True)
        return union(self.closure[edge.name, time] for edge, queue in edges for time, _ in queue) | union(
            self.closure[name, time] for name, requests in nodes for time in requests
        )

    def initial(self) -> Iterator[TimelyState]:
        """Queues empty except on the input edges, each node in one of its initial pairs."""
        pairs: list[list[tuple[LocalState, tuple[Time, ...]]]] = [[]]
        for node in self.graph.nodes.values():
            pairs = [[*chosen, pair] for chosen in pairs for pair in node.initial()]
        for content in self.inputs:
            queues = tuple(tuple(content.get(edge.name, ())) for edge in self.graph.edges)
            for chosen in pairs:
                requests = tuple(tuple(sorted(asked)) for _, asked in chosen)
                nobody: tuple[tuple[Time, ...], ...] = tuple(() for _ in chosen)
                local = tuple(state for state, _ in chosen)
                yield self._recorded(TimelyState(queues, local, requests, self.supply_max, nobody, 0))

    def steps(self, state: TimelyState) -> Iterator[tuple[Label, TimelyState]]:
        """Mess, Not, Inp and Outp under this graph's own Clock."""
        clock = self.clock(state)
        yield from self.messages_received(state)
        yield from self.notifications_received(state, clock)
        yield from self.inputs_changed(state, clock)
        yield from self.outputs_changed(state)

    def messages_received(self, state: TimelyState) -> Iterator[tuple[Label, TimelyState]]:
        """Mess(p, e, m): p takes m from e and reacts."""
        for index, edge in enumerate(self.graph.edges):
            p = edge.destination
            if p is None:
                continue
            queue = state.queues[index]
            for place, message in enumerate(queue):
                if self.may_receive(queue[:place], message):
                    node = self.node_index[p]
                    reaction = self.graph.nodes[p].on_message(state.local[node], edge.name, message)
                    requests = tuple(sorted({*state.requests[node], *reaction.requests}))
                    taken = _replace(state.queues, index, queue[:place] + queue[place + 1 :])
                    after = self._reacted(state._replace(queues=taken), node, reaction, requests)
                    yield ("mess", p, edge.name, message), self._recorded(after)

    def notifications_received(self, state: TimelyState, clock: int) -> Iterator[tuple[Label, TimelyState]]:
        """Not(p, t): p is notified of a requested time that is complete on all its incoming edges."""
        for node, p in enumerate(self.names):
            for time in state.requests[node]:
                if self.may_notify(state, clock, p, time):
                    reaction = self.graph.nodes[p].on_notification(state.local[node], time)
                    requests = self.requests_after(state.requests[node], time, reaction.requests)
                    told = tuple(sorted({*state.notified[node], time}))
                    heard = state._replace(notified=_replace(state.notified, node, told))
                    after = self._reacted(heard, node, reaction, requests)
                    yield ("not", p, time), self._recorded(after)

    def inputs_changed(self, state: TimelyState, clock: int) -> Iterator[tuple[Label, TimelyState]]:
        """Inp: a message appears anywhere in the queue of an input edge."""
        if state.inputs_left:
            for name, message in self.supply:
                index = self.edge_index[name]
                queue = state.queues[index]
                for place in range(len(queue) + 1):
                    longer = _replace(state.queues, index, (*queue[:place], message, *queue[place:]))
                    after = state._replace(queues=longer, inputs_left=state.inputs_left - 1)
                    if self.may_input(clock, self.clock(after)):
                        yield ("inp", name, place, message), self._recorded(after)

    def outputs_changed(self, state: TimelyState) -> Iterator[tuple[Label, TimelyState]]:
        """Outp: a message disappears from the queue of an output edge."""
        for name in self.graph.outputs:
            index = self.edge_index[name]
            queue = state.queues[index]
            for place in self._removable(queue):
                shorter = _replace(state.queues, index, queue[:place] + queue[place + 1 :])
                yield ("outp", name, place), self._recorded(state._replace(queues=shorter))

    def may_receive(self, ahead: tuple[Message, ...], message: Message) -> bool:
        """Return whether a message may be taken past those ahead: none, or none at or below its own time."""
        if self.reordering:
            return not any(self.graph.times.less_equal(time, message[0]) for time, _ in ahead)
        return not ahead

    def may_notify(self, state: TimelyState, clock: int, p: Location, time: Time) -> bool:
        """Return whether the time has left Clock on every incoming edge of p."""
        return not any(clock & self.bit[edge, time] for edge in self.graph.incoming(p))

    def may_input(self, clock: int, clock_after: int) -> bool:
        """Return whether Inp keeps Clock' within Clock, the constraint that input capabilities enforce."""
        return clock_after & ~clock == 0

    def requests_after(
        self, requests: tuple[Time, ...], time: Time, added: tuple[Time, ...]
    ) -> tuple[Time, ...]:
        """(N - {t}) U N': the union comes last, so that a handler may ask for the same time again."""
        return tuple(sorted((set(requests) - {time}) | set(added)))

    def describe_label(self, label: Label) -> str:
        """Return text such as ``mess p i 1:m`` or ``not q 2``, with the names of times."""
        words = [f"{self.graph.times.names[x[0]]}:{x[1]}" if isinstance(x, tuple) else str(x) for x in label]
        if label[0] == "not":
            words[2] = self.graph.times.names[label[2]]
        return " ".join(words)

    def describe_state(self, state: TimelyState) -> str:
        """The queues and pending requests that are not empty, and the local states."""
        names = self.graph.times.names
        queues = [
            f"{edge.name} = [{' '.join(f'{names[time]}:{payload}' for time, payload in queue)}]"
            for edge, queue in zip(self.graph.edges, state.queues, strict=True)
            if queue
        ]
        nodes = [
            f"{p} = {local or ''}{{{', '.join(names[time] for time in requests)}}}"
            for p, local, requests in zip(self.names, state.local, state.requests, strict=True)
        ]
        return "  ".join([*queues, *nodes])

    def _reacted(
        self, state: TimelyState, node: int, reaction: Reaction, requests: tuple[Time, ...]
    ) -> TimelyState:
        queues = list(state.queues)
        for edge, message in reaction.sent:
            queues[self.edge_index[edge]] += (message,)
        return state._replace(
            queues=tuple(queues),
            local=_replace(state.local, node, reaction.state),
            requests=_replace(state.requests, node, requests),
        )

    def _recorded(self, state: TimelyState) -> TimelyState:
        return state._replace(retired=state.retired | self.edge_bits & ~self.clock(state))

    def _removable(self, queue: tuple[Message, ...]) -> range:
        match self.removal:
            case Removal.NOTHING:
                return range(0)
            case Removal.HEAD:
                return range(min(1, len(queue)))
            case Removal.ANYTHING:
                return range(len(queue))
