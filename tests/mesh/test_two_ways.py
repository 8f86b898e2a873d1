"""Two ways to one peer: whatever is small or large, gathered, refused or late, messages arrive as posted.

Members post to each other through the real ``Outgoing``, over queues that a seed empties in any order, into
the real ``InTurn``. The law: what a member has been handed of a peer is at any moment a prefix of what that
peer posted to it, with its bodies; all of it once everything was flushed and has arrived; and progress waits
for nobody. Each mutant breaks one rule of the two modules, and the law finds it.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from pointstamp.errors import TransportError
from pointstamp.mesh import message_io, wire
from pointstamp.mesh.admission import Refusals
from pointstamp.mesh.message_io import (
    DATAGRAMS,
    PACKET_BYTES_MAX,
    ZEROMQ,
    Arrived,
    InTurn,
    Outgoing,
    unpacked,
)
from pointstamp.mesh.wire import ENVELOPE_BYTES, Body, MessageKind, unseal

Patch = pytest.MonkeyPatch
MEMBERS: Final = 3
SIZES: Final = (0, 10, 200, PACKET_BYTES_MAX // 3, PACKET_BYTES_MAX, 3 * PACKET_BYTES_MAX)
KINDS: Final = (MessageKind.DATA, MessageKind.DATA, MessageKind.PROGRESS, MessageKind.CONTROL)
SEEDS: Final = range(60)
Message = tuple[int, bytes, tuple[bytes, ...]]


class OvertakenError(AssertionError):
    """A member was handed something else than the next message of a peer, or not all of them."""


class Push:
    """As much of a socket as is used: whole messages wait in a queue."""

    def __init__(self, queue: "deque[list[bytes]]") -> None:
        self._queue = queue
        self._frames: list[bytes] = []

    def send(self, frame: Body, flags: int, *, copy: bool = True) -> None:
        self._frames.append(bytes(frame))
        if flags == message_io._NOBLOCK:
            self._queue.append(self._frames)
            self._frames = []


class Packets:
    """Datagrams, of which some are refused."""

    def __init__(self, queues: "dict[int, deque[bytes]]", chance: random.Random, refused: float) -> None:
        self._queues = queues
        self._chance = chance
        self._refused = refused

    def offer(self, peer: int, packet: bytes) -> bool:
        if self._chance.random() < self._refused:
            return False
        self._queues[peer].append(packet)
        return True


class Members:
    """Members that post to each other by chance, and queues that are emptied by chance."""

    def __init__(self, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        peers = {one: [other for other in range(MEMBERS) if other != one] for one in range(MEMBERS)}
        self._pushed = {(one, other): deque[list[bytes]]() for one in peers for other in peers[one]}
        self._packets = {(one, other): deque[bytes]() for one in peers for other in peers[one]}
        self._posted: dict[tuple[int, int], list[Message]] = {pair: [] for pair in self._pushed}
        self._handed = dict.fromkeys(self._pushed, 0)
        self._number = 0
        refused = chance.choice((0.0, 0.2, 0.9))
        self._out = [self._outgoing(one, peers[one], refused) for one in peers]
        names = [f"worker {number}" for number in range(MEMBERS)]
        self._in = [InTurn(one, names, 0, Refusals()) for one in range(MEMBERS)]
        for each in self._out:
            each.gather(is_on=chance.random() < 0.8)

    def _outgoing(self, one: int, peers: list[int], refused: float) -> Outgoing:
        pushes: Any = {other: Push(self._pushed[one, other]) for other in peers}
        packets: Any = Packets({other: self._packets[one, other] for other in peers}, self._chance, refused)
        return Outgoing(one, MEMBERS, 0, pushes, packets)

    def run(self) -> None:
        for _ in range(120):
            act = self._chance.random()
            if act < 0.5:
                self._post()
            elif act < 0.6:
                self._chance.choice(self._out).flush()
            else:
                self._deliver(self._chance.choice([*self._pushed]), self._chance.random() < 0.5)
        for each in self._out:
            each.flush()
        pairs = [*self._pushed]
        while pairs:
            pair = self._chance.choice(pairs)
            self._deliver(pair, self._chance.random() < 0.5)
            if not self._pushed[pair] and not self._packets[pair]:
                pairs.remove(pair)
        for pair, posted in self._posted.items():
            if self._handed[pair] != len(posted):
                raise OvertakenError(f"{pair}: {len(posted) - self._handed[pair]} are never handed on")

    def _post(self) -> None:
        sender, receiver = pair = self._chance.choice([*self._pushed])
        kind = self._chance.choice(KINDS)
        sizes = self._chance.choices(SIZES, k=self._chance.choice((0, 1, 2)))
        if kind == MessageKind.PROGRESS:
            sizes = []
        self._number += 1
        header, bodies = b"%d" % self._number, tuple(self._chance.randbytes(size) for size in sizes)
        self._posted[pair].append((kind, header, bodies))
        self._out[sender].post(receiver, kind, header, bodies)
        if kind == MessageKind.PROGRESS and self._out[sender]._gathered.get(receiver):
            raise OvertakenError(f"{pair}: progress waits")

    def _deliver(self, pair: tuple[int, int], is_packet: bool) -> None:
        receiver = pair[1]
        if is_packet and self._packets[pair]:
            for first, bodies in unpacked(self._packets[pair].popleft()):
                self._take(pair, self._in[receiver].take(DATAGRAMS, first, bodies))
        elif not is_packet and self._pushed[pair]:
            frame, *following = self._pushed[pair].popleft()
            self._take(pair, self._in[receiver].take(ZEROMQ, frame, following))

    def _take(self, pair: tuple[int, int], arrived: Sequence[Arrived]) -> None:
        for (kind, sender, *_), first, bodies in arrived:
            given = kind, bytes(first[ENVELOPE_BYTES:]), tuple(map(bytes, bodies))
            at = self._handed[pair]
            if sender != pair[0] or at >= len(self._posted[pair]) or self._posted[pair][at] != given:
                raise OvertakenError(f"{pair}: message {at} is another one")
            self._handed[pair] = at + 1


def run_all(seeds: range) -> None:
    for seed in seeds:
        Members(seed).run()


def test_messages_arrive_as_they_were_posted_by_whatever_way() -> None:
    run_all(SEEDS)


@pytest.mark.long
def test_messages_arrive_as_they_were_posted_in_many_worlds() -> None:
    run_all(range(3_000))


# Mutants.


def a_large_message_does_not_wait_for_small_ones(patch: Patch) -> None:
    def post(self: Outgoing, peer: int, kind: int, header: bytes, bodies: Sequence[Body]) -> None:
        if sum(memoryview(body).nbytes for body in bodies) + 200 > PACKET_BYTES_MAX:
            self._push(peer, kind, header, bodies)
        else:
            right(self, peer, kind, header, bodies)

    right = Outgoing.post
    patch.setattr(Outgoing, "post", post)


def packets_forget_what_went_the_other_way(patch: Patch) -> None:
    seal = wire.seal

    def packed(frames: Sequence[Any]) -> bytes:
        alone = []
        for first, bodies in frames:
            kind, member, generation, number, _ = unseal(first)
            alone.append((seal(kind, member, generation, number, 0) + first[ENVELOPE_BYTES:], bodies))
        return right(alone)

    right = message_io.packed
    patch.setattr(message_io, "packed", packed)


def large_messages_forget_what_went_the_other_way(patch: Patch) -> None:
    def push(self: Outgoing, peer: int, *given: Any) -> None:  # noqa: ANN401
        kept, self.by_datagram = self.by_datagram, [0] * MEMBERS
        right(self, peer, *given)
        self.by_datagram = kept

    right = Outgoing._push
    patch.setattr(Outgoing, "_push", push)


def what_is_refused_takes_its_numbers_along(patch: Patch) -> None:
    send = Outgoing._send

    def greedy(self: Outgoing, peer: int, messages: Sequence[Any]) -> None:
        before = self.by_datagram[peer]
        send(self, peer, messages)
        self.by_datagram[peer] = before + len(messages)

    patch.setattr(Outgoing, "_send", greedy)


def progress_leaves_what_waits_behind(patch: Patch) -> None:
    def post(self: Outgoing, peer: int, kind: int, header: bytes, bodies: Sequence[Body]) -> None:
        if kind == MessageKind.PROGRESS:
            self._send(peer, [(kind, header, bodies)])
        else:
            right(self, peer, kind, header, bodies)

    right = Outgoing.post
    patch.setattr(Outgoing, "post", post)


def progress_waits(patch: Patch) -> None:
    patch.setattr(message_io, "MessageKind", SimpleNamespace(PROGRESS=-1, GOODBYE=MessageKind.GOODBYE))


def a_message_passes_those_that_wait_on_its_own_way(patch: Patch) -> None:
    class Empty(dict[int, Any]):
        def __contains__(self, sender: object) -> bool:
            return False

    init = InTurn.__init__

    def __init__(self: InTurn, *given: Any) -> None:  # noqa: ANN401, N807
        init(self, *given)
        self._waiting = [Empty(), Empty()]

    patch.setattr(InTurn, "__init__", __init__)


def nothing_waits_for_the_other_way(patch: Patch) -> None:
    class Passed(list[int]):
        def __getitem__(self, at: Any) -> Any:  # noqa: ANN401
            return 2**40

    init = InTurn.__init__

    def __init__(self: InTurn, *given: Any) -> None:  # noqa: ANN401, N807
        init(self, *given)
        self._passed = [Passed([0] * MEMBERS), Passed([0] * MEMBERS)]

    patch.setattr(InTurn, "__init__", __init__)


def only_one_that_waits_is_released(patch: Patch) -> None:
    def released(self: InTurn, sender: int, way: int) -> list[Arrived]:
        queue = self._waiting[way].get(sender)
        if not queue or queue[0][0].after > self._passed[1 - way][sender]:
            return []
        self._passed[way][sender] += 1
        found = [queue.popleft()]
        if not queue:
            del self._waiting[way][sender]
        return found

    patch.setattr(InTurn, "_released", released)


def what_waits_is_never_released(patch: Patch) -> None:
    patch.setattr(InTurn, "_released", lambda self, sender, way: [])


@pytest.mark.parametrize(
    "mutant",
    [
        a_large_message_does_not_wait_for_small_ones,
        packets_forget_what_went_the_other_way,
        large_messages_forget_what_went_the_other_way,
        what_is_refused_takes_its_numbers_along,
        progress_leaves_what_waits_behind,
        progress_waits,
        a_message_passes_those_that_wait_on_its_own_way,
        nothing_waits_for_the_other_way,
        only_one_that_waits_is_released,
        what_waits_is_never_released,
    ],
)
def test_a_way_that_overtakes_the_other_is_found(
    mutant: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(
        (OvertakenError, TransportError),
        match=r"waits|never handed on|another one|a message was lost|earlier",
    ):
        run_all(SEEDS)
