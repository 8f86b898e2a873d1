"""A folder of input files, on a local disk or on any path that fsspec knows: list, measure, open.

Names are relative to the folder; those of its own files have no ``/`` in them, and only these are listed.
A listing is a snapshot that nobody has promised: files that come or go while it is made may be in it or
not. Who needs more lists again.
"""

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Protocol, TypeAlias

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from pointstamp.errors import StorageError

Handle: TypeAlias = Any
"""A pyarrow.NativeFile that can seek."""


class Entry(NamedTuple):
    """A file that was found; its size where finding it has told."""

    name: str
    size_bytes: int | None = None


class Folder(Protocol):
    """What is asked of a folder; errors are StorageErrors that name the folder or the file."""

    path: str

    def list(self) -> list[Entry]:
        """The files that lie directly in the folder, in no order."""
        ...

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        ...

    def open(self, name: str) -> Handle:
        """A file opened for reading; FileNotFoundError and other OSErrors as they come."""
        ...


def open_folder(path: str, options: Mapping[str, Any]) -> Folder:
    """The folder at a path or an address such as ``s3://bucket/in``."""
    try:
        system, inside = fsspec.core.url_to_fs(path, **options)
    except (ValueError, ImportError) as error:
        raise StorageError(
            f"the folder {path!r} needs a file system that fsspec knows: {error}. "
            "Install its package, or give a local path."
        ) from error
    if isinstance(system, LocalFileSystem):
        return LocalFolder(inside)
    return RemoteFolder(system, inside, path)


class LocalFolder:
    """A folder of this machine; listing it asks nothing about single files."""

    def __init__(self, path: str) -> None:
        self.path = path

    def list(self) -> list[Entry]:
        """The regular files, and links to such."""
        try:
            with os.scandir(self.path) as entries:
                return [Entry(entry.name) for entry in entries if entry.is_file()]
        except OSError as error:
            raise no_folder(self.path, error) from error

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        try:
            return os.stat(f"{self.path}/{name}").st_size
        except FileNotFoundError:
            return None

    def open(self, name: str) -> Handle:
        """Not mapped: a file that is cut off while it is mapped ends the process."""
        return pa.OSFile(f"{self.path}/{name}")


class RemoteFolder:
    """A folder of a file system that fsspec knows; on object stores a folder without files is not there."""

    def __init__(self, system: Any, inside: str, path: str) -> None:  # noqa: ANN401  fsspec has no types
        self.path = path
        self._system = system
        self._inside = inside.rstrip("/")

    def list(self) -> list[Entry]:
        """The files, with their sizes."""
        try:
            # Listings are cached by many file systems, and an old one would hide what is new.
            self._system.invalidate_cache(self._inside)
            found = self._system.ls(self._inside, detail=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise no_folder(self.path, error) from error
        return [
            Entry(PurePosixPath(each["name"]).name, each.get("size"))
            for each in found
            if each["type"] == "file" and each["name"].rstrip("/") != self._inside
        ]

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        try:
            size: int = self._system.info(f"{self._inside}/{name}")["size"]
        except FileNotFoundError:
            return None
        return size

    def open(self, name: str) -> Handle:
        """As fsspec reads it, in blocks."""
        return pa.PythonFile(self._system.open(f"{self._inside}/{name}", "rb"), mode="r")


def no_folder(path: str, error: OSError) -> StorageError:
    """The error for a folder that cannot be listed or watched."""
    return StorageError(
        f"the folder {path!r} must be there and readable for its files to be found, and is not: "
        f"{error.strerror or error}. Create it; where this is a file, give its folder and pattern=."
    )
