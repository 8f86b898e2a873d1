"""What is forgotten when event time has passed it: sessions that are over, and rows that can meet nothing.

Families, and what only each can find:
- beside brute force after every epoch, on one to three workers: a row that is forgotten too soon, or a pair
  that comes twice;
- state that does not grow with the number of epochs;
- simulated worlds, with crashes and other numbers of workers;
- what is refused when the flow is written.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from pointstamp.incremental import operations
from pointstamp.incremental.event_time_filters import KeptUntil, UntilPlan
from pointstamp.operators.stateless import Concat
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.event_bounds import TIMED, TIMED_ROWS, judged, noted, passed, rows_of, sessions_of, timed_tables
from support.event_worlds import events_of
from support.table_queries import Row, put_out

EPOCHS = st.lists(st.lists(TIMED_ROWS, max_size=5), min_size=1, max_size=6)
WORKERS = st.integers(1, 3)
GAP, BEFORE, AFTER = 6, 3, 8


def sessions_flow(lateness: int) -> ps.Dataflow:
    flow = ps.Dataflow("sessions")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", lateness)
    sessions = rows.to_table().session_window("k", at="at", gap=GAP).retain_until("session_end")
    flow.output("open", sessions)
    flow.output("final", sessions.emit_on_close("session_end"))
    return flow


def within_flow(lateness: int) -> ps.Dataflow:
    flow = ps.Dataflow("within")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", lateness)
    others = flow.stream_input("others", TIMED).with_watermark("at", 4)
    flow.output("pairs", rows.join_interval(others, "k", at="at", within=(BEFORE, AFTER)))
    return flow


@settings(max_examples=20, deadline=None)
@given(epochs=EPOCHS, lateness=st.integers(0, 15), workers=WORKERS)
def test_sessions_come_once_and_are_forgotten(epochs: list[list[Row]], lateness: int, workers: int) -> None:
    found = sessions_flow(lateness).run(rows=timed_tables(epochs), workers=workers)
    truth = judged(epochs, lateness)
    applied: int | None = None
    for epoch, total in enumerate(put_out(found["open"], len(epochs))):
        sessions = sessions_of(truth.in_time[epoch], GAP)
        assert rows_of(found["final"], epoch) == Counter(
            row
            for row in sessions
            if passed(truth.bounds, epoch, row[-1] + 1)  # a row at the end is in it
        )
        if any(row[1] is not None for row in epochs[epoch]):
            applied = truth.bounds[epoch - 1] if epoch else None
        assert total == Counter(row for row in sessions if applied is None or row[-1] >= applied)


@settings(max_examples=10, deadline=None)
@given(epochs=EPOCHS, lateness=st.integers(0, 15), workers=WORKERS)
def test_a_table_of_sessions_can_be_read_whole_and_when_each_is_closed(
    epochs: list[list[Row]], lateness: int, workers: int
) -> None:
    flow = ps.Dataflow("sessions")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", lateness).to_table()
    sessions = rows.session_window("k", at="at", gap=GAP)
    counted = rows.session_window("k", at="at", gap=GAP, rows=ps.count())
    flow.output("closed", sessions.emit_on_close())
    flow.output("counted", counted.emit_on_close(ps.col("session_end")))
    flow.output("all", sessions)
    found = flow.run(rows=timed_tables(epochs), workers=workers)
    truth = judged(epochs, lateness)
    for epoch, total in enumerate(put_out(found["all"], len(epochs))):
        rows_now = sessions_of(truth.in_time[epoch], GAP)
        closed = [row for row in rows_now if passed(truth.bounds, epoch, row[-1] + 1)]
        assert total == Counter(rows_now)
        assert rows_of(found["closed"], epoch) == Counter(closed)
        whole = Counter((row[0], *row[-2:]) for row in closed)
        assert rows_of(found["counted"], epoch) == Counter((*each, count) for each, count in whole.items())


@pytest.mark.parametrize("aggregates", [{}, {"rows": ps.count()}])
def test_sessions_that_are_only_wanted_when_closed_are_kept_by_one_operator(
    aggregates: dict[str, ps.functions.Aggregate],
) -> None:
    flow = ps.Dataflow("sessions")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", 1)
    sessions = rows.to_table().session_window("k", at="at", gap=GAP, **aggregates)
    flow.output("closed", sessions.emit_on_close())
    same = ps.Dataflow("sessions")
    rows = same.stream_input("rows", TIMED).with_watermark("at", 1)
    same.output("closed", rows.session_window("k", at="at", gap=GAP, **aggregates))
    kinds = [[type(node.logic).__name__ for node in each.plan.nodes] for each in (flow, same)]
    assert kinds[0] == kinds[1]


def close_pairs(left: list[Row], right: list[Row]) -> Counter[Row]:
    return Counter(
        (*one, *other[1:])
        for one in left
        for other in right
        if None not in (one[1], other[1])
        if one[0] == other[0] and -BEFORE <= other[1] - one[1] <= AFTER
    )


def judge_pairs(left: list[list[Row]], right: list[list[Row]], lateness: int, workers: int) -> None:
    found = within_flow(lateness).run(rows=timed_tables(left), others=timed_tables(right), workers=workers)[
        "pairs"
    ]
    a, b = judged(left, lateness), judged(right, 4)
    total: Counter[Row] = Counter()
    for epoch in range(len(left)):
        total += rows_of(found, epoch)
        assert total == close_pairs(a.in_time[epoch], b.in_time[epoch]), epoch


@settings(max_examples=20, deadline=None)
@given(left=EPOCHS, right=EPOCHS, lateness=st.integers(0, 15), workers=WORKERS)
def test_every_pair_that_is_close_comes_once(
    left: list[list[Row]], right: list[list[Row]], lateness: int, workers: int
) -> None:
    count = max(len(left), len(right))
    judge_pairs(left + [[]] * (count - len(left)), right + [[]] * (count - len(right)), lateness, workers)


def test_rows_that_are_forgotten_while_they_can_meet_another_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[list[Row]] = [[(1, 10, 0)], [(1, 30, 0)], [(1, 31, 0)]]
    right: list[list[Row]] = [[(1, 0, 0)], [(1, 19, 0)], [(1, 16, 0)]]
    judge_pairs(left, right, 0, 1)

    class Sooner(KeptUntil):
        def __init__(self, plan: UntilPlan) -> None:
            super().__init__(UntilPlan(plan.schema, plan.when, plan.lateness))

    monkeypatch.setattr(operations, "KeptUntil", Sooner)
    with pytest.raises(AssertionError, match="assert Counter"):
        judge_pairs(left, right, 0, 1)


def test_a_pair_that_goes_in_parts_does_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both rows of a pair are let go in one epoch: once together, once each, and once too often.

    The join consolidates them, and what follows the join does so again.
    """
    left: list[list[Row]] = [[(0, 0, 0), (0, 9, 0)], []]
    right: list[list[Row]] = [[(0, 0, 0), (0, 13, 0)], [(0, 0, 0)]]
    judge_pairs(left, right, 0, 1)
    monkeypatch.setattr("pointstamp.incremental.hash_join.added_up", pa.concat_batches)
    judge_pairs(left, right, 0, 1)
    monkeypatch.setattr("pointstamp.incremental.interval_join.Consolidated", Concat)
    with pytest.raises(AssertionError, match="assert Counter"):
        judge_pairs(left, right, 0, 1)


def test_of_timestamps_pairs_are_close_in_time() -> None:
    flow = ps.Dataflow("paid")
    orders = flow.stream_input("orders", "id long, at timestamp_ntz").with_watermark("at", "1 minute")
    paid = flow.stream_input("paid", "id long, paid_at timestamp_ntz").with_watermark("paid_at", "1 minute")
    flow.output("pairs", orders.join_interval(paid, "id", at={"at": "paid_at"}, within="10 minutes"))
    start = datetime(2024, 5, 1, 9)
    found = flow.run(
        orders=[[{"id": 1, "at": start}, {"id": 2, "at": start}]],
        paid=[
            [
                {"id": 1, "paid_at": start + timedelta(minutes=10)},
                {"id": 2, "paid_at": start + timedelta(hours=1)},
            ]
        ],
    )["pairs"][0]
    assert found.select(["id", "paid_at"]).to_pylist() == [
        {"id": 1, "paid_at": start + timedelta(minutes=10)}
    ]


@pytest.mark.parametrize("flow", [sessions_flow, within_flow])
@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.long)])
def test_state_does_not_grow_with_the_number_of_epochs(
    flow: Callable[[int], ps.Dataflow], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = noted(monkeypatch)
    written = flow(4)
    names = ["rows", "others"] if flow is within_flow else ["rows"]
    epochs = [pa.table({"k": [e % 3, 1], "at": [7 * e, 7 * e + 3], "n": [1, 2]}) for e in range(count)]
    stored = [sum(map(len, made)) for _ in written.stream({name: iter(epochs) for name in names})]
    assert len(made) >= 4
    assert max(stored[count // 2 :]) <= 2 * max(stored[20:75]) < 400


def flow_and_rows(name: str) -> tuple[ps.Dataflow, dict[str, Any]]:
    if name == "sessions":
        return sessions_flow(6), events_of("final")
    return within_flow(6), events_of("delayed")


@pytest.mark.parametrize("name", ["sessions", "within"])
def test_what_is_published_depends_neither_on_the_schedule_nor_on_crashes(name: str) -> None:
    flow, rows = flow_and_rows(name)
    given = prepared(flow.plan, rows)
    for simulator, found in (
        (Simulator(flow.plan, given), cases(range(6), 1, 4)),
        (CrashSimulator(flow.plan, given), cases(range(4), 1, 3, (1, 4))),
    ):
        report = simulate(simulator, found)
        assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"


@pytest.mark.parametrize("name", ["sessions", "within"])
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    flow, rows = flow_and_rows(name)
    simulator = CrashSimulator(flow.plan, prepared(flow.plan, rows))
    simulator.world = Rescaled
    for case in cases(range(4), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case


CASES: list[tuple[Callable[[Any, Any], Any], type[Exception], str]] = [
    (lambda a, b: a.join_interval(b, "k", at="time", within=1), SchemaError, "needs the column 'time'"),
    (
        lambda a, b: a.join_interval(b, "k", at="at", within="1 s"),
        FlowError,
        "within must be an integer",
    ),
    (
        lambda a, b: a.join_interval(b, "k", at="at", within=(1, -1)),
        FlowError,
        "within must be durations of 0 or more",
    ),
    (
        lambda a, b: a.join_interval(b, "k", at={"at": "day"}, within=1),
        SchemaError,
        "both must have one type",
    ),
    (lambda a, b: a.join_interval(b, "k", at={}, within=1), FlowError, "at must be one column, or a mapping"),
    (
        lambda a, b: a.to_table().count("k", "at").join_interval(b.to_table(), "k", at="at", within=1),
        FlowError,
        "append-only tables, but rows of table 'count' can be deleted",
    ),
    (
        lambda a, b: a.to_table().session_window("k", at="day", gap="1 day").emit_on_close(),
        SchemaError,
        "uses the event time 'day', but the event time of its rows is int64",
    ),
]


@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_cannot_be_forgotten_is_refused_in_words(
    asked: Callable[[Any, Any], Any], kind: type[Exception], said: str
) -> None:
    flow = ps.Dataflow("test")
    streams = [
        flow.stream_input(name, "k long, at long, day date").with_watermark("at", 1) for name in ("a", "b")
    ]
    with pytest.raises(kind, match=said):
        asked(*streams)


def test_sessions_without_event_time_stay() -> None:
    rows = ps.Dataflow("test").table("rows", TIMED)
    with pytest.raises(FlowError, match="waits for event time, but no upstream stream has a watermark"):
        rows.session_window("k", at="at", gap=3).retain_until("session_end")
