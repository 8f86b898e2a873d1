"""One task of the judge: explore an instance, reject a mutant, or run a check, and say what was wrong.

An instance is right if it breaks no property, reaches every witness and, where counts are published, those
counts. A mutant is right if it is rejected by the very property that it is there to break: only that
property is judged, because a mutant that trips over something else first proves nothing about it. An
equivalent mutant is right if it keeps every property and reaches exactly the states of the true model.

A verdict is plain data, because it comes from another process. Errors are not caught here: who runs the
task reports them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any, TypeAlias

from pointstamp.check import liveness
from pointstamp.check.catalogue.entry import AnyModel, Check, Instance, Mutant
from pointstamp.check.explorer import DEADLOCK, Exploration, Progress, Violation, explore
from pointstamp.spec.model import Model

Report: TypeAlias = Callable[[Progress], None]


class Kind(StrEnum):
    """What a task is about."""

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
        """What this task is about; a check that is there to reject a mutant is about that mutant."""
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one task found. It is right if there are no problems.

    ``violation`` is what broke: a problem for an instance, the purpose of a mutant. ``detail`` says in one
    line what was found. For a check, ``states`` counts its cases.
    """

    model: str
    kind: Kind
    name: str
    problems: tuple[str, ...] = ()
    seconds: float = 0.0
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
    match task.work:
        case Instance() as instance:
            found = _judge_instance(instance, report)
        case Mutant(breaks=None) as mutant:
            assert task.twin is not None, f"{mutant.identifier} has no twin"
            found = _judge_equivalent(mutant, task.twin, report)
        case Mutant() as mutant:
            found = _judge_mutant(mutant, report)
        case Check() as check:
            found = _judge_check(check)
    return Verdict(task.model, task.kind, task.name, seconds=monotonic() - started, **found)


_Found: TypeAlias = dict[str, Any]
"""The fields of a verdict that the task itself does not tell."""


def _judge_instance(instance: Instance, report: Report) -> _Found:
    model = instance.build()
    exploration = explore(model, limit=instance.limit, keep_edges=instance.liveness, report=report)
    problems = _safety_problems(exploration)
    problems += _count_problems("states", exploration.states, instance.states)
    problems += _count_problems("transitions", exploration.transitions, instance.transitions)
    violation = exploration.violation
    if instance.liveness and violation is None:
        violation, more = _judge_liveness(exploration)
        problems += more
    return {
        **_measured(exploration),
        "problems": tuple(problems),
        "properties": tuple(_judged(model, with_liveness=instance.liveness)),
        "violation": violation,
    }


def _safety_problems(exploration: Exploration[Any]) -> list[str]:
    if exploration.violation:
        return [exploration.violation.headline()]
    within = "" if exploration.complete else f" within its limit of {exploration.states:,} states"
    return [f"witness {name} is never reached{within}" for name in sorted(exploration.missing_witnesses)]


def _count_problems(what: str, reached: int, published: int | None) -> list[str]:
    if published is None or reached == published:
        return []
    return [f"reaches {reached:,} {what}, and {published:,} are published"]


def _judge_liveness(exploration: Exploration[Any]) -> tuple[Violation | None, list[str]]:
    if not exploration.model.liveness():
        return None, ["is to be judged for liveness, and the model promises none"]
    if not exploration.complete:
        return None, ["is to be judged for liveness, and its limit leaves the graph incomplete"]
    violation = liveness.violation(exploration)
    return violation, [violation.headline()] if violation else []


def _judged(model: AnyModel, *, with_liveness: bool) -> list[str]:
    """The names of the properties that an exploration judges, witnesses included."""
    names = [*model.invariants(), *model.step_properties(), *model.witnesses(), *model.step_witnesses()]
    if type(model).may_stop is not Model.may_stop:
        names.append(DEADLOCK)
    return [*names, *model.liveness()] if with_liveness else names


def _judge_mutant(mutant: Mutant, report: Report) -> _Found:
    model = mutant.build()
    breaks = mutant.breaks or ""
    if breaks in model.liveness():
        exploration = explore(model, properties=(), limit=mutant.limit, keep_edges=True, report=report)
        violation = liveness.violation(exploration, properties=[breaks]) if exploration.complete else None
    else:
        exploration = explore(model, properties=[breaks], limit=mutant.limit, report=report)
        violation = exploration.violation
    is_vacuous = exploration.complete and breaks in exploration.missing_witnesses
    if violation:
        verdict: _Found = {"detail": f"{mutant.change}: {violation.headline()}"}
    elif is_vacuous:
        verdict = {"detail": f"{mutant.change}: witness {breaks} is never reached"}
    else:
        extent = "all" if exploration.complete else "the first"
        survived = f"survives: {breaks} is not broken in {extent} {exploration.states:,} states"
        verdict = {"detail": f"{mutant.change}: {survived}", "problems": (survived,)}
    return {**_measured(exploration), **verdict, "properties": (breaks,), "violation": violation}


def _judge_equivalent(mutant: Mutant, twin: Instance, report: Report) -> _Found:
    exploration = explore(mutant.build(), limit=mutant.limit, report=report)
    original = explore(twin.build(), limit=twin.limit, report=report)
    problems = _safety_problems(exploration)
    theirs = {original.state(index) for index in range(original.states)}
    ours = {exploration.state(index) for index in range(exploration.states)}
    if exploration.violation is None and ours != theirs:
        problems.append(
            f"is no equivalent of {twin.name}: "
            f"{len(ours - theirs):,} states more and {len(theirs - ours):,} fewer"
        )
    return {
        **_measured(exploration),
        "problems": tuple(problems),
        "detail": f"{mutant.change}: the {len(ours):,} states of {twin.name}, every property holds",
        "properties": tuple(_judged(exploration.model, with_liveness=False)),
        "violation": exploration.violation,
    }


def _judge_check(check: Check) -> _Found:
    outcome = check.run()
    return {
        "states": outcome.cases,
        "complete": True,
        "detail": outcome.detail,
        "problems": () if outcome.holds else (f"does not hold: {outcome.detail}",),
    }


def _measured(exploration: Exploration[Any]) -> _Found:
    return {
        "states": exploration.states,
        "transitions": exploration.transitions,
        "depth": exploration.depth,
        "complete": exploration.complete,
    }
