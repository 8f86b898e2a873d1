"""Workers stuck in native code that holds Python's global lock: seen from outside, named, killed, replaced.

No thread of such a worker runs, so only the driver can notice. What it sees is in memory that it shares with
its workers, and in the kernel's account of them.

Families, and what only each can find:
- what is concluded, with a clock and an account that the test moves: who is silent, stopped or starved;
- a query and a run in processes with a regular expression that never ends.
"""

import logging
import re
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.published.reader import read_changes
from pointstamp.driver.liveness import LOOK_SECONDS, Account, Board, Silent
from pointstamp.driver.processes import ProcessRun
from pointstamp.errors import TransportError

SECONDS_MAX: Final = 60.0
SILENCE_SECONDS: Final = 3.0


def stuck(mark: Path) -> ps.Dataflow:
    """A flow that gets stuck once: while a file is there, which it removes."""

    def match(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 3 in batch.column("x").to_pylist() and mark.exists():
            mark.unlink()
            re.match(r"(a+)+$", "a" * 60 + "b")
        return batch

    flow = ps.Dataflow("stuck")
    flow.output("out", flow.stream_input("numbers", "x long").exchange("x").map_batches(match).named("match"))
    return flow


def test_a_query_names_a_worker_that_is_stuck_in_native_code_and_replaces_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    caplog.set_level(logging.WARNING, "pointstamp.query")
    query = stuck(mark).start(
        numbers=pa.table({"x": list(range(8))}),
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        processes=2,
        options=ps.QueryOptions(silence_seconds_max=SILENCE_SECONDS),
    )
    try:
        deadline = monotonic() + SECONDS_MAX
        while mark.exists():
            assert monotonic() < deadline
            sleep(0.01)
        begun = monotonic()
        words = query.why("out")
        assert monotonic() - begun < SILENCE_SECONDS, "it must not wait for a worker that cannot answer"
        while not query.restarts and not any("operator 'match'" in each for each in words):
            words = query.why("out")
            assert monotonic() < deadline
        assert any("inside operator 'match'" in each for each in words), words
        query.process_all_available(SECONDS_MAX)
    finally:
        query.stop(finish=False)
    assert query.restarts == 1
    assert sorted(read_changes(tmp_path / "out", "out")["x"].to_pylist()) == list(range(8))
    assert re.search(r"worker \d \(process \d+\) .* operator 'match' .* was killed", caplog.text), caplog.text


def test_a_run_names_the_operator_that_is_stuck_in_native_code(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    said = r"worker \d \(process \d+\) was inside operator 'match' .* and was killed"
    with ProcessRun(stuck(mark).plan, 2, silence_seconds_max=SILENCE_SECONDS) as run:
        run.input("numbers").send(pa.table({"x": list(range(8))}))
        with pytest.raises(TransportError, match=said):
            run.settle()


# What is concluded.


class Watched:
    """A board with one worker, and what the kernel says of its process."""

    def __init__(self) -> None:
        self.board = Board.create(1)
        self.account = Account("R", 0.0)
        self.silent = Silent(self.board, lambda _: self.account)
        self.now = 0.0
        self.place = Board.open(self.board.place).of(0)

    def after(self, seconds: float, *, state: str = "R", busy: float = 1.0, beats: bool = False) -> float:
        """How long the worker has been silent when so much more time has passed, a look every half second."""
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            self.account = Account(state, self.account.cpu_seconds + busy / 2)
            if beats:
                self.place.beat()
            self.silent.look(self.now)
        return self.silent.seconds(0)


def test_a_worker_is_silent_while_it_runs_and_shows_no_sign() -> None:
    watched = Watched()
    assert watched.after(5.0) == 0.0, "it has not begun yet"
    assert watched.after(5.0, beats=True) == 0.0
    watched.place.enter(3)
    assert watched.after(5.0) == pytest.approx(5.0)
    assert watched.board.of(0).operator == 3
    watched.place.leave()
    assert watched.after(0.5, beats=True) == 0.0
    assert watched.board.of(0).operator is None


def test_a_worker_that_sleeps_with_the_lock_is_silent_too() -> None:
    watched = Watched()
    watched.after(1.0, beats=True)
    assert watched.after(5.0, state="S", busy=0.0) == pytest.approx(5.0)


@pytest.mark.parametrize(("state", "busy"), [("T", 0.0), ("R", 0.0)], ids=["stopped", "starved"])
def test_a_worker_that_the_machine_does_not_let_run_is_not_silent(state: str, busy: float) -> None:
    watched = Watched()
    watched.after(1.0, beats=True)
    assert watched.after(20.0, state=state, busy=busy) <= LOOK_SECONDS


def test_a_driver_that_stood_still_itself_concludes_nothing_from_that() -> None:
    watched = Watched()
    watched.after(1.0, beats=True)
    watched.now += 100.0
    assert watched.after(0.5) <= 1.0


def test_a_worker_that_has_ended_is_not_silent() -> None:
    watched = Watched()
    watched.after(1.0, beats=True)
    watched.place.end()
    assert watched.after(20.0) == 0.0
