"""The judge accepts what the runtime does and refuses a trace in which one event is not what it should be.

Families, and what only each can find:
- *forged traces*: a valid trace with one event changed, removed or added, for each property that such a
  forgery can break: that the judge looks at that event at all, and names the right property and place;
- *forged states*: properties that follow from the others (a message cannot be late while frontiers are safe),
  so that no single forgery reaches them: their rules are put before a state that breaks them;
- *the walk*: could-result-in against a search in a box of times without any pruning, on nested loops;
- *files*: a trace that is saved and loaded is judged alike, and what is no trace is rejected with an error.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import UsageError
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.simulate.case import Case
from pointstamp.topology.ports import Location
from pointstamp.verify.abstract_state import AbstractState, BrokenError
from pointstamp.verify.conformance import PROPERTIES, Status, Verdict, judge
from pointstamp.verify.exchange_rules import ExchangeRules
from pointstamp.verify.frontier_rules import FrontierRules
from pointstamp.verify.plan_shape import shape_of, walker_of
from pointstamp.verify.shape import Shape, Stamp, Walker, below, first_points
from pointstamp.verify.trace import Trace, describe_event, from_bytes, load, save, to_bytes
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    Counted,
    Event,
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    NotificationAsked,
    Notified,
    ProgressReceived,
    ProgressSent,
    WorkerStarted,
)
from support.worlds import busy_flow, nested_flow, simulator_of, walking_flow

SIMULATOR = simulator_of(busy_flow(), epochs=3)
TRACE = SIMULATOR.trace(SIMULATOR.run(Case(seed=3, workers=3)))
WALKER = Walker(TRACE.header.shape)
EVENTS = list(TRACE.events)
NOTIFIED_OPERATOR = next(event.operator for event in EVENTS if isinstance(event, Notified))


def judged(events: list[Event], *, thorough: bool = False) -> Verdict:
    return judge(WALKER, 3, events, thorough=thorough)


def test_a_trace_of_the_runtime_is_valid_event_by_event() -> None:
    assert judged(EVENTS, thorough=True) == Verdict(Status.VALID)


# Forged traces: each forgery returns the events and the number of the event at which it must be noticed.

Forged = tuple[list[Event], int | None]


def find(kind: type[Any], wanted: Callable[[Any], bool] = lambda event: True, *, last: bool = False) -> int:
    found = [number for number, event in enumerate(EVENTS) if isinstance(event, kind) and wanted(event)]
    return found[-1 if last else 0]


def with_event(number: int, event: Event) -> list[Event]:
    return [*EVENTS[:number], event, *EVENTS[number + 1 :]]


def end_of_activation(number: int) -> int:
    worker = EVENTS[number].worker
    return next(
        at
        for at in range(number, len(EVENTS))
        if isinstance(EVENTS[at], ActivationEnded) and EVENTS[at].worker == worker
    )


def a_message_pulled_twice() -> Forged:
    number = find(MessagePulled, last=True)
    return [*EVENTS[: number + 1], EVENTS[number], *EVENTS[number + 1 :]], number + 1


def a_capability_dropped_twice() -> Forged:
    number = find(CapabilityChanged, lambda event: event.diff < 0, last=True)
    return [*EVENTS[:number], EVENTS[number], *EVENTS[number:]], end_of_activation(number) + 1


def a_capability_out_of_nothing() -> Forged:
    number = find(CapabilityChanged, last=True)
    event = EVENTS[number]
    assert isinstance(event, CapabilityChanged)
    least = (0,) * len(event.time)
    forged = msgspec.structs.replace(event, time=least, diff=1)
    return [*EVENTS[:number], forged, *EVENTS[number:]], end_of_activation(number) + 1


def a_message_sent_without_authority() -> Forged:
    number = find(MessageSent, lambda event: event.source_time[0] > 1, last=True)
    event = EVENTS[number]
    assert isinstance(event, MessageSent)
    forged = msgspec.structs.replace(event, source_time=(0,) * len(event.source_time))
    return with_event(number, forged), end_of_activation(number)


def a_message_that_arrives_before_it_is_sent() -> Forged:
    number = find(MessageSent, lambda event: event.time[0] > 0)
    event = EVENTS[number]
    assert isinstance(event, MessageSent)
    forged = msgspec.structs.replace(event, time=(0, *event.time[1:]))
    return with_event(number, forged), end_of_activation(number)


def a_change_that_is_not_reported() -> Forged:
    number = find(ActivationEnded, lambda event: len(event.changes) > 1, last=True)
    event = EVENTS[number]
    assert isinstance(event, ActivationEnded)
    return with_event(number, msgspec.structs.replace(event, changes=event.changes[:-1])), number


def only_the_losses_are_told() -> Forged:
    number = find(ProgressSent, lambda event: {change.diff > 0 for change in event.changes} == {True, False})
    event = EVENTS[number]
    assert isinstance(event, ProgressSent)
    losses = tuple(change for change in event.changes if change.diff < 0)
    return with_event(number, msgspec.structs.replace(event, changes=losses)), number


def more_is_told_than_happened() -> Forged:
    number = find(ProgressSent)
    event = EVENTS[number]
    assert isinstance(event, ProgressSent)
    first, *others = event.changes
    forged = (first._replace(diff=first.diff - 1), *others)
    return with_event(number, msgspec.structs.replace(event, changes=forged)), number


def a_batch_is_skipped() -> Forged:
    number = find(ProgressReceived, lambda event: event.sender != event.worker)
    skipped = EVENTS[number]
    assert isinstance(skipped, ProgressReceived)
    following = find(
        ProgressReceived,
        lambda event: (
            (event.worker, event.sender, event.sequence)
            == (skipped.worker, skipped.sender, skipped.sequence + 1)
        ),
    )
    return [*EVENTS[:number], EVENTS[following]], number


def a_batch_is_numbered_wrongly() -> Forged:
    number = find(ProgressSent, last=True)
    event = EVENTS[number]
    assert isinstance(event, ProgressSent)
    return with_event(number, msgspec.structs.replace(event, sequence=event.sequence + 1)), number


def a_count_that_nobody_told() -> Forged:
    number = find(ProgressReceived)
    event = EVENTS[number]
    assert isinstance(event, ProgressReceived)
    first, *others = event.counts
    forged = (first._replace(number=first.number + 1), *others)
    return with_event(number, msgspec.structs.replace(event, counts=forged)), number


def a_frontier_that_has_passed_what_exists() -> Forged:
    number = find(FrontiersMoved, lambda event: len(event.frontiers) == len(WALKER.shape.ports))
    event = EVENTS[number]
    assert isinstance(event, FrontiersMoved)
    output = next(number for number, port in enumerate(WALKER.shape.ports) if port.is_output)
    forged = {**event.frontiers, Location(output): ()}
    return with_event(number, msgspec.structs.replace(event, frontiers=forged)), number


def a_frontier_that_moves_back() -> Forged:
    number = find(FrontiersMoved, lambda event: 0 < len(event.frontiers) < len(WALKER.shape.ports), last=True)
    event = EVENTS[number]
    assert isinstance(event, FrontiersMoved)
    forged = {at: ((0,) * (1 + WALKER.shape.ports[at].rounds),) for at in event.frontiers}
    return with_event(number, msgspec.structs.replace(event, frontiers=forged)), number


def a_frontier_that_is_not_told() -> Forged:
    number = find(FrontiersMoved, lambda event: 0 < len(event.frontiers) < len(WALKER.shape.ports))
    return with_event(number, FrontiersMoved(EVENTS[number].worker, {})), number


def an_operator_that_is_shown_too_much() -> Forged:
    number = find(FrontiersShown, lambda event: any(event.frontiers.values()))
    event = EVENTS[number]
    assert isinstance(event, FrontiersShown)
    return with_event(
        number, msgspec.structs.replace(event, frontiers=dict.fromkeys(event.frontiers, ()))
    ), number


def a_notification_before_anything_arrived() -> Forged:
    started = find(FrontiersMoved)
    forged = Notified(EVENTS[started].worker, NOTIFIED_OPERATOR, (0,))
    return [*EVENTS[: started + 1], forged, *EVENTS[started + 1 :]], started + 1


def an_earlier_notification_after_a_later_one() -> Forged:
    number = find(Notified, lambda event: event.time == (1,))
    forged = msgspec.structs.replace(EVENTS[number], time=(0,))
    return [*EVENTS[: number + 1], forged, *EVENTS[number + 1 :]], number + 1


def a_notification_that_nobody_asked_for() -> Forged:
    number = find(NotificationAsked)
    asked = EVENTS[number]
    assert isinstance(asked, NotificationAsked)
    told = EVENTS.index(Notified(asked.worker, asked.operator, asked.time))
    return [*EVENTS[:number], *EVENTS[number + 1 :]], told - 1


def a_notification_that_comes_again() -> Forged:
    number = find(Notified, last=True)
    return [*EVENTS[: number + 1], EVENTS[number], *EVENTS[number + 1 :]], number + 1


def a_request_that_is_made_twice() -> Forged:
    number = find(NotificationAsked)
    return [*EVENTS[: number + 1], EVENTS[number], *EVENTS[number + 1 :]], number + 1


def a_notification_that_never_comes() -> Forged:
    number = find(Notified)
    return [*EVENTS[:number], *EVENTS[number + 1 :]], None


def a_trace_that_ends_too_soon() -> Forged:
    return EVENTS[: len(EVENTS) // 2], None


FORGERIES: dict[Callable[[], Forged], str] = {
    a_message_pulled_twice: "RecvCapEnabled",
    a_capability_dropped_twice: "DnegOwned",
    a_capability_out_of_nothing: "DselfAbove",
    a_message_sent_without_authority: "DdataAbove",
    a_message_that_arrives_before_it_is_sent: "ArrivesLater",
    a_change_that_is_not_reported: "RecordCount",
    only_the_losses_are_told: "TempJustified",
    more_is_told_than_happened: "SendUpdEnabled",
    a_batch_is_skipped: "GaplessSequence",
    a_batch_is_numbered_wrongly: "GaplessSequence",
    a_count_that_nobody_told: "PtsEqGlob",
    a_frontier_that_has_passed_what_exists: "SafeCombined",
    a_frontier_that_moves_back: "FrontierNeverRegresses",
    a_frontier_that_is_not_told: "Converged",
    an_operator_that_is_shown_too_much: "OperatorFrontierNotAhead",
    a_notification_before_anything_arrived: "NotifiedComplete",
    an_earlier_notification_after_a_later_one: "NotifiedInOrder",
    a_notification_that_nobody_asked_for: "NotifiedWasAsked",
    a_notification_that_comes_again: "NotifiedWasAsked",
    a_request_that_is_made_twice: "AskedOnce",
    a_notification_that_never_comes: "AskedIsServed",
    a_trace_that_ends_too_soon: "Completes",
}


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
def test_a_forged_trace_is_refused_where_it_was_forged(forgery: Callable[[], Forged]) -> None:
    events, number = forgery()
    verdict = judged(events)
    assert (verdict.status, verdict.property, verdict.event) == (
        Status.INVALID,
        FORGERIES[forgery],
        number,
    ), str(verdict)


def test_every_property_is_shown_to_be_breakable() -> None:
    assert {*FORGERIES.values(), "NoLateMessages", "CMEnabled", "TakenInOrder"} == set(PROPERTIES)


def test_a_trace_of_workers_that_do_not_know_who_takes_times_in_order_is_refused() -> None:
    walker, unaware = walker_of(walking_flow().plan), walking_flow()
    for node in unaware.plan.nodes:
        node.in_order = False
    outcome = simulator_of(unaware).run(Case(0, 1))
    assert outcome.verdict.status is Status.VALID
    verdict = judge(walker, 1, outcome.run.events)
    assert (verdict.status, verdict.property) == (Status.INVALID, "TakenInOrder"), str(verdict)
    assert verdict.event is not None
    assert isinstance(outcome.run.events[verdict.event], Notified)


def test_an_event_that_the_judge_cannot_read_makes_the_verdict_unknown() -> None:
    verdict = judged([*EVENTS, WorkerStarted(WorkerIndex(0), 7)])
    assert (verdict.status, verdict.event) == (Status.UNKNOWN, len(EVENTS))
    assert "the verifier failed: ValueError" in str(verdict)


def test_frontiers_before_the_first_propagation_are_not_read_as_complete() -> None:
    assert judged([EVENTS[0], Notified(WorkerIndex(0), NOTIFIED_OPERATOR, (0,))]).status is Status.UNKNOWN


# Forged states.


def state_after_start() -> AbstractState:
    state = AbstractState(WALKER, 1)
    state.shown[0] = list(WALKER.implied_frontiers(first_points(WALKER)))
    return state


def an_input() -> Location:
    return Location(next(number for number, port in enumerate(WALKER.shape.ports) if not port.is_output))


def test_a_message_at_a_time_that_was_passed_is_late() -> None:
    state = state_after_start()
    state.shown[0] = [frozenset()] * len(WALKER.shape.ports)
    with pytest.raises(BrokenError, match="which its frontier has passed") as broken:
        FrontierRules(state).message_pulled(MessagePulled(WorkerIndex(0), an_input(), (0,)))
    assert broken.value.property == "NoLateMessages"


def test_a_message_at_or_before_a_notified_time_is_late() -> None:
    state = state_after_start()
    state.notified[0][WALKER.shape.ports[an_input()].operator] = [(3,)]
    with pytest.raises(BrokenError, match="after the operator was notified") as broken:
        FrontierRules(state).message_pulled(MessagePulled(WorkerIndex(0), an_input(), (2,)))
    assert broken.value.property == "NoLateMessages"


def test_news_that_no_frontier_expects_are_refused() -> None:
    state = state_after_start()
    state.shown[0] = [frozenset()] * len(WALKER.shape.ports)
    state.send_upd(0, {WALKER.point(an_input(), (0,)): 1})
    told = ProgressReceived(WorkerIndex(0), WorkerIndex(0), 0, (Counted(an_input(), (0,), 1),))
    with pytest.raises(BrokenError, match="which its frontier has passed") as broken:
        ExchangeRules(state).progress_received(told)
    assert broken.value.property == "CMEnabled"


def test_a_count_that_no_view_will_ever_know_breaks_the_record_count() -> None:
    state = state_after_start()
    state.recv_cap(0, WALKER.point(an_input(), (0,)))
    state.perf_op(0, {})
    with pytest.raises(BrokenError, match="will miscount forever") as broken:
        ExchangeRules(state).check_record_count()
    assert broken.value.property == "RecordCount"


# The walk.


def arrivals_in_a_box(shape: Shape, start: tuple[int, Stamp], size: int) -> list[set[Stamp]]:
    """Everything that can be reached with all coordinates below ``size``: no pruning, no minimal elements."""
    seen: set[tuple[int, Stamp]] = set()
    waiting = [start]
    while waiting:
        location, time = waiting.pop()
        if (location, time) in seen or max(time) >= size:
            continue
        seen.add((location, time))
        waiting.extend((e.target, e.arrival(time)) for e in shape.edges if e.origin == location)
    found: list[set[Stamp]] = [set() for _ in shape.ports]
    for location, time in seen:
        found[location].add(time)
    return found


NESTED = Walker(shape_of(nested_flow().plan))


@given(st.integers(0, len(NESTED.shape.ports) - 1), st.tuples(*[st.integers(0, 3)] * 3))
def test_the_walk_finds_the_same_times_as_a_search_without_pruning(location: int, time: Stamp) -> None:
    start = (location, time[: 1 + NESTED.shape.ports[location].rounds])
    reached = NESTED.reached(NESTED.point(*start))
    for at, arrivals in enumerate(arrivals_in_a_box(NESTED.shape, start, size=5)):
        for later in product(range(5), repeat=1 + NESTED.shape.ports[at].rounds):
            could = any(below(first, later) for first in arrivals)
            assert any(below(first, later) for first in reached[at]) == could


def test_going_round_the_outer_loop_begins_the_inner_one_anew() -> None:
    inner = next(at for at, port in enumerate(NESTED.shape.ports) if port.name == "input 0 of 'steps'")
    reached = NESTED.reached(NESTED.point(inner, (0, 0, 5)))
    assert reached[inner] == {(0, 0, 5), (0, 1, 0)}


def test_the_shape_numbers_ports_as_the_runtime_does() -> None:
    plan = nested_flow().plan
    graph = plan.graph()
    names = [graph.describe(Location(number)) for number in range(len(graph.ports))]
    assert [port.name for port in NESTED.shape.ports] == names


# Files.


def test_a_trace_that_is_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    save(TRACE, path)
    assert load(path) == TRACE
    assert to_bytes(load(path)) == path.read_bytes()
    assert from_bytes(path.read_bytes()).judged().status is Status.VALID


def test_an_invalid_trace_prints_its_shortest_prefix_the_property_and_the_replay() -> None:
    events, number = a_count_that_nobody_told()
    assert number is not None
    text = Trace(TRACE.header, tuple(events)).explained(judged(events))
    first, *lines = text.splitlines()
    assert first.startswith(
        f"invalid at event {number}: PtsEqGlob (the counts of a worker are the changes that it has received)"
    )
    assert lines[-1] == "replay: pointstamp simulate FLOW.py --replay 3 --workers 3"
    assert lines[-2].split() == [str(number), *describe_event(TRACE.header.shape, events[number]).split()]


def test_a_run_that_was_broken_off_is_unknown_unless_it_did_something_wrong() -> None:
    header = msgspec.structs.replace(TRACE.header, ended="given up", reason="it took too long")
    whole = Trace(header, TRACE.events[:50])
    assert str(whole.judged()) == "unknown: the run was broken off (given up): it took too long"
    events, _ = a_capability_dropped_twice()
    assert Trace(header, tuple(events)).judged().status is Status.INVALID


def test_every_kind_of_event_has_words() -> None:
    seen = {type(event): describe_event(TRACE.header.shape, event) for event in EVENTS}
    assert len(seen) == 11
    assert all(words.startswith("worker ") for words in seen.values())


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"format": 99}'])
def test_what_is_no_trace_is_refused_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a trace of pointstamp"):
        load(path)
    with pytest.raises(UsageError, match="cannot be read as a trace"):
        load(tmp_path / "absent")


def test_a_change_is_shown_with_its_sign() -> None:
    event = ProgressSent(WorkerIndex(1), 4, (Change(Location(0), (2,), -1),))
    assert describe_event(TRACE.header.shape, event) == (
        f"worker 1 broadcast batch 4: -1 of (2,) at {TRACE.header.shape.ports[0].name}"
    )
