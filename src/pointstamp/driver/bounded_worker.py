"""A worker of a bounded run: takes rows and times, reports results and frontiers.

The driving process sends rows into its inputs and moves them on. The worker reports each output's rows when
their time is complete on this worker (``worker.tails``), the frontiers that are watched when they move, and,
asked by a wave, that it has nothing to do (``running.quiet``). When it steps and when it sleeps is said by
``running.serving``.
"""

import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from pointstamp.arrow.epoch_column import LATE_PORT
from pointstamp.driver.event_reports import EventTeller, TellRows
from pointstamp.driver.liveness import Sign
from pointstamp.driver.messages import (
    DRIVER,
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
    post,
    rows_in,
    time_in,
    unfit,
)
from pointstamp.driver.worker_loop import serve
from pointstamp.driver.worker_process import Seat
from pointstamp.errors import InternalError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import BatchFormat, Body, MessageCodec, TimeFormat
from pointstamp.operators.stateless import Collect
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, Target
from pointstamp.worker.protocols import EventLog
from pointstamp.worker.worker import Worker

WHOLE_FLOW: Final = -1
"""In place of a location: the least root times that are counted anywhere, for flows without outputs."""


def run_worker(
    plan: Plan, mesh: Mesh, seat: Seat, sign: Sign | None = None, *, is_judged: bool = False
) -> None:
    """Run one worker of a flow until it is stopped; if verified, report its events."""
    tell: TellRows = partial(post, mesh, seat.workers)
    teller = EventTeller(tell) if is_judged else None
    tell(Ready(os.getpid(), socket.gethostname()))
    transport = ZmqTransport(mesh, MessageCodec.of(plan, plan.graph()))
    serve(
        lambda: BoundedWorker(plan, transport, seat, tell if teller is None else teller.before(tell), teller),
        transport,
        tell_call=tell,
        teller=teller,
        sign=sign,
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
            has_tails=True,
        )
        assert self.worker.tails is not None, "it was asked for"
        self._tails = self.worker.tails
        outputs = plan.named(NodeKind.OUTPUT)
        self._inputs = {
            name: [BatchFormat(port.schema) for port in node.outputs]
            for name, node in plan.named(NodeKind.INPUT).items()
        }
        at = {name: graph.location(Target(node.index, 0)) for name, node in outputs.items()}
        self._outputs = {name: BatchFormat(schema) for name, schema in plan.output_schemas().items()}
        self._at = at
        self._collects: dict[int, Collect] = {
            at[name]: self.worker.instances[node.index].logic for name, node in outputs.items()
        }
        for collect in self._collects.values():
            collect.is_asked = True
        self._watched: dict[int, list[Time] | None] = dict.fromkeys(at.values() or [WHOLE_FLOW])
        # Without outputs, whoever drives the flow waits for what is counted anywhere.
        self._watches_outputs = bool(at)
        if not at:
            self._tails.may_hold = False
        self._wave: int | None = None
        self.has_left = False

    def step(self) -> bool:
        """Do one thing, and tell what it has changed; False where there is nothing to do without news."""
        busy = self.worker.step() and not self.worker.is_resting
        if not busy and self._wave is not None and self.worker.is_holding:
            self._tails.hold_no_longer()
            busy = True
        # Orders that have come and are not followed yet are something to do, too.
        is_idle = not busy and not self._transport.control
        self._report_frontiers(is_idle=is_idle)
        if is_idle and self._wave is not None:
            self._answer_wave()
        return busy

    def close(self) -> None:
        """End the run and drop all capabilities."""
        self.worker.close()

    def follow(self, order: Order, bodies: Sequence[Body] = ()) -> None:
        """Take an order, with the rows that came with it."""
        match order:
            case SendRows(name, late, are_own):
                for batch in rows_in(bodies, self._inputs[name][LATE_PORT if late else 0], DRIVER):
                    if are_own:
                        self.worker.send_own(name, batch)
                    else:
                        self.worker.inputs[name].send(batch, late=late)
            case AdvanceInput(name, time):
                (root,) = time_in(self._times, time, DRIVER)
                self.worker.inputs[name].advance_to(root)
            case CloseInput(name):
                self.worker.inputs[name].close()
            case WatchFrontier(location):
                self._watched[location] = None
                self._watches_outputs = self._tails.may_hold = False
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
        """Tell each watched frontier that has moved, after the rows that it has passed."""
        if self._watches_outputs and not self._tails.is_fresh:
            return
        self._tails.is_fresh = False
        for location, told in self._watched.items():
            collect = self._collects.get(location)
            if collect is not None:
                now = self._tails.frontier(Location(location))
                collect.hand_over(now, self.worker.graph.domains[location].less_equal)
            elif location != WHOLE_FLOW:
                now = list(self.worker.view.tracker.frontier(Location(location)))
            elif is_idle:
                now = self._least_times()
            else:
                continue
            if now != told:
                self._watched[location] = now
                self._tell(FrontierAt(location, now))

    def _answer_wave(self) -> None:
        assert self._wave is not None
        transport = self._transport
        self._tell(Synced(self._wave, transport.sent, transport.received, self.worker.is_complete))
        self._wave = None

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        told = self._watched[self._at[output]]
        less_equal = self.worker.graph.domains[self._at[output]].less_equal
        if told is not None and not any(less_equal(lower, time) for lower in told):
            raise InternalError(
                f"output '{output}' received rows at {time} after its frontier had reached {told}."
            )
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
