"""Crews that stand by: they join a generation when they are told to, all of them or none, and then work.

Families, and what only each can find:
- *the protocol*: what a member answers, what it keeps for later, and how it ends without having been needed;
- *losses*: a member that is gone, or that fails, before all have joined: nobody has begun;
- *queries*: generation after generation is a crew that stood by, and what is published is what a run without
  losses publishes.
Members are threads here, in a real mesh of unix sockets; processes that die are in ``tests/spark``.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from pointstamp.driver.messages import Failed, Report, Save, Saved, SetOut, post
from pointstamp.errors import PointstampError, SchemaError, TransportError
from pointstamp.journal.history import PartSaved
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import MessageKind
from pointstamp.query.crew import CrewError, MeshCrew
from pointstamp.query.member import be_member
from pointstamp.query.mission import Mission
from pointstamp.query.standby import dismiss, join, set_out, stand_by, unbound
from pointstamp.storage.memory import MemoryStorage
from support.recoverables import expected
from support.recovering import MemorySink
from support.victims import Victim, flow_and_data

WORKERS = 2
SECONDS_MAX = 120.0
CHAIN = [[PartSaved("snapshots/1", 3, 7, b"abc")]]


@contextmanager
def met(folder: Path, generation: int = 1) -> Iterator[list[Mesh]]:
    """The meshes of two members and of the driver, which is the last."""
    count = WORKERS + 1
    listen = f"ipc://{folder}/g{generation}-"
    meshes = [Mesh(n, count, listen=f"{listen}{n}", generation=generation) for n in range(count)]
    try:
        for mesh in meshes:
            mesh.connect([each.address for each in meshes])
        deadline = monotonic() + SECONDS_MAX
        while sum(mesh.greet() for mesh in meshes) < count:
            assert monotonic() < deadline
        yield meshes
    finally:
        for mesh in meshes:
            mesh.close(linger_ms=0)


def mission() -> Mission:
    flow, _ = flow_and_data("running")
    return Mission(flow.plan, {}, MemorySink(), MemoryStorage(), WORKERS, 1, CHAIN, published_through=4)


class Standing(threading.Thread):
    """A member that stands by in a thread."""

    def __init__(self, given: Mission, mesh: Mesh) -> None:
        super().__init__(daemon=True)
        self._given, self._mesh = given, mesh
        self.found: Mission | None = None
        self.error: PointstampError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.found = stand_by(self._given, self._mesh)
        except PointstampError as error:
            self.error = error

    def ended(self) -> "Standing":
        self.join(SECONDS_MAX)
        assert not self.is_alive()
        return self


def nothing() -> None:
    """All that is known otherwise: no member has ended."""


# The protocol.


def test_members_join_a_generation_and_set_out_with_what_its_beginning_decided(tmp_path: Path) -> None:
    given = mission()
    with met(tmp_path) as (first, second, driver):
        members = [Standing(unbound(given), mesh) for mesh in (first, second)]
        now = replace(given, generation=5, is_observed=True)
        join(driver, now, nothing)
        assert all(member.is_alive() for member in members), "nobody begins before all have joined"
        set_out(driver, WORKERS)
        for member in members:
            found = member.ended().found
            assert found is not None
            assert (found.generation, found.chain, found.published_through, found.is_observed) == (
                5,
                CHAIN,
                4,
                True,
            )
        assert [mesh.generation for mesh in (first, second, driver)] == [5, 5, 5]


def test_a_spare_crew_is_sent_without_the_state_of_the_generation_that_runs() -> None:
    sent = unbound(replace(mission(), is_observed=True))
    assert (sent.chain, sent.published_through, sent.is_observed) == ((), -1, False)


def test_what_peers_and_the_driver_say_early_is_kept_in_order(tmp_path: Path) -> None:
    given = mission()
    with met(tmp_path) as (first, second, driver):
        member = Standing(unbound(given), first)
        other = Standing(unbound(given), second)
        join(driver, replace(given, generation=2), nothing)
        # The second sets out, and works, before the first has heard that it may.
        post(driver, 1, SetOut())
        assert other.ended().found is not None
        for number in range(3):
            second.post(0, MessageKind.DATA, bytes([number]))
        post(driver, 0, SetOut())
        post(driver, 0, Save(is_whole=False))
        assert member.ended().found is not None
        kept: list[tuple[int, bytes]] = []
        deadline = monotonic() + SECONDS_MAX
        while len(kept) < 4:
            assert monotonic() < deadline
            kept += [(parcel.sender, bytes(parcel.header)) for parcel in first.collect()]
        assert [header for sender, header in kept if sender == 1] == [b"\0", b"\1", b"\2"]
        assert [sender for sender, _ in kept].count(2) == 1


def test_members_that_nobody_needs_leave(tmp_path: Path) -> None:
    with met(tmp_path) as (first, second, driver):
        members = [Standing(unbound(mission()), mesh) for mesh in (first, second)]
        dismiss(driver, WORKERS)
        assert [(member.ended().found, member.error) for member in members] == [(None, None)] * WORKERS


# Losses.


def test_a_member_that_is_gone_or_fails_lets_nobody_begin(tmp_path: Path) -> None:
    given = replace(mission(), generation=2)
    with met(tmp_path) as (first, second, driver):
        member = Standing(unbound(given), first)
        second.close(linger_ms=0)
        with pytest.raises(TransportError, match="has lost worker 1"):
            join(driver, given, nothing)
        driver.close(linger_ms=0)
        assert member.ended().found is None
    with met(tmp_path, generation=7) as (first, second, driver):
        member = Standing(unbound(given), first)
        post(second, WORKERS, Failed("SchemaError", "worker 1 cannot", ""))
        assert driver.wait(SECONDS_MAX)
        with pytest.raises(SchemaError, match="worker 1 cannot"):
            join(driver, replace(given, generation=8), nothing)
        dismiss(driver, WORKERS)
        assert member.ended().found is None


def test_what_is_known_otherwise_ends_the_wait_for_members(tmp_path: Path) -> None:
    def ended() -> None:
        raise CrewError("all tasks of the crew have ended.")

    with met(tmp_path) as (_, _, driver), pytest.raises(CrewError, match="have ended"):
        join(driver, mission(), ended)


# Queries.


class ThreadCrew(MeshCrew):
    """Members that stood by, in threads; the driver takes one for lost after so many snapshots."""

    def __init__(self, mesh: Mesh, members: list[threading.Thread], snapshots: int | None) -> None:
        super().__init__(mesh, WORKERS)
        self._members = members
        self._left = snapshots

    def collect(self) -> list[tuple[int, Report]]:
        reports = super().collect()
        if self._left is not None:
            self._left -= sum(isinstance(report, Saved) for _, report in reports)
            if self._left <= 0:
                raise CrewError("worker 0 is taken for lost.")
        return reports

    def end(self) -> None:
        dismiss(self._mesh, WORKERS)
        self._mesh.close(linger_ms=50)
        for member in self._members:
            member.join(SECONDS_MAX)


class StandingLauncher:
    """Every crew has stood by, started with the mission of the first generation."""

    def __init__(self, folder: Path, losses: list[int]) -> None:
        self.folder = folder
        self.losses = losses
        self.generations: list[int] = []
        self._template: Mission | None = None

    def launch(self, mission: Mission) -> ThreadCrew:
        if self._template is None:
            self._template = unbound(mission)
        template = self._template
        number = len(self.generations)
        listen = f"ipc://{self.folder}/{number}-"
        meshes = [Mesh(n, WORKERS + 1, listen=f"{listen}{n}") for n in range(WORKERS + 1)]
        addresses = [mesh.address for mesh in meshes]

        def member(worker: int) -> None:
            mesh = meshes[worker]
            mesh.connect(addresses)
            mesh.meet(SECONDS_MAX)
            with suppress(PointstampError):
                now = stand_by(template, mesh)
                if now is not None:
                    be_member(now, mesh, worker)
            mesh.close()

        members = [threading.Thread(target=member, args=(n,), daemon=True) for n in range(WORKERS)]
        for each in members:
            each.start()
        driver = meshes[-1]
        driver.connect(addresses)
        driver.meet(SECONDS_MAX)
        join(driver, mission, nothing)
        set_out(driver, WORKERS)
        self.generations.append(mission.generation)
        return ThreadCrew(driver, members, self.losses.pop(0) if self.losses else None)


def test_generations_of_crews_that_stood_by_publish_what_a_run_without_losses_does(tmp_path: Path) -> None:
    flow, data = flow_and_data("running")
    victim = Victim(tmp_path, flow, data)
    launcher = StandingLauncher(tmp_path, losses=[5, 8])
    victim.supervisor._launcher = launcher
    victim.run()
    assert victim.sink.rows() == expected(flow, data)
    assert victim.supervisor.restarts == 2
    assert launcher.generations == sorted(set(launcher.generations))
    assert len(launcher.generations) == 3
