"""Breadth-first exploration of every reachable state of a model, judging each state and each step.

Because the search is breadth-first, the trace to the first violation is a shortest one. States are held
packed (``Model.pack``), once, with the index of the state they were first reached from; labels are not
stored but found again when a trace is printed. That is about 200 bytes a state, so millions fit.

No symmetry reduction is used: the published state counts are counts of plain states, and the workers of
several instances are not interchangeable.
"""

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from pointstamp.spec.model import Label, Model

S = TypeVar("S", bound=tuple[Any, ...])

DEADLOCK: Final = "deadlock"
"""The name under which a state without steps that may not stop is reported."""

REPORT_EVERY_STATES: Final = 2_000

_NO_PARENT: Final = -1


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step of a trace, as a reader sees it: what was done and the state after it."""

    label: str
    state: str


@dataclass(frozen=True, slots=True)
class Violation:
    """The property that broke and a shortest trace that breaks it; the first step is the initial state."""

    property: str
    trace: tuple[TraceStep, ...]

    def __str__(self) -> str:
        steps = [f"  {number:3} {step.label}\n      {step.state}" for number, step in enumerate(self.trace)]
        return f"{self.property} is broken after {len(self.trace) - 1} steps:\n" + "\n".join(steps)


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of the explored graph, between the indices of two states."""

    origin: int
    label: Label
    target: int


@dataclass(slots=True)
class Exploration(Generic[S]):
    """What an exploration found. Changed by ``explore`` alone, while it runs."""

    model: Model[S]
    complete: bool = False
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    violation: Violation | None = None
    witnessed: set[str] = field(default_factory=set)
    edges: list[Edge] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    parents: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def states(self) -> int:
        """How many distinct states were reached."""
        return len(self.packed)

    def state(self, index: int) -> S:
        """The state with this index, in the order in which states were reached."""
        return self.model.unpack(self.packed[index])

    @property
    def missing_witnesses(self) -> set[str]:
        """Witnesses that the model promises and that no reached state or step shows."""
        return (set(self.model.witnesses()) | set(self.model.step_witnesses())) - self.witnessed

    def trace_to(self, index: int) -> list[tuple[Label, S]]:
        """A shortest run to this state: labels and states, the initial state under ``("init",)``."""
        indices = [index]
        while self.parents[indices[-1]] != _NO_PARENT:
            indices.append(self.parents[indices[-1]])
        indices.reverse()
        trace: list[tuple[Label, S]] = [(("init",), self.state(indices[0]))]
        for target in indices[1:]:
            wanted = self.packed[target]
            before = trace[-1][1]
            label = next(name for name, after in self.model.steps(before) if self.model.pack(after) == wanted)
            trace.append((label, self.state(target)))
        return trace


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an exploration is: for a live display."""

    states: int
    transitions: int
    waiting: int
    depth: int


def explore(
    model: Model[S],
    *,
    properties: Collection[str] | None = None,
    limit: int | None = None,
    keep_edges: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> Exploration[S]:
    """Reach every state of the model, or stop at the first violation or after ``limit`` states.

    ``properties`` restricts what is judged (None: everything that the model has, deadlock included);
    ``keep_edges`` keeps the graph, which liveness needs; ``report`` is called now and then.
    """
    return _Search(model, properties, limit, keep_edges, report).run()


def _chosen(table: Mapping[str, Any], names: Collection[str] | None) -> list[tuple[str, Any]]:
    return [(name, check) for name, check in table.items() if names is None or name in names]


class _Search(Generic[S]):
    """One breadth-first search; owns its Exploration while it runs."""

    def __init__(
        self,
        model: Model[S],
        properties: Collection[str] | None,
        limit: int | None,
        keep_edges: bool,
        report: Callable[[Progress], None] | None,
    ) -> None:
        self.model = model
        self.found = Exploration(model)
        self.limit = limit
        self.keep_edges = keep_edges
        self.report = report
        self.invariants = _chosen(model.invariants(), properties)
        self.step_properties = _chosen(model.step_properties(), properties)
        self.judges_deadlock = properties is None or DEADLOCK in properties
        self.unseen = dict(model.witnesses())
        self.unseen_steps = dict(model.step_witnesses())
        self.index_of: dict[bytes, int] = {}
        self.depths = array("l")

    def run(self) -> Exploration[S]:
        started = monotonic()
        found = self.found
        found.violation = self._search()
        found.complete = found.violation is None and (self.limit is None or found.states < self.limit)
        found.depth = self.depths[-1] if self.depths else 0
        found.seconds = monotonic() - started
        return found

    def _search(self) -> Violation | None:
        for state in self.model.initial():
            _, broken = self._reach(state, _NO_PARENT)
            if broken:
                return broken
        for origin in self._waiting():
            broken = self._expand(origin)
            if broken:
                return broken
        return None

    def _waiting(self) -> Iterator[int]:
        origin = 0
        while origin < self.found.states and (self.limit is None or self.found.states < self.limit):
            yield origin
            origin += 1
            if self.report and origin % REPORT_EVERY_STATES == 0:
                found = self.found
                waiting = found.states - origin
                self.report(Progress(found.states, found.transitions, waiting, self.depths[origin - 1]))

    def _expand(self, origin: int) -> Violation | None:
        before = self.found.state(origin)
        stuck = True
        for label, after in self.model.steps(before):
            stuck = False
            self.found.transitions += 1
            target, broken = self._reach(after, origin)
            if broken:
                return broken
            if self.keep_edges:
                self.found.edges.append(Edge(origin, label, target))
            for name, holds in self.step_properties:
                if not holds(before, label, after):
                    return self._violation(name, [*self.found.trace_to(origin), (label, after)])
            for name, shows in list(self.unseen_steps.items()):
                if shows(before, label, after):
                    del self.unseen_steps[name]
                    self.found.witnessed.add(name)
        if stuck and self.judges_deadlock and not self.model.may_stop(before):
            return self._violation(DEADLOCK, self.found.trace_to(origin))
        return None

    def _reach(self, state: S, parent: int) -> tuple[int, Violation | None]:
        packed = self.model.pack(state)
        known = self.index_of.get(packed)
        if known is not None:
            return known, None
        found = self.found
        index = self.index_of[packed] = found.states
        found.packed.append(packed)
        found.parents.append(parent)
        self.depths.append(0 if parent == _NO_PARENT else self.depths[parent] + 1)
        for name, holds in self.invariants:
            if not holds(state):
                return index, self._violation(name, found.trace_to(index))
        for name, shows in list(self.unseen.items()):
            if shows(state):
                del self.unseen[name]
                found.witnessed.add(name)
        return index, None

    def _violation(self, name: str, trace: list[tuple[Label, S]]) -> Violation:
        model = self.model
        return Violation(
            name,
            tuple(
                TraceStep(model.describe_label(step), model.describe_state(state)) for step, state in trace
            ),
        )
