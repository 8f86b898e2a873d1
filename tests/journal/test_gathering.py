"""What is small is stored with its commit: how many writes that takes, and what may be lost with a driver.

- *Counts*: an epoch of few rows is one durable write, and two calls of fsync on a local disk.
- *Ticks*: one that no commit has stored is forgotten with its driver, and its units come again; the first of
  an input, and the final one, are stored at once.
- *Rows*: what a commit holds of the output is there for the next driver, and is not kept after that.
- *Both ways*: a checkpoint with files continues with none, and one without continues with files.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from pointstamp.connectors.sink import Staged
from pointstamp.connectors.source import Unit
from pointstamp.connectors.staging import Origin, StagedFiles
from pointstamp.journal import ledger as ledger_module
from pointstamp.journal.history import Entry, FlowShape, PartSaved, StoredAsOne, Ticked
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content
from support.recoverables import FLOWS, expected, rows_of
from support.recovering import APART, TOGETHER, Growing, MemorySink, spec_of

EPOCHS = 12


def _ledger(storage: MemoryStorage, gathered: int = 8) -> Ledger:
    journal: Journal[Entry] = Journal.open(storage, Entry)
    journal.start_generation("a test", 0.0)
    return Ledger(journal, {"words": Growing(), "others": Growing()}, ticks_gathered_max=gathered)


def _tick(ledger: Ledger, number: int, name: str = "words", *, final: bool = False) -> Ticked:
    return ledger.tick({name: [Unit(str(number), ())]}, ledger.open_from + 1, final=final)


def _stored(storage: MemoryStorage) -> list[str]:
    journal: Journal[Entry] = Journal.open(storage, Entry)
    return [type(entry).__name__ for entry in journal.entries()]


@pytest.mark.parametrize(("how", "writes", "syncs"), [(APART, 3, 6), (TOGETHER, 1, 2)])
def test_an_epoch_of_few_rows_is_one_durable_write(
    how: Mapping[str, int],
    writes: int,
    syncs: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[str] = []
    synced: list[int] = []
    create, fsync = LocalStorage.create, os.fsync

    def counting(self: LocalStorage, name: str, content: Content) -> None:
        counted.append(name)
        create(self, name, content)

    def syncing(handle: int) -> None:
        synced.append(handle)
        fsync(handle)

    monkeypatch.setattr(LocalStorage, "create", counting)
    monkeypatch.setattr(os, "fsync", syncing)
    flow = FLOWS["running"]()
    data, sink = rows_of(flow, EPOCHS, seed=1), MemorySink()
    storage = LocalStorage(tmp_path / "checkpoint")
    spec = spec_of(flow, data, storage, sink, workers=1, epochs_max=1, **how)
    Supervisor(spec, InProcessLauncher()).run()
    assert sink.rows() == expected(flow, data)
    beginning = 6  # a generation, the flow, the first tick; and what is at the end
    assert writes * EPOCHS <= len(counted) <= writes * EPOCHS + beginning
    assert syncs * EPOCHS <= len(synced) <= syncs * EPOCHS + 4 * beginning


def test_a_tick_that_no_commit_has_stored_is_forgotten_with_its_driver() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.begin(FlowShape("flow", "query", {}))
    for number in range(3):
        _tick(ledger, number)
    assert ledger.last_tick == 2
    assert [tick.number for tick in ledger.ticks_stored()] == [0]
    after = _ledger(storage)
    assert (after.last_tick, after.positions["words"], after.open_from) == (0, 1, 1)


def test_ticks_are_stored_with_the_commit_that_follows_them() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.begin(FlowShape("flow", "query", {}))
    for number in range(3):
        _tick(ledger, number)
    ledger.commit(1, [PartSaved("part", 1, 0, b"x")], [], is_whole=True, settled=1)
    assert _stored(storage) == ["GenerationStarted", "FlowShape", "Ticked", "StoredAsOne"]
    after = _ledger(storage)
    assert [tick.number for tick in after.ticks_after(after.chain())] == [2]
    assert after.positions["words"] == 3
    assert after.committed == ledger.committed
    assert after.names_needed() == set()


def test_the_first_tick_of_an_input_and_the_final_one_are_stored_at_once() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.begin(FlowShape("flow", "query", {}))
    _tick(ledger, 0)
    _tick(ledger, 1)
    _tick(ledger, 0, "others")
    assert ledger.ticks_stored() == ledger.ticks
    _tick(ledger, 2, final=True)
    assert _stored(storage)[2:] == ["Ticked", "StoredAsOne", "Ticked"]
    assert _ledger(storage).is_final


def test_a_journal_without_a_summary_is_summarized_after_so_many_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_module, "SUMMARY_ENTRIES_MAX", 5)
    storage = MemoryStorage()
    ledger = _ledger(storage, gathered=1)
    ledger.begin(FlowShape("flow", "query", {}))
    longest = 0
    for number in range(40):
        _tick(ledger, number)
        ledger.summarize_if_long()
        longest = max(longest, len(_stored(storage)))
    assert longest <= 7


def test_what_one_unit_of_a_tick_completes_is_known_to_the_next_driver() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.tick({"words": [Unit("0", ()), Unit("1", (), complete_to=5)]}, 1, final=False)
    for known in (ledger, _ledger(storage)):
        assert known.promises["words"].complete == 5


def test_a_summary_holds_the_ticks_that_were_gathered() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.begin(FlowShape("flow", "query", {}))
    for number in range(3):
        _tick(ledger, number)
    ledger.summarize()
    assert ledger.ticks_stored() == ledger.ticks
    assert _ledger(storage).last_tick == 2


def test_rows_that_a_commit_holds_are_there_for_the_next_driver_and_not_kept_for_long() -> None:
    storage = MemoryStorage()
    ledger = _ledger(storage)
    ledger.begin(FlowShape("flow", "query", {}))
    for number in range(2):
        _tick(ledger, number)
        staged = [Staged("out", number, number, f"piece {number}", 1, 4, 0, b"rows")]
        ledger.commit(number, [PartSaved("part", 1, 0, b"x")], staged, is_whole=True, settled=number)
    ledger.summarize()
    contents = [[piece.content for piece in commit.staged] for commit in ledger.commits]
    assert contents == [[b""], [b"rows"]]
    after = _ledger(storage)
    assert after.committed is not None
    assert [piece.content for piece in after.committed.staged] == [b"rows"]


def test_a_piece_holds_few_rows_itself_and_many_are_a_file() -> None:
    storage = MemoryStorage()
    schema = pa.schema([("x", pa.int64())])
    staged = StagedFiles(storage, {"out": "staged"}, {"out": schema}, Origin("query", 1), 0)
    (few,) = staged.stage("out", {0: [pa.record_batch({"x": [1]})]}, 4096)
    assert not storage.list()
    assert len(few.content) == few.size_bytes
    (many,) = staged.stage("out", {1: [pa.record_batch({"x": list(range(5000))})]}, 4096)
    assert storage.list() == [many.path]
    assert not many.content


@pytest.mark.parametrize(("before", "after"), [(APART, TOGETHER), (TOGETHER, APART)])
def test_a_checkpoint_goes_on_with_or_without_files(
    before: Mapping[str, int], after: Mapping[str, int]
) -> None:
    flow = FLOWS["carried"]()
    data = rows_of(flow, 6, seed=3)
    storage, sink = MemoryStorage(), MemorySink()
    Supervisor(spec_of(flow, data[:3], storage, sink, **before), InProcessLauncher()).run()
    Supervisor(spec_of(flow, data, storage, sink, workers=3, **after), InProcessLauncher()).run()
    assert sink.rows() == expected(flow, data)


def test_entries_that_were_written_before_are_read() -> None:
    old = msgspec.msgpack.encode(["snapshots/1", 10, 7])
    assert msgspec.msgpack.decode(old, type=PartSaved) == PartSaved("snapshots/1", 10, 7)
    tick = Ticked(0, {}, 0, 1)
    stored = msgspec.msgpack.encode(StoredAsOne([tick]))
    assert msgspec.msgpack.decode(stored, type=Entry) == StoredAsOne([tick])
