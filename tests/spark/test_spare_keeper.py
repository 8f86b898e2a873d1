"""Who keeps a spare crew: it is started when it may be, taken over once, replaced when it dies, and ended.

The tasks are threads in a real mesh, and their job is a future that a test ends: no Spark is started here, so
that every end of a spare crew can be chosen.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pointstamp.errors import PointstampError
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.crew import CrewError
from pointstamp.query.mission import Mission
from pointstamp.query.standby import stand_by
from pointstamp.spark import spare
from pointstamp.spark.crew import SparkLauncher
from pointstamp.spark.rendezvous import RendezvousServer
from pointstamp.spark.spare import SpareKeeper
from pointstamp.spark.worker_formation import CrewJob, StartedTasks
from pointstamp.storage.memory import MemoryStorage
from support.recovering import MemorySink
from support.streams import until, words_flow

SECONDS_MAX = 120.0


class FakeJob:
    """A job that runs until its member is done, or a test ends it."""

    def __init__(self) -> None:
        self.outcome: Future[str] = Future()
        self.was_cancelled = False

    @property
    def has_ended(self) -> bool:
        return self.outcome.done()

    def end(self, words: str) -> None:
        if not self.outcome.done():
            self.outcome.set_result(words)

    def when_ended(self, call: Callable[[], None]) -> None:
        self.outcome.add_done_callback(lambda _: call())

    def words(self) -> str | None:
        return self.outcome.result() if self.outcome.done() else None

    def check(self) -> None:
        if self.outcome.done():
            raise CrewError(self.outcome.result())

    def cancel(self, *, waits: bool = True) -> None:
        self.was_cancelled = True
        self.end("cancelled")

    def finish(self) -> None:
        self.outcome.result(SECONDS_MAX)


class FakeLauncher:
    """Starts one member in a thread for each spare crew; the next starts may fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spares: object = None
        self.jobs: list[FakeJob] = []
        self.missions: list[Mission | None] = []
        self.failures: list[Exception] = []
        self.is_wanted: Callable[[], bool] = lambda: True
        self.opened = ExitStack()

    def start(self, mission: Mission, is_wanted: Callable[[], bool], *, is_spare: bool) -> StartedTasks:
        assert is_spare
        if self.failures:
            raise self.failures.pop(0)
        number = len(self.jobs)
        (self.folder / str(number)).mkdir()
        job = FakeJob()
        member, driver = (Mesh(each, 2, listen=f"ipc://{self.folder}/{number}-{each}") for each in (0, 1))
        addresses = [member.address, driver.address]

        def be_task() -> None:
            member.connect(addresses)
            with suppress(PointstampError):
                member.meet(SECONDS_MAX)
                self.missions.append(stand_by(mission, member))
            member.close(linger_ms=0)
            job.end("all tasks of the crew have ended.")

        threading.Thread(target=be_task, daemon=True).start()
        driver.connect(addresses)
        driver.meet(SECONDS_MAX)
        self.jobs.append(job)
        server = RendezvousServer(str(self.folder / str(number)), lambda: "127.0.0.1")
        self.opened.callback(server.close)
        opened = ExitStack()
        return StartedTasks(driver, cast("CrewJob", job), 1, server, opened)


@contextmanager
def kept(folder: Path) -> Iterator[tuple[SpareKeeper, FakeLauncher]]:
    launcher = FakeLauncher(folder)
    keeper = SpareKeeper(cast("SparkLauncher", launcher))
    try:
        yield keeper, launcher
    finally:
        keeper.stop()
        launcher.opened.close()


def mission(generation: int = 1) -> Mission:
    plan = words_flow("words").plan
    return Mission(plan, {}, MemorySink(), MemoryStorage(), 1, generation)


def stands(keeper: SpareKeeper) -> None:
    until(lambda: keeper.is_standing)


def test_a_spare_crew_is_taken_over_once_and_another_is_prepared(tmp_path: Path) -> None:
    with kept(tmp_path) as (keeper, launcher):
        assert launcher.spares is keeper
        assert keeper.taken(mission()) is None, "nothing was prepared"
        for generation in (2, 3):
            keeper.prepare(mission(generation - 1))
            stands(keeper)
            keeper.prepare(mission(generation - 1))  # one is enough
            tasks = keeper.taken(replace(mission(generation), published_through=7))
            assert tasks is not None
            assert not keeper.is_standing
            until(lambda generation=generation: len(launcher.missions) == generation - 1)  # type: ignore[misc]
            found = launcher.missions[-1]
            assert found is not None
            assert (found.generation, found.published_through) == (generation, 7)
            tasks.mesh.close(linger_ms=0)
        assert len(launcher.jobs) == 2


def test_a_spare_crew_ends_with_the_query_and_none_is_prepared_after(tmp_path: Path) -> None:
    with kept(tmp_path) as (keeper, launcher):
        keeper.prepare(mission())
        stands(keeper)
        keeper.stop()
        assert launcher.missions == [None]
        assert launcher.jobs[0].has_ended
        keeper.prepare(mission())
        keeper.stop()
        assert keeper.taken(mission(2)) is None
        assert len(launcher.jobs) == 1


def test_a_spare_crew_that_dies_or_cannot_start_is_replaced_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spare, "_PAUSE_SECONDS", 0.01)
    with kept(tmp_path) as (keeper, launcher):
        launcher.failures = [CrewError("no slots."), RuntimeError("an error of Java's.")]
        keeper.prepare(mission())
        stands(keeper)
        launcher.jobs[0].end("a worker's Python process died.")
        until(lambda: len(launcher.jobs) == 2)
        stands(keeper)
        for words in ("no slots.", "an error of Java's.", "a worker's Python process died."):
            assert f"is lost: {words} Another one starts" in caplog.text


def test_a_spare_crew_that_is_dead_when_it_is_needed_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept(tmp_path) as (keeper, launcher):
        keeper.prepare(mission())
        stands(keeper)

        def lost(*_: Any) -> None:  # noqa: ANN401 - as ``join``
            raise CrewError("worker 0 is gone.")

        monkeypatch.setattr(spare, "join", lost)
        assert keeper.taken(mission(2)) is None
        assert launcher.jobs[0].was_cancelled
        until(lambda: launcher.missions == [None])  # it was told to leave, and has never begun


def test_a_crew_of_which_some_may_have_begun_is_lost_with_its_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept(tmp_path) as (keeper, launcher):
        keeper.prepare(mission())
        stands(keeper)

        def lost(*_: Any) -> None:  # noqa: ANN401 - as ``set_out``
            raise CrewError("worker 0 is gone.")

        monkeypatch.setattr(spare, "set_out", lost)
        with pytest.raises(CrewError, match="worker 0 is gone"):
            keeper.taken(mission(2))
        assert launcher.jobs[0].was_cancelled
