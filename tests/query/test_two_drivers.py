"""A driver that was held up while another took its checkpoint over: it does no harm, and ends as text.

- *Processes*: a driver is stopped by a signal, idle or in the middle of a commit, a second process starts
  with the same checkpoint and publishes on, and the first is continued. Only real processes show that nothing
  it remembers, and no worker that it lost meanwhile, makes it continue, or take over in its turn.
- *Every write*: the same in one process, where the first driver is held up before each of its writes in turn,
  while the second does all the work; finds the moment between two writes that nobody has thought of.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import TypeVar

import pytest

from pointstamp.errors import FencedError
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content
from support.recoverables import FLOWS, expected, rows_of
from support.recovering import MemorySink, spec_of
from support.storages import Through
from support.streams import SECONDS_MAX, counts_by_epoch, published_by_epoch, put, until

TESTS = Path(__file__).parents[1]
T = TypeVar("T")


class Driver:
    """A driver in a process of its own, and what it says."""

    def __init__(self, folder: Path, processes: int, moment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.drivers", str(folder), str(processes), moment],
            stdout=subprocess.PIPE,
            text=True,
            cwd=TESTS,
        )
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def says(self) -> str:
        """Its next line."""
        return self._lines.get(timeout=SECONDS_MAX)

    def wait_until_stopped(self) -> None:
        """Wait until the system says so; a driver that has ended instead has failed."""

        def is_stopped() -> bool:
            pid, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
            assert not pid or os.WIFSTOPPED(status), "the driver has ended"
            return pid != 0

        until(is_stopped)

    def close(self) -> None:
        """Kill it; a process that is stopped dies of that, too."""
        self.process.kill()
        self.process.wait(SECONDS_MAX)


@contextmanager
def driver(folder: Path, processes: int = 0, moment: str = "idle") -> Iterator[Driver]:
    started = Driver(folder, processes, moment)
    try:
        yield started
    finally:
        started.close()
        assert started.process.stdout is not None
        started.process.stdout.close()


def workers_of(driver: int) -> list[int]:
    """The processes of a driver's workers: those that the one which forks them for it has."""
    return [worker for server in children_of(driver) for worker in children_of(server)]


def children_of(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in threads for child in each.read_text().split()]


def ends_as_replaced(first: Driver) -> None:
    """Its last words are that it was replaced."""
    said = first.says()
    if said == "published 1":  # it was in the journal, and the second driver has published the same
        said = first.says()
    assert re.match(r"failed FencedError generation \d+ may write nothing more to ", said), said
    assert "Stop this driver; the newer one resumes from here." in said
    assert first.process.wait(SECONDS_MAX) == 0


@pytest.mark.parametrize(
    "moment",
    [
        "idle",
        "before it publishes",
        pytest.param("before the journal", marks=pytest.mark.long),
        pytest.param("after it has published", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_is_continued_after_another_took_over_publishes_nothing_and_says_why_it_ends(
    tmp_path: Path, moment: str
) -> None:
    sent = [["a", "b"], ["b", "c"], ["a"], ["c", "c"]]
    put(tmp_path / "in", "0", {"word": sent[0]})
    with driver(tmp_path, moment=moment) as first:
        assert first.says() == "published 0"
        if moment == "idle":
            os.kill(first.process.pid, signal.SIGSTOP)
        put(tmp_path / "in", "1", {"word": sent[1]})
        first.wait_until_stopped()
        put(tmp_path / "in", "2", {"word": sent[2]})
        with driver(tmp_path) as second:
            while second.says() != "published 2":
                pass
            os.kill(first.process.pid, signal.SIGCONT)
            ends_as_replaced(first)
            put(tmp_path / "in", "3", {"word": sent[3]})
            assert second.says() == "published 3"
            (tmp_path / "end").touch()
            assert second.says() == "ended"
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(sent)


def test_a_driver_whose_workers_died_while_it_was_held_up_does_not_take_over_in_its_turn(
    tmp_path: Path,
) -> None:
    sent = [["a", "b"], ["b", "c"]]
    put(tmp_path / "in", "0", {"word": sent[0]})
    with driver(tmp_path, processes=2) as first:
        assert first.says() == "published 0"
        os.kill(first.process.pid, signal.SIGSTOP)
        first.wait_until_stopped()
        assert len(workers_of(first.process.pid)) == 2
        with driver(tmp_path) as second:
            assert second.says() == "published 0"
            # They have heard nothing of it for too long. It finds that out before anything else: no file has
            # come, so that there is nothing for it to write.
            until(lambda: not workers_of(first.process.pid))
            os.kill(first.process.pid, signal.SIGCONT)
            ends_as_replaced(first)
            put(tmp_path / "in", "1", {"word": sent[1]})
            assert second.says() == "published 1"
            (tmp_path / "end").touch()
            assert second.says() == "ended"
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(sent)


# Every write.


@dataclass
class Held(Through):
    """A storage whose user waits before one of its writes until it may continue."""

    writes_left: int
    is_held: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def _wait(self) -> None:
        self.writes_left -= 1
        if self.writes_left == -1:
            self.is_held.set()
            assert self.may_go_on.wait(SECONDS_MAX)

    def create(self, name: str, content: Content) -> None:
        self._wait()
        self.inner.create(name, content)

    def write(self, name: str, content: Content) -> None:
        self._wait()
        self.inner.write(name, content)

    def delete(self, name: str) -> None:
        self._wait()
        self.inner.delete(name)


def test_a_driver_may_be_held_up_before_any_of_its_writes_while_another_does_the_work() -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 5, seed=2)
    wanted = expected(flow, data)
    snapshots = SnapshotPolicy(epochs=2, chain_max=2)
    outcomes: dict[str, int] = {"fenced": 0, "is idle": 0}
    for writes in range(200):
        storage, sink = MemoryStorage(), MemorySink()
        held = Held(storage, writes)
        ended: list[BaseException | None] = []
        first = Supervisor(spec_of(flow, data, held, sink, snapshots=snapshots), InProcessLauncher())
        thread = threading.Thread(target=_run, args=(first, ended, held.is_held), daemon=True)
        thread.start()
        assert held.is_held.wait(SECONDS_MAX)
        if ended:
            break  # it has fewer writes
        Supervisor(spec_of(flow, data, storage, sink, snapshots=snapshots), InProcessLauncher()).run()
        kept = {name: storage.read(name) for name in storage.list()}
        assert sink.rows() == wanted, f"by the second, after {writes} writes of the first"
        held.may_go_on.set()
        thread.join(SECONDS_MAX)
        assert sink.rows() == wanted, f"by both, after {writes} writes of the first"
        assert kept.items() <= {name: storage.read(name) for name in storage.list()}.items()
        (how,) = ended
        assert how is None or isinstance(how, FencedError), how
        outcomes["fenced" if how else "is idle"] += 1
    assert outcomes["fenced"] > 10, outcomes


def _run(supervisor: Supervisor, ended: list[BaseException | None], is_held: threading.Event) -> None:
    try:
        supervisor.run()
    except BaseException as error:
        ended.append(error)
    else:
        ended.append(None)
    is_held.set()
