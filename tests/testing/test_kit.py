"""The testing kit itself: what a script does, what the assertions say, and the page that shows them.

Families:
- the page on connectors: its Python block prints what it says;
- the script: what comes when, over pauses, ends, aborts, restarts, and on workers;
- assertions: they pass where rows are the same in any order, and say what is missing and what is too much.
The claims on sinks and sources are tried in tests/connectors and tests/connectors, with broken ones, too.
"""

import pickle
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.testing import (
    ABORT,
    END,
    PAUSE,
    ScriptAbortedError,
    ScriptedSource,
    assert_published,
    assert_table,
)

SCHEMA = pa.schema([("x", pa.int64())])
SECONDS_MAX = 180


def group(*numbers: int) -> list[dict[str, int]]:
    return [{"x": number} for number in numbers]


def names(source: ScriptedSource, position: int | None = None, *, available_now: bool = False) -> list[str]:
    return [unit.name for unit in source.watch(position, available_now=available_now).poll()]


def test_a_script_holds_at_pause_and_ends_at_end_until_it_is_told_to_go_on() -> None:
    source = ScriptedSource(group(1), group(2), PAUSE, group(3), END, group(4))
    watch = source.watch(None)
    assert ([unit.name for unit in watch.poll()], watch.is_finished) == (["0", "1"], False)
    assert (watch.poll(), watch.waits_for()) == ([], "go_on() of its script")
    source.go_on()
    assert ([unit.name for unit in watch.poll()], watch.is_finished) == (["2"], True)
    source.go_on()
    again = source.watch(source.after(None, ps.ports.Unit("2", ())))
    assert ([unit.name for unit in again.poll()], again.is_finished) == (["3"], True)
    with pytest.raises(ValueError, match=r"Call it once for each"):
        source.go_on()


def test_a_script_aborts_once_and_the_next_watch_goes_on_behind_it() -> None:
    source = ScriptedSource(group(1), ABORT, group(2))
    watch = source.watch(None)
    with pytest.raises(ScriptAbortedError, match="after group 0"):
        watch.poll()
    assert names(source) == ["0", "1"]
    assert names(source, 1) == ["1"]


def test_with_available_now_a_pause_is_the_end() -> None:
    source = ScriptedSource(group(1), PAUSE, group(2))
    watch = source.watch(None, available_now=True)
    assert ([unit.name for unit in watch.poll()], watch.is_finished) == (["0"], True)


def test_a_worker_gets_the_rows_without_the_commands() -> None:
    source = ScriptedSource(group(1), ABORT, pa.record_batch({"x": [2, 3]}))
    there: ScriptedSource = pickle.loads(pickle.dumps(source))  # noqa: S301 - just written here
    assert there.units_per_tick == 1
    (first, second) = there.watch(None).poll()
    found = [batch.to_pylist() for unit in (first, second) for batch in there.read(unit.parts[0], SCHEMA)]
    assert found == [group(1), group(2, 3)]


def test_a_query_on_processes_follows_a_script_with_pauses_and_an_end(tmp_path: Path) -> None:
    flow = ps.Dataflow("numbers")
    flow.output("numbers", flow.stream_input("numbers", "x long"))
    source = ScriptedSource(group(1), PAUSE, group(2, 3), END, group(4))
    places: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "output": str(tmp_path / "output")}
    query = flow.start(numbers=source, workers=2, **places)
    deadline = time.monotonic() + SECONDS_MAX
    while query.epoch < 0:
        assert time.monotonic() < deadline
        query.await_termination(0.01)
    assert_published(places["output"], "numbers", {0: group(1)})
    source.go_on()
    assert query.await_termination(SECONDS_MAX)
    assert_published(places["output"], "numbers", {0: group(1), 1: group(3, 2)})
    source.go_on()
    query = flow.start(numbers=source, processes=1, **places)
    assert query.await_termination(SECONDS_MAX)
    query.stop()
    assert_published(places["output"], "numbers", {0: group(1), 1: group(3, 2), 2: group(4)})


def test_an_assertion_says_what_is_missing_and_what_is_too_much(tmp_path: Path) -> None:
    flow = ps.Dataflow("numbers")
    numbers = flow.stream_input("numbers", "x long, y double")
    flow.output("numbers", numbers)
    flow.output("table", numbers.to_table())
    nan = float("nan")
    rows: list[dict[str, Any]] = [{"x": 1, "y": nan}, {"x": 1, "y": nan}, {"x": 2, "y": None}]
    output = str(tmp_path / "output")
    query = flow.start(numbers=[rows], checkpoint=str(tmp_path / "checkpoint"), output=output)
    assert query.await_termination(SECONDS_MAX)
    assert_published(output, "numbers", {0: rows[::-1]})
    assert_table(output, "table", rows, as_of=0)
    with pytest.raises(
        AssertionError, match=r"epoch 0: not expected 2 times \{x: 1, y: nan\}\. epoch 1: missing"
    ):
        assert_published(output, "numbers", {0: rows[2:], 1: [{"x": 3, "y": 0.5}]})
    with pytest.raises(
        AssertionError, match=r"'table' in .* as of epoch 0 is not as expected: missing \{x: 9\}"
    ):
        assert_table(output, "table", [*rows, {"x": 9}], as_of=0)
