"""Restore the order of a peer's messages, which arrive over two transports.

A peer sends messages through ZeroMQ, and small ones as datagrams (``pointstamp.mesh.datagrams``). Each way is
in order by itself. A message has its number among those that went the same way, and says how many went the
other way before it: it is handed on when it is its turn on its own way and so many have been handed on from
the other. That is the sender's order: of two messages by different ways exactly one says that the other went
before it, and the other one does not wait for it.

Invariant: what is handed on of a peer is a prefix of what that peer posted. A gap or a repetition on one way
is a TransportError; what belongs to an older generation is dropped and counted.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias

from pointstamp.errors import TransportError
from pointstamp.mesh.door import Refusals
from pointstamp.mesh.wire import Body, Envelope, unseal

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
        """That of the messages that are taken; older ones are dropped."""
        self._refusals = refusals
        # By way, then by peer: the number of the next to arrive, how many were handed on, and who waits.
        self._expected = [[0] * len(names), [0] * len(names)]
        self._passed = [[0] * len(names), [0] * len(names)]
        self._waiting: list[dict[int, deque[Arrived]]] = [{}, {}]

    def take(self, way: int, first: bytes | memoryview, bodies: Sequence[Body]) -> Sequence[Arrived]:
        """Take in what has arrived by one way, and return what can be handed on now."""
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
        """What waits on a way, as long as it is its turn.

        Nothing waits on the other one. The first message that was not handed on has not arrived, or it would
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
