"""A worker in a process of its own: it steps while there is something to do, and sleeps until news arrives.

``work`` is the main function of such a process. It meets the others, builds its copy of the flow, and then
alternates between ``Worker.step`` and the orders of the driving process. It ends when it is told to, when it
fails, and when the driving process is gone: it never outlives it by more than a moment.
"""

import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from multiprocessing.connection import Connection
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa

from pointstamp.errors import OperatorError, PointstampError, words_of
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.mesh.door import Address
from pointstamp.mesh.mesh import Mesh, Parcel
from pointstamp.mesh.transport import ZmqTransport
from pointstamp.mesh.wire import BatchFormat, MessageCodec, schemas_by_location
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.rows.late import LATE_PORT
from pointstamp.running.control import (
    AdvanceInput,
    AskCounts,
    CloseInput,
    Counts,
    EventsTold,
    Failed,
    FrontierAt,
    Order,
    Report,
    ResultRows,
    SendRows,
    Started,
    Stop,
    Sync,
    Synced,
    WatchFrontier,
    failure_of,
    order_in,
    post,
    rows_in,
    time_in,
)
from pointstamp.running.lookout import Lookout
from pointstamp.running.telling import EventTeller
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import Graph
from pointstamp.topology.ports import Location, Target
from pointstamp.worker.worker import Worker

MEETING_SECONDS_MAX: Final = 60.0
# How long an idle worker sleeps at most; only a bound, everything that matters wakes it.
_SLEEP_SECONDS: Final = 1.0

WHOLE_FLOW: Final = -1
"""In place of a location: the least root times that are counted anywhere, for flows without outputs."""

DRIVER: Final = "the driving process"


@dataclass(frozen=True, slots=True)
class Seat:
    """What a worker process is told at its start."""

    worker: int
    workers: int
    listen: str
    encrypted: bool | None
    silence_seconds_max: float
    generation: int = 0


RunMember: TypeAlias = Callable[[Mesh, Seat], None]
"""What a process does once it has met the others."""


def member_names(workers: int) -> list[str]:
    """What the members of the mesh are called: the workers, and the driving process after them."""
    return [*(f"worker {number}" for number in range(workers)), DRIVER]


def work(run: RunMember, seat: Seat, pipe: Connection) -> None:
    """Run one member until it has done its work; the main function of a process."""
    mesh = _meet(seat, pipe)
    if mesh is None:
        return
    try:
        run(mesh, seat)
    except SystemExit as error:  # which would end this process without a word
        _report_failure(mesh, seat, _exit_in_words(error))
    except BaseException as error:  # whatever it is, the driving process must know
        _report_failure(mesh, seat, error)
    finally:
        mesh.close()


def _meet(seat: Seat, pipe: Connection) -> Mesh | None:
    """Exchange addresses through the pipe; None where the driving process is gone already."""
    mesh: Mesh | None = None
    try:
        mesh = Mesh(
            seat.worker,
            seat.workers + 1,
            listen=seat.listen,
            encrypted=seat.encrypted,
            names=member_names(seat.workers),
            silence_seconds_max=seat.silence_seconds_max,
            generation=seat.generation,
        )
        pipe.send_bytes(msgspec.msgpack.encode(mesh.address))
        mesh.connect(msgspec.msgpack.decode(pipe.recv_bytes(), type=list[Address]))
        mesh.meet(MEETING_SECONDS_MAX)
    except (EOFError, OSError):
        if mesh is not None:
            mesh.close(linger_ms=0)
        return None
    except PointstampError as error:
        pipe.send_bytes(msgspec.msgpack.encode(failure_of(error, traceback.format_exc())))
        if mesh is not None:
            mesh.close(linger_ms=0)
        return None
    finally:
        pipe.close()
    return mesh


def _report_failure(mesh: Mesh, seat: Seat, error: BaseException) -> None:
    text = "".join(traceback.format_exception(error))
    failure: Failed = failure_of(error, text)
    try:
        post(mesh, seat.workers, failure)
    except PointstampError:
        os.write(2, text.encode())  # nobody is left to be told


def _exit_in_words(error: SystemExit) -> OperatorError:
    """A function of the flow has called exit: where, and what to do instead."""
    frames = traceback.extract_tb(error.__traceback__)
    # exit() without sys is a function of Python's own that raises.
    not_theirs = ("pointstamp", "_sitebuiltins")
    theirs = [frame for frame in frames if not any(each in frame.filename for each in not_theirs)]
    line = (theirs or list(frames))[-1]
    explained = OperatorError(
        f"a function of the flow has called exit ({words_of(error)}) "
        f"({line.filename}:{line.lineno}, in {line.name}: {line.line}), which would end a worker and not the "
        "flow. Raise an error there instead."
    )
    explained.__cause__ = error
    return explained


def run_worker(plan: Plan, mesh: Mesh, seat: Seat, *, is_judged: bool = False) -> None:
    """Run one worker of a flow until it is told to stop; if it is judged, it tells what happens."""
    WorkerProcess(plan, mesh, seat, is_judged=is_judged).run()


class WorkerProcess:
    """One worker with the orders that it follows and the frontiers that it reports."""

    def __init__(self, plan: Plan, mesh: Mesh, seat: Seat, *, is_judged: bool = False) -> None:
        graph: Graph = plan.graph()
        codec = MessageCodec.of(plan, graph)
        self._mesh = mesh
        self._driver = seat.workers
        self._transport = ZmqTransport(mesh, codec)
        self._times = codec.times
        self._teller = EventTeller(self._tell_events) if is_judged else None
        self._tell(Started())
        self._worker = Worker(
            plan,
            self._transport,
            WorkerIndex(seat.worker),
            seat.workers,
            deliver=self._deliver,
            log=self._teller,
        )
        schemas = schemas_by_location(plan, graph)
        outputs = plan.named(NodeKind.OUTPUT)
        self._inputs = {
            name: [BatchFormat(port.schema) for port in node.outputs]
            for name, node in plan.named(NodeKind.INPUT).items()
        }
        at = {name: graph.location(Target(node.index, 0)) for name, node in outputs.items()}
        self._outputs = {name: BatchFormat(schemas[location]) for name, location in at.items()}
        # An output has passed a time on when its operator has looked at the frontier, not before.
        self._readers = {at[name]: self._worker.instances[node.index] for name, node in outputs.items()}
        self._watched: dict[int, list[Time] | None] = dict.fromkeys(at.values() or [WHOLE_FLOW])
        self._wave: int | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Work until told to stop."""
        lookout = Lookout(self._worker.instances.values(), self._tell)
        try:
            self._work()
        except Exception:
            if self._teller is not None:
                with suppress(PointstampError):  # the driving process may be gone, too
                    self._teller.flush()
            raise
        finally:
            lookout.end()

    def _work(self) -> None:
        worker, transport, teller = self._worker, self._transport, self._teller
        while not self._is_stopped:
            busy = worker.step()
            while transport.control:
                busy = True
                self._follow(transport.control.popleft())
            self._report_frontiers(busy=busy)
            due_seconds = inf if teller is None else teller.rest()
            if not busy:
                if self._wave is not None:
                    self._answer_wave()
                # Spinning before sleeping was tried, 20 to 100 us: it takes the core from the I/O threads and
                # was slower for epochs, and no faster for rounds, on two cores.
                transport.wait(min(due_seconds, _SLEEP_SECONDS))
        worker.close()

    def _follow(self, parcel: Parcel) -> None:
        order: Order = order_in(parcel)
        match order:
            case SendRows(name, late):
                for batch in rows_in(parcel, self._inputs[name][LATE_PORT if late else 0], DRIVER):
                    self._worker.inputs[name].send(batch, late=late)
            case AdvanceInput(name, time):
                (root,) = time_in(parcel, self._times, time, DRIVER)
                self._worker.inputs[name].advance_to(root)
            case CloseInput(name):
                self._worker.inputs[name].close()
            case WatchFrontier(location):
                self._watched[location] = None
            case AskCounts():
                self._tell(Counts(self._counts()))
            case Sync(wave):
                self._wave = wave
            case Stop():
                self._is_stopped = True

    def _report_frontiers(self, *, busy: bool) -> None:
        """Tell each watched frontier that has moved."""
        frontier = self._worker.view.tracker.frontier
        for location, told in self._watched.items():
            if location == WHOLE_FLOW:
                if busy:
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
        self._tell(Synced(self._wave, transport.sent, transport.received, self._worker.is_complete))
        self._wave = None

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        rows = self._outputs[output]
        report = ResultRows(output, self._times.check(time))
        self._tell(report, [rows.encode(batch) for batch in batches])

    def _counts(self) -> list[tuple[int, Time, int]]:
        worker = self._worker
        return [
            (number, time, count)
            for number in range(len(worker.graph.ports))
            for time, count in worker.view.tracker.occurrences(Location(number)).items()
        ]

    def _least_times(self) -> list[Time]:
        """The minimal root times of everything that is counted, in a fixed order."""
        root = self._worker.plan.root
        found = {time[0] for _, time, _ in self._counts()}
        least = [a for a in found if not any(b != a and root.less_equal(b, a) for b in found)]
        return [(each,) for each in sorted(least, key=root.sort_key)]

    def _tell(self, report: Report, bodies: Sequence[pa.Buffer] = ()) -> None:
        if self._teller is not None:
            self._teller.flush()  # whatever is said rests on what has happened
        post(self._mesh, self._driver, report, bodies)

    def _tell_events(self, events: bytes, _: int) -> None:
        post(self._mesh, self._driver, EventsTold(events))
