"""The accumulating broadcast: progress flows up a tree of roots and down again.

With ``DirectBroadcast`` every batch of W workers is W messages. Here a worker sends its batch to the root of
its host; that root sums what its members send and sends the sum to the top; the top sums what the
roots send and sends each sum down to all workers, through the roots (Murray et al. 2013, Naiad, section 3.3).
A root is a worker like the others: the first of its host; the top is worker 0.

*Why it is safe.* A batch is everything that its worker had to tell, so any delay of a batch is a delay on its
queue in the exchange protocol. A sum holds complete batches, of each sender the next ones in order, and
reaches each worker once: applying it is one ``recv_upd`` after another without a look in between. So whatever
is held back, no frontier passes what exists; ``pointstamp_models.spec.accumulating`` checks this as a
refinement.

*What is held back* is only a question of who waits. V is what the holder counts, H what it holds.

- A worker, and the root of a host, hold H while every pointstamp of H is *covered* in V: another counted
  pointstamp could result in it. Applying H would move no frontier anywhere.
- The top also holds a change of a pointstamp p that is not covered, while V(p) > 0 and V(p) + H(p) > 0: the
  last one to leave p moves the frontier, and all come to the top.

The second rule must not be used below the top: two roots could each wait for the other to take the last one
away. When nothing moves, every view has the frontier of what truly exists: each minimal pointstamp of V is
held back only by the top, which holds it only while it exists, and all else that is held lies above.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pointstamp.errors import ProgressError
from pointstamp.order.multiset import SignedMultiset
from pointstamp.progress.broadcast import ProgressBatch, out_of_order
from pointstamp.progress.pointstamp import Change, Pointstamp, WorkerIndex
from pointstamp.progress.tracker import Tracker

TOP: Final = WorkerIndex(0)
"""The worker at which all progress is summed."""

Parts = tuple[tuple[WorkerIndex, int], ...]
"""The batches of a sum, by sender and by their numbers."""

OnTold = Callable[[ProgressBatch], None]
OnSummed = Callable[[int, Parts, Parts], None]
"""Told the number of a sum, the batches of workers in it, and the sums of other roots in it."""


class BroadcastTree:
    """The tree of roots; ``hosts`` gives the host of each worker, by any number."""

    def __init__(self, hosts: Sequence[int]) -> None:
        first: dict[int, int] = {}
        for worker, host in enumerate(hosts):
            first.setdefault(host, worker)
        self.workers = len(hosts)
        self.roots = [WorkerIndex(first[host]) for host in hosts]
        """The root of each worker; a root is its own."""

    def members(self, root: WorkerIndex) -> list[WorkerIndex]:
        """The workers of a root's host, itself included."""
        return [WorkerIndex(worker) for worker, of in enumerate(self.roots) if of == root]

    def below_top(self) -> list[WorkerIndex]:
        """Return the neighbors of the top: the other roots, and the members of its host."""
        return [
            WorkerIndex(worker)
            for worker, root in enumerate(self.roots)
            if worker != TOP and root in (TOP, worker)
        ]


class AccumulatingBroadcast:
    """One worker's part of the tree; ``tracker`` is what it counts, and decides what is held back."""

    def __init__(self, worker: WorkerIndex, tree: BroadcastTree, tracker: Tracker) -> None:
        if not 0 <= worker < tree.workers:
            raise ProgressError(f"worker must be a number from 0 to {tree.workers - 1}, got {worker}.")
        self.worker = worker
        self.on_told: OnTold | None = None
        self.on_summed: OnSummed | None = None
        self._tracker = tracker
        self._above = tree.roots[worker] if tree.roots[worker] != worker else TOP
        self._is_root = tree.roots[worker] == worker
        below = tree.below_top() if worker == TOP else tree.members(worker) if self._is_root else []
        self._below = [peer for peer in below if peer != worker]
        self._expected = dict.fromkeys([*self._below, worker], 0)
        self._pending: SignedMultiset = SignedMultiset()
        self._told = 0
        self._sum: SignedMultiset = SignedMultiset()
        self._other_roots = {peer for peer in self._below if tree.roots[peer] == peer}
        self._batches: list[tuple[WorkerIndex, int]] = []
        self._sums: list[tuple[WorkerIndex, int]] = []
        self._summed = 0
        self._heard = 0
        self._to_pass_on: list[ProgressBatch] = []
        # Whether what is held back may have changed, or what covers it; and whether others sent some of it.
        self._is_fresh = False
        self._has_come = False

    @property
    def is_root(self) -> bool:
        """Whether others send to this worker."""
        return self._is_root

    def has_relay(self) -> bool:
        """Return whether something came that others may wait for."""
        return self._has_come

    def look_again(self) -> None:
        """Frontiers have moved: what was covered may not be so any more."""
        self._is_fresh = True

    def record(self, changes: Iterable[Change]) -> None:
        """Take in all changes of one activation; what cancels out is never sent."""
        for location, time, count in changes:
            self._pending.add(Pointstamp(location, time), count)
        self._is_fresh = True

    def unsent(self) -> tuple[Change, ...]:
        """Return the gathered changes that were not sent yet."""
        return tuple(
            Change(point.location, point.time, count)
            for held in (self._pending, self._sum)
            for point, count in held.items()
        )

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """Return the sums to pass down, and the changes that must not be held back."""
        out: list[tuple[WorkerIndex, ProgressBatch]] = []
        self._has_come = False
        if self._to_pass_on:
            out = [(peer, batch) for batch in self._to_pass_on for peer in self._below]
            self._to_pass_on = []
        if not self._is_fresh:
            return out
        self._is_fresh = False
        if self._is_root:
            if self._pending:
                self._add(self._tell())
            if self._sum and not self._may_hold_sum():
                self._send_sum(out)
        elif self._pending and not self._all_covered(self._pending):
            out.append((self._above, self._tell()))
        return out

    def receive(self, batch: ProgressBatch) -> tuple[Change, ...] | None:
        """Return the changes of a sum to apply; None for a batch that is sent up."""
        if batch.sender == self._above:
            self._heard = self._next(batch, self._heard)
            if self._is_root and self.worker != TOP:
                self._to_pass_on.append(ProgressBatch(self.worker, batch.sequence, batch.changes))
                self._has_come = True
            return batch.changes
        if batch.sender not in self._expected:
            raise ProgressError(
                f"worker {self.worker} received progress from worker {batch.sender}, which is not its "
                "neighbor in the broadcast tree. Give all workers the same list of hosts."
            )
        self._add(batch)
        self._is_fresh = self._has_come = True
        return None

    def _tell(self) -> ProgressBatch:
        """All unsent changes of this worker, as its next batch."""
        changes = tuple(Change(point.location, point.time, count) for point, count in self._pending.drain())
        batch = ProgressBatch(self.worker, self._told, changes)
        self._told += 1
        if self.on_told is not None:
            self.on_told(batch)
        return batch

    def _add(self, batch: ProgressBatch) -> None:
        self._expected[batch.sender] = self._next(batch, self._expected[batch.sender])
        for location, time, count in batch.changes:
            self._sum.add(Pointstamp(location, time), count)
        if self.on_summed is not None:
            parts = self._sums if batch.sender in self._other_roots else self._batches
            parts.append((batch.sender, batch.sequence))

    def _send_sum(self, out: list[tuple[WorkerIndex, ProgressBatch]]) -> None:
        """Send the sum up; or, at the top, down to all workers."""
        changes = tuple(Change(point.location, point.time, count) for point, count in self._sum.drain())
        batch = ProgressBatch(self.worker, self._summed, changes)
        if self.on_summed is not None:
            self.on_summed(self._summed, tuple(self._batches), tuple(self._sums))
            self._batches.clear()
            self._sums.clear()
        self._summed += 1
        if self.worker == TOP:
            out.append((TOP, batch))
            out.extend([(peer, batch) for peer in self._below])
        else:
            out.append((TOP, batch))

    def _may_hold_sum(self) -> bool:
        if self.worker != TOP:
            return self._all_covered(self._sum)
        count, is_covered = self._tracker.count, self._tracker.is_covered
        for (location, time), held in self._sum.items():
            counted = count(location, time)
            if not (counted > 0 and counted + held > 0) and not is_covered(location, time):
                return False
        return True

    def _all_covered(self, held: SignedMultiset) -> bool:
        is_covered = self._tracker.is_covered
        return all(is_covered(location, time) for location, time in held)

    def _next(self, batch: ProgressBatch, expected: int) -> int:
        """The number of the batch after this one; a gap or a repetition raises ProgressError."""
        if batch.sequence != expected:
            raise out_of_order(self.worker, batch, expected)
        return expected + 1
