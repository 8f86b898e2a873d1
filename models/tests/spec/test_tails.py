"""The exchange protocol with a tail as an executable model.

*Counts* fix the size of the state space, and judge every property in every state. *Mutants* show that what a
worker knows by itself rests on each part of the rule. *Hand cases* fix what it knows.
"""

import pytest

from pointstamp_models.catalogue.tails import ENTRY, TAIL
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.spec.multiset import EMPTY, ZM, chain
from pointstamp_models.spec.tails import TailedExchange

X: ZM = ((0, 1),)
B: ZM = ((1, 1),)
C: ZM = ((2, 1),)


@pytest.mark.parametrize(
    "instance",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if each.long else [])
        for each in ENTRY.instances
    ],
)
def test_an_instance_has_its_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), limit=instance.limit)
    assert found.violation is None
    assert found.complete or instance.limit
    assert not found.missing_witnesses
    assert instance.states in (None, found.states)
    assert instance.transitions in (None, found.transitions)


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_its_property(mutant: Mutant) -> None:
    assert mutant.breaks is not None
    found = explore(mutant.build(), properties=[mutant.breaks], limit=8_000)
    assert found.violation is not None
    assert found.violation.property == mutant.breaks


def test_a_worker_with_nothing_of_its_own_knows_what_its_view_does_not_say() -> None:
    model = TailedExchange(chain("xbc"), (B, EMPTY), ops=1, inside=TAIL)
    (state,) = model.initial()
    assert model.own_parts(state) == {(1, 1), (1, 2)}
    assert model.is_known_early(state)


def test_whoever_has_a_message_on_its_way_knows_as_much_as_lies_before_it() -> None:
    model = TailedExchange(chain("xbc"), (EMPTY, EMPTY), ops=1, inside=TAIL, data=(C, EMPTY))
    (state,) = model.initial()
    assert model.own_parts(state) == {(0, 1), (1, 1), (1, 2)}


def test_nobody_knows_anything_while_something_may_come_from_outside() -> None:
    model = TailedExchange(chain("xbc"), (X, EMPTY), ops=1, inside=TAIL)
    (state,) = model.initial()
    assert not model.own_parts(state)
