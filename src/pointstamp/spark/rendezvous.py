"""The rendezvous on Spark: the socket of the driver, and the side of the tasks.

The driver listens before it submits the job, and sends the address and a secret along with the tasks
(``RendezvousPlace``). ``RendezvousServer`` moves messages between the sockets and the state machine
(``pointstamp.query.rendezvous``). A task keeps its connection as long as it runs: the end of the connection
is the end of the task. In a local session the socket is a unix socket in a private folder, elsewhere it is
a TCP port of the driver's host.
"""

import logging
import os
import platform
import selectors
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from time import monotonic
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from pointstamp.errors import TransportError
from pointstamp.mesh.addresses import SOCKET_PATH_BYTES_MAX, endpoint_at
from pointstamp.mesh.admission import Address
from pointstamp.mesh.authenticated import AuthenticatedSocket, UnauthorizedError, new_secret
from pointstamp.mesh.mesh import Mesh
from pointstamp.query.rendezvous import (
    Answer,
    Dismissed,
    Listening,
    Placement,
    Register,
    Rendezvous,
    Request,
    Roster,
    Sent,
)
from pointstamp.spark.slots import is_connect, is_local
from pointstamp.version import __version__

CONNECT_SECONDS_MAX: Final = 30.0
"""How long a task tries to reach the driver."""
_REGISTER_SECONDS_MAX: Final = 10.0
"""How long a connection may stay without a valid message."""
_UNREGISTERED_MAX: Final = 256
"""How many connections may be open that have not registered; the oldest makes room for the next."""
_BACKLOG: Final = 1_024
_SOCKET_NAME: Final = "rendezvous"
_log = logging.getLogger("pointstamp.spark")
_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(Answer)


@dataclass(frozen=True, slots=True)
class RendezvousPlace:
    """Where tasks register, and the secret that lets them; it travels with the tasks and is shown nowhere."""

    family: int
    address: str | tuple[str, int]
    secret: bytes

    def __repr__(self) -> str:
        return f"RendezvousPlace({self.address!r})"


class RendezvousServer:
    """Serves one rendezvous; used by the driver's thread."""

    def __init__(self, folder: str | None, host: Callable[[], str]) -> None:
        self._listener = _listener(folder, host)
        self._listener.setblocking(False)
        name = self._listener.getsockname()
        address = name if isinstance(name, str) else (name[0], name[1])
        self.place = RendezvousPlace(self._listener.family, address, new_secret())
        self._selector: Any = selectors.DefaultSelector()  # epoll's and kqueue's have a file
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._open: dict[int, AuthenticatedSocket] = {}
        self._silent_since: dict[int, float] = {}
        self._next = 0
        self._machine: Rendezvous | None = None
        self._driver_address: Callable[[int], Address] | None = None

    def serve(self, machine: Rendezvous, driver_address: Callable[[int], Address]) -> None:
        """Serve a state machine; ``driver_address`` is the driver's own address for a number of workers."""
        self._machine, self._driver_address = machine, driver_address

    @property
    def late(self) -> int:
        """How many tasks have registered after the workers were decided."""
        return 0 if self._machine is None else self._machine.late

    @property
    def connected(self) -> int:
        """How many workers are still connected."""
        return 0 if self._machine is None else self._machine.registered

    @property
    def wish(self) -> int:
        """How many workers were wished for."""
        return 0 if self._machine is None else self._machine.wish

    def wait_until_left(self, seconds_max: float) -> None:
        """Wait until all workers that are still connected have closed their lines, which they do last."""
        deadline = monotonic() + seconds_max
        while self.connected and (left := deadline - monotonic()) > 0:
            self.poll(left)

    def fileno(self) -> int:
        """A file that is readable when a task has something to say."""
        return int(self._selector.fileno())

    def poll(self, timeout_seconds: float) -> None:
        """Take in what tasks have sent, answer them, and let time pass for the state machine."""
        machine = self._machine
        assert machine is not None
        for key, events in self._selector.select(timeout_seconds):
            if key.fileobj is self._listener:
                self._accept(machine)
            elif key.data in self._open:
                self._look_at(machine, key.data, events)
        now = monotonic()
        self._send(machine.tick(now))
        for number, since in list(self._silent_since.items()):
            if now - since > _REGISTER_SECONDS_MAX:
                self._drop(machine, number, "it has not registered")

    def close(self) -> None:
        """Close all connections, which ends the tasks that still wait."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        self._selector.close()
        self._listener.close()
        if isinstance(self.place.address, str):
            with suppress(OSError):
                os.unlink(self.place.address)

    # Inside.

    def _accept(self, machine: Rendezvous) -> None:
        try:
            stream, _ = self._listener.accept()
        except OSError:
            return
        if len(self._silent_since) >= _UNREGISTERED_MAX:
            self._drop(machine, next(iter(self._silent_since)), None)
        stream.setblocking(False)
        if stream.family != socket.AF_UNIX:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        number, self._next = self._next, self._next + 1
        try:
            self._open[number] = AuthenticatedSocket(stream, self.place.secret, is_server=True)
        except OSError:
            stream.close()
            return
        self._silent_since[number] = monotonic()
        self._selector.register(stream, selectors.EVENT_READ, number)

    def _look_at(self, machine: Rendezvous, number: int, events: int) -> None:
        connection = self._open[number]
        try:
            if events & selectors.EVENT_WRITE:
                connection.flush()
                self._await(number)
            if not events & selectors.EVENT_READ:
                return
            messages = connection.receive()
            if messages is None:
                self._drop(machine, number, None)
                return
            for message in messages:
                self._silent_since.pop(number, None)
                self._send(self._taken(machine, number, _requests.decode(message)))
        except (UnauthorizedError, msgspec.DecodeError, OSError) as error:
            self._drop(machine, number, str(error))

    def _taken(self, machine: Rendezvous, number: int, request: Request) -> list[Sent]:
        match request:
            case Register():
                return machine.register(number, request, monotonic())
            case Listening():
                return machine.bound(number, request)

    def _send(self, answers: Iterable[Sent]) -> None:
        assert self._driver_address is not None
        for number, answer in answers:
            if isinstance(answer, Roster):
                own = self._driver_address(len(answer.addresses))
                answer = msgspec.structs.replace(answer, addresses=[*answer.addresses, own])
            connection = self._open.get(number)
            if connection is not None:
                with suppress(OSError):  # it is seen as disconnected in a moment
                    connection.send(_encoder.encode(answer))
                self._await(number)

    def _await(self, number: int) -> None:
        """Wait for the socket to be writable as long as something waits to be sent."""
        connection = self._open[number]
        write = selectors.EVENT_WRITE if connection.has_unsent else 0
        self._selector.modify(connection.stream, selectors.EVENT_READ | write, number)

    def _drop(self, machine: Rendezvous, number: int, reason: str | None) -> None:
        connection = self._open.pop(number)
        self._silent_since.pop(number, None)
        self._selector.unregister(connection.stream)
        connection.close()
        if reason is not None:
            _log.warning("a connection to the rendezvous of a query was closed: %s", reason)
        self._send(machine.disconnected(number, monotonic()))


def _listener(folder: str | None, host: Callable[[], str]) -> socket.socket:
    if folder is not None:
        path = os.path.join(folder, _SOCKET_NAME)
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(path)
            listener.listen(_BACKLOG)
            return listener
    name = host()
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    try:
        return socket.create_server((name, 0), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise TransportError(
            f"the driver cannot listen for its workers at '{name}': {error}. Set spark.driver.host or "
            "POINTSTAMP_DRIVER_HOST to an address of this host that the executors reach."
        ) from error


class Membership:
    """A task's place among the workers of a generation: its mesh, its number, and its line to the driver."""

    def __init__(self, mesh: Mesh, seat: Placement, roster: Roster, line: AuthenticatedSocket) -> None:
        self.mesh = mesh
        self.seat = seat
        self.roster = roster
        self._line = line

    def close(self) -> None:
        """Close the line to the driver, which is how the driver learns that the task has ended."""
        self._line.close()


def register(
    place: RendezvousPlace, hello: Register, build_mesh: Callable[[Placement, str], Mesh]
) -> Membership | None:
    """Register with the driver and wait; None for a task that the driver does not need.

    ``build_mesh`` gets the seat and the address of this host by which it reaches the driver.
    """
    stream = _connected(place)
    own = "" if stream.family == socket.AF_UNIX else endpoint_at(str(stream.getsockname()[0]))
    line = AuthenticatedSocket(stream, place.secret, is_server=False)
    line.send(_encoder.encode(hello))
    mesh: Mesh | None = None
    seat: Placement | None = None
    try:
        while (messages := line.receive()) is not None:
            for message in messages:
                match _answers.decode(message):
                    case Placement() as seat:
                        if mesh is not None:
                            mesh.close(linger_ms=0)
                        mesh = build_mesh(seat, own)
                        line.send(_encoder.encode(Listening(seat.round, mesh.address)))
                    case Roster() as roster:
                        assert mesh is not None
                        assert seat is not None
                        membership = Membership(mesh, seat, roster, line)
                        mesh = None
                        return membership
                    case Dismissed(reason):
                        _log.info("a task has ended: %s", reason)
                        line.close()
                        return None
        line.close()
        return None  # the driver is gone, or has ended this generation
    except BaseException:
        line.close()
        raise
    finally:
        if mesh is not None:
            mesh.close(linger_ms=0)


def _connected(place: RendezvousPlace) -> socket.socket:
    """Connect to the driver, which listens before its tasks start."""
    stream = socket.socket(place.family, socket.SOCK_STREAM)
    stream.settimeout(CONNECT_SECONDS_MAX)
    try:
        stream.connect(place.address)
    except OSError as error:
        stream.close()
        raise TransportError(
            f"a worker on host '{socket.gethostname()}' cannot reach the driver at {place.address}: {error}. "
            "Workers need a connection to the driver: set spark.driver.host or POINTSTAMP_DRIVER_HOST to an "
            "address of the driver that the executors reach, and open its ports in the firewall."
        ) from error
    stream.settimeout(None)
    if stream.family != socket.AF_UNIX:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return stream


# Where the workers of a job listen, and what must agree before they begin.
#
# In a local session all tasks are processes of the driver's host and user: they listen at unix sockets in a
# private folder. Everywhere else they listen at ports of their hosts.

MEETING_SECONDS_MAX: Final = 60.0

_SOCKET_PREFIX: Final = "of-"
_SOCKET_NAME_BYTES: Final = 16
"""What a socket adds to the path of its folder, at most."""


@contextmanager
def meeting_folder(spark: SparkSession) -> Iterator[str | None]:
    """A private folder for the sockets of one job; None if its tasks may be on several hosts."""
    # Not where Spark starts failed tasks again (local[n, failures]), as on a cluster.
    if is_connect(spark) or not is_local(spark) or "," in spark.conf.get("spark.master", ","):
        yield None
        return
    folder = tempfile.mkdtemp(prefix="pointstamp-meeting-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def versions() -> dict[str, str]:
    """The versions that all workers must share."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "pyarrow": pa.__version__,
        # Not by importing it, which takes long; many a flow never needs it.
        "pandas": version("pandas"),
        "pointstamp": __version__,
    }


def listens_at(folder: str | None, member: int | str, endpoint: str | Callable[[], str]) -> str:
    """Where a member listens: at a unix socket in the private folder, or at a port of its host.

    All members that use one folder are on one host and of one user, and no other user may open it: they
    speak without keys. Where its path is too long for a socket, all of them use ports.
    """
    if folder is None or len(os.fsencode(folder)) + _SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
        return endpoint if isinstance(endpoint, str) else endpoint_at(endpoint())
    return f"ipc://{folder}/{_SOCKET_PREFIX}{member}"
