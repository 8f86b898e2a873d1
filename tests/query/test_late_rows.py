"""Rows of epochs that their input has promised to have left: what is late, and what becomes of it.

Families, and what only each can find:
- *published*: a query whose inputs have ended publishes all of it before anybody is told that it has;
- *promises*: what is late follows from what was said when a unit was found, and not from when a tick was
  made, how far other inputs are, or whether the driver was replaced in between;
- *policies*: each policy on every way to run on this machine, with rows, epochs and counts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.source import Part, Unit
from pointstamp.errors import FlowError, SourceError
from pointstamp.journal.history import Said
from pointstamp.journal.ledger import Promises
from pointstamp.query.intake import Intake
from support.options import with_options
from support.streams import published_by_epoch, put, until


def copying(**how: Any) -> ps.Dataflow:  # noqa: ANN401 - options of an input
    flow = ps.Dataflow("copying")
    flow.output("out", flow.stream_input("rows", "x long", **how))
    return flow


def started(flow: ps.Dataflow, place: Path, **how: Any) -> ps.Query:  # noqa: ANN401 - options of a query
    (place / "in").mkdir(exist_ok=True)
    source = ps.io.files(place / "in", units_per_tick=how.pop("units_per_tick", 1))
    return flow.start(
        rows=source,
        checkpoint=place / "c",
        output=place / "o",
        **with_options(how, ps.QueryOptions(epoch="day")),
    )


def out(place: Path, name: str = "out") -> dict[int, list[tuple[Any, ...]]]:
    return published_by_epoch(place / "o", name)


def unit(name: str) -> Unit:
    return Unit(name, (Part(name, 1),))


# Published.


def test_process_all_available_publishes_everything_of_inputs_that_have_ended(tmp_path: Path) -> None:
    put(tmp_path / "in", "0", {"x": [1, 2, 3], "day": [0, 4, 2]})
    query = started(copying(), tmp_path, available_now=True)
    try:
        query.process_all_available()
        assert out(tmp_path) == {0: [(1,)], 2: [(3,)], 4: [(2,)]}
    finally:
        query.stop()


# Promises.


def test_a_unit_that_is_found_after_a_promise_is_in_a_later_tick_and_is_held_to_it() -> None:
    intake = Intake({"a": None}, ["a"], 0)
    intake.offer("a", [unit("0"), unit("1")])
    intake.advance("a", 5)
    intake.offer("a", [unit("2")])
    taken, promised = intake.take()
    assert [each.name for each in taken["a"]] == ["0", "1"]
    assert promised == {"a": 0}
    assert intake.complete_to(0) == 5
    taken, promised = intake.take()
    assert [each.name for each in taken["a"]] == ["2"]
    assert promised == {"a": 5}


def test_a_promise_is_kept_over_a_change_of_drivers_for_exactly_the_units_that_came_after_it() -> None:
    before = Promises()
    before.say(5, ["1", "3"])
    before.take([Unit("1", ())])
    after = Promises.of(before.entries("a"))
    assert after.entries("a") == [Said("a", 5, ["3"])]
    intake = Intake({"a": None}, ["a"], 0, {"a": after})
    intake.offer("a", [unit("2"), unit("3"), unit("4")])
    assert [intake.take() for _ in range(3)] == [
        ({"a": [unit("2")]}, {"a": 5}),
        ({"a": [unit("3")]}, {"a": 0}),
        ({"a": [unit("4")]}, {"a": 5}),
    ]


def test_an_input_is_held_to_its_own_promise_however_far_the_others_are(tmp_path: Path) -> None:
    flow = ps.Dataflow("two")
    first = flow.stream_input("first", "x long", late="drop")
    flow.output("out", first.union(flow.stream_input("second", "x long")))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    query = flow.start(
        {name: ps.io.files(tmp_path / name) for name in ("first", "second")},
        checkpoint=tmp_path / "c",
        output=tmp_path / "o",
        options=ps.QueryOptions(epoch="day"),
    )
    try:
        query.advance("first", 5)  # the second has said nothing, so no epoch is complete
        put(tmp_path / "first", "0", {"x": [1, 2], "day": [3, 5]})
        until(lambda: query.progress().rows_late == 1)
        query.advance("first", 9)
        query.advance("second", 9)
        until(lambda: query.epoch >= 8)
    finally:
        query.stop()
    assert out(tmp_path) == {5: [(2,)]}


def test_a_row_that_came_while_no_driver_ran_is_as_late_as_any(tmp_path: Path) -> None:
    flow = copying(late="output")
    query = started(flow, tmp_path)
    query.advance("rows", 3)
    until(lambda: query.epoch >= 2)  # or the epochs before would still be open to late rows
    query.stop(finish=False)
    put(tmp_path / "in", "0", {"x": [1, 2], "day": [2, 3]})
    query = started(flow, tmp_path, available_now=True)
    query.await_termination()
    assert out(tmp_path) == {3: [(2,)]}
    assert out(tmp_path, "rows_late") == {3: [(1, 2)]}


def test_a_row_of_an_epoch_that_an_earlier_run_has_closed_is_late(tmp_path: Path) -> None:
    flow = copying(late="output")
    put(tmp_path / "in", "0", {"x": [1], "day": [4]})
    started(flow, tmp_path, available_now=True).awaitTermination()
    put(tmp_path / "in", "1", {"x": [2, 3], "day": [4, 6]})
    started(flow, tmp_path, available_now=True).awaitTermination()
    assert out(tmp_path) == {4: [(1,)], 6: [(3,)]}
    assert out(tmp_path, "rows_late") == {5: [(2, 4)]}


# Policies.

EARLY = pa.table({"x": [1, 2], "day": [5, 2]})
LATER = pa.table({"x": [3, 4, 5], "day": [4, 6, 0]})
"""After ``EARLY``, whose last epoch is 5, the rows of epochs 4 and 0 are late where tables come in order."""


def in_this_process(flow: ps.Dataflow, _: Path) -> dict[str, Any]:
    results = flow.run(rows=[EARLY, LATER], epoch="day")
    return {name: each.table().to_pylist() for name, each in results.items()}


def on_three_workers(flow: ps.Dataflow, _: Path) -> dict[str, Any]:
    results = flow.run(rows=[EARLY, LATER], epoch="day", workers=3)
    return {name: each.table().to_pylist() for name, each in results.items()}


def in_processes(flow: ps.Dataflow, _: Path) -> dict[str, Any]:
    results = flow.run(rows=[EARLY, LATER], epoch="day", processes=2)
    return {name: each.table().to_pylist() for name, each in results.items()}


def in_a_query(flow: ps.Dataflow, place: Path, **how: Any) -> dict[str, Any]:  # noqa: ANN401
    put(place / "in", "0", {"x": [1, 2], "day": [5, 2]})
    query = started(flow, place, **how)
    try:
        query.process_all_available()
        query.advance("rows", 5)
        until(lambda: query.epoch >= 4)
        put(place / "in", "1", {"x": [3, 4, 5], "day": [4, 6, 0]})
        query.process_all_available()
        query.advance("rows", 9)
        until(lambda: query.epoch >= 8 or not query.is_active)
        if query.is_active:
            assert query.progress().rows_late == 2
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception() or AssertionError
    return {
        name: ps.read_changes(place / "o", name).sort_by("epoch").to_pylist()
        for name in flow.plan.output_schemas()
    }


def in_a_query_of_processes(flow: ps.Dataflow, place: Path) -> dict[str, Any]:
    return in_a_query(flow, place, processes=2)


WAYS = [in_this_process, on_three_workers, in_processes, in_a_query, in_a_query_of_processes]
every_way = pytest.mark.parametrize("run", WAYS, ids=lambda way: way.__name__)
Way = Callable[[ps.Dataflow, Path], dict[str, Any]]
ON_TIME = [{"epoch": 2, "x": 2}, {"epoch": 5, "x": 1}, {"epoch": 6, "x": 4}]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["epoch"], row["x"]))


@every_way
def test_late_rows_go_to_their_output_in_the_epoch_that_they_come_in(run: Way, tmp_path: Path) -> None:
    found = run(copying(late="output"), tmp_path)
    assert in_order(found["out"]) == ON_TIME
    assert in_order(found["rows_late"]) == [
        {"epoch": 5, "x": 3, "late_epoch": 4},
        {"epoch": 5, "x": 5, "late_epoch": 0},
    ]


@every_way
def test_late_rows_are_dropped_where_that_is_wanted(run: Way, tmp_path: Path) -> None:
    assert {name: in_order(rows) for name, rows in run(copying(late="drop"), tmp_path).items()} == {
        "out": ON_TIME
    }


@every_way
def test_a_late_row_is_an_error_unless_something_else_is_said(run: Way, tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"input 'rows'.* (then to|epoch) 0\b.*late="):
        run(copying(), tmp_path)


def test_a_query_that_a_late_row_has_ended_goes_on_with_another_policy_and_loses_nothing_else(
    tmp_path: Path,
) -> None:
    with pytest.raises(SourceError, match=r"'1\.parquet'"):
        in_a_query(copying(), tmp_path)
    query = started(copying(late="drop"), tmp_path, available_now=True)
    query.await_termination()
    assert query.restarts == 0
    assert out(tmp_path) == {2: [(2,)], 5: [(1,)], 6: [(4,)]}


def test_an_input_whose_late_rows_have_an_output_says_its_name_and_columns() -> None:
    flow = copying(late="output", late_output="too late")
    assert flow.plan.output_schemas()["too late"].names == ["x", "late_epoch"]
    with pytest.raises(FlowError, match="late must be one of error, output, drop, got 'ignore'"):
        copying(late="ignore")
    with pytest.raises(FlowError, match="late_output needs late='output', got late='error'"):
        copying(late_output="somewhere")
    with pytest.raises(FlowError, match="a column 'late_epoch'"):
        ps.Dataflow("twice").stream_input("rows", "late_epoch long", late="output")
