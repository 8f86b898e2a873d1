"""The explainer: an execution with failures, the failure-free one that explains it, and when there is none.

Families, and what only each can find:
- every: all executions of small programs, each prefix too; finds a failure at an unlucky moment.
- random: long runs of larger programs; finds what needs several tasks and two failures.
- oracle: an explanation is checked again without the explainer's own replay, from the rules of a program
  that cannot fail; finds an explainer that believes itself.
- mutants: executions of broken models must stay unexplained; finds an explainer that says yes to all.
- by hand: a counter that is no dataflow at all; finds assumptions about one model, and shows every flaw.
"""

from itertools import pairwise
from typing import NamedTuple

import pytest

from pointstamp_models.catalogue.borders import CHAIN, DIAMOND, DIAMOND_INPUTS, ENTRY, SHORT_INPUTS, Inputs
from pointstamp_models.exploring.entry import Check, Mutant
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.exploring.incremental_average import AVERAGE, INPUTS, drive
from pointstamp_models.exploring.transparency import (
    Execution,
    Explanation,
    every_execution,
    explain,
    first_unexplained,
    random_executions,
    side_by_side,
    split_generations,
)
from pointstamp_models.spec.border_rules import BorderRules, Configuration
from pointstamp_models.spec.borders import AlignedBorders
from pointstamp_models.spec.model import Label
from pointstamp_models.spec.streaming import Task

# Every


@pytest.mark.parametrize(
    ("tasks", "inputs", "failures", "number"),
    [
        ((AVERAGE,), INPUTS, 0, 14),
        ((AVERAGE,), INPUTS, 2, 1739),
        (CHAIN, INPUTS, 0, 1040),
        (CHAIN, SHORT_INPUTS, 1, 4757),
    ],
)
def test_every_execution_of_a_small_program_is_explained(
    tasks: tuple[Task, ...], inputs: Inputs, failures: int, number: int
) -> None:
    model = AlignedBorders(tasks, inputs, failures=failures)
    explained, unexplained = first_unexplained(model, every_execution(model))
    assert unexplained is None
    assert explained == number


@pytest.mark.parametrize(("tasks", "inputs"), [(CHAIN, INPUTS), (DIAMOND, DIAMOND_INPUTS)])
def test_every_reachable_configuration_ends_an_explained_execution(
    tasks: tuple[Task, ...], inputs: Inputs
) -> None:
    model = AlignedBorders(tasks, inputs, failures=1)
    found = explore(model)
    runs = (found.trace_to(index) for index in range(found.states))
    assert first_unexplained(model, runs) == (found.states, None)


@pytest.mark.parametrize("check", [c for c in ENTRY.checks if not c.long], ids=lambda check: check.name)
def test_every_check_of_the_catalogue_holds(check: Check) -> None:
    outcome = check.run()
    assert outcome.holds, outcome.detail
    assert outcome.cases > 0


@pytest.mark.long
@pytest.mark.parametrize("check", [c for c in ENTRY.checks if c.long], ids=lambda check: check.name)
def test_every_long_check_of_the_catalogue_holds(check: Check) -> None:
    assert check.run().holds


# Random, with the oracle


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("tasks", "inputs"), [(CHAIN, INPUTS), (DIAMOND, DIAMOND_INPUTS)])
def test_an_explanation_is_a_run_of_the_program_that_cannot_fail(
    tasks: tuple[Task, ...], inputs: Inputs, seed: int
) -> None:
    model = AlignedBorders(tasks, inputs, failures=3)
    cannot_fail = BorderRules(tasks, inputs, failures=0)
    for execution in random_executions(model, seed=seed, number=30):
        explanation = explain(model, execution)
        assert explanation.flaw is None
        assert explanation.states[0] == next(cannot_fail.initial())
        steps = zip(explanation.trace, pairwise(explanation.states), strict=True)
        for step, (before, after) in steps:
            assert (step.label, after) in list(cannot_fail.steps(before))


def test_every_observation_is_found_again_and_the_mapping_never_goes_back() -> None:
    model = AlignedBorders(DIAMOND, DIAMOND_INPUTS, failures=3)
    for execution in random_executions(model, seed=7, number=50):
        explanation = explain(model, execution)
        assert list(explanation.mapping) == sorted(explanation.mapping)
        for (_, state), index in zip(execution, explanation.mapping, strict=True):
            assert model.out(state) == model.out(explanation.states[index])


def test_random_executions_of_one_seed_are_the_same_and_do_fail() -> None:
    model = AlignedBorders(CHAIN, INPUTS, failures=2)
    first, second = (list(random_executions(model, seed=3, number=20)) for _ in range(2))
    assert first == second
    assert {len(split_generations(model, run)) for run in first} == {1, 2, 3}


def test_random_executions_undo_work_that_stands_before_work_they_keep() -> None:
    # Without such runs nothing would be learnt about the reordering.
    model = AlignedBorders(DIAMOND, DIAMOND_INPUTS, failures=2)
    undone = [
        generation
        for run in random_executions(model, seed=4, number=100)
        for generation in split_generations(model, run)
        if generation.restored is not None and generation.reordered != generation.steps
    ]
    assert len(undone) > 10


def test_an_epoch_may_run_again_in_another_order_and_is_still_explained() -> None:
    # Undone: event 3 before the Reset. Done again: after it. Only the second order was ever visible.
    model = AlignedBorders((AVERAGE,), INPUTS, failures=1)
    run = drive(model, ("E<1>", "BD", "E<3>", "E<5>", "fail", "recover", "Reset", "E<3>", "E<5>", "BD"))
    explanation = explain(model, run)
    assert explanation.flaw is None
    assert [step.position for step in explanation.trace] == [1, 2, 7, 8, 9, 10]


# Mutants


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in ENTRY.mutants if "cycle" not in mutant.identifier],
    ids=lambda mutant: mutant.identifier,
)
def test_every_mutant_has_an_execution_without_explanation(mutant: Mutant) -> None:
    model = mutant.build()
    assert isinstance(model, AlignedBorders)
    runs = every_execution(model)
    _, unexplained = first_unexplained(model, runs, specified=model.specification.out)
    assert unexplained is not None
    assert "NOT EXPLAINED" in side_by_side(model, unexplained)


# By hand


class Count(NamedTuple):
    """A counter that works in epochs of one, and the last committed count."""

    now: int
    committed: int


class Counter:
    """The least that can be explained; ``limit`` is how far the failure-free rules let it count."""

    def __init__(self, limit: int = 9) -> None:
        self.limit = limit

    def is_recovery(self, label: Label) -> bool:
        return bool(label[0] == "recover")

    def epoch_of(self, label: Label, before: Count) -> int | None:
        return before.now + 1 if label[0] == "add" else before.now if label[0] == "commit" else None

    def gce(self, state: Count) -> int:
        return state.committed

    def observe(self, state: Count) -> int:
        return state.committed

    def without_failures(self, state: Count) -> Count:
        return state

    def replay(self, state: Count, label: Label) -> Count | None:
        if label[0] == "commit":
            return Count(state.now, state.now)
        return Count(state.now + 1, state.committed) if state.now < self.limit else None

    def describe_label(self, label: Label) -> str:
        return str(label[0])

    def describe_state(self, state: Count) -> str:
        return str(tuple(state))


def counted(*steps: tuple[str, int, int]) -> Execution[Count]:
    return [(("init",), Count(0, 0)), *(((name,), Count(now, committed)) for name, now, committed in steps)]


GOOD = counted(
    ("add", 1, 0),
    ("commit", 1, 1),
    ("add", 2, 1),
    ("crash", 2, 1),
    ("recover", 1, 1),
    ("add", 2, 1),
    ("commit", 2, 2),
)


def explained(execution: Execution[Count], limit: int = 9) -> Explanation[Count]:
    return explain(Counter(limit), execution)


def test_generations_keep_what_was_committed_and_discard_the_rest() -> None:
    first, second = split_generations(Counter(), GOOD)
    assert (first.gce, second.gce) == (1, 2)
    assert [step.position for step in first.kept] == [1, 2]
    assert [step.position for step in first.discarded] == [3, 4]
    assert first.restored == Count(1, 1)
    assert second.restored is None


def test_the_partition_is_stable() -> None:
    run = counted(("add", 1, 0), ("crash", 1, 0), ("commit", 1, 1))
    (generation,) = split_generations(Counter(), run)
    assert [step.label[0] for step in generation.reordered] == ["add", "commit", "crash"]


def test_the_explanation_of_a_counter_counts_without_crashing() -> None:
    explanation = explained(GOOD)
    assert explanation.flaw is None
    assert [step.label[0] for step in explanation.trace] == ["add", "commit", "add", "commit"]
    assert explanation.states == (Count(0, 0), Count(1, 0), Count(1, 1), Count(2, 1), Count(2, 2))
    assert explanation.mapping == (0, 0, 2, 2, 2, 2, 2, 4)


def test_an_execution_without_steps_explains_itself() -> None:
    explanation = explained(counted())
    assert (explanation.flaw, explanation.mapping, len(explanation.states)) == (None, (0,), 1)


def test_a_step_that_the_failure_free_rules_forbid_is_a_flaw() -> None:
    assert explained(GOOD, limit=1).flaw == "step 6, add, is not enabled in the explanation"


def test_a_recovery_to_somewhere_else_is_a_flaw() -> None:
    run = counted(("add", 1, 0), ("commit", 1, 1), ("crash", 1, 1), ("recover", 7, 1))
    assert explained(run).flaw == "the recovery restored (7, 1), but the explanation reached (1, 1)"


def test_an_observation_that_the_explanation_never_shows_is_a_flaw() -> None:
    run = counted(("add", 1, 0), ("add", 2, 5))
    assert explained(run).flaw == "what is seen after step 2 is never seen in the explanation"


def test_an_observation_that_is_taken_back_is_a_flaw() -> None:
    # Every single observation is shown by the explanation, but 0 only before 1.
    run = counted(("add", 1, 0), ("commit", 1, 1), ("crash", 1, 0), ("add", 2, 1))
    assert explained(run).flaw == "what is seen after step 3 is never seen in the explanation"


def test_the_explanation_may_be_seen_with_other_eyes() -> None:
    assert explain(Counter(), GOOD, specified=lambda state: state.committed + 1).flaw is not None


def test_both_executions_are_printed_side_by_side() -> None:
    assert side_by_side(Counter(), explained(GOOD)).splitlines() == [
        "   execution with failures  seen in     failure-free explanation",
        "0  start                       0     0  start",
        "1  add                         0     1  add",
        "2  commit                      2     2  commit",
        "3  add                         2        - dropped, epoch 2 > 1",
        "4  crash                       2        - dropped, a failure",
        "5  recover                     2        - generation 1 ends at epoch 1",
        "6  add                         2     3  add",
        "7  commit                      4     4  commit",
        "explained",
    ]


def test_a_flaw_is_printed_with_what_was_explained_before_it() -> None:
    run = counted(("add", 1, 0), ("add", 2, 5))
    assert side_by_side(Counter(), explained(run)).splitlines()[-2:] == [
        "2  add                      nowhere  2  add",
        "NOT EXPLAINED: what is seen after step 2 is never seen in the explanation",
    ]


def test_steps_that_cannot_be_replayed_are_printed_as_open() -> None:
    assert side_by_side(Counter(1), explained(GOOD, limit=1)).splitlines()[-3:] == [
        "6  add                         2        - ?",
        "7  commit                   nowhere     - ?",
        "NOT EXPLAINED: step 6, add, is not enabled in the explanation",
    ]


def test_the_model_of_borders_answers_what_the_explainer_asks() -> None:
    model = AlignedBorders((AVERAGE,), INPUTS, failures=1)
    run = drive(model, ("E<1>", "BD", "E<3>", "fail", "recover"))
    epochs = [model.epoch_of(label, before) for (_, before), (label, _) in pairwise(run)]
    assert epochs == [1, 1, 2, None, None]
    assert [model.is_recovery(label) for label, _ in run] == [False] * 5 + [True]
    start: Configuration = model.without_failures(run[0][1])
    assert model.replay(start, run[1][0]) == model.without_failures(run[1][1])
    assert model.replay(start, run[2][0]) is None
