"""Functions of the user that fork: no copy of a worker or of a driver outlives the call that made it.

A copy that returned from the function would be a second worker with the first one's sockets, or a second
program with the first one's output. So every program here is a process of its own, whose output is compared.

Families, and what only each can find:
- *copies*: the function forks, and both sides return, fail or exit: wherever the function is called, and
  however the flow is run;
- *children*: processes that the function starts and never waits for end with their worker.
"""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from time import monotonic, sleep
from typing import Final

import pytest

SECONDS_MAX: Final = 60.0

PROGRAM: Final = """
    import os, sys
    from pathlib import Path
    import pyarrow as pa
    import pointstamp as ps
    from pointstamp.connectors.published.reader import read_changes

    folder = Path(sys.argv[1])

    def note(pid):
        (folder / "forked" / str(pid)).touch()

    def fork_and(leave):
        pid = os.fork()
        if pid:
            note(pid)
        else:
            leave()

    def nothing():
        pass

    def fail():
        raise ValueError("in the copy")

    def flow_of(function, by=None):
        flow = ps.Dataflow("forks")
        rows = flow.stream_input("in", "x long")
        rows = rows.exchange("x") if by is None else rows.exchange(by=by)
        flow.output("out", rows.map_batches(function).named("call"))
        return flow

    def once(act):
        def function(batch):
            act()
            return batch
        return flow_of(function)

    def numbers():
        return pa.table({"x": pa.array(range(6), pa.int64())})

    def bounded(flow, **how):
        print(sorted(flow.run(**how, **{"in": numbers()})["out"].table()["x"].to_pylist()), flush=True)

    def started(flow, **how):
        query = flow.start(
            **{"in": numbers()}, checkpoint=folder / "checkpoint", output=folder / "out", **how
        )
        query.process_all_available(50)
        restarts = query.restarts
        query.stop()
        print(sorted(read_changes(folder / "out", "out")["x"].to_pylist()), restarts, flush=True)
"""


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one that only waits to be reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run_program(folder: Path, main: str) -> tuple[str, str, list[int]]:
    """What a program prints, and the processes that its functions have forked, none of which may be left."""
    (folder / "forked").mkdir()
    program = dedent(PROGRAM) + "\nif __name__ == '__main__':\n    " + main + "\n"
    (folder / "program.py").write_text(program)
    # Into files: copies would hold pipes open.
    with (folder / "printed").open("wb") as out, (folder / "said").open("wb") as err:
        command = [sys.executable, str(folder / "program.py"), str(folder)]
        subprocess.run(command, stdout=out, stderr=err, timeout=SECONDS_MAX, check=False)
    forked = [int(each.name) for each in (folder / "forked").iterdir()]
    deadline = monotonic() + SECONDS_MAX / 4
    while (left := [pid for pid in forked if is_running(pid)]) and monotonic() < deadline:
        sleep(0.01)
    for pid in left:
        os.kill(pid, 9)
    assert not left, "copies are left"
    return (folder / "printed").read_text(), (folder / "said").read_text(), forked


ROWS: Final = "[0, 1, 2, 3, 4, 5]"


@pytest.mark.parametrize("how", ["", "workers=2", "processes=2"], ids=["here", "two here", "processes"])
def test_a_copy_of_a_worker_ends_with_the_call_that_made_it(how: str, tmp_path: Path) -> None:
    calls = [f"bounded(once(lambda: fork_and({leave})), {how})" for leave in ("nothing", "fail", "sys.exit")]
    out, err, forked = run_program(tmp_path, "; ".join(calls))
    assert out == f"{ROWS}\n" * 3, err
    assert len(forked) >= 3


@pytest.mark.parametrize("how", ["workers=2", "processes=2"])
def test_a_copy_of_a_querys_worker_writes_and_sends_nothing(how: str, tmp_path: Path) -> None:
    out, err, forked = run_program(tmp_path, f"started(once(lambda: fork_and(nothing)), {how})")
    assert out == f"{ROWS} 0\n", err
    assert forked


def test_a_copy_that_the_function_of_an_exchange_makes_ends(tmp_path: Path) -> None:
    by = "lambda batch: (fork_and(nothing), batch.column('x').to_numpy() % 2)[1]"
    out, err, forked = run_program(tmp_path, f"bounded(flow_of(lambda batch: batch, {by}), processes=2)")
    assert out == f"{ROWS}\n", err
    assert forked


def test_a_copy_that_a_sink_makes_ends(tmp_path: Path) -> None:
    main = (
        "from pointstamp.connectors.published.sink import ParquetPublisher; "
        "publish = ParquetPublisher.publish; "
        "ParquetPublisher.publish = lambda *given: (publish(*given), fork_and(nothing))[0]; "
        "started(once(nothing), processes=2)"
    )
    out, err, forked = run_program(tmp_path, main)
    assert out == f"{ROWS} 0\n", err
    assert forked


def test_children_of_a_worker_end_with_it(tmp_path: Path) -> None:
    child = "multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,), daemon=True)"
    act = f"(lambda child: (child.start(), note(child.pid)))({child})"
    main = f"import multiprocessing, time; bounded(once(lambda: {act}), processes=2)"
    out, err, forked = run_program(tmp_path, main)
    assert out == f"{ROWS}\n", err
    assert forked


def test_a_child_that_a_thread_of_a_worker_has_started_outlives_the_thread_and_not_the_worker(
    tmp_path: Path,
) -> None:
    act = (
        "(lambda t: (t.start(), t.join(), [os.kill(int(each), 0) for each in os.listdir(folder / 'forked')]))"
        "(threading.Thread(target=lambda: fork_and(lambda: time.sleep(600))))"
    )
    main = f"import threading, time; bounded(once(lambda: {act}), processes=2)"
    out, err, forked = run_program(tmp_path, main)
    assert out == f"{ROWS}\n", err
    assert forked
