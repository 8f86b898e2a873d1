"""The mesh: every member of a run connected to every other, with pyzmq.

Each member binds one PULL socket and connects one PUSH socket to each peer, so that each ordered pair has one
connection of its own, which is in order, and a member waits for all of them at a single place. pyzmq's I/O
thread moves the bytes outside of Python's lock. Small messages between members that listen at unix sockets go
as datagrams (``pointstamp.mesh.message_io``), several together where their sender gathers them
(``gather``); ``pointstamp.mesh.message_io`` brings both ways together again. ZeroMQ's queues have no limit
(high-water marks of 0): a sender that waited for a receiver could deadlock in a loop of the flow, so what is
in flight is bounded at the inputs.

Invariant: what a member collects from a peer is what that peer posted, in order, without gap or repetition.
Every message carries its number; a gap, a connection that closes without a goodbye, or a peer that answers no
heartbeat raises TransportError with the peer's name. Connections are never made again: what was in flight
would be lost unseen, so a run that has lost a peer starts again from a snapshot, in a new generation.
Messages of older generations are dropped and counted.

Members meet once. They learn each other's addresses through a channel that they trust (a pipe, Spark's own),
connect, and say hello. With CURVE (the default for tcp) each side proves that it owns its key and all bytes
are encrypted; only keys of members are admitted, and none after the rendezvous. Unix sockets in a private
folder need no keys; their files are removed when all have met. Plain tcp is for measurements: any process
that can reach the port can connect. Members that listen at tcp may find out that they share a host
(``nearby``), and use a unix socket in a private folder then, each pair by itself. The memory that
unauthorized connections can use is bounded: a frame that comes through tcp has at most ``FRAME_BYTES_MAX``
bytes, which hold nothing before they are sent, and libzmq drops a connection that has not proved its key
within thirty seconds. Where the system can do it (Linux), a port of tcp answers no connection after the
rendezvous: however many arrive, they cost a member no file.
"""

import os
import socket
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, cast

import zmq
from zmq.utils.monitor import recv_monitor_message

from pointstamp.errors import TransportError
from pointstamp.mesh import admission
from pointstamp.mesh.addresses import Nearby, close_nearby, opened_nearby, words_of_place
from pointstamp.mesh.admission import Address, Doorman, KeyPair, Refusals, Watchman, has_news
from pointstamp.mesh.message_io import Arrived, Datagrams, Incoming, InTurn, Outgoing
from pointstamp.mesh.wire import ENVELOPE_BYTES, Body, MessageKind
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.worker.lineage import LINEAGE

SILENCE_SECONDS_MAX: Final = 10.0
"""A peer that answers no heartbeat for so long is taken for dead."""

FRAME_BYTES_MAX: Final = 2**31
"""The most bytes of one frame through tcp: more than Spark itself can hold in one value."""

_CHECK_SECONDS: Final = 0.05
_LINGER_MS: Final = 500
# A lost peer is a failure long before this. Not -1, ZeroMQ's own word for never: with libzmq 4.3.5 a context
# now and then waits forever at its end after a peer was lost.
_NEVER_MS: Final = 86_400_000
_IPC: Final = "ipc://"


class Parcel(NamedTuple):
    """A message from a peer: its kind, header and frames."""

    sender: WorkerIndex
    kind: int
    header: memoryview
    bodies: Sequence[Body]


class Mesh:
    """One member's connections to all others; used by one thread of one process, but any may post."""

    def __init__(
        self,
        member: int,
        members: int,
        *,
        listen: str = "tcp://127.0.0.1:0",
        encrypted: bool | None = None,
        keys: KeyPair | None = None,
        generation: int = 0,
        names: Sequence[str] = (),
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        finds_nearby: bool = False,
    ) -> None:
        self.member = member
        self._names = list(names) or [f"worker {number}" for number in range(members)]
        self._keys: KeyPair | None = None
        if encrypted or (encrypted is None and not listen.startswith("ipc:")) or keys is not None:
            self._keys = keys or KeyPair.new()
        if not 0 < silence_seconds_max < _NEVER_MS / 1000:
            raise TransportError(
                f"{self.name}: silence_seconds_max must be above 0 and below a day, got "
                f"{silence_seconds_max}. Give seconds."
            )
        self._depth = LINEAGE.depth
        self._heartbeat_ms = max(1, int(silence_seconds_max * 1000))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._nearby = opened_nearby() if finds_nearby and listen.startswith("tcp:") else None
        # A context that is collected before its sockets waits for them forever, so a mesh that is forgotten
        # is closed as well, in the process that made it.
        self._files: list[socket.socket] = []
        closed = (os.getpid(), self._context, self._sockets, self._files, self._nearby)
        self._finalizer = weakref.finalize(self, _close, *closed)
        self._doorman: Doorman | None = None
        self._watchman: Watchman | None = None
        # Two, so that a line without an address never takes the place of one with an address.
        self._refusals, self._knocks = Refusals(), Refusals()
        self._is_limited = listen.startswith("tcp:")
        self._listener: socket.socket | None = None
        self._pushes: dict[int, zmq.Socket[bytes]] = {}
        self._in_turn = InTurn(member, self._names, generation, self._refusals)
        self._early: deque[Parcel] = deque()
        self._is_meeting = True
        self._peers = Peers(member, self._names)
        self.check_seconds = _CHECK_SECONDS
        """Seconds between two checks of ``wait`` for lost peers; an arrival ends it at once."""
        self._next_check = 0.0
        try:
            pulls = [self._listen(listen), *self._listen_nearby()]
        except (zmq.ZMQError, OSError) as error:
            self._finalizer()
            raise TransportError(f"{self.name} cannot listen at {listen}: {error}.") from error
        self._datagrams: Datagrams | None = None
        if listen.startswith(_IPC) and self._keys is None:
            self._datagrams = Datagrams.at(listen.removeprefix(_IPC))
        self.near: set[int] = set()
        """The peers that are reached through unix sockets, though they have ports."""
        self._out = Outgoing(member, members, generation, self._pushes, self._datagrams)
        if self._datagrams is not None:
            self._files.extend(self._datagrams.sockets)
        self._incoming = Incoming(pulls, self._datagrams, self._in_turn)

    @property
    def generation(self) -> int:
        """The generation of accepted messages; older messages are dropped."""
        return self._in_turn.generation

    @generation.setter
    def generation(self, generation: int) -> None:
        self.flush()
        self._in_turn.generation = self._out.generation = generation

    @property
    def name(self) -> str:
        """The name of this member in errors."""
        return self._names[self.member]

    @property
    def address(self) -> Address:
        """The address of this member, to be shared through a trusted channel."""
        return Address(self._endpoint, self._keys.public if self._keys else None, self._nearby)

    @property
    def refused(self) -> int:
        """The number of rejected connections and of dropped messages of older generations."""
        return self._refusals.count + self._knocks.count

    @property
    def dropped_old(self) -> int:
        """The number of dropped messages of older generations."""
        return self._in_turn.dropped_old

    # Meeting.

    def connect(self, addresses: Sequence[Address]) -> None:
        """Connect to all others, whose addresses come in the order of their numbers, and say hello."""
        if self._doorman is not None:
            self._doorman.allow(addresses)
        for peer, address in enumerate(addresses):
            if peer == self.member:
                continue
            # What is lost is then named with its host.
            self._names[peer] += words_of_place(address.endpoint)
            if (address.public_key is None) != (self._keys is None):
                raise TransportError(
                    f"{self.name} has {'a' if self._keys else 'no'} key, but {self._names[peer]} has "
                    f"{'one' if address.public_key else 'none'}. Let all members encrypt, or none."
                )
            self._pushes[peer] = self._connected(peer, address)
            if self._datagrams is not None and address.endpoint.startswith(_IPC):
                self._datagrams.connect(peer, address.endpoint.removeprefix(_IPC))
        if self._datagrams is not None:
            self._files[:] = self._datagrams.sockets
        for peer in self._pushes:
            self.post(peer, MessageKind.HELLO, b"")

    def greet(self) -> bool:
        """Advance the rendezvous without waiting; True when all members are connected."""
        if self._is_meeting:
            self._look_at_the_door()
            self._early.extend(self._take())
            self._look_after_peers()
            if not self._peers.missing:
                self._is_meeting = False
                self._stop_listening()
        return not self._is_meeting

    def meet(self, timeout_seconds: float) -> None:
        """Wait until connected with all; TransportError names those that are missing."""
        deadline = monotonic() + timeout_seconds
        while not self.greet():
            if monotonic() > deadline:
                missing = ", ".join(self._peers.missing)
                raise TransportError(
                    f"{self.name} has waited {timeout_seconds:g} seconds for {missing}. Check that the "
                    "process runs, and that its address is reachable from this host."
                )
            self.pause()

    def pause(self) -> None:
        """Rest for a moment of a meeting: the doorman and the listener are looked at in turn."""
        self._incoming.sleep(1)

    # Posting and collecting.

    def post(self, peer: int, kind: int, header: bytes, bodies: Sequence[Body] = ()) -> None:
        """Send a message without waiting."""
        self._check_not_copied()
        if peer in self._peers.left:
            raise TransportError(f"{self.name} cannot reach {self._names[peer]}, which has left the run.")
        if self._is_limited and bodies:
            self._check_sizes(peer, bodies)
        self._out.post(peer, kind, header, bodies)

    def gather(self, *, is_on: bool) -> None:
        """Let small messages that this thread posts wait for the next ``flush``, ``wait`` or ``close``."""
        self._out.gather(is_on=is_on)

    def flush(self) -> None:
        """Send what has been gathered, all messages to one peer together."""
        self._out.flush()

    def _check_not_copied(self) -> None:
        """A fork of the process shares its sockets: what it took or sent would be missing or doubled."""
        if LINEAGE.depth != self._depth:
            raise TransportError(
                f"{self.name}: process {os.getpid()} is a fork of the process that joined the run. Use the "
                "run in the process that started it."
            )

    def _check_sizes(self, peer: int, bodies: Sequence[Body]) -> None:
        # The peer would drop the connection, and could not say why.
        largest = max(memoryview(body).nbytes for body in bodies)
        if largest > FRAME_BYTES_MAX:
            raise TransportError(
                f"{self.name}: a message to {self._names[peer]} may have at most {FRAME_BYTES_MAX} bytes, "
                f"got {largest}. Send smaller batches."
            )

    def collect(self) -> list[Parcel]:
        """Return the received messages without waiting, in order per peer."""
        self._check_not_copied()
        if monotonic() >= self._next_check:
            self._look_after_peers()
        if self._early:
            early = list(self._early)
            self._early.clear()
            return early
        return self._take()

    def wait(self, timeout_seconds: float) -> bool:
        """Sleep until something arrives, at most so long; False where nothing did."""
        self.flush()
        now = monotonic()
        deadline = now + timeout_seconds
        while not self._early:
            left_seconds = max(0.0, min(deadline, self._next_check) - now)
            if self._incoming.sleep(ceil(left_seconds * 1000)):
                return True
            now = monotonic()
            if now >= self._next_check:
                self._look_after_peers()
            if now >= deadline:
                break
        return bool(self._early)

    def put_back(self, parcels: Iterable[Parcel]) -> None:
        """Let the next ``collect`` return these messages first."""
        self._early.extendleft(reversed(list(parcels)))

    def watch(self, files: Iterable[int]) -> None:
        """Let ``wait`` return also when one of these files can be read, and none that was watched before."""
        self._incoming.watch(files)

    def close(self, *, linger_ms: int = _LINGER_MS) -> None:
        """Say goodbye and close; what was posted is still delivered, for a moment."""
        if not self._finalizer.alive:
            return
        if linger_ms:
            self.flush()
            for peer in self._pushes.keys() - self._peers.left - self._peers.lost:
                try:
                    self.post(peer, MessageKind.GOODBYE, b"")
                except TransportError:
                    continue
            self._hear_goodbyes(linger_ms)
        if self._listener is not None:
            self._listener.close()
        self._finalizer.detach()
        _close(os.getpid(), self._context, self._sockets, self._files, self._nearby, linger_ms)

    # Inside.

    def _hear_goodbyes(self, timeout_ms: int) -> None:
        """Wait a moment for those that leave at the same time: no goodbye reaches a peer that is gone.

        Whatever else has arrived is of no use to anybody any more.
        """
        deadline = monotonic() + timeout_ms / 1000
        try:
            while self._pushes.keys() - self._peers.left - self._peers.lost:
                left_ms = ceil((deadline - monotonic()) * 1000)
                if left_ms <= 0 or not self._incoming.sleep(min(left_ms, 50)):
                    self._look_after_peers()
                if left_ms <= 0:
                    return
                self._take()
        except TransportError:
            return  # somebody is gone already

    def _take(self) -> list[Parcel]:
        """Take in what has come."""
        parcels: list[Parcel] = []
        for arrived in self._incoming.take():
            self._accept(arrived, parcels)
        return parcels

    def _accept(self, arrived: Arrived, parcels: list[Parcel]) -> None:
        """Take note of greetings, and keep everything else."""
        (kind, sender, *_), first, bodies = arrived
        if kind == MessageKind.HELLO:
            self._peers.said_hello(sender)
        elif kind == MessageKind.GOODBYE:
            self._peers.said_goodbye(sender)
        else:
            parcels.append(Parcel(WorkerIndex(sender), kind, first[ENVELOPE_BYTES:], bodies))

    def _look_at_the_door(self) -> None:
        if self._doorman is not None:
            self._doorman.answer()
        if self._watchman is not None:
            self._watchman.look(is_meeting=self._is_meeting)

    def _look_after_peers(self) -> None:
        """See who came, knocked, or is gone; TransportError for a peer that is gone without goodbye."""
        self._next_check = monotonic() + self.check_seconds
        if not self._is_meeting:
            self._look_at_the_door()
        if self._peers.look():
            # The goodbye may lie in our queue, behind all that we have been too busy to take.
            while taken := self._take():
                self._early.extend(taken)
            self._peers.check()

    def _connected(self, peer: int, address: Address) -> "zmq.Socket[bytes]":
        push = self._socket(zmq.PUSH)
        endpoint = address.endpoint
        if self._nearby is not None and address.nearby is not None and address.nearby.is_near():
            endpoint = address.nearby.endpoint
            self.near.add(peer)
        elif self._keys is not None:
            push.curve_publickey, push.curve_secretkey = self._keys
            push.curve_serverkey = address.public_key
        push.reconnect_ivl = _NEVER_MS
        # The I/O threads answer heartbeats, also while a worker is busy with one batch for minutes.
        push.heartbeat_ivl = max(1, self._heartbeat_ms // 4)
        push.heartbeat_timeout = self._heartbeat_ms
        is_elsewhere = bool(words_of_place(endpoint))
        self._sockets.append(self._peers.monitor(peer, push, is_elsewhere=is_elsewhere))
        push.ipv6 = "[" in endpoint
        push.connect(endpoint)
        return push

    def _listen(self, endpoint: str) -> "zmq.Socket[bytes]":
        pull = self._socket(zmq.PULL)
        if self._keys is not None:
            pull.curve_server = True
            pull.curve_publickey, pull.curve_secretkey = self._keys
            pull.zap_domain = b"pointstamp"
            self._doorman = Doorman(self._socket(zmq.REP), self.name, self._refusals)
            self._watchman = Watchman(pull, self._socket(zmq.PAIR), self.name, self._knocks)
        if self._is_limited:
            pull.maxmsgsize = FRAME_BYTES_MAX
            # A listener of our own making, because a filter is put before it when all have met.
            self._listener = admission.listener_at(endpoint)
            pull.setsockopt(zmq.USE_FD, os.dup(self._listener.fileno()))
        pull.ipv6 = "[" in endpoint
        pull.bind(endpoint)
        self._endpoint = cast("bytes", pull.last_endpoint).rstrip(b"\0").decode()
        return pull

    def _listen_nearby(self) -> "list[zmq.Socket[bytes]]":
        """Listen also where members on this host reach this one, if that is wanted and possible."""
        if self._nearby is None:
            return []
        pull = self._socket(zmq.PULL)
        pull.setsockopt(zmq.IPC_FILTER_UID, os.getuid())
        pull.bind(self._nearby.endpoint)
        return [pull]

    def _stop_listening(self) -> None:
        # zmq_unbind would close the connections that were accepted, too. With keys nobody gets in any more
        # because the doorman refuses everybody; a port can be made deaf, and a socket file taken away.
        if self._doorman is not None:
            self._doorman.shut()
        if self._listener is not None:
            admission.make_deaf(self._listener)
            self._listener.close()
            self._listener = None
        if self._endpoint.startswith(_IPC):
            Path(self._endpoint.removeprefix(_IPC)).unlink(missing_ok=True)
        if self._nearby is not None:
            close_nearby(self._nearby)
        if self._datagrams is not None:
            self._datagrams.forget_file()

    def _socket(self, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.sndhwm = socket.rcvhwm = 0
        return socket


def _close(
    owner: int,
    context: "zmq.Context[zmq.Socket[bytes]]",
    sockets: "list[zmq.Socket[bytes]]",
    files: Sequence[socket.socket],
    nearby: Nearby | None,
    linger_ms: int = 0,
) -> None:
    if os.getpid() == owner:
        if nearby is not None:
            close_nearby(nearby)
        for file in files:
            file.close()
        for socket in sockets:
            socket.close(linger=linger_ms)
        context.term()


# The state of a member's peers: joined, left or lost.
#
# ZeroMQ's I/O thread tells what happens to connections through monitors. A connection that ends is a failure,
# unless its peer has said goodbye. Goodbyes travel the other way and may come a moment later, so a loss is
# raised when that moment is over; and they may lie unread in the queue of a busy member, so its owner reads
# what has come before it lets a loss be raised.
#
# Invariant: a peer that is gone without a goodbye is raised with its name by every ``check`` from then on.

# How long a goodbye may take to arrive after the connection in the other direction was seen to close. Between
# hosts its packet may get lost, and is sent again after a second if the way is long.
_GOODBYE_SECONDS_MAX: Final = 0.2
_GOODBYE_FROM_ELSEWHERE_SECONDS_MAX: Final = 2.0

_WHAT_HAPPENED: Final = {
    zmq.EVENT_DISCONNECTED: "was closed",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "was refused, because the key is not that of a member",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "failed in its handshake",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "failed in its handshake",
    zmq.EVENT_CLOSED: "could not be made",
}
_MONITORED: Final = sum(_WHAT_HAPPENED) + zmq.EVENT_HANDSHAKE_SUCCEEDED


class Peers:
    """The peers of one member; changed by the mesh that owns it."""

    def __init__(self, member: int, names: Sequence[str]) -> None:
        self._member = member
        self._names = names
        self._monitors: dict[int, zmq.Socket[bytes]] = {}
        self._unheard = set(range(len(names))) - {member}
        self._unconnected = set(self._unheard)
        self._left: set[int] = set()
        self._lost: dict[int, tuple[float, str]] = {}
        self._elsewhere: set[int] = set()

    def monitor(self, peer: int, push: "zmq.Socket[bytes]", *, is_elsewhere: bool) -> "zmq.Socket[bytes]":
        """Watch a new connection; the caller closes the returned socket."""
        if is_elsewhere:
            self._elsewhere.add(peer)
        monitor: zmq.Socket[bytes] = push.get_monitor_socket(_MONITORED)
        self._monitors[peer] = monitor
        return monitor

    def said_hello(self, peer: int) -> None:
        """Take note of a greeting."""
        self._unheard.discard(peer)

    def said_goodbye(self, peer: int) -> None:
        """Take note that a peer leaves; nothing of it comes any more."""
        self._left.add(peer)

    @property
    def missing(self) -> list[str]:
        """The peers that are not connected in both directions yet."""
        return [self._names[peer] for peer in sorted(self._unheard | self._unconnected)]

    @property
    def left(self) -> set[int]:
        """The peers that have left."""
        return self._left

    @property
    def lost(self) -> set[int]:
        """The peers whose connection has ended, with or without a goodbye."""
        return set(self._lost)

    def look(self) -> bool:
        """Read what the I/O thread says about connections; whether a goodbye should have come by now."""
        now = monotonic()
        for peer, monitor in self._monitors.items():
            while has_news(monitor):
                event: Any = recv_monitor_message(monitor, zmq.NOBLOCK)["event"]
                if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    self._unconnected.discard(peer)
                else:
                    self._lost.setdefault(peer, (now + self._patience(peer), _WHAT_HAPPENED[event]))
        return self._next_gone(now) is not None

    def check(self) -> None:
        """Raise TransportError for a peer that is gone without a goodbye."""
        peer = self._next_gone(monotonic())
        if peer is not None:
            raise TransportError(
                f"{self._names[self._member]} has lost {self._names[peer]}: the connection "
                f"{self._lost[peer][1]}. Its process has ended, has stopped answering, or has another "
                "key."
            )

    def _patience(self, peer: int) -> float:
        is_elsewhere = peer in self._elsewhere
        return _GOODBYE_FROM_ELSEWHERE_SECONDS_MAX if is_elsewhere else _GOODBYE_SECONDS_MAX

    def _next_gone(self, now: float) -> int | None:
        gone = (p for p, (deadline, _) in self._lost.items() if now > deadline and p not in self._left)
        return next(gone, None)
