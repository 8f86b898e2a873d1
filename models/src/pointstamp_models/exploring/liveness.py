"""Liveness by fair cycles: what must eventually happen happens in every fair run of an explored graph.

``trigger ~> goal`` fails exactly if some run reaches a state where trigger holds and goal does not, and
from there on stays forever among states where goal does not hold, without breaking a promise of weak
fairness. On a finite graph such a run ends up circling in one strongly connected component, so it is
enough to look at the components of the part of the graph where goal does not hold. Stuttering is allowed,
so a single state without a loop is a component too: a run may stay there forever, if fairness lets it.

Weak fairness of a class of steps: not forever enabled and never taken. A component lets a fair run stay
in it if for every class it contains a step of the class, or a state in which no step of the class is
enabled (enabled by the whole graph: a step that leaves the component counts). Because a run may visit all
of a component again and again, a larger component only makes this easier, so the maximal ones decide.

This is exact, not a bounded search; so it needs a complete exploration with its edges. It does not know
strong fairness, which none of the models assumes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import accumulate, groupby
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from pointstamp.errors import InternalError
from pointstamp_models.exploring.explorer import Exploration, Violation
from pointstamp_models.spec.model import LeadsTo

S = TypeVar("S", bound=tuple[Any, ...])

StateIndex: TypeAlias = int
EdgeIndex: TypeAlias = int
Classes: TypeAlias = int
"""A set of fairness classes, one bit for each."""

_NO_EDGE: Final = -1
"""Stands for the edge that leads to where a walk begins."""


class Lasso(NamedTuple):
    """A run that continues forever: to a state where a promise is owed, on from there, round and round."""

    owed_at: StateIndex
    stem: list[EdgeIndex]
    cycle: list[EdgeIndex]


def violation(exploration: Exploration[S], *, properties: Collection[str] | None = None) -> Violation | None:
    """The first liveness property that a fair run breaks, with that run as its trace; None if all hold.

    ``properties`` restricts what is judged (None: every liveness property that the model has).
    """
    _require_whole_graph(exploration)
    promises = exploration.model.liveness()
    chosen = list(promises) if properties is None else list(properties)
    unknown = sorted(set(chosen) - set(promises))
    if unknown:
        raise InternalError(
            f"model {exploration.model.name!r} has no liveness property {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(promises) or 'none'}. Correct the name where it was asked for."
        )
    graph = _FairGraph(exploration)
    for name in chosen:
        lasso = _broken_by(graph, promises[name])
        if lasso is not None:
            return _described(exploration, name, lasso)
    return None


def _require_whole_graph(exploration: Exploration[S]) -> None:
    who = f"liveness of model {exploration.model.name!r}"
    if not exploration.complete:
        raise InternalError(
            f"{who} needs a complete exploration, but this one stopped after {exploration.states} states, "
            "so the steps of some are unknown. Explore without a limit, and judge no other property."
        )
    if len(exploration.edges) != exploration.transitions:
        raise InternalError(
            f"{who} needs all {exploration.transitions} steps of the graph, but {len(exploration.edges)} "
            "were kept. Explore with keep_edges=True."
        )


def _broken_by(graph: "_FairGraph[S]", promise: LeadsTo[S]) -> Lasso | None:
    """A fair run on which trigger holds once and goal never from there on, nearest to the beginning."""
    arrivals = graph.arrivals_without(promise)
    home_of: dict[StateIndex, list[StateIndex]] = {}
    for component in components(arrivals, lambda origin: graph.targets(origin, arrivals)):
        if graph.lets_stay(component):
            home_of.update((index, component) for index in component)
    entry = next((index for index in arrivals if index in home_of), None)
    if entry is None:
        return None
    stem = graph.walk_to(entry, arrivals)
    owed_at = graph.edges[stem[0]].origin if stem else entry
    return Lasso(owed_at, stem, graph.fair_cycle(entry, frozenset(home_of[entry])))


def _described(exploration: Exploration[S], name: str, lasso: Lasso) -> Violation:
    run = exploration.trace_to(lasso.owed_at)
    loops_to = len(run) - 1 + len(lasso.stem)
    for number in lasso.stem + lasso.cycle:
        edge = exploration.edges[number]
        run.append((edge.label, exploration.state(edge.target)))
    return exploration.described(name, run, loops_to)


class _FairGraph(Generic[S]):
    """An explored graph with the fairness classes that each step belongs to and each state enables."""

    def __init__(self, exploration: Exploration[S]) -> None:
        self.exploration = exploration
        self.edges = exploration.edges
        classes = list(exploration.model.fairness().values())
        self.all_classes: Classes = (1 << len(classes)) - 1
        self.taken: list[Classes] = []
        self.enabled: list[Classes] = [0] * exploration.states
        steps_of = [0] * exploration.states
        for origin, edges in groupby(self.edges, key=lambda edge: edge.origin):
            state = exploration.state(origin)
            for edge in edges:
                taken = sum(1 << bit for bit, belongs in enumerate(classes) if belongs(state, edge.label))
                self.taken.append(taken)
                self.enabled[origin] |= taken
                steps_of[origin] += 1
        # Edges stand in the order of their origins, so those of one state are neighbours.
        self.first_edge: list[EdgeIndex] = list(accumulate(steps_of, initial=0))

    def edges_from(self, origin: StateIndex) -> range:
        """The steps of the whole graph that leave this state."""
        return range(self.first_edge[origin], self.first_edge[origin + 1])

    def targets(self, origin: StateIndex, within: Collection[StateIndex]) -> Iterator[StateIndex]:
        """The successors of this state inside a part of the graph."""
        for number in self.edges_from(origin):
            target = self.edges[number].target
            if target in within:
                yield target

    def arrivals_without(self, promise: LeadsTo[S]) -> dict[StateIndex, EdgeIndex]:
        """The states that a run can visit while goal is owed, nearest first, and how a shortest run comes.

        A run that starts to owe at a far state is longer, so the distance includes the way there.
        """
        exploration = self.exploration
        pending = [not promise.goal(exploration.state(index)) for index in range(exploration.states)]
        distances: list[int] = []
        for parent in exploration.parents:
            distances.append(distances[parent] + 1 if parent >= 0 else 0)
        waiting = [
            (distances[index], index, _NO_EDGE)
            for index in range(exploration.states)
            if pending[index] and promise.trigger(exploration.state(index))
        ]
        heapify(waiting)
        arrivals: dict[StateIndex, EdgeIndex] = {}
        while waiting:
            distance, index, came_by = heappop(waiting)
            if index not in arrivals:
                arrivals[index] = came_by
                for number in self.edges_from(index):
                    target = self.edges[number].target
                    if pending[target] and target not in arrivals:
                        heappush(waiting, (distance + 1, target, number))
        return arrivals

    def lets_stay(self, component: Collection[StateIndex]) -> bool:
        """Return whether a fair run may stay in this component forever."""
        inside = frozenset(component)
        settled: Classes = 0
        for index in inside:
            settled |= self.all_classes & ~self.enabled[index]
            for number in self.edges_from(index):
                if self.edges[number].target in inside:
                    settled |= self.taken[number]
        return settled == self.all_classes

    def fair_cycle(self, entry: StateIndex, home: frozenset[StateIndex]) -> list[EdgeIndex]:
        """A way round inside the component that settles every class; empty if staying at entry does."""
        inside = [n for index in home for n in self.edges_from(index) if self.edges[n].target in home]
        walk: list[EdgeIndex] = []
        here = entry
        unsettled = self.enabled[entry]
        while unsettled:
            way = self._shortest(here, home, [n for n in inside if self._settles(n) & unsettled])
            for number in way:
                unsettled &= ~self._settles(number)
            walk += way
            here = self.edges[way[-1]].target
        if here != entry:
            walk += self._shortest(here, home, [n for n in inside if self.edges[n].target == entry])
        return walk

    def _settles(self, number: EdgeIndex) -> Classes:
        """The classes that this step settles: it is of the class, or leads where the class is disabled."""
        return self.taken[number] | (self.all_classes & ~self.enabled[self.edges[number].target])

    def _shortest(
        self, start: StateIndex, home: frozenset[StateIndex], wanted: Iterable[EdgeIndex]
    ) -> list[EdgeIndex]:
        """A shortest walk inside the component that ends with one of the wanted steps; there is one."""
        last = frozenset(wanted)
        came_by: dict[StateIndex, EdgeIndex] = {start: _NO_EDGE}
        queue = [start]
        for origin in queue:
            for number in self.edges_from(origin):
                target = self.edges[number].target
                if number in last:
                    return [*self.walk_to(origin, came_by), number]
                if target in home and target not in came_by:
                    came_by[target] = number
                    queue.append(target)
        raise InternalError(
            f"a strongly connected component has no way from state {start} to what it contains"
        )

    def walk_to(self, index: StateIndex, came_by: dict[StateIndex, EdgeIndex]) -> list[EdgeIndex]:
        """The steps to this state, read backwards from the edge by which each state was reached."""
        walk: list[EdgeIndex] = []
        while came_by[index] != _NO_EDGE:
            walk.append(came_by[index])
            index = self.edges[came_by[index]].origin
        return walk[::-1]


def components(nodes: Iterable[int], targets: Callable[[int], Iterator[int]]) -> Iterator[list[int]]:
    """The strongly connected components (Tarjan 1972), without recursion, because graphs are deep."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    remaining: dict[int, Iterator[int]] = {}
    stack: list[int] = []
    closed: set[int] = set()
    for root in nodes:
        path = [] if root in order else [root]
        while path:
            node = path[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                remaining[node] = targets(node)
                stack.append(node)
            for target in remaining[node]:
                if target not in order:
                    path.append(target)
                    break
                if target not in closed:
                    low[node] = min(low[node], order[target])
            else:
                path.pop()
                del remaining[node]
                if path:
                    low[path[-1]] = min(low[path[-1]], low[node])
                if low[node] == order[node]:
                    component = _popped_down_to(node, stack)
                    closed.update(component)
                    yield component


def _popped_down_to(node: int, stack: list[int]) -> list[int]:
    popped = [stack.pop()]
    while popped[-1] != node:
        popped.append(stack.pop())
    return popped
