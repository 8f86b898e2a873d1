"""Small messages between members of one host, as unix datagrams.

What goes through ZeroMQ wakes an I/O thread here, one there, and then the receiver. A datagram is put into
the receiver's queue by the call that sends it, and wakes no other process. So members that listen at unix
sockets have a second one beside it, for datagrams, in the same private folder, which is the same proof of who
speaks.

A packet holds one message or several to one receiver. A full queue, or a peer that is gone, refuses it at
once: ``offer`` says so, and the mesh sends the messages through ZeroMQ, whose queues have no limit.

Invariant: of the packets that one sender offers to one receiver, those that were not refused arrive in order,
each once and whole. How they and what goes through ZeroMQ come into one order again is said in
``pointstamp.mesh.in_turn``.
"""

import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pointstamp.errors import TransportError

PACKET_BYTES_MAX: Final = 32 * 1024
"""A message of more bytes is moved by an I/O thread while its sender works on; so many make a packet."""

OVERHEAD_BYTES: Final = 64
"""What a message takes in a packet beside its frames, at most, and each body once more."""

_SUFFIX: Final = ".s"
_BUFFER_BYTES: Final = 4 * PACKET_BYTES_MAX
_HEAD: Final = struct.Struct("<II")
_SIZE: Final = struct.Struct("<I")
# Arrow's kernels expect values at such addresses; what is not there would be copied.
_ALIGNMENT: Final = 8
_PADDING: Final = [bytes(-length % _ALIGNMENT) for length in range(_ALIGNMENT)]


class Datagrams:
    """One member's datagrams to and from all others; sent by any thread under a lock, received by one."""

    def __init__(self, path: str) -> None:
        self._path = Path(path + _SUFFIX)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._outs: dict[int, socket.socket] = {}
        self._own = _datagram_socket()
        self.sockets = [self._own]
        """Whoever made this closes them."""
        try:
            self._own.bind(str(self._path))
        except OSError:
            self._own.close()
            raise

    @classmethod
    def at(cls, path: str) -> "Datagrams | None":
        """Return datagrams next to a unix socket; None if the system has no reliable ones."""
        if sys.platform != "linux":
            return None
        try:
            return cls(path)
        except OSError:  # the name may be too long
            return None

    def connect(self, peer: int, path: str) -> None:
        """Connect to a peer that listens at a unix socket; one that takes none is offered nothing."""
        out = _datagram_socket()
        try:
            out.connect(path + _SUFFIX)
        except OSError:
            out.close()
            return
        self.sockets.append(out)
        self._outs[peer] = out

    def fileno(self) -> int:
        """The file that can be read when a packet has come."""
        return self._own.fileno()

    def offer(self, peer: int, packet: bytes) -> bool:
        """Put a packet into the queue of a peer; False where that has no place for it."""
        out = self._outs.get(peer)
        if out is None:
            return False
        try:
            out.send(packet)
        except OSError:
            return False
        return True

    def take(self) -> bytes | None:
        """The next packet; None where none has come."""
        try:
            length = self._own.recv_into(self._buffer)
        except BlockingIOError:
            return None
        return bytes(self._buffer[:length])

    def forget_file(self) -> None:
        """All members have connected: the socket's name is no longer needed."""
        self._path.unlink(missing_ok=True)


def packed(messages: Sequence[tuple[bytes, Sequence[Any]]]) -> bytes:
    """One packet of messages, each a first frame and the bodies that follow."""
    parts: list[Any] = []
    for first, bodies in messages:
        length = len(first)
        if not bodies:
            parts += _HEAD.pack(length, 0), first, _PADDING[length % _ALIGNMENT]
            continue
        sizes = [memoryview(body).nbytes for body in bodies]
        head = _HEAD.pack(length, len(sizes)) + b"".join(map(_SIZE.pack, sizes))
        for frame, size in ((head, len(head)), (first, length), *zip(bodies, sizes, strict=True)):
            parts += frame, _PADDING[size % _ALIGNMENT]
    return b"".join(parts)


def unpacked(packet: bytes) -> Iterator[tuple[memoryview, list[memoryview]]]:
    """The messages in a packet, in their order; TransportError for what cannot be one."""
    at, end, view = 0, len(packet), memoryview(packet)
    while at < end:
        try:
            length, count = _HEAD.unpack_from(packet, at)
            sizes = struct.unpack_from(f"<{count}I", packet, at + _HEAD.size) if count else ()
        except struct.error as error:
            raise TransportError(
                f"a packet of {end} bytes arrived that no worker of this version can have sent: {error}."
            ) from error
        at += _HEAD.size + count * _SIZE.size
        at += -at % _ALIGNMENT
        first = view[at : at + length]
        at += length + -length % _ALIGNMENT
        bodies = []
        for size in sizes:
            bodies.append(view[at : at + size])
            at += size + -size % _ALIGNMENT
        if at > end:
            raise TransportError(f"a packet of {end} bytes arrived that lacks the last {at - end} bytes.")
        yield first, bodies


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made
