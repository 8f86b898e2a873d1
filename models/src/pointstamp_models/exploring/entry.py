"""The entry of a model in the catalog: its instances, its mutants, and its other checks.

An *instance* is a model with small parameters that is explored whole; where a state count is published,
reaching another one is a failure. A *mutant* is the model with one named change, and must be rejected by
the property it breaks; a mutant that changes nothing observable is listed as equivalent and must reach
the same states. A *check* is anything that is not an exploration: a comparison with brute force, a
constructed explanation.

Entries travel to other processes, so ``build`` and ``run`` are functions or classes of a module, or a
``functools.partial`` of one; never a lambda.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pointstamp.errors import InternalError
from pointstamp_models.spec.model import Model

AnyModel: TypeAlias = Model[Any]


@dataclass(frozen=True, slots=True)
class Instance:
    """A model with small parameters, explored whole; ``build`` runs in the process that explores it.

    ``states`` and ``transitions`` are the published counts, None where none is published. ``limit``
    bounds an instance that is too large to finish; then its properties are judged on that many states.
    """

    name: str
    build: Callable[[], AnyModel]
    states: int | None = None
    transitions: int | None = None
    limit: int | None = None
    liveness: bool = False
    long: bool = False


@dataclass(frozen=True, slots=True)
class Mutant:
    """The model with one named change, and the property that must reject it.

    ``breaks`` is the name of an invariant, a step property, a liveness property, ``deadlock``, or a
    witness that must become unreachable. None means that the change is equivalent: every property holds
    and the states reached are those of the instance named in ``same_as``.
    """

    identifier: str
    change: str
    build: Callable[[], AnyModel]
    breaks: str | None
    same_as: str | None = None
    limit: int | None = None
    long: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a check that is not an exploration: the verdict, the number of cases, and a line."""

    holds: bool
    cases: int
    detail: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something else that must hold of a model, as a function from nothing to an Outcome.

    ``rejects`` names the mutant that the check is there to reject, if it is there for one; then the check
    holds if the mutant is rejected, and counts among the mutants.
    """

    name: str
    run: Callable[[], Outcome]
    rejects: str | None = None
    long: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalogue with everything that judges it."""

    name: str
    title: str
    instances: tuple[Instance, ...]
    mutants: tuple[Mutant, ...] = ()
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        names = [instance.name for instance in self.instances]
        names += [mutant.identifier for mutant in self.mutants]
        names += [check.name for check in self.checks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InternalError(f"entry {self.name!r} lists {', '.join(twice)} more than once; rename one")
        twins = [instance.name for instance in self.instances]
        for mutant in self.mutants:
            if mutant.breaks is None and mutant.same_as not in twins:
                raise InternalError(
                    f"mutant {mutant.identifier} of entry {self.name!r} is equivalent to nothing: same_as "
                    f"must be one of {', '.join(twins)}, but is {mutant.same_as!r}"
                )
