"""Files of savepoints: each stays as long as something needs it, and no longer.

- *adopted*: what a query has copied from another's savepoint goes when its own snapshots have replaced it,
  however often the other one had been started;
- *dropped*: a savepoint that is dropped, by a query that runs or from outside, leaves nothing behind; others,
  and what the query resumes from, stay;
- *refusals*: names that are not there, checkpoints that are none or that a process is at work on.
"""

import os
from pathlib import Path

import pytest

import pointstamp as ps
from pointstamp.cli.main import main
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.journal import ledger as ledger_module
from pointstamp.journal.history import Entry
from pointstamp.journal.journal import Journal
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.start_checks import known_query_id
from pointstamp.storage.local import LocalStorage
from support.options import with_options
from support.streams import SECONDS_MAX, published_by_epoch, put, words_flow

POLICY = SnapshotPolicy(epochs=1, chain_max=1, keep=1, inline_bytes_max=0)


def _open(folder: Path, name: str = "first", **options: object) -> ps.Query:
    (folder / "in").mkdir(exist_ok=True)
    return words_flow("words").start(
        words=ps.io.files(str(folder / "in")),
        checkpoint=str(folder / name),
        output=str(folder / f"output of {name}"),
        **with_options(options, ps.QueryOptions(snapshots=POLICY)),
    )


def _more(folder: Path, query: ps.Query, first: int, last: int) -> None:
    for number in range(first, last + 1):
        put(folder / "in", f"{number:03d}", {"word": [f"w{number % 3}"]})
        query.process_all_available(SECONDS_MAX)


def _parts(folder: Path, name: str = "first") -> set[str]:
    return {each.name for each in (folder / name / "snapshots").iterdir()}


def test_what_was_copied_from_a_savepoint_goes_when_it_is_needed_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):  # so that the savepoint is of a higher generation than the other query's
        query = _open(tmp_path)
        _more(tmp_path, query, number, number)
        if number == 3:
            query.savepoint("monday", SECONDS_MAX)
        query.stop()
    monkeypatch.setattr(ledger_module, "SUMMARY_ENTRIES_MAX", 5)
    query = _open(tmp_path, "second", savepoint=(str(tmp_path / "first"), "monday"))
    query.process_all_available(SECONDS_MAX)
    copied = _parts(tmp_path, "second")
    assert copied
    _more(tmp_path, query, 4, 12)
    try:
        assert not copied & _parts(tmp_path, "second")
    finally:
        query.stop()


def test_a_savepoint_that_is_dropped_leaves_nothing_and_the_others_stay(tmp_path: Path) -> None:
    query = _open(tmp_path)
    _more(tmp_path, query, 0, 1)
    query.savepoint("monday", SECONDS_MAX)
    monday = _parts(tmp_path)
    _more(tmp_path, query, 2, 3)
    query.savepoint("tuesday", SECONDS_MAX)
    _more(tmp_path, query, 4, 5)
    query.drop_savepoint("monday")
    left = _parts(tmp_path)
    assert not monday & left
    assert len(left) == 2, "of Tuesday, and of the last epoch"
    with pytest.raises(FlowError, match=r"has no savepoint 'monday' to drop; it has 'tuesday'"):
        query.drop_savepoint("monday")
    query.drop_savepoint("tuesday")
    assert len(_parts(tmp_path)) == 1
    assert query.savepoint("monday", SECONDS_MAX) == 5, "a name that was dropped is free again"
    query.stop()
    assert _epochs(tmp_path / "output of first") == list(range(6))
    with pytest.raises(RecoveryError, match=r"has no savepoint 'tuesday'; it has 'monday'"):
        _open(tmp_path, "second", savepoint=(str(tmp_path / "first"), "tuesday")).awaitTermination(
            SECONDS_MAX
        )


def _epochs(path: Path) -> list[int]:
    return list(published_by_epoch(path, "counts"))


def _stopped(folder: Path, *, is_owned_elsewhere: bool) -> None:
    """A checkpoint with two savepoints, and ten epochs after them."""
    query = _open(folder)
    for number, name in enumerate(("monday", "tuesday")):
        _more(folder, query, number, number)
        query.savepoint(name, SECONDS_MAX)
    _more(folder, query, 2, 11)
    query._supervisor.call(lambda session: session.coordinator.ledger.summarize()).result(SECONDS_MAX)
    query.stop()
    if is_owned_elsewhere:
        storage = LocalStorage(folder / "first")
        journal: Journal[Entry] = Journal.open(storage, Entry, query=known_query_id(storage))
        journal.start_generation("process 1 on another host", 0.0)


def test_a_savepoint_is_dropped_by_command_and_the_query_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _stopped(tmp_path, is_owned_elsewhere=True)
    before = _parts(tmp_path)
    path = str(tmp_path / "first")
    assert main(["snapshots", path, "--drop-savepoint", "friday"]) == 2
    assert "has no savepoint 'friday' to drop; it has 'monday', 'tuesday'" in capsys.readouterr().err
    assert main(["snapshots", path, "--drop-savepoint", "monday"]) == 0
    assert "savepoint 'monday' is dropped" in capsys.readouterr().out
    assert {name[:12] for name in before} >= {"000000000000", "000000000001", "000000000011"}
    assert {name[:12] for name in _parts(tmp_path)} == {"000000000001", "000000000011"}
    assert main(["snapshots", path]) == 0
    said = capsys.readouterr().out
    assert "'tuesday'" in said
    assert "'monday'" not in said
    query = _open(tmp_path)
    _more(tmp_path, query, 12, 13)
    query.stop()
    assert _epochs(tmp_path / "output of first") == list(range(14))


def test_a_savepoint_of_a_query_that_may_be_at_work_is_not_dropped_from_outside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _stopped(tmp_path, is_owned_elsewhere=False)
    before = _parts(tmp_path)
    assert main(["snapshots", str(tmp_path / "first"), "--drop-savepoint", "monday"]) == 2
    said = capsys.readouterr().err
    assert f"process {os.getpid()} on" in said
    assert "query.drop_savepoint('monday')" in said
    assert _parts(tmp_path) == before
