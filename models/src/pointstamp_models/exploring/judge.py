"""One task of the judge: explore an instance, reject a mutant, or run a check, and say what was wrong.

An instance is right if it breaks no property, reaches every witness and, where counts are published, those
counts. A mutant is right if it is rejected by the very property that it is there to break: only that
property is judged, because a mutant that trips over something else first proves nothing about it. An
equivalent mutant is right if it keeps every property and reaches exactly the states of the true model.

A verdict is plain data, because it comes from another process. Errors are not caught here: the process that
runs the task reports them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from time import monotonic
from typing import Any, TypeAlias

from pointstamp_models.exploring import liveness
from pointstamp_models.exploring.entry import AnyModel, Check, Instance, Mutant
from pointstamp_models.exploring.explorer import DEADLOCK, Exploration, Progress, Violation, explore
from pointstamp_models.spec.model import Model

Report: TypeAlias = Callable[[Progress], None]


class Kind(StrEnum):
    """The kind of a task."""

    INSTANCE = "instance"
    MUTANT = "mutant"
    EQUIVALENT = "equivalent"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to judge; ``twin`` is the instance whose states an equivalent mutant must reach."""

    model: str
    work: Instance | Mutant | Check
    twin: Instance | None = None

    @property
    def kind(self) -> Kind:
        """The kind of this task; a check that must reject a mutant has the kind of the mutant."""
        match self.work:
            case Instance():
                return Kind.INSTANCE
            case Mutant(breaks=None):
                return Kind.EQUIVALENT
            case Mutant():
                return Kind.MUTANT
            case Check(rejects=None):
                return Kind.CHECK
            case Check():
                return Kind.MUTANT

    @property
    def name(self) -> str:
        """The name within the model: of the instance, the mutant or the check."""
        match self.work:
            case Instance(name=name):
                return name
            case Mutant(identifier=identifier):
                return identifier
            case Check(name=name, rejects=rejects):
                return rejects or name

    @property
    def change(self) -> str:
        """The difference of a mutant from the model; for a check that rejects one, its name."""
        match self.work:
            case Mutant(change=change):
                return change
            case Check(name=name, rejects=str()):
                return name
            case Instance() | Check():
                return ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one task. It is right if there are no problems.

    ``change`` is how a mutant differs, ``detail`` one line on what was found. ``violation`` is what broke: a
    problem for an instance, the purpose of a mutant. An exploration has states, a check has cases.
    """

    model: str
    kind: Kind
    name: str
    change: str = ""
    problems: tuple[str, ...] = ()
    seconds: float = 0.0
    cases: int = 0
    states: int = 0
    transitions: int = 0
    depth: int = 0
    complete: bool = False
    properties: tuple[str, ...] = ()
    violation: Violation | None = None
    detail: str = ""

    @property
    def right(self) -> bool:
        """Whether what should hold holds and what should break breaks."""
        return not self.problems


def judge(task: Task, report: Report) -> Verdict:
    """Do the task, in this process."""
    started = monotonic()
    blank = Verdict(task.model, task.kind, task.name, task.change)
    match task.work:
        case Instance() as instance:
            verdict = _judge_instance(blank, instance, report)
        case Mutant(breaks=None) as mutant:
            assert task.twin is not None, f"{mutant.identifier} has no twin"
            verdict = _judge_equivalent(blank, mutant, task.twin, report)
        case Mutant(breaks=str(breaks)) as mutant:
            verdict = _judge_mutant(blank, mutant, breaks, report)
        case Check() as check:
            outcome = check.run()
            problems = () if outcome.holds else (f"does not hold: {outcome.detail}",)
            verdict = replace(
                blank, problems=problems, cases=outcome.cases, complete=True, detail=outcome.detail
            )
    return replace(verdict, seconds=monotonic() - started)


def _judge_instance(blank: Verdict, instance: Instance, report: Report) -> Verdict:
    model = instance.build()
    exploration = explore(model, limit=instance.limit, keep_edges=instance.liveness, report=report)
    violation = exploration.violation
    problems = _safety_problems(exploration)
    if violation is None:  # otherwise the counts are those of a search cut short
        problems += _count_problems("states", exploration.states, instance.states)
        problems += _count_problems("transitions", exploration.transitions, instance.transitions)
    if violation is None and instance.liveness:
        violation, more = _judge_liveness(exploration)
        problems += more
    return replace(
        _measured(blank, exploration),
        problems=tuple(problems),
        properties=_judged(model, with_liveness=instance.liveness),
        violation=violation,
    )


def _safety_problems(exploration: Exploration[Any]) -> list[str]:
    if exploration.violation:
        return [exploration.violation.headline()]
    within = "" if exploration.complete else f" within its limit of {exploration.states:,} states"
    return [f"witness {name} is never reached{within}" for name in sorted(exploration.missing_witnesses)]


def _count_problems(what: str, reached: int, published: int | None) -> list[str]:
    if published is None or reached == published:
        return []
    return [f"reaches {reached:,} {what}, but {published:,} are published"]


def _judge_liveness(exploration: Exploration[Any]) -> tuple[Violation | None, list[str]]:
    if not exploration.model.liveness():
        return None, ["requires liveness, but the model has no liveness property"]
    if not exploration.complete:
        return None, ["requires liveness, but its limit leaves the graph incomplete"]
    violation = liveness.violation(exploration)
    return violation, [violation.headline()] if violation else []


def _judged(model: AnyModel, *, with_liveness: bool) -> tuple[str, ...]:
    """The names of the properties that an exploration judges, witnesses included."""
    names = [*model.invariants(), *model.step_properties(), *model.witnesses(), *model.step_witnesses()]
    if type(model).may_stop is not Model.may_stop:
        names.append(DEADLOCK)
    return (*names, *model.liveness()) if with_liveness else tuple(names)


def _judge_mutant(blank: Verdict, mutant: Mutant, breaks: str, report: Report) -> Verdict:
    model = mutant.build()
    if breaks in model.liveness():
        exploration = explore(model, properties=(), limit=mutant.limit, keep_edges=True, report=report)
        violation = liveness.violation(exploration, properties=[breaks]) if exploration.complete else None
    else:
        exploration = explore(model, properties=[breaks], limit=mutant.limit, report=report)
        violation = exploration.violation
    problems: tuple[str, ...] = ()
    if violation:
        fate = violation.headline()
    elif exploration.complete and breaks in exploration.missing_witnesses:
        fate = f"witness {breaks} is never reached"
    else:
        extent = "all" if exploration.complete else "the first"
        fate = f"survives: {breaks} is not broken in {extent} {exploration.states:,} states"
        problems = (fate,)
    return replace(
        _measured(blank, exploration),
        problems=problems,
        properties=(breaks,),
        violation=violation,
        detail=fate,
    )


def _judge_equivalent(blank: Verdict, mutant: Mutant, twin: Instance, report: Report) -> Verdict:
    exploration = explore(mutant.build(), limit=mutant.limit, report=report)
    original = explore(twin.build(), limit=twin.limit, report=report)
    problems = _safety_problems(exploration)
    theirs = {original.state(index) for index in range(original.states)}
    ours = {exploration.state(index) for index in range(exploration.states)}
    if exploration.violation is None and ours != theirs:
        problems.append(
            f"is not equivalent to {twin.name}: "
            f"{len(ours - theirs):,} states more and {len(theirs - ours):,} fewer"
        )
    fate = "; ".join(problems) or f"the {len(ours):,} states of {twin.name}, every property holds"
    return replace(
        _measured(blank, exploration),
        problems=tuple(problems),
        properties=_judged(exploration.model, with_liveness=False),
        violation=exploration.violation,
        detail=fate,
    )


def _measured(blank: Verdict, exploration: Exploration[Any]) -> Verdict:
    return replace(
        blank,
        states=exploration.states,
        transitions=exploration.transitions,
        depth=exploration.depth,
        complete=exploration.complete,
    )
