"""Epochs that are event time: windows come once, in their last epoch, and inputs advance by themselves.

Families, and what only each can find:
- beside brute force, over random items: a row in another epoch, a late row that is taken, or one in time that
  is not;
- queries: an input that waits for its end, a bound that is forgotten when the query continues, one that is
held
  back by another input;
- simulated worlds with crashes and other numbers of workers: the same windows come out;
- what is refused when the flow is written.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.epoch_column import EventEpochs
from pointstamp.errors import FlowError, SchemaError
from pointstamp.flow.event_epochs import ToLaterEpochs
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.intake import Lanes
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.feed import in_lanes
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.feed import FedItem
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled
from support.event_worlds import epochs_flow, rows_in_time

EVERY, SIZE = 5, 10
ITEMS = st.lists(st.lists(st.integers(0, 60), max_size=4), min_size=1, max_size=6)


def windows_flow(lateness: int, late: Any = None) -> ps.Dataflow:  # noqa: ANN401 - as the input takes it
    flow = ps.Dataflow("windows")
    rows = flow.stream_input(
        "rows", "at long", epochs=ps.by_event_time("at", every=EVERY, lateness=lateness), late=late
    )
    windows = rows.window("at", SIZE).emit_on_close("window_end")
    flow.output("windows", windows.group_by("window_start", "window_end").agg(rows=ps.count()))
    return flow


def tables(items: list[list[int]]) -> list[pa.Table]:
    return [pa.table({"at": pa.array(item, pa.int64())}) for item in items]


def expected(items: list[list[int]], lateness: int) -> tuple[Counter[Any], Counter[Any]]:
    """Windows with their last epochs, and late rows with the epoch that was open, by brute force."""
    good: list[int] = []
    late: Counter[Any] = Counter()
    latest = complete = 0
    for item in items:
        for at in item:
            if at // EVERY < complete:
                late[(complete, at, at // EVERY)] += 1
            else:
                good.append(at)
        latest = max([latest, *item])
        complete = max(complete, (latest - lateness) // EVERY)
    windows = Counter(at // SIZE * SIZE for at in good)
    return Counter((start // EVERY + 1, start, start + SIZE, n) for start, n in windows.items()), late


def found(results: Any, name: str) -> Counter[Any]:  # noqa: ANN401 - results by output
    return Counter(tuple(row.values()) for row in results[name].table().to_pylist())


@settings(max_examples=20, deadline=None)
@given(items=ITEMS, lateness=st.integers(0, 25), workers=st.integers(1, 3))
def test_each_window_comes_once_in_its_last_epoch(
    items: list[list[int]], lateness: int, workers: int
) -> None:
    results = windows_flow(lateness).run(rows=tables(items), workers=workers)
    windows, late = expected(items, lateness)
    assert found(results, "windows") == windows
    assert found(results, "rows_late") == late
    dropping = windows_flow(lateness, "drop").run(rows=tables(items), workers=workers)
    assert found(dropping, "windows") == windows


@settings(max_examples=10, deadline=None)
@given(items=ITEMS, lateness=st.integers(0, 25))
def test_of_one_table_nothing_is_late(items: list[list[int]], lateness: int) -> None:
    results = windows_flow(lateness).run(rows=pa.concat_tables(tables(items)))
    assert found(results, "windows") == expected([[*chain(*items)]], lateness)[0]
    assert not found(results, "rows_late")


def test_processes_and_checkpoints_give_the_same_windows(tmp_path: Path) -> None:
    items = [[3, 1], [12], [4, 31], [29, 44]]
    windows, _ = expected([[*chain(*items)]], 40)
    assert found(windows_flow(40).run(rows=tables(items), processes=2), "windows") == windows
    for _ in range(2):
        again = windows_flow(40).run(rows=tables(items), checkpoint=tmp_path / "c", workers=2)
        assert found(again, "windows") == windows


def test_timestamps_make_epochs_since_1970() -> None:
    flow = ps.Dataflow("minutes")
    times = ps.by_event_time("at", every="1 minute", lateness="2 minutes")
    rows = flow.stream_input("rows", "at timestamp", epochs=times)
    flow.output("hours", rows.window("at", "1 hour").emit_on_close("window_end").count("window_start"))
    start = datetime(2024, 5, 1, 9, tzinfo=UTC)
    found = flow.run(rows=[[{"at": start + timedelta(minutes=m)}] for m in (5, 59, 58, 61)])["hours"]
    minute = int(start.timestamp()) // 60
    assert {epoch: table["count"].to_pylist() for epoch, table in found.items() if table.num_rows} == {
        minute + 59: [3],
        minute + 119: [1],
    }


# Queries.


def write(folder: Path, name: str, times: list[int]) -> None:
    pq.write_table(pa.table({"at": pa.array(times, pa.int64())}), folder / f"{name}.parquet")


def test_a_query_advances_by_what_it_has_read_and_goes_on_with_more_workers(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    items = [[1, 3], [8, 2], [14], [4, 12], [30, 22], [2, 41], [60]]
    for number, item in enumerate(items):
        query = windows_flow(7).start(
            rows=ps.io.files(folder),
            checkpoint=tmp_path / "c",
            output=tmp_path / "out",
            workers=1 + number % 3,
        )
        write(folder, str(number), item)
        query.process_all_available()
        complete = max(0, (max(chain(*items[: number + 1])) - 7) // EVERY)
        assert query.frontiers()["windows"] == [(complete,)], item
        query.stop()
    windows, late = expected(items, 7)
    published = {name: ps.read_changes(str(tmp_path / "out"), name) for name in ("windows", "rows_late")}
    over = Counter({row: n for row, n in windows.items() if row[0] < (60 - 7) // EVERY})
    assert Counter(tuple(row.values()) for row in published["windows"].to_pylist()) == over
    assert Counter(tuple(row.values()) for row in published["rows_late"].to_pylist()) == late


def test_an_input_without_rows_holds_the_others_back_and_is_named(tmp_path: Path) -> None:
    flow = ps.Dataflow("two")
    for name in ("loud", "quiet"):
        (tmp_path / name).mkdir()
        rows = flow.stream_input(name, "at long", epochs=ps.by_event_time("at", every=EVERY, lateness=0))
        flow.output(
            f"{name} windows", rows.window("at", SIZE).emit_on_close("window_end").count("window_start")
        )
    query = flow.start(
        loud=ps.io.files(tmp_path / "loud"),
        quiet=ps.io.files(tmp_path / "quiet"),
        checkpoint=tmp_path / "c",
        output=tmp_path / "out",
    )
    write(tmp_path / "loud", "1", [3, 25])
    query.process_all_available()
    assert query.epoch == -1
    assert "input 'quiet' may still send at epoch 0" in query.why("quiet windows")
    query.advance("quiet", 4)  # its user knows better
    query.process_all_available()
    assert query.epoch == 3
    query.stop()
    assert ps.read_changes(str(tmp_path / "out"), "loud windows")["count"].to_pylist() == [1]


# Worlds.


def crashes(worlds: int) -> None:
    plan = epochs_flow().plan
    report = simulate(
        CrashSimulator(plan, prepared(plan, rows_in_time())), cases(range(worlds), 1, 3, (0, 4))
    )
    assert report.finding is None, report.finding.reason


def test_what_is_published_does_not_depend_on_crashes() -> None:
    crashes(8)


def schedules(worlds: int) -> None:
    plan = epochs_flow().plan
    report = simulate(Simulator(plan, prepared(plan, rows_in_time())), cases(range(worlds), 1, 4))
    assert report.finding is None, report.finding.reason
    assert not report.unknown


def test_what_is_put_out_does_not_depend_on_the_schedule() -> None:
    schedules(12)


def test_a_simulated_world_has_the_windows_of_a_run() -> None:
    flow = epochs_flow()
    rows = rows_in_time()
    found = flow.run(rows=pa.concat_tables(rows["rows"]))["windows"].table()
    world = Simulator(flow.plan, prepared(flow.plan, rows)).run(next(iter(cases([3], 3, 3)))).run
    put_out = [
        (time[0], *row.values())
        for (name, time), batches in world.outputs.items()
        if name == "windows"
        for batch in batches
        for row in batch.to_pylist()
    ]
    assert Counter(put_out) == Counter(tuple(row.values()) for row in found.to_pylist())


def test_rows_that_are_sent_ahead_too_far_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ToLaterEpochs.on_receive

    def ahead(self: ToLaterEpochs, context: Any, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002, ANN401
        right(self, context, input, batch) if context.worker == 0 else context.send(batch)

    monkeypatch.setattr(ToLaterEpochs, "on_receive", ahead)
    with pytest.raises(AssertionError, match="differs from the one-worker run"):
        schedules(12)


def test_generations_may_differ_in_their_number_of_workers() -> None:
    plan = epochs_flow().plan
    simulator = CrashSimulator(plan, prepared(plan, rows_in_time(1)))
    simulator.world = Rescaled
    for case in cases(range(5), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case


@pytest.mark.long
def test_many_worlds_publish_the_same() -> None:
    crashes(200)


def test_a_bound_that_forgets_the_lateness_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventEpochs, "complete_by", lambda self, latest: self.epoch_of(latest))
    with pytest.raises(AssertionError, match="differs"):
        crashes(8)


def test_a_driver_that_forgets_the_lanes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lanes, "read", lambda self, name, latest: None)
    with pytest.raises(AssertionError, match="the query is stuck: nothing is left to do"):
        crashes(4)


def test_a_fast_lane_that_makes_a_slow_one_late_is_found_in_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    def fastest(self: Lanes, name: str) -> int | None:
        return max(self._latest.get(name, {}).values(), default=None)

    monkeypatch.setattr(Lanes, "latest", fastest)
    with pytest.raises(AssertionError, match="differs"):
        crashes(8)


def test_rows_in_lanes_are_the_same_rows_each_lane_in_its_order() -> None:
    items = [FedItem(pa.record_batch({"x": [10 * unit + each for each in range(5)]})) for unit in range(3)]
    units = in_lanes(items, 2)
    lanes = [[x for unit in units for x in unit[lane]["x"].to_pylist()] for lane in (0, 1)]
    assert lanes == [[0, 2, 4, 10, 12, 14, 20, 22, 24], [1, 3, 11, 13, 21, 23]]
    assert not units[0][1].num_rows


def test_an_input_that_waits_for_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "_pass_event_time", lambda self, reads: None)
    with pytest.raises(AssertionError, match="the query is stuck: nothing is left to do"):
        crashes(3)


# Misuse.


def promised(**given: Any) -> Any:  # noqa: ANN401 - as event_time takes them
    return ps.by_event_time(**{"at": "at", "every": "1 s", "lateness": "1 s", **given})


CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: "day", FlowError, r"input 'rows', epochs=, needs ps.by_event_time\('at'.* got 'day'"),
    (lambda: promised(at="time"), SchemaError, "needs the column 'time'"),
    (lambda: promised(at="s"), SchemaError, "needs a timestamp, a date or an integer"),
    (lambda: promised(every=3), FlowError, "every must be a timedelta or text"),
    (lambda: promised(every="0 s"), FlowError, "needs every= above 0"),
    (lambda: promised(lateness="soon"), FlowError, "lateness must be a timedelta or text"),
]


@pytest.mark.parametrize(("epoch", "kind", "said"), CASES)
def test_what_is_no_event_time_is_refused_in_words(
    epoch: Callable[[], Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        ps.Dataflow("test").stream_input("rows", "at timestamp, s string", epochs=epoch())


def test_inputs_of_a_flow_have_the_same_epochs() -> None:
    flow = ps.Dataflow("test")
    rows = flow.stream_input("rows", "at timestamp, n long", epochs=promised())
    with pytest.raises(FlowError, match="input 'rows' has epochs of 1000000 timestamp"):
        flow.stream_input("others", "at timestamp", epochs=promised(every="2 s"))
    with pytest.raises(SchemaError, match="is int64, but epochs are intervals of timestamp"):
        rows.emit_on_close("n")
    flow.output("rows", rows)
    with pytest.raises(FlowError, match="input 'rows' already has epochs of its event time 'at'"):
        flow.run(rows=[], epoch={"rows": "n"})


@pytest.mark.parametrize(("at", "said"), [([None], "'at' has nulls"), ([-1], "epochs must be 0 or more")])
def test_every_row_needs_an_event_time_since_1970(at: list[int | None], said: str) -> None:
    flow = windows_flow(0)
    with pytest.raises(SchemaError, match=said):
        flow.run(rows=pa.table({"at": pa.array(at, pa.int64())}))


def test_a_late_row_that_is_an_error_is_named() -> None:
    with pytest.raises(
        FlowError, match="has rows of epoch 0, by their event time 'at', after the watermark had reached"
    ):
        windows_flow(0, "error").run(rows=tables([[20], [3]]))
