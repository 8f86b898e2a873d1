"""The accumulating broadcast as an executable model.

*Counts* fix the size of the state space, and judge every property in every state, Refines in every step: a
state here is one of the exchange protocol, and a step is none there or some. *Mutants* show that each
property can fail. *Hand cases* fix what is held back and by whom.
"""

import pytest

from pointstamp_models.catalogue.accumulating import ENTRY, TWO_HOSTS
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.exploring.liveness import violation
from pointstamp_models.spec.accumulating import Accumulating
from pointstamp_models.spec.exchange import Exchange
from pointstamp_models.spec.multiset import EMPTY, ZM, chain

A: ZM = ((0, 1),)
MODEL = Accumulating(chain("ab"), TWO_HOSTS, (A, A), ops=1)


@pytest.mark.parametrize(
    "instance",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if each.long else [])
        for each in ENTRY.instances
    ],
)
def test_an_instance_has_its_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), limit=instance.limit, keep_edges=instance.liveness)
    assert found.violation is None
    assert found.complete
    assert not found.missing_witnesses
    assert instance.states in (None, found.states)
    assert instance.transitions in (None, found.transitions)
    if instance.liveness:
        assert violation(found) is None


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_its_property(mutant: Mutant) -> None:
    assert mutant.breaks is not None
    found = explore(mutant.build(), properties=[mutant.breaks], limit=8_000)
    assert found.violation is not None
    assert found.violation.property == mutant.breaks


def test_every_property_of_the_exchange_protocol_is_judged_here_too() -> None:
    exchange = Exchange(chain("ab"), (A, A), ops=1)
    assert {*exchange.invariants()} < {*MODEL.invariants()}
    assert {*exchange.step_properties()} < {*MODEL.step_properties()}


def test_what_is_covered_is_held_and_the_last_of_a_point_is_not() -> None:
    two_a: ZM = ((0, 2),)
    assert MODEL.root_may_hold(two_a, ((1, 1),))
    assert not MODEL.root_may_hold(two_a, ((0, -1),))
    assert MODEL.top_may_hold(two_a, ((0, -1),))
    assert not MODEL.top_may_hold(two_a, ((0, -2),))
    assert not MODEL.top_may_hold(EMPTY, ((1, -1),))
