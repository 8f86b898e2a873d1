"""One worker's view of progress: a broadcast and a tracker, joined as in the combined tracker.

Every output starts with one capability per worker at the least time of its domain, and every worker knows
it: the counts begin with the number of workers, and nobody reports that start (Brun et al. 2021,
section 6). A worker's own changes reach its tracker through its own batches, like everybody else's.

This is a state machine without I/O: whoever drives it carries the batches from ``flush`` to ``receive``.
"""

from collections.abc import Iterable, Sequence

from pointstamp.progress.broadcast import Broadcast, DirectBroadcast, ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.topology.graph import Graph
from pointstamp.topology.ports import Location, Source


class ProgressView:
    """What one worker knows of the progress of all; changed by the worker that owns it."""

    def __init__(
        self, graph: Graph, worker: WorkerIndex, workers: int, *, broadcast: Broadcast | None = None
    ) -> None:
        self.worker = worker
        self.tracker = Tracker(graph)
        self._broadcast = broadcast or DirectBroadcast(worker, workers)
        self.tracker.update_all(initial_changes(graph, workers))
        self.tracker.propagate()

    def record(self, changes: Iterable[Change]) -> None:
        """Take in what one activation consumed, held, dropped and sent, all of it together."""
        self._broadcast.record(changes)

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """The batches to carry to the workers, this one included."""
        return self._broadcast.flush()

    def receive(self, batch: ProgressBatch) -> None:
        """Apply a batch to the counts; frontiers move at the next ``propagate``."""
        self.tracker.update_all(self._broadcast.receive(batch))

    def unsent(self) -> tuple[Change, ...]:
        """What this worker has done and told nobody yet."""
        return self._broadcast.unsent()

    def propagate(self) -> list[Location]:
        """Draw all conclusions; return the locations whose frontier moved."""
        return self.tracker.propagate()


def initial_changes(graph: Graph, workers: int) -> list[Change]:
    """The counts that everybody starts with: at each output, one least time for each worker."""
    return [
        Change(Location(number), graph.domains[number].minimum(), workers)
        for number, port in enumerate(graph.ports)
        if isinstance(port, Source)
    ]
