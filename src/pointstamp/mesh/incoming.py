"""Receive from all sockets of a member, and sleep until one is readable.

There are one or two sockets of ZeroMQ, for peers elsewhere and for those on this host, and datagrams. A
socket of ZeroMQ has a file that can be read only if something has happened since the socket was last asked
for news. So a way is known to have none when it was found without, and its file cannot be read.
"""

import select
from collections.abc import Iterable
from typing import Final, cast

import zmq

from pointstamp.mesh.datagrams import Datagrams, unpacked
from pointstamp.mesh.door import has_news
from pointstamp.mesh.in_turn import DATAGRAMS, ZEROMQ, Arrived, InTurn
from pointstamp.mesh.wire import Body, MessageKind

TAKE_MAX: Final = 1_024
"""So many messages of a way are taken at once, at most."""

# The second byte of a message is its kind; to ask whether frames follow takes longer than to look at it.
_FIRST_WITH_BODIES: Final = bytes([MessageKind.DATA])
_NOBLOCK: Final = int(zmq.NOBLOCK)


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
