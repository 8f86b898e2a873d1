"""Detect whether a file is complete or still being written.

On Linux the kernel is asked for a read lease, which it grants only if no process has the file open for
writing. It answers the owner of a file and the superuser only, and not for network disks; object stores show
objects that are complete, and nothing else. Everywhere else it cannot be known: then a file counts as
complete when neither its size nor its time of change has changed for a while.

Invariant: nothing is said to be complete while this host's kernel knows of a writer.
"""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from time import monotonic, time
from typing import Any, Final, NamedTuple

_SET_SIGNAL: Final = 10  # F_SETSIG of Linux, which Python does not name

SETTLE_SECONDS: Final = 1.0
"""If nothing can be known about a file, it counts as complete when it has not changed for this long."""


class State(Enum):
    """The state of a file."""

    WHOLE = "whole"
    WRITTEN = "being written"
    UNKNOWN = "unknown"
    GONE = "gone"


class Seen(NamedTuple):
    """The state of a file, with the attributes that a write would change."""

    state: State
    stamp: Any = None
    changed_at: float | None = None

    def is_fresh(self, settle_seconds: float) -> bool:
        """Whether a file that may be being written was changed a moment ago, as far as clocks agree."""
        is_unknown = self.state is State.UNKNOWN and self.changed_at is not None
        return is_unknown and time() - (self.changed_at or 0.0) < settle_seconds


def look_at(path: str) -> Seen:
    """Return the state of a local file.

    A file with several names was linked, and is complete: writers that must not replace anything do that.
    """
    try:
        if os.path.islink(path):
            return Seen(State.WHOLE if os.path.isfile(path) else State.GONE)
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return Seen(State.WHOLE)  # whoever reads it will say that it cannot be read
    except OSError:
        return Seen(State.GONE)
    try:
        status = os.fstat(handle)
        stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
        if not stat.S_ISREG(status.st_mode):
            return Seen(State.GONE)
        return Seen(State.WHOLE if status.st_nlink > 1 else by_lease(handle), stamp, status.st_mtime)
    finally:
        os.close(handle)


def by_lease(handle: int) -> State:
    """Return what the kernel reports about writers of an open file."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return State.UNKNOWN
    try:
        # Whoever opens the file while the lease is held makes a signal; the usual one would end this process.
        fcntl.fcntl(handle, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return State.WRITTEN if error.errno == errno.EAGAIN else State.UNKNOWN
    return State.WHOLE


@dataclass(slots=True)
class _Unsettled:
    stamp: Any
    since: float


class Settling:
    """The files that are not known to be complete; changed by the watch that owns it, as it looks at them."""

    def __init__(
        self,
        look: Callable[[str], Seen],
        settle_seconds: float = SETTLE_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._look = look
        self._settle_seconds = settle_seconds
        self._clock = clock
        self._waiting: dict[str, _Unsettled] = {}

    def state(self, name: str) -> State:
        """Return the state of a file; unchanged for long enough means complete."""
        state, stamp, _ = self._look(name)
        if state is State.UNKNOWN and self._has_settled(name, stamp):
            state = State.WHOLE
        if state is not State.UNKNOWN:
            self._waiting.pop(name, None)
        return state

    def forget(self, names: Iterable[str]) -> None:
        """Take note that files need not be waited for."""
        for name in names:
            self._waiting.pop(name, None)

    def _has_settled(self, name: str, stamp: Any) -> bool:  # noqa: ANN401 - whatever tells a change
        now = self._clock()
        waiting = self._waiting.get(name)
        if waiting is None or waiting.stamp != stamp:
            self._waiting[name] = waiting = _Unsettled(stamp, now)
        return now - waiting.since >= self._settle_seconds
