"""A gang of worker processes: start, rendezvous and end.

``ProcessGang`` starts n processes, which inherit nothing of this one (``pointstamp.driver.gang``), lets
them and the driving process meet in one mesh, says who has died and of what, and ends them all. They speak
through unix sockets in a private folder, which is gone as soon as they have met; nothing is left behind, no
matter which process is killed and when.
"""

import atexit
import json
import multiprocessing.connection
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from pointstamp.driver.bounded_worker import run_worker
from pointstamp.driver.fork_server import Surroundings
from pointstamp.driver.liveness import STUCK, Board, Silent, account_of
from pointstamp.driver.messages import Failed, InCall, error_of
from pointstamp.driver.sendable import packed
from pointstamp.driver.worker_process import MEETING_SECONDS_MAX, RunMember, Seat, member_names, work
from pointstamp.errors import FlowError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.addresses import SOCKET_PATH_BYTES_MAX
from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh

STUCK_SECONDS: Final = 1.5
"""A worker that has shown no sign of life for so long, and could have, is told to be stuck."""

_GRACE_SECONDS: Final = 1.0
# Who was killed ends when the machine comes to it.
_KILLED_SECONDS_MAX: Final = 30.0


class Death(NamedTuple):
    """The exit code of a process that has ended, negative for a signal and the same as text."""

    code: int
    words: str


class ProcessGang:
    """Worker processes that belong to one run, and the mesh that joins them with this process."""

    def __init__(
        self,
        plan: Plan,
        processes: int,
        *,
        run: RunMember | None = None,
        transport: str = "ipc",
        encrypted: bool | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        generation: int = 0,
    ) -> None:
        target = packed(plan, partial(work, run or partial(run_worker, plan)))
        self._folder = Path(tempfile.mkdtemp(prefix="pointstamp-mesh-"))
        self._processes: list[ForkedProcess] = []
        self._operators: dict[int, str] = {node.index: node.name for node in plan.nodes}
        self._silence_seconds_max = silence_seconds_max
        self._board = Board.create(processes)
        self._silent = Silent(self._board, lambda worker: account_of(self._processes[worker].pid))
        self._killed: dict[int, str] = {}  # those that were killed here, and why
        self.mesh: Mesh | None = None
        # Also when the run is forgotten without being closed; in this process only, not in a fork of it.
        self._finalizer = weakref.finalize(self, _end, os.getpid(), self._processes, self._folder)
        pipes: list[Connection] = []
        try:
            listen = _listener(transport, self._folder)
            for number in range(processes):
                seat = Seat(
                    number,
                    processes,
                    listen(number),
                    encrypted,
                    silence_seconds_max,
                    generation,
                    self._board.place,
                )
                process, pipe = fork_clean(target, seat)
                self._processes.append(process)
                pipes.append(pipe)
            self.mesh = Mesh(
                processes,
                processes + 1,
                listen=listen(processes),
                encrypted=encrypted,
                names=member_names(processes),
                silence_seconds_max=silence_seconds_max,
                generation=generation,
            )
            self._meet(self.mesh, pipes)
            self._board.hide()
        except BaseException:
            self.end()
            raise
        finally:
            for pipe in pipes:
                pipe.close()

    def name(self, worker: int) -> str:
        """A worker and its process, for errors."""
        return f"worker {worker} (process {self._processes[worker].pid})"

    @property
    def pids(self) -> list[int]:
        """The process of each worker."""
        return [process.pid for process in self._processes]

    def deaths(self) -> list[Death]:
        """Describe how processes ended: killed ones first, returned ones last."""
        self.look()
        ended = [
            Death(code, f"{self.name(worker)} {self._killed.get(worker) or _how(code)}")
            for worker, process in enumerate(self._processes)
            if (code := process.exitcode) is not None
        ]
        return sorted(ended, key=lambda death: (death.code == 0, death))

    def wait_for_death(self, seconds_max: float) -> None:
        """Wait until a process has ended, at most so long."""
        multiprocessing.connection.wait(
            [each.status for each in self._processes if each.is_alive], seconds_max
        )

    def look(self) -> list[InCall | None]:
        """Describe workers that are stuck in native code, with their operators.

        One that has been stuck for longer than the silence that is allowed is killed.
        """
        if self._silent.is_due(monotonic()):
            self._silent.look()
        return [self._stuck(worker) for worker in range(len(self._processes))]

    def _stuck(self, worker: int) -> InCall | None:
        seconds = self._silent.seconds(worker)
        if seconds < STUCK_SECONDS:
            return None
        operator = self._silent.operator(worker)
        name = "" if operator is None else self._operators.get(operator, "")
        if seconds > self._silence_seconds_max and worker not in self._killed:
            inside = f"inside operator '{name}' " if name else ""
            self._killed[worker] = f"was {inside}for {seconds:.0f} s, {STUCK}, and was killed"
            self._processes[worker].send(signal.SIGKILL)
        return InCall(name, STUCK, "", seconds)

    def forget_folder(self) -> None:
        """The rendezvous is complete: the sockets' files are no longer needed."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def end(self, *, were_told: bool = True) -> None:
        """End all processes: those that were told to stop get a moment to do so."""
        deadline = monotonic() + (_GRACE_SECONDS if self.mesh is not None and were_told else 0)
        for process in self._processes:
            process.join(max(0, deadline - monotonic()))
        self._finalizer()
        self._board.hide()
        if self.mesh is not None:
            self.mesh.close(linger_ms=0)

    def _meet(self, mesh: Mesh, pipes: list[Connection]) -> None:
        deadline = monotonic() + MEETING_SECONDS_MAX
        addresses = [self._address(worker, pipe, deadline) for worker, pipe in enumerate(pipes)]
        addresses.append(mesh.address)
        told = msgspec.msgpack.encode(addresses)
        for pipe in pipes:
            pipe.send_bytes(told)
        mesh.connect(addresses)
        while not mesh.greet():
            self._check_alive()
            for worker, pipe in enumerate(pipes):
                # Whoever fails while the members meet says so through its pipe, and who has met closes it.
                if not pipe.closed and pipe.poll(0.001):
                    self._hear(worker, pipe)
            if monotonic() > deadline:
                mesh.meet(0)

    def _hear(self, worker: int, pipe: Connection) -> None:
        try:
            said = pipe.recv_bytes()
        except (EOFError, OSError):
            pipe.close()
            return
        raise error_of(msgspec.msgpack.decode(said, type=Failed), self.name(worker))

    def _address(self, worker: int, pipe: Connection, deadline: float) -> Address:
        while not pipe.poll(0.05):
            self._check_alive()
            if monotonic() > deadline:
                raise TransportError(
                    f"{self.name(worker)} has not sent its address within {MEETING_SECONDS_MAX:g} s."
                )
        try:
            said = msgspec.msgpack.decode(pipe.recv_bytes())
            if isinstance(said, dict):
                return msgspec.convert(said, Address)
            raise error_of(msgspec.convert(said, Failed), self.name(worker))
        except (EOFError, OSError):
            self._processes[worker].join(_GRACE_SECONDS)
            self._check_alive()
            raise TransportError(f"{self.name(worker)} closed its pipe before the rendezvous.") from None

    def _check_alive(self) -> None:
        for death in self.deaths():
            raise TransportError(f"{death.words} before the rendezvous.")


def _listener(transport: str, folder: Path) -> Callable[[int], str]:
    """The address of each member."""
    if transport == "tcp":
        return lambda _: "tcp://127.0.0.1:0"
    if transport != "ipc":
        raise FlowError(f"transport must be 'ipc' or 'tcp', got '{transport}'. Choose one of these.")
    if len(os.fsencode(folder)) + 8 > SOCKET_PATH_BYTES_MAX:
        raise FlowError(
            f"the path of folder {folder} is too long for unix sockets, which allow "
            f"{SOCKET_PATH_BYTES_MAX} bytes. Set TMPDIR to a shorter one."
        )
    return lambda member: f"ipc://{folder}/{member}"


def _how(code: int) -> str:
    if code >= 0:
        return f"has ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", possibly out of memory" if -code == signal.SIGKILL else ""
    return f"was killed by signal {-code} ({name}{hint})"


# Start worker processes through a clean fork server.
#
# ``fork_clean`` is what the driver calls for each worker; ``pointstamp.driver.fork_server`` does it, in a
# process that is started with the first call, is kept for all later ones, and ends with this process. What a
# worker needs goes to it through a pipe. The first call takes as long as loading the modules; later ones take
# milliseconds.
#
# Any thread may call. A fork of this process has no part in what this one has started, and starts its own.

START_SECONDS_MAX: Final = 60.0
"""Timeout for loading the modules of workers and for a fork."""

# pyarrow imports pandas when it first sees a numpy array: once there, and not in every worker.
_LOADED: Final = ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet", "pandas", "zmq", "cloudpickle")
_CHILD: Final = (
    "import sys, json; modules = json.loads(sys.argv[2]); sys.path[:] = sys.argv[3:]; "
    "from pointstamp.driver.fork_server import main; main(int(sys.argv[1]), modules)"
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
            f"the process that forks workers {what}. Check its standard error, and that the machine has "
            "free memory and processes."
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
            self._process.returncode = 0  # or Popen would refer to a child that it cannot wait for
        self._socket = self._process = None


_server: Final = _ServerHandle()
atexit.register(_server.end)
os.register_at_fork(after_in_child=_server.forget)


def _end(owner: int, processes: list[ForkedProcess], folder: Path) -> None:
    """Make sure that no process and no file is left."""
    if os.getpid() != owner:
        return
    for number, seconds_max in ((signal.SIGTERM, _GRACE_SECONDS), (signal.SIGKILL, _KILLED_SECONDS_MAX)):
        running = [process for process in processes if process.is_alive]
        for process in running:
            process.send(number)
        for process in running:
            process.join(seconds_max)
    shutil.rmtree(folder, ignore_errors=True)
