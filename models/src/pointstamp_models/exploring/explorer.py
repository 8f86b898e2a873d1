"""Breadth-first exploration of every reachable state of a model, judging each state and each step.

Each state is judged when it is first reached and each step when it is taken, in the order of their distance
from the beginning, so the trace to the first violation of a property is a shortest one for that property.
Held for each state are its fields (``StateTable``) and the state it was first reached from, about 200 bytes
in all, so millions fit; labels are found again when a trace is wanted.

No symmetry reduction is used: the published state counts are counts of plain states, and the workers of
several instances are not interchangeable. Liveness is judged elsewhere
(``pointstamp_models.exploring.liveness``), on the graph that ``keep_edges`` keeps.
"""

from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from pointstamp.errors import InternalError
from pointstamp_models.exploring.states import StateTable
from pointstamp_models.spec.model import Label, Model

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
    """The property that broke and a shortest trace that breaks it; the first step is the initial state.

    A trace that breaks a liveness property is a lasso: from step ``loops_to`` on it repeats forever, the
    state of its last step being that of step ``loops_to``. If that is the last step, nothing more happens.
    """

    property: str
    trace: tuple[TraceStep, ...]
    loops_to: int | None = None

    def steps(self) -> int:
        """The number of steps of the trace after the initial state."""
        return len(self.trace) - 1

    def headline(self) -> str:
        """The violated property, and the length of the trace."""
        if self.loops_to is not None:
            return f"{self.property} is broken by a fair run that continues forever"
        match self.steps():
            case 0:
                return f"{self.property} is broken in an initial state"
            case 1:
                return f"{self.property} is broken after 1 step"
            case steps:
                return f"{self.property} is broken after {steps} steps"

    def story(self) -> str:
        """The trace, two lines for each step: what was done and the state after it."""
        lines = []
        for number, step in enumerate(self.trace):
            lines += [f"  {number:3} {step.label}", f"      {step.state}"]
        if self.loops_to == self.steps():
            lines.append("      and nothing more happens")
        elif self.loops_to is not None:
            lines.append(f"      and on from {self.loops_to} again, forever")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.headline()}:\n{self.story()}"


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of the explored graph, between the indices of two states."""

    origin: int
    label: Label
    target: int


@dataclass(slots=True)
class Exploration(Generic[S]):
    """The result of an exploration. Changed by ``explore`` only, while it runs.

    ``complete``: every reachable state was reached, judged and left by each of its steps. ``transitions``
    counts steps with their labels, so two ways from one state to another count twice. ``edges`` stand in
    the order of their origins.
    """

    model: Model[S]
    complete: bool = False
    transitions: int = 0
    seconds: float = 0.0
    violation: Violation | None = None
    witnessed: set[str] = field(default_factory=set)
    edges: list[Edge] = field(default_factory=list)
    table: StateTable[S] = field(init=False)
    parents: "array[int]" = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        self.table = StateTable(self.model.state_type)

    @property
    def states(self) -> int:
        """The number of distinct reached states."""
        return len(self.table)

    @property
    def depth(self) -> int:
        """The distance of the farthest state from the beginning; it is the one reached last."""
        return len(self._run_to(self.states - 1)) - 1 if self.states else 0

    def state(self, index: int) -> S:
        """The state with this index, in the order in which states were reached."""
        return self.table[index]

    @property
    def missing_witnesses(self) -> set[str]:
        """Witnesses that the model promises and that no reached state or step shows."""
        return (set(self.model.witnesses()) | set(self.model.step_witnesses())) - self.witnessed

    def trace_to(self, index: int) -> list[tuple[Label, S]]:
        """A shortest run to this state: labels and states, the initial state under ``("init",)``."""
        indices = self._run_to(index)
        trace: list[tuple[Label, S]] = [(("init",), self.state(indices[0]))]
        for target in indices[1:]:
            wanted = self.state(target)
            label = next(label for label, after in self.model.steps(trace[-1][1]) if after == wanted)
            trace.append((label, wanted))
        return trace

    def _run_to(self, index: int) -> list[int]:
        indices = [index]
        while self.parents[indices[-1]] != _NO_PARENT:
            indices.append(self.parents[indices[-1]])
        return indices[::-1]

    def described(self, name: str, trace: list[tuple[Label, S]], loops_to: int | None = None) -> Violation:
        """The violation of a property by this run, as a reader sees it."""
        model = self.model
        begin, *rest = trace
        steps = [TraceStep("init", model.describe_state(begin[1]))]
        steps += [
            TraceStep(model.describe_label(label), model.describe_state(state)) for label, state in rest
        ]
        return Violation(name, tuple(steps), loops_to)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an exploration, for a live display."""

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
    """Reach every state of the model, or stop at the first violation or when ``limit`` states are reached.

    ``properties`` restricts what is judged (None: everything that the model has, deadlock included);
    ``keep_edges`` keeps the graph, which liveness needs; ``report`` is called now and then.
    """
    _require_known(model, properties or ())
    return _Search(model, properties, limit, keep_edges, report).run()


def _require_known(model: Model[S], names: Collection[str]) -> None:
    """A misspelt property would be judged nowhere and so hold, which must not pass silently."""
    tables: list[Mapping[str, Any]] = [model.invariants(), model.step_properties(), model.liveness()]
    known = {DEADLOCK}.union(*tables, model.witnesses(), model.step_witnesses())
    unknown = sorted(set(names) - known)
    if unknown:
        raise InternalError(
            f"model {model.name!r} has no property {', '.join(map(repr, unknown))}; it has "
            f"{', '.join(sorted(known))}. Correct the name where the exploration was asked for."
        )


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

    def run(self) -> Exploration[S]:
        started = monotonic()
        found = self.found
        found.violation = self._search()
        found.seconds = monotonic() - started
        return found

    def _search(self) -> Violation | None:
        """Expand the states in the order in which they were reached; the queue is the table itself."""
        for state in self.model.initial():
            _, broken = self._reach(state, _NO_PARENT)
            if broken:
                return broken
        found = self.found
        origin = 0
        while origin < found.states:
            if self.limit is not None and found.states >= self.limit:
                return None
            broken = self._expand(origin)
            if broken:
                return broken
            origin += 1
            if self.report and origin % REPORT_EVERY_STATES == 0:
                waiting = found.states - origin
                self.report(Progress(found.states, found.transitions, waiting, found.depth))
        found.complete = True
        return None

    def _expand(self, origin: int) -> Violation | None:
        found = self.found
        before = found.state(origin)
        stuck = True
        for label, after in self.model.steps(before):
            stuck = False
            found.transitions += 1
            target, broken = self._reach(after, origin)
            if broken:
                return broken
            if self.keep_edges:
                found.edges.append(Edge(origin, label, target))
            for name, holds in self.step_properties:
                if not holds(before, label, after):
                    return found.described(name, [*found.trace_to(origin), (label, after)])
            if self.unseen_steps:
                self._look_for_step_witnesses(before, label, after)
        if stuck and self.judges_deadlock and not self.model.may_stop(before):
            return found.described(DEADLOCK, found.trace_to(origin))
        return None

    def _reach(self, state: S, parent: int) -> tuple[int, Violation | None]:
        found = self.found
        index, is_new = found.table.add(state)
        if not is_new:
            return index, None
        found.parents.append(parent)
        for name, holds in self.invariants:
            if not holds(state):
                return index, found.described(name, found.trace_to(index))
        if self.unseen:
            self._look_for_witnesses(state)
        return index, None

    def _look_for_witnesses(self, state: S) -> None:
        for name in [name for name, shows in self.unseen.items() if shows(state)]:
            del self.unseen[name]
            self.found.witnessed.add(name)

    def _look_for_step_witnesses(self, before: S, label: Label, after: S) -> None:
        for name in [name for name, shows in self.unseen_steps.items() if shows(before, label, after)]:
            del self.unseen_steps[name]
            self.found.witnessed.add(name)
