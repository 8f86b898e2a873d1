"""Queries that begin with what another has kept.

- *Going on*: a query of its own resumes from a savepoint as the other one did, on another number of workers,
  and publishes what came after it only.
- *Refusals*: what is not there, or does not fit, is said as text.
- *Names*: a name is given once, and is one; only these ask for savepoints that are still being taken.
"""

from pathlib import Path

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, RecoveryError, StorageError
from pointstamp.journal.history import Entry
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.query.session import Session
from pointstamp.query.start_checks import known_query_id
from pointstamp.storage.local import LocalStorage
from support.streams import SECONDS_MAX

BATCHES = tuple(pa.record_batch({"word": [f"w{(3 * i + j) % 7}" for j in range(4)]}) for i in range(9))


def _flow(*, is_running: bool = True) -> ps.Dataflow:
    flow = ps.Dataflow("words")
    flow.output(
        "counts", flow.stream_input("words", "word string").group_by("word", running=is_running).count()
    )
    return flow


def _counts(path: Path) -> list[tuple[int, str, int]]:
    table = ps.read_changes(str(path), "counts")
    return sorted(zip(*(table[name].to_pylist() for name in ("epoch", "word", "count")), strict=True))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A checkpoint with the savepoint 'monday' at epoch 4, of a query that continued to epoch 8."""
    return _kept(tmp_path, ps.SnapshotPolicy())


@pytest.fixture
def kept_in_files(tmp_path: Path) -> Path:
    """The same, with snapshots in files, which can be damaged one by one."""
    return _kept(tmp_path, ps.SnapshotPolicy(inline_bytes_max=0))


def _kept(tmp_path: Path, snapshots: ps.SnapshotPolicy) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    query = _flow().start(
        words=ps.io.files(str(folder), "arrow"),
        checkpoint=str(tmp_path / "first"),
        output=str(tmp_path / "all"),
        workers=2,
        options=ps.QueryOptions(snapshots=snapshots),
    )
    try:
        for number, batch in enumerate(BATCHES[:5]):
            _put(folder, number, batch)
            query.process_all_available(SECONDS_MAX)  # each is saved by itself: a chain of five
        assert query.savepoint("monday", SECONDS_MAX) == 4
        for number, batch in enumerate(BATCHES[5:], start=5):
            _put(folder, number, batch)
        query.process_all_available(SECONDS_MAX)
    finally:
        query.stop()
    return tmp_path


def _put(folder: Path, number: int, batch: pa.RecordBatch) -> None:
    new = folder / f".{number}"
    with pa.ipc.new_file(str(new), batch.schema) as writer:
        writer.write_batch(batch)
    new.rename(folder / f"{number:03d}.arrow")


def _again(kept: Path, savepoint: str, flow: ps.Dataflow | None = None) -> None:
    query = (flow or _flow()).start(
        words=ps.io.files(str(kept / "in"), "arrow"),
        checkpoint=str(kept / "second"),
        output=str(kept / "rest"),
        workers=3,
        available_now=True,
        options=ps.QueryOptions(savepoint=(str(kept / "first"), savepoint)),
    )
    assert query.await_termination(SECONDS_MAX)


def test_a_query_goes_on_from_what_another_has_kept(kept: Path) -> None:
    _again(kept, "monday")
    assert _counts(kept / "rest") == [each for each in _counts(kept / "all") if each[0] > 4]


def test_it_can_be_started_again_and_the_savepoint_is_not_taken_a_second_time(kept: Path) -> None:
    _again(kept, "monday")
    before = _counts(kept / "rest")
    _again(kept, "monday")
    assert _counts(kept / "rest") == before


def test_a_savepoint_that_is_not_there_is_named_with_those_that_are(kept: Path) -> None:
    with pytest.raises(RecoveryError, match=r"has no savepoint 'tuesday'; it has 'monday'"):
        _again(kept, "tuesday")


def _damaged(kept: Path, how: str, name: str) -> None:
    """Damage the first worker's part of the whole snapshot, the next or the last that 'monday' has kept."""
    storage = LocalStorage(kept / "first")
    journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
    ledger = Ledger(journal, {"words": ps.io.files(str(kept / "in"), "arrow")})
    commit = ledger.savepoints[0].commits[{"whole": 0, "first changes": 1, "last changes": -1}[name]]
    assert commit.is_whole == (name == "whole")
    mine, other = (kept / "first" / part.name for part in commit.parts)
    if how == "gone":
        mine.unlink()
    elif how == "altered":
        mine.write_bytes(mine.read_bytes()[:-1] + b"?")
    else:
        mine.write_bytes(other.read_bytes())


WORDS = {
    "gone": "there is no object",
    "altered": "was altered",
    "another's": "contains the object that was written as",
}


@pytest.mark.parametrize("how", WORDS)
def test_a_savepoint_with_a_part_that_is_not_its_own_is_refused(kept_in_files: Path, how: str) -> None:
    kept = kept_in_files
    _damaged(kept, how, "whole")
    with pytest.raises(RecoveryError, match=rf"savepoint 'monday' of .* is damaged: .*{WORDS[how]}"):
        _again(kept, "monday")


@pytest.mark.parametrize("how", WORDS)
@pytest.mark.parametrize("which", ["first changes", "last changes"])
def test_where_what_changed_is_not_its_own_what_came_before_is_gone_on_from(
    kept_in_files: Path, how: str, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = kept_in_files
    _damaged(kept, how, which)
    _again(kept, "monday")
    assert WORDS[how] in caplog.text
    assert _counts(kept / "rest") == [each for each in _counts(kept / "all") if each[0] > 4]


def test_a_flow_that_does_not_fit_is_refused(kept: Path) -> None:
    with pytest.raises(RecoveryError, match="the checkpoint belongs to another flow"):
        _again(kept, "monday", _flow(is_running=False))


def test_a_folder_without_a_journal_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(RecoveryError, match="is not a checkpoint"):
        _again(tmp_path, "monday")


# Names.


def _open(kept: Path) -> ps.Query:
    return _flow().start(
        words=ps.io.files(str(kept / "in"), "arrow"), checkpoint=str(kept / "first"), output=str(kept / "all")
    )


def test_a_name_that_was_given_is_refused_also_after_a_restart_and_its_savepoint_stays(kept: Path) -> None:
    query = _open(kept)
    try:
        with pytest.raises(FlowError, match=r"'monday' was taken at epoch 4. Choose another name"):
            query.savepoint("monday", SECONDS_MAX)
        assert query.savepoint("monday 2", SECONDS_MAX) == 8
        assert query.is_active
    finally:
        query.stop()
    _again(kept, "monday")
    assert min(_counts(kept / "rest"))[0] == 5


@pytest.mark.parametrize("name", ["", " ", None, 7], ids=repr)
def test_what_is_no_name_is_refused(kept: Path, name: str) -> None:
    query = _open(kept)
    try:
        with pytest.raises(FlowError, match=r"the name of a savepoint must be a string"):
            query.savepoint(name, SECONDS_MAX)
    finally:
        query.stop()


@pytest.mark.parametrize("is_lost", [False, True], ids=["kept", "lost"])
def test_a_name_that_is_being_given_is_refused_and_is_free_again_where_its_workers_are_lost(
    tmp_path: Path, is_lost: bool
) -> None:
    (tmp_path / "in").mkdir()
    query = _open(tmp_path)
    try:
        # There is no epoch to save yet: it is asked for, and not waited for.
        with pytest.raises(RecoveryError, match="has not answered for 0 seconds"):
            query.savepoint("monday", 0.0)
        with pytest.raises(FlowError, match=r"'monday' is being taken. Choose another name"):
            query.savepoint("monday", SECONDS_MAX)
        if is_lost:
            query._supervisor.call(_lose)
        _put(tmp_path / "in", 0, BATCHES[0])
        query.process_all_available(SECONDS_MAX)
        if is_lost:
            assert query.savepoint("monday", SECONDS_MAX) == 0
        with pytest.raises(FlowError, match=r"'monday' was taken at epoch 0. Choose another name"):
            query.savepoint("monday", SECONDS_MAX)
    finally:
        query.stop()


def _lose(session: Session) -> None:
    raise StorageError("the workers are lost here")
