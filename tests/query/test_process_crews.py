"""Queries on processes that are killed, stopped and made to fail: nothing is lost, and nothing shows twice.

- *Workers*: one, two, any of them, killed or silent while the query works; only real processes die in the
  middle of anything.
- *Failures there*: errors travel from a worker to whoever waits for the query, in the user's words.
- *The driver*: a whole process that is killed, and another that continues.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import OperatorError, RecoveryError, StorageError
from pointstamp.query.policy import RestartPolicy
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import Content
from support.recoverables import Rows, expected, numbers
from support.storages import Through
from support.victims import Victim, flow_and_data

TESTS = Path(__file__).parents[1]


def _end(pid: int, by: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has died since, of what came before
        os.kill(pid, by)


@pytest.mark.parametrize("lost", [[0], [1], [0, 1]], ids=["first", "last", "both"])
def test_workers_may_be_killed_at_any_time(tmp_path: Path, lost: list[int]) -> None:
    flow, data = flow_and_data()

    def kill(victim: Victim, number: int) -> None:
        if number in (3, 9):
            for worker in lost:
                _end(victim.pids[worker], signal.SIGKILL)

    victim = Victim(tmp_path, flow, data, on_commit=kill).run()
    assert victim.sink.rows() == expected(flow, data)
    assert victim.supervisor.restarts == 2
    assert len(victim.supervisor.recovery_seconds) == 2


def test_a_worker_that_falls_silent_is_replaced(tmp_path: Path) -> None:
    flow, data = flow_and_data("running")

    stopped: list[int] = []

    def stop(victim: Victim, number: int) -> None:
        if number == 3 and not stopped:
            stopped.append(victim.pids[1])
            victim.sink.while_nobody_writes(lambda: _end(stopped[0], signal.SIGSTOP))

    victim = Victim(tmp_path, flow, data, on_commit=stop, silence_seconds_max=2.0).run()
    assert victim.sink.rows() == expected(flow, data)
    assert victim.supervisor.restarts >= 1  # once, unless the machine stood still for as long
    assert stopped[0] not in victim.pids


def test_when_every_generation_is_killed_the_budget_ends_the_query_in_words(tmp_path: Path) -> None:
    flow, data = flow_and_data("running")

    def kill(victim: Victim, number: int) -> None:
        _end(victim.pids[0], signal.SIGKILL)

    restarts = RestartPolicy(restarts_max=2, pause_seconds=0.0)
    victim = Victim(tmp_path, flow, data, on_commit=kill, restarts=restarts)
    with pytest.raises(
        RecoveryError, match=r"after 2 restarts: .*SIGKILL.* Start the query again with the same"
    ):
        victim.run()
    again = Victim(tmp_path, flow, data).run()
    assert again.sink.rows() == expected(flow, data)


class FailsOn:
    """Fails when it is given a number: while a file is there, which it may remove first."""

    outputs = "k long, v long"

    def __init__(self, mark: str, *, once: bool) -> None:
        self._mark = mark
        self._once = once

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if 13 in batch.column("k").to_pylist() and os.path.exists(self._mark):
            if self._once:
                os.unlink(self._mark)
            raise ValueError("thirteen")
        context.send(batch)


def _failing(folder: Path, *, once: bool) -> tuple[ps.Dataflow, list[Rows]]:
    mark = folder / "mark"
    mark.touch()
    flow = ps.Dataflow("failing")
    logic = FailsOn(str(mark), once=once)
    flow.output(
        "out", ps.operator("fails", logic, x=flow.stream_input("numbers", "k long, v long").exchange("k"))
    )
    return flow, [{"numbers": numbers([(k, 1)])} for k in (1, 2, 13, 4)]


def test_a_failure_in_a_worker_that_does_not_come_again_is_gone_over(tmp_path: Path) -> None:
    flow, data = _failing(tmp_path, once=True)
    victim = Victim(tmp_path, flow, data).run()
    assert victim.sink.rows() == {("out", epoch): [(k, 1)] for epoch, k in enumerate((1, 2, 13, 4))}
    assert victim.supervisor.restarts == 1


def test_a_failure_in_a_worker_that_comes_again_ends_the_query_with_the_users_error(tmp_path: Path) -> None:
    flow, data = _failing(tmp_path, once=False)
    victim = Victim(tmp_path, flow, data)
    with pytest.raises(OperatorError, match=r"operator 'fails' failed .* ValueError: thirteen"):
        victim.run()
    assert victim.supervisor.restarts <= 2
    assert set(victim.sink.rows()) <= {("out", 0), ("out", 1)}


@dataclass
class FullDisk(Through):
    """A folder on a disk that is full for parts of snapshots while a file is there."""

    mark: Path
    once: bool

    def create(self, name: str, content: Content) -> None:
        if name.startswith("snapshots/") and name > "snapshots/000000000002" and self.mark.exists():
            if self.once:
                self.mark.unlink(missing_ok=True)
            raise StorageError(f"'{name}' could not be written: no space left on device.")
        self.inner.create(name, content)


@pytest.mark.parametrize("once", [True, False])
def test_a_full_disk_is_gone_over_or_said(tmp_path: Path, once: bool) -> None:
    flow, data = flow_and_data("running")
    mark = tmp_path / "full"
    mark.touch()
    storage = FullDisk(LocalStorage(tmp_path / "checkpoint"), mark, once)
    restarts = RestartPolicy(restarts_max=1 if not once else 3, pause_seconds=0.0)
    victim = Victim(tmp_path, flow, data, storage=storage, restarts=restarts)
    if not once:
        with pytest.raises(RecoveryError, match="no space left on device"):
            victim.run()
        mark.unlink()
        victim = Victim(tmp_path, flow, data, storage=storage)
    victim.run()
    assert victim.sink.rows() == expected(flow, data)


def test_a_driver_that_is_killed_is_followed_by_another(tmp_path: Path) -> None:
    flow, data = flow_and_data()
    child = subprocess.Popen(
        [sys.executable, "-m", "support.victims", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    )
    with child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == "5":
                child.kill()
                break
    assert child.returncode == -signal.SIGKILL
    victim = Victim(tmp_path, flow, data, workers=3).run()
    assert victim.sink.rows() == expected(flow, data)
    assert victim.supervisor.generation == 2
