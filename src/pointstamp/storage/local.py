"""A storage in a folder of a local (or mounted) file system.

Invariant: a file under an object's name is complete, and durable once a writer was told that it is stored.
Content goes to a new file in the same folder, whose name begins with a dot, and to the disk (fsync); a hard
link, which fails where the name is taken, or a rename, which replaces, gives it its name; and the folder goes
to the disk last.

Between the last two steps all processes see a name that a power failure would remove, if the writer is killed
there. So AlreadyStored is raised only after the folder has gone to the disk; a process that relies on an
object that it has only seen calls ``sync``; and each process that stores something takes the folders above to
the disk, because the process that made them may have been killed, too.

A writer that is killed leaves its new file behind: it is never listed, and ``sweep`` removes it. Not for file
systems without hard links (FAT, some mounts of object stores), which are rejected with an error.
"""

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from pointstamp.errors import StorageError
from pointstamp.storage.port import Content, already_stored, check_name, check_prefix, failed, nothing_stored

_NEW: Final = ".new"
_NO_HARD_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class LocalStorage:
    """Objects as files below a folder, which need not exist yet; it travels as its path."""

    is_exclusive: Final = True

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.abspath(root)
        self._settled: set[str] = set()  # folders that are durable in those above them

    @property
    def address(self) -> str:
        """The folder's path, which other hosts understand if they mount it at the same place."""
        return self._root

    def create(self, name: str, content: Content) -> None:
        """Store a new file complete and durably; AlreadyStored where there is one."""
        self._store(name, content, os.link)

    def write(self, name: str, content: Content) -> None:
        """Store a file complete and durably; a reader sees what was there before, or this."""
        self._store(name, content, os.replace)

    def sync(self, name: str) -> None:
        """Make an existing file durable, whichever process wrote it; NotStored if it does not exist."""
        path = self._path(name)
        try:
            _sync(path, os.O_RDONLY)
            self._settle(os.path.dirname(path))
            _sync_folder(os.path.dirname(path))
        except _NOT_THERE as error:
            raise nothing_stored(name, self.address) from error
        except OSError as error:
            raise failed("synced", name, self.address, error) from error

    def read(self, name: str) -> bytes:
        """Return the content of a file; NotStored if it does not exist."""
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except _NOT_THERE as error:
            raise nothing_stored(name, self.address) from error
        except OSError as error:
            raise failed("read", name, self.address, error) from error

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None where there is none."""
        path = self._path(name)
        try:
            return os.stat(path).st_size if os.path.isfile(path) else None
        except _NOT_THERE:
            return None  # deleted between the two
        except OSError as error:
            raise failed("looked at", name, self.address, error) from error

    def list(self, prefix: str = "") -> list[str]:
        """The names that begin with a prefix, sorted; files that are being written are not among them."""
        return sorted(
            name for name in self._files(check_prefix(prefix)) if not name.rpartition("/")[2].startswith(".")
        )

    def delete(self, name: str) -> None:
        """Remove a file; nothing happens where there is none. Its folders stay."""
        try:
            # Not made durable: every deletion here is of something that may as well still be there.
            os.unlink(self._path(name))
        except _NOT_THERE:
            pass
        except OSError as error:
            raise failed("deleted", name, self.address, error) from error

    def sweep(self, before: float) -> int:
        """Remove what killed writers left: new files last written before a time of day, in seconds.

        The time is the caller's, because only it knows how long a writer may take: one whose new file is
        swept away is told that it could not write.
        """
        swept = 0
        for name in self._files(""):
            if not (name.rpartition("/")[2].startswith(".") and name.endswith(_NEW)):
                continue
            with contextlib.suppress(FileNotFoundError):  # its writer has just finished
                path = f"{self._root}/{name}"
                if os.stat(path).st_mtime < before:
                    os.unlink(path)
                    swept += 1
        return swept

    def _path(self, name: str) -> str:
        return f"{self._root}/{check_name(name)}"

    def _files(self, prefix: str) -> Iterator[str]:
        """All files, also those being written, whose names begin with a prefix."""
        top = f"{self._root}/{prefix}".rpartition("/")[0]

        def refuse(error: OSError) -> None:
            if not isinstance(error, _NOT_THERE):
                raise failed("listed", prefix, self.address, error) from error

        for folder, _, files in os.walk(top, onerror=refuse):
            below = os.path.relpath(folder, self._root)
            for file in files:
                name = file if below == "." else f"{below}/{file}"
                if name.startswith(prefix):
                    yield name

    def _store(self, name: str, content: Content, give_name: Callable[[str, str], None]) -> None:
        path = self._path(name)
        folder = os.path.dirname(path)
        new = f"{folder}/.{uuid.uuid4().hex}{_NEW}"
        try:
            self._settle(folder)
            try:
                self._write_durably(new, content)
                _give_name(give_name, new, path)
            finally:
                with contextlib.suppress(OSError):  # a rename has taken it; sweep takes what is left
                    os.unlink(new)
            _sync_folder(folder)
        except FileExistsError as error:
            self.sync(name)
            raise already_stored(name, self.address) from error
        except OSError as error:
            raise failed("stored", name, self.address, error) from error

    def _settle(self, folder: str) -> None:
        """Make sure that a folder is there and durable in those above it, no matter who made them."""
        if folder in self._settled:
            return
        _make_folder(folder)
        above = os.path.dirname(folder)
        while True:
            try:
                _sync_folder(above)
            except OSError:
                # Further up are folders of others, which need not be ours to open.
                if above.startswith(os.path.dirname(self._root)):
                    raise
            if above == os.path.dirname(above):
                break
            above = os.path.dirname(above)
        self._settled.add(folder)

    def _write_durably(self, new: str, content: Content) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(new, flags, 0o666)
        except FileNotFoundError:  # somebody has removed the folder
            folder = os.path.dirname(new)
            self._settled.discard(folder)
            self._settle(folder)
            handle = os.open(new, flags, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())

    def __reduce__(self) -> tuple[type["LocalStorage"], tuple[str]]:
        return LocalStorage, (self._root,)


def _give_name(give_name: Callable[[str, str], None], new: str, path: str) -> None:
    try:
        give_name(new, path)
    except OSError as error:
        if give_name is os.link and error.errno in _NO_HARD_LINKS:
            raise StorageError(
                f"'{path}' could not be created: its file system has no hard links ({error.strerror}), "
                "which are needed to detect a second writer. Choose a folder of another file system, or "
                "an address of an object store."
            ) from error
        raise


def _make_folder(folder: str) -> None:
    """Make a folder and those above it."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    _make_folder(above)
    # Another writer may make it at the same moment; one that is a file is refused when it is written to.
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)


def _sync_folder(folder: str) -> None:
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
