"""Signed multisets and the predicates of the papers.

Three families. *Hand cases* fix the meaning of each predicate where it is easily got wrong: strict or not,
zero or not positive. *Laws* hold for every finite order and are what the proofs of the papers rest on; only
they meet orders and counts that nobody thought of. *Restatements* compare a definition with another one
that the papers call equal, so that a slip in one of them shows.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp_models.spec.multiset import (
    EMPTY,
    ZM,
    Point,
    Poset,
    chain,
    count,
    covered,
    frontier,
    justified,
    justified_with,
    minus,
    nonnegative,
    nonpos,
    plus,
    restrict,
    show,
    supported,
    total,
    upright,
    vacant,
    vee,
    zm,
)

POINTS_MAX = 5

AB = chain("ab")
ABC = chain("abc")
A, B, C = 0, 1, 2


@st.composite
def orders(draw: st.DrawFn) -> Poset:
    """Any partial order on up to five points: some pairs that go upwards in the listing, closed."""
    names = "abcde"[: draw(st.integers(1, POINTS_MAX))]
    pairs = [(low, high) for low in names for high in names if low < high]
    return Poset(names, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


def multisets(order: Poset, lowest: int = -2) -> st.SearchStrategy[ZM]:
    counts = st.lists(st.integers(lowest, 2), min_size=len(order.names), max_size=len(order.names))
    return counts.map(lambda numbers: zm(enumerate(numbers)))


def uprights(order: Poset) -> st.SearchStrategy[ZM]:
    """Any multiset without its unsupported positive counts; what supports the others is untouched."""
    return multisets(order).map(
        lambda m: tuple((p, n) for p, n in m if n < 0 or supported(order, m, p)),
    )


@st.composite
def two(draw: st.DrawFn) -> tuple[Poset, ZM, ZM]:
    order = draw(orders())
    return order, draw(multisets(order)), draw(multisets(order))


# Hand cases.


def test_an_order_is_closed_under_transitivity() -> None:
    assert ABC.less(A, C)
    assert not ABC.less(C, A)
    assert not ABC.less(A, A)
    assert ABC.less_equal(A, A)


def test_points_b_and_c_of_the_v_order_are_incomparable() -> None:
    assert not vee().less_equal(B, C)
    assert not vee().less_equal(C, B)
    assert vee().less(A, B)
    assert vee().less(A, C)


def test_pairs_with_a_cycle_are_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        Poset("ab", [("a", "b"), ("b", "a")])


def test_counts_of_equal_points_are_summed_and_zeros_are_not_stored() -> None:
    assert zm([(B, 1), (A, 2), (B, 1), (C, 1), (C, -1)]) == ((A, 2), (B, 2))


def test_vacant_looks_at_the_point_itself_and_below_only() -> None:
    assert vacant(ABC, ((C, 1),), B)
    assert not vacant(ABC, ((B, 1),), B)
    assert not vacant(ABC, ((A, -1),), B)
    assert vacant(vee(), ((B, 1),), C)


def test_a_negative_count_is_nonpos_but_not_vacant() -> None:
    assert nonpos(AB, ((A, -1),), B)
    assert not vacant(AB, ((A, -1),), B)


def test_support_is_strictly_below() -> None:
    assert upright(AB, ((A, -1), (B, 1)))
    assert not upright(AB, ((A, 1), (B, -1)))
    assert not upright(AB, ((A, 1),))
    assert not upright(vee(), ((B, -1), (C, 1)))
    assert upright(AB, EMPTY)


def test_the_frontier_does_not_see_negative_counts() -> None:
    assert frontier(AB, ((A, -1), (B, 1))) == (B,)
    assert frontier(AB, ((A, 1), (B, 1))) == (A,)
    assert frontier(vee(), ((B, 1), (C, 2))) == (B, C)


def test_owning_as_many_as_are_kept_back_does_not_justify() -> None:
    assert justified(AB, ((A, 2),), ((A, 1),))
    assert not justified(AB, ((A, 1),), ((A, 1),))


def test_a_capability_justifies_strictly_above_itself() -> None:
    assert justified(AB, ((A, 1),), ((B, 5),))
    assert not justified(AB, ((B, 1),), ((A, 1),))


def test_what_is_sent_later_may_support_a_message() -> None:
    assert justified_with(AB, EMPTY, ((B, 1),), ((A, -1),))
    assert not justified_with(AB, EMPTY, ((B, 1),), ((B, -1),))
    assert justified_with(AB, ((B, 1),), ((B, 1),), ((B, -1),))


def test_a_multiset_is_shown_by_the_names_of_its_points() -> None:
    assert show(AB, ((A, 1), (B, -2))) == "{a:1, b:-2}"


# Laws.


@given(two())
def test_signed_multisets_are_a_group(case: tuple[Poset, ZM, ZM]) -> None:
    _, a, b = case
    assert plus(a, b) == plus(b, a) == total([a, b])
    assert minus(plus(a, b), b) == a
    assert minus(a, a) == EMPTY
    assert all(count(plus(a, b), p) == count(a, p) + count(b, p) for p in range(POINTS_MAX))


@given(two(), st.frozensets(st.integers(0, POINTS_MAX - 1)))
def test_a_restriction_and_its_remainder_make_up_the_whole(
    case: tuple[Poset, ZM, ZM], points: frozenset[Point]
) -> None:
    _, m, _ = case
    part = restrict(m, points)
    assert all(p in points for p, _ in part)
    assert all(p not in points for p, _ in minus(m, part))


@given(st.data())
def test_the_sum_of_upright_changes_is_upright(data: st.DataObject) -> None:
    order = data.draw(orders())
    assert upright(order, plus(data.draw(uprights(order)), data.draw(uprights(order))))


@given(st.data())
def test_an_upright_change_without_negative_counts_up_to_a_point_is_vacant_up_to_it(
    data: st.DataObject,
) -> None:
    """The heart of Inv1: what a vacant view has not heard of yet cannot be more than nothing."""
    order = data.draw(orders())
    m = data.draw(uprights(order))
    for point in order.points():
        if all(count(m, p) >= 0 for p in order.points() if order.less_equal(p, point)):
            assert vacant(order, m, point)


@given(st.data())
def test_every_positive_count_lies_at_or_above_the_frontier(data: st.DataObject) -> None:
    order = data.draw(orders())
    m = data.draw(multisets(order))
    minimal = frontier(order, m)
    assert not any(order.less(p, q) for p in minimal for q in minimal)
    assert all(count(m, p) > 0 for p in minimal)
    assert all(any(order.less_equal(p, q) for p in minimal) for q, number in m if number > 0)


@given(st.data())
def test_vacant_and_nonpos_differ_by_negative_counts_only(data: st.DataObject) -> None:
    order = data.draw(orders())
    m = data.draw(multisets(order))
    positive = tuple(item for item in m if item[1] > 0)
    for point in order.points():
        assert nonpos(order, m, point) == vacant(order, positive, point)
        assert nonpos(order, m, point) or not vacant(order, m, point)
    assert nonnegative(m) == (m == positive)


@given(st.data())
def test_more_capabilities_justify_no_less(data: st.DataObject) -> None:
    order = data.draw(orders())
    caps, more = data.draw(multisets(order, lowest=0)), data.draw(multisets(order, lowest=0))
    m = data.draw(multisets(order))
    assert justified(order, plus(caps, more), m) or not justified(order, caps, m)


# Restatements.


def strongly_supported(order: Poset, m: ZM, point: Point) -> bool:
    """IsSupported as Abadi et al. print it: the witness has no positive count at or below it."""
    return any(number < 0 and order.less(p, point) and nonpos(order, m, p) for p, number in m)


@given(two())
def test_upright_is_the_same_with_the_strong_form_of_support(case: tuple[Poset, ZM, ZM]) -> None:
    order, m, _ = case
    assert upright(order, m) == all(strongly_supported(order, m, p) for p, number in m if number > 0)


@given(two())
def test_upright_is_the_same_with_support_at_or_below(case: tuple[Poset, ZM, ZM]) -> None:
    order, m, _ = case
    at_or_below = all(
        any(count(m, q) < 0 for q in order.points() if order.less_equal(q, p))
        for p, number in m
        if number > 0
    )
    assert upright(order, m) == at_or_below


@given(two())
def test_without_capabilities_justified_is_upright(case: tuple[Poset, ZM, ZM]) -> None:
    order, m, _ = case
    assert justified(order, EMPTY, m) == upright(order, m)


@given(st.data())
def test_justified_with_nothing_later_is_justified(data: st.DataObject) -> None:
    order = data.draw(orders())
    caps, m = data.draw(multisets(order, lowest=0)), data.draw(multisets(order))
    assert justified_with(order, caps, m, EMPTY) == justified(order, caps, m)


@given(two())
def test_supported_and_covered_mirror_each_other(case: tuple[Poset, ZM, ZM]) -> None:
    order, m, _ = case
    assert all(
        supported(order, m, point) == covered(order, minus(EMPTY, m), point) for point in order.points()
    )
