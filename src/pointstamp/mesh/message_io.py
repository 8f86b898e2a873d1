"""Receive from all sockets of a member, and sleep until one is readable.

There are one or two sockets of ZeroMQ, for peers elsewhere and for those on this host, and datagrams. A
socket of ZeroMQ has a file that can be read only if something has happened since the socket was last asked
for news. So a way is known to have none when it was found without, and its file cannot be read.
"""

import select
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import zmq

from pointstamp.errors import TransportError
from pointstamp.mesh.admission import Refusals, has_news
from pointstamp.mesh.wire import Body, Envelope, MessageKind, seal, unseal

TAKE_MAX: Final = 1_024
"""So many messages of a way are taken at once, at most."""

# The second byte of a message is its kind; to ask whether frames follow takes longer than to look at it.
_FIRST_WITH_BODIES: Final = bytes([MessageKind.DATA])
_NOBLOCK: Final = int(zmq.NOBLOCK)


# Restore the order of a peer's messages, which arrive over two transports.
#
# A peer sends messages through ZeroMQ, and small ones as datagrams (``pointstamp.mesh.message_io``). Each way
# is in order by itself. A message has its number among those that went the same way, and says how many went
# the other way before it: it is passed on when it is its turn on its own way and so many have been passed on
# from the other. That is the sender's order: of two messages by different ways exactly one says that the
# other went before it, and the other one does not wait for it.
#
# Invariant: what is passed on of a peer is a prefix of what that peer posted. A gap or a repetition on one
# way is a TransportError; what belongs to an older generation is dropped and counted.

ZEROMQ: Final = 0
DATAGRAMS: Final = 1

Arrived: TypeAlias = tuple[Envelope, memoryview, Sequence[Body]]
"""The envelope of a message, its first frame, and the bodies that followed."""


class InTurn:
    """Brings the messages of all peers into their order; used by the thread that collects."""

    def __init__(self, member: int, names: Sequence[str], generation: int, refusals: Refusals) -> None:
        self.dropped_old = 0
        self._member = member
        self._names = names
        self.generation = generation
        """The generation of accepted messages; older messages are dropped."""
        self._refusals = refusals
        # By way, then by peer: the number of the next to arrive, how many were passed on, and who waits.
        self._expected = [[0] * len(names), [0] * len(names)]
        self._passed = [[0] * len(names), [0] * len(names)]
        self._waiting: list[dict[int, deque[Arrived]]] = [{}, {}]

    def take(self, way: int, first: bytes | memoryview, bodies: Sequence[Body]) -> Sequence[Arrived]:
        """Take in what has arrived by one way, and return what can be passed on now."""
        envelope = unseal(first)
        _, sender, generation, sequence, after = envelope
        expected = self._expected[way]
        if not 0 <= sender < len(expected) or sender == self._member:
            raise TransportError(
                f"{self._names[self._member]} received a message from the unknown member {sender}. Look "
                "for another run at this address."
            )
        if generation != self.generation:
            self._drop_old(sender, generation)
            return ()
        if sequence != expected[sender]:
            raise self._out_of_order(sender, sequence, expected[sender])
        expected[sender] = sequence + 1
        arrived = envelope, memoryview(first), bodies
        if sender in self._waiting[way] or self._passed[1 - way][sender] < after:
            self._waiting[way].setdefault(sender, deque()).append(arrived)
            return ()
        self._passed[way][sender] += 1
        if sender not in self._waiting[1 - way]:
            return (arrived,)
        return [arrived, *self._released(sender, 1 - way)]

    def _released(self, sender: int, way: int) -> list[Arrived]:
        """The messages that wait on a connection, while it is their turn.

        Nothing waits on the other one. The first message that was not passed on has not arrived, or it would
        have been; and what follows it on its own way arrives after it.
        """
        released: list[Arrived] = []
        queue, other = self._waiting[way][sender], self._passed[1 - way][sender]
        while queue and queue[0][0].after <= other:
            released.append(queue.popleft())
        self._passed[way][sender] += len(released)
        if not queue:
            del self._waiting[way][sender]
        return released

    def _drop_old(self, sender: int, generation: int) -> None:
        name = self._names[self._member]
        if generation > self.generation:
            raise TransportError(
                f"{name} is of generation {self.generation} but received a message from "
                f"{self._names[sender]} of generation {generation}: the run was restarted without this "
                "worker."
            )
        self.dropped_old += 1
        self._refusals.add(
            f"{name} has dropped a message from {self._names[sender]} of generation {generation}; the run is "
            f"in generation {self.generation}."
        )

    def _out_of_order(self, sender: int, sequence: int, expected: int) -> TransportError:
        what = "lost" if sequence > expected else "delivered twice"
        return TransportError(
            f"{self._names[self._member]} received message {sequence} from {self._names[sender]} but "
            f"expected {expected}: a message was {what}. Start the run again from its last snapshot."
        )


# Small messages between members of one host, as unix datagrams.
#
# What goes through ZeroMQ wakes an I/O thread here, one there, and then the receiver. A datagram is put into
# the receiver's queue by the call that sends it, and wakes no other process. So members that listen at unix
# sockets have a second one beside it, for datagrams, in the same private folder, which is the same proof of
# who speaks.
#
# A packet holds one message or several to one receiver. A full queue, or a peer that is gone, refuses it at
# once: ``offer`` says so, and the mesh sends the messages through ZeroMQ, whose queues have no limit.
#
# Invariant: of the packets that one sender offers to one receiver, those that were not refused arrive in
# order, each once and whole. How they and what goes through ZeroMQ come into one order again is said in
# ``pointstamp.mesh.message_io``.

PACKET_BYTES_MAX: Final = 32 * 1024
"""A message of more bytes is moved by an I/O thread while its sender works on; so many make a packet."""

OVERHEAD_BYTES: Final = 64
"""The maximum overhead of a message in a packet, and of each body."""

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


class Incoming:
    """The ways in of one member; used by the thread that collects."""

    def __init__(
        self, pulls: "list[zmq.Socket[bytes]]", datagrams: Datagrams | None, in_turn: InTurn
    ) -> None:
        self._pulls = {cast("int", pull.getsockopt(zmq.FD)): pull for pull in pulls}
        self._datagrams = datagrams
        self._in_turn = in_turn
        self._poll = select.poll()
        for file in self._pulls:
            self._poll.register(file, select.POLLIN)
        self._datagram_file = None if datagrams is None else datagrams.fileno()
        if self._datagram_file is not None:
            self._poll.register(self._datagram_file, select.POLLIN)
        self._watched: set[int] = set()
        self._with_news = list(pulls)
        self._datagrams_have_news = datagrams is not None

    def watch(self, files: Iterable[int]) -> None:
        """Let ``sleep`` end also when one of these files can be read, and none that was watched before."""
        wanted = set(files)
        for file in self._watched - wanted:
            self._poll.unregister(file)
        for file in wanted - self._watched:
            self._poll.register(file, select.POLLIN)
        self._watched = wanted

    def sleep(self, timeout_ms: int) -> bool:
        """Sleep until something can be taken or a watched file be read; False may come early, too."""
        self._with_news = [pull for pull in self._with_news if has_news(pull)]
        return bool(self._with_news) or self._datagrams_have_news or self._look(timeout_ms)

    def take(self) -> list[Arrived]:
        """Return the received messages, in order per peer."""
        taken: list[Arrived] = []
        # Of several sockets a busy one must not keep the others waiting.
        if len(self._pulls) > 1 or not (self._with_news or self._datagrams_have_news):
            self._look(0)
        for pull in list(self._with_news):
            self._take_from(pull, taken)
        while self._datagrams is not None and self._datagrams_have_news and len(taken) < TAKE_MAX:
            packet = self._datagrams.take()
            if packet is None:
                self._datagrams_have_news = False
                break
            for first, following in unpacked(packet):
                taken.extend(self._in_turn.take(DATAGRAMS, first, following))
        return taken

    def _take_from(self, pull: "zmq.Socket[bytes]", taken: list[Arrived]) -> None:
        most = len(taken) + TAKE_MAX
        while len(taken) < most:
            if not has_news(pull):
                self._with_news.remove(pull)
                return
            frame = pull.recv(_NOBLOCK)
            has_bodies = frame[1:2] >= _FIRST_WITH_BODIES and pull.getsockopt(zmq.RCVMORE)
            taken.extend(self._in_turn.take(ZEROMQ, frame, _bodies(pull) if has_bodies else ()))
            # Whatever was posted as a datagram before this message is there by now.
            self._datagrams_have_news = self._datagrams is not None

    def _look(self, timeout_ms: int) -> bool:
        """Find out which ways have news, and whether one has or a watched file can be read."""
        is_heard = False
        for file, _ in self._poll.poll(timeout_ms):
            pull = self._pulls.get(file)
            if pull is None:
                is_heard = True
                self._datagrams_have_news |= file == self._datagram_file
            elif has_news(pull) and pull not in self._with_news:
                self._with_news.append(pull)
        return is_heard or bool(self._with_news)


def _bodies(pull: "zmq.Socket[bytes]") -> list[Body]:
    """The frames that follow, which all have arrived with the first one; they are not copied."""
    bodies = []
    has_more = True
    while has_more:
        frame = pull.recv(_NOBLOCK, copy=False)
        bodies.append(frame.buffer)
        has_more = frame.more
    return bodies


# Number and send a member's messages, and batch the small ones.
#
# A message goes through ZeroMQ, or, if it is small and its receiver takes them, as a datagram
# (``pointstamp.mesh.message_io``). Each has its number among those that went to that peer the same way, and
# says how many went the other way before it, from which ``pointstamp.mesh.message_io`` makes one order again.
# Numbers are given when a message is sent and not when it is posted: what is refused as a datagram goes the
# other way as if never offered.
#
# A thread that ``gather``s promises to ``flush`` before it does something that takes long. Until then its
# small messages wait, and leave as one packet for each peer. Progress does not wait, and takes with it what
# waits for the same peer: a worker that tells it has sent all rows before, and draws its own conclusions
# while its peer wakes up. What any other thread posts leaves at once, too. So all messages to a peer are sent
# in the order in which they were posted.

# Above this size a frame is handed to the I/O thread as it is; below, copying is cheaper than keeping track.
_COPY_BYTES_MAX: Final = 64 * 1024
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
        """The generation of messages that are sent from now on."""
        self._pushes = pushes
        self._datagrams = datagrams
        self.pushed = [0] * members
        """The number of messages to each peer through ZeroMQ."""
        self.by_datagram = [0] * members
        """The number of messages to each peer as datagrams."""
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
