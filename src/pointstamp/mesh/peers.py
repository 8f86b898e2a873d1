"""The state of a member's peers: joined, left or lost.

ZeroMQ's I/O thread tells what happens to connections through monitors. A connection that ends is a failure,
unless its peer has said goodbye. Goodbyes travel the other way and may come a moment later, so a loss is
raised when that moment is over; and they may lie unread in the queue of a busy member, so its owner reads
what has come before it lets a loss be raised.

Invariant: a peer that is gone without a goodbye is raised with its name by every ``check`` from then on.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from pointstamp.errors import TransportError
from pointstamp.mesh.door import has_news

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
        """Whose connection has ended, with a goodbye or without."""
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
