"""Path summaries in their normal form: laws as properties, against the functions they stand for.

A summary is compared with the function on times that it denotes, on a grid of times: the order of
summaries is the pointwise order of functions, composition is composition.
"""

from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.topology.domain import EPOCHS, Domain, RootSummary, Time
from pointstamp.topology.summary import (
    STAY,
    Advance,
    Summary,
    delay,
    enter,
    feedback,
    identity,
    leave,
    minimal,
)

small = st.integers(0, 2)
ROOTS: list[RootSummary] = [STAY, Advance(1), Advance(2)]


class Typed(NamedTuple):
    """A summary with the numbers of rounds it leads from and to."""

    summary: Summary
    origin: int
    target: int


@st.composite
def typed(draw: st.DrawFn, origin: int | None = None, target: int | None = None) -> Typed:
    rounds = draw(small) if origin is None else origin
    most = rounds if target is None else min(rounds, target)
    kept = draw(st.integers(0, most))
    appended = draw(small) if target is None else target - kept
    return Typed(
        Summary(
            tuple(draw(small) for _ in range(kept)),
            tuple(draw(small) for _ in range(appended)),
            draw(st.sampled_from(ROOTS)),
        ),
        rounds,
        kept + appended,
    )


def times(rounds: int) -> list[Time]:
    return list(product(range(5), repeat=1 + rounds))


@given(st.data())
def test_composition_is_composition_of_functions(data: st.DataObject) -> None:
    first = data.draw(typed())
    second = data.draw(typed(origin=first.target))
    composed = first.summary.followed_by(second.summary)
    assert composed is not None
    for time in times(first.origin):
        middle = first.summary.results_in(time)
        assert middle is not None
        assert composed.results_in(time) == second.summary.results_in(middle)


@given(typed())
def test_the_compiled_function_has_the_same_results(given_summary: Typed) -> None:
    compiled = given_summary.summary.compiled()
    for time in times(given_summary.origin):
        assert compiled(time) == given_summary.summary.results_in(time)


@given(st.data())
def test_composition_is_associative_with_identities(data: st.DataObject) -> None:
    a = data.draw(typed())
    b = data.draw(typed(origin=a.target))
    c = data.draw(typed(origin=b.target))
    ab, bc = a.summary.followed_by(b.summary), b.summary.followed_by(c.summary)
    assert ab is not None
    assert bc is not None
    assert ab.followed_by(c.summary) == a.summary.followed_by(bc)
    assert a.summary.followed_by(identity(a.target)) == a.summary
    assert identity(a.origin).followed_by(a.summary) == a.summary


@given(st.data())
def test_the_order_of_summaries_is_the_pointwise_order_of_their_results(data: st.DataObject) -> None:
    a = data.draw(typed())
    b = data.draw(typed(origin=a.origin, target=a.target))
    order = Domain(EPOCHS, a.target)
    pointwise = True
    for time in times(a.origin):
        x, y = a.summary.results_in(time), b.summary.results_in(time)
        assert x is not None
        assert y is not None
        pointwise &= order.less_equal(x, y)
    assert a.summary.less_equal(b.summary) == pointwise


@given(st.data())
def test_results_and_composition_are_monotone(data: st.DataObject) -> None:
    a = data.draw(typed())
    b = data.draw(typed(origin=a.target))
    c = data.draw(typed(origin=a.target, target=b.target))
    source, target = Domain(EPOCHS, a.origin), Domain(EPOCHS, a.target)
    grid = data.draw(st.lists(st.sampled_from(times(a.origin)), min_size=2, max_size=6))
    for x, y in product(grid, grid):
        if source.less_equal(x, y):
            low, high = a.summary.results_in(x), a.summary.results_in(y)
            assert low is not None
            assert high is not None
            assert target.less_equal(low, high)
    if b.summary.less_equal(c.summary):
        low_path, high_path = a.summary.followed_by(b.summary), a.summary.followed_by(c.summary)
        assert low_path is not None
        assert high_path is not None
        assert low_path.less_equal(high_path)


def test_entering_and_leaving_is_the_identity_and_feedback_between_is_lost_outside() -> None:
    assert enter(1).followed_by(leave(2)) == identity(1)
    round_trip = enter().followed_by(feedback())
    assert round_trip is not None
    assert round_trip.followed_by(leave()) == identity()
    again = leave().followed_by(enter())
    assert again is not None
    assert again.results_in((4, 7)) == (4, 0)


def test_a_constant_may_lie_below_a_kept_round_and_never_the_other_way() -> None:
    reset, kept = Summary((), (0,)), identity(1)
    assert reset.less_equal(kept)
    assert not kept.less_equal(reset)


def test_minimal_keeps_incomparable_summaries_and_drops_the_rest() -> None:
    later, further = delay(1, rounds=1), feedback(1)
    assert set(minimal([later, further, delay(2, rounds=1), later])) == {later, further}


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        (identity(), "(t)"),
        (enter(1), "(t, r1, 0)"),
        (leave(2), "(t, r1)"),
        (feedback(2), "(t, r1, r2+1)"),
        (delay(3), "(t+3)"),
    ],
)
def test_a_summary_shows_what_becomes_of_a_time(summary: Summary, shown: str) -> None:
    assert str(summary) == shown
