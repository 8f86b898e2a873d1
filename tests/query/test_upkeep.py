"""Upkeep beside a query: output is compacted while it grows, and the query never depends on it.

- *It works*: a query that runs on leaves few files, with the rows that it would leave without.
- *It is in nobody's way*: a turn that never ends holds up no commit and no stop, one that fails ends nothing.
- *It is owned*: its thread ends with the generation, so that none runs when workers are started.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.published.merging import CompactionPolicy
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.query.crew import InProcessCrew, InProcessLauncher
from pointstamp.query.mission import Mission, QuerySpec
from pointstamp.query.policy import RestartPolicy
from pointstamp.query.query import Query
from pointstamp.query.supervisor import Supervisor, Upkeep
from pointstamp.storage.memory import MemoryStorage
from support.streams import put, until

EPOCHS = 80
EAGER = CompactionPolicy(files=4, keep_seconds=0, pause_seconds=0)


def flow_of(function: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None) -> ps.Dataflow:
    flow = ps.Dataflow("copying")
    rows = flow.stream_input("rows", "x long")
    flow.output("out", rows if function is None else rows.map_batches(function, schema="x long"))
    return flow


def write(folder: Path, numbers: range) -> None:
    for number in numbers:
        put(folder, f"{number:05d}", {"x": [number]})


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pointstamp-upkeep")]


@pytest.mark.parametrize("processes", [None, 2])
def test_a_query_that_runs_on_leaves_few_files_and_its_readers_see_every_epoch(
    tmp_path: Path, processes: int | None
) -> None:
    out = tmp_path / "out"
    sink = ps.io.ParquetSink(str(out), compaction=EAGER)
    (tmp_path / "in").mkdir()
    query = flow_of().start(
        rows=ps.io.files(tmp_path / "in"), checkpoint=tmp_path / "c", output=sink, processes=processes
    )
    for first in range(0, EPOCHS, 20):
        write(tmp_path / "in", range(first, first + 20))
        query.process_all_available(timeout=180)
        table = ps.read_changes(out, "out").sort_by("epoch")
        assert table["x"].to_pylist() == list(range(first + 20))
        assert table["epoch"].to_pylist() == list(range(first + 20))
    until(lambda: len(list((out / "out").iterdir())) < 45)
    assert threads() == ["pointstamp-upkeep-copying"]
    query.stop()
    assert threads() == []
    assert sorted(ps.read_changes(out, "out")["x"].to_pylist()) == list(range(EPOCHS))
    assert query.last_progress is not None
    assert query.last_progress["compactionFailures"] == 0


@dataclass
class Compacting:
    """A sink whose upkeep is what a test says."""

    inner: ParquetSink
    turn: Callable[[Callable[[], bool]], bool]
    pause_seconds: float = 0.0

    def for_query(self, query: str, schemas: Any) -> "Compacting":  # noqa: ANN401 - passed on
        return replace(self, inner=self.inner.for_query(query, schemas))

    def writer(self, worker: int, generation: int) -> Any:  # noqa: ANN401 - passed on
        return self.inner.writer(worker, generation)

    def publisher(self) -> Any:  # noqa: ANN401 - passed on
        return self.inner.publisher()

    def compactor(self) -> "Compacting":
        return self


def started(tmp_path: Path, sink: Compacting) -> Query:
    write(tmp_path / "in", range(5))
    return flow_of().start(rows=ps.io.files(tmp_path / "in"), checkpoint=tmp_path / "c", output=sink)


def test_a_turn_that_takes_for_ever_holds_up_no_commit_and_ends_when_the_query_is_stopped(
    tmp_path: Path,
) -> None:
    begun, told = threading.Event(), threading.Event()

    def turn(is_stopped: Callable[[], bool]) -> bool:
        begun.set()
        until(is_stopped)
        told.set()
        return False

    query = started(tmp_path, Compacting(ParquetSink(str(tmp_path / "out")), turn))
    assert begun.wait(180)
    query.process_all_available(timeout=180)
    assert query.epoch == 4
    query.stop()
    assert told.is_set()
    assert threads() == []


def test_a_turn_that_fails_is_counted_said_and_tried_again_and_the_query_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Semaphore(0)

    def turn(is_stopped: Callable[[], bool]) -> bool:
        tried.release()
        raise OSError("the disk is tired")

    monkeypatch.setattr("pointstamp.query.supervisor.PAUSE_AFTER_FAILURE_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        query = started(tmp_path, Compacting(ParquetSink(str(tmp_path / "out")), turn))
        query.process_all_available(timeout=180)
        for _ in range(3):
            assert tried.acquire(timeout=180)
        assert query.is_active
        write(tmp_path / "in", range(5, 7))
        query.process_all_available(timeout=180)
        query.stop()
    assert query.exception() is None
    assert query.last_progress is not None
    assert query.last_progress["compactionFailures"] >= 2
    assert ps.read_changes(tmp_path / "out", "out").num_rows == 7
    said = [each for each in caplog.messages if "could not be compacted" in each]
    assert said[0].startswith("query 'copying': the output could not be compacted (failure 1; ")
    assert said[0].endswith("the disk is tired")


def test_a_sink_that_should_not_be_compacted_has_no_thread_and_keeps_its_files(tmp_path: Path) -> None:
    write(tmp_path / "in", range(40))
    sink = ps.io.ParquetSink(str(tmp_path / "out"), compaction=None)
    query = flow_of().start(rows=ps.io.files(tmp_path / "in"), checkpoint=tmp_path / "c", output=sink)
    query.process_all_available(timeout=180)
    until(lambda: not threads())
    query.stop()
    assert len(list((tmp_path / "out" / "out").iterdir())) == 40


class Looking(InProcessLauncher):
    """Notes which threads of upkeep there are when workers are started."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []

    def launch(self, mission: Mission) -> InProcessCrew:
        self.seen.append(threads())
        return super().launch(mission)


def test_no_upkeep_runs_while_workers_are_started_again(tmp_path: Path) -> None:
    failures = iter(range(3))

    def fails_at_first(batch: pa.RecordBatch) -> pa.RecordBatch:
        for number in failures:
            raise RuntimeError(f"failure {number}")  # in other words each time, so that it is tried again
        return batch

    sink = ParquetSink(str(tmp_path / "out"), compaction=EAGER)
    launcher = Looking()
    spec = QuerySpec(
        flow_of(fails_at_first).plan,
        {"rows": _source(tmp_path)},
        sink,
        MemoryStorage(),
        1,
        "q",
        restarts=RestartPolicy(pause_seconds=0.0),
        available_now=True,
    )
    supervisor = Supervisor(spec, launcher)
    supervisor.run()
    assert supervisor.restarts == 3
    assert launcher.seen == [[], [], [], []]
    assert threads() == []
    assert ps.read_changes(tmp_path / "out", "out").num_rows == EPOCHS


def _source(tmp_path: Path) -> ps.ports.Source:
    write(tmp_path / "in", range(EPOCHS))
    return ps.io.files(tmp_path / "in")


def test_upkeep_of_a_sink_without_any_starts_nothing() -> None:
    upkeep = Upkeep(None, "q")
    upkeep.start()
    upkeep.wake()
    upkeep.stop()
    assert threads() == []


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert threads() == []
