"""Stack times: an order, moves that are bounds of what rows do, and flows that call after a return.

Families:
- laws (hypothesis): a partial order with a linear extension; bounds are monotone, lead strictly later, and
  never lie above what a row does, now or later: what progress concludes from them is safe;
- oracle_*: the order against the paper's leads-to, found by following the edges of a recursive graph on
  explicit stacks (Abadi & Isard 2015, section 3.4);
- flows: a call that follows three returns, against plain recursion, on several workers;
- refusals: what cannot be done is said, not lost.
"""

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, LoopError
from pointstamp.topology.stacks import StackMoves, Stacks, StackTime
from pointstamp_models.spec.recursion import IN, OUT, BaseGraph, call, explore_leads_to, ret, stacks
from support.own_times import tarai_flow, tarai_frames

STEPS = Stacks(deepest=4, steps=(("l", "r"), "then"))
SITES = ("l", "r", "then")
some_stacks = st.lists(st.sampled_from(SITES), max_size=3).map(tuple)
phases = st.sampled_from(["call", "step 1", "return"])
row_times = st.tuples(phases, some_stacks)
times = st.one_of(row_times, st.tuples(phases, some_stacks, st.integers(1, 3)))
summaries = [*map(STEPS.push, SITES), *map(STEPS.pop, (*SITES, None))]


def moves_of(summary: ps.timely.Summary) -> StackMoves:
    assert isinstance(summary.root, StackMoves)
    return summary.root


def row_in(move: StackMoves, time: StackTime) -> StackTime | None:
    """What becomes of a row; None also where it is refused."""
    try:
        return move.row_in(time)
    except FlowError:
        return None


moves = st.sampled_from([moves_of(summary) for summary in summaries])


@given(times, times, times)
def test_stack_times_are_partially_ordered_and_the_sort_key_extends_the_order(
    a: StackTime, b: StackTime, c: StackTime
) -> None:
    assert STEPS.less_equal(a, a)
    assert STEPS.less_equal(STEPS.minimum(), a)
    if STEPS.less_equal(a, b) and STEPS.less_equal(b, c):
        assert STEPS.less_equal(a, c)
    if STEPS.less_equal(a, b) and STEPS.less_equal(b, a):
        assert a == b
    if STEPS.less_equal(a, b) and a != b:
        assert STEPS.sort_key(a) < STEPS.sort_key(b)


@given(times, times, moves)
def test_bounds_are_monotone_and_lead_strictly_later(a: StackTime, b: StackTime, move: StackMoves) -> None:
    after_a, after_b = move.results_in(a), move.results_in(b)
    if after_a is not None:
        assert STEPS.less_equal(a, after_a)
        assert STEPS.sort_key(a) < STEPS.sort_key(after_a)
    if STEPS.less_equal(a, b):  # None counts as later than every time
        assert after_b is None or (after_a is not None and STEPS.less_equal(after_a, after_b))


@given(times, row_times, moves)
def test_no_row_at_a_time_or_later_comes_out_before_the_bound(
    a: StackTime, row: StackTime, move: StackMoves
) -> None:
    after = row_in(move, row)
    if STEPS.less_equal(a, row) and after is not None:
        bound = move.results_in(a)
        assert bound is not None
        assert STEPS.less_equal(bound, after)


@given(times, moves, moves, moves)
def test_paths_are_their_moves_one_after_the_other(
    a: StackTime, first: StackMoves, second: StackMoves, third: StackMoves
) -> None:
    middle = first.results_in(a)
    expected = None if middle is None else second.results_in(middle)
    both = first.followed_by(second)
    assert both.results_in(a) == expected
    assert first.less_equal(both)
    assert both.followed_by(third) == first.followed_by(second.followed_by(third))


def test_a_return_followed_by_a_call_pops_one_stack_and_pushes_the_other() -> None:
    ret_l, then, back = map(moves_of, (STEPS.pop("l"), STEPS.push("then"), STEPS.pop("then")))
    path = ret_l.followed_by(then)
    assert path.row_in(("return", ("r", "l"))) == ("call", ("r", "then"))
    assert path.row_in(("return", ("l", "r"))) is None  # what was called at r returns to r
    assert path.followed_by(back).results_in(("return", ("r", "l"))) is not None
    assert back.row_in(("return", ("r", "then"))) == ("return", ("r",))
    assert STEPS.less_equal(("return", ("r", "l")), ("call", ("r", "then")))


# The order, against the paper.


def frame_of(time: StackTime) -> tuple[str, tuple[str, ...]]:
    """The node at which rows have this time."""
    phase, stack = time
    return {"call": IN, "step 1": "middle", "return": OUT}[phase], stack


def test_oracle_the_order_is_leads_to_of_the_recursive_graph() -> None:
    """in calls l and r side by side, both return to the middle, which calls then, and all can end in out."""
    edges = [(IN, "l"), (IN, "r"), (IN, "middle"), ("l", "middle"), ("r", "middle")]
    ends = [("middle", "then"), ("then", OUT), ("middle", OUT)]
    base = BaseGraph(("middle",), SITES, frozenset([*edges, *ends]))
    assert base.why_not_proper() is None
    known = [(phase, stack) for phase in ("call", "step 1", "return") for stack in stacks(base, 2)]
    related = 0
    for origin in known:
        reached = explore_leads_to(base, frame_of(origin), depth_max=4)
        for target in known:
            assert STEPS.less_equal(origin, target) == (frame_of(target) in reached), (origin, target)
            related += frame_of(target) in reached
    assert 0 < related < len(known) ** 2
    for site, stack in product(SITES, stacks(base, 2)):  # calls push, returns pop
        pushed = moves_of(STEPS.push(site)).row_in(("call", stack))
        assert pushed is not None
        assert frame_of(pushed) in base.following((call(site), stack))
        popped = moves_of(STEPS.pop(site)).row_in(("return", (*stack, site)))
        assert popped is not None
        (came_back,) = base.following((OUT, (*stack, site)))
        assert (came_back[0], popped[1]) == (ret(site), came_back[1])


# Flows.


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_flow_that_calls_after_a_return_returns_what_recursion_does(workers: int) -> None:
    inputs = {"calls": [(("call", ()), pa.table({"x": [4], "y": [2], "z": [0]}))]}
    found = tarai_flow().run(inputs, workers=workers)["values"]
    expected = tarai_frames(4, 2, 0)
    assert expected[()] == 4
    assert any(stack.count("again") > 1 for stack in expected)
    assert {time[1]: found[time]["value"].to_pylist() for time in found} == {
        stack: [value] for stack, value in expected.items()
    }


# Refusals.


def countdown(times: Stacks, then: str) -> ps.Dataflow:
    """Calls itself with n - 1 until 0, and after each return calls a second site."""
    flow = ps.Dataflow("countdown", times=times)
    down = flow.variable("n long", times.push("down"), "down")
    again = flow.variable("n long", times.push(then), "again")
    returned = flow.variable("n long", times.pop("down"), "returned")
    calls = flow.stream_input("calls", "n long").union(down, again)
    positive = calls.filter(lambda batch: [n > 0 for n in batch["n"].to_pylist()])
    flow.feedback(down, positive.map(lambda row: {"n": row["n"] - 1}, "n long"))

    class Answer:
        outputs = "n long"

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            if batch["n"][0].as_py() == 0:
                context.send(batch, at=(("return", context.time[0][1]),))

    answers = ps.operator("answer", Answer(), calls=calls)
    flow.feedback(returned, answers)
    flow.feedback(again, returned)
    flow.output("answers", answers)
    return flow


def run(flow: ps.Dataflow, n: int) -> Any:  # noqa: ANN401 - the results
    return flow.run({"calls": [(("call", ()), pa.table({"n": [n]}))]})


def test_a_call_after_a_return_without_steps_is_refused_and_not_lost() -> None:
    with pytest.raises(
        FlowError, match=r"call site 'again' was called at \('return', \(\)\), where the calls"
    ):
        run(countdown(Stacks(), "again"), 1)
    found = run(countdown(Stacks(steps=("down", "again")), "again"), 1)["answers"]
    answered = {time for time in found if found[time].num_rows}
    assert answered == {("return", ("down",)), ("return", ("again",))}


def test_a_call_deeper_than_the_limit_is_refused_and_not_lost() -> None:
    flow = countdown(Stacks(deepest=3, steps=("down", "again")), "again")
    with pytest.raises(LoopError, match="was called in a stack of 3 open calls, but deepest is 3"):
        run(flow, 4)


def test_call_sites_are_named_once_and_known() -> None:
    with pytest.raises(FlowError, match="each call site must occur once"):
        Stacks(steps=("a", ("b", "a")))
    with pytest.raises(FlowError, match="no call site 'c'; their steps are 'a' then 'b' or 'd'"):
        Stacks(steps=("a", ("b", "d"))).push("c")


def test_what_comes_back_must_be_a_return() -> None:
    with pytest.raises(FlowError, match="which is not the time of a return"):
        moves_of(STEPS.pop()).row_in(("call", ("l",)))
