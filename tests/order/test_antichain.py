"""Antichains and the orders they stand in: laws as properties, over chains and products."""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.order.antichain import Antichain
from pointstamp.order.partial import Naturals, Product

Pair = tuple[int, int]

PAIRS = Product((Naturals(), Naturals()))
pair = st.tuples(st.integers(0, 4), st.integers(0, 4))
antichains = st.lists(pair, max_size=6).map(lambda elements: Antichain.of(PAIRS, elements))


@given(pair, pair, pair)
def test_the_product_order_is_a_partial_order_and_sort_key_extends_it(a: Pair, b: Pair, c: Pair) -> None:
    assert PAIRS.less_equal(a, a)
    if PAIRS.less_equal(a, b) and PAIRS.less_equal(b, c):
        assert PAIRS.less_equal(a, c)
    if PAIRS.less_equal(a, b) and PAIRS.less_equal(b, a):
        assert a == b
    if PAIRS.less_equal(a, b) and a != b:
        assert PAIRS.sort_key(a) < PAIRS.sort_key(b)


@given(pair, pair)
def test_elements_of_one_chain_are_comparable(a: Pair, b: Pair) -> None:
    if PAIRS.chain(a) == PAIRS.chain(b):
        assert PAIRS.less_equal(a, b) or PAIRS.less_equal(b, a)


@given(st.lists(pair, max_size=8))
def test_exactly_the_minimal_elements_are_kept(elements: list[Pair]) -> None:
    kept = Antichain.of(PAIRS, elements)
    minimal = {e for e in elements if not any(PAIRS.less_equal(f, e) and f != e for f in elements)}
    assert set(kept) == minimal


@given(antichains, antichains, antichains)
def test_antichains_are_partially_ordered(a: Antichain[Pair], b: Antichain[Pair], c: Antichain[Pair]) -> None:
    assert a.dominates(a)
    if a.dominates(b) and b.dominates(c):
        assert a.dominates(c)
    if a.dominates(b) and b.dominates(a):
        assert a == b
        assert hash(a) == hash(b)


@given(antichains, antichains, antichains)
def test_meet_is_the_greatest_lower_bound(a: Antichain[Pair], b: Antichain[Pair], c: Antichain[Pair]) -> None:
    met = a.meet(b)
    assert met.dominates(a)
    assert met.dominates(b)
    if c.dominates(a) and c.dominates(b):
        assert c.dominates(met)


@given(antichains, pair)
def test_less_equal_is_membership_in_the_upward_closure(a: Antichain[Pair], element: Pair) -> None:
    above = any(PAIRS.less_equal(lower, element) for lower in a.elements)
    assert a.less_equal(element) == above
    assert a.less_than(element) == (above and element not in a)
    assert a.insert(element).less_equal(element)
    assert a.insert(element) == Antichain.of(PAIRS, (*a.elements, element))


def test_the_empty_antichain_is_the_top_and_lets_nothing_come() -> None:
    empty = Antichain.of(PAIRS)
    everything = Antichain.of(PAIRS, [(0, 0)])
    assert everything.dominates(empty)
    assert not empty.dominates(everything)
    assert not empty.less_equal((9, 9))
    assert str(everything) == "{(0, 0)}"


class Divides:
    """A user's own order, with nothing but the two methods of the protocol."""

    def less_equal(self, a: int, b: int, /) -> bool:
        return b % a == 0

    def sort_key(self, element: int, /) -> int:
        return element


def test_a_users_own_order_needs_two_methods() -> None:
    assert Antichain.of(Divides(), [12, 6, 4, 9, 3]).elements == (3, 4)
