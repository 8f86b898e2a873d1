"""Signed multisets: the laws of a group, and that no zero is ever stored."""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.order.multiset import SignedMultiset

multisets = st.dictionaries(st.sampled_from("abcd"), st.integers(-3, 3)).map(SignedMultiset)


@given(multisets, multisets, multisets)
def test_addition_is_associative_and_commutative(
    a: SignedMultiset, b: SignedMultiset, c: SignedMultiset
) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a


@given(multisets, multisets)
def test_subtraction_undoes_addition(a: SignedMultiset, b: SignedMultiset) -> None:
    assert (a + b) - b == a
    assert a - a == SignedMultiset()
    assert a + SignedMultiset() == a


@given(multisets, multisets)
def test_no_zero_is_stored_and_counts_add_up(a: SignedMultiset, b: SignedMultiset) -> None:
    total = a + b
    assert all(total[item] != 0 for item in total)
    assert all(total[item] == a[item] + b[item] for item in "abcd")
    assert len(total) == sum(1 for item in "abcd" if a[item] + b[item])


def test_operators_leave_their_operands_alone() -> None:
    a = SignedMultiset({"x": 1})
    b = a + SignedMultiset({"x": 1})
    b.add("y", 5)
    assert a == SignedMultiset({"x": 1})


def test_drain_empties_and_keeps_the_order_of_first_arrival() -> None:
    multiset = SignedMultiset([("b", 1), ("a", 2), ("b", 3)])
    assert multiset.drain() == [("b", 4), ("a", 2)]
    assert not multiset
    assert "b" not in multiset


def test_a_multiset_is_not_equal_to_a_dictionary() -> None:
    assert SignedMultiset({"a": 1}) != {"a": 1}
