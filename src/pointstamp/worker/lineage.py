"""Detect forks of this process, and end copies when a user's function returns.

A function of the user's may fork. The copy has the sockets, files and state of its parent, so it must not
continue as a second worker: it would send, commit and publish what its parent does. ``Lineage.depth`` counts
the forks between the first process of a program and this one. A caller of a user's function reads it before,
and calls ``end_copy`` when it differs afterwards: nothing is flushed, sent or written.

While a worker is served (``children_end_with_us``), processes that its functions fork also end with it, even
if it is killed: the kernel sends them a signal (Linux), or a thread of theirs notices (elsewhere, or if the
thread that forked them is not the main thread, whose end the kernel would take for the end of the process).
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_LOOK_SECONDS: Final = 0.5


class Lineage:
    """The forks that created this process; updated first in a new process."""

    def __init__(self) -> None:
        self.depth = 0
        """The number of forks between the first process of this program and this one."""
        self.serving = 0
        """The number of workers in this process, whose child processes must not outlive it."""
        self._parent = os.getpid()
        self._is_main = True
        self._kernel = ctypes.CDLL(None) if sys.platform == "linux" else None

    def before_fork(self) -> None:
        """In the parent: note who forks."""
        self._parent = os.getpid()
        self._is_main = threading.current_thread() is threading.main_thread()

    def after_fork(self) -> None:
        """In the child: count the fork, and end with the parent where that is a worker."""
        self.depth += 1
        if self.serving:
            # Only the children themselves: a process that a child leaves behind on purpose is not ours.
            self.serving = 0
            self._end_with_parent()

    def _end_with_parent(self) -> None:
        if self._kernel is not None and self._is_main:
            self._kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._parent:
                os._exit(1)  # it ended before the kernel could be asked
        else:
            threading.Thread(target=_end_after, args=(self._parent,), daemon=True).start()


LINEAGE: Final = Lineage()
os.register_at_fork(before=LINEAGE.before_fork, after_in_child=LINEAGE.after_fork)


def end_copy(error: BaseException | None = None) -> NoReturn:
    """End this process, which is a copy, as its function meant to: with its exit code, or 1 for an error."""
    while error is not None and not isinstance(error, SystemExit) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, SystemExit):
        code = error.code
        os._exit(0 if code is None else code & 0xFF if isinstance(code, int) else 1)
    os._exit(0 if error is None else 1)


@contextmanager
def children_end_with_us() -> Iterator[None]:
    """Let processes that are forked meanwhile end with this one."""
    LINEAGE.serving += 1
    try:
        yield
    finally:
        LINEAGE.serving = max(0, LINEAGE.serving - 1)


def _end_after(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        sleep(_LOOK_SECONDS)
    os._exit(1)
