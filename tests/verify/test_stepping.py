"""The models' state beside a trace, against brute force.

Families, and what only each can find:
- *what exists*: the changes that are told add up to the sum of all that activations have reported;
- *frontiers*: at many steps, against a walk over all ways of few rounds that shares no code with the judge;
- *windows*: a page that is given only the end of a run is told where that begins.
"""

from collections import Counter
from itertools import product

import pytest

from pointstamp.simulate.case import Case, prepared
from pointstamp.simulate.seeds import Simulator
from pointstamp.verify.abstract_state import AbstractState
from pointstamp.verify.conformance import ModelRules
from pointstamp.verify.model_steps import ModelSteps
from pointstamp.verify.recorded import EVENTS_MAX, window
from pointstamp.verify.shape import PortShape, Shape, Walker
from pointstamp.verify.trace import Trace
from pointstamp.worker.events import ActivationEnded
from support.sights import halving, numbers

ROUNDS = 6


@pytest.fixture(scope="module")
def trace() -> Trace:
    flow = halving()
    inputs = {"numbers": [numbers(0, 2), numbers(1, 2)]}
    simulator = Simulator(flow.plan, prepared(flow.plan, inputs), file="halving.py")
    return simulator.trace(simulator.run(Case(5, 2)))


def steps(trace: Trace) -> ModelSteps:
    state = AbstractState(Walker(trace.header.shape), trace.header.workers)
    return ModelSteps(state, ModelRules(state).take)


def brute(shape: Shape, points: set[tuple[int, tuple[int, ...]]]) -> dict[int, set[tuple[int, ...]]]:
    """The least times that may come to each port, by following every edge up to a number of rounds."""
    seen, waiting = set(points), list(points)
    most = ROUNDS + max((max(time[1:], default=0) for _, time in points), default=0)
    while waiting:
        at, time = waiting.pop()
        for edge in shape.edges:
            if edge.origin == at:
                after = (*(a + b for a, b in zip(time, edge.add, strict=False)), *edge.append)
                if all(each <= most for each in after[1:]) and (edge.target, after) not in seen:
                    seen.add((edge.target, after))
                    waiting.append((edge.target, after))
    found = {at: {time for place, time in seen if place == at} for at in range(len(shape.ports))}
    return {
        at: {
            time
            for time in times
            if not any(
                other != time and all(a <= b for a, b in zip(other, time, strict=True)) for other in times
            )
        }
        for at, times in found.items()
    }


def test_what_is_told_adds_up_to_what_exists_and_to_its_frontiers(trace: Trace) -> None:
    model, shape = steps(trace), trace.header.shape
    begun = model.whole()
    truly: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for at, time, number in begun.exists:
        truly[at, time] = number
    told, frontiers = dict(truly), dict(begun.frontiers)
    for number, event in enumerate(trace.events):
        change = model.take(event)
        if isinstance(event, ActivationEnded):
            for at, time, diff in event.changes:
                truly[int(at), time] += diff
        told |= {(at, time): count for at, time, count in change.exists}
        frontiers |= change.frontiers
        there = {point: count for point, count in truly.items() if count}
        assert {point: count for point, count in told.items() if count} == there
        if number % 40 == 0:
            expected = brute(shape, set(there))
            assert {at: set(times) for at, times in frontiers.items()} == expected
    assert told
    assert not any(told.values())
    assert not any(frontiers.values())


def test_a_run_that_is_gone_on_with_is_told_as_it_stands(trace: Trace) -> None:
    whole, late = steps(trace), steps(trace)
    middle = len(trace.events) // 2
    for event in trace.events[:middle]:
        whole.take(event)
        late.pass_over(event)
    assert whole.whole() == late.whole()
    for event in trace.events[middle : middle + 50]:
        assert whole.take(event) == late.take(event)


@pytest.mark.parametrize(
    ("events", "flaw", "shown"),
    [
        (10, None, (0, 10)),
        (10, 9, (0, 10)),
        (EVENTS_MAX + 5, None, (0, EVENTS_MAX)),
        (10 * EVENTS_MAX, 5 * EVENTS_MAX, (41 * EVENTS_MAX // 10, 51 * EVENTS_MAX // 10)),
    ],
)
def test_a_page_is_given_so_many_events_and_the_flaw_is_among_them(
    events: int, flaw: int | None, shown: tuple[int, int]
) -> None:
    assert window(events, flaw) == shown
    first, end = shown
    assert end - first <= EVENTS_MAX
    assert flaw is None or first <= flaw < end


def test_the_brute_force_knows_two_incomparable_times() -> None:
    """An oracle that keeps one time for each port would agree with anything simple."""
    port = PortShape("output 0 of 'one'", 0, is_output=True, rounds=1)
    apart = {pair for pair in product((0, 1), (0, 1)) if sum(pair) == 1}
    assert brute(Shape((port,), ()), {(0, pair) for pair in (*apart, (1, 1))}) == {0: apart}
