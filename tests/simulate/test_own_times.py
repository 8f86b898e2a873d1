"""Flows with times of their own are fed, simulated, judged, compared and shrunk like flows with epochs.

Families, and what only each can find:
- *right flows*: pairs of counters with a loop and a way that ends, and recursion with stacks: that nothing is
  found where nothing is wrong, with incomparable times, with summaries that answer None, and with frontiers
  that hold times which no row has;
- *wrong flows*: what depends on chance is found, made small, and its command repeats it;
- *the walk*: could-result-in of the user's order against a search without any pruning;
- *rules*: that the judge asks the user's order, and not that of tuples, on either side of a verdict;
- *files*: times come back as they were (hypothesis), other types are refused, and no order is guessed;
- *inputs*: what users write wrongly, and what they are told; that items keep their times.
"""

import shlex
from collections.abc import Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.cli.main import main
from pointstamp.errors import FlowError, UsageError
from pointstamp.flow.plan import Plan
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.simulate.case import Case, prepared
from pointstamp.simulate.feed import FedItem
from pointstamp.simulate.seeds import (
    NOTHING_BY_CHANCE,
    FindingKind,
    Simulator,
    cases,
    first_difference,
    simulate,
)
from pointstamp.simulate.shrink import Shrinking
from pointstamp.topology.ports import Location, OperatorIndex
from pointstamp.verify.abstract_state import AbstractState, BrokenError
from pointstamp.verify.conformance import Status
from pointstamp.verify.frontier_rules import FrontierRules
from pointstamp.verify.plan_shape import own_times_of, shape_of, walker_of
from pointstamp.verify.shape import OwnTimes, Stamp, Walker
from pointstamp.verify.trace import check_writable, from_bytes, to_bytes
from pointstamp.worker.events import Counted, FrontiersMoved, MessagePulled, Notified, ProgressReceived
from support.own_times import Latest, pairs_flow, pairs_inputs, sum_flow, tarai_flow, tarai_frames
from support.times import Pairs
from support.worlds import SCHEMA, Steps, some_rows

SUM_INPUTS = {"calls": [(("call", ()), [{"n": 4}])]}


def simulator_of(flow: ps.Dataflow, inputs: Any) -> Simulator:  # noqa: ANN401 - whatever a user writes
    return Simulator(flow.plan, prepared(flow.plan, inputs))


# Right flows.


def test_pairs_of_counters_are_valid_in_many_worlds() -> None:
    simulator = simulator_of(pairs_flow(), pairs_inputs())
    report = simulate(simulator, cases(range(40), 1, 4))
    assert (report.verdict, report.worlds) == (Status.VALID, 41), report.finding or report.unknown
    outputs = simulator.run(Case(3, 3)).run.outputs
    # The first counter stops at 3: what would resume from there takes no path.
    assert max(time[0][0] for output, time in outputs if output == "steps") == 3
    assert {((0, 2),), ((1, 0),)} <= {time for _, time in outputs}


def test_recursion_is_valid_in_many_worlds() -> None:
    simulator = simulator_of(sum_flow(), SUM_INPUTS)
    report = simulate(simulator, cases(range(24), 1, 4))
    assert (report.verdict, report.worlds) == (Status.VALID, 25), report.finding or report.unknown
    run = simulator.run(NOTHING_BY_CHANCE).run
    assert [batch.to_pylist() for batch in run.outputs["sums", (("return", ()),)]] == [[{"n": 14}]]


def test_frontiers_hold_times_that_no_row_has() -> None:
    simulator = simulator_of(sum_flow(), SUM_INPUTS)
    events = simulator.run(Case(1, 2)).run.events
    shown = {
        time
        for event in events
        if isinstance(event, FrontiersMoved)
        for times in event.frontiers.values()
        for time in times
    }
    pulled = {event.time for event in events if isinstance(event, MessagePulled)}
    assert (("call", (), 1),) in shown - pulled


def test_a_call_after_a_return_is_valid_in_many_worlds() -> None:
    simulator = simulator_of(tarai_flow(), {"calls": [(("call", ()), [{"x": 2, "y": 1, "z": 0}])]})
    report = simulate(simulator, cases(range(16), 1, 3))
    assert (report.verdict, report.worlds) == (Status.VALID, 17), report.finding or report.unknown
    run = simulator.run(NOTHING_BY_CHANCE).run
    found = {time[0][1]: batches[0]["value"][0].as_py() for (_, time), batches in run.outputs.items()}
    assert found == tarai_frames(2, 1, 0)


def test_a_variable_that_comes_round_an_epoch_later_is_judged_by_its_summary() -> None:
    flow = ps.Dataflow("tomorrow")
    again = flow.variable(SCHEMA, ps.timely.delay(1))
    steps = ps.operator("it", Steps(), rows=flow.stream_input("rows", SCHEMA).union(again).exchange("key"))
    flow.feedback(again, steps)
    flow.output("out", steps)
    report = simulate(simulator_of(flow, {"rows": some_rows(2)}), cases(range(20), 1, 3))
    assert report.verdict is Status.VALID, report.finding


# Wrong flows.


class FirstCounterFirst(Steps):
    """Wrong: takes incomparable times for ordered, as tuples are."""

    def __init__(self) -> None:
        super().__init__()
        self._current: Any = ((0, 0),)

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        assert context.time >= self._current, f"{context.time} after {self._current}"
        self._current = context.time
        super().on_receive(context, input, batch)


@pytest.mark.parametrize(
    ("operator", "kind", "reason"),
    [
        (Latest, FindingKind.DIFFERS, "output 'steps', time (0, 2), differs from the one-worker run"),
        (FirstCounterFirst, FindingKind.FAILED, "AssertionError: ((0, 2),) after (("),
    ],
)
def test_a_flow_that_depends_on_chance_is_found_and_its_failure_made_small(
    operator: type[Steps], kind: FindingKind, reason: str
) -> None:
    inputs = pairs_inputs()
    inputs["right"][0][1].extend({"key": "a", "n": n} for n in range(7, 10))
    simulator = simulator_of(pairs_flow(operator), inputs)
    found = simulate(simulator, cases(range(200), 1, 4)).finding
    assert found is not None
    assert found.kind is kind
    shrinking = Shrinking(simulator, found)
    smallest = shrinking.run()
    assert shrinking.is_repeatable
    assert smallest.is_like(found)
    assert reason in smallest.reason
    assert smallest.case.workers <= 2
    assert smallest.case.rows is not None
    assert len(smallest.case.rows) == 2
    assert len(smallest.run.events) < len(found.run.events)


WRONG = """
from support.own_times import Latest, pairs_flow, pairs_inputs

flow = pairs_flow(Latest)
inputs = pairs_inputs()
inputs["left"][1][1].extend({"key": "a", "n": n} for n in range(7, 10))
"""


def test_the_printed_command_numbers_items_and_repeats_the_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    assert main(["simulate", str(file), "--seeds", "100", "--workers", "1-2"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("shrunk: it takes 1 worker, 1 item, 2 rows, ")
    assert "  left, at (1, 0): {'key': 'a', 'n': 8}" in out
    assert "--epochs 1 --rows left=1." in out[-1]
    assert main(shlex.split(out[-1])[2:]) == 1
    again = capsys.readouterr().out.splitlines()
    assert (again[0], again[-1]) == (
        "output 'steps', time (1, 0), differs from the one-worker run",
        out[-1],
    )


# The walk.


def later_by_search(
    plan: Plan, start: tuple[int, Stamp], targets: list[set[Stamp]]
) -> Iterator[tuple[int, Stamp]]:
    """Every (location, target) that a search with no pruning, from this start, finds at or below it."""
    own, shape = own_times_of(plan), shape_of(plan)
    assert own is not None
    seen: set[tuple[int, Stamp]] = set()
    waiting = [start]
    while waiting:
        location, time = waiting.pop()
        # A bound of stack times counts the moves since; what was moved more often lies after it.
        moves = time[0][2:] if isinstance(time[0][0], str) else ()
        if (location, time) in seen or any(number > 3 for number in (*time[1:], *moves)):
            continue
        seen.add((location, time))
        for edge in shape.edges:
            if edge.origin == location:
                after = own.move(edge.root, edge.add, edge.append)(time)
                if after is not None:
                    waiting.append((edge.target, after))
    for location, time in seen:
        for target in targets[location]:
            if own.below(time, target):
                yield location, target


@pytest.mark.parametrize("start", [(0, 0), (1, 2), (3, 1)])
def test_the_walk_finds_the_same_pairs_as_a_search_without_pruning(start: Stamp) -> None:
    plan = pairs_flow().plan
    walker = walker_of(plan)
    box = list(product(range(5), range(4)))
    targets: list[set[Stamp]] = [
        {(root, *rounds) for root in box for rounds in product(range(3), repeat=port.rounds)}
        for port in walker.shape.ports
    ]
    for location, port in enumerate(walker.shape.ports):
        at = (start, *(1,) * port.rounds)
        found = set(later_by_search(plan, (location, at), targets))
        reached = walker.reached(walker.point(location, at))
        assert found == {
            (where, target)
            for where, first in enumerate(reached)
            for target in targets[where]
            if any(walker.below(lower, target) for lower in first)
        }


def test_the_walk_finds_the_same_stacks_as_a_search_without_pruning() -> None:
    plan = sum_flow(deepest=3).plan
    walker = walker_of(plan)
    stacks = [stack for depth in range(4) for stack in product(("first", "second"), repeat=depth)]
    times: set[Stamp] = {((phase, stack),) for phase in ("call", "return") for stack in stacks}
    targets = [times] * len(walker.shape.ports)
    origin = next(at for at, port in enumerate(walker.shape.ports) if port.name == "input 0 of 'sum'")
    for stack in stacks:
        start: Stamp = (("call", stack),)
        found = set(later_by_search(plan, (origin, start), targets))
        reached = walker.reached(walker.point(origin, start))
        assert found == {
            (where, target)
            for where, first in enumerate(reached)
            for target in times
            if any(walker.below(lower, target) for lower in first)
        }


def test_a_walker_without_the_order_of_the_times_is_refused() -> None:
    with pytest.raises(ValueError, match="custom times"):
        Walker(shape_of(pairs_flow().plan))


def test_numbers_are_added_to_root_times_that_are_numbers() -> None:
    move = OwnTimes(Pairs(), ()).move(None, (2, 1), (0,))
    assert move((5, 3)) == (7, 4, 0)


# Rules.


def test_an_incomparable_time_may_be_complete_and_a_later_one_may_not() -> None:
    walker = walker_of(pairs_flow().plan)
    state = AbstractState(walker, 1)
    at = next(at for at, port in enumerate(walker.shape.ports) if port.name == "input 0 of 'steps'")
    operator = OperatorIndex(walker.shape.ports[at].operator)
    shown: list[frozenset[Stamp]] = [frozenset()] * len(walker.shape.ports)
    shown[at] = frozenset({((3, 0),)})
    state.shown[0] = shown
    rules = FrontierRules(state)
    rules.notified(Notified(WorkerIndex(0), operator, ((0, 5),)))
    with pytest.raises(BrokenError, match=r"\(\(3, 1\),\) is complete while") as broken:
        rules.notified(Notified(WorkerIndex(0), operator, ((3, 1),)))
    assert broken.value.property == "NotifiedComplete"
    rules.message_pulled(MessagePulled(WorkerIndex(0), Location(at), ((3, 2),)))
    with pytest.raises(BrokenError, match="which its frontier has passed") as late:
        rules.message_pulled(MessagePulled(WorkerIndex(0), Location(at), ((0, 4),)))
    assert late.value.property == "NoLateMessages"


def test_outputs_are_compared_in_the_order_of_the_times() -> None:
    row = pa.RecordBatch.from_pylist([{"n": 1}])
    times = [("return", ("a", "b")), ("call", ()), ("call", ("a",), 1)]
    difference = first_difference(
        {("out", (time,)): [row] for time in times}, {}, ps.timely.Stacks(deepest=3)
    )
    assert difference is not None
    assert str(difference).startswith("output 'out', time ('call', ()), differs")


# Files.

ROOTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=6,
)

RECORDED = simulator_of(sum_flow(), SUM_INPUTS)
TRACE = RECORDED.trace(RECORDED.run(Case(5, 2)))


@given(ROOTS, ROOTS)
def test_times_come_back_from_a_file_as_they_were(a: Any, b: Any) -> None:  # noqa: ANN401 - root times
    events = (
        MessagePulled(WorkerIndex(0), Location(1), (a, 3)),
        ProgressReceived(WorkerIndex(0), WorkerIndex(1), 0, (Counted(Location(1), (b,), 2),)),
        FrontiersMoved(WorkerIndex(0), {Location(0): ((a, 0), (b, 1)), Location(1): ()}),
    )
    trace = msgspec.structs.replace(TRACE, events=events)
    loaded = from_bytes(to_bytes(trace))
    # By repr, because 1, 1.0 and True are equal and not the same.
    assert repr(loaded) == repr(trace)


def test_a_saved_trace_is_judged_alike_with_the_order_and_not_without() -> None:
    loaded = from_bytes(to_bytes(TRACE))
    assert loaded == TRACE
    assert loaded.judged(own_times_of(sum_flow().plan)).status is Status.VALID
    assert "verifying it needs the order of the flow's custom times" in str(loaded.judged())
    halved = msgspec.structs.replace(loaded, events=loaded.events[: len(loaded.events) // 2])
    assert halved.judged(own_times_of(sum_flow().plan)).property == "Completes"


@pytest.mark.parametrize(
    "value",
    [date(2024, 1, 1), b"x", frozenset({1}), Counted, float("nan"), 2**64, "\ud800", FindingKind.VALID],
)
def test_times_of_other_types_are_refused_in_words(value: Any) -> None:  # noqa: ANN401 - any value
    check_writable("it", [(1, "a", (None, 2.5)), Change(Location(0), (("x",),), 1)])
    with pytest.raises(UsageError, match=r"flow 'it' has times that contain .* of type .* cannot be written"):
        check_writable("it", [(1, ("a", value))])


DATES = """
from datetime import date
import pointstamp as ps


class Days:
    def less_equal(self, a, b):
        return a <= b

    def sort_key(self, time):
        return time

    def minimum(self):
        return date(2024, 1, 1)


flow = ps.Dataflow("days", times=Days())
flow.output("out", flow.stream_input("rows", "n long"))
inputs = {"rows": [(date(2024, 1, day), [{"n": day}]) for day in (1, 3)]}
"""


def test_a_flow_whose_times_cannot_be_written_runs_and_is_only_refused_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "days.py"
    file.write_text(DATES)
    assert main(["simulate", str(file), "--seeds", "5"]) == 0
    assert capsys.readouterr().out.startswith("valid: 6 worlds")
    trace = tmp_path / "days.trace"
    assert main(["simulate", str(file), "--replay", "1", "--trace", str(trace)]) == 2
    out, err = capsys.readouterr()
    assert (out, trace.exists()) == ("", False)
    assert "flow 'days' has times that contain datetime.date(2024, 1, 1) of type date" in err


# Inputs.


@pytest.mark.parametrize(
    ("left", "words"),
    [
        ("abc", r"input 'left' needs a list of \(time, rows\) pairs, .* got str"),
        (
            [[{"key": "a", "n": 1}]],
            r"item 0: items must be \(time, rows\) pairs, because .* got list",
        ),
        ([((1, 0), []), ((0, 5), [])], r"item 1 is at \(0, 5\), but the input is already at \(1, 0\)"),
        ([(3, [])], r"item 0: 3 cannot be a time of flow 'pairs': TypeError"),
        ([([0, 0], [])], r"item 0: \[0, 0\] cannot be a time of flow 'pairs': TypeError: unhashable"),
        ([((0, 0), [{"key": "a"}])], "input 'left', item 0"),
    ],
)
def test_items_that_do_not_fit_are_refused_with_what_is_needed(left: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=words):
        prepared(pairs_flow().plan, {"left": left, "right": []})


@pytest.mark.parametrize("inputs", [[], {"left": []}])
def test_inputs_that_are_missing_are_asked_for_as_items(inputs: Any) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=r"lists? of items"):
        prepared(pairs_flow().plan, inputs)


def test_a_case_feeds_the_items_that_it_names_at_their_own_times() -> None:
    inputs = prepared(pairs_flow().plan, pairs_inputs())
    case = Case(0, 1, epochs=(1, 2), rows=(("left", 1, 0), ("left", 2, 0)))
    fed = case.select(inputs)
    assert [(item.time, item.batch.to_pylist()) for item in fed["left"]] == [
        (((1, 0),), [{"key": "b", "n": 2}]),
        (((1, 0),), [{"key": "c", "n": 2}]),
    ]
    assert [item.time for item in fed["right"]] == [((0, 5),)]
    assert [item.root_at(7) for item in (*fed["right"], FedItem(fed["right"][0].batch))] == [(0, 5), 7]
