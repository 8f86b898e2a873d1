"""The incremental frontier of a signed multiset, against the minimal elements recomputed after each change.

Families:
- oracle_*: random changes, many chains and one chain, orders with and without chains;
- hand cases: what is reported, and that storage does not grow with what has gone.
"""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.order.frontier import MutableAntichain
from pointstamp.order.partial import Naturals, PartialOrder, Product
from pointstamp.topology.domain import EPOCHS, Domain

PAIRS = Product((Naturals(), Naturals()))


class Unchained:
    """The product order of pairs without the optional chains."""

    def less_equal(self, a: tuple[int, int], b: tuple[int, int], /) -> bool:
        return a[0] <= b[0] and a[1] <= b[1]

    def sort_key(self, element: tuple[int, int], /) -> int:
        return element[0] + element[1]  # a linear extension with many ties


def minimal(counts: dict[Any, int], order: PartialOrder[Any]) -> set[Any]:
    positive = [element for element, count in counts.items() if count > 0]
    return {e for e in positive if not any(f != e and order.less_equal(f, e) for f in positive)}


@pytest.mark.parametrize(
    ("order", "elements"),
    [
        (PAIRS, st.tuples(st.integers(0, 4), st.integers(0, 4))),
        (Unchained(), st.tuples(st.integers(0, 4), st.integers(0, 4))),
        (Naturals(), st.integers(0, 9)),
    ],
    ids=["pairs", "unchained pairs", "numbers"],
)
@given(data=st.data())
def test_oracle_the_frontier_is_the_minimal_elements_and_its_changes_add_up(
    data: st.DataObject, order: PartialOrder[Any], elements: st.SearchStrategy[Any]
) -> None:
    changes = data.draw(st.lists(st.tuples(elements, st.sampled_from([-2, -1, 1, 1, 2])), max_size=60))
    antichain = MutableAntichain(order)
    counts: dict[Any, int] = {}
    told: dict[Any, int] = {}
    for element, change in changes:
        counts[element] = counts.get(element, 0) + change
        for moved, difference in antichain.update(element, change):
            told[moved] = told.get(moved, 0) + difference
        expected = minimal(counts, order)
        assert set(antichain.frontier) == expected
        assert len(antichain.frontier) == len(expected)
        assert {element for element, count in told.items() if count} == expected
        assert antichain.counts == {element: count for element, count in counts.items() if count}
        assert all(antichain.less_equal(element) for element in expected)


@pytest.mark.parametrize(
    "order", [Domain(EPOCHS, 1), PAIRS, Unchained()], ids=["times", "pairs", "unchained"]
)
@given(data=st.data())
def test_oracle_changes_that_come_together_are_told_on_the_whole(
    data: st.DataObject, order: PartialOrder[Any]
) -> None:
    elements = st.tuples(st.integers(0, 3), st.integers(0, 3))
    antichain = MutableAntichain(order)
    counts: dict[Any, int] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        there = st.sampled_from(sorted(counts)) if counts else elements
        moved_on = st.tuples(st.tuples(there, st.just(-1)), st.tuples(elements, st.just(1)))
        any_changes = st.lists(st.tuples(st.one_of(there, elements), st.sampled_from([-1, 1])), max_size=3)
        changes = data.draw(st.one_of(moved_on, any_changes))
        before = minimal(counts, order)
        for element, change in changes:
            counts[element] = counts.get(element, 0) + change
        counts = {element: count for element, count in counts.items() if count}
        told = dict(antichain.update_all(changes))
        expected = minimal(counts, order)
        assert set(antichain.frontier) == expected
        assert len(antichain.frontier) == len(expected)
        assert told == {**dict.fromkeys(before - expected, -1), **dict.fromkeys(expected - before, 1)}
        assert antichain.counts == counts


def test_oracle_thousands_of_changes_in_a_window_that_moves() -> None:
    rng = random.Random(7)
    antichain = MutableAntichain(PAIRS)
    counts: dict[tuple[int, int], int] = {}
    for step in range(4_000):
        live = [element for element, count in counts.items() if count > 0]
        if len(live) > 40 or (live and rng.random() < 0.4):
            element, change = rng.choice(live), -1
        else:
            element, change = (step // 100 + rng.randrange(5), rng.randrange(6)), 1
        counts[element] = counts.get(element, 0) + change
        antichain.update(element, change)
        assert set(antichain.frontier) == minimal(counts, PAIRS)


def test_zero_and_negative_counts_are_invisible() -> None:
    antichain = MutableAntichain(Naturals(), [(0, -1), (1, 1)])
    assert list(antichain.frontier) == [1]
    assert antichain.update(0, 1) == ()
    assert antichain.update(0, 1) == [(1, -1), (0, 1)]


def test_storage_does_not_grow_with_what_has_gone() -> None:
    antichain = MutableAntichain(PAIRS, [((0, 0), 1)])
    for number in range(10_000):
        antichain.update((number + 1, 0), 1)
        antichain.update((number + 1, 0), -1)
    assert sum(len(heap) for heap in antichain._hidden.values()) <= 64
    assert antichain.counts == {(0, 0): 1}
