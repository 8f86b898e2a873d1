"""Addresses: which storage each one gets, how strong its promise is, and what is said if it cannot be opened.

Families, and what only each can find:
- *choice*: local paths and file addresses are local files; everything else is fsspec's;
- *refusals*: a missing package, an unknown scheme and a slash too few are said in one sentence;
- *exclusion*: stand-ins for packages that can and cannot refuse a taken name: which way is taken, and that an
  error of the package's own is understood where the object is there.
"""

import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pointstamp.errors import AlreadyStored, StorageError
from pointstamp.storage.anywhere import FsspecStorage, storage_at
from pointstamp.storage.local import LocalStorage


@pytest.mark.parametrize("written", ["{}", "file://{}", "file:{}"])
def test_a_local_address_is_local_files(tmp_path: Path, written: str) -> None:
    storage = storage_at(written.format(tmp_path))
    assert isinstance(storage, LocalStorage)
    assert storage.address == str(tmp_path)


def test_a_scheme_is_left_to_fsspec() -> None:
    storage = storage_at("memory://test_a_scheme/x/")
    assert isinstance(storage, FsspecStorage)
    assert storage.is_exclusive
    storage.create("a", b"1")
    assert fsspec.filesystem("memory").cat_file("/test_a_scheme/x/a") == b"1"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("gs://bucket/x", "pip install gcsfs, on the driver and on all workers"),
        ("gcs://bucket/x", "'gcs://bucket/x' needs a package that is not installed: pip install gcsfs"),
        ("abfss://c@account.dfs.core.windows.net/x", "pip install adlfs"),
        ("nowhere://x", "Protocol not known: nowhere. Give a local folder"),
        ("dbfs:/x", "has one slash after 'dbfs:'"),
    ],
)
def test_an_address_that_cannot_be_opened_says_what_to_do(
    address: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)  # as if they were not installed
    for protocol in ("gs", "gcs", "abfss"):
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, protocol, raising=False)
    with pytest.raises(StorageError, match=words):
        storage_at(address)


def test_options_of_a_local_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="takes no options, got key"):
        storage_at(str(tmp_path), key="k")


class _Store(MemoryFileSystem):  # type: ignore[misc]
    """A stand-in for an object store's package that can refuse, with an error of its own."""

    cachable = False
    store: dict[str, Any] = {}  # noqa: RUF012 - as in its base
    pseudo_dirs: list[str] = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        if mode == "create" and self.exists(path):
            raise RuntimeError("412: the condition does not hold")
        super().pipe_file(path, value)


class _OldStore(_Store):
    """One whose package is too old to ask."""

    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes) -> None:  # type: ignore[override]
        super().pipe_file(path, value)


@pytest.mark.parametrize(("package", "is_exclusive"), [(_Store, True), (_OldStore, False)])
def test_a_storage_knows_whether_its_package_can_refuse(
    monkeypatch: pytest.MonkeyPatch, package: type[_Store], is_exclusive: bool
) -> None:
    monkeypatch.setattr(fsspec, "url_to_fs", lambda address, **options: (package(), "/bucket/x"))
    storage = storage_at("s3a://bucket/x")
    assert isinstance(storage, FsspecStorage)
    assert storage.is_exclusive is is_exclusive
    storage.create("a", b"1")
    with pytest.raises(AlreadyStored, match="there is already an object"):
        storage.create("a", b"2")
    assert storage.read("a") == b"1"
    storage.write("a", b"3")
    assert storage.read("a") == b"3"
    assert storage.list() == ["a"]


class _Folders(MemoryFileSystem):  # type: ignore[misc]
    """A stand-in for HDFS: a rename to a taken name fails, unless it is told to replace."""

    cachable = False
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012

    def mv(self, path1: str, path2: str, **options: object) -> None:
        if self.exists(path2) and not options.get("overwrite"):
            raise OSError("HDFS rename failed")
        super().mv(path1, path2)


@pytest.mark.parametrize("scheme", ["hdfs", "unheard-of"])
def test_a_rename_decides_where_there_are_folders(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    root = f"/{scheme}"
    monkeypatch.setattr(fsspec, "url_to_fs", lambda address, **options: (_Folders(), root))
    storage = FsspecStorage(f"{scheme}://host/x")
    assert storage.is_exclusive is (scheme == "hdfs")
    storage.create("a/b", b"1")
    with pytest.raises(AlreadyStored, match="there is already an object"):
        storage.create("a/b", b"2")
    assert storage.list() == ["a/b"]
    assert _Folders().find(root) == [f"{root}/a/b"]  # the loser's new file is gone
    if scheme == "hdfs":
        storage.write("a/b", b"3")
        assert storage.read("a/b") == b"3"
