"""Number and send a member's messages, and batch the small ones.

A message goes through ZeroMQ, or, if it is small and its receiver takes them, as a datagram
(``pointstamp.mesh.datagrams``).
Each has its number among those that went to that peer the same way, and says how many went the other way
before it, from which ``pointstamp.mesh.in_turn`` makes one order again. Numbers are given when a message is
sent and not when it is posted: what is refused as a datagram goes the other way as if never offered.

A thread that ``gather``s promises to ``flush`` before it does something that takes long. Until then its small
messages wait, and leave as one packet for each peer. Progress does not wait, and takes with it what waits for
the same peer: a worker that tells it has sent all rows before, and draws its own conclusions while its peer
wakes up. What any other thread posts leaves at once, too. So all messages to a peer are sent in the order in
which they were posted.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import zmq

from pointstamp.mesh.datagrams import OVERHEAD_BYTES, PACKET_BYTES_MAX, Datagrams, packed
from pointstamp.mesh.wire import Body, MessageKind, seal

# Above this size a frame is handed to the I/O thread as it is; below, copying is cheaper than keeping track.
_COPY_BYTES_MAX: Final = 64 * 1024
# As plain numbers: to combine members of an enumeration takes Python longer than libzmq takes to send.
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)

_Message: TypeAlias = tuple[int, bytes, Sequence[Body]]


class Outgoing:
    """The messages of one member to all others; any thread may post."""

    def __init__(
        self,
        member: int,
        members: int,
        generation: int,
        pushes: "Mapping[int, zmq.Socket[bytes]]",
        datagrams: Datagrams | None,
    ) -> None:
        self._member = member
        self.generation = generation
        """That of the messages that are sent from now on."""
        self._pushes = pushes
        self._datagrams = datagrams
        self.pushed = [0] * members
        """How many messages went to each peer through ZeroMQ."""
        self.by_datagram = [0] * members
        """How many went as datagrams."""
        self._gatherer: int | None = None
        self._gathered: dict[int, list[_Message]] = {}
        self._gathered_bytes = 0
        # The lock is also the barrier without which a socket must not pass from thread to thread.
        self._posting = threading.Lock()

    def post(self, peer: int, kind: int, header: bytes, bodies: Sequence[Body]) -> None:
        """Send a message without waiting."""
        with self._posting:
            if self._datagrams is not None and kind > MessageKind.GOODBYE:
                size = len(header) + OVERHEAD_BYTES
                for body in bodies:
                    size += memoryview(body).nbytes + OVERHEAD_BYTES
                if size <= PACKET_BYTES_MAX:
                    self._gathered.setdefault(peer, []).append((kind, header, bodies))
                    self._gathered_bytes += size
                    if self._gathered_bytes > PACKET_BYTES_MAX or self._gatherer != threading.get_ident():
                        self._flush()
                    elif kind == MessageKind.PROGRESS:
                        self._send(peer, self._gathered.pop(peer))
                        if not self._gathered:
                            self._gathered_bytes = 0
                    return
            self._flush()
            self._push(peer, kind, header, bodies)

    def gather(self, *, is_on: bool) -> None:
        """Let small messages that this thread posts wait for the next ``flush``."""
        self.flush()
        self._gatherer = threading.get_ident() if is_on else None

    def flush(self) -> None:
        """Send what has been gathered, all messages to one peer together."""
        if self._gathered:
            with self._posting:
                self._flush()

    def _flush(self) -> None:
        if not self._gathered:
            return
        gathered, self._gathered, self._gathered_bytes = self._gathered, {}, 0
        for peer, messages in gathered.items():
            self._send(peer, messages)

    def _send(self, peer: int, messages: Sequence[_Message]) -> None:
        """Send messages to one peer as a packet, or through ZeroMQ where that is refused."""
        assert self._datagrams is not None, "nothing is gathered where there are no datagrams"
        number, after = self.by_datagram[peer], self.pushed[peer]
        frames = [
            (seal(kind, self._member, self.generation, at, after) + header, bodies)
            for at, (kind, header, bodies) in enumerate(messages, start=number)
        ]
        if self._datagrams.offer(peer, packed(frames)):
            self.by_datagram[peer] = number + len(messages)
            return
        for kind, header, bodies in messages:
            self._push(peer, kind, header, bodies)

    def _push(self, peer: int, kind: int, header: bytes, bodies: Sequence[Body]) -> None:
        """Send one message through ZeroMQ."""
        push, number = self._pushes[peer], self.pushed[peer]
        self.pushed[peer] = number + 1
        first = seal(kind, self._member, self.generation, number, self.by_datagram[peer]) + header
        push.send(first, _MORE if bodies else _NOBLOCK)
        for left, body in enumerate(bodies, start=1 - len(bodies)):
            flags = _MORE if left else _NOBLOCK
            push.send(body, flags, copy=memoryview(body).nbytes <= _COPY_BYTES_MAX)
