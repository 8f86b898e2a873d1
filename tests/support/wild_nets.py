"""Random graphs with any summaries between any ports, legal or not, and the definition of legal as an oracle.

A flow that is written with loops has doors where they belong; a graph may have summaries of any kind: several
between two ports, rounds that are reset in one hop, epochs and rounds that advance in one cycle. ``draw``
makes such graphs as plain data. The oracle walks the data with arithmetic on tuples; it shares nothing with
``pointstamp.topology``, not even the normal form of a composition: it never composes anything.

Legal is defined by times: no way round a cycle leads from a time to itself or to something before it.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pointstamp.topology.domain import EPOCHS, Domain
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.levels import Hop, Hops
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target
from pointstamp.topology.summary import STAY, Advance, Summary
from support.nets import Function, Net, below

Time: TypeAlias = tuple[int, ...]


class Way(NamedTuple):
    """What one summary does: epochs added, what is added to each round that is kept, rounds appended."""

    epochs: int
    added: Time
    appended: Time

    def move(self, time: Time) -> Time:
        """Apply it to a time."""
        kept = tuple(part + more for part, more in zip(time[1:], self.added, strict=False))
        return (time[0] + self.epochs, *kept, *self.appended)

    def summary(self) -> Summary:
        """The same for the code that is judged."""
        return Summary(self.added, self.appended, Advance(self.epochs) if self.epochs else STAY)


class End(NamedTuple):
    """A port: the number of its operator, whether it is an output, and which."""

    operator: int
    is_output: bool
    port: int


@dataclass
class WildNet:
    """A graph as plain data: the rounds of every port, and the ways between ports."""

    rounds: dict[End, int] = field(default_factory=dict)
    wires: list[tuple[End, End]] = field(default_factory=list)
    ways: dict[tuple[End, End], list[Way]] = field(default_factory=dict)

    @property
    def operators(self) -> int:
        """How many operators there are."""
        return 1 + max(end.operator for end in self.rounds)

    def hops(self) -> Iterator[tuple[End, End, Way]]:
        """Every wire and every way through an operator."""
        for origin, target in self.wires:
            yield origin, target, Way(0, (0,) * self.rounds[origin], ())
        for (origin, target), ways in self.ways.items():
            for way in ways:
                yield origin, target, way

    def is_legal(self) -> bool:
        """Whether no cycle leads from a time to itself or before it: the definition, by walking.

        Rounds that are appended begin at 0 or 1 and grow by at most 1 at each operator on the way, so a start
        with every round beyond that sees each cycle come back that can: what leads some time back to itself
        or before it leads every later time back, too. Numbers beyond the start's are all alike.
        """
        onward: dict[End, list[tuple[End, Way]]] = {}
        for origin, target, way in self.hops():
            onward.setdefault(origin, []).append((target, way))
        great = 2 + 2 * self.operators
        return not any(
            _comes_back(onward, end, (great,) * (1 + rounds)) for end, rounds in self.rounds.items()
        )

    def build(self) -> OperatorGraph:
        """The graph for the code that is judged, which refuses what it takes to be illegal."""
        builder = GraphBuilder()
        for number in range(self.operators):
            inputs, outputs = self._ports(number, False), self._ports(number, True)
            builder.add(
                f"op {number}",
                inputs=[Domain(EPOCHS, self.rounds[end]) for end in inputs],
                outputs=[Domain(EPOCHS, self.rounds[end]) for end in outputs],
                summaries={
                    (i, o): [way.summary() for way in self.ways.get((origin, target), [])]
                    for i, origin in enumerate(inputs)
                    for o, target in enumerate(outputs)
                },
            )
        for origin, target in self.wires:
            builder.connect(
                SourcePort(OperatorIndex(origin.operator), origin.port),
                Target(OperatorIndex(target.operator), target.port),
            )
        return builder.build()

    def bare(self) -> Hops:
        """The ports and hops alone, which need not alternate between inputs and outputs."""
        number = {end: Location(place) for place, end in enumerate(self.rounds)}
        outgoing: list[list[Hop]] = [[] for _ in self.rounds]
        for origin, target, way in self.hops():
            outgoing[number[origin]].append(Hop(number[origin], number[target], way.summary()))
        names = [f"op {end.operator}" for end in self.rounds]
        return Hops(names, [Domain(EPOCHS, rounds) for rounds in self.rounds.values()], outgoing)

    def net(self) -> Net:
        """A legal graph in both forms, for the oracle of frontiers."""
        graph = self.build()
        number = {
            End(port.operator, isinstance(port, SourcePort), port.port): place
            for place, port in enumerate(graph.ports)
        }
        edges: list[tuple[int, int, Function]] = [
            (number[origin], number[target], way.move) for origin, target, way in self.hops()
        ]
        rounds = [domain.rounds for domain in graph.domains]
        return Net(graph, rounds, edges, [place for end, place in number.items() if end.is_output])

    def _ports(self, operator: int, is_output: bool) -> list[End]:
        return [end for end in self.rounds if (end.operator, end.is_output) == (operator, is_output)]


def _comes_back(onward: dict[End, list[tuple[End, Way]]], start: End, time: Time) -> bool:
    """Whether some way from a port leads back to it, to this time or before."""
    beyond = time[0] + 1
    seen: set[tuple[End, Time]] = set()
    waiting = [(start, time)]
    while waiting:
        here, now = waiting.pop()
        for there, way in onward.get(here, []):
            after = tuple(min(part, beyond) for part in way.move(now))
            if after[0] == beyond or (there, after) in seen:
                continue  # the epoch never goes back
            if there == start and below(after, time):
                return True
            seen.add((there, after))
            waiting.append((there, after))
    return False


def draw(rng: random.Random) -> WildNet:
    """One random graph: some operators with ports in up to three loops, wired as it comes."""
    net = WildNet()
    depth = rng.randint(0, 3)
    for rounds in range(depth + 1):
        net.rounds[End(rounds, True, 0)] = rounds  # a start for every depth, so that each input has a source
    for operator in range(depth + 1, depth + 1 + rng.randint(2, 5)):
        for port in range(rng.randint(1, 2)):
            net.rounds[End(operator, False, port)] = rng.randint(max(0, depth - 1), depth)
        for port in range(rng.randint(1, 2)):
            net.rounds[End(operator, True, port)] = rng.randint(max(0, depth - 1), depth)
        _draw_ways(rng, net, operator)
    for target in [end for end in net.rounds if not end.is_output]:
        fitting = [
            end
            for end in net.rounds
            if end.is_output and end.operator != target.operator and net.rounds[end] == net.rounds[target]
        ]
        # Starts are used where nothing else fits, and now and then.
        inner = [end for end in fitting if end.operator > depth and rng.random() < 0.95]
        net.wires.append((rng.choice(inner or fitting), target))
    return net


def draw_bare(rng: random.Random) -> WildNet:
    """One random graph of ports alone, with ways from any to any, a port to itself included."""
    net = WildNet()
    depth = rng.randint(0, 3)
    ends = [End(number, True, 0) for number in range(rng.randint(1, 5))]
    for end in ends:
        net.rounds[end] = rng.randint(max(0, depth - 1), depth)
    for _ in range(rng.randint(1, 2 * len(ends))):
        origin, target = rng.choice(ends), rng.choice(ends)
        ways = net.ways.setdefault((origin, target), [])
        ways.append(_draw_way(rng, net.rounds[origin], net.rounds[target]))
    return net


def _draw_ways(rng: random.Random, net: WildNet, operator: int) -> None:
    inputs = [end for end in net.rounds if (end.operator, end.is_output) == (operator, False)]
    outputs = [end for end in net.rounds if (end.operator, end.is_output) == (operator, True)]
    for origin in inputs:
        for target in outputs:
            count = rng.choice((0, 1, 1, 1, 2, 3))
            ways = [_draw_way(rng, net.rounds[origin], net.rounds[target]) for _ in range(count)]
            if ways:
                net.ways[origin, target] = ways


def _draw_way(rng: random.Random, origin: int, target: int) -> Way:
    """Usually all rounds are kept that can be; sometimes rounds are reset."""
    most = min(origin, target)
    kept = most if rng.random() < 0.8 else rng.randint(0, most)
    added = tuple(int(rng.random() < 0.35) for _ in range(kept))
    appended = tuple(int(rng.random() < 0.2) for _ in range(target - kept))
    return Way(int(rng.random() < 0.25), added, appended)
