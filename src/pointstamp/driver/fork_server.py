"""The fork server: one thread, all modules loaded.

A process that is forked beside other threads inherits whatever locks they hold at that moment, and no thread
ever releases them there: a worker that imports what another thread of the driver was importing waits for
ever. So the driver never forks a worker. It starts this process once, by exec, with nothing of its own but
one socket (``pointstamp.driver.gang`` is its side of it). ``main`` loads the modules that it is told,
starts no thread, runs no function of a user's, and forks a worker for each request. A request is one byte
with four files: a pipe through which the worker is told what to do, a pipe for its process number and its
exit code, and what is to be its standard output and error.

Invariant: it ends when the driver does, however that ended, because its socket then ends; before, it kills
all workers, also one that is inside a function that never returns. Where it is killed itself, the system
(Linux) or a thread (elsewhere) ends the workers.
"""

import contextlib
import ctypes
import importlib
import os
import pickle
import selectors
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final, TypeAlias

from pointstamp.driver.messages import encode, failure_of
from pointstamp.errors import FlowError, words_of

FILES: Final = 4
"""The number of files of a request."""

_PR_SET_PDEATHSIG: Final = 1

Target: TypeAlias = Callable[[Any, Connection], None]
"""The start function of a worker; it takes the arguments of this worker and its pipe."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The driver's current environment, which a worker inherits."""

    folder: str
    path: list[str]
    arguments: list[str]
    environment: dict[bytes, bytes]
    given: Any
    """The arguments of this worker."""

    @classmethod
    def here(cls, given: object) -> "Surroundings":
        """Those of this process."""
        return cls(os.getcwd(), list(sys.path), list(sys.argv), dict(os.environb), given)

    def enter(self) -> None:
        """Let this process be surrounded so."""
        os.chdir(self.folder)
        sys.path[:] = self.path
        sys.argv[:] = self.arguments
        os.environb.clear()
        os.environb.update(self.environment)


def main(number: int, modules: Iterable[str]) -> None:
    """Serve the driver at the other end of a socket until it is gone; in a worker: work, and end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the driver is the one to act on it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for name in modules:
        with contextlib.suppress(ImportError):  # whoever needs it says so better
            importlib.import_module(name)
    work = _Server(socket.socket(fileno=number)).serve()
    if work is not None:
        work()


class _Server:
    """Forks, and tells who has ended; used by the only thread of its process."""

    def __init__(self, driver: socket.socket) -> None:
        self._driver = driver
        self._statuses: dict[int, Connection] = {}
        self._wake, self._waken = socket.socketpair()
        self._wake.setblocking(False)
        self._waken.setblocking(False)
        self._lifeline = os.pipe()

    def serve(self) -> Callable[[], None] | None:
        """Fork until the driver is gone; returns what is to be done in each worker, and here None."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waken.fileno())
        with selectors.DefaultSelector() as selector:
            selector.register(self._driver, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wake in ready:
                    self._reap()
                if self._driver in ready:
                    request, files, _, _ = socket.recv_fds(self._driver, 1, FILES)
                    if not request:
                        break
                    work = self._fork(files)
                    if work is not None:
                        return work
        for pid in self._statuses:
            os.kill(pid, signal.SIGKILL)
        return None

    def _fork(self, files: list[int]) -> Callable[[], None] | None:
        pipe, status, output, error = files
        ours = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 counts the threads of libraries, too; those of OpenBLAS take care of forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            self._leave(ours, status)
            return lambda: _work(Connection(pipe), output, error)
        told = Connection(status, readable=False)
        self._statuses[pid] = told
        with contextlib.suppress(OSError):  # who asked has given it up
            told.send_bytes(b"%d" % pid)
        for each in (pipe, output, error):
            os.close(each)
        return None

    def _leave(self, server: int, status: int) -> None:
        """In a worker: keep nothing of the server's, and end when it does."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._driver, self._wake, self._waken):
            each.close()
        for other in self._statuses.values():
            other.close()
        os.close(status)
        reading, writing = self._lifeline
        os.close(writing)
        if sys.platform == "linux":
            os.close(reading)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:
                os._exit(1)  # it ended before it could be asked for
        else:
            threading.Thread(target=_end_with, args=(reading,), daemon=True).start()

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        for pid in list(self._statuses):
            ended, code = os.waitpid(pid, os.WNOHANG)
            if ended:
                status = self._statuses.pop(pid)
                with contextlib.suppress(OSError):
                    status.send_bytes(b"%d" % os.waitstatus_to_exitcode(code))
                status.close()


def _end_with(lifeline: int) -> None:
    """End this process when the other end of a pipe is gone."""
    os.read(lifeline, 1)
    os._exit(1)


def _work(pipe: Connection, output: int, error: int) -> None:
    """Be a worker: read what is to be done, do it, and end without what only a main program does."""
    code = 1
    try:
        os.dup2(output, 1)
        os.dup2(error, 2)
        os.close(output)
        os.close(error)
        found = _load(pipe)
        if found is not None:
            target, given = found
            target(given, pipe)
            code = 0
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _load(pipe: Connection) -> tuple[Target, Any] | None:
    """The task of this worker and its arguments; None if it is no longer needed."""
    try:
        surroundings: Surroundings = pickle.loads(pipe.recv_bytes())  # noqa: S301 - of our own driver
        packed = pipe.recv_bytes()
    except (EOFError, OSError):
        return None
    try:
        surroundings.enter()
        target: Target = pickle.loads(packed)  # noqa: S301 - of our own driver
    except BaseException as error:  # it loads modules of the user's, which may raise anything
        explained = FlowError(
            f"a worker's process cannot load what it was sent: {words_of(error)}. It imports "
            "the modules that the flow's functions name, from the driver's sys.path and folder."
        )
        explained.__cause__ = error
        with contextlib.suppress(OSError):
            pipe.send_bytes(encode(failure_of(explained)))
        return None
    return target, surroundings.given
