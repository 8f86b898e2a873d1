"""What the kernel tells of a folder: real files, real events.

Families, and what only each can find:
- *whole*: each way in which a file becomes whole is told, and none before it is;
- *limits*: events that the kernel had to drop, a folder that goes away, disks it does not hear of.
"""

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pointstamp.connectors.files.inotify import FolderEvents, can_watch
from pointstamp.errors import StorageError

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

EVENTS_MAX = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.fixture(name="events")
def _events(tmp_path: Path) -> Iterator[FolderEvents]:
    (tmp_path / "in").mkdir()
    events = FolderEvents(str(tmp_path / "in"))
    yield events
    events.close()


def names(events: FolderEvents) -> set[str]:
    return set(events.read().names)


# Whole


def test_a_file_renamed_into_the_folder_is_told_at_once(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    assert names(events) == set()
    (tmp_path / "elsewhere").rename(tmp_path / "in" / "a")
    assert select.select([events.fileno()], [], [], 180)[0]
    assert names(events) == {"a"}


def test_a_file_that_is_being_written_is_told_when_it_is_closed(events: FolderEvents, tmp_path: Path) -> None:
    with open(tmp_path / "in" / "a", "w") as file:
        assert names(events) == set()
        file.write("x")
        file.flush()
        assert names(events) == set()
    assert names(events) == {"a"}


@pytest.mark.parametrize("is_unlinked", [False, True])
def test_a_file_linked_into_the_folder_is_told_also_where_its_first_name_is_gone(
    events: FolderEvents, tmp_path: Path, is_unlinked: bool
) -> None:
    (tmp_path / "elsewhere").write_text("x")
    os.link(tmp_path / "elsewhere", tmp_path / "in" / "a")
    if is_unlinked:
        (tmp_path / "elsewhere").unlink()
    assert names(events) == {"a"}


def test_an_empty_link_whose_first_name_is_gone_is_told_a_little_later(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    now = [0.0]
    events = FolderEvents(str(tmp_path / "in"), lambda: now[0])
    (tmp_path / "elsewhere").touch()
    os.link(tmp_path / "elsewhere", tmp_path / "in" / "a")
    (tmp_path / "elsewhere").unlink()
    assert names(events) == set()
    now[0] = 0.1
    assert names(events) == {"a"}
    now[0] = 0.2
    assert names(events) == set()
    events.close()


def test_a_file_that_is_open_for_writing_is_not_told_however_long_that_takes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    now = [0.0]
    events = FolderEvents(str(tmp_path / "in"), lambda: now[0])
    with open(tmp_path / "in" / "a", "w") as file:
        for second in range(5):
            now[0] = float(second)
            assert names(events) == set()
            file.write("x")
            file.flush()
    assert events.read().names == ["a"]
    now[0] = 9.0
    assert names(events) == set()
    events.close()


def test_a_symbolic_link_to_a_file_is_told(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "in" / "a").symlink_to(tmp_path / "elsewhere")
    assert names(events) == {"a"}


def test_subfolders_and_pipes_are_not_told(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir()
    os.mkfifo(tmp_path / "in" / "pipe")
    (tmp_path / "in" / "sub" / "a").write_text("x")
    assert names(events) == set()


def test_names_come_in_the_order_of_arrival(events: FolderEvents, tmp_path: Path) -> None:
    for name in ["c", "a", "name with spaces and \u00fc", "b"]:
        (tmp_path / "x").write_text("x")
        (tmp_path / "x").rename(tmp_path / "in" / name)
    assert events.read().names == ["c", "a", "name with spaces and \u00fc", "b"]


# Limits


def test_dropped_events_are_told_as_an_overflow(events: FolderEvents, tmp_path: Path) -> None:
    count = int(EVENTS_MAX.read_text())
    if count > 100_000:
        pytest.skip("this machine keeps too many events to drop one in a test")
    (tmp_path / "in" / "a").write_text("x")
    for number in range(count):
        source, target = ("a", "b") if number % 2 == 0 else ("b", "a")
        os.rename(tmp_path / "in" / source, tmp_path / "in" / target)
    os.rename(tmp_path / "in" / ("b" if count % 2 else "a"), tmp_path / "in" / "dropped")
    overflow = False
    told: set[str] = set()
    while select.select([events.fileno()], [], [], 0)[0]:
        arrived = events.read()
        overflow |= arrived.is_overflow
        told |= set(arrived.names)
    assert overflow
    assert "dropped" not in told


def test_a_folder_that_is_moved_away_is_an_error_that_names_it(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "in").rename(tmp_path / "away")
    with pytest.raises(StorageError, match=r"/in'.*deleted or moved"):
        events.read()


def test_closing_twice_is_closing(events: FolderEvents) -> None:
    events.close()
    events.close()


def test_a_file_cannot_be_watched_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(NotADirectoryError, match="Not a directory"):
        FolderEvents(str(tmp_path / "a"))


def test_this_machines_own_disk_can_be_watched(tmp_path: Path) -> None:
    assert can_watch(str(tmp_path))
