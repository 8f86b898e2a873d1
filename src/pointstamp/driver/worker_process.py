"""The main function of a worker process.

``work`` is the main function of such a process; what it does once it has met the others is given to it. It
ends when that has ended, and when the driving process is gone: it never outlives it by more than a moment.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, TypeAlias

import msgspec

from pointstamp.driver.liveness import Board, Sign
from pointstamp.driver.messages import DRIVER, encode, failure_in, failure_of, post_failure
from pointstamp.errors import PointstampError
from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import Mesh

MEETING_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Seat:
    """The arguments of a worker process."""

    worker: int
    workers: int
    listen: str
    encrypted: bool | None
    silence_seconds_max: float
    generation: int = 0
    board: str | None = None
    """The path of the board with the worker's heartbeats."""

    def sign(self) -> Sign | None:
        """The liveness sign of the worker."""
        return None if self.board is None else Board.open(self.board).of(self.worker)


RunMember: TypeAlias = Callable[[Mesh, Seat, Sign | None], None]
"""The function of a process after the rendezvous; its argument sends heartbeats."""


def member_names(workers: int) -> list[str]:
    """Return the names of the mesh members: the workers, then the driving process."""
    return [*(f"worker {number}" for number in range(workers)), DRIVER]


def work(run: RunMember, seat: Seat, pipe: Connection) -> None:
    """Run one member until it has done its work; the main function of a process."""
    sign = seat.sign()  # before the meeting: then nobody can open the board any more
    mesh = _meet(seat, pipe)
    if mesh is None:
        return
    try:
        failure = failure_in(partial(run, mesh, seat, sign))
        if failure is not None and not post_failure(mesh, seat.workers, failure):
            os.write(2, failure.traceback.encode())  # nobody is left to be told
    finally:
        mesh.close()


def _meet(seat: Seat, pipe: Connection) -> Mesh | None:
    """Exchange addresses through the pipe; None where the driving process is gone already."""
    mesh: Mesh | None = None
    try:
        mesh = Mesh(
            seat.worker,
            seat.workers + 1,
            listen=seat.listen,
            encrypted=seat.encrypted,
            names=member_names(seat.workers),
            silence_seconds_max=seat.silence_seconds_max,
            generation=seat.generation,
        )
        pipe.send_bytes(msgspec.msgpack.encode(mesh.address))
        mesh.connect(msgspec.msgpack.decode(pipe.recv_bytes(), type=list[Address]))
        mesh.meet(MEETING_SECONDS_MAX)
    except (EOFError, OSError):
        if mesh is not None:
            mesh.close(linger_ms=0)
        return None
    except PointstampError as error:
        pipe.send_bytes(encode(failure_of(error)))
        if mesh is not None:
            mesh.close(linger_ms=0)
        return None
    finally:
        pipe.close()
    return mesh
