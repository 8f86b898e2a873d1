"""Tasks register at the driver's socket and become workers, over real sockets and without Spark.

Families, and what only each can find:
- threads that play tasks, over a unix socket and over TCP: that all of a roster meet, that late tasks
  end, and that a second attempt waits until the driver closes;
- connections that are not from a task: garbage, silence, and more of them than there may be;
- a driver that cannot be reached, or cannot listen: one sentence with the setting to change.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from pointstamp.errors import TransportError
from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.rendezvous import Placement, Register, Rendezvous
from pointstamp.spark import rendezvous as module
from pointstamp.spark.rendezvous import Membership, RendezvousPlace, RendezvousServer, register
from support.streams import until

VERSIONS = {"Python": "3.11"}
SECONDS_MAX = 60.0


class Task:
    """A task in a thread: it registers, and once it is a worker it meets the others."""

    def __init__(self, place: RendezvousPlace, partition: int, folder: Path | None, attempt: int = 0) -> None:
        self.outcome: list[Membership | None] = []
        self.mesh: Mesh | None = None
        self._folder = folder
        self._place = place
        self._hello = Register(partition, attempt, "here", VERSIONS)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _build(self, seat: Placement, own: str) -> Mesh:
        listen = own if self._folder is None else f"ipc://{self._folder}/{seat.round}-{seat.number}"
        return Mesh(seat.number, seat.workers + 1, listen=listen)

    def _run(self) -> None:
        membership = register(self._place, self._hello, self._build)
        if membership is not None:
            self.mesh = membership.mesh
            self.mesh.connect(membership.roster.addresses)
            self.mesh.meet(SECONDS_MAX)
        self.outcome.append(membership)

    def close(self) -> None:
        for membership in self.outcome:
            if membership is not None:
                membership.close()
                membership.mesh.close(linger_ms=0)


class Driver:
    """The driver's side: a server, and its own mesh once the number of workers is known."""

    def __init__(self, folder: Path | None, wish: int, least: int) -> None:
        self.folder = folder
        place = None if folder is None else str(folder)
        self.server = RendezvousServer(place, lambda: "127.0.0.1")
        self.machine = Rendezvous(wish, least, VERSIONS, now_seconds=monotonic(), settle_seconds=0.2)
        self.server.serve(self.machine, self._address)
        self.mesh: Mesh | None = None
        self.tasks: list[Task] = []

    def _address(self, workers: int) -> Address:
        if self.mesh is None:
            listen = "tcp://127.0.0.1:0" if self.folder is None else f"ipc://{self.folder}/driver"
            self.mesh = Mesh(workers, workers + 1, listen=listen)
        return self.mesh.address

    def task(self, partition: int, attempt: int = 0) -> Task:
        self.tasks.append(Task(self.server.place, partition, self.folder, attempt))
        return self.tasks[-1]

    def until(self, is_so: Callable[[], object]) -> None:
        def look() -> bool:
            self.server.poll(0.01)
            return bool(is_so())

        until(look, SECONDS_MAX)

    def meet(self) -> None:
        roster = self.machine.roster
        assert roster is not None
        assert self.mesh is not None
        mesh = self.mesh
        mesh.connect([*roster.addresses, mesh.address])
        self.until(mesh.greet)

    def close(self) -> None:
        self.server.close()
        for task in self.tasks:
            task.thread.join(SECONDS_MAX)
            task.close()
        if self.mesh is not None:
            self.mesh.close(linger_ms=0)


@contextmanager
def driver(folder: Path | None, wish: int, least: int = 1) -> Iterator[Driver]:
    made = Driver(folder, wish, least)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=["unix", "tcp"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return tmp_path_factory.mktemp("r") if request.param == "unix" else None


def test_tasks_become_workers_and_meet(folder: Path | None) -> None:
    with driver(folder, 3, 3) as each:
        tasks = [each.task(partition) for partition in (2, 0, 1)]
        each.until(lambda: each.machine.roster)
        each.meet()
        each.until(lambda: all(task.outcome for task in tasks))
        seats = [task.outcome[0].seat.number for task in tasks if task.outcome[0] is not None]
        assert seats == [2, 0, 1]


def test_fewer_tasks_are_enough_after_a_while_and_later_ones_end(folder: Path | None) -> None:
    with driver(folder, 3, 1) as each:
        first = each.task(1)
        each.until(lambda: each.machine.roster)
        each.meet()
        each.until(lambda: first.outcome)
        late = each.task(0)
        each.until(lambda: late.outcome)
        assert late.outcome == [None]
        assert (each.server.late, each.server.wish) == (1, 3)


def test_a_second_attempt_waits_as_long_as_the_first_works(folder: Path | None) -> None:
    with driver(folder, 1, 1) as each:
        first = each.task(0)
        each.until(lambda: each.machine.roster)
        each.meet()
        each.until(lambda: first.outcome)
        copy = each.task(0, attempt=1)
        deadline = monotonic() + 0.5
        each.until(lambda: monotonic() > deadline)
        assert copy.outcome == []
    assert copy.outcome == [None]


def test_what_is_not_a_task_is_dropped_and_costs_no_worker(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_UNREGISTERED_MAX", 4)
    monkeypatch.setattr(module, "_REGISTER_SECONDS_MAX", 0.3)
    with driver(folder, 1, 1) as each:
        place = each.server.place
        strangers = [socket.socket(place.family, socket.SOCK_STREAM) for _ in range(6)]
        for number, stranger in enumerate(strangers):
            stranger.connect(place.address)
            if number % 2:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nX: " + b"x" * 200)
        task = each.task(0)
        each.until(lambda: each.machine.roster)
        each.meet()
        each.until(lambda: task.outcome)
        deadline = monotonic() + 0.5
        each.until(lambda: monotonic() > deadline)
        assert len(each.server._open) == 1, "only the task is left"
        for stranger in strangers:
            stranger.close()
    assert "a connection to the rendezvous of a query was closed" in caplog.text


def test_a_driver_that_is_not_there_is_named_with_the_setting() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = RendezvousPlace(socket.AF_INET, unused.getsockname(), b"secret")
        with pytest.raises(
            TransportError, match=r"cannot reach the driver at .* Set spark.driver.host|set spark"
        ):
            register(place, Register(0, 0, "here", VERSIONS), lambda seat, own: Mesh(0, 2))
    assert "secret" not in repr(place)


def test_an_address_that_is_not_this_hosts_is_named_with_the_setting() -> None:
    with pytest.raises(
        TransportError, match=r"cannot listen for its workers at '192\.0\.2\.1'.*POINTSTAMP_DRIVER"
    ):
        RendezvousServer(None, lambda: "192.0.2.1")
