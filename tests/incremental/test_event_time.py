"""Event time by promise: late rows, rows that stay until they are over, and results that come once.

Families, and what only each can find:
- beside brute force after every epoch, on one to three workers: a bound that is wrong, or of the wrong epoch;
- state that does not grow with the number of epochs: rows that no row can reach any more, and that stay;
- what is refused when the flow is written, and what late rows say when they are errors.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError
from support.event_bounds import (
    SIZE,
    SLIDE,
    TIMED,
    TIMED_ROWS,
    counted,
    in_windows,
    judged,
    least,
    noted,
    passed,
    rows_of,
    timed_tables,
    windowed,
    windows_counted,
)
from support.table_queries import Row, put_out

EPOCHS = st.lists(st.lists(TIMED_ROWS, max_size=5), min_size=1, max_size=6)
LATENESS = st.integers(0, 20)
WORKERS = st.integers(1, 3)


@settings(max_examples=20, deadline=None)
@given(epochs=EPOCHS, lateness=LATENESS, workers=WORKERS)
def test_late_rows_are_those_before_the_bound_of_the_epochs_before(
    epochs: list[list[Row]], lateness: int, workers: int
) -> None:
    flow = ps.Dataflow("late")
    flow.output("good", flow.stream_input("rows", TIMED).with_watermark("at", lateness))
    dropped = flow.stream_input("others", TIMED).with_watermark(
        "at", lateness, late="drop", late_output="dropped"
    )
    flow.output("kept", dropped)
    found = flow.run(rows=timed_tables(epochs), others=timed_tables(epochs), workers=workers)
    truth = judged(epochs, lateness)
    for epoch, late in enumerate(truth.late):
        good = Counter(epochs[epoch]) - Counter(late)
        assert rows_of(found["good"], epoch) == rows_of(found["kept"], epoch) == good
        assert rows_of(found["rows_late"], epoch) == Counter(late)
        assert rows_of(found["dropped"], epoch) == Counter([("others", len(late))] if late else [])


@settings(max_examples=25, deadline=None)
@given(epochs=EPOCHS, lateness=LATENESS, workers=WORKERS)
def test_a_window_comes_once_when_the_bound_has_passed_its_end(
    epochs: list[list[Row]], lateness: int, workers: int
) -> None:
    flow = ps.Dataflow("final")
    windows = windowed(flow, lateness)
    flow.output("counts", counted(windows).emit_on_close())
    again = flow.stream_input("again", TIMED).with_watermark("at", lateness).window("at", SIZE, slide=SLIDE)
    by_stream = again.emit_on_close("window_end")
    flow.output(
        "by stream",
        by_stream.group_by("k", "window_start", "window_end").agg(rows=ps.count(), total=ps.sum("n")),
    )
    flow.output("rows", by_stream)
    found = flow.run(rows=timed_tables(epochs), again=timed_tables(epochs), workers=workers)
    truth = judged(epochs, lateness)
    for epoch, rows in enumerate(truth.in_time):
        wanted = {row: 1 for row in windows_counted(rows) if passed(truth.bounds, epoch, row[2])}
        assert rows_of(found["counts"], epoch) == rows_of(found["by stream"], epoch) == wanted
        over = Counter(row for row in in_windows(rows) if passed(truth.bounds, epoch, row[-1]))
        assert rows_of(found["rows"], epoch) == over


@settings(max_examples=20, deadline=None)
@given(epochs=EPOCHS, lateness=LATENESS, workers=WORKERS)
def test_a_row_stays_until_the_bound_before_the_last_event_has_passed_it(
    epochs: list[list[Row]], lateness: int, workers: int
) -> None:
    flow = ps.Dataflow("kept")
    rows = flow.stream_input("rows", TIMED).with_watermark("at", lateness)
    flow.output("kept", rows.to_table().retain_until(ps.col("at") + 3))
    found = flow.run(rows=timed_tables(epochs), workers=workers)
    truth = judged(epochs, lateness)
    applied: int | None = None
    for epoch, total in enumerate(put_out(found["kept"], len(epochs))):
        if any(row[1] is not None for row in epochs[epoch]):
            applied = truth.bounds[epoch - 1] if epoch else None
        there = [row for row in truth.in_time[epoch] if row[1] is not None]
        assert total == Counter(row for row in there if applied is None or row[1] + 3 > applied)


@settings(max_examples=20, deadline=None)
@given(left=EPOCHS, right=EPOCHS, lateness=LATENESS, workers=WORKERS)
def test_of_two_streams_the_lesser_bound_counts(
    left: list[list[Row]], right: list[list[Row]], lateness: int, workers: int
) -> None:
    count = max(len(left), len(right))
    left, right = left + [[]] * (count - len(left)), right + [[]] * (count - len(right))
    flow = ps.Dataflow("two")
    one = flow.stream_input("a", TIMED).with_watermark("at", lateness)
    other = flow.stream_input("b", TIMED).with_watermark("at", 3)
    flow.output("both", one.union(other).window("at", SIZE, slide=SLIDE).emit_on_close("window_end"))
    found = flow.run(a=timed_tables(left), b=timed_tables(right), workers=workers)["both"]
    a, b = judged(left, lateness), judged(right, 3)
    bounds = least(a.bounds, b.bounds)
    for epoch in range(count):
        rows = in_windows([*a.in_time[epoch], *b.in_time[epoch]])
        assert rows_of(found, epoch) == Counter(row for row in rows if passed(bounds, epoch, row[-1]))


def test_a_window_of_timestamps_comes_once_and_a_late_row_is_put_out_apart() -> None:
    flow = ps.Dataflow("bids")
    bids = flow.stream_input("bids", "at timestamp_ntz, price long").with_watermark("at", "2 minutes")
    windows = bids.to_table().window("at", "10 minutes").retain_until("window_end")
    flow.output(
        "highest", windows.group_by("window_start", "window_end").agg(price=ps.max("price")).emit_on_close()
    )
    start = datetime(2024, 5, 1, 9)
    minutes = [[3, 8], [12], [9, 25], [30]]
    rows = [[{"at": start + timedelta(minutes=m), "price": m} for m in epoch] for epoch in minutes]
    found = flow.run(bids=rows, workers=2)
    assert _prices(found["highest"]) == {1: [8], 2: [12]}
    assert _prices(found["bids_late"]) == {2: [9]}


def _prices(results: Any) -> dict[int, list[int]]:  # noqa: ANN401 - the tables of an output
    return {epoch: table["price"].to_pylist() for epoch, table in results.items() if table.num_rows}


def test_what_happens_to_a_row_after_its_time_does_not_come() -> None:
    flow = ps.Dataflow("named")
    rows = flow.stream_input("rows", "k long, at long").with_watermark("at", 0)
    names = flow.table("names", "k long, name string", key="k")
    windows = rows.to_table().window("at", 10).retain_until("window_end")
    flow.output("named", windows.join(names, "k").select("name", "window_end").emit_on_close())
    found = flow.run(
        rows=[[{"k": 1, "at": 3}], [{"k": 1, "at": 11}], [], [{"k": 1, "at": 25}]],
        names=[[{"k": 1, "name": "a"}], [], [{"k": 1, "name": "b"}], []],
    )["named"]
    assert {e: t.to_pylist() for e, t in found.items() if t.num_rows} == {
        1: [{"name": "a", "window_end": 10}],
        3: [{"name": "b", "window_end": 20}],
    }


def test_results_of_windows_can_be_put_into_larger_windows() -> None:
    flow = ps.Dataflow("cascade")
    rows = flow.stream_input("rows", "at long").with_watermark("at", 0)
    small = rows.to_table().window("at", 5).retain_until("window_end")
    fives = small.group_by("window_start", "window_end").agg(rows=ps.count()).emit_on_close()
    large = fives.to_table().window("window_start", 20, start="start", end="end").retain_until("end")
    flow.output(
        "twenties",
        large.group_by("start", "end").agg(rows=ps.sum("rows"), fives=ps.count()).emit_on_close("end"),
    )
    times = [[1, 2], [7], [21], [22, 38], [39], [60]]
    found = flow.run(rows=[[{"at": at} for at in epoch] for epoch in times], workers=3)["twenties"]
    assert {e: t.to_pylist() for e, t in found.items() if t.num_rows} == {
        2: [{"start": 0, "end": 20, "rows": 3, "fives": 2}],
        5: [{"start": 20, "end": 40, "rows": 4, "fives": 2}],
    }


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.long)])
def test_state_does_not_grow_with_the_number_of_epochs(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = noted(monkeypatch)
    flow = ps.Dataflow("bounded")
    flow.output("counts", counted(windowed(flow, lateness=4)).emit_on_close())
    epochs = (pa.table({"k": [e % 3, 1], "at": [2 * e, 2 * e + 3], "n": [1, 2]}) for e in range(count))
    stored, windows = [], 0
    for _, tables in flow.stream(rows=epochs):
        windows += tables["counts"].num_rows
        stored.append(sum(map(len, made)))
    assert len(made) >= 3, "the groups, and the rows of both that wait"
    assert windows > count // 3
    assert max(stored[count // 2 :]) <= 2 * max(stored[20:100]) < 400


CASES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda s: s.with_watermark("time", 1), SchemaError, "'watermark' of .* needs the column 'time'"),
    (lambda s: s.with_watermark("s", 1), SchemaError, "needs a timestamp, a date or an integer"),
    (lambda s: s.with_watermark("at", "1 s"), FlowError, "lateness must be an integer"),
    (lambda s: s.with_watermark("at", -1), FlowError, "a lateness of 0 or more"),
    (lambda s: s.with_watermark("at", 1, late="no"), FlowError, "late= must be one of error, output"),
    (
        lambda s: s.with_watermark("at", 1, late="error", late_output="x"),
        FlowError,
        "late_output= needs late='output'",
    ),
    (
        lambda s: s.to_table().emit_on_close("at"),
        FlowError,
        "waits for event time, but no upstream stream has a watermark",
    ),
    (lambda s: s.emit_on_close("at"), FlowError, "waits for event time, but no upstream stream"),
    (
        lambda s: s.with_watermark("at", 1).to_table().window("at", 5).count("window_end").emit_on_close(),
        FlowError,
        r"'count' upstream would grow without bound. Free it with retain_until",
    ),
    (
        lambda s: s.with_watermark("at", 1).to_table().retain_until("s"),
        SchemaError,
        "needs a timestamp, a date or an integer",
    ),
    (
        lambda s: s.with_watermark("at", 1).emit_on_close("day"),
        SchemaError,
        "is date32.* and the event time is int64",
    ),
    (
        lambda s: (
            s.with_watermark("at", 1)
            .union(s.with_watermark("day", "1 day", late_output="x"))
            .emit_on_close("at")
        ),
        FlowError,
        "several event times upstream, which must have one type; 'rows' has int64 and 'rows' has date32",
    ),
    (
        lambda s: s.with_watermark("at", 1).to_table().iterate(lambda t: t.retain_until("at")),
        FlowError,
        "is in a loop, where event time does not advance",
    ),
]


@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_cannot_be_promised_or_awaited_is_refused_in_words(
    asked: Callable[[Any], Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        asked(ps.Dataflow("test").stream_input("rows", "at long, day date, s string"))


def test_event_time_is_promised_outside_loops() -> None:
    rows = ps.Dataflow("test").stream_input("rows", "at long")
    with rows.loop() as loop, pytest.raises(FlowError, match="cannot be used in a loop or with custom times"):
        loop.enter(rows).with_watermark("at", 1)


def test_a_late_row_that_is_an_error_is_named() -> None:
    flow = ps.Dataflow("strict")
    flow.output(
        "rows", flow.stream_input("rows", "at timestamp").with_watermark("at", "1 minute", late="error")
    )
    rows = [[{"at": datetime(2024, 5, 1, 10, tzinfo=UTC)}], [{"at": datetime(2024, 5, 1, 9, tzinfo=UTC)}]]
    with pytest.raises(
        FlowError, match=r"epoch 1: the row .*9, 0.* is late, because the watermark has passed 'at' = .*09:59"
    ):
        flow.run(rows=rows)
