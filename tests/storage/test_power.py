"""Power failures: what somebody could rely on is there afterwards.

Families:
- objects of a writer that was killed before their folder was on the disk: who is told that they are there,
  or has asked for them to be synced, finds them again;
- folders that a killed writer has made: what another has stored in them is there;
- a query whose drivers die one after the other, each at the worst moment.
"""

from pathlib import Path

import pytest

from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.errors import AlreadyStored
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage
from support.disks import Died, Disk
from support.recoverables import FLOWS, expected, rows_of
from support.recovering import spec_of
from support.streams import published_by_epoch


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def _killed(disk: Disk, storage: LocalStorage, name: str, at: str) -> None:
    disk.dies_at = lambda path: path.endswith(at)
    with pytest.raises(Died, match=r"journal|checkpoint"):
        storage.create(name, b"content")


def test_what_was_stored_survives_and_what_a_killed_writer_left_may_not(tmp_path: Path, disk: Disk) -> None:
    LocalStorage(tmp_path).create("journal/0", b"content")
    _killed(disk, LocalStorage(tmp_path), "journal/1", "journal/1")
    assert LocalStorage(tmp_path).list() == ["journal/0", "journal/1"]
    disk.lose_power()
    assert LocalStorage(tmp_path).list() == ["journal/0"]


def test_an_object_that_is_said_to_be_there_is_there_after_the_power_has_failed(
    tmp_path: Path, disk: Disk
) -> None:
    LocalStorage(tmp_path).create("journal/0", b"content")
    _killed(disk, LocalStorage(tmp_path), "journal/1", "journal/1")
    with pytest.raises(AlreadyStored, match="there is already an object 'journal/1'"):
        LocalStorage(tmp_path).create("journal/1", b"another's")
    disk.lose_power()
    assert LocalStorage(tmp_path).read("journal/1") == b"content"


def test_an_object_that_was_seen_and_synced_is_there_after_the_power_has_failed(
    tmp_path: Path, disk: Disk
) -> None:
    LocalStorage(tmp_path).create("journal/0", b"content")
    _killed(disk, LocalStorage(tmp_path), "journal/1", "journal/1")
    LocalStorage(tmp_path).sync("journal/1")
    disk.lose_power()
    assert LocalStorage(tmp_path).read("journal/1") == b"content"


@pytest.mark.parametrize("made", ["checkpoint", "checkpoint/journal"])
def test_an_object_in_a_folder_that_a_killed_writer_has_made_is_there_after_the_power_has_failed(
    made: str, tmp_path: Path, disk: Disk
) -> None:
    _killed(disk, LocalStorage(tmp_path / "checkpoint"), "journal/0", made)
    storage = LocalStorage(tmp_path / "checkpoint")
    storage.create("journal/0", b"content")
    storage.create("journal/1", b"more")
    disk.lose_power()
    assert storage.list() == ["journal/0", "journal/1"]


@pytest.mark.parametrize("after", ["seen", "not yet given a name"])
def test_a_commit_that_was_seen_before_it_was_on_the_disk_is_published_once_whatever_fails_next(
    after: str, tmp_path: Path, disk: Disk
) -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 6, seed=2)

    def run() -> None:
        spec = spec_of(
            flow,
            data,
            LocalStorage(tmp_path / "checkpoint"),
            ParquetSink(str(tmp_path / "out")),
            snapshots=SnapshotPolicy(epochs=1, chain_max=2),
        )
        Supervisor(spec, InProcessLauncher()).run()

    # The first driver dies when commit 2 has its name, and everybody sees it.
    disk.dies_at = lambda path: path.endswith("_pointstamp/000000000002.json")
    with pytest.raises(Died):
        run()
    # The second has committed the next epoch, and dies before or after that can be seen.
    last = "_pointstamp/000000000003.json" if after == "seen" else "-worker-00000-query-"
    disk.dies_at = lambda path: last in path and "epoch-000000000004" not in path
    with pytest.raises(Died):
        run()
    disk.lose_power()
    run()
    wanted = {epoch: rows for (_, epoch), rows in expected(flow, data).items()}
    assert published_by_epoch(tmp_path / "out", "counts") == wanted
