"""Open a storage by address: a local folder or an fsspec file system.

``storage_at`` chooses. The address and its options travel to the workers; each makes its own connection.

The promise of ``create``, that of two writers one wins, is only as good as the store's. ``is_exclusive`` says
whether it holds:

- S3, Google Cloud Storage and Azure refuse in the store itself (a conditional put), if the fsspec package is
  new enough to ask for it. A store that only resembles S3 may ignore the condition, or honour it only
  if there is no other writer at the same time; ``exclusivity`` tries that before a query starts.
- HDFS refuses a rename to a name that is taken, through the package hdfs-native. pyarrow's file system
  deletes what is there and renames again, so a store that is reached through it is refused by
  ``exclusivity``.
- ``memory://`` is one process's, under a lock here; ``file://`` refuses to open, but a writer that is killed
  may leave half an object, which is why ``storage_at`` takes LocalStorage there.
- For everything else there is a check and then a write: two drivers at the same instant are not told apart.

The tests run ``memory://``, ``file://``, and an S3, an HDFS, an Azurite and a server of Google's interface of
their own.
"""

import contextlib
import inspect
import os
import re
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal, TypeAlias

import fsspec
from fsspec.registry import known_implementations

from pointstamp.errors import StorageError
from pointstamp.optional import conforms
from pointstamp.redaction import harmless, identity, redact, redact_text
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.port import (
    Content,
    HasUrl,
    Storage,
    already_stored,
    check_name,
    check_prefix,
    failed,
    joined,
    nothing_stored,
)

_Way: TypeAlias = Literal["conditional put", "exclusive open", "rename", "look"]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)")
_HADOOP_NAMES: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
# How to ask each package for a put that fails where the name is taken.
_CONDITIONS: Final[dict[str, dict[str, Any]]] = {
    "s3": {"mode": "create"},
    "gs": {"mode": "create"},
    "abfs": {"overwrite": False},
}
_CONDITIONS["gcs"] = _CONDITIONS["gs"]
_CONDITIONS["az"] = _CONDITIONS["abfs"]
_ASKED_AT_ONCE_MAX: Final = 16
_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# What a store may raise: fsspec packages pass on errors of their own libraries.
_ANY: Final = Exception

_memory_lock = threading.Lock()  # fsspec's file system in memory looks and then writes


def storage_at(path: str | os.PathLike[str], **options: Any) -> Storage:  # noqa: ANN401 - what a file system asks for
    """A path without a scheme is a folder of this host; one with a scheme is what fsspec has for it.

    >>> storage_at("/tmp/runs/7").address, storage_at("file:///tmp/runs/7").address
    ('/tmp/runs/7', '/tmp/runs/7')
    """
    path = os.fspath(path)
    found = _SCHEME.match(path)
    if found and found[1] != "file":
        if found[2] == "/":
            raise StorageError(
                f"the address '{redact(path)}' has one slash after '{found[1]}:', so fsspec would read it "
                f"as a local folder. Write '{found[1]}://'."
            )
        return FsspecStorage(path, options)
    if options:
        raise StorageError(
            f"the folder '{redact(path)}' is local and takes no options, got "
            f"{', '.join(sorted(options))}. Leave them out, or give an address such as "
            "s3://bucket/folder."
        )
    return LocalStorage("/" + path[found.end() :] if found else path)


def url_of(storage: Storage) -> str:
    """Return the address that opens a storage, which may contain a password: never for a message."""
    return storage.url if conforms(storage, HasUrl) else storage.address


class FsspecStorage:
    """Objects below an address of fsspec's; it travels as that address with its options."""

    def __init__(self, address: str, options: dict[str, Any] | None = None) -> None:
        self._address = address.rstrip("/")
        self._options = dict(options or {})
        self._files, self._root = _open(self._address, self._options)
        self._protocol = _protocol(self._address)
        self._way: Final[_Way] = _way(self._protocol, self._files)

    @property
    def address(self) -> str:
        """The address without the secrets in it."""
        return redact(self._address)

    @property
    def url(self) -> str:
        """The address as it was given, for opening it: it may contain a password."""
        return self._address

    @property
    def is_exclusive(self) -> bool:
        """Whether ``create`` is exclusive for concurrent writers."""
        return self._way != "look"

    @property
    def needs_trial(self) -> bool:
        """Whether ``create`` rests on a promise of the store, which only resembles one that keeps it."""
        return self._way in ("conditional put", "rename")

    def create(self, name: str, content: Content) -> None:
        """Store a new object; AlreadyStored where there is one. See the module for how far to trust it."""
        path = self._path(name)
        try:
            self._create(path, joined(content))
        except FileExistsError as error:
            raise already_stored(name, self.address) from error
        except _ANY as error:
            # Not every package says it with a FileExistsError, and HDFS only says that a rename failed.
            if self._is_there(path):
                raise already_stored(name, self.address) from error
            raise failed("stored", name, self.address, error) from error

    def write(self, name: str, content: Content) -> None:
        """Store an object, in place of one that may be there."""
        path = self._path(name)
        try:
            if self._puts_whole:
                self._files.pipe_file(path, joined(content))
            else:
                self._move_into_place(path, joined(content), replaces=True)
        except _ANY as error:
            raise failed("stored", name, self.address, error) from error

    def sync(self, name: str) -> None:
        """Make sure that an object is durable, as any visible one is; NotStored if it does not exist."""
        if not self._is_there(self._path(name)):
            raise nothing_stored(name, self.address)

    def read(self, name: str) -> bytes:
        """Return the content of an object; NotStored if it does not exist."""
        path = self._path(name)
        try:
            return bytes(self._files.cat_file(path))
        except _NOT_THERE as error:
            raise nothing_stored(name, self.address) from error
        except _ANY as error:
            raise failed("read", name, self.address, error) from error

    def size(self, name: str) -> int | None:
        """The size of an object in bytes; None where there is none."""
        path = self._path(name)
        try:
            self._files.invalidate_cache()
            info = self._files.info(path)
        except _NOT_THERE:
            return None
        except _ANY as error:
            raise failed("looked at", name, self.address, error) from error
        return int(info["size"]) if info["type"] == "file" else None

    def sizes(self, names: Sequence[str]) -> "list[int | None]":
        """The sizes of several objects, asked for side by side, because each answer takes its time."""
        with ThreadPoolExecutor(max(1, min(len(names), _ASKED_AT_ONCE_MAX))) as asking:
            return [*asking.map(self.size, names)]

    def list(self, prefix: str = "") -> list[str]:
        """The names that begin with a prefix, sorted; objects that are being written are not among them."""
        folder = f"{self._root}/{check_prefix(prefix)}".rpartition("/")[0]
        try:
            self._files.invalidate_cache()
            found = self._files.find(folder)
        except _NOT_THERE:
            return []
        except _ANY as error:
            raise failed("listed", prefix, self.address, error) from error
        names = (str(path).removeprefix(f"{self._root}/") for path in found)
        return sorted(n for n in names if n.startswith(prefix) and not n.rpartition("/")[2].startswith("."))

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens where there is none."""
        path = self._path(name)
        try:
            self._files.rm_file(path)
        except _NOT_THERE:
            pass
        except _ANY as error:
            if self._is_there(path):
                raise failed("deleted", name, self.address, error) from error

    @property
    def _puts_whole(self) -> bool:
        """Whether an object is seen only when all of it is there, so that no rename is needed."""
        return self._protocol in _CONDITIONS or self._protocol == "memory"

    def _path(self, name: str) -> str:
        return f"{self._root}/{check_name(name)}"

    def _is_there(self, path: str) -> bool:
        self._files.invalidate_cache()
        return bool(self._files.exists(path))

    def _create(self, path: str, content: bytes) -> None:
        if self._way == "conditional put":
            self._files.pipe_file(path, content, **_CONDITIONS[self._protocol])
        elif self._way == "rename":
            self._move_into_place(path, content, replaces=False)
        elif self._protocol == "memory":
            with _memory_lock:
                self._files.pipe_file(path, content, mode="create")
        elif self._way == "exclusive open":
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(path, "xb") as file:
                file.write(content)
        elif self._is_there(path):
            raise FileExistsError(path)
        elif self._puts_whole:
            self._files.pipe_file(path, content)
        else:
            self._move_into_place(path, content, replaces=False)

    def _move_into_place(self, path: str, content: bytes, *, replaces: bool) -> None:
        folder = path.rpartition("/")[0]
        new = f"{folder}/.{uuid.uuid4().hex}.new"
        self._files.makedirs(folder, exist_ok=True)
        try:
            self._files.pipe_file(new, content)
            # HDFS replaces in one step if it is told to; other packages replace anyway, or look first.
            self._files.mv(new, path, **({"overwrite": True} if replaces and self._way == "rename" else {}))
        except BaseException:
            with contextlib.suppress(_ANY):
                self._files.rm_file(new)
            raise

    def __reduce__(self) -> tuple[type["FsspecStorage"], tuple[str, dict[str, Any]]]:
        return FsspecStorage, (self._address, self._options)


def _protocol(address: str) -> str:
    scheme = address.partition(":")[0]
    return _HADOOP_NAMES.get(scheme, scheme)


def _way(protocol: str, files: Any) -> _Way:  # noqa: ANN401 - an fsspec file system
    if condition := _CONDITIONS.get(protocol):
        put = inspect.signature(getattr(files, "_pipe_file", files.pipe_file))
        return "conditional put" if set(condition) <= set(put.parameters) else "look"
    if protocol in ("memory", "file", "local"):
        return "exclusive open"
    return "rename" if protocol in ("hdfs", "viewfs") else "look"


def _open(address: str, options: dict[str, Any]) -> tuple[Any, str]:
    protocol = _protocol(address)
    rest = address.partition(":")[2]
    try:
        files, root = fsspec.url_to_fs(f"{protocol}:{rest}", **options)
    except ImportError as error:
        package = str(known_implementations.get(protocol, {}).get("class", "")).partition(".")[0]
        install = f"pip install {package}" if package not in ("", "fsspec") else str(error)
        raise StorageError(
            f"'{redact(address)}' needs a package that is not installed: {install}, on the driver and on "
            "all workers."
        ) from harmless(error, address)
    except ValueError as error:
        known = ", ".join(("file", "s3", "gs", "abfs", "hdfs"))
        raise StorageError(
            f"'{redact(address)}' cannot be opened: {redact_text(str(error), address)}. Give a local "
            "folder, or an address with a scheme that "
            f"fsspec knows ({known}, ...)."
        ) from harmless(error, address)
    except _ANY as error:
        raise StorageError(
            redact_text(str(failed("opened", "", redact(address), error)), address)
        ) from harmless(error, address)
    return files, str(root).rstrip("/")


# Absolute addresses of folders and objects, as they may be recorded.
#
# A relative path means another folder in another working directory, and a process may change its own at any
# time. So every place that a user gives is made absolute where it is given.

_ADDRESS_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_BUCKET_WITH_USER: Final = re.compile(r"(?:s3[an]?|gc?s|oss)://[^/]*@")
"""Names of buckets contain no @, and their stores ask for no user in an address."""


def absolute_place(path: str | os.PathLike[str]) -> str:
    """Return an address that means the same in every working directory.

    >>> absolute_place("s3://bucket/in/"), absolute_place("file:/in"), absolute_place("/data/../in")
    ('s3://bucket/in/', 'file:/in', '/in')
    """
    place = os.fspath(path)
    if not place:
        raise StorageError(
            "the address of a folder is empty. Give a path, such as '.' for the working directory."
        )
    if _BUCKET_WITH_USER.match(place):
        # The store would take it for a part of the name, and libraries quote that name in their errors.
        raise StorageError(
            f"the address '{redact(place)}' has a user before the name of its bucket, and a bucket has none. "
            "Give credentials with storage_options=, or in the environment or configuration of the store."
        )
    return place if _ADDRESS.match(place) else os.path.abspath(place)


def recorded_place(address: str) -> str:
    """Return an address as it may be recorded: without credentials and options, and without a last slash.

    >>> recorded_place("sftp://me:secret@host/in/"), recorded_place("abfss://box@store/in")
    ('sftp://host/in', 'abfss://box@store/in')
    """
    if address.startswith("file:/"):
        return os.path.abspath("/" + address.removeprefix("file:").lstrip("/"))
    if _ADDRESS_SCHEME.match(address) is None:
        return os.path.abspath(address)
    place = identity(address.rstrip("/")).replace("://***@", "://", 1)
    return place.partition("?")[0].rstrip("/")
