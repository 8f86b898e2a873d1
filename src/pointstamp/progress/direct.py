"""The direct broadcast: every worker sends its progress to every worker."""

from collections.abc import Iterable, Sequence

from pointstamp.errors import ProgressError
from pointstamp.order.multiset import SignedMultiset
from pointstamp.progress.broadcast import ProgressBatch, out_of_order
from pointstamp.progress.pointstamp import Change, WorkerIndex, change_of


class DirectBroadcast:
    """Every worker sends every batch to every worker; what has gathered is counted by (location, time)."""

    def __init__(self, worker: WorkerIndex, workers: int) -> None:
        if not 0 <= worker < workers:
            raise ProgressError(f"worker must be a number from 0 to {workers - 1}, got {worker}.")
        self.worker = worker
        self.workers = workers
        self._pending = SignedMultiset()
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
        """Send all recorded changes, as one batch to each worker; nothing if nothing changed."""
        if not self._pending:
            return ()
        changes = tuple([change_of((at, time, count)) for (at, time), count in self._pending.drain()])
        batch = ProgressBatch(self.worker, self._sent, changes)
        self._sent += 1
        return [(WorkerIndex(peer), batch) for peer in range(self.workers)]

    def has_relay(self) -> bool:
        """Never: nothing resumes from here."""
        return False

    def look_again(self) -> None:
        """Nothing is held back."""

    def unsent(self) -> tuple[Change, ...]:
        """Return the gathered changes that were not sent yet."""
        return tuple([Change(at, time, count) for (at, time), count in self._pending.items()])

    def receive(self, batch: ProgressBatch) -> tuple[Change, ...]:
        """Accept the next batch of its sender; a gap or a repetition raises ProgressError."""
        if not 0 <= batch.sender < self.workers:
            raise ProgressError(
                f"worker {self.worker} received progress from worker {batch.sender}, but the run has "
                f"{self.workers} workers."
            )
        expected = self._expected[batch.sender]
        if batch.sequence != expected:
            raise out_of_order(self.worker, batch, expected)
        self._expected[batch.sender] = expected + 1
        return batch.changes
