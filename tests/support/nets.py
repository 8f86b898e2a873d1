"""Random dataflow graphs with nested loops, in two forms: for the code that is judged and for its oracle.

A ``Net`` is drawn once as plain data: ports by number, and edges that are Python functions on tuples. From
the same draw an ``OperatorGraph`` is built. The oracle reads the functions only and never a Summary, a Domain
or an OperatorGraph, so that a mistake in composing or compiling summaries cannot hide in it.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import strategies as st

from pointstamp.topology.domain import EPOCHS, Domain
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target
from pointstamp.topology.summary import Advance, Summary, enter, feedback, identity, leave

Time: TypeAlias = tuple[int, ...]
Function: TypeAlias = Callable[[Time], Time]


@dataclass
class Net:
    """The plain form: how many rounds each location has, and what each edge does to a time."""

    graph: OperatorGraph
    rounds: list[int]
    edges: list[tuple[int, int, Function]]
    outputs: list[int]

    def implied_frontiers(self, points: Iterable[tuple[int, Time]]) -> list[set[Time]]:
        """For every location the minimal times that could arrive there, by walking the graph.

        A time that lies above one already seen at its location leads nowhere that the other does not.
        """
        seen: list[set[Time]] = [set() for _ in self.rounds]
        outgoing: dict[int, list[tuple[int, Function]]] = {}
        for origin, target, function in self.edges:
            outgoing.setdefault(origin, []).append((target, function))
        waiting = list(points)
        while waiting:
            location, time = waiting.pop()
            if any(below(other, time) for other in seen[location]):
                continue
            seen[location] = {other for other in seen[location] if not below(time, other)} | {time}
            waiting.extend((target, function(time)) for target, function in outgoing.get(location, []))
        return seen


def below(a: Time, b: Time) -> bool:
    """The product order, written out here on purpose."""
    return len(a) == len(b) and all(x <= y for x, y in zip(a, b, strict=True))


@dataclass
class _Drawing:
    """A net while it is drawn."""

    rng: random.Random
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    functions: dict[tuple[int, int, int], list[Function]] = field(default_factory=dict)
    names: int = 0

    def add(
        self,
        kind: str,
        inputs: list[int],
        outputs: list[int],
        paths: dict[tuple[int, int], list[tuple[Summary, Function]]],
    ) -> OperatorIndex:
        """Add an operator with the rounds of its ports, and both forms of each internal path."""
        self.names += 1
        index = self.builder.add(
            f"{kind} {self.names}",
            inputs=[Domain(EPOCHS, rounds) for rounds in inputs],
            outputs=[Domain(EPOCHS, rounds) for rounds in outputs],
            summaries={pair: [summary for summary, _ in forms] for pair, forms in paths.items()},
        )
        for (i, o), forms in paths.items():
            self.functions[index, i, o] = [function for _, function in forms]
        return index

    def ordinary_path(self, rounds: int) -> list[tuple[Summary, Function]]:
        """An internal path of an ordinary operator: usually the identity, sometimes more, or none."""
        still: tuple[Summary, Function] = (identity(rounds), lambda time: time)
        later: tuple[Summary, Function] = (
            Summary((0,) * rounds, root=Advance(1)),
            lambda time: (time[0] + 1, *time[1:]),
        )
        choices = [[still], [still], [still], [later], []]
        if rounds:
            next_round: tuple[Summary, Function] = (
                feedback(rounds),
                lambda time: (*time[:-1], time[-1] + 1),
            )
            choices.append([later, next_round])  # two summaries that are incomparable
        return self.rng.choice(choices)

    def scope(self, rounds: int, streams: list[SourcePort], size: int) -> list[SourcePort]:
        """Add some operators and loops that read these streams; return all streams there are now."""
        streams = list(streams)
        for _ in range(size):
            if rounds < 3 and self.rng.random() < 0.35:
                streams.append(self.loop(rounds, streams))
            else:
                streams.extend(self.ordinary(rounds, streams))
        return streams

    def ordinary(self, rounds: int, streams: list[SourcePort]) -> list[SourcePort]:
        inputs = self.rng.randint(1, 3)
        outputs = self.rng.randint(0, 2)
        paths = {(i, o): self.ordinary_path(rounds) for i in range(inputs) for o in range(outputs)}
        index = self.add("op", [rounds] * inputs, [rounds] * outputs, paths)
        for i in range(inputs):
            self.builder.connect(self.rng.choice(streams), Target(index, i))
        return [SourcePort(index, o) for o in range(outputs)]

    def loop(self, rounds: int, streams: list[SourcePort]) -> SourcePort:
        entered = self.add(
            "enter", [rounds], [rounds + 1], {(0, 0): [(enter(rounds), lambda time: (*time, 0))]}
        )
        again = self.add(
            "feedback",
            [rounds + 1],
            [rounds + 1],
            {(0, 0): [(feedback(rounds + 1), lambda time: (*time[:-1], time[-1] + 1))]},
        )
        left = self.add(
            "leave", [rounds + 1], [rounds], {(0, 0): [(leave(rounds + 1), lambda time: time[:-1])]}
        )
        self.builder.connect(self.rng.choice(streams), Target(entered, 0))
        start = [SourcePort(entered, 0), SourcePort(again, 0)]
        inside = self.scope(rounds + 1, start, self.rng.randint(1, 2))
        # Never the feedback's own output: an operator may not feed itself.
        self.builder.connect(self.rng.choice([s for s in inside if s != start[1]]), Target(again, 0))
        self.builder.connect(self.rng.choice(inside), Target(left, 0))
        return SourcePort(left, 0)


def draw_net(rng: random.Random) -> Net:
    """One random net: one to three inputs, nested loops, sometimes a cycle through the epochs."""
    drawing = _Drawing(rng)
    streams = [SourcePort(drawing.add("input", [], [0], {}), 0) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        delayed = drawing.add(
            "next epoch",
            [0],
            [0],
            {(0, 0): [(Summary(root=Advance(1)), lambda time: (time[0] + 1,))]},
        )
        inside = drawing.scope(0, [*streams, SourcePort(delayed, 0)], rng.randint(1, 3))
        drawing.builder.connect(
            rng.choice([stream for stream in inside if stream != SourcePort(delayed, 0)]), Target(delayed, 0)
        )
    else:
        drawing.scope(0, streams, rng.randint(1, 4))
    return _finish(drawing)


def _finish(drawing: _Drawing) -> Net:
    graph = drawing.builder.build()
    edges: list[tuple[int, int, Function]] = [
        (graph.location(source), graph.location(target), lambda time: time)
        for source, target in graph.connections
    ]
    for (operator, i, o), functions in drawing.functions.items():
        index = OperatorIndex(operator)
        ends = graph.location(Target(index, i)), graph.location(SourcePort(index, o))
        edges.extend((*ends, function) for function in functions)
    rounds = [graph.domains[number].rounds for number in range(len(graph.ports))]
    outputs = [number for number, port in enumerate(graph.ports) if isinstance(port, SourcePort)]
    return Net(graph, rounds, edges, outputs)


def nets() -> st.SearchStrategy[Net]:
    """Random nets for hypothesis."""
    return st.randoms(use_true_random=False).map(draw_net)


def location(number: int) -> Location:
    """A plain number as the location it is."""
    return Location(number)
