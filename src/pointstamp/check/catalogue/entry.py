"""How a model is put before the judge: its instances, its broken variants, and its other checks.

An *instance* is a model with small parameters that is explored whole; where a state count is published,
reaching another one is a failure. A *mutant* is the model with one named change, and must be rejected by
the property it breaks; a mutant that changes nothing observable is listed as equivalent and must reach
the same states. A *check* is anything that is not an exploration: a comparison with brute force, a
constructed explanation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pointstamp.spec.model import Model

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
    and as many states are reached as by the instance named in ``same_as``.
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
    """What a check that is not an exploration found: the verdict, how many cases, and a line to print."""

    holds: bool
    cases: int
    detail: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something else that must hold of a model, as a function from nothing to an Outcome.

    ``rejects`` names the mutant that the check is there to reject, if it is there for one.
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
