"""Shared memory with the workers' liveness and current operators.

A worker that is inside native code which holds Python's global lock runs none of its threads: it can tell
nothing, while libzmq's own threads still answer heartbeats. So it is watched from outside. A worker counts
*beats* on its part of the board from a thread that needs the lock, and writes the operator that it calls
before each call. The driver reads both (``Silent``), together with the kernel's account of the process.

A look counts as silence only if the process could have run: not while it is stopped or waits for a processor,
and not while the driver itself stood still. The heartbeats of the mesh are for those.
"""

import faulthandler
import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, Protocol

from pointstamp.driver.messages import InCall
from pointstamp.worker.instance import Instance

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks of the driver at the board, and between two beats of a worker."""

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
        """The path at which other processes of this machine open it, until ``hide``."""
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
        """Return whether it is time to look again."""
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


# Report long calls of an operator, from a separate thread.
#
# A worker has one thread, and while that is inside a user's function it answers no request. So another one
# looks at the operators now and then and tells the driver which of them is in the same call as before, and
# once more when the call is over. The operators keep no clock: they count their calls, and who sees the same
# number again knows how long that was. ``CallsHeard`` is the driver's side of it.

LONG_SECONDS: Final = 2.0
"""A call that takes longer is told."""

STUCK: Final = "in native code that holds Python's global lock"
"""In place of when an operator was called, where a worker is seen from outside to be stuck."""

_LOOK_SECONDS: Final = LOOK_SECONDS


class LongCalls:
    """Long calls of one worker's operators; the caller of ``look`` gives the time."""

    def __init__(self, instances: Collection[Instance]) -> None:
        self._instances = instances
        self._seen: tuple[Instance, int] | None = None
        self._since = 0.0
        self._is_told = False

    def look(self, now_seconds: float) -> InCall | None:
        """Return the report due now: a long call, its end, or None."""
        inside = next(((each, each.calls) for each in self._instances if each.calling is not None), None)
        if inside is None or inside != self._seen:
            was_told, self._is_told = self._is_told, False
            self._seen, self._since = inside, now_seconds
            return InCall("", "", "", 0.0) if was_told else None
        if self._is_told or now_seconds - self._since < LONG_SECONDS:
            return None
        self._is_told = True
        instance = inside[0]
        time = instance.authority.time
        return InCall(
            instance.name,
            instance.calling or "",
            "" if time is None else str(time),
            now_seconds - self._since,
        )


class Lookout:
    """A thread that looks at the operators of one worker until it is ended.

    ``tell`` is given what is to be told, and ``beat`` is called at each look: not while native code holds
    Python's global lock.
    """

    def __init__(
        self,
        instances: Collection[Instance],
        tell: Callable[[InCall], None] | None,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._calls = LongCalls(instances)
        self._tell = tell
        self._beat = beat
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pointstamp-lookout", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop; no report follows."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(Exception):  # the driver is gone, in whatever way; the worker hears of that, too
            while True:
                if self._beat is not None:
                    self._beat()
                if self._is_over.wait(_LOOK_SECONDS):
                    return
                told = self._calls.look(monotonic())
                if told is not None and self._tell is not None:
                    self._tell(told)


class CallsHeard:
    """The reported long calls; changed by the thread that receives reports."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[InCall, float]] = {}

    def hear(self, worker: int, report: object) -> None:
        """Take note of a report: whatever else a worker says, it is inside that call no more."""
        if isinstance(report, InCall) and report.when:
            self._told[worker] = report, monotonic()
        else:
            self._told.pop(worker, None)

    def free(self, workers: int) -> int | None:
        """A worker that can answer; None where all are inside long calls."""
        return next((worker for worker in range(workers) if worker not in self._told), None)

    def words(self) -> list[str]:
        """Return the operators in long calls, and for how long, as text."""
        return [words for _, _, words in self.inside()]

    def inside(self) -> list[tuple[int, InCall, str]]:
        """The workers that are inside long calls, with these, and as text."""
        now = monotonic()
        return [
            (
                worker,
                call,
                _words(worker, call, call.seconds + now - heard),
            )
            for worker, (call, heard) in sorted(self._told.copy().items())
        ]


def _words(worker: int, call: InCall, seconds: float) -> str:
    where = f"inside operator '{call.operator}'" if call.operator else "outside of its operators"
    when = call.when if call.when == STUCK else f"which was called {call.when}"
    return f"worker {worker} has been {where} for {seconds:.0f} s, {when}" + (
        f" at {call.time}" if call.time else ""
    )


# End worker processes whose driver is on another machine and gone.
#
# ``faulthandler`` has a thread of its own that does not need Python's global lock. Each beat sets it back. If
# native code holds the lock for too long, no beat follows: the thread writes the stack of every Python thread
# to the standard error, where the user's function and line are found, and ends the process. Its run then sees
# a lost worker, as after any other death.

_STANDARD_ERROR: Final = 2
# Spark sets it where it uses the one watchdog that a process has for itself.
_SPARKS_OWN: Final = "PYTHON_TRACEBACK_DUMP_INTERVAL_SECONDS"


class Watchdog:
    """Ends this process where it has not beaten for so long; for one worker of a process."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._is_ours = _SPARKS_OWN not in os.environ

    def beat(self) -> None:
        """Set the watchdog back."""
        if self._is_ours:
            faulthandler.dump_traceback_later(self._seconds_max, exit=True, file=_STANDARD_ERROR)

    def end(self) -> None:
        """Watch no more."""
        if self._is_ours:
            faulthandler.cancel_dump_traceback_later()
