"""Run a flow in n worker processes, driven from this one.

``ProcessRun`` is driven as ``LocalRun`` is: send, advance, step, ask what is done. This process is not a
worker. It sends each batch to the workers, in slices where it is large and by key where it is small, and
hands over a result when its time is complete on every worker. ``step`` waits a little for news, and says
False only where nothing is left to do anywhere, which is found out by asking: when all workers have nothing
to do and have received as many messages as were sent, twice with the same numbers, nothing was on its way in
between (Mattern's four counters).

When a worker fails, its error is raised here with the same message, and all workers end. When the process of
a worker dies, that is noticed and said. This process ending ends them all.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, NoReturn

import pyarrow as pa

from pointstamp.errors import FlowError, PointstampError, TransportError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.flow.probe import Probe, probed
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh, Parcel
from pointstamp.mesh.wire import BatchFormat, TimeFormat
from pointstamp.progress.pointstamp import Change
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import Holder, holders
from pointstamp.running.boundedworker import WHOLE_FLOW, run_worker
from pointstamp.running.failing import error_of
from pointstamp.running.feeding import OnResult, RunInput
from pointstamp.running.gang import ProcessGang
from pointstamp.running.lookout import CallsHeard
from pointstamp.running.messages import (
    AskCounts,
    Counts,
    EventsTold,
    Failed,
    FrontierAt,
    InCall,
    Leave,
    Order,
    Ready,
    Report,
    ResultRows,
    Sync,
    Synced,
    WatchFrontier,
)
from pointstamp.running.posting import post, report_in, rows_in, time_in, unfit
from pointstamp.running.processinput import ProcessInput
from pointstamp.running.quiet import Quiet
from pointstamp.running.telling import decode_events
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, Port, Target
from pointstamp.worker.ports import RunJudge
from pointstamp.worker.routes import key_of, routes_of

# How long a step waits for news before it asks whether there is anything left to do.
_PATIENCE_SECONDS: Final = 0.002
_WAIT_SECONDS: Final = 0.05
_CAUSE_SECONDS_MAX: Final = 1.0


class ProcessRun:
    """A flow that runs in n processes and is driven from this one; as a context manager it closes itself.

    ``transport`` is "ipc" (unix sockets in a private folder) or "tcp" (loopback, encrypted unless
    ``encrypted`` is False). What the flow holds is sent to the processes, which inherit nothing of this one.
    """

    def __init__(
        self,
        plan: Plan,
        processes: int = 2,
        *,
        on_result: OnResult | None = None,
        transport: str = "ipc",
        encrypted: bool | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
        judge: RunJudge | None = None,
    ) -> None:
        if processes < 1:
            raise FlowError(
                f"flow '{plan.name}': processes must be at least 1, got {processes}. Give a larger number."
            )
        self.plan = plan
        self.on_result = on_result
        self.graph = plan.graph()
        self.times = TimeFormat(plan.root)
        self._outputs = {name: Target(node.index, 0) for name, node in plan.named(NodeKind.OUTPUT).items()}
        self._rows = {name: BatchFormat(schema) for name, schema in plan.output_schemas().items()}
        routes = routes_of(plan, self.graph)
        self.inputs: dict[str, RunInput] = {
            name: ProcessInput(self, node, self.graph, processes, keys=key_of(routes[node.index, 0]))
            for name, node in plan.named(NodeKind.INPUT).items()
        }
        self._processes = processes
        watched: list[int] = [self.graph.location(port) for port in self._outputs.values()] or [WHOLE_FLOW]
        self._frontiers: dict[int, dict[int, list[Time]]] = {location: {} for location in watched}
        self._parts: dict[tuple[str, Time], dict[int, list[pa.RecordBatch]]] = {}
        self._counts: list[list[Change]] = []  # the answer to a question, when it has come
        self._started: set[int] = set()
        self._judge = judge
        self._told = [0] * processes
        # The frontiers that each worker has told, each with the number of events that it rests on, which
        # were not judged yet; without a judge none waits.
        self._unjudged: list[deque[tuple[int, int, list[Time]]]] = [deque() for _ in range(processes)]
        self._calls = CallsHeard()
        self._quiet = Quiet(processes)
        self._orders_since_step = False
        self._next_look = 0.0
        self._is_closed = False
        self._gang = ProcessGang(
            plan,
            processes,
            run=None if judge is None else partial(run_worker, plan, is_judged=True),
            transport=transport,
            encrypted=encrypted,
            silence_seconds_max=silence_seconds_max,
        )
        assert self._gang.mesh is not None
        self._mesh: Mesh = self._gang.mesh
        self._mesh.gather(is_on=True)
        self._until(lambda: len(self._started) == processes)
        self._gang.forget_folder()
        self.settle()

    @property
    def pids(self) -> list[int]:
        """The process of each worker."""
        return self._gang.pids

    # Driving it.

    def input(self, name: str) -> RunInput:
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
                    f"flow '{self.plan.name}' is idle, but the awaited condition does not hold. Advance "
                    "or close its inputs."
                )

    def close(self) -> None:
        """End all processes, wherever they are; closing again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for worker in range(self._processes):
            try:
                post(self._mesh, worker, Leave())
            except PointstampError:
                continue  # it is gone already
        self._mesh.flush()
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
            raise FlowError("is_done needs a stream outside of loops. Probe the stream that leaves the loop.")
        if location not in self._frontiers:
            self._frontiers[location] = {}
            self.order_all(WatchFrontier(location))
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
        """Return the frontier in the first worker's view; empty means complete."""
        return list(self.tracker().frontier(self.graph.location(self._port(place))))

    def why(self, place: Probe | str) -> list[Holder]:
        """Return what holds a frontier back, in the first worker's view."""
        return holders(self.tracker(), self._port(place))

    def calls(self) -> list[str]:
        """Return the operators in long calls, as text, as far as known."""
        return self._calls.words()

    def describe_standstill(self) -> str:
        """Return what the flow waits for, as text: the operators that hold outputs back."""
        held = [str(holder) for name in self._outputs for holder in self.why(name)]
        return (
            f"flow '{self.plan.name}' has read its inputs and has nothing left to do, but is not complete: "
            + ("; ".join(held) or "something is held outside the way to any output")
            + ". An operator that keeps a capability must drop it when it is done."
        )

    # Orders.

    def order(self, worker: int, order: Order, bodies: Sequence[pa.Buffer] = ()) -> None:
        """Send an order to one worker."""
        if self._is_closed:
            raise FlowError(f"flow '{self.plan.name}' was closed, and can no longer be fed or asked.")
        self._quiet.disturb()
        self._orders_since_step = True
        self._post(worker, order, bodies)

    def order_all(self, order: Order) -> None:
        """Send an order to every worker."""
        for worker in range(self._processes):
            self.order(worker, order)

    # Inside.

    def _guarded(self, patience_seconds: float) -> bool:
        if self._is_closed:
            raise FlowError(f"flow '{self.plan.name}' was closed, and can no longer be driven.")
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
        if self._judge is not None and self._quiet.is_reached:
            self._judge.settled()
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
        self._mesh.flush()
        try:
            parcels = self._mesh.collect()
        except TransportError as error:
            self._fail(error)
        for parcel in parcels:
            self._receive(parcel)
        return bool(parcels)

    def _receive(self, parcel: Parcel) -> None:
        report: Report = report_in(parcel)
        self._calls.hear(parcel.sender, report)
        worker, name = parcel.sender, self._gang.name(parcel.sender)
        match report:
            case FrontierAt(location, times):
                restored = [time_in(self.times, time, name) for time in times]
                self._unjudged[worker].append((self._told[worker], location, restored))
                self._believe(worker)
            case ResultRows(output, time):
                key = output, time_in(self.times, time, name)
                batches = rows_in(parcel.bodies, self._rows[output], name)
                self._parts.setdefault(key, {}).setdefault(worker, []).extend(batches)
            case Synced(wave, sent, received, is_complete):
                if self._quiet.answer(wave, worker, sent, received, is_complete=is_complete):
                    self._ask_for_quiet()
            case Counts(counts):
                self._counts.append(
                    [
                        Change(Location(at), time_in(self.times, time, name), count)
                        for at, time, count in counts
                    ]
                )
            case EventsTold():
                self._take_events(worker, report)
            case Ready():
                self._started.add(worker)
            case InCall():
                pass  # it was heard
            case Failed():
                self._fail(error_of(report, name))
            case _:
                raise unfit(name, report)

    def _take_events(self, worker: int, told: EventsTold) -> None:
        """Judge what has happened; what was held back for it may be believed then."""
        assert self._judge is not None, "this run is not verified"
        self._told[worker] += told.count
        self._judge.take(worker, decode_events(told.events))
        for number in range(self._processes):
            self._believe(number)

    def _believe(self, worker: int) -> None:
        """Take over the frontiers of a worker once everything that they rest on has been judged."""
        unjudged = self._unjudged[worker]
        while unjudged and (self._judge is None or self._judge.is_judged(worker, unjudged[0][0])):
            _, location, times = unjudged.popleft()
            self._frontiers[location][worker] = times

    def _ask_for_quiet(self) -> None:
        wave = self._quiet.ask()
        for worker in range(self._processes):
            self._post(worker, Sync(wave))

    def _post(self, worker: int, order: Order, bodies: Sequence[pa.Buffer] = ()) -> None:
        try:
            post(self._mesh, worker, order, bodies)
        except TransportError as error:
            self._fail(error)

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

    def tracker(self) -> Tracker:
        """The progress of the flow as one worker knows it, in a tracker of our own."""
        self._counts.clear()
        self.order(self._calls.free(self._processes) or 0, AskCounts())
        self._until(lambda: bool(self._counts))
        tracker = Tracker(self.graph)
        tracker.update_all(self._counts.pop())
        tracker.propagate()
        return tracker

    def _port(self, place: Probe | str) -> Port:
        if isinstance(place, Probe):
            return probed(place)
        if place not in self._outputs:
            known = ", ".join(f"'{name}'" for name in self._outputs) or "none"
            raise FlowError(f"flow '{self.plan.name}' has no output '{place}'; it has {known}.")
        return self._outputs[place]

    def _look_at_processes(self) -> None:
        self._next_look = monotonic() + _WAIT_SECONDS
        for worker, call in enumerate(self._gang.look()):
            if call is not None:
                self._calls.hear(worker, call)
        if self._gang.deaths():
            self._fail(None)

    def _fail(self, first: PointstampError | None) -> NoReturn:
        """Raise what went wrong: an error of the flow before a death, a death before its consequences."""
        deadline = monotonic() + _CAUSE_SECONDS_MAX
        known = [] if first is None else [first]
        flaw, death = _flaw_in(known), None
        while flaw is None and death is None and monotonic() < deadline:
            known.extend(self._last_failures())
            flaw = _flaw_in(known)
            death = next((each for each in self._gang.deaths() if each.code), None)
        if flaw is None and (death is not None or not known):
            ended = death or next(iter(self._gang.deaths()))
            flaw = TransportError(
                f"{ended.words} while flow '{self.plan.name}' was running; all its workers have been ended. "
                "Run it again, from its last snapshot where it has one."
            )
        self.close()
        raise flaw or known[0]

    def _last_failures(self) -> list[PointstampError]:
        """Failures that arrive while the run is ending."""
        try:
            self._mesh.wait(0.01)
            parcels = self._mesh.collect()
        except TransportError:
            return []
        reports = [(parcel.sender, report_in(parcel)) for parcel in parcels]
        return [error_of(said, self._gang.name(at)) for at, said in reports if isinstance(said, Failed)]


def _flaw_in(errors: Iterable[PointstampError]) -> PointstampError | None:
    """The first error that is not merely about a connection."""
    return next((error for error in errors if not isinstance(error, TransportError)), None)
