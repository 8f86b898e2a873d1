"""Causal order of traces: what must stay in order, and that nothing else matters.

Families, and what only each can find:
- by hand: the causal order of a trace of two tasks, worked out on paper; finds a missing kind of cause.
- laws: lemmas B.7 and 6.5 on random executions of a diamond of tasks; finds an order that is too weak.
- too strong: two orders of one trace that are both causal; finds an order that forbids everything.
"""

from itertools import pairwise
from random import Random

import pytest

from pointstamp_models.catalogue.borders import DIAMOND, DIAMOND_INPUTS, PARALLEL, PARALLEL_INPUTS
from pointstamp_models.exploring.causality import (
    apply_trace,
    happens_before,
    preserves_causality,
    random_permutation,
)
from pointstamp_models.exploring.transparency import random_executions, split_generations
from pointstamp_models.spec.borders import AlignedBorders
from pointstamp_models.spec.model import Label

LEFT_EVENT: Label = (
    "I-EVENT",
    "left",
    (("s", 0), ("t", 0)),
    (("-", "s", 1, ("EV", 1)), ("+", "t", 1, ("EV", 1))),
)
RIGHT_READS_IT: Label = ("I-EVENT", "right", (("t", 0), ("u", 0)), (("-", "t", 1, ("EV", 1)),))
RIGHT_FAILS: Label = ("F-FAIL", "right")
LEFT_FAILS: Label = ("F-FAIL", "left")
RECOVER: Label = ("F-RECOVER",)

parallel = AlignedBorders(PARALLEL, PARALLEL_INPUTS, failures=1)
diamond = AlignedBorders(DIAMOND, DIAMOND_INPUTS, failures=2)


def test_causes_are_the_same_processor_a_message_and_what_follows_from_them() -> None:
    trace = [LEFT_EVENT, RIGHT_READS_IT, RIGHT_FAILS, LEFT_FAILS]
    assert happens_before(parallel, trace) == {(0, 1), (1, 2), (0, 2), (0, 3)}


def test_a_recovery_is_ordered_with_everything() -> None:
    trace = [LEFT_FAILS, RECOVER, RIGHT_FAILS]
    assert happens_before(parallel, trace) == {(0, 1), (1, 2), (0, 2)}


def test_two_tasks_without_a_message_between_them_may_swap() -> None:
    _, run = random_executions(AlignedBorders(PARALLEL, PARALLEL_INPUTS, failures=0), seed=1, number=2)
    trace = [label for label, _ in run[1:]]
    by_task = sorted(range(4), key=lambda position: trace[position][1])
    for order in (by_task, by_task[2:] + by_task[:2]):
        assert preserves_causality(parallel, trace, order)
        assert apply_trace(parallel, run[0][1], [trace[i] for i in order]) == run[-1][1]


def test_two_neighbours_may_swap_exactly_if_causality_allows_it() -> None:
    seen = set()
    for run in random_executions(diamond, seed=2, number=30):
        trace = [label for label, _ in run[1:]]
        for i, j in pairwise(range(len(trace))):
            tasks = {diamond.processor_of(trace[i]), diamond.processor_of(trace[j])}
            if len(tasks) == 1 or None in tasks:
                continue  # two failures of one task may swap as well: their order is a cause by definition
            swapped = [*range(i), j, i, *range(j + 1, len(trace))]
            allowed = preserves_causality(diamond, trace, swapped)
            seen.add(allowed)
            assert allowed == (apply_trace(diamond, run[0][1], [trace[k] for k in swapped]) is not None)
    assert seen == {True, False}


def test_not_a_permutation_is_refused() -> None:
    with pytest.raises(AssertionError, match="not a permutation"):
        preserves_causality(parallel, [LEFT_EVENT, RIGHT_FAILS], [0, 0])


def test_the_partition_of_every_generation_preserves_causality() -> None:
    moved = 0
    for run in random_executions(diamond, seed=4, number=100):
        for generation in split_generations(diamond, run):
            trace = [step.label for step in generation.steps]
            place = {step.position: index for index, step in enumerate(generation.steps)}
            partition = [place[step.position] for step in generation.reordered]
            moved += partition != sorted(partition)
            assert preserves_causality(diamond, trace, partition)
    assert moved > 10, "the partition hardly ever moved a step, so this says little"


def test_causality_preserving_permutations_end_in_the_same_configuration() -> None:
    random = Random(5)
    for run in random_executions(diamond, seed=5, number=50):
        trace = [label for label, _ in run[1:]]
        order = random_permutation(diamond, trace, random)
        assert preserves_causality(diamond, trace, order)
        assert apply_trace(diamond, run[0][1], [trace[i] for i in order]) == run[-1][1]


def test_an_invalid_trace_leads_nowhere() -> None:
    assert apply_trace(parallel, next(parallel.initial()), [RECOVER, RIGHT_FAILS]) is None
