"""A flow in processes of its own, driven from this one: n workers that share no memory.

``ProcessRun`` is driven as ``LocalRun`` is: send, advance, step, ask what is done. This process is no worker.
It sends each batch to the workers, in slices where it is large, and hands over a result when its time is
complete on every worker. ``step`` waits a little for news, and says False only where nothing is left to do
anywhere, which is found out by asking: when all workers have nothing to do and have received as many messages
as were sent, twice with the same numbers, nothing was on its way in between (Mattern's four counters).

When a worker fails, its error is raised here with the same message, and all workers end. When the process of
a worker dies, that is noticed and said. This process ending ends them all.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any, Final, NoReturn

import pyarrow as pa

from pointstamp.dataflow.plan import Kind, Node, Plan
from pointstamp.dataflow.probe import Probe
from pointstamp.errors import FlowError, PointstampError, TransportError
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import Holder, holders
from pointstamp.runtime.control import (
    AdvanceInput,
    AskCounts,
    CloseInput,
    Counts,
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
    Watch,
    error_of,
    post,
    report_in,
    rows_in,
    time_in,
)
from pointstamp.runtime.gang import Gang
from pointstamp.runtime.input import InputHandle
from pointstamp.runtime.instance import Instance
from pointstamp.runtime.local import OnResult
from pointstamp.runtime.mesh import SILENCE_SECONDS_MAX, Mesh, Parcel
from pointstamp.runtime.wire import BatchFormat, TimeFormat, schemas_by_location
from pointstamp.runtime.workerprocess import WHOLE_FLOW
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import Graph
from pointstamp.topology.ports import Location, Port, Target

SLICE_ROWS_MIN: Final = 1_024
"""A batch is cut into slices, one for each worker, where every slice has at least so many rows."""

# How long a step waits for news before it asks whether there is anything left to do.
_PATIENCE_SECONDS: Final = 0.002
_WAIT_SECONDS: Final = 0.05
_CAUSE_SECONDS_MAX: Final = 1.0


class ProcessInput:
    """One input of a flow for all its workers: batches go to them in slices or in turn, times to all."""

    def __init__(self, run: "ProcessRun", node: Node, graph: Graph, workers: int) -> None:
        # A handle of our own keeps the time and refuses what cannot be, with the words of every other run.
        instance = Instance(node, graph, WorkerIndex(0), 1, lambda _: ())
        self._output = instance.outputs[0]
        self._handle = InputHandle(instance, lambda _, __: None)
        self._rows = BatchFormat(self._output.schema)
        self._run = run
        self._workers = workers
        self._turn = 0
        self.name = node.name

    @property
    def time(self) -> Any:  # noqa: ANN401 - the root time
        """The time at which batches are sent now."""
        return self._handle.time

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._handle.is_closed

    def send(self, data: Any) -> int:  # noqa: ANN401 - anything that holds rows
        """Send rows at the current time; return how many bytes they have."""
        self._handle.send(data)
        batches = [batch for _, batch in self._output.sent]
        self._output.sent.clear()
        for batch in batches:
            share = -(-batch.num_rows // self._workers)
            size = share if share >= SLICE_ROWS_MIN else batch.num_rows
            for start in range(0, batch.num_rows, size):
                body = self._rows.encode(batch.slice(start, size))
                self._run.order(self._turn, SendRows(self.name), [body])
                self._turn = (self._turn + 1) % self._workers
        return sum(batch.nbytes for batch in batches)

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        """Promise that nothing will be sent before this time any more."""
        self._run.times.check((time,))
        self._handle.advance_to(time)
        self._output.changes.clear()
        self._run.order_all(AdvanceInput(self.name, (time,)))

    def close(self) -> None:
        """Promise that nothing will be sent any more."""
        if not self._handle.is_closed:
            self._handle.close()
            self._run.order_all(CloseInput(self.name))


class ProcessRun:
    """A flow that runs in n processes and is driven from this one; as a context manager it closes itself.

    ``transport`` is "ipc" (unix sockets in a private folder) or "tcp" (loopback, encrypted unless ``encrypted``
    says otherwise). Processes are forked where that exists, so that a flow may hold any function.
    """

    def __init__(
        self,
        plan: Plan,
        processes: int = 2,
        *,
        on_result: OnResult | None = None,
        transport: str = "ipc",
        encrypted: bool | None = None,
        start_method: str | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
    ) -> None:
        if processes < 1:
            raise FlowError(f"flow '{plan.name}' needs at least one process, and was given {processes}.")
        self.plan = plan
        self.on_result = on_result
        self.graph = plan.graph()
        self.times = TimeFormat(plan.root)
        schemas = schemas_by_location(plan, self.graph)
        self._outputs = {name: Target(node.index, 0) for name, node in plan.named(Kind.OUTPUT).items()}
        self._rows = {
            name: BatchFormat(schemas[self.graph.location(port)]) for name, port in self._outputs.items()
        }
        self.inputs = {
            name: ProcessInput(self, node, self.graph, processes)
            for name, node in plan.named(Kind.INPUT).items()
        }
        self._processes = processes
        watched = [self.graph.location(port) for port in self._outputs.values()] or [WHOLE_FLOW]
        self._frontiers: dict[int, dict[int, list[Time]]] = {location: {} for location in watched}
        self._parts: dict[tuple[str, Time], dict[int, list[pa.RecordBatch]]] = {}
        self._counts: list[Change] | None = None
        self._started: set[int] = set()
        self._quiet = _Quiet(processes)
        self._orders_since_step = False
        self._next_look = 0.0
        self._is_closed = False
        self._gang = Gang(
            plan,
            processes,
            transport=transport,
            encrypted=encrypted,
            start_method=start_method,
            silence_seconds_max=silence_seconds_max,
        )
        assert self._gang.mesh is not None
        self._mesh: Mesh = self._gang.mesh
        self._until(lambda: len(self._started) == processes)
        self._gang.forget_folder()
        self.settle()

    @property
    def pids(self) -> list[int]:
        """The process of each worker."""
        return self._gang.pids

    # Driving it.

    def input(self, name: str) -> ProcessInput:
        """The handle of an input."""
        handle = self.inputs.get(name)
        if handle is None:
            known = ", ".join(f"'{each}'" for each in self.inputs) or "none"
            raise FlowError(f"flow '{self.plan.name}' has no input '{name}'; it has {known}.")
        return handle

    def step(self) -> bool:
        """Take in news, waiting a little for some; False where nothing is left to do on any worker."""
        return self._guarded(_PATIENCE_SECONDS)

    def settle(self) -> None:
        """Wait until nothing is left to do; then every result that can be finished is handed over."""
        while self._guarded(0):
            pass

    def step_until(self, is_done: Callable[[], bool]) -> None:
        """Step until a condition holds; an error where nothing is left to do before that."""
        while not is_done():
            if not self.step() and not is_done():
                raise FlowError(
                    f"flow '{self.plan.name}' has nothing left to do, and what was waited for has not come. "
                    "Advance or close its inputs."
                )

    def close(self) -> None:
        """End all processes, wherever they are; closing again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for worker in range(self._processes):
            try:
                post(self._mesh, worker, Stop())
            except PointstampError:
                continue  # it is gone already
        self._gang.end()

    def __enter__(self) -> "ProcessRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking.

    def is_done(self, place: Probe | str, time: Any) -> bool:  # noqa: ANN401 - a root time
        """Whether nothing at this time or before it can pass any more: a probe, or an output by name."""
        location = self.graph.location(self._port(place))
        if self.graph.domains[location].rounds:
            raise FlowError(
                "is_done asks about a place outside loops; probe the stream that leaves the loop."
            )
        if location not in self._frontiers:
            self._frontiers[location] = {}
            self.order_all(Watch(location))
            self._until(lambda: len(self._frontiers[location]) == self._processes)
        return self._has_passed(location, time)

    def is_time_done(self, time: Any) -> bool:  # noqa: ANN401 - a root time
        """Whether nothing at this time or before it can reach any output any more, or is anywhere at all."""
        if self._outputs:
            return all(self.is_done(name, time) for name in self._outputs)
        return self._has_passed(WHOLE_FLOW, time)

    @property
    def is_complete(self) -> bool:
        """Whether everything is done and nothing can come any more."""
        return self._quiet.is_complete

    def frontier(self, place: Probe | str) -> list[Time]:
        """What may still pass, as the first worker knows it; empty means complete."""
        return list(self._first_tracker().frontier(self.graph.location(self._port(place))))

    def why(self, place: Probe | str) -> list[Holder]:
        """What holds the frontier of a place back, as the first worker knows it."""
        return holders(self._first_tracker(), self._port(place))

    def describe_standstill(self) -> str:
        """What the flow waits for, in words: who holds which output back."""
        held = [str(holder) for name in self._outputs for holder in self.why(name)]
        return (
            f"flow '{self.plan.name}' has read its inputs and has nothing left to do, and is not complete: "
            + ("; ".join(held) or "something is held outside the way to any output")
            + ". An operator that keeps a capability must drop it when it is done."
        )

    # Orders.

    def order(self, worker: int, order: Order, bodies: list[pa.Buffer] | None = None) -> None:
        """Send an order to one worker."""
        if self._is_closed:
            raise FlowError(f"flow '{self.plan.name}' was closed, and can be fed and asked no more.")
        self._quiet.disturb()
        self._orders_since_step = True
        try:
            post(self._mesh, worker, order, bodies or ())
        except TransportError as error:
            self._fail(error)

    def order_all(self, order: Order) -> None:
        """Send an order to every worker."""
        for worker in range(self._processes):
            self.order(worker, order)

    # Inside.

    def _guarded(self, patience_seconds: float) -> bool:
        if self._is_closed:
            raise FlowError(f"flow '{self.plan.name}' was closed, and can be driven no more.")
        try:
            return self._step(patience_seconds)
        except BaseException:
            self.close()  # an interrupt, too, must leave no process behind
            raise

    def _step(self, patience_seconds: float) -> bool:
        if not self._take_in() and not self._quiet.is_reached:
            if self._orders_since_step and patience_seconds:
                # Whoever has just fed may have more to feed; news can wait.
                self._orders_since_step = False
                return True
            if not self._quiet.is_asked and not (patience_seconds and self._mesh.wait(patience_seconds)):
                self._ask_for_quiet()
            if self._mesh.wait(_WAIT_SECONDS):
                self._take_in()
        self._orders_since_step = False
        if monotonic() >= self._next_look:
            self._look_at_processes()
        self._emit()
        return not self._quiet.is_reached

    def _until(self, condition: Callable[[], bool]) -> None:
        """Take in news until a condition holds that the workers are sure to bring about."""
        try:
            while not condition():
                self._mesh.wait(_WAIT_SECONDS)
                self._take_in()
                if monotonic() >= self._next_look:
                    self._look_at_processes()
        except BaseException:
            self.close()
            raise

    def _take_in(self) -> bool:
        try:
            parcels = self._mesh.collect()
        except TransportError as error:
            self._fail(error)
        for parcel in parcels:
            self._receive(parcel)
        return bool(parcels)

    def _receive(self, parcel: Parcel) -> None:
        report: Report = report_in(parcel)
        worker, name = parcel.sender, self._gang.name(parcel.sender)
        match report:
            case FrontierAt(location, times):
                restored = [time_in(parcel, self.times, time, name) for time in times]
                self._frontiers[location][worker] = restored
            case ResultRows(output, time):
                key = output, time_in(parcel, self.times, time, name)
                batches = rows_in(parcel, self._rows[output], name)
                self._parts.setdefault(key, {}).setdefault(worker, []).extend(batches)
            case Synced(wave, sent, received, is_complete):
                if self._quiet.answer(wave, worker, sent, received, is_complete=is_complete):
                    self._ask_for_quiet()
            case Counts(counts):
                self._counts = [
                    Change(Location(at), time_in(parcel, self.times, time, name), count)
                    for at, time, count in counts
                ]
            case Started():
                self._started.add(worker)
            case Failed():
                self._fail(error_of(report, name))

    def _ask_for_quiet(self) -> None:
        wave = self._quiet.ask()
        for worker in range(self._processes):
            post(self._mesh, worker, Sync(wave))

    def _emit(self) -> None:
        """Hand over, in order of time, what is complete on every worker."""
        if not self._parts:
            return
        done = [(name, time) for name, time in self._parts if self.is_done(name, time[0])]
        for name, time in sorted(done, key=self._sort_key):
            parts = self._parts.pop((name, time))
            table = pa.Table.from_batches([batch for worker in sorted(parts) for batch in parts[worker]])
            if self.on_result is not None:
                self.on_result(name, time[0], table)

    def _sort_key(self, part: tuple[str, Time]) -> Any:  # noqa: ANN401 - any sort key
        name, time = part
        return self.graph.domains[self.graph.location(self._outputs[name])].sort_key(time)

    def _has_passed(self, location: int, time: Any) -> bool:  # noqa: ANN401 - a root time
        told = self._frontiers[location]
        less_equal = self.plan.root.less_equal
        return len(told) == self._processes and not any(
            less_equal(lower[0], time) for frontier in told.values() for lower in frontier
        )

    def _first_tracker(self) -> Tracker:
        """The counts of the first worker, in a tracker of our own."""
        self._counts = None
        self.order(0, AskCounts())
        self._until(lambda: self._counts is not None)
        tracker = Tracker(self.graph)
        tracker.update_all(self._counts or ())
        tracker.propagate()
        return tracker

    def _port(self, place: Probe | str) -> Port:
        if isinstance(place, Probe):
            return place.source
        if place not in self._outputs:
            known = ", ".join(f"'{name}'" for name in self._outputs) or "none"
            raise FlowError(f"flow '{self.plan.name}' has no output '{place}'; it has {known}.")
        return self._outputs[place]

    def _look_at_processes(self) -> None:
        self._next_look = monotonic() + _WAIT_SECONDS
        if self._gang.deaths():
            self._fail(None)

    def _fail(self, first: PointstampError | None) -> NoReturn:
        """Raise what went wrong: an error of the flow before a death, a death before its consequences."""
        deadline = monotonic() + _CAUSE_SECONDS_MAX
        while isinstance(first, TransportError | None) and monotonic() < deadline:
            reports = self._last_reports()
            failures = [error_of(report, self._gang.name(at)) for at, report in reports]
            first = next((each for each in failures if not isinstance(each, TransportError)), first)
            deaths = self._gang.deaths()
            if deaths and "was killed" in deaths[0][1]:
                break
            first = first or next(iter(failures), None)
        deaths = self._gang.deaths()
        if deaths and isinstance(first, TransportError | None):
            first = TransportError(
                f"{deaths[0][1]} while flow '{self.plan.name}' was running; all its workers are ended. Run it "
                "again, from its last snapshot where it has one."
            )
        assert first is not None
        self.close()
        raise first

    def _last_reports(self) -> list[tuple[int, Failed]]:
        """Failures that arrive while the run is ending."""
        try:
            self._mesh.wait(0.01)
            parcels = self._mesh.collect()
        except TransportError:
            return []
        reports = [(parcel.sender, report_in(parcel)) for parcel in parcels]
        return [(sender, report) for sender, report in reports if isinstance(report, Failed)]


class _Quiet:
    """Finds out whether nothing is left to do: two waves of questions with the same, balanced answers."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._wave = 0
        self._answers: dict[int, tuple[int, int, bool]] = {}
        self._last: tuple[int, int] | None = None
        self._is_disturbed = False
        self.is_asked = False
        self.is_reached = False
        self.is_complete = False

    def disturb(self) -> None:
        """Something was ordered: what was found out before says nothing any more."""
        self._is_disturbed = True
        self.is_reached = False

    def ask(self) -> int:
        """Begin a wave of questions; return its number."""
        if self._is_disturbed:
            self._last = None
        self._is_disturbed = False
        self._wave += 1
        self._answers = {}
        self.is_asked = True
        return self._wave

    def answer(self, wave: int, worker: int, sent: int, received: int, *, is_complete: bool) -> bool:
        """Take in an answer; True where another wave is to be sent at once."""
        if wave != self._wave:
            return False
        self._answers[worker] = sent, received, is_complete
        if len(self._answers) < self._processes:
            return False
        self.is_asked = False
        totals = sum(a[0] for a in self._answers.values()), sum(a[1] for a in self._answers.values())
        is_balanced = totals[0] == totals[1] and not self._is_disturbed
        self.is_reached = is_balanced and totals == self._last
        self.is_complete = self.is_reached and all(a[2] for a in self._answers.values())
        self._last = totals if is_balanced else None
        return is_balanced and not self.is_reached
