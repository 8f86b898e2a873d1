"""Shared memory with the workers' liveness and current operators.

A worker that is inside native code which holds Python's global lock runs none of its threads: it can tell
nothing, while libzmq's own threads still answer heartbeats. So it is watched from outside. A worker counts
*beats* on its part of the board from a thread that needs the lock, and writes the operator that it calls
before each call. The driver reads both (``Silent``), together with the kernel's account of the process.

A look counts as silence only if the process could have run: not while it is stopped or waits for a processor,
and not while the driver itself stood still. The heartbeats of the mesh are for those.
"""

import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, Protocol

LOOK_SECONDS: Final = 0.5
"""How often the driver looks at the board, and how often a worker beats."""

_LOOKED_SECONDS_MAX: Final = 1.0
_BEATS: Final = 0
_OPERATOR: Final = 1
_WORDS: Final = 8  # of eight bytes each: a cache line for each worker
_ENDED: Final = -1
_RUNNING: Final = "R"
_STOPPED: Final = ("T", "t")


class Sign(Protocol):
    """A worker's liveness signs; each method is called by a thread that needs the lock."""

    def beat(self) -> None:
        """Show that they run now."""
        ...

    def end(self) -> None:
        """Show that no more beats follow."""
        ...


class BoardCell:
    """One worker's part of a board; written by that worker alone."""

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def beat(self) -> None:
        """Show that threads of this process run."""
        self._words[_BEATS] += 1

    def end(self) -> None:
        """Show that no more beats follow."""
        self._words[_BEATS] = _ENDED

    def enter(self, operator: int) -> None:
        """Show that an operator is being called."""
        self._words[_OPERATOR] = operator + 1

    def leave(self) -> None:
        """Show that no operator is being called."""
        self._words[_OPERATOR] = 0

    @property
    def beats(self) -> int:
        """Return the number of beats; 0 before the first, -1 after the last."""
        beats: int = self._words[_BEATS]
        return beats

    @property
    def operator(self) -> int | None:
        """The operator that is being called, if one is."""
        operator: int = self._words[_OPERATOR]
        return operator - 1 if operator else None


class Board:
    """Memory that a driver and its workers share; it is gone with the last process that has it."""

    def __init__(self, memory: mmap.mmap, place: str, file: int | None = None) -> None:
        self._words = memoryview(memory).cast("q")
        self.place = place
        """Where other processes of this machine open it, until ``hide``."""
        self._file = file

    @classmethod
    def create(cls, workers: int) -> "Board":
        """A board for so many workers, with nothing on it."""
        size = workers * _WORDS * 8
        if sys.platform == "linux":
            file = os.memfd_create("pointstamp-board")
            place = f"/proc/{os.getpid()}/fd/{file}"
        else:
            file, place = tempfile.mkstemp(prefix="pointstamp-board-")
        os.ftruncate(file, size)
        return cls(mmap.mmap(file, size), place, file)

    @classmethod
    def open(cls, place: str) -> "Board":
        """The board that another process has made."""
        file = os.open(place, os.O_RDWR | os.O_CLOEXEC)
        try:
            return cls(mmap.mmap(file, os.fstat(file).st_size), place)
        finally:
            os.close(file)

    def of(self, worker: int) -> BoardCell:
        """One worker's part."""
        return BoardCell(self._words[worker * _WORDS : (worker + 1) * _WORDS])

    def hide(self) -> None:
        """Let no other process open it any more; hiding again does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if not self.place.startswith("/proc/"):
                Path(self.place).unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._words) // _WORDS


class Account(NamedTuple):
    """The kernel's report on a process: its state letter and CPU time."""

    state: str
    cpu_seconds: float


def account_of(pid: int) -> Account | None:
    """The kernel's account of a process; None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Account(fields[0].decode(), ticks / os.sysconf("SC_CLK_TCK"))


class Silent:
    """Measures the silence of workers; the caller of ``look`` gives the time."""

    def __init__(self, board: Board, account: Callable[[int], Account | None]) -> None:
        self._places = [board.of(worker) for worker in range(len(board))]
        self._account = account
        self._looked: float | None = None
        self._beats = [0] * len(board)
        self._seconds = [0.0] * len(board)
        self._cpu = [0.0] * len(board)

    def is_due(self, now_seconds: float) -> bool:
        """Whether it is time to look again."""
        return self._looked is None or now_seconds >= self._looked + LOOK_SECONDS

    def look(self, now_seconds: float | None = None) -> None:
        """See who has beaten since the last look."""
        now = monotonic() if now_seconds is None else now_seconds
        passed = 0.0 if self._looked is None else min(now - self._looked, _LOOKED_SECONDS_MAX)
        self._looked = now
        for worker, place in enumerate(self._places):
            beats = place.beats
            if beats != self._beats[worker] or beats <= 0:
                self._beats[worker], self._seconds[worker] = beats, 0.0
                continue
            account = self._account(worker)
            if account is None:
                self._seconds[worker] += passed
                continue
            is_starved = account.state == _RUNNING and account.cpu_seconds <= self._cpu[worker]
            if account.state not in _STOPPED and not is_starved:
                self._seconds[worker] += passed
            self._cpu[worker] = account.cpu_seconds

    def seconds(self, worker: int) -> float:
        """Return a worker's silence in seconds, as of the last look."""
        return self._seconds[worker]

    def operator(self, worker: int) -> int | None:
        """The operator that a worker is inside of, if it is."""
        return self._places[worker].operator
