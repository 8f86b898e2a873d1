"""The exchange protocol as an executable model.

Four families. *Counts* compare the whole state space with the published one: a guard that is a little too
weak or too strong shows there even if no property notices. *Mutants* show that each property can fail, and
by the shortest trace that is known. *Hand cases* fix the guards of an operation, where strict and reflexive,
before and after are easily confused. *Runs* look at runs that never end, where alone fairness matters.
"""

from functools import partial

import pytest

from pointstamp_models.catalogue.clocks import safe_along_every_path
from pointstamp_models.catalogue.exchange import A_ON_0, ENTRY, HoldsBackAnything, JustifiesNothingByOwning
from pointstamp_models.exploring.entry import Check, Instance, Mutant
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.exploring.liveness import violation
from pointstamp_models.spec.exchange import Exchange, ExchangeState, Operation
from pointstamp_models.spec.multiset import EMPTY, ZM, chain

MODEL = Exchange(chain("ab"), A_ON_0, ops=1)
MUTANT_STATES_MAX = 8_000
"""Whatever a mutant breaks here, it breaks among its first few thousand states."""

SHORTEST = {"M2.1": 5, "M2.2": 3, "M2.3": 3, "M2.4": 1, "M2.5": 1, "M2.6": 2, "M2.7": 1, "M2.8": 2}
ALSO_BREAKS = {"M2.4": "JustifiedII", "M2.5": "RecordsMono"}

A: ZM = ((0, 1),)
B: ZM = ((1, 1),)
NOTHING = (EMPTY, EMPTY)


def instances() -> list[object]:
    return [
        pytest.param(instance, id=instance.name, marks=[pytest.mark.long] if instance.long else [])
        for instance in ENTRY.instances
    ]


def mutant(identifier: str) -> Mutant:
    return next(mutant for mutant in ENTRY.mutants if mutant.identifier == identifier)


def broken(mutant: Mutant, name: str | None) -> Violation:
    """How the mutant breaks the property of this name; it is an error if it does not."""
    assert name is not None
    model = mutant.build()
    is_liveness = name in model.liveness()
    found = explore(model, properties=[name], keep_edges=is_liveness)
    rejected = violation(found, properties=[name]) if is_liveness else found.violation
    assert rejected is not None
    assert rejected.property == name
    return rejected


def labels(violation: Violation) -> list[str]:
    return [step.label for step in violation.trace[1:]]


# Counts.


@pytest.mark.parametrize("instance", instances())
def test_an_instance_has_the_published_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), limit=instance.limit, keep_edges=instance.liveness)
    assert found.violation is None
    assert found.complete
    assert not found.missing_witnesses
    assert instance.states in (None, found.states)
    assert instance.transitions in (None, found.transitions)
    if instance.liveness:
        assert violation(found) is None


def test_every_property_of_the_paper_is_judged_under_its_name() -> None:
    assert list(MODEL.invariants()) == [
        "CapsNonneg",
        "RecordCount",
        "TempJustified",
        "JustifiedII",
        "JustifiedGII",
        "InfoJustifiedWithII",
        "GlobNonposImpRecNonpos",
        "GlobVacImpRecVac",
        "GlobNonposEqVacant",
        "MsgInGlob",
    ]
    assert list(MODEL.step_properties()) == ["RecordsMono", "GlobMono"]
    assert len(MODEL.liveness()) == 4
    assert len(MODEL.fairness()) == 4 + 4 + 4


# Mutants.


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_the_property_it_breaks(mutant: Mutant) -> None:
    rejected = broken(mutant, mutant.breaks)
    if mutant.identifier in SHORTEST:
        assert len(labels(rejected)) == SHORTEST[mutant.identifier]


@pytest.mark.parametrize("identifier", ALSO_BREAKS)
def test_some_mutants_break_a_second_property_in_a_single_step(identifier: str) -> None:
    assert len(labels(broken(mutant(identifier), ALSO_BREAKS[identifier]))) == 1


def test_sending_at_the_own_point_lets_a_drop_be_heard_before_the_creation() -> None:
    assert labels(broken(mutant("M2.1"), "GlobVacImpRecVac")) == [
        "perf_op(0: send {a:1} to 1)",
        "recv_cap(1, a)",
        "perf_op(1: drop {a:1})",
        "send_upd(1, {a})",
        "recv_upd(1, 0)",
    ]


def test_without_the_third_disjunct_safety_survives() -> None:
    safety = ["GlobVacImpRecVac", "RecordsMono", "GlobMono"]
    found = explore(JustifiesNothingByOwning(chain("ab"), A_ON_0, ops=2), properties=safety)
    assert found.complete
    assert "ThirdDisjunctSend" in found.missing_witnesses


@pytest.mark.parametrize("name", [*MODEL.invariants(), *MODEL.step_properties()])
def test_every_property_is_broken_by_some_mutant(name: str) -> None:
    assert any(
        explore(mutant.build(), properties=[name], limit=MUTANT_STATES_MAX).violation
        for mutant in ENTRY.mutants
    )


# Hand cases.


def owning(caps: ZM) -> tuple[Exchange, ExchangeState]:
    """Two workers, of which worker 0 owns these capabilities of a < b < c, before their first operation."""
    model = Exchange(chain("abc"), (caps, EMPTY), ops=1)
    (state,) = model.initial()
    return model, state


@pytest.mark.parametrize(("point", "allowed"), [(0, False), (1, False), (2, True)])
def test_data_is_sent_strictly_above_a_capability(point: int, allowed: bool) -> None:
    model, state = owning(B)
    operation = Operation(EMPTY, (EMPTY, ((point, 1),)), EMPTY)
    assert model.may_send_data(state, 0, operation) is allowed


@pytest.mark.parametrize(("point", "allowed"), [(0, False), (1, True), (2, True)])
def test_a_capability_is_minted_at_or_above_another(point: int, allowed: bool) -> None:
    model, state = owning(B)
    operation = Operation(EMPTY, NOTHING, ((point, 1),))
    assert model.may_mint(state, 0, operation) is allowed


def test_the_capabilities_of_others_are_of_no_use() -> None:
    model, state = owning(A)
    assert not any(label[1] == 1 for label, _ in model.perf_op_steps(state))


def test_a_dropped_capability_still_justifies_what_is_sent_in_the_same_operation() -> None:
    model, state = owning(A)
    label = ("perf_op", 0, A, (EMPTY, B), EMPTY)
    after = dict(model.perf_op_steps(state))[label]
    assert (after.caps, after.data, after.temp[0]) == (NOTHING, (EMPTY, B), ((0, -1), (1, 1)))


def test_a_capability_may_move_into_a_message_without_any_change_to_tell() -> None:
    model, state = owning(((0, 1), (1, 1)))
    label = ("perf_op", 0, B, (EMPTY, B), EMPTY)
    after = dict(model.perf_op_steps(state))[label]
    assert after.temp == NOTHING
    assert model.rec(after) == model.rec(state)
    assert model.moves_without_change(state, label, after)


def test_an_operation_without_effect_is_no_step() -> None:
    model, state = owning(A)
    assert all(after._replace(ops=state.ops) != state for _, after in model.perf_op_steps(state))


def test_receiving_a_capability_is_nothing_to_tell() -> None:
    model = Exchange(chain("ab"), A_ON_0, ops=0, data=(EMPTY, B))
    (before,) = model.initial()
    assert before.glob == (((0, 1), (1, 1)),) * 2
    ((label, after),) = model.recv_cap_steps(before)
    assert label == ("recv_cap", 1, 1)
    assert (after.caps, after.data, after.temp) == ((A, B), NOTHING, NOTHING)


def test_a_clone_may_be_held_back_and_a_moved_capability_may_not() -> None:
    model, state = owning(((0, 2), (1, 1)))
    assert model.may_hold_back(state, 0, ((0, 1),))
    assert not model.may_hold_back(state, 0, ((0, 2),))
    assert model.may_hold_back(state, 0, ((1, 1),))


def test_a_queued_message_about_a_point_needs_something_seen_at_or_below_it() -> None:
    model, state = owning(EMPTY)
    queued = state._replace(msg=(((((1, -1),),), ()), ((), ())))
    assert not model.msg_in_glob(queued)
    assert model.msg_in_glob(queued._replace(glob=(A, EMPTY)))


# Runs.


@pytest.mark.parametrize("check", ENTRY.checks, ids=lambda check: check.name)
def test_whoever_sees_vacancy_is_right_then_and_ever_after(check: Check) -> None:
    assert check.run().holds


def test_a_broken_variant_is_caught_on_its_runs_as_well() -> None:
    assert not safe_along_every_path(partial(HoldsBackAnything, chain("ab"), A_ON_0, ops=1)).holds


def test_a_worker_that_sends_for_ever_may_never_send_what_others_wait_for() -> None:
    run = broken(mutant("F2.1"), "vacant(rec, a) ~> vacant(glob[1], a)")
    assert run.loops_to is not None
    cycle = [step.label for step in run.trace[run.loops_to + 1 :]]
    assert "send_upd(0, {b})" in cycle
    assert not any(label.startswith("send_upd") and "a" in label.split("{")[1] for label in cycle)
