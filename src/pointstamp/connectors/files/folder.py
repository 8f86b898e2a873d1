"""List, measure and open files of a local or fsspec folder.

Names are relative to the folder. Listed are the files directly in it, and those in folders that are named
after a column and its value (``day=2024-01-31/part-0.parquet``), at any depth. If a listing meets other
subfolders and nothing else, that is remembered for the warning. A listing is not an exact snapshot: files
that come or go while it is made may be in it or not. A caller that needs more lists again.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from pointstamp.connectors.files.wholeness import Seen, State, look_at
from pointstamp.errors import StorageError
from pointstamp.redaction import harmless, redact, redact_text

# Stores in which an object is there when it is whole.
_OBJECT_STORES: Final = frozenset(
    ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "r2", "http", "https", "memory")
)
_CHANGES: Final = ("size", "mtime", "modified", "last_modified", "LastModified", "modificationTime")
_TIMES: Final = (*_CHANGES[1:], "updated", "created")
_MILLISECONDS_FROM: Final = 1e11  # Hadoop has milliseconds since 1970, others have seconds
_HIDDEN: Final = "._"  # how names begin that are never input

Handle: TypeAlias = Any
"""A pyarrow.NativeFile that can seek."""

_Names: TypeAlias = list[str]


class Entry(NamedTuple):
    """A file that was found; with its size and the store's mark for its content, if the listing gave them.

    ``modified`` is when it was last written, in seconds since 1970.
    """

    name: str
    size_bytes: int | None = None
    identity: str | None = None
    modified: float | None = None


class FileTimes(NamedTuple):
    """The times of a file's last write and of its arrival in the folder, in seconds since 1970."""

    modified: float
    arrived: float


class Folder(Protocol):
    """The folder interface; errors are StorageErrors that name the folder or the file."""

    path: str
    subfolders: Sequence[str]
    """The subfolders that the last listing met, if it met no file except hidden ones."""

    def list(self) -> list[Entry]:
        """The files that lie directly in the folder or in folders named after columns, in no order."""
        ...

    def times(self, name: str) -> FileTimes | None:
        """The times of a file's last write and arrival; None if it does not exist or the store has none."""
        ...

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        ...

    def look(self, name: str) -> Seen:
        """Return whether a file is complete, as far as that can be known."""
        ...

    def entry(self, name: str) -> Entry | None:
        """A file as it is now, with its size and identity; None where there is none."""
        ...

    def identity(self, name: str, handle: Handle) -> str | None:
        """The identity of what a handle reads; None if it cannot be found out."""
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
            f"the folder {redact(path)!r} needs a file system that fsspec knows: "
            f"{redact_text(str(error), path)}. "
            "Install its package, or give a local path."
        ) from harmless(error, path)
    if isinstance(system, LocalFileSystem):
        return LocalFolder(inside)
    return RemoteFolder(system, inside, path)


class LocalFolder:
    """A folder of this machine; listing it asks nothing about single files."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.subfolders: Sequence[str] = ()

    def list(self) -> list[Entry]:
        """The regular files, and links to such."""
        others: _Names = []
        try:
            files = list(self._found("", others))
        except OSError as error:
            raise no_folder(self.path, error) from error
        self.subfolders = _only_subfolders(files, others)
        return files

    def _found(self, inside: str, others: _Names) -> Iterator[Entry]:
        """The files of the folder, or of one of its partitions; other folders of it are only noted."""
        with os.scandir(f"{self.path}/{inside}") as entries:
            partitions: _Names = []
            for entry in entries:
                if entry.is_file():
                    yield Entry(inside + entry.name)
                elif entry.is_dir():
                    (partitions if is_partition(entry.name) else others).append(entry.name)
        for name in partitions:
            try:
                yield from self._found(f"{inside}{name}/", [])
            except FileNotFoundError:
                continue  # it was removed meanwhile

    def times(self, name: str) -> FileTimes | None:
        """By the clock of the file system; a file that was renamed has arrived then."""
        try:
            found = os.stat(f"{self.path}/{name}")
        except OSError:
            return None
        return FileTimes(found.st_mtime_ns / 1e9, found.st_ctime_ns / 1e9)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        try:
            return os.stat(f"{self.path}/{name}").st_size
        except FileNotFoundError:
            return None

    def look(self, name: str) -> Seen:
        """Return whether a file is complete, as far as the kernel knows."""
        return look_at(f"{self.path}/{name}")

    def entry(self, name: str) -> Entry | None:
        """A file as it is now, with its size and identity; None where there is none."""
        try:
            with self.open(name) as handle:
                return Entry(name, handle.size(), self.identity(name, handle))
        except FileNotFoundError:
            return None
        except OSError:
            # Whoever reads it will say that it cannot be read.
            size = self.size(name)
            return None if size is None else Entry(name, size)

    def identity(self, name: str, handle: Handle) -> str | None:
        """The identity of its bytes."""
        found = identity_of(handle.size(), lambda size, at: handle.read_at(size, at))
        handle.seek(0)
        return found

    def open(self, name: str) -> Handle:
        """Not mapped: a file that is cut off while it is mapped ends the process."""
        return pa.OSFile(f"{self.path}/{name}")


class RemoteFolder:
    """A folder of a file system that fsspec knows; on object stores a folder without files is not there."""

    def __init__(self, system: Any, inside: str, path: str) -> None:  # noqa: ANN401  fsspec has no types
        self.path = path
        self._system = system
        self._inside = inside.rstrip("/")
        self.subfolders: Sequence[str] = ()
        protocol = system.protocol
        self._shows_whole = not _OBJECT_STORES.isdisjoint(
            (protocol,) if isinstance(protocol, str) else protocol
        )

    def list(self) -> list[Entry]:
        """The files, with their sizes and times."""
        others: _Names = []
        # Listings are cached by many file systems, and an old one would hide what is new.
        self._system.invalidate_cache(self._inside)
        files = list(self._found("", others))
        self.subfolders = _only_subfolders(files, others)
        return files

    def _found(self, prefix: str, others: _Names) -> Iterator[Entry]:
        """The files of the folder, or of one of its partitions; other folders of it are only noted."""
        address = f"{self._inside}/{prefix}".rstrip("/") if prefix else self._inside
        try:
            found = self._system.ls(address, detail=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise no_folder(self.path, error) from error
        for each in found:
            name = PurePosixPath(each["name"]).name
            if each["name"].rstrip("/") == address:
                continue
            if each["type"] == "file":
                yield Entry(prefix + name, each.get("size"), mark_of(each), _modified(each))
            elif each["type"] == "directory" and is_partition(name):
                yield from self._found(f"{prefix}{name}/", [])
            elif each["type"] == "directory":
                others.append(name)

    def times(self, name: str) -> FileTimes | None:
        """The time of the store, which has one: that of the last change."""
        try:
            modified = _modified(self._details(name))
        except OSError:
            return None
        return None if modified is None else FileTimes(modified, modified)

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        entry = self.entry(name)
        return None if entry is None else entry.size_bytes

    def look(self, name: str) -> Seen:
        """Return whether a file is complete: always in an object store, and never known elsewhere."""
        if self._shows_whole:
            return Seen(State.WHOLE)
        try:
            details = self._details(name)
        except FileNotFoundError:
            return Seen(State.GONE)
        return Seen(State.UNKNOWN, tuple(str(details.get(key)) for key in _CHANGES))

    def entry(self, name: str) -> Entry | None:
        """A file as it is now, with its size and the store's mark; None where there is none."""
        try:
            details = self._details(name)
        except FileNotFoundError:
            return None
        return Entry(name, details["size"], mark_of(details), _modified(details))

    def identity(self, name: str, handle: Handle) -> str | None:
        """The store's mark."""
        return mark_of(self._details(name))

    def _details(self, name: str) -> Mapping[str, Any]:
        self._system.invalidate_cache(self._inside)
        details: Mapping[str, Any] = self._system.info(f"{self._inside}/{name}")
        return details

    def open(self, name: str) -> Handle:
        """Open the object with fsspec, which reads blocks."""
        return pa.PythonFile(self._system.open(f"{self._inside}/{name}", "rb"), mode="r")


def _modified(details: Mapping[str, Any]) -> float | None:
    """The time of a file's last change from the file system's information; None if unknown."""
    for key in _TIMES:
        found = details.get(key)
        if isinstance(found, str):
            found = _parsed_time(found)
        if isinstance(found, datetime):
            return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
        if isinstance(found, int | float):
            return float(found) / (1000.0 if found > _MILLISECONDS_FROM else 1.0)
    return None


def _parsed_time(text: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _only_subfolders(files: Iterable[Entry], folders: Iterable[str]) -> Sequence[str]:
    """The folders, sorted, unless there are files; hidden files and folders do not count."""
    if any(entry.name.rpartition("/")[2][0] not in _HIDDEN for entry in files):
        return ()
    return sorted(name for name in folders if name[0] not in _HIDDEN)


def no_folder(path: str, error: OSError) -> StorageError:
    """The error for a folder that cannot be listed or watched."""
    return StorageError(
        f"the folder {redact(path)!r} cannot be listed: {redact_text(str(error.strerror or error), path)}. "
        "Create it; if this is the path of "
        "a file, give its folder and pattern=."
    )


# A short text that identifies the content of a file.
#
# A unit that is read again must give the rows that it gave before. A file with the same size and other bytes
# would give other rows, so its identity is recorded with it, and checked when it is read. A small file is
# hashed whole; of a large one blocks are, the first and the last, which is where Parquet and Arrow describe
# everything else, and others spread evenly in between. So a change of a large file between two blocks that
# keeps its size is not noticed: this finds mistakes, but is not a proof.
#
# On object stores the mark that the store itself has for the content is taken, and nothing is read.

_BLOCK_BYTES: Final = 16 * 1024
_BLOCKS: Final = 16
_MARKS: Final = ("ETag", "etag", "md5Hash", "content_md5", "crc32c", "generation", "VersionId", "checksum")


def identity_of(size_bytes: int, read_at: Callable[[int, int], bytes]) -> str:
    """The identity of content of a given size, which ``read_at(size, at)`` reads.

    >>> content = bytes(range(256)) * 4096
    >>> whole = identity_of(len(content), lambda size, at: content[at : at + size])
    >>> other = content[:-1] + b"!"
    >>> whole == identity_of(len(other), lambda size, at: other[at : at + size])
    False
    """
    digest = hashlib.blake2b(size_bytes.to_bytes(8, "little"), digest_size=12)
    if size_bytes <= _BLOCK_BYTES * _BLOCKS:
        digest.update(read_at(size_bytes, 0))
    else:
        for number in range(_BLOCKS):
            digest.update(read_at(_BLOCK_BYTES, (size_bytes - _BLOCK_BYTES) * number // (_BLOCKS - 1)))
    return digest.hexdigest()


def mark_of(details: Mapping[str, Any]) -> str | None:
    """The mark of a store for an object's content; None where it has none."""
    return next((f"{key}={details[key]}" for key in _MARKS if details.get(key)), None)


# Parse file names: order, format and partition values.
#
# Numbers in names are compared as numbers, so ``2.csv`` comes before ``10.csv``. The format is known by the
# ending: ``.csv``, ``.tsv``, ``.json``, ``.jsonl``, ``.ndjson``, ``.arrow``, ``.feather``, ``.ipc``; text may
# be compressed (``.csv.gz``). Everything else is Parquet. Folders such as ``day=2024-01-31`` are columns.

Format: TypeAlias = Literal["parquet", "csv", "json", "arrow"]
NameKey: TypeAlias = tuple[tuple[str | int, ...], str]
"""Sorts names, with the numbers in them as numbers."""

CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"

_FORMATS: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_NUMBER: Final = re.compile("([0-9]+)")


def name_key(name: str) -> NameKey:
    """The place of a name among others; names that differ have different places.

    >>> sorted(["10.csv", "9.csv", "b", "09.csv"], key=name_key)
    ['09.csv', '9.csv', '10.csv', 'b']
    """
    parts = _NUMBER.split(name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name


def format_of(name: str) -> Format:
    """Return the format of a file by its name.

    >>> [format_of(name) for name in ("a.csv.gz", "b.JSONL", "part-0.snappy.parquet", "c")]
    ['csv', 'json', 'parquet', 'parquet']
    """
    return _FORMATS.get(_ending(name), "parquet")


def delimiter_of(name: str) -> str:
    """Return the default delimiter of a CSV file of this name."""
    return "\t" if _ending(name) == ".tsv" else ","


def codec_of(name: str) -> str | None:
    """Return the compression of a text file of this name."""
    return CODECS.get(PurePosixPath(name).suffix.lower())


def is_partition(folder: str) -> bool:
    """Return whether a folder's name is a column and its value, as in ``day=2024-01-31``."""
    return "=" in folder[1:] and folder[0] != "."


def partition_values(name: str) -> dict[str, str | None]:
    """The columns that the folders of a file tell, as text.

    >>> partition_values("day=2024-01-31/at=a%3Ab/city=__HIVE_DEFAULT_PARTITION__/x.parquet")
    {'day': '2024-01-31', 'at': 'a:b', 'city': None}
    """
    folders = [each.partition("=") for each in name.split("/")[:-1] if is_partition(each)]
    return {unquote(column): None if value == HIVE_NULL else unquote(value) for column, _, value in folders}


def _ending(name: str) -> str:
    endings = [each.lower() for each in PurePosixPath(name).suffixes]
    if endings and endings[-1] in CODECS:
        endings.pop()
    return endings[-1] if endings else ""
