"""Start worker processes through a clean fork server.

``fork_clean`` is what the driver calls for each worker; ``pointstamp.running.forkserver`` does it, in a
process that is started with the first call, is kept for all later ones, and ends with this process. What a
worker needs goes to it through a pipe. The first call takes as long as loading the modules; later ones take
milliseconds.

Any thread may call. A fork of this process has no part in what this one has started, and starts its own.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Final

from pointstamp.errors import FlowError, TransportError
from pointstamp.running.forkserver import Surroundings

START_SECONDS_MAX: Final = 60.0
"""How long it may take to load the modules that workers need, and to fork one."""

# pyarrow imports pandas when it first sees a numpy array: once there, and not in every worker.
_LOADED: Final = ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet", "pandas", "zmq", "cloudpickle")
_CHILD: Final = (
    "import sys, json; modules = json.loads(sys.argv[2]); sys.path[:] = sys.argv[3:]; "
    "from pointstamp.running.forkserver import main; main(int(sys.argv[1]), modules)"
)


class ForkedProcess:
    """A process that was forked for this one; used by one thread at a time."""

    def __init__(self, status: Connection) -> None:
        self.status = status
        """Readable when it has ended."""
        self._exitcode: int | None = None
        self.pid = self._read_pid()

    @property
    def exitcode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        self.join(0)
        return self._exitcode

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self.exitcode is None

    def join(self, seconds_max: float) -> None:
        """Wait for its end, at most so long."""
        if self._exitcode is None and self.status.poll(seconds_max):
            try:
                self._exitcode = int(self.status.recv_bytes())
            except (EOFError, OSError):
                # Who forked it was killed, and it with that one.
                self._exitcode = -signal.SIGKILL
            self.status.close()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it has ended."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _read_pid(self) -> int:
        try:
            if self.status.poll(START_SECONDS_MAX):
                return int(self.status.recv_bytes())
            what = f"has forked none for {START_SECONDS_MAX:g} seconds"
        except (EOFError, OSError):
            what = "has ended"
        raise TransportError(
            f"the process that forks workers {what}. Read its standard error, and check that the machine "
            "has memory and processes left."
        )


def fork_clean(target: bytes, given: object) -> tuple[ForkedProcess, Connection]:
    """Start a process that calls ``target(given, pipe)``; it, and the other end of the pipe.

    ``target`` is pickled. The process has this one's folder, environment, module path and standard output.
    """
    pipe, theirs = Pipe()
    status, told = Pipe(duplex=False)
    try:
        _server.request([theirs.fileno(), told.fileno(), *_standard()])
        theirs.close()
        told.close()  # or the end of who forks would not be heard
        process = ForkedProcess(status)
        with suppress(BrokenPipeError, ConnectionResetError):  # its end is heard of otherwise
            pipe.send_bytes(ForkingPickler.dumps(Surroundings.here(given)))
            pipe.send_bytes(target)
    except BaseException:
        for each in (pipe, theirs, status, told):
            each.close()
        raise
    return process, pipe


def _standard() -> list[int]:
    """The files of the standard output and error, which a program may have closed."""
    found = []
    for number in (1, 2):
        try:
            os.fstat(number)
            found.append(number)
        except OSError:
            found.append(_nowhere())
    return found


@cache
def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY)


class _ServerHandle:
    """Our side of the process that forks; started when it is first needed, and again where it was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def request(self, files: list[int]) -> None:
        """Ask for one process."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._socket is not None
            try:
                socket.send_fds(self._socket, [b"!"], files)
            except OSError:  # it has just ended
                self._start()
                socket.send_fds(self._socket, [b"!"], files)

    def _start(self) -> None:
        if not hasattr(os, "fork"):
            raise FlowError(
                "this system cannot fork processes. Run the flow with workers=, without processes=."
            )
        self.end()
        self._socket, theirs = socket.socketpair()
        ours = [name for name in sys.modules if name.split(".")[0] == "pointstamp"]
        modules = json.dumps([*ours, *_LOADED])
        # An interrupt of the keyboard goes to every process of the terminal, also to one that only begins.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    [sys.executable, "-c", _CHILD, str(theirs.fileno()), modules, *sys.path],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def end(self) -> None:
        """End it, and with it all that it has forked."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()
        self._socket = self._process = None

    def forget(self) -> None:
        """In a fork of this process: nothing of it is ours, and our end must not keep it alive."""
        self._lock = threading.Lock()
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.returncode = 0  # or Popen would speak of a child that it cannot wait for
        self._socket = self._process = None


_server: Final = _ServerHandle()
atexit.register(_server.end)
os.register_at_fork(after_in_child=_server.forget)
