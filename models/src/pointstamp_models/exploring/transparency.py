"""Failure transparency as a tool: for an execution with failures, the failure-free one that explains it.

Veresov et al. 2024 prove that a dataflow with aligned borders hides its failures (theorem 6.9). The proof
is a recipe, and this file follows it for one given execution: (1) split the trace at the recoveries into
*generations*; (2) in each, let e* be the greatest common epoch at its end and move the steps of epochs up
to e* to the front, keeping their order; (3) cut off the rest, with the failures and the recovery;
(4) concatenate. The result is then judged, not trusted: every step is replayed under the failure-free
rules, every stripped generation must end where the recovery restarted (lemmas B.10-11), and every
observation of the execution is mapped to one of the explanation, never going back (definition 5.6).

Nothing here knows a particular model: what it needs is the protocol ``Recoverable``. It explains one
execution that it is given; that *every* execution has an explanation is what the checks of the catalogue ask,
by giving it every execution of a small instance and many random ones of larger ones.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pointstamp_models.spec.model import Label, Model

S = TypeVar("S", bound=tuple[Any, ...])

Execution: TypeAlias = Sequence[tuple[Label, S]]
"""The steps and the states they lead to; the initial state comes first, under any label."""


class Recoverable(Protocol[S]):
    """The interface that the explainer needs of a model with failures; a model may implement it itself."""

    def is_recovery(self, label: Label) -> bool:
        """Return whether this step restarts the whole system; it ends a generation."""
        ...

    def epoch_of(self, label: Label, before: S) -> int | None:
        """The epoch to which a step belongs, taken in the state ``before``.

        None for a step that no explanation contains: a failure, a recovery, or bookkeeping that ``replay``
        makes up by itself where it is needed (the progress steps of a tracker).
        """
        ...

    def gce(self, state: S) -> int:
        """The greatest common epoch: the newest one whose snapshot every task has taken."""
        ...

    def observe(self, state: S) -> Hashable:
        """The observation of a state; equal exactly if an observer sees no difference."""
        ...

    def without_failures(self, state: S) -> S:
        """The same configuration, with whatever counts failures set as if none ever happens.

        The explanation starts in this image of the first state, and a stripped generation must end in
        the image of the state that the recovery restored.
        """
        ...

    def replay(self, state: S, label: Label) -> S | None:
        """Take this very step under the failure-free rules; None if its guard does not hold here."""
        ...

    def describe_label(self, label: Label) -> str:
        """Show a step for a reader."""
        ...

    def describe_state(self, state: S) -> str:
        """Show a state for a reader."""
        ...


class Runnable(Recoverable[S], Protocol[S]):
    """A model that can be run as well as explained."""

    def initial(self) -> Iterable[S]:
        """Every state in which a run may begin."""
        ...

    def steps(self, state: S) -> Iterable[tuple[Label, S]]:
        """Every step that is enabled in this state."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the execution: where it stands there, what it does, and the epoch to which it belongs."""

    position: int
    label: Label
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Generation(Generic[S]):
    """The steps between two recoveries; ``gce`` is e*, taken before the recovery, ``restored`` after it."""

    steps: tuple[Step, ...]
    gce: int
    restored: S | None

    @property
    def kept(self) -> tuple[Step, ...]:
        """The steps that an observer may believe in: those of epochs up to e*."""
        return tuple(step for step in self.steps if step.epoch is not None and step.epoch <= self.gce)

    @property
    def discarded(self) -> tuple[Step, ...]:
        """The steps that the recovery undoes, and the failures."""
        return tuple(step for step in self.steps if step.epoch is None or step.epoch > self.gce)

    @property
    def reordered(self) -> tuple[Step, ...]:
        """The stable partition of the proof: all that is kept, then all that is discarded."""
        return self.kept + self.discarded


@dataclass(frozen=True, slots=True)
class Explanation(Generic[S]):
    """A failure-free execution for one with failures, and why it is none if ``flaw`` says so.

    ``states`` are the replayed configurations, the initial one first; ``mapping[m]`` is the index of the
    one in which the observer sees what the execution's m-th state shows. Both end early at a flaw.
    """

    execution: Execution[S]
    generations: tuple[Generation[S], ...]
    states: tuple[S, ...]
    mapping: tuple[int, ...]
    flaw: str | None

    @property
    def trace(self) -> tuple[Step, ...]:
        """The steps of the explanation: what is kept of each generation, one after the other."""
        return tuple(step for generation in self.generations for step in generation.kept)


def explain(
    model: Recoverable[S], execution: Execution[S], *, specified: Callable[[S], Hashable] | None = None
) -> Explanation[S]:
    """Every execution of a failure-transparent model has an explanation without a flaw.

    ``specified`` is what the outside should see of the explanation (O' of definition 5.4), if that is
    not ``model.observe``; a model whose very observation is in doubt is judged by another one's.
    """
    generations = split_generations(model, execution)
    states, flaw = _replay(model, model.without_failures(execution[0][1]), generations)
    shown = [(specified or model.observe)(state) for state in states]
    mapping, unseen = _map_observations([model.observe(state) for _, state in execution], shown)
    return Explanation(execution, generations, states, mapping, flaw or unseen)


def split_generations(model: Recoverable[S], execution: Execution[S]) -> tuple[Generation[S], ...]:
    """Each generation ends before a recovery, the last one where the execution ends."""
    generations: list[Generation[S]] = []
    steps: list[Step] = []
    before = execution[0][1]
    for position, (label, after) in enumerate(execution[1:], start=1):
        if model.is_recovery(label):
            generations.append(Generation(tuple(steps), model.gce(before), after))
            steps = []
        else:
            steps.append(Step(position, label, model.epoch_of(label, before)))
        before = after
    return (*generations, Generation(tuple(steps), model.gce(before), None))


def _replay(
    model: Recoverable[S], start: S, generations: Iterable[Generation[S]]
) -> tuple[tuple[S, ...], str | None]:
    """The configurations of the explanation, and the first reason why it is not a failure-free run."""
    states = [start]
    for generation in generations:
        for step in generation.kept:
            after = model.replay(states[-1], step.label)
            if after is None:
                done = model.describe_label(step.label)
                return tuple(states), f"step {step.position}, {done}, is not enabled in the explanation"
            states.append(after)
        if generation.restored is not None and states[-1] != model.without_failures(generation.restored):
            restored, reached = model.describe_state(generation.restored), model.describe_state(states[-1])
            return tuple(states), f"the recovery restored {restored}, but the explanation reached {reached}"
    return tuple(states), None


def _map_observations(
    seen: Sequence[Hashable], shown: Sequence[Hashable]
) -> tuple[tuple[int, ...], str | None]:
    """Each observation goes to the earliest equal one that is not before the last.

    Taking the earliest never loses a mapping that exists, and it is the one of the proof: what follows the
    closest preceding committing border.
    """
    mapping: list[int] = []
    for position, observation in enumerate(seen):
        try:
            mapping.append(shown.index(observation, mapping[-1] if mapping else 0))
        except ValueError:
            return tuple(mapping), f"what is seen after step {position} is never seen in the explanation"
    return tuple(mapping), None


def side_by_side(model: Recoverable[S], explanation: Explanation[S]) -> str:
    """Show the execution on the left, and on the right at the same height each step that explains it.

    The steps of an explanation are in the order of the execution, so they fit beside it; *seen in* is the
    number of the right-hand state in which an observer sees what the left-hand one shows.
    """
    right = {0: (0, "start"), **_right_column(model, explanation)}
    rows = [("", "execution with failures", "seen in", "", "failure-free explanation")]
    for position, (label, _) in enumerate(explanation.execution):
        left = model.describe_label(label) if position else "start"
        seen = str(explanation.mapping[position]) if position < len(explanation.mapping) else "nowhere"
        number, text = right[position]
        rows.append((str(position), left, seen, "" if number is None else str(number), text))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join(
            (n.rjust(widths[0]), left.ljust(widths[1]), seen.center(widths[2]), k.rjust(widths[3]), text)
        ).rstrip()
        for n, left, seen, k, text in rows
    ]
    verdict = "explained" if explanation.flaw is None else f"NOT EXPLAINED: {explanation.flaw}"
    return "\n".join((*lines, verdict))


def _right_column(model: Recoverable[S], explanation: Explanation[S]) -> dict[int, tuple[int | None, str]]:
    """The right column of each step: the step with its new number, or the reason why it is dropped.

    From a flaw in the replay on there is no explanation, and a question mark stands for every step kept.
    """
    column: dict[int, tuple[int | None, str]] = {}
    position = number = 0
    for index, generation in enumerate(explanation.generations, start=1):
        kept = set(generation.kept)
        for step in generation.steps:
            position = step.position
            if step in kept:
                number += 1
                reached = number < len(explanation.states)
                column[position] = (number, model.describe_label(step.label)) if reached else (None, "- ?")
            else:
                why = "a failure" if step.epoch is None else f"epoch {step.epoch} > {generation.gce}"
                column[position] = (None, f"- dropped, {why}")
        position += 1
        column[position] = (None, f"- generation {index} ends at epoch {generation.gce}")
    return column


def every_execution(model: Model[S]) -> Iterator[Execution[S]]:
    """Every run from every initial state, each prefix a run of its own; only for models without cycles."""
    path: list[tuple[Label, S]] = []

    def extend(label: Label, state: S) -> Iterator[Execution[S]]:
        path.append((label, state))
        yield tuple(path)
        for step, after in model.steps(state):
            yield from extend(step, after)
        path.pop()

    for state in model.initial():
        yield from extend(("init",), state)


def random_executions(model: Runnable[S], *, seed: int, number: int) -> Iterator[Execution[S]]:
    """Runs by chance, the same ones for the same seed; every other one is cut short.

    A failure is enabled everywhere, so an even choice would fail again and again before anything is done.
    Each run draws how much likelier work is than failures and recoveries, from even to hardly ever.
    """
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    for run in range(number):
        likelier = random.choice((1, 10, 50))
        path: list[tuple[Label, S]] = [(("init",), random.choice(list(model.initial())))]
        while steps := list(model.steps(path[-1][1])):
            is_work = [model.epoch_of(label, path[-1][1]) is not None for label, _ in steps]
            path += random.choices(steps, [likelier if works else 1 for works in is_work])
        yield path if run % 2 else path[: random.randint(1, len(path))]


def first_unexplained(
    model: Recoverable[S],
    executions: Iterable[Execution[S]],
    *,
    specified: Callable[[S], Hashable] | None = None,
) -> tuple[int, Explanation[S] | None]:
    """The number of explained executions, and the first unexplained one."""
    explained = 0
    for execution in executions:
        explanation = explain(model, execution, specified=specified)
        if explanation.flaw is not None:
            return explained, explanation
        explained += 1
    return explained, None
