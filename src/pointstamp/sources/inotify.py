"""Files that arrive in a local folder, told by the Linux kernel: inotify(7) through ctypes.

A name is told when the file is whole: closed after writing, renamed into the folder, or linked into it. The
kernel says "created" both for a file that is opened to be written and for a link to one that is whole
already; ``_is_whole`` tells them apart, because writers that must not replace anything do link. What cannot
be told at once (an empty file may be about to be opened) is looked at again by a later ``read``.

Invariant: after ``read`` has returned ``is_overflow``, names may have been left out, and a listing made now
finds them; without it, every file that was whole when ``read`` was called, or some 50 ms before where it was
linked and empty, has been told at least once. Names may be told twice, and a file that was told may be gone.

What it does not do: look into subfolders, see what other hosts write to a network disk (``can_watch`` says no
there), or work elsewhere than on Linux. A file that another user has linked, and whose first name is gone
before ``read``, is found by the next listing only: the kernel says nothing of writers to strangers.
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

from pointstamp.sources.folder import no_folder
from pointstamp.sources.wholeness import State, by_lease

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
_READS_MAX: Final = 64  # so that one call ends, however fast files arrive; the rest stays readable

# Disks that other hosts write to, of whose files the kernel here hears nothing.
_SHARED_DISKS: Final = (
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gluster", "gpfs", "lustre", "nfs", "smb", "virtiofs",
)  # fmt: skip


class Arrived(NamedTuple):
    """The names of whole files, in order of arrival; and whether the kernel had to leave some out."""

    names: list[str]
    is_overflow: bool


class FolderEvents:
    """The kernel's events about one folder; may be used from one thread at a time."""

    def __init__(self, path: str, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._unsure: dict[str, float] = {}  # created, not known to be whole, and when last looked at
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
        if libc.inotify_add_watch(self._fd, os.fsencode(path), mask) < 0:
            number = ctypes.get_errno()
            self.close()
            raise OSError(number, os.strerror(number), path)

    def fileno(self) -> int:
        """Readable when there are events."""
        return self._fd

    def read(self) -> Arrived:
        """What has happened so far; never waits. StorageError where the folder is gone."""
        names: list[str] = []
        is_overflow = False
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

    def _take(self, data: bytes, names: list[str]) -> bool:
        """Add the names of a block of events; whether some events are missing."""
        is_overflow = False
        start = 0
        while start < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, start)
            start += _EVENT.size + length
            if mask & _Q_OVERFLOW:
                is_overflow = True
            elif mask & _GONE:
                raise no_folder(self._path, OSError(errno.ENOENT, "it was deleted or moved while watched"))
            elif not mask & _ISDIR:
                name = os.fsdecode(data[start - length : start].rstrip(b"\0"))
                if not mask & _CREATE or _is_whole(f"{self._path}/{name}"):
                    names.append(name)
                    self._unsure.pop(name, None)
                else:
                    self._unsure[name] = self._clock()
        return is_overflow

    def _settled(self) -> list[str]:
        """The names that were created a while ago and turn out to be whole, without an event to say so."""
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
    """Whether the kernel hears of every file in this folder: on Linux, and on a disk that is not shared."""
    return sys.platform == "linux" and not _disk_type(os.path.realpath(path)).startswith(_SHARED_DISKS)


def _is_whole(path: str, *, may_be_empty: bool = False) -> bool | None:
    """Whether a name that was created is a link to a file that nobody is writing; None if it is no file.

    A file with several names is one that was linked. Where the first name is gone again the kernel is asked
    for a read lease, which it grants only where nobody has the file open for writing. An empty file proves
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
