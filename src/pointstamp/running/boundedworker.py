"""A worker of a bounded run: it takes rows and times from the driving process and reports what comes of them.

The driving process sends rows into its inputs and moves them on; it reports each output's rows when their
time is complete, the frontiers that are watched when they move, and, asked by a wave, that it has nothing to
do (``running.quiet``). When it steps and when it sleeps is said by ``running.serving``.
"""

import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import BatchFormat, Body, MessageCodec, TimeFormat
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.rows.late import LATE_PORT
from pointstamp.running.messages import (
    AdvanceInput,
    AskCounts,
    CloseInput,
    Counts,
    FrontierAt,
    Leave,
    Order,
    Ready,
    ResultRows,
    SendRows,
    Sync,
    Synced,
    WatchFrontier,
)
from pointstamp.running.posting import DRIVER, post, rows_in, time_in, unfit
from pointstamp.running.serving import serve
from pointstamp.running.telling import EventTeller, TellRows
from pointstamp.running.workerprocess import Seat
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, Target
from pointstamp.worker.ports import EventLog
from pointstamp.worker.worker import Worker

WHOLE_FLOW: Final = -1
"""In place of a location: the least root times that are counted anywhere, for flows without outputs."""


def run_worker(plan: Plan, mesh: Mesh, seat: Seat, *, is_judged: bool = False) -> None:
    """Run one worker of a flow until it is told to stop; if it is judged, it tells what happens."""
    tell: TellRows = partial(post, mesh, seat.workers)
    teller = EventTeller(tell) if is_judged else None
    tell(Ready(os.getpid(), socket.gethostname()))
    transport = ZmqTransport(mesh, MessageCodec.of(plan, plan.graph()))
    serve(
        lambda: BoundedWorker(plan, transport, seat, tell if teller is None else teller.before(tell), teller),
        transport,
        tell_call=tell,
        teller=teller,
    )


class BoundedWorker:
    """One worker of a bounded run: the orders that it follows, and the results and frontiers it reports."""

    def __init__(
        self,
        plan: Plan,
        transport: ZmqTransport,
        seat: Seat,
        tell: TellRows,
        log: EventLog | None = None,
    ) -> None:
        graph = plan.graph()
        self._transport = transport
        self._tell = tell
        self._times = TimeFormat(plan.root)
        self.worker = Worker(
            plan,
            transport,
            WorkerIndex(seat.worker),
            seat.workers,
            deliver=self._deliver,
            log=log,
        )
        outputs = plan.named(NodeKind.OUTPUT)
        self._inputs = {
            name: [BatchFormat(port.schema) for port in node.outputs]
            for name, node in plan.named(NodeKind.INPUT).items()
        }
        at = {name: graph.location(Target(node.index, 0)) for name, node in outputs.items()}
        self._outputs = {name: BatchFormat(schema) for name, schema in plan.output_schemas().items()}
        # An output has passed a time on when its operator has looked at the frontier, not before.
        self._readers = {at[name]: self.worker.instances[node.index] for name, node in outputs.items()}
        self._watched: dict[int, list[Time] | None] = dict.fromkeys(at.values() or [WHOLE_FLOW])
        self._wave: int | None = None
        self.has_left = False

    def step(self) -> bool:
        """Do one thing, and tell what it has changed; False where there is nothing to do without news."""
        busy = self.worker.step()
        # Orders that have come and are not followed yet are something to do, too.
        is_idle = not busy and not self._transport.control
        self._report_frontiers(is_idle=is_idle)
        if is_idle and self._wave is not None:
            self._answer_wave()
        return busy

    def close(self) -> None:
        """End the run; what is still held is forgotten."""
        self.worker.close()

    def follow(self, order: Order, bodies: Sequence[Body] = ()) -> None:
        """Take an order, with the rows that came with it."""
        match order:
            case SendRows(name, late):
                for batch in rows_in(bodies, self._inputs[name][LATE_PORT if late else 0], DRIVER):
                    self.worker.inputs[name].send(batch, late=late)
            case AdvanceInput(name, time):
                (root,) = time_in(self._times, time, DRIVER)
                self.worker.inputs[name].advance_to(root)
            case CloseInput(name):
                self.worker.inputs[name].close()
            case WatchFrontier(location):
                self._watched[location] = None
                self._report_frontiers(is_idle=False)
            case AskCounts():
                self._tell(Counts(self._counts()))
            case Sync(wave):
                self._wave = wave
            case Leave():
                self.has_left = True
            case _:
                raise unfit(DRIVER, order)

    def _report_frontiers(self, *, is_idle: bool) -> None:
        """Tell each watched frontier that has moved."""
        frontier = self.worker.view.tracker.frontier
        for location, told in self._watched.items():
            if location == WHOLE_FLOW:
                if not is_idle:
                    continue
                now = self._least_times()
            else:
                reader = self._readers.get(Location(location))
                if reader is not None and reader.frontier_moved:
                    continue
                now = list(frontier(Location(location)))
            if now != told:
                self._watched[location] = now
                self._tell(FrontierAt(location, now))

    def _answer_wave(self) -> None:
        assert self._wave is not None
        transport = self._transport
        self._tell(Synced(self._wave, transport.sent, transport.received, self.worker.is_complete))
        self._wave = None

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        rows = self._outputs[output]
        report = ResultRows(output, self._times.check(time))
        self._tell(report, [rows.encode(batch) for batch in batches])

    def _counts(self) -> list[tuple[int, Time, int]]:
        worker = self.worker
        return [
            (number, time, count)
            for number in range(len(worker.graph.ports))
            for time, count in worker.view.tracker.occurrences(Location(number)).items()
        ]

    def _least_times(self) -> list[Time]:
        """The minimal root times of everything that is counted, in a fixed order."""
        root = self.worker.plan.root
        found = {time[0] for _, time, _ in self._counts()}
        least = [a for a in found if not any(b != a and root.less_equal(b, a) for b in found)]
        return [(each,) for each in sorted(least, key=root.sort_key)]
