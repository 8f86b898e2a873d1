"""The interface of every executable model: states, steps, and properties.

A model is a state machine in the sense of TLA+: initial states, a next-state relation, and three kinds
of property. An *invariant* is about one state, a *step property* about one step, and a *witness* is
something that must be reachable: a model in which nothing can happen satisfies every invariant, so a
judge that only looks for violations would accept it (models of the clocks protocol with a wrong sign are
of that kind). Stuttering is allowed everywhere and never listed as a step.

A state is a NamedTuple whose fields are hashable values, nested tuples of ints and strings as a rule, so
that an explorer can tell states apart and hold millions of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

S = TypeVar("S", bound=tuple[Any, ...])

Label: TypeAlias = tuple[Any, ...]
"""The name of an action followed by its arguments, for example ``("send_upd", 0, (1, 2))``."""

Invariant: TypeAlias = Callable[[S], bool]
StepProperty: TypeAlias = Callable[[S, Label, S], bool]


class LeadsTo(NamedTuple, Generic[S]):
    """The liveness property ``trigger ~> goal``: whenever trigger holds, goal holds then or later."""

    trigger: Callable[[S], bool]
    goal: Callable[[S], bool]


class Model(ABC, Generic[S]):
    """A state machine with named properties; each method is one hook that a broken variant may change.

    Subclasses set ``state_type`` and ``name`` and override what they have. A mutant is a subclass that
    overrides exactly one of these hooks, or one guard of the concrete model.
    """

    name: ClassVar[str]
    state_type: ClassVar[type[Any]]

    @abstractmethod
    def initial(self) -> Iterable[S]:
        """Every state in which a run may begin."""

    @abstractmethod
    def steps(self, state: S) -> Iterable[tuple[Label, S]]:
        """Every step that is enabled in this state, as its label and the state it leads to."""

    def invariants(self) -> Mapping[str, Invariant[S]]:
        """Predicates that hold in every reachable state, by the names of the papers."""
        return {}

    def step_properties(self) -> Mapping[str, StepProperty[S]]:
        """Predicates that hold for every reachable step, by the names of the papers."""
        return {}

    def witnesses(self) -> Mapping[str, Invariant[S]]:
        """States of which at least one must be reachable, or the model says nothing."""
        return {}

    def step_witnesses(self) -> Mapping[str, StepProperty[S]]:
        """Steps of which at least one must be reachable, or the model says nothing."""
        return {}

    def may_stop(self, state: S) -> bool:
        """Return whether a state without steps is a proper end; False there is a deadlock."""
        return True

    def fairness(self) -> Mapping[str, Callable[[S, Label], bool]]:
        """Weak fairness: for each name, the steps of which one is taken if one is enabled forever."""
        return {}

    def liveness(self) -> Mapping[str, LeadsTo[S]]:
        """The liveness properties of every fair run."""
        return {}

    def describe_label(self, label: Label) -> str:
        """Show a step for a reader, ``send_upd(0, (1, 2))`` unless a model knows better."""
        return f"{label[0]}({', '.join(str(part) for part in label[1:])})"

    def describe_state(self, state: S) -> str:
        """Show a state for a reader, one ``field = value`` after the other."""
        fields: tuple[str, ...] = getattr(state, "_fields", ())
        return "  ".join(f"{field} = {value}" for field, value in zip(fields, state, strict=True))
