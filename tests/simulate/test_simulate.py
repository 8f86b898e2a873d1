"""Many worlds of a user's flow: what depends on chance is found, made small, and can be repeated.

Families, and what only each can find:
- *wrong flows*: each is wrong in one way that no test on one worker shows: arrival order, rows that are not
  brought together by key, a capability that is kept, an error in some schedules only;
- *right flows*: that nothing is found where nothing is wrong, and that a flow without an end is unknown;
- *shrinking*: that the result is small, still fails alike, and that its command says all of it;
- *outputs* (hypothesis): when two runs emitted the same;
- *inputs*: what users write wrongly, and what they are told.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, UsageError
from pointstamp.flow.plan import Plan
from pointstamp.simulate.case import Case, parse_numbers, parse_rows, prepared, rows_text
from pointstamp.simulate.seeds import (
    FindingKind,
    Outcome,
    Simulator,
    cases,
    first_difference,
    replay,
    simulate,
    workers_of,
)
from pointstamp.simulate.shrink import Shrinking, fewest
from pointstamp.verify.conformance import Status
from support.worlds import SCHEMA, Rows, Steps, busy_flow, simulator_of, some_rows


def found_in(plan: Plan, epochs: int = 4, seeds: int = 100) -> tuple[Simulator, Outcome]:
    simulator = Simulator(plan, prepared(plan, {"rows": some_rows(epochs)}))
    report = simulate(simulator, cases(range(seeds), 1, 4))
    assert report.finding is not None
    assert report.verdict is Status.INVALID
    return simulator, report.finding


def flow_with(operator: Any, *, by_key: bool = True) -> Plan:  # noqa: ANN401 - any operator
    flow = ps.Dataflow("suspect")
    rows = flow.stream_input("rows", SCHEMA)
    flow.output("out", ps.operator("it", operator, rows=rows.exchange("key") if by_key else rows))
    return flow.plan


# Wrong flows.


class Latest(Steps):
    """Wrong: the last row to arrive wins, and no order of arrival is promised."""

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        sums = self._sums.setdefault(context.time, {})
        for row in batch.to_pylist():
            sums[row["key"]] = row["n"] + 10
        context.notify_at()


class FirstEpochFirst(Steps):
    """Wrong: takes for granted that nothing of a later epoch arrives before an epoch is complete."""

    def __init__(self) -> None:
        super().__init__()
        self._current = (0,)

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        assert context.time >= self._current, f"{context.time} after {self._current}"
        self._current = context.time
        super().on_receive(context, input, batch)


class Keeps(Steps):
    """Wrong: keeps a capability for ever when two batches of one epoch arrive."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[ps.timely.Capability] = []

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if context.time in self._sums:
            self._kept.append(context.retain())
        super().on_receive(context, input, batch)


@pytest.mark.parametrize(
    ("plan", "kind", "reason"),
    [
        (flow_with(Latest()), FindingKind.DIFFERS, "output 'out', epoch 0, differs from the one-worker run"),
        (flow_with(Steps(), by_key=False), FindingKind.DIFFERS, "missing: {'key': "),
        (flow_with(FirstEpochFirst()), FindingKind.FAILED, "AssertionError: (0,) after (1,)"),
        (flow_with(Keeps()), FindingKind.INVALID, "never gives up +1 of (0,) at output 0 of 'it'"),
    ],
    ids=["arrival order", "no exchange", "overlapping epochs", "a capability kept"],
)
def test_a_flow_that_depends_on_chance_is_found_and_its_failure_made_small(
    plan: Plan, kind: FindingKind, reason: str
) -> None:
    simulator, found = found_in(plan)
    assert found.kind is kind
    shrinking = Shrinking(simulator, found)
    smallest = shrinking.run()
    assert smallest.is_like(found)
    assert shrinking.is_repeatable
    assert reason in smallest.reason
    assert smallest.case.workers <= 2
    assert smallest.case.rows is not None
    assert len(smallest.case.rows) <= 2
    assert len(smallest.run.choices) <= 6
    assert len(smallest.run.events) < len(found.run.events)
    again = replay(simulator, smallest.case)[1]
    assert again.run.events == smallest.run.events


def test_a_flow_that_fails_even_without_chance_is_found_at_once() -> None:
    class Fails(Steps):
        def on_notify(self, context: ps.ports.Context) -> None:
            raise LookupError(f"nothing is known of {context.time}")

    simulator, found = found_in(flow_with(Fails()))
    assert (found.case.workers, found.case.choices) == (1, frozenset())
    smallest = Shrinking(simulator, found).run()
    assert "LookupError: nothing is known of (0,)" in smallest.reason
    assert smallest.case.rows is not None
    assert len(smallest.case.rows) == 1


def test_a_flow_that_remembers_its_last_run_is_called_unrepeatable() -> None:
    seen: list[int] = []

    class Counts(Steps):
        def on_notify(self, context: ps.ports.Context) -> None:
            seen.append(1)
            rows = [{"key": "seen", "n": len(seen)}]
            context.send(pa.RecordBatch.from_pylist(rows, schema=context.schema()))

    simulator, found = found_in(flow_with(Counts()))
    shrinking = Shrinking(simulator, found)
    shrinking.run()
    assert found.kind is FindingKind.DIFFERS
    assert not shrinking.is_repeatable


# Right flows.


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    report = simulate(simulator_of(busy_flow(), epochs=2), cases(range(30), 1, 4))
    assert (report.verdict, report.worlds, report.finding) == (Status.VALID, 31, None)
    assert report.events > 31 * 50


def test_a_flow_without_an_end_is_unknown_and_not_tried_for_ever() -> None:
    flow = ps.Dataflow("endless")
    rows = flow.stream_input("rows", SCHEMA)
    with rows.loop("round") as loop:
        again = loop.variable(SCHEMA)
        both = loop.enter(rows).union(again)
        loop.feedback(again, both)
        flow.output("out", loop.leave(both))
    simulator = Simulator(flow.plan, prepared(flow.plan, {"rows": some_rows(1)}), steps_max=200)
    report = simulate(simulator, cases(range(100), 1, 2))
    assert (report.verdict, report.worlds) == (Status.UNKNOWN, 1)
    assert report.unknown[0].reason == "it had not come to an end after 200 steps"


def test_numbers_of_workers_take_turns() -> None:
    assert [case.workers for case in cases(range(6), 2, 4)] == [2, 3, 4, 2, 3, 4]
    assert workers_of(7, 3, 3) == 3


def test_every_world_of_a_notice_is_counted() -> None:
    noticed: list[int] = []
    simulate(
        simulator_of(busy_flow(), epochs=1),
        cases(range(3), 1, 2),
        lambda report, outcome: noticed.append(report.worlds),
    )
    assert noticed == [1, 2, 3, 4]


# Shrinking.


@given(st.sets(st.integers(0, 30), max_size=4), st.integers(0, 40))
def test_what_is_left_is_exactly_what_it_takes(needed: set[int], count: int) -> None:
    items = list(range(max(count, 31)))
    assert fewest(items, lambda kept: needed <= set(kept)) == sorted(needed)


def test_a_case_feeds_the_rows_and_epochs_that_it_names_and_no_others() -> None:
    simulator = simulator_of(busy_flow(), epochs=3)
    case = Case(0, 1, epochs=(1, 2), rows=(("rows", 1, 0), ("more", 2, 3)))
    fed = {
        name: [item.batch.to_pylist() for item in items]
        for name, items in case.select(simulator.inputs).items()
    }
    whole = some_rows(3)
    assert fed == {"rows": [[whole[1][0]], []], "more": [[], [whole[2][3]]]}


def test_the_command_of_a_case_says_all_of_it() -> None:
    case = Case(7, 2, epochs=(0, 3), rows=(("my rows", 0, 1),), choices=frozenset({4, 5, 6, 9}))
    assert case.command("a flow.py") == (
        "pointstamp simulate 'a flow.py' --replay 7 --workers 2 --epochs 0,3 --rows 'my rows=0.1' "
        "--choices 4-6,9"
    )


ROW_NAMES = st.tuples(st.sampled_from(["rows", "more=", "a b"]), st.integers(0, 9), st.integers(0, 99))


@given(st.lists(ROW_NAMES, min_size=1))
def test_rows_survive_being_written_on_a_command_line(rows: list[tuple[str, int, int]]) -> None:
    assert sorted(parse_rows(rows_text(rows))) == sorted(rows)


@pytest.mark.parametrize("text", ["rows", "rows=1", "rows=a.b", "rows=1.2.3"])
def test_rows_that_are_not_written_so_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected rows as input=epoch\.row"):
        parse_rows(text)


def test_numbers_that_are_none_are_refused() -> None:
    assert parse_numbers("epochs", "0,3-5") == (0, 3, 4, 5)
    with pytest.raises(UsageError, match="expected epochs as numbers and ranges"):
        parse_numbers("epochs", "first")


# Outputs.


def out(*rows: Mapping[str, Any], epoch: int = 0) -> dict[tuple[str, tuple[int, ...]], list[pa.RecordBatch]]:
    return {("out", (epoch,)): [pa.RecordBatch.from_pylist(list(rows))]}


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1), st.randoms(use_true_random=False))
def test_the_order_and_the_batches_of_rows_do_not_matter(words: list[str], random: Any) -> None:  # noqa: ANN401
    shuffled = random.sample(words, len(words))
    whole = out(*({"word": word} for word in words))
    parts = {("out", (0,)): [pa.RecordBatch.from_pylist([{"word": word}]) for word in shuffled]}
    assert first_difference(whole, parts) is None
    more = out(*({"word": word} for word in [*words, words[0]]))
    difference = first_difference(whole, more)
    assert difference is not None
    assert difference.unexpected == ({"word": words[0]},)


def test_a_float_may_differ_by_the_order_of_its_terms() -> None:
    assert first_difference(out({"x": 0.1 + 0.2 + 0.3}), out({"x": 0.3 + 0.2 + 0.1})) is None
    assert first_difference(out({"x": 1.0}), out({"x": 1.001})) is not None
    assert first_difference(out({"x": math.nan}), out({"x": math.nan})) is None


def test_lists_and_structs_are_compared_too() -> None:
    assert first_difference(out({"x": [{"y": [1, 2]}]}), out({"x": [{"y": [1, 2]}]})) is None
    assert first_difference(out({"x": [1, 2]}), out({"x": [2, 1]})) is not None


def test_a_row_in_another_epoch_is_a_difference_and_the_first_epoch_is_named() -> None:
    difference = first_difference(out({"x": 1}), out({"x": 1}, epoch=1))
    assert difference is not None
    assert (difference.time, difference.missing, difference.unexpected) == (0, ({"x": 1},), ())
    many = first_difference(out({"x": 0}), out(*({"x": number} for number in range(9))))
    assert "not expected: 3 more rows" in str(many)


# Inputs.


@pytest.mark.parametrize(
    ("given_inputs", "words"),
    [
        ([[{"key": "a", "n": 1}]], "must be a mapping from names to lists of epochs, got list"),
        ({"row": []}, "has the inputs 'rows', got epochs for 'row'"),
        ({}, "has the inputs 'rows', got epochs for none"),
        ({"rows": "abc"}, "needs a list with the rows of each epoch, got str"),
        ({"rows": [{"key": "a", "n": 1}]}, "input 'rows', epoch 0"),
        ({"rows": [[{"key": "a"}]]}, "input 'rows', epoch 0"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_what_is_needed(given_inputs: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=words):
        prepared(flow_with(Steps()), given_inputs)


@pytest.mark.parametrize("wrapped", [list, pa.Table.from_pylist, pa.RecordBatch.from_pylist])
def test_rows_may_be_dictionaries_or_arrow(wrapped: Callable[[Rows], Any]) -> None:
    inputs = prepared(flow_with(Steps()), {"rows": [wrapped(rows) for rows in some_rows(2)]})
    assert [item.batch.to_pylist() for item in inputs["rows"]] == some_rows(2)


def test_an_epoch_without_rows_is_an_epoch() -> None:
    inputs = prepared(flow_with(Steps()), {"rows": [[], some_rows(1)[0]]})
    assert [item.batch.num_rows for item in inputs["rows"]] == [0, 4]
    simulator = Simulator(flow_with(Steps()), inputs)
    assert simulator.run(Case(1, 2)).kind is FindingKind.VALID
