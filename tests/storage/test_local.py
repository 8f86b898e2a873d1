"""Local files: what a killed writer leaves, what reaches the disk, and how the disk's refusals are said.

Families, and what only each can find:
- *killed writers*: a process that is killed while it writes leaves no object, and what it leaves is swept;
- *durability*: the content and then every folder go to the disk, in this order;
- *refusals*: a full disk, a missing right and a file system without links are said as text.
"""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pointstamp.errors import StorageError
from pointstamp.storage.local import LocalStorage

_DIES_BEFORE_THE_LINK = """
import os, signal, sys
from pointstamp.storage.local import LocalStorage
os.link = lambda new, path: os.kill(os.getpid(), signal.SIGKILL)
LocalStorage(sys.argv[1]).create("journal/7", b"half")
"""


def test_a_killed_writer_leaves_no_object_and_is_swept_up(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    command = [sys.executable, "-c", _DIES_BEFORE_THE_LINK, str(tmp_path)]
    ran = subprocess.run(command, timeout=300, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert storage.list() == []
    (left,) = (tmp_path / "journal").iterdir()
    written_at = left.stat().st_mtime
    assert storage.sweep(before=written_at) == 0  # it might be at work still
    assert storage.sweep(before=written_at + 1) == 1
    assert list((tmp_path / "journal").iterdir()) == []
    storage.create("journal/7", b"whole")
    assert storage.sweep(before=written_at + 1e9) == 0
    assert storage.read("journal/7") == b"whole"


def test_no_file_stays_beside_an_object(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("a", b"1")
    storage.write("a", b"2")
    with pytest.raises(StorageError, match="there is already an object 'a'"):
        storage.create("a", b"3")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_content_goes_to_the_disk_before_its_name_and_the_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def see_fsync(handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        done.append("content" if path.endswith(".new") else os.path.relpath(path, tmp_path))
        fsync(handle)

    def see_link(new: str, path: str) -> None:
        done.append("link")
        link(new, path)

    monkeypatch.setattr(os, "fsync", see_fsync)
    monkeypatch.setattr("pointstamp.storage.local.os.link", see_link)
    LocalStorage(tmp_path).create("a/b/c", b"1")
    inside = [each for each in done if not each.startswith("..")]
    assert inside == ["a", ".", "content", "link", "a/b"]
    assert ".." in done[: done.index("content")], "the folder of the storage itself is durable, too"
    done.clear()
    storage = LocalStorage(tmp_path)
    storage.create("a/b/d", b"1")
    storage.create("a/b/e", b"1")
    assert done[-3:] == ["content", "link", "a/b"], "folders are settled once"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full. Free some space"),
        (errno.EDQUOT, "the quota is used up"),
        (errno.EROFS, "is read-only. Choose another place"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_disk_that_refuses_is_said_in_words_and_nothing_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    storage = LocalStorage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError, match=f"'a' in {tmp_path} could not be stored: .*{words}"):
            storage.create("a", b"1")
    assert storage.list() == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_hard_links_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(new: str, path: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageError, match="has no hard links"):
        LocalStorage(tmp_path).create("a", b"1")


def test_a_folder_that_is_a_file_is_refused_in_words(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("a", b"1")
    with pytest.raises(StorageError, match=r"'a/b' in .* could not be stored: .*Not a directory"):
        storage.create("a/b", b"2")
    storage.delete("a/b")
    assert storage.size("a/b") is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_missing_right_is_said_in_words(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(StorageError, match=r"this user has no permission\. Grant it"):
        LocalStorage(closed).create("a", b"1")
