"""Promises of completeness: when they take effect, and which rows are late by them.

Families:
- *late*: a unit is held to every promise that was made before it was found, and to no other;
- *known*: a promise that adds nothing is recognized, so that it is not stored again.
"""

import pytest

from pointstamp.connectors.source import Part, Unit
from pointstamp.journal.ledger import Promises


def _unit(name: str) -> Unit:
    return Unit(name, (Part(name, 1),))


def test_a_unit_is_held_to_the_last_promise_that_was_made_before_it_was_found() -> None:
    promises = Promises()
    promises.say(3, ["a"])
    promises.say(7, ["a", "b"])
    promises.say(9, ["a", "b", "c"])
    assert {name: promises.held_to(name) for name in "abcd"} == {"a": 0, "b": 3, "c": 7, "d": 9}


def test_a_unit_is_held_to_what_has_taken_effect_if_it_waited_for_everything_else() -> None:
    promises = Promises()
    promises.say(2, [])
    promises.say(5, ["a"])
    assert promises.held_to("a") == 2
    assert promises.held_to("b") == 5
    promises.take([_unit("a")])
    assert (promises.complete, promises.held_to("a")) == (5, 5)


def test_units_that_say_nothing_complete_nothing() -> None:
    promises = Promises()
    promises.take([])
    promises.take([_unit("a"), _unit("b")])
    assert (promises.complete, promises.last) == (0, 0)
    assert promises.entries("in") == []


def test_a_promise_that_was_overtaken_waits_for_nothing() -> None:
    promises = Promises()
    promises.say(5, ["a"])
    promises.say(7, ["a", "b"])
    promises.reach(5)
    assert promises.waited_for == {"a", "b"}
    assert [each.epoch for each in promises.entries("in")] == [5, 7]
    promises.reach(9)
    assert promises.waited_for == set()
    assert [each.epoch for each in promises.entries("in")] == [9]


@pytest.mark.parametrize(
    ("epoch", "waiting", "is_known"),
    [
        (4, ["z"], True),  # complete up to it, whatever waits
        (5, ["z"], True),
        (5, [], True),
        (6, [], False),
        (8, ["a", "b"], True),  # it waits already
        (8, ["b", "a", "a"], True),
        (8, ["a"], False),
        (7, ["a", "b"], False),
        (9, ["a", "b"], False),
    ],
)
def test_a_promise_is_known_if_it_has_taken_effect_or_waits_for_the_same(
    epoch: int, waiting: list[str], is_known: bool
) -> None:
    promises = Promises(5)
    promises.say(8, ["a", "b"])
    assert promises.is_known(epoch, waiting) == is_known
