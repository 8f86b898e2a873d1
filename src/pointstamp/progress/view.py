"""One worker's view of progress: a broadcast combined with a tracker.

Every output starts with one capability per worker at the least time of its domain, and every worker knows
it: the counts begin with the number of workers, and no worker reports that start (Brun et al. 2021, section
6). A worker's own changes reach its tracker through its own batches, like the others'.

This is a state machine without I/O: its driver carries the batches from ``flush`` to ``receive``.
"""

from collections.abc import Iterable, Sequence

from pointstamp.progress.accumulating import AccumulatingBroadcast, BroadcastTree
from pointstamp.progress.broadcast import Broadcast, ProgressBatch
from pointstamp.progress.direct import DirectBroadcast
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, SourcePort


class ProgressView:
    """One worker's view of the progress of all; changed by that worker."""

    def __init__(
        self, graph: OperatorGraph, worker: WorkerIndex, workers: int, *, tree: BroadcastTree | None = None
    ) -> None:
        self.worker = worker
        self.tracker = Tracker(graph)
        self.accumulating: AccumulatingBroadcast | None = None
        """The broadcast, where workers tell their progress along a tree."""
        self._broadcast: Broadcast
        if tree is None:
            self._broadcast = DirectBroadcast(worker, workers)
        else:
            self._broadcast = self.accumulating = AccumulatingBroadcast(worker, tree, self.tracker)
        self.tracker.update_all(initial_changes(graph, workers))
        self.tracker.propagate()

    def record(self, changes: Iterable[Change]) -> None:
        """Take in what one activation consumed, held, dropped and sent, all of it together."""
        self._broadcast.record(changes)

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """The batches to carry to the workers, this one included."""
        return self._broadcast.flush()

    def receive(self, batch: ProgressBatch) -> bool:
        """Apply a batch to the counts; return False if it is only forwarded.

        Frontiers move at the next ``propagate``.
        """
        changes = self._broadcast.receive(batch)
        if changes is None:
            return False
        self.tracker.update_all(changes)
        return True

    def has_relay(self) -> bool:
        """Return whether something came that others may wait for, so that the next flush should come soon."""
        return self._broadcast.has_relay()

    def unsent(self) -> tuple[Change, ...]:
        """Return this worker's changes that were not sent yet."""
        return self._broadcast.unsent()

    def propagate(self) -> list[Location]:
        """Draw all conclusions; return the locations whose frontier moved."""
        moved = self.tracker.propagate()
        if moved:
            self._broadcast.look_again()
        return moved


def initial_changes(graph: OperatorGraph, workers: int) -> list[Change]:
    """The initial counts of all workers: at each output, one least time for each worker."""
    return [
        Change(Location(number), graph.domains[number].minimum(), workers)
        for number, port in enumerate(graph.ports)
        if isinstance(port, SourcePort)
    ]
