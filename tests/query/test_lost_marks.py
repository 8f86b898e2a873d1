"""An output that has lost the marks of its commits is an error, never a reason to publish again.

Families:
- sinks: of each sink the marks are removed after one commit, and after two;
- copies: an output that was restored from a copy of any age ends the query, at once;
- ledger: what is known to be published survives a summary, and is implied by the next commit;
- the moment between a commit and its publication, in which an output that is begun and no more is right;
- the moment between the first publication and its entry in the journal, with the marks lost as well;
- publishers without a mark before the first commit, which are rejected;
- a broken driver that asks the sink alone, which publishes rows twice.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from connectors.sqlite_sink import SqliteSink
from pointstamp.connectors.sink import Publisher, StagedLost
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.journal.history import Entry, FlowShape
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.query import recovery
from pointstamp.storage.memory import MemoryStorage
from support.streams import SECONDS_MAX


def _sqlite(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "db")) as db, db:
        db.execute("DELETE FROM commits")


SINKS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], object]]] = {
    "parquet": (lambda folder: str(folder), lambda folder: shutil.rmtree(folder / "_pointstamp")),
    "delta": (lambda folder: ps.io.DeltaSink(str(folder)), lambda folder: shutil.rmtree(folder / "n")),
    "one of your own": (lambda folder: SqliteSink(str(folder / "db")), _sqlite),
}


def _run(folder: Path, output: object, days: int) -> None:
    flow = ps.Dataflow("rows")
    flow.output("n", flow.stream_input("rows", "x long"))
    query = flow.start(
        rows=[pa.record_batch({"x": [day]}) for day in range(days)],
        checkpoint=str(folder / "checkpoint"),
        output=output,  # type: ignore[arg-type]  # one of the kinds above
    )
    try:
        assert query.await_termination(SECONDS_MAX)
    finally:
        query.stop(finish=False)


@pytest.mark.parametrize("days", [1, 2])
@pytest.mark.parametrize("kind", SINKS)
def test_an_output_that_lost_its_marks_is_an_error_and_nothing_is_published(
    kind: str, days: int, tmp_path: Path
) -> None:
    sink_at, lose = SINKS[kind]
    place = tmp_path / "out"
    place.mkdir()
    output = sink_at(place)
    _run(tmp_path, output, days)
    lose(place)
    before = sorted(each for each in place.rglob("*.parquet"))
    with pytest.raises(
        RecoveryError, match=r"published up to epoch \d, but the output has no commit of this"
    ):
        _run(tmp_path, output, days)
    assert sorted(each for each in place.rglob("*.parquet")) == before
    if kind == "one of your own":
        with closing(sqlite3.connect(place / "db")) as db:
            assert db.execute("SELECT count(*) FROM published").fetchone()[0] == days


@pytest.mark.parametrize("copied_after", [1, 2, 3])
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_an_output_that_is_older_than_the_checkpoint_ends_the_query_at_once(
    kind: str, copied_after: int, tmp_path: Path
) -> None:
    place, copy = tmp_path / "out", tmp_path / "copy"
    output = SINKS[kind][0](place)
    for days in range(1, 5):
        _run(tmp_path, output, days)
        if days == copied_after:
            shutil.copytree(place, copy)
    shutil.rmtree(place)
    shutil.copytree(copy, place)
    there = sorted(place.rglob("*.parquet"))
    # Of the last commit only, what was staged could have been published again.
    is_last = copied_after == 3
    said = "that copy is older than the checkpoint: restore a newer" if is_last else "has published up to"
    with pytest.raises(RecoveryError, match=rf"the output ends with epoch {copied_after - 1}.*") as caught:
        _run(tmp_path, output, 5)
    assert said in str(caught.value)
    assert "restarts" not in str(caught.value)
    assert sorted(place.rglob("*.parquet")) == there


@pytest.mark.parametrize("kind", SINKS)
def test_marks_that_are_lost_before_the_first_publication_is_in_the_journal_are_an_error(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink_at, lose = SINKS[kind]
    place = tmp_path / "out"
    place.mkdir()
    output = sink_at(place)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "note_published", _die)
        with pytest.raises(ps.errors.PointstampError, match="died here"):
            _run_once(tmp_path, output)
    lose(place)
    before = sorted(each for each in place.rglob("*.parquet"))
    said = r"^query .rows., output .n. \(\w+Sink\): .* has begun to publish, but the output has no"
    with pytest.raises(RecoveryError, match=said):
        _run(tmp_path, output, 1)
    assert sorted(each for each in place.rglob("*.parquet")) == before
    if kind == "one of your own":
        with closing(sqlite3.connect(place / "db")) as db:
            assert db.execute("SELECT count(*) FROM published").fetchone()[0] == 1


@pytest.mark.parametrize("kind", SINKS)
def test_a_first_commit_whose_marks_are_there_is_not_published_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink_at, _ = SINKS[kind]
    place = tmp_path / "out"
    place.mkdir()
    output = sink_at(place)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "note_published", _die)
        with pytest.raises(ps.errors.PointstampError, match="died here"):
            _run_once(tmp_path, output)
    before = sorted(each for each in place.rglob("*.parquet"))
    _run(tmp_path, output, 1)
    assert sorted(each for each in place.rglob("*.parquet")) == before
    if kind == "one of your own":
        with closing(sqlite3.connect(place / "db")) as db:
            assert db.execute("SELECT count(*) FROM published").fetchone()[0] == 1


@pytest.mark.parametrize("kind", SINKS)
def test_an_output_that_was_begun_and_lost_without_a_commit_is_begun_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink_at, lose = SINKS[kind]
    place = tmp_path / "out"
    place.mkdir()
    output = sink_at(place)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "commit", _die)
        with pytest.raises(ps.errors.PointstampError, match="died here"):
            _run_once(tmp_path, output)
    lose(place)
    _run(tmp_path, output, 1)
    sink = output.for_query("q", {}) if kind == "one of your own" else None
    assert sink is None or sink.publisher().published_through() == 0


def _die(*_: object, **__: object) -> None:
    raise ps.errors.PointstampError("died here")


class _HasNoMark(SqliteSink):
    def begin(self) -> None:
        pass


def test_a_sink_whose_mark_is_not_stored_is_an_error_before_anything_is_committed(tmp_path: Path) -> None:
    said = r"output .n. \(_HasNoMark\): published_through\(\) of the publisher is None after begin\(\), so"
    with pytest.raises(RecoveryError, match=said):
        _run(tmp_path, _HasNoMark(str(tmp_path / "db")), 1)
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        assert db.execute("SELECT count(*) FROM commits").fetchone()[0] == 0


class _Unmarked:
    """A sink, its writer and its publisher in one, whose publisher has no method begin."""

    def for_query(self, *_: object) -> "_Unmarked":
        return self

    def publisher(self) -> "_Unmarked":
        return self

    def writer(self, *_: object) -> "_Unmarked":
        return self

    stage = publish = discard = published_through = _die


def test_a_sink_without_marks_is_rejected_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"_Unmarked is not a publisher. It needs the methods begin,"):
        _run(tmp_path, _Unmarked(), 1)
    assert [each.name for each in (tmp_path / "checkpoint").rglob("*")] == ["query"]  # and no journal


def test_a_broken_driver_that_asks_the_sink_alone_publishes_rows_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish_again(spec: object, ledger: Ledger, publisher: Publisher) -> None:
        del spec
        through = publisher.published_through()
        for commit in ledger.commits:
            if through is None or commit.epoch > through:
                publisher.publish(commit.number, commit.epoch, commit.staged)

    monkeypatch.setattr(recovery, "publish_again", publish_again)
    place = tmp_path / "out"
    place.mkdir()
    _run(tmp_path, SqliteSink(str(place / "db")), 1)
    _sqlite(place)
    _run(tmp_path, SqliteSink(str(place / "db")), 1)
    with closing(sqlite3.connect(place / "db")) as db:
        assert db.execute("SELECT count(*) FROM published").fetchone()[0] == 2


def test_a_commit_that_was_not_published_is_published_by_the_next_generation(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    sink = _DiesOnce(str(place / "db"))
    with pytest.raises(ps.errors.PointstampError, match="no answer"):
        _run_once(tmp_path, sink)
    _run(tmp_path, SqliteSink(str(place / "db")), 1)
    with closing(sqlite3.connect(place / "db")) as db:
        assert db.execute("SELECT count(*) FROM published").fetchone()[0] == 1


def test_a_commit_whose_files_are_gone_since_an_older_driver_published_it_is_no_error(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    with pytest.raises(ps.errors.PointstampError, match="no answer"):
        _run_once(tmp_path, _DiesOnce(str(place / "db")))
    sink = _Overtaken(str(place / "db"))
    _run_once(tmp_path, sink)
    with closing(sqlite3.connect(place / "db")) as db:
        assert db.execute("SELECT count(*) FROM published").fetchone()[0] == 1


class _Overtaken(SqliteSink):
    """An older driver publishes the commit, and removes what was staged, while the new one looks."""

    def publish(self, number: int, epochs_through: int, staged: Any) -> None:  # noqa: ANN401 - as the port has it
        super().publish(number, epochs_through, staged)
        raise StagedLost("it is not there")


class _DiesOnce(SqliteSink):
    """The driver dies after the commit is in the journal, before anything is published."""

    def publish(self, number: int, epochs_through: int, staged: object) -> None:
        raise ps.errors.PointstampError("no answer")


def _run_once(folder: Path, output: Any) -> None:  # noqa: ANN401 - a path or a sink
    flow = ps.Dataflow("rows")
    flow.output("n", flow.stream_input("rows", "x long"))
    query = flow.start(
        rows=[pa.record_batch({"x": [0]})],
        checkpoint=str(folder / "checkpoint"),
        output=output,
        options=ps.QueryOptions(restarts=ps.RestartPolicy(restarts_max=0)),
    )
    try:
        query.await_termination(SECONDS_MAX)
    finally:
        query.stop(finish=False)


def _ledger(storage: MemoryStorage) -> Ledger:
    journal: Journal[Entry] = Journal.open(storage, Entry, query="q")
    journal.start_generation("test", 0.0)
    return Ledger(journal, {})


def test_what_is_published_is_implied_by_the_next_commit_and_survives_a_summary() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.begin(FlowShape("rows", "q", {}))
    assert ledger.published == -1
    assert not ledger.is_output_begun
    ledger.note_begun()
    ledger.note_begun()  # is known
    assert _ledger(storage).is_output_begun
    ledger = _ledger(storage)
    ledger.commit(3, [], [], is_whole=True, settled=-1)
    assert _ledger(storage).published == -1
    ledger = _ledger(storage)
    ledger.note_published(3)
    assert _ledger(storage).published == 3
    ledger = _ledger(storage)
    ledger.commit(5, [], [], is_whole=True, settled=-1)
    ledger.commit(8, [], [], is_whole=True, settled=-1)
    assert ledger.published == 5
    ledger.note_published(8)
    ledger.summarize()
    ledger = _ledger(storage)
    assert ledger.published == 8
    assert ledger.is_output_begun
