"""The clocks protocol as an executable model.

Four families. *Counts* compare the whole state space with the published one: a guard that is a little too
weak or too strong shows there even if no property notices. *Mutants* show that each property can fail, and
by the shortest trace that is known. *Hand cases* fix derived notions on states small enough to check on
paper. *Runs* look at whole runs, where the other families look at states and single steps.
"""

from functools import partial

import pytest

from pointstamp_models.catalogue.clocks import (
    ENTRY,
    A,
    HoldsBackAnything,
    safe_along_every_path,
)
from pointstamp_models.exploring.entry import Check, Instance, Mutant
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.exploring.liveness import violation
from pointstamp_models.spec.broadcasting import suffix_sums
from pointstamp_models.spec.clocks import Clocks, ClocksState
from pointstamp_models.spec.multiset import chain

MODEL = Clocks(chain("ab"), A)
MUTANT_STATES_MAX = 8_000
"""Some mutants never end; whatever a mutant breaks here, it breaks among its first few thousand states."""

BROKEN = [mutant for mutant in ENTRY.mutants if mutant.breaks is not None]
SHORTEST = {"M1.2": 3, "M1.3": 1, "M1.4": 4, "M1.5": 2, "M1.6": 2, "M1.7": 4}


def instances() -> list[object]:
    return [
        pytest.param(instance, id=instance.name, marks=[pytest.mark.long] if instance.long else [])
        for instance in ENTRY.instances
    ]


def mutant(identifier: str) -> Mutant:
    return next(mutant for mutant in ENTRY.mutants if mutant.identifier == identifier)


def broken(mutant: Mutant, name: str) -> Violation | None:
    """How the mutant breaks the property of this name, if it does."""
    model = mutant.build()
    is_liveness = name in model.liveness()
    found = explore(model, properties=[name], keep_edges=is_liveness)
    return violation(found, properties=[name]) if is_liveness else found.violation


def labels(violation: Violation | None) -> list[str]:
    assert violation is not None
    return [step.label for step in violation.trace[1:]]


# Counts.


@pytest.mark.parametrize("instance", instances())
def test_an_instance_has_the_published_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), limit=instance.limit, keep_edges=instance.liveness)
    assert found.violation is None
    assert not found.missing_witnesses
    if instance.limit is not None:
        assert found.states >= instance.limit
    if instance.states is not None:
        assert (found.states, found.transitions) == (instance.states, instance.transitions)
    if instance.liveness:
        assert violation(found) is None


def test_every_property_of_the_papers_is_judged_under_its_name() -> None:
    assert list(MODEL.invariants()) == [
        "RecNonneg",
        "RecordCount",
        "TempUpright",
        "InfoUpright",
        "AllInfoUpright",
        "BetaUpright",
        "Inv1",
    ]
    assert list(MODEL.step_properties()) == ["Safe2", "Safe3"]
    assert len(MODEL.liveness()) == 4


# Mutants.


@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_the_property_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks is not None
    if mutant.breaks in mutant.build().witnesses():
        assert mutant.breaks in explore(mutant.build()).missing_witnesses
    else:
        rejected = broken(mutant, mutant.breaks)
        assert rejected is not None
        assert rejected.property == mutant.breaks


@pytest.mark.parametrize("identifier", SHORTEST)
def test_the_trace_to_a_violation_is_as_short_as_the_published_one(identifier: str) -> None:
    rejected = mutant(identifier)
    assert rejected.breaks is not None
    assert len(labels(broken(rejected, rejected.breaks))) == SHORTEST[identifier]


def test_adding_what_is_consumed_leaves_a_single_state_that_breaks_no_invariant() -> None:
    found = explore(mutant("M1.1").build())
    assert (found.states, found.transitions, found.violation) == (1, 0, None)
    assert found.missing_witnesses == {"AllVacant", "NegativeGlob", "GlobsDiffer"}


def test_holding_back_a_production_lets_others_hear_of_the_consumption_first() -> None:
    assert labels(broken(mutant("M1.2"), "Inv1")) == [
        "perf_op(0: consume {a:1}, produce {b:1})",
        "send_upd(0, {a})",
        "recv_upd(0, 0)",
    ]


def test_without_first_in_first_out_the_later_consumption_may_arrive_first() -> None:
    assert labels(broken(mutant("M1.4"), "Inv1")) == [
        "perf_op(0: consume {a:1}, produce {b:1})",
        "send_upd(0, {b})",
        "send_upd(0, {a})",
        "recv_upd(0, 0)",
    ]


def test_consuming_by_views_also_breaks_stickiness() -> None:
    assert len(labels(broken(mutant("M1.5"), "Safe2"))) == 2


def test_support_at_or_below_changes_nothing() -> None:
    equivalent, original = mutant("E1.1"), ENTRY.instances[0]
    assert equivalent.same_as == original.name
    found = explore(equivalent.build())
    assert (found.states, found.transitions) == (original.states, original.transitions)
    assert found.violation is None


@pytest.mark.parametrize("name", [*MODEL.invariants(), *MODEL.step_properties()])
def test_every_property_is_broken_by_some_mutant(name: str) -> None:
    assert any(
        explore(mutant.build(), properties=[name], limit=MUTANT_STATES_MAX).violation
        for mutant in ENTRY.mutants
    )


# Hand cases.


def test_info_counts_equal_messages_as_often_as_they_are_queued() -> None:
    drop = ((0, -1),)
    assert suffix_sums((drop, drop), ((1, 1),)) == (((0, -2), (1, 1)), ((0, -1), (1, 1)), ((1, 1),))


def test_a_broadcast_goes_to_its_sender_too_and_not_to_its_view() -> None:
    before = ClocksState((), (((0, -1),), ()), (((), ()), ((), ())), (A, A))
    after = MODEL.send_upd(before, 0, (0,))
    queue = (((0, -1),),)
    assert after == ClocksState((), ((), ()), ((queue, queue), ((), ())), (A, A))


def test_only_the_part_whose_remainder_is_upright_may_be_sent() -> None:
    before = ClocksState(((1, 1),), (((0, -1), (1, 1)), ()), (((), ()), ((), ())), (A, A))
    assert [label for label, _ in MODEL.send_upd_steps(before)] == [
        ("send_upd", 0, (1,)),
        ("send_upd", 0, (0, 1)),
    ]


def test_beta_upright_allows_a_message_that_a_later_one_pays_for() -> None:
    queue = (((1, 1),),)
    paid = ClocksState(((1, 1),), (((0, -1),), ()), ((queue, ()), ((), ())), (A, A))
    unpaid = paid._replace(temp=((), ()))
    assert MODEL.beta_upright(paid)
    assert not MODEL.beta_upright(unpaid)


def test_a_negative_occupancy_is_not_vacant() -> None:
    model = Clocks(chain("ab"), ())
    below_zero = ClocksState(((0, -1),), ((), ()), (((), ()), ((), ())), ((), ()))
    assert not model.rec_nonneg(below_zero)
    assert not model.glob_vacant_implies_rec_vacant(below_zero)


def test_a_run_may_not_stop_while_anything_is_unsent_or_queued() -> None:
    (start,) = MODEL.initial()
    queue = (((0, -1),),)
    assert MODEL.may_stop(start)
    assert not MODEL.may_stop(start._replace(temp=(((0, -1),), ())))
    assert not MODEL.may_stop(start._replace(msg=(((), queue), ((), ()))))


# Runs.


@pytest.mark.parametrize("check", ENTRY.checks, ids=lambda check: check.name)
def test_whoever_sees_vacancy_is_right_then_and_ever_after(check: Check) -> None:
    assert check.run().holds


def test_a_broken_variant_is_caught_on_its_runs_as_well() -> None:
    outcome = safe_along_every_path(partial(HoldsBackAnything, chain("ab"), A))
    assert not outcome.holds
    assert "too early" in outcome.detail


def test_on_a_finite_order_every_run_ends() -> None:
    found = explore(Clocks(chain("ab"), A, workers=3), keep_edges=True)
    arriving = [0] * found.states
    leaving: list[list[int]] = [[] for _ in range(found.states)]
    for edge in found.edges:
        arriving[edge.target] += 1
        leaving[edge.origin].append(edge.target)
    free = [index for index, number in enumerate(arriving) if number == 0]
    removed = 0
    while free:
        removed += 1
        for target in leaving[free.pop()]:
            arriving[target] -= 1
            if arriving[target] == 0:
                free.append(target)
    assert removed == found.states


def test_without_fairness_of_sends_no_other_worker_need_ever_learn() -> None:
    rejected = broken(mutant("F1.1"), "vacant(rec, a) ~> vacant(glob[1], a)")
    assert labels(rejected) == ["perf_op(0: consume {a:1}, produce {})"]
