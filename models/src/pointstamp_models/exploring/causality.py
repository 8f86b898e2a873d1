"""The causal order of a trace, and the permutations that keep it.

Veresov et al. 2024, definition 6.4 (causal order), definition B.5 (causality-preserving permutation) and
lemma 6.5: such a permutation of a valid trace is valid, and ends in the same configuration. The explainer
moves steps by such a permutation (lemma B.7); here stands what that means, so that it can be checked. This
file builds no explanation and changes no trace that it is given.
"""

from collections.abc import Hashable, Sequence
from itertools import combinations
from random import Random
from typing import Any, Protocol, TypeVar

from pointstamp_models.spec.model import Label, Model

S = TypeVar("S", bound=tuple[Any, ...])


class Causal(Protocol):
    """The facts that the causal order needs of a step, from its label alone."""

    def processor_of(self, label: Label) -> Hashable | None:
        """The processor of the step; None for a recovery, which all take together."""
        ...

    def messages_of(self, label: Label) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        """The messages that the step consumes, and those it produces."""
        ...


def happens_before(model: Causal, trace: Sequence[Label]) -> frozenset[tuple[int, int]]:
    """The pairs i < j of positions such that step i happens before step j, transitively.

    Directly: one of the two is a recovery, or the same processor takes both, or i produces a message that
    j consumes.
    """
    processors = [model.processor_of(label) for label in trace]
    consumed = [set(model.messages_of(label)[0]) for label in trace]
    produced = [set(model.messages_of(label)[1]) for label in trace]
    before: list[set[int]] = [set() for _ in trace]
    for i, j in combinations(range(len(trace)), 2):
        global_step = processors[i] is None or processors[j] is None
        if global_step or processors[i] == processors[j] or produced[i] & consumed[j]:
            before[j].add(i)
    # Predecessors come earlier in the trace, so theirs are complete when j is reached.
    for j in range(len(trace)):
        before[j].update(*(before[i] for i in before[j]))
    return frozenset((i, j) for j, earlier in enumerate(before) for i in earlier)


def preserves_causality(model: Causal, trace: Sequence[Label], permutation: Sequence[int]) -> bool:
    """Return whether the positions of the trace, in this new order, keep every pair of the causal order."""
    assert sorted(permutation) == list(range(len(trace))), "not a permutation of the trace"
    place = {position: new for new, position in enumerate(permutation)}
    return all(place[i] < place[j] for i, j in happens_before(model, trace))


def random_permutation(model: Causal, trace: Sequence[Label], random: Random) -> list[int]:
    """Some order that keeps causality, by taking again and again any step that nothing left precedes."""
    order = happens_before(model, trace)
    left = set(range(len(trace)))
    permutation: list[int] = []
    while left:
        free = sorted(j for j in left if not any((i, j) in order for i in left))
        permutation.append(random.choice(free))
        left.remove(permutation[-1])
    return permutation


def apply_trace(model: Model[S], start: S, trace: Sequence[Label]) -> S | None:
    """Z(c) of definition 6.2, its last configuration; None if the trace is not valid from c."""
    state: S | None = start
    for label in trace:
        if state is None:
            return None
        state = next((after for step, after in model.steps(state) if step == label), None)
    return state
