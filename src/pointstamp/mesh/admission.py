"""Admission to a mesh: keys, addresses, and a doorman that admits only members.

CURVE proves to a client that the server owns its key, and encrypts. That the client is a member is decided
here, by ZeroMQ's authentication protocol (RFC 27): a handshake continues when the doorman has answered for
the client's key. During the rendezvous it admits them; afterwards it rejects every connection.

Invariant: no byte of an unauthorized connection reaches the mesh. Such connections are counted, and the log
``pointstamp.mesh`` names them, with the address where it is known (of those who show a key) and at most once
in ``LOG_SECONDS``, so that connections cannot fill the log. Blocking an address is not done here; that is for
a firewall.
"""

import ctypes
import logging
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from math import inf
from time import monotonic
from typing import Final, NamedTuple, cast

import msgspec
import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from pointstamp.mesh.addresses import Nearby, host_of

LOG_SECONDS: Final = 10.0
"""A mesh logs unauthorized connections at most once in this many seconds."""

_ASKED_AT: Final = "inproc://zeromq.zap.01"
_WATCHED_AT: Final = "inproc://pointstamp.listener"
_LOG: Final = logging.getLogger("pointstamp.mesh")

_POLLIN: Final = int(zmq.POLLIN)  # to combine members of an enumeration takes longer than to ask

_BACKLOG: Final = 1_024
_SO_ATTACH_FILTER: Final = 26
_DROP: Final = struct.pack("HBBI", 0x06, 0, 0, 0)  # the one instruction: return 0 bytes of the packet


class KeyPair(NamedTuple):
    """A CURVE key: the public half is sent to the peers, the secret half never leaves its process."""

    public: bytes
    secret: bytes

    @classmethod
    def new(cls) -> "KeyPair":
        """A fresh key."""
        return cls(*zmq.curve_keypair())


class Address(msgspec.Struct, frozen=True):
    """The addresses of a member, its optional public key, and its local address."""

    endpoint: str
    public_key: bytes | None = None
    nearby: Nearby | None = None


class Refusals:
    """Counts rejected connections and logs them, rate-limited."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self.count = 0
        self._unsaid = 0
        self._silent_until = -inf
        self._clock = clock

    def add(self, what: str) -> None:
        """Count one more; the sentence is written unless one has just been."""
        self.count += 1
        now = self._clock()
        if now < self._silent_until:
            self._unsaid += 1
            return
        more = f" Since the last such line there were {self._unsaid} more." if self._unsaid else ""
        self._unsaid, self._silent_until = 0, now + LOG_SECONDS
        _LOG.warning("%s%s", what, more)


class Doorman:
    """Answers who may come in; must be there before the first handshake begins."""

    def __init__(self, socket: "zmq.Socket[bytes]", name: str, refusals: Refusals) -> None:
        self._socket = socket
        self._name = name
        self._refusals = refusals
        self._allowed: set[bytes] = set()
        self._knows_members = False
        socket.bind(_ASKED_AT)

    def allow(self, members: Iterable[Address]) -> None:
        """Let in the owners of the keys of these members."""
        self._allowed = {z85.decode(each.public_key) for each in members if each.public_key is not None}
        self._knows_members = True

    def shut(self) -> None:
        """Reject every connection from now on, even with a member's key."""
        self._allowed = set()

    def answer(self) -> None:
        """Answer all waiting connections; none is answered before the members are known."""
        while self._knows_members and has_news(self._socket):
            version, request, _, address, _, mechanism, *shown = self._socket.recv_multipart(zmq.NOBLOCK)
            is_member = mechanism == b"CURVE" and shown[0] in self._allowed
            verdict = (b"200", b"OK") if is_member else (b"400", b"not a member of this run")
            self._socket.send_multipart([version, request, *verdict, b"", b""], zmq.NOBLOCK)
            if not is_member:
                self._refusals.add(
                    f"{self._name} has refused {address.decode(errors='replace')}: it showed a key that is "
                    "not, or is no longer, allowed in."
                )


class Watchman:
    """Sees who comes to the listener without ever getting to the door: no key, another protocol, silence."""

    def __init__(
        self,
        listener: "zmq.Socket[bytes]",
        monitor: "zmq.Socket[bytes]",
        name: str,
        refusals: Refusals,
    ) -> None:
        # The monitor's queue must have no limit: at a limit, libzmq lets its I/O thread wait for us, and with
        # it all heartbeats. So the socket is brought along, and is not the one that pyzmq would make.
        listener.monitor(_WATCHED_AT, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        monitor.connect(_WATCHED_AT)
        self._monitor = monitor
        self._name = name
        self._refusals = refusals

    def look(self, *, is_meeting: bool) -> None:
        """Read events of the I/O thread: connections that are dropped or late are unauthorized."""
        while has_news(self._monitor):
            event = recv_monitor_message(self._monitor, zmq.NOBLOCK)
            if is_meeting and event["event"] == zmq.EVENT_DISCONNECTED:
                self._refusals.add(f"{self._name} has dropped a connection that did not come from a member.")
            elif not is_meeting and event["event"] == zmq.EVENT_ACCEPTED:
                self._refusals.add(
                    f"{self._name} accepts no more connections, but a process has connected to "
                    f"{event['endpoint'].decode(errors='replace')}."
                )


def listener_at(endpoint: str) -> socket.socket:
    """A socket that listens at an endpoint ``tcp://host:port``, with 0 for a free port."""
    host, number = host_of(endpoint), int(endpoint.rpartition(":")[2])
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, number), family=family, backlog=_BACKLOG)


def make_deaf(listener: socket.socket) -> bool:
    """Make a listener answer no more connections, silently; return False if the system cannot.

    The connections that it has accepted stay. A flood of connections to a port that still accepts takes all
    files that its process may have, and then nothing in that process can open one.
    """
    if sys.platform != "linux":
        return False
    program = ctypes.create_string_buffer(_DROP, len(_DROP))
    try:
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program))
        )
    except OSError:  # forbidden in some containers
        return False
    return True


def has_news(socket: "zmq.Socket[bytes]") -> bool:
    """Return whether a message can be received at once."""
    # Asking first is three times cheaper than a receive that raises because there is nothing.
    return bool(cast("int", socket.getsockopt(zmq.EVENTS)) & _POLLIN)
