"""Many real workers in one process that take turns: what is sent in one trip arrives in the next.

The workers, their progress and the bytes of their messages are those that run elsewhere; only the network is
another: it counts. One *trip* is the time that one message takes; within a trip every worker does all that it
can. So the trips of an epoch are the messages that follow one another, and the least time that an epoch can
take is their number times the time for one message.

With ``mirrored`` one tracker stands for all: where everybody sends to everybody and all take the same time,
all workers have heard the same after each trip, so what one concludes the others do. It is what makes a
thousand workers with the direct broadcast possible: a million messages are counted, and applied once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import pyarrow as pa

from pointstamp.flow.plan import Plan
from pointstamp.mesh.wire import ENVELOPE_BYTES, MessageCodec
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.direct import DirectBroadcast
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.view import ProgressView
from pointstamp.simulate.world import SharedPlan
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location
from pointstamp.worker.protocols import DataMessage, Message
from pointstamp.worker.worker import Worker


@dataclass(slots=True)
class Traffic:
    """What went through the network, and in how many trips."""

    progress_messages: int = 0
    progress_bytes: int = 0
    data_messages: int = 0
    trips: int = 0
    most_received: int = 0
    """Messages of progress that the busiest worker received."""


class MirroredView(ProgressView):
    """A view that shares its tracker with all others; a batch is counted for all, and applied once."""

    def __init__(self, world: "SynchronousWorld", worker: WorkerIndex, workers: int) -> None:
        first = world.tracker
        if first is None:
            super().__init__(world.graph, worker, workers)
            world.tracker = self.tracker
        else:
            self.worker, self.tracker, self.accumulating = worker, first, None
            self._broadcast = DirectBroadcast(worker, workers)
        self._world = world
        self._workers = workers

    def flush(self) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        """Nothing is left to be carried: the world has it."""
        outgoing = self._broadcast.flush()
        if outgoing:
            self._world.tell(outgoing[0][1], self._workers - 1)
        return ()

    def receive(self, batch: ProgressBatch) -> bool:
        """The shared tracker was told already."""
        return True

    def propagate(self) -> list[Location]:
        """What the shared tracker has concluded in this trip."""
        return self._world.moved


class _End:
    """The end of the network at one worker."""

    def __init__(self, world: "SynchronousWorld") -> None:
        self._world = world
        self.arrived: list[Message] = []

    def send(self, peer: WorkerIndex, message: Message) -> None:
        self._world.carry(peer, message)

    def receive(self) -> Sequence[Message]:
        arrived, self.arrived = self.arrived, []
        return arrived


class SynchronousWorld:
    """``workers`` of a plan; ``feed`` gives rows to each, ``run`` lets trips happen until nothing moves."""

    def __init__(self, plan: Plan, workers: int, *, mirrored: bool = False) -> None:
        shared = SharedPlan.of(plan)
        self.graph = shared.graph()
        self.tracker: Tracker | None = None
        """The one that all share, if they do."""
        self.moved: list[Location] = []
        self._codec = MessageCodec.of(plan, self.graph)
        self._ends = [_End(self) for _ in range(workers)]
        self._on_the_way: list[list[Message]] = [[] for _ in range(workers)]
        self._told: list[ProgressBatch] = []
        self._received = [0] * workers
        self._size: tuple[ProgressBatch | None, int] = (None, 0)
        self.traffic = Traffic()
        view = partial(_mirrored_view, self) if mirrored else ProgressView
        with patch("pointstamp.worker.worker.ProgressView", view):
            self.workers = [
                Worker(shared, self._ends[number], WorkerIndex(number), workers) for number in range(workers)
            ]

    def carry(self, peer: WorkerIndex, message: Message) -> None:
        """Take a message on its way, and count it."""
        if isinstance(message, DataMessage):
            self.traffic.data_messages += 1
            self._on_the_way[peer].append(message)
            return
        self._count(message, 1)
        self._received[peer] += 1
        self._on_the_way[peer].append(message)

    def tell(self, batch: ProgressBatch, receivers: int) -> None:
        """Take a batch of a worker that shares its tracker: everybody hears it in the next trip."""
        self._count(batch, receivers)
        self._told.append(batch)

    def _count(self, batch: ProgressBatch, receivers: int) -> None:
        if self._size[0] is not batch:
            self._size = batch, ENVELOPE_BYTES + len(self._codec.encode(batch)[1])
        self.traffic.progress_messages += receivers
        self.traffic.progress_bytes += receivers * self._size[1]

    def feed(self, name: str, epoch: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Send one batch at each worker, and end the epoch."""
        for worker, batch in zip(self.workers, batches, strict=True):
            handle = worker.input(name)
            handle.send(batch)
            handle.advance_to(epoch + 1)

    def run(self) -> Traffic:
        """Let trips happen until nothing moves; what they took, from the last time on."""
        while self._trip():
            self.traffic.trips += 1
        traffic, self.traffic = self.traffic, Traffic()
        shared = traffic.progress_messages // len(self.workers)
        traffic.most_received = shared if self.tracker is not None else max(self._received)
        self._received = [0] * len(self.workers)
        return traffic

    def _trip(self) -> bool:
        """Let everything arrive, and every worker do what it can; False if nothing was sent."""
        for end, arriving in zip(self._ends, self._on_the_way, strict=True):
            end.arrived, arriving[:] = list(arriving), []
        if self._told:
            self._apply_told()
        for worker in self.workers:
            while worker.step():
                pass
        return bool(self._told) or any(self._on_the_way)

    def _apply_told(self) -> None:
        assert self.tracker is not None, "only workers that share a tracker tell the world"
        told, self._told = self._told, []
        for batch in told:
            self.tracker.update_all(batch.changes)
        self.moved = self.tracker.propagate()
        news = ProgressBatch(WorkerIndex(0), 0, ())
        for end in self._ends:
            end.arrived.append(news)


def _mirrored_view(
    world: SynchronousWorld, graph: OperatorGraph, worker: WorkerIndex, workers: int, *, tree: object = None
) -> MirroredView:
    assert tree is None, "only the direct broadcast can be mirrored"
    return MirroredView(world, worker, workers)
