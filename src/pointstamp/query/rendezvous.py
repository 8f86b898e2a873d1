"""The rendezvous: tasks become numbered workers of a generation.

Tasks of an ordinary Spark job start when Spark has a slot for them, in any order, perhaps never, and perhaps
twice. Each registers with the driver. ``Rendezvous`` is the driver's side as a state machine without sockets
and clocks: it is given what happened, and returns what to answer.

    task                           driver
    Register(partition, ...)   ->
                               <-  Placement(round, number, workers)   once enough tasks have registered
    Listening(round, address)  ->
                               <-  Roster(round, addresses)            once all placed tasks listen
                               <-  Dismissed(reason)                   to a task that is not needed
    (no answer)                                                        to a copy, until its original leaves

Invariants:
- A generation has at most one roster. All tasks of it get the same one, each knows its own number in it, and
  every number from 0 to ``workers`` - 1 is one task.
- Two attempts of one partition are never both in a roster: a second attempt waits while the first is
  connected. It is not dismissed, because a speculative copy that ends first makes Spark kill the original.
- A roster has between ``least`` and ``wish`` tasks, fewer than ``wish`` only after no task has registered or
  left for ``settle_seconds``, while Spark ran no other task of the job that has yet to register.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from pointstamp.mesh.admission import Address

SETTLE_SECONDS: Final = 10.0
"""Seconds without a new or lost task after which fewer workers than requested are enough."""

_COMPLETE: Final = "the workers of this generation were complete."


class Register(msgspec.Struct, frozen=True, tag=True):
    """A task offers itself: its partition, which attempt at it this is, where it runs, and its versions."""

    partition: int
    attempt: int
    host: str
    versions: dict[str, str]


class Listening(msgspec.Struct, frozen=True, tag=True):
    """A task listens for the others of a round."""

    round: int
    address: Address


class Placement(msgspec.Struct, frozen=True, tag=True):
    """A task's number in a round, and the number of workers; a seat of a later round replaces it."""

    round: int
    number: int
    workers: int


class Roster(msgspec.Struct, frozen=True, tag=True):
    """The addresses of all workers of a round, in the order of their numbers, then the driver's."""

    round: int
    addresses: list[Address]
    hosts: list[str]
    """The host of each worker, in the same order, as the worker names it."""


class Dismissed(msgspec.Struct, frozen=True, tag=True):
    """The task is not needed, and ends."""

    reason: str


Request = Register | Listening
Answer = Placement | Roster | Dismissed


class Sent(NamedTuple):
    """An answer, and the connection that gets it."""

    connection: int
    answer: Answer


@dataclass(slots=True)
class _Candidate:
    """A registered task that is connected."""

    connection: int
    hello: Register
    number: int | None = None
    """Its number in the present round."""
    address: Address | None = None
    """The address of the task in the present round."""


class Rendezvous:
    """Forms the workers of one generation from the tasks that register; changed by the driver's thread."""

    def __init__(
        self,
        wish: int,
        least: int,
        versions: Mapping[str, str],
        *,
        now_seconds: float,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        assert 1 <= least <= wish
        self.wish = wish
        """The requested number of workers."""
        self._least = least
        self._versions = dict(versions)
        self.settle_seconds = settle_seconds
        """Seconds without a new or lost task after which fewer workers are enough; may change."""
        self._changed_seconds = now_seconds
        self._candidates: dict[int, _Candidate] = {}
        self._copies: dict[int, Register] = {}
        self._round = 0
        self._is_seated = False
        self.roster: Roster | None = None
        """The workers of the generation, once they are decided; without the driver's address."""
        self.late = 0
        """The number of tasks that registered after the decision; the next generation can use them."""
        self.refusal: str | None = None
        """The reason why no roster can be formed, regardless of further registrations."""

    @property
    def registered(self) -> int:
        """The number of partitions with a connected task."""
        return len(self._candidates)

    def has_settled(self, now_seconds: float) -> bool:
        """Return whether no task has registered or left for so long that no more are expected soon."""
        return now_seconds - self._changed_seconds >= self.settle_seconds

    def needs(self) -> str:
        """Describe what the rendezvous waits for, as the end of a sentence."""
        of = f"{self.registered} of {self.wish} workers have started"
        least = f", at least {self._least} are needed" if self._least < self.wish else ""
        return f"{of}{least}"

    def register(self, connection: int, hello: Register, now_seconds: float) -> list[Sent]:
        """Take note of a task; a second attempt of a connected one waits without an answer."""
        wrong = version_mismatch(self._versions, hello.versions, hello.host)
        if wrong is not None:
            self.refusal = self.refusal or wrong
            return [Sent(connection, Dismissed(wrong))]
        if any(each.hello.partition == hello.partition for each in self._candidates.values()):
            self._copies[connection] = hello
            return []
        if self.roster is not None:
            self.late += 1
            return [Sent(connection, Dismissed(_COMPLETE))]
        self._candidates[connection] = _Candidate(connection, hello)
        self._changed_seconds = now_seconds
        return self._seat(now_seconds)

    def bound(self, connection: int, message: Listening) -> list[Sent]:
        """Take note that a seated task listens; the roster is decided with the last one."""
        candidate = self._candidates.get(connection)
        if candidate is None or candidate.number is None or message.round != self._round or self.roster:
            return []  # of a round that is over
        candidate.address = message.address
        seated = self._seated()
        if any(each.address is None for each in seated):
            return []
        addresses = [each.address for each in seated if each.address is not None]
        self.roster = Roster(self._round, addresses, [each.hello.host for each in seated])
        unneeded = [each for each in self._candidates.values() if each.number is None]
        for each in unneeded:
            del self._candidates[each.connection]
        self.late += len(unneeded)
        return [
            *(Sent(each.connection, self.roster) for each in seated),
            *(Sent(each.connection, Dismissed(_COMPLETE)) for each in unneeded),
        ]

    def disconnected(self, connection: int, now_seconds: float) -> list[Sent]:
        """Take note that a task is gone; before the roster is decided, the others are seated again."""
        self._copies.pop(connection, None)
        gone = self._candidates.pop(connection, None)
        if gone is None:
            return []
        waiting = [
            (number, hello)
            for number, hello in self._copies.items()
            if hello.partition == gone.hello.partition
        ]
        if self.roster is not None:
            self.late += len(waiting)
            for copy, _ in waiting:
                del self._copies[copy]
            return [Sent(copy, Dismissed(_COMPLETE)) for copy, _ in waiting]
        self._changed_seconds = now_seconds
        was_seated = gone.number is not None
        if waiting:
            successor, hello = waiting[0]
            del self._copies[successor]
            self._candidates[successor] = _Candidate(successor, hello)
        if was_seated:
            self._is_seated = False
            for each in self._candidates.values():
                each.number = each.address = None
        return self._seat(now_seconds)

    def expect(self, started: int, now_seconds: float) -> None:
        """Wait longer if Spark runs more tasks than have registered: their Python is about to start."""
        if started > self.registered + len(self._copies):
            self._changed_seconds = now_seconds

    def tick(self, now_seconds: float) -> list[Sent]:
        """Placement the tasks that there are, if enough have registered and no other has come for a while."""
        return self._seat(now_seconds)

    # Inside.

    def _seat(self, now_seconds: float) -> list[Sent]:
        if self._is_seated or self.roster is not None:
            return []
        if self.registered < (self._least if self.has_settled(now_seconds) else self.wish):
            return []
        self._round += 1
        self._is_seated = True
        chosen = sorted(self._candidates.values(), key=lambda each: each.hello.partition)[: self.wish]
        for number, each in enumerate(chosen):
            each.number, each.address = number, None
        return [
            Sent(each.connection, Placement(self._round, number, len(chosen)))
            for number, each in enumerate(chosen)
        ]

    def _seated(self) -> list[_Candidate]:
        seated = [each for each in self._candidates.values() if each.number is not None]
        return sorted(seated, key=lambda each: each.number or 0)


class SlotsLeft:
    """The slots that are left after a loss: once tasks have registered in all of them, they are enough.

    An executor that was lost a moment ago may still be counted, and one that starts is not waited for. So the
    fewest slots count that there were since the loss.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots

    def look(self, slots: int) -> None:
        """Take note of how many slots there are now."""
        self._slots = min(self._slots, slots)

    def are_full(self, tasks: int) -> bool:
        """Whether so many tasks fill them; no slots are never full, because others will come."""
        return 0 < self._slots <= tasks


def version_mismatch(needed: Mapping[str, str], found: Mapping[str, str], host: str) -> str | None:
    """Describe the first package whose version on a worker's host is not the driver's; None if all are."""
    for package, version in needed.items():
        if found.get(package) != version:
            return (
                f"the driver runs {package} {version}, and a worker on host '{host}' runs "
                f"{found.get(package)}; driver and executors need the same version. Install one environment "
                "on all of them, or ship one with spark.archives."
            )
    return None
