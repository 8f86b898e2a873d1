"""Sessions of a stream: each comes once, whole, when event time has passed its end.

- where epochs are event time, beside brute force: also those that are open at the end of the input;
- by a promise about event time, the same sessions as those of the table that comes before;
- in worlds with crashes and other numbers of workers.
"""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.event_bounds import TIMED, judged, passed, rows_of, sessions_of, timed_tables
from support.event_worlds import rows_in_time
from support.table_queries import Row

EVERY, GAP = 4, 6
ROWS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 2)), max_size=12)


def sessions_flow(*keys: str, lateness: int = 18) -> ps.Dataflow:
    flow = ps.Dataflow("sessions")
    rows = flow.stream_input("rows", TIMED, epochs=ps.by_event_time("at", every=EVERY, lateness=lateness))
    flow.output("sessions", rows.session_window(*keys, at="at", gap=GAP))
    return flow


@settings(max_examples=20, deadline=None)
@given(rows=ROWS, has_keys=st.booleans(), workers=st.integers(1, 3))
def test_each_session_comes_once_in_the_epoch_in_which_it_ends(
    rows: list[Row], has_keys: bool, workers: int
) -> None:
    flow = sessions_flow(*(["k"] if has_keys else []))
    found = flow.run(rows=pa.concat_tables(timed_tables([rows])), workers=workers)["sessions"]
    alike = rows if has_keys else [(0, *row[1:]) for row in rows]
    wanted = Counter((row[-1] // EVERY, *row) for row in sessions_of(alike, GAP))
    total: Counter[Row] = Counter()
    for row in found.table().to_pylist():
        epoch, k, *rest = row.values()
        total[(epoch, k if has_keys else 0, *rest)] += 1
    assert total == wanted


@settings(max_examples=12, deadline=None)
@given(rows=ROWS, has_keys=st.booleans(), workers=st.integers(1, 3))
def test_with_aggregates_a_session_is_one_row(rows: list[Row], has_keys: bool, workers: int) -> None:
    flow = ps.Dataflow("sessions")
    keys = ["k"] if has_keys else []
    timed = flow.stream_input("rows", TIMED, epochs=ps.by_event_time("at", every=EVERY, lateness=18))
    flow.output("sessions", timed.session_window(*keys, at="at", gap=GAP, rows=ps.count(), total=ps.sum("n")))
    found = flow.run(rows=pa.concat_tables(timed_tables([rows])), workers=workers)["sessions"]
    groups: dict[Row, list[Any]] = {}
    alike = rows if has_keys else [(0, *row[1:]) for row in rows]
    for k, _, n, *ends in sessions_of(alike, GAP):
        groups.setdefault((*([k] if has_keys else []), *ends), []).append(n)
    wanted = Counter((key[-1] // EVERY, *key, len(ns), sum(ns)) for key, ns in groups.items())
    assert Counter(tuple(row.values()) for row in found.table().to_pylist()) == wanted


@settings(max_examples=20, deadline=None)
@given(epochs=st.lists(ROWS, min_size=1, max_size=5), workers=st.integers(1, 3))
def test_by_a_promise_sessions_come_when_the_bound_has_passed_them(
    epochs: list[list[Row]], workers: int
) -> None:
    flow = ps.Dataflow("promised")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", 5)
    flow.output("sessions", rows.session_window("k", at="at", gap=GAP))
    found = flow.run(rows=timed_tables(epochs), workers=workers)["sessions"]
    truth = judged(epochs, 5)
    for epoch in range(len(epochs)):
        sessions = sessions_of(truth.in_time[epoch], GAP)
        over = Counter(row for row in sessions if passed(truth.bounds, epoch, row[-1] + 1))
        assert rows_of(found, epoch) == over


def test_what_is_published_does_not_depend_on_crashes() -> None:
    plan = sessions_flow("k").plan
    rows = prepared(plan, rows_in_time())
    report = simulate(CrashSimulator(plan, rows), cases(range(8), 1, 3, (0, 4)))
    assert report.finding is None, report.finding.reason


def test_generations_may_differ_in_their_number_of_workers() -> None:
    plan = sessions_flow("k").plan
    simulator = CrashSimulator(plan, prepared(plan, rows_in_time(2)))
    simulator.world = Rescaled
    for case in cases(range(6), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"at": "n"}, "uses 'n', but the epochs are of the event time 'at'"),
        ({"gap": 0}, "gap must be above 0, got 0"),
    ],
)
def test_what_is_no_session_is_refused(columns: dict[str, Any], said: str) -> None:
    rows = ps.Dataflow("test").stream_input("rows", TIMED, epochs=ps.by_event_time("at", every=1, lateness=1))
    with pytest.raises(FlowError, match=said):
        rows.session_window("k", **{"at": "at", "gap": 3, **columns})


def test_sessions_of_a_stream_need_event_time() -> None:
    with pytest.raises(FlowError, match="waits for event time, but no upstream stream has a watermark"):
        ps.Dataflow("test").stream_input("rows", TIMED).session_window("k", at="at", gap=3)
