"""The broadcast of progress: how every worker comes to know every change, as state machines without I/O.

A worker gathers what its operators did (``record``: one call per activation, whole), and sends everything
that has gathered to all workers, itself included, as one ``ProgressBatch`` (``flush``). Batches of one
sender carry gapless sequence numbers and arrive in order; a gap or a repetition means that counts would be
wrong for ever, so it is an error and never a guess (Brun et al. 2021, section 4; the timely book,
"Maintaining Capabilities").

Sending everything at once leaves nothing behind that could lack its justification, which makes every flush
a legal ``send_upd`` of the exchange protocol.

The broadcast stands behind the ``Broadcast`` protocol, so that one that accumulates before it sends
(``pointstamp.progress.accumulating``) can take the place of the full mesh of ``DirectBroadcast``.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from pointstamp.errors import ProgressError
from pointstamp.order.multiset import SignedMultiset
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location


class ProgressBatch(NamedTuple):
    """Changes that one worker made, to be applied together; ``sequence`` counts a sender's batches from 0."""

    sender: WorkerIndex
    sequence: int
    changes: tuple[Change, ...]


class Broadcast(Protocol):
    """What a worker asks of its broadcast; whoever drives it moves the batches."""

    def record(self, changes: Iterable[Change]) -> None:
        """Take in all changes of one activation: consumed, held and sent together."""
        ...

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """What is to be sent now, and to whom; self included."""
        ...

    def receive(self, batch: ProgressBatch) -> tuple[Change, ...] | None:
        """Accept a batch and return the changes to apply; None if it is only on its way to others."""
        ...

    def has_relay(self) -> bool:
        """Whether something came that others may wait for, so that the next flush should come soon."""
        ...

    def look_again(self) -> None:
        """Frontiers have moved; for a broadcast that holds back what moves none."""
        ...

    def unsent(self) -> tuple[Change, ...]:
        """What has gathered and was not sent yet; for those who look at a run from outside."""
        ...


def out_of_order(worker: WorkerIndex, batch: ProgressBatch, expected: int) -> ProgressError:
    """The error that a gap or a repetition in a sender's batches is."""
    what = "lost" if batch.sequence > expected else "delivered twice"
    return ProgressError(
        f"worker {worker} received progress batch {batch.sequence} from worker {batch.sender}, "
        f"but expected batch {expected}: a batch was {what}. The channel between workers must be "
        "reliable and in order; restart the job from its last snapshot."
    )


class DirectBroadcast:
    """Every worker sends every batch to every worker."""

    def __init__(self, worker: WorkerIndex, workers: int) -> None:
        if not 0 <= worker < workers:
            raise ProgressError(f"worker {worker} cannot be one of {workers} workers, numbered from 0.")
        self.worker = worker
        self.workers = workers
        self._pending: SignedMultiset[tuple[Location, Time]] = SignedMultiset()
        self._sent = 0
        self._expected = [0] * workers

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._pending

    def record(self, changes: Iterable[Change]) -> None:
        """Take in all changes of one activation; what cancels out is never sent."""
        pending = self._pending
        for location, time, count in changes:
            pending.add((location, time), count)

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """Everything that has gathered, as one batch to each worker; nothing where nothing changed."""
        if not self._pending:
            return ()
        changes = tuple([Change(at, time, count) for (at, time), count in self._pending.drain()])
        batch = ProgressBatch(self.worker, self._sent, changes)
        self._sent += 1
        return [(WorkerIndex(peer), batch) for peer in range(self.workers)]

    def has_relay(self) -> bool:
        """Never: nothing goes on from here."""
        return False

    def look_again(self) -> None:
        """Nothing is held back."""

    def unsent(self) -> tuple[Change, ...]:
        """What has gathered and was not sent yet."""
        return tuple([Change(at, time, count) for (at, time), count in self._pending.items()])

    def receive(self, batch: ProgressBatch) -> tuple[Change, ...]:
        """Accept the next batch of its sender; a gap or a repetition raises ProgressError."""
        if not 0 <= batch.sender < self.workers:
            raise ProgressError(
                f"worker {self.worker} received progress from worker {batch.sender}, but there are "
                f"{self.workers} workers."
            )
        expected = self._expected[batch.sender]
        if batch.sequence != expected:
            raise out_of_order(self.worker, batch, expected)
        self._expected[batch.sender] = expected + 1
        return batch.changes
