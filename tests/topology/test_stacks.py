"""Stack times: a partial order with a linear extension, and moves that are monotone and lead later."""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.topology.stacks import Stacks, StackTime

ORDER = Stacks(deepest=4)
stacks = st.lists(st.sampled_from("lr"), max_size=4).map(tuple)
times = st.one_of(
    st.tuples(st.sampled_from(["call", "return"]), stacks),
    st.tuples(st.just("return"), st.integers(0, 4)),
)
moves = st.sampled_from([ORDER.push("l"), ORDER.push("r"), ORDER.pop(), ORDER.turn()]).map(lambda s: s.root)


@given(times, times, times)
def test_stack_times_are_partially_ordered_and_the_sort_key_extends_the_order(
    a: StackTime, b: StackTime, c: StackTime
) -> None:
    assert ORDER.less_equal(a, a)
    assert ORDER.less_equal(ORDER.minimum(), a)
    if ORDER.less_equal(a, b) and ORDER.less_equal(b, c):
        assert ORDER.less_equal(a, c)
    if ORDER.less_equal(a, b) and ORDER.less_equal(b, a):
        assert a == b
    if ORDER.less_equal(a, b) and a != b:
        assert ORDER.sort_key(a) < ORDER.sort_key(b)


@given(times, times, moves)
def test_moves_are_monotone_and_lead_strictly_later(a: StackTime, b: StackTime, move: object) -> None:
    after_a, after_b = move.results_in(a), move.results_in(b)  # type: ignore[attr-defined]
    if after_a is not None:
        assert ORDER.less_equal(a, after_a)
        assert ORDER.sort_key(a) < ORDER.sort_key(after_a)
    if ORDER.less_equal(a, b):  # None counts as later than every time
        assert after_b is None or (after_a is not None and ORDER.less_equal(after_a, after_b))


@given(times, moves, moves)
def test_paths_are_their_steps_one_after_the_other(a: StackTime, first: object, second: object) -> None:
    middle = first.results_in(a)  # type: ignore[attr-defined]
    both = first.followed_by(second).results_in(a)  # type: ignore[attr-defined]
    expected = None if middle is None else second.results_in(middle)  # type: ignore[attr-defined]
    if expected is not None:
        assert both == expected


def test_stacks_of_one_depth_are_incomparable_and_a_depth_lies_below_them() -> None:
    left, right = ("return", ("l",)), ("return", ("r",))
    assert not ORDER.less_equal(left, right)
    assert ORDER.less_equal(("return", 1), left)
    assert not ORDER.less_equal(left, ("return", 1))
    assert ORDER.less_equal(("call", ("l", "l")), left)
    assert ORDER.less_equal(left, ("return", ()))
