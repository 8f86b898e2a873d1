"""Worker processes that inherit nothing of the driver, are sent all they need, and end when it does.

Families, and what only each can find:
- *inherited*: locks and sockets that the driver holds while workers start; a lock that comes along hangs a
  worker for ever, and a socket that does keeps a port open;
- *sent*: functions of every origin reach the workers, and what cannot is refused with the operator's name;
- *surroundings*: a worker has the folder, the environment and the output that the driver has at that moment;
- *ends*: no matter whether the driver or the process that forks is killed, and whatever a worker is doing.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import monotonic
from typing import Final

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.driver.processes import ProcessRun
from pointstamp.errors import FlowError

SECONDS_MAX: Final = 60.0
# A worker that hangs hangs for ever; so long is long enough for one that does not.
HANG_SECONDS: Final = 20.0
Function = Callable[[pa.RecordBatch], pa.RecordBatch]


def calling(function: Function) -> ps.Dataflow:
    flow = ps.Dataflow("calling")
    flow.output("out", flow.stream_input("in", "x long").exchange("x").map_batches(function).named("call"))
    return flow


def numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def results(flow: ps.Dataflow, *values: int) -> list[int]:
    out = flow.run(processes=2, **{"in": numbers(*values)})["out"]
    return sorted(out.table()["x"].to_pylist())


def until(condition: Callable[[], object], what: str, seconds_max: float = SECONDS_MAX) -> None:
    deadline = monotonic() + seconds_max
    while not condition():
        assert monotonic() < deadline, what


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one that only waits to be reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the module path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


# Inherited.


def test_a_worker_may_import_what_a_thread_of_the_driver_is_importing_while_it_starts(
    importable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = importable / "gate"
    os.mkfifo(gate)
    monkeypatch.setenv("HELD_UP_PROCESS", str(os.getpid()))
    (importable / "slowly_imported.py").write_text(
        "import os\n"
        "if os.environ['HELD_UP_PROCESS'] == str(os.getpid()):\n"
        f"    open({str(gate)!r}).close()\n"
        "    open(__file__ + '.2').close()\n"
        "addend = 7\n"
    )
    os.mkfifo(importable / "slowly_imported.py.2")

    def add(batch: pa.RecordBatch) -> pa.RecordBatch:
        from slowly_imported import addend  # type: ignore[import-not-found]

        return pa.record_batch({"x": [value + addend for value in batch["x"].to_pylist()]})

    thread = threading.Thread(target=__import__, args=("slowly_imported",), daemon=True)
    thread.start()
    with gate.open("w"):
        pass  # from here on the thread holds the lock of the module
    try:
        found: list[int] = []
        with ProcessRun(
            calling(add).plan, 2, on_result=lambda *given: found.extend(given[2]["x"].to_pylist())
        ) as run:
            handle = run.input("in")
            handle.send(numbers(1, 2, 3))
            handle.close()
            deadline = monotonic() + HANG_SECONDS
            while run.step():
                assert monotonic() < deadline, "a worker hangs at the lock of a thread that it does not have"
        assert sorted(found) == [8, 9, 10]
    finally:
        with (importable / "slowly_imported.py.2").open("w"):
            pass
        thread.join()


def test_workers_hold_no_socket_and_no_file_of_the_driver(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "held").open("w") as held:
        ours = {os.readlink(f"/proc/self/fd/{each.fileno()}") for each in (listener, held)}
        with ProcessRun(calling(lambda batch: batch).plan, 2) as run:
            for pid in run.pids:
                theirs = {
                    os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()
                }
                assert not ours & theirs


# Sent.


def test_closures_and_lambdas_reach_the_workers_with_what_they_hold() -> None:
    held = numbers(*range(100_000))
    assert results(calling(lambda batch: batch.slice(0, len(batch) * (held.num_rows // 100_000))), 1, 2) == [
        1,
        2,
    ]


def test_functions_of_a_script_without_a_guard_reach_the_workers_and_it_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import pyarrow as pa, pointstamp as ps\n"
        "print('begun')\n"
        "class Adds:\n"
        "    amount = 5\n"
        "def add(batch):\n"
        "    return pa.record_batch({'x': [x + Adds.amount for x in batch['x'].to_pylist()]})\n"
        "flow = ps.Dataflow('script')\n"
        "flow.output('out', flow.stream_input('in', 'x long').exchange('x').map_batches(add))\n"
        "out = flow.run(processes=2, **{'in': pa.table({'x': [1, 2]})})['out']\n"
        "print(sorted(out.table()['x'].to_pylist()))\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (ended.stdout, ended.stderr) == ("begun\n[6, 7]\n", "")


def test_functions_of_a_module_that_is_not_on_the_module_path_reach_the_workers(tmp_path: Path) -> None:
    place = tmp_path / "somewhere.py"
    place.write_text(
        "import pyarrow as pa\n"
        "AMOUNT = 3\n"
        "def add(batch):\n"
        "    return pa.record_batch({'x': [x + AMOUNT for x in batch['x'].to_pylist()]})\n"
    )
    spec = spec_from_file_location("elsewhere.somewhere", place)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        assert results(calling(module.add), 1, 2) == [4, 5]
    finally:
        del sys.modules[spec.name]


def test_what_cannot_be_sent_is_refused_with_the_name_of_the_operator() -> None:
    lock = threading.Lock()

    def locked(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            return batch

    with pytest.raises(
        FlowError, match=r"operator 'call' of flow 'calling' cannot be sent to the workers: .*lock"
    ):
        results(calling(locked), 1)


def test_a_module_that_fails_in_a_worker_only_is_said(
    importable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY_PROCESS", str(os.getpid()))
    (importable / "only_here.py").write_text(
        "import os\n"
        "assert os.environ['ONLY_PROCESS'] == str(os.getpid()), 'not in another process'\n"
        "def same(batch):\n    return batch\n"
    )
    from only_here import same  # type: ignore[import-not-found]

    with pytest.raises(
        FlowError, match="cannot load what it was sent: AssertionError: not in another process"
    ):
        results(calling(same), 1)


# Surroundings.


def test_workers_have_the_folder_the_environment_and_the_output_of_the_driver_as_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    results(calling(lambda batch: batch), 1)  # whatever was started with it was started before
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SET_LATER", "yes")

    def say(batch: pa.RecordBatch) -> pa.RecordBatch:
        os.write(1, f"{os.getcwd()} {os.environ['SET_LATER']}".encode())
        return batch

    capfd.readouterr()
    results(calling(say), 1)
    assert capfd.readouterr().out == f"{tmp_path} yes"


# Ends.


def driver_in(function: str) -> "subprocess.Popen[str]":
    """A driver whose first worker to be called prints its number and then stays in a function for ever."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, re, sys, time, pyarrow as pa, pointstamp as ps\n"
            "def stay(batch):\n"
            "    os.write(1, f'{os.getpid()} {os.getppid()}\\n'.encode())\n"
            f"    {function}\n"
            "flow = ps.Dataflow('stays')\n"
            "flow.output('out', flow.stream_input('in', 'x long').exchange('x').map_batches(stay))\n"
            "flow.run(processes=2, **{'in': pa.table({'x': [1]})})\n",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )


# The second one never lets another thread of its process run.
@pytest.mark.parametrize("function", ["time.sleep(3600)", "re.match('(a+)+$', 'a' * 60 + 'b')"])
def test_a_worker_inside_of_a_function_ends_when_the_driver_is_killed(function: str) -> None:
    with driver_in(function) as driver:
        assert driver.stdout is not None
        worker, server = map(int, driver.stdout.readline().split())
        try:
            driver.kill()
            until(lambda: not is_running(worker), "the worker outlives its driver")
            until(lambda: not is_running(server), "the process that forks outlives its driver")
        finally:
            for pid in (worker, server):
                if is_running(pid):
                    os.kill(pid, signal.SIGKILL)


def test_workers_end_with_the_process_that_forked_them_and_the_next_run_has_another() -> None:
    with ProcessRun(calling(lambda batch: batch).plan, 2) as run:
        (server,) = {
            int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in run.pids
        }
        os.kill(server, signal.SIGKILL)
        until(lambda: not any(map(is_running, run.pids)), "workers outlive the process that forked them")
    assert results(calling(lambda batch: batch), 1) == [1]


def test_a_fork_of_the_driver_does_not_keep_its_workers_alive_and_can_have_its_own() -> None:
    with ProcessRun(calling(lambda batch: batch).plan, 1):
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if results(calling(lambda batch: batch), 1) == [1] else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
