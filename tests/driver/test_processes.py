"""Flows in processes of their own: the same results as in this process, and a clean end, whatever happens.

Families, and what only each can find:
- *same*: a loop with an exchange gives the same tables with 1, 2 and 3 processes as with workers in this
  process, through each kind of socket; what crosses processes must not matter;
- *driving*: the interface of ``LocalRun``: what is done, what is not and why, and errors of use;
- *failures*: an exception or an exit in one worker, a worker that is killed, an interrupt here;
- *leftovers*: no process, no socket file and no folder remains, after a close and after every failure.
"""

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.operator import operator
from pointstamp.driver import gang
from pointstamp.driver.feeder import feeder
from pointstamp.driver.local_run import LocalRun
from pointstamp.driver.processes import ProcessRun
from pointstamp.driver.run_loop import Collector, drive
from pointstamp.errors import FlowError, OperatorError, PointstampError, SchemaError, TransportError
from pointstamp.operators.context import Context

SECONDS_MAX = 120.0
PAIRS = "key long, value long"


class Halve:
    """Sends half of each value that is not 0 yet."""

    outputs = PAIRS

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        left = batch.filter(pc.greater(batch.column("value"), 0))
        halves = pc.divide(left.column("value"), 2)
        context.send(pa.record_batch([left.column("key"), halves], schema=batch.schema))


def halving() -> Dataflow:
    """Each row goes round, to the worker of its value, until its value is 0; all values leave."""
    flow = Dataflow("halving")
    rows = flow.stream_input("rows", PAIRS)
    with rows.loop("halves") as loop:
        variable = loop.variable(PAIRS)
        both = loop.enter(rows).union(variable).exchange("value")
        halved = operator("halve", Halve(), rows=both)
        loop.feedback(variable, halved)
        left = loop.leave(halved)
    flow.output("halves", left)
    return flow


def passing() -> Dataflow:
    flow = Dataflow("passing")
    flow.output("out", flow.stream_input("in", "key long").exchange("key"))
    return flow


def calling(function: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Dataflow:
    """Rows go to the worker of their key and through a function."""
    flow = Dataflow("calling")
    rows = flow.stream_input("in", "key long").exchange("key")
    flow.output("out", rows.map_batches(function).named("call"))
    return flow


def pairs(first: int, last: int) -> pa.RecordBatch:
    values = pa.array(range(first, last), pa.int64())
    return pa.record_batch([values, values], names=["key", "value"])


def longs(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["key"])


def counted(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def run_to_end(run: LocalRun | ProcessRun, data: list[pa.RecordBatch], results: dict[Any, Any]) -> None:
    def keep(name: str, time: object, table: pa.Table) -> None:
        assert time not in results, "a time was handed over twice"
        results[time] = counted(table)

    run.on_result = keep
    handle = run.input("rows")
    for epoch, batch in enumerate(data):
        handle.send(batch)
        handle.advance_to(epoch + 1)
    handle.close()
    run.settle()
    assert run.is_complete


def feed(run: LocalRun | ProcessRun, *values: int) -> None:
    run.input("in").send(longs(*values))
    run.settle()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """After each test: no process that it started, and nothing in its folder for temporary files."""
    started: list[int] = []
    folder = Path(tempfile.mkdtemp(prefix="ps"))  # a short path, as sockets need
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    fork_clean = gang.fork_clean

    def remember(*given: Any) -> Any:  # noqa: ANN401
        started_process, pipe = fork_clean(*given)
        started.append(started_process.pid)
        return started_process, pipe

    monkeypatch.setattr(gang, "fork_clean", remember)
    yield started
    assert started, "this test was to start processes"
    deadline = monotonic() + SECONDS_MAX  # a process that was killed needs a moment to be gone
    while left := [pid for pid in started if is_running(pid)]:
        assert monotonic() < deadline, f"processes {left} are left"
    assert list(folder.iterdir()) == []
    folder.rmdir()


# Same.


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_loop_with_an_exchange_gives_the_same_results_as_in_this_process(processes: int) -> None:
    flow = halving()
    data = [pairs(0, 50), pairs(1_000, 1_300), pairs(7, 8)]
    expected: dict[Any, Any] = {}
    run_to_end(LocalRun(flow.plan), data, expected)
    assert expected[2] == Counter({(7, 3): 1, (7, 1): 1, (7, 0): 1})
    found: dict[Any, Any] = {}
    with ProcessRun(flow.plan, processes) as run:
        run_to_end(run, data, found)
    assert found == expected


@pytest.mark.parametrize(("transport", "encrypted"), [("ipc", True), ("tcp", False), ("tcp", None)])
def test_every_kind_of_socket_gives_the_same_results(transport: str, encrypted: bool | None) -> None:
    found: dict[Any, Any] = {}
    with ProcessRun(halving().plan, 2, transport=transport, encrypted=encrypted) as run:
        run_to_end(run, [pairs(7, 8)], found)
    assert found == {0: Counter({(7, 3): 1, (7, 1): 1, (7, 0): 1})}


def test_a_large_batch_is_shared_among_the_workers_and_comes_back_whole() -> None:
    tables: list[pa.Table] = []
    flow = Dataflow("stay")
    flow.output("out", flow.stream_input("in", "key long"))
    with ProcessRun(flow.plan, 2, on_result=lambda _, __, table: tables.append(table)) as run:
        sent = run.input("in").send(longs(*range(10_000)))
        run.input("in").advance_to(1)
        run.step_until(lambda: run.is_done("out", 0))
    assert sent == 80_000
    (table,) = tables
    assert sorted(table.column("key").to_pylist()) == list(range(10_000))
    assert [len(chunk) for chunk in table.column("key").chunks] == [5_000, 5_000]


def test_the_feeding_loop_of_this_process_drives_processes_too() -> None:
    flow = passing()
    schema = pa.schema([("key", pa.int64())])
    collector = Collector({"out": schema})
    with ProcessRun(flow.plan, 2, on_result=collector.on_result) as run:
        fed = feeder(run, {"in": [longs(1, 2), longs(), longs(3)]})
        found = {time: tables["out"] for time, tables in drive(run, fed, collector, reads_ahead=True)}
    assert {time: sorted(table["key"].to_pylist()) for time, table in found.items()} == {
        0: [1, 2],
        1: [],
        2: [3],
    }


def test_root_times_that_are_no_numbers_cross_processes() -> None:
    class Words:
        def less_equal(self, a: tuple[object, ...], b: tuple[object, ...], /) -> bool:
            return b[: len(a)] == a

        def sort_key(self, element: tuple[object, ...], /) -> object:
            return len(element), repr(element)

        def minimum(self) -> tuple[object, ...]:
            return ()

    flow = Dataflow("words", times=Words())
    flow.output("out", flow.stream_input("in", "key long").exchange("key"))
    results: dict[Any, list[int]] = {}
    with ProcessRun(
        flow.plan,
        2,
        on_result=lambda _, time, table: results.update({time: sorted(table["key"].to_pylist())}),
    ) as run:
        handle = run.input("in")
        for time in ((), ("a",), ("a", ("b", 2))):
            handle.advance_to(time)
            handle.send(longs(*range(len(time) + 3)))
        assert not run.is_done("out", ("a",))
        handle.close()
        run.settle()
    assert results == {(): [0, 1, 2], ("a",): [0, 1, 2, 3], ("a", ("b", 2)): [0, 1, 2, 3, 4]}


# Driving.


def test_times_are_done_when_they_are_done_and_what_holds_them_back_is_said() -> None:
    flow = Dataflow("two")
    first, second = flow.stream_input("first", "key long"), flow.stream_input("second", "key long")
    joined = first.union(second)
    flow.output("out", joined)
    probe = joined.probe()
    with ProcessRun(flow.plan, 2) as run:
        run.input("first").send(longs(1))
        run.input("first").advance_to(5)
        run.settle()
        assert run.frontier("out") == [(0,)]
        assert not run.is_done("out", 0)
        assert not run.is_done(probe, 0)
        assert {holder.place for holder in run.why("out")} == {"output 0 of 'second'"}
        with pytest.raises(FlowError, match=r"is idle.*Advance or close its inputs"):
            run.step_until(lambda: run.is_done("out", 0))
        run.input("second").advance_to(3)
        run.step_until(lambda: run.is_done("out", 2))
        run.step_until(lambda: run.is_done(probe, 2))
        assert (run.is_done("out", 3), run.is_time_done(2), run.is_complete) == (False, True, False)
        run.input("first").close()
        run.input("second").close()
        run.settle()
        assert (run.frontier("out"), run.why("out"), run.is_complete) == ([], [], True)


def test_a_flow_without_outputs_knows_what_is_done() -> None:
    flow = Dataflow("silent")
    flow.stream_input("in", "key long").exchange("key").map_batches(lambda batch: batch)
    with ProcessRun(flow.plan, 2) as run:
        run.input("in").send(longs(1, 2, 3))
        run.input("in").advance_to(2)
        run.step_until(lambda: run.is_time_done(1))
        assert not run.is_time_done(2)


def test_errors_of_use_are_those_of_a_run_in_this_process_and_do_not_end_it() -> None:
    flow = halving()
    misuses: list[tuple[type[PointstampError], Callable[[Any], object]]] = [
        (FlowError, lambda run: run.input("rose")),
        (FlowError, lambda run: run.is_done("haves", 0)),
        (FlowError, lambda run: run.input("rows").advance_to(-1)),
        (SchemaError, lambda run: run.input("rows").send(longs(1))),
    ]
    said: list[list[str]] = []
    with LocalRun(flow.plan) as here, ProcessRun(flow.plan, 2) as there:
        for run in (here, there):
            said.append([])
            for kind, misuse in misuses:
                with pytest.raises(kind, match=r"flow .halving.|input .rows.") as raised:
                    misuse(run)
                said[-1].append(str(raised.value))
        run_to_end(there, [pairs(7, 8)], {})
        with pytest.raises(FlowError, match="after it was closed"):
            there.input("rows").send(pairs(1, 2))
    assert said[0] == said[1]
    with pytest.raises(FlowError, match="flow 'halving' is closed"):
        there.step()


# Failures.


def fail_for(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 13 in batch.column("key").to_pylist():
        raise ValueError("thirteen")
    return batch


@pytest.mark.parametrize("processes", [1, 3])
def test_an_exception_in_one_worker_is_raised_here_with_its_words_and_all_end(processes: int) -> None:
    flow = calling(fail_for)
    with LocalRun(flow.plan) as here, pytest.raises(OperatorError, match="ValueError: thirteen") as local:
        feed(here, 13)
    run = ProcessRun(flow.plan, processes)
    feed(run, *range(100, 200))
    with pytest.raises(OperatorError, match="ValueError: thirteen") as raised:
        feed(run, 13)
    assert str(raised.value) == str(local.value)
    assert "operator 'call' failed" in str(raised.value)
    assert any("ValueError: thirteen" in note for note in raised.value.__notes__)


def test_an_exception_when_a_worker_builds_its_operators_is_raised_here() -> None:
    class Broken:
        outputs = "key long"

        def on_start(self, context: Context) -> None:
            raise ValueError("not today")

        def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None: ...  # noqa: A002

    flow = Dataflow("broken")
    flow.output("out", operator("broken", Broken(), rows=flow.stream_input("in", "key long")))
    with pytest.raises(OperatorError, match="operator 'broken' failed at the start"):
        ProcessRun(flow.plan, 2)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_is_killed_is_named_soon_and_all_end(victim: int) -> None:
    # Its end is seen, and not guessed after a long silence.
    with ProcessRun(passing().plan, 2, silence_seconds_max=2 * SECONDS_MAX) as run:
        pid = run.pids[victim]
        run.input("in").send(longs(1, 2, 3))
        os.kill(pid, signal.SIGKILL)
        deadline = monotonic() + SECONDS_MAX
        with pytest.raises(TransportError, match="was killed by signal 9") as raised:
            run.step_until(lambda: monotonic() > deadline)
    assert f"worker {victim} (process {pid}) was killed by signal 9 (SIGKILL" in str(raised.value)


def test_a_worker_that_dies_in_a_users_function_is_named() -> None:
    def leave(batch: pa.RecordBatch) -> pa.RecordBatch:
        os._exit(7)

    said = r"worker [01] \(process \d+\) has ended with exit code 7"
    with ProcessRun(calling(leave).plan, 2) as run, pytest.raises(TransportError, match=said):
        feed(run, 1)


def test_a_users_function_that_calls_exit_is_an_error_of_the_flow_that_names_the_line() -> None:
    def leave(batch: pa.RecordBatch) -> pa.RecordBatch:
        sys.exit(3)

    said = r"SystemExit: 3.*in leave: sys\.exit\(3\)"
    with ProcessRun(calling(leave).plan, 2) as run, pytest.raises(OperatorError, match=said):
        feed(run, 1)


def test_an_interrupt_here_ends_all_workers_even_one_that_would_never_return() -> None:
    here = os.getpid()

    def forever(batch: pa.RecordBatch) -> pa.RecordBatch:
        os.kill(here, signal.SIGALRM)
        while True:
            signal.pause()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        run = ProcessRun(calling(forever).plan, 2)
        with pytest.raises(KeyboardInterrupt):
            feed(run, 1)
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_workers_ignore_the_interrupt_of_the_terminal_and_leave_it_to_this_process() -> None:
    results: dict[Any, Any] = {}
    with ProcessRun(halving().plan, 2) as run:
        for pid in run.pids:
            os.kill(pid, signal.SIGINT)
        run_to_end(run, [pairs(7, 8)], results)
    assert list(results) == [0]


def test_workers_end_when_the_process_that_drives_them_is_killed(started: list[int]) -> None:
    read, write = os.pipe()
    driver = os.fork()
    if driver == 0:
        run = ProcessRun(passing().plan, 2)
        os.write(write, " ".join(map(str, run.pids)).encode())
        signal.pause()
        os._exit(0)
    try:
        pids = [int(pid) for pid in os.read(read, 100).split()]
        assert len(pids) == 2
        started.extend(pids)
    finally:
        os.kill(driver, signal.SIGKILL)
        os.waitpid(driver, 0)
        os.close(read)
        os.close(write)
    deadline = monotonic() + SECONDS_MAX
    while any(is_running(pid) for pid in pids):
        assert monotonic() < deadline, "orphans are left"


def test_a_result_that_its_taker_refuses_ends_the_run_with_the_takers_error() -> None:
    def refuse(*_: object) -> None:
        raise LookupError("no room")

    run = ProcessRun(passing().plan, 2, on_result=refuse)
    feed(run, 1)
    run.input("in").close()
    with pytest.raises(LookupError, match="no room"):
        run.settle()


# Leftovers; every test above is one for them, too.


def test_closing_twice_and_forgetting_to_close_leave_nothing() -> None:
    run = ProcessRun(passing().plan, 2)
    run.close()
    run.close()
    forgotten = ProcessRun(passing().plan, 2)
    assert all(map(is_running, forgotten.pids))
    del forgotten
    gc.collect()
