"""A gang of worker processes: start, rendezvous and end.

``ProcessGang`` starts n processes, which inherit nothing of this one (``pointstamp.running.forked``), lets
them and the driving process meet in one mesh, says who has died and of what, and ends them all. They speak
through unix sockets in a private folder, which is gone as soon as they have met; nothing is left behind, no
matter which process is killed and when.
"""

import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from pointstamp.errors import FlowError, TransportError
from pointstamp.flow.plan import Plan
from pointstamp.mesh.door import Address
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh
from pointstamp.mesh.nearby import SOCKET_PATH_BYTES_MAX
from pointstamp.running.board import Board, Silent, account_of
from pointstamp.running.boundedworker import run_worker
from pointstamp.running.failing import error_of
from pointstamp.running.forked import ForkedProcess, fork_clean
from pointstamp.running.lookout import STUCK
from pointstamp.running.messages import Failed, InCall
from pointstamp.running.sendable import packed
from pointstamp.running.workerprocess import (
    MEETING_SECONDS_MAX,
    RunMember,
    Seat,
    member_names,
    work,
)

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
            raise TransportError(f"{self.name(worker)} closed its pipe before it met the others.") from None

    def _check_alive(self) -> None:
        for death in self.deaths():
            raise TransportError(f"{death.words} before it met the others.")


def _listener(transport: str, folder: Path) -> Callable[[int], str]:
    """Where each member listens."""
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
    hint = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
    return f"was killed by signal {-code} ({name}{hint})"


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
