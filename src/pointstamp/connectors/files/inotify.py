"""Watch a local folder with inotify(7), through ctypes.

A name is told when the file is complete: closed after writing, renamed into the folder, or linked into it.
The kernel says "created" both for a file that is opened to be written and for a link to one that is complete
already; ``_is_whole`` tells them apart, because writers that must not replace anything do link. What cannot
be told at once (an empty file may be about to be opened) is looked at again by a later ``read``.

Invariant: after ``read`` has returned ``is_overflow``, names may have been left out, and a listing made now
finds them; without it, every file that was complete when ``read`` was called, or some 50 ms before where it
was linked and empty, has been told at least once. Names may be told twice, and a file that was told may be
gone.

Folders that are named after a column and its value (``day=2024-01-31``) are watched with the folder; one
that appears is an overflow, because files may have come into it before it was watched. So is a path that
leads to another folder than before, as a switched symbolic link does: the other one is watched from then on.

What it does not do: look into other subfolders, see what other hosts write to a network disk
(``can_watch`` says no there), or work elsewhere than on Linux. A file that another user has linked, and whose
first name is gone before ``read``, is found by the next listing only: the kernel does not report the
writers of other users.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple

from pointstamp.connectors.files.folder import is_partition, no_folder
from pointstamp.connectors.files.wholeness import State, by_lease
from pointstamp.errors import StorageError

_CLOSE_WRITE: Final = 0x008
_MOVED_TO: Final = 0x080
_CREATE: Final = 0x100
_DELETE_SELF: Final = 0x400
_MOVE_SELF: Final = 0x800
_UNMOUNT: Final = 0x2000
_Q_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ONLYDIR: Final = 0x0100_0000
_ISDIR: Final = 0x4000_0000
_GONE: Final = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED

_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ_BYTES: Final = 1 << 16
_SETTLED_SECONDS: Final = 0.05  # from "created" to the writer's open, were it taken off its core in between
_LINK_SECONDS_MAX: Final = 5.0  # while a link is replaced, there is none
_READS_MAX: Final = 64  # so that one call ends, however fast files arrive; the rest stays readable

# Disks that other hosts write to, of whose files the kernel here hears nothing.
_SHARED_DISKS: Final = (
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gluster", "gpfs", "lustre", "nfs", "smb", "virtiofs",
)  # fmt: skip


class Arrived(NamedTuple):
    """The names of complete files, in order of arrival; and whether the kernel had to leave some out."""

    names: list[str]
    is_overflow: bool


class FolderEvents:
    """The kernel's events about one folder; may be used from one thread at a time."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._unsure: dict[str, float] = {}  # created, not known to be whole, and when last looked at
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folders: dict[int, str] = {}  # by watch: what stands before the names in it
        self._root = -1
        self._missed_since: float | None = None
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        try:
            self._place = self._place_now()
            self._follow()
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Readable when there are events."""
        return self._fd

    def read(self) -> Arrived:
        """Return the events so far without waiting; StorageError if the folder was removed."""
        names: list[str] = []
        is_overflow = self._has_moved()
        for _ in range(_READS_MAX):
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                break
            is_overflow |= self._take(data, names)
        if self._unsure:
            names += self._settled()
        return Arrived(names, is_overflow)

    def close(self) -> None:
        """Stop watching; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _place_now(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino

    def _has_moved(self) -> bool:
        """Return whether the path leads to another folder than before, which is watched from now on."""
        try:
            place = self._place_now()
        except OSError as error:
            now = self._clock()
            self._missed_since = now if self._missed_since is None else self._missed_since
            if now - self._missed_since > _LINK_SECONDS_MAX:
                raise no_folder(self._path, error) from error
            return False
        self._missed_since = None
        if place == self._place:
            return False
        if not can_watch(self._path):
            raise StorageError(
                f"the folder {self._path!r} is now on a shared disk, for which the kernel reports no "
                "events. Restart the query: it then lists the folder."
            )
        for watch in self._folders:
            self._libc.inotify_rm_watch(self._fd, watch)
        self._folders.clear()
        self._unsure.clear()
        self._place = place
        try:
            self._follow()
        except OSError as error:
            raise no_folder(self._path, error) from error
        return True

    def _follow(self) -> None:
        """Watch the folder and its partitions."""
        self._root = self._add("")
        self._follow_partitions("")

    def _follow_partitions(self, inside: str) -> None:
        with os.scandir(f"{self._path}/{inside}") as entries:
            found = [entry.name for entry in entries if is_partition(entry.name) and entry.is_dir()]
        for name in found:
            self._follow_partition(f"{inside}{name}/")

    def _follow_partition(self, inside: str) -> None:
        try:
            self._add(inside)
            self._follow_partitions(inside)
        except (FileNotFoundError, NotADirectoryError):
            return  # it is gone again

    def _add(self, inside: str) -> int:
        path = f"{self._path}/{inside}".rstrip("/") or "/"
        mask = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
        if watch < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        self._folders[watch] = inside
        return watch

    def _take(self, data: bytes, names: list[str]) -> bool:
        """Add the names of a block of events; whether some events are missing."""
        is_overflow = False
        start = 0
        while start < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, start)
            start += _EVENT.size + length
            inside = self._folders.get(watch)
            if mask & _Q_OVERFLOW:
                is_overflow = True
                continue
            if inside is None:
                continue  # of a folder that is not watched any more
            name = inside + os.fsdecode(data[start - length : start].rstrip(b"\0"))
            if mask & _GONE:
                if watch == self._root:
                    raise no_folder(
                        self._path, OSError(errno.ENOENT, "it was deleted or moved while watched")
                    )
                self._folders.pop(watch, None)
            elif mask & _ISDIR:
                if is_partition(name.rpartition("/")[2]):
                    self._follow_partition(f"{name}/")
                    is_overflow = True
            else:
                if not mask & _CREATE or _is_whole(f"{self._path}/{name}"):
                    names.append(name)
                    self._unsure.pop(name, None)
                else:
                    self._unsure[name] = self._clock()
        return is_overflow

    def _settled(self) -> list[str]:
        """The names that were created a while ago and turn out to be complete, without an event to say so."""
        now = self._clock()
        due = [name for name, since in self._unsure.items() if now - since >= _SETTLED_SECONDS]
        whole = []
        for name in due:
            is_whole = _is_whole(f"{self._path}/{name}", may_be_empty=True)
            if is_whole:
                whole.append(name)
            if is_whole is False:
                self._unsure[name] = now
            else:
                del self._unsure[name]
        return whole


def can_watch(path: str) -> bool:
    """Return whether the kernel reports every file of this folder: on Linux, on a disk that is not shared."""
    return sys.platform == "linux" and not _disk_type(os.path.realpath(path)).startswith(_SHARED_DISKS)


def _is_whole(path: str, *, may_be_empty: bool = False) -> bool | None:
    """Return whether a created name links to a file that no process is writing; None if it is not a file.

    A file with several names is one that was linked. Where the first name is gone again the kernel is asked
    for a read lease, which it grants only if no process has the file open for writing. An empty file proves
    nothing at first: the kernel says "created" before its writer counts as one.
    """
    try:
        if os.path.islink(path):
            return os.path.isfile(path) or None
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # gone, or not ours to read
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_nlink > 1:
            return True
        if status.st_size == 0 and not may_be_empty:
            return False
        return by_lease(handle) is State.WHOLE
    finally:
        os.close(handle)


def _disk_type(path: str) -> str:
    """The type of the file system that a path is on, such as ext4; '' where that is not known."""
    found, longest = "", -1
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                mounted, _, rest = line.partition(" - ")
                point = mounted.split()[4].replace("\\040", " ")
                is_above = path == point or path.startswith(point.rstrip("/") + "/")
                if is_above and len(point) >= longest:
                    found, longest = rest.split()[0], len(point)
    except OSError:
        return ""
    return found
