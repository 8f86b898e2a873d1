"""Run a flow in n worker processes, driven from this one.

``ProcessRun`` is driven as ``LocalRun`` is: send, advance, step, ask what is done. This process is not a
worker. It sends each batch to the workers, in slices where it is large and by key where it is small, and
delivers a result when its time is complete on every worker. ``step`` waits a little for news, and says
False only where nothing is left to do anywhere, which is found out by asking: when all workers have nothing
to do and have received as many messages as were sent, twice with the same numbers, nothing was in flight in
between (Mattern's four counters).

When a worker fails, its error is raised here with the same message, and all workers end. When the process of
a worker dies, that is noticed and said. This process ending ends them all.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa

from pointstamp.arrow.epoch_column import LATE_PORT
from pointstamp.arrow.row_hashing import partition
from pointstamp.arrow.schema import input_batches
from pointstamp.driver.bounded_worker import WHOLE_FLOW, run_worker
from pointstamp.driver.event_reports import decode_events
from pointstamp.driver.feeder import OnResult, RunInput
from pointstamp.driver.gang import ProcessGang
from pointstamp.driver.liveness import CallsHeard
from pointstamp.driver.messages import (
    AdvanceInput,
    AskCounts,
    CloseInput,
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
    SendRows,
    Sync,
    Synced,
    WatchFrontier,
    error_of,
    post,
    report_in,
    rows_in,
    time_in,
    unfit,
)
from pointstamp.errors import FlowError, PointstampError, TransportError
from pointstamp.flow.plan import Node, NodeKind, Plan, Probe, probed
from pointstamp.mesh.mesh import SILENCE_SECONDS_MAX, Mesh, Parcel
from pointstamp.mesh.wire import BatchFormat, TimeFormat
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import Holder, holders
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, Port, Target
from pointstamp.worker.input import InputHandle
from pointstamp.worker.instance import Instance
from pointstamp.worker.protocols import RunJudge
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
        """Wait until nothing is left to do; then every result that can be finished is delivered."""
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
            raise FlowError(f"flow '{self.plan.name}' is closed and accepts no more calls. Open it again.")
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
            raise FlowError(f"flow '{self.plan.name}' is closed and accepts no more calls. Open it again.")
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
                f"{ended.words} while flow '{self.plan.name}' was running; all its workers were stopped. "
                "Run it again; with a checkpoint it resumes from the last snapshot."
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


# Detect from outside that no worker has anything left to do.
#
# Workers are asked in waves. A worker answers when it has nothing to do, with how many messages it has sent
# to other workers and received from them, ever. A wave in which as many were received as were sent says
# little, because the answers are of different moments. Two waves in a row with the same, balanced totals say
# that nothing was in flight between them: every message that was sent before a worker's first answer was
# received before another's second one, and no worker has sent or received since (Mattern 1987, the four
# counter method).
#
# Invariant: ``is_reached`` only while nothing was ordered since the first of the two waves.


class Quiet:
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


# An input of a flow whose workers are other processes.

SLICE_ROWS_MIN: Final = 1_024
"""A batch is cut into slices, one for each worker, where every slice has at least so many rows.

One with fewer rows is split by key instead, where all who read it exchange it by that key first: then it
takes one trip less. A large one is split by the workers, who have more hands.
"""
SLICE_ROWS_MAX: Final = 131_072
"""No slice has more rows: workers begin with the first while the next are in flight."""


class Orders(Protocol):
    """The run interface of an input: sends orders to workers."""

    times: TimeFormat

    def order(self, worker: int, order: Order, bodies: Sequence[pa.Buffer] = (), /) -> None:
        """Send an order to one worker."""
        ...

    def order_all(self, order: Order, /) -> None:
        """Send an order to every worker."""
        ...


class ProcessInput:
    """One input of a flow for all its workers: batches go to them in slices or in turn, times to all.

    ``keys`` are those by which all who read it exchange it first; small batches go straight to their owners.
    """

    def __init__(
        self,
        run: "Orders",
        node: Node,
        graph: OperatorGraph,
        workers: int,
        *,
        keys: Sequence[str] | None = None,
    ) -> None:
        # A handle of our own keeps the time and refuses what cannot be, with the words of every other run.
        instance = Instance(node, graph, WorkerIndex(0), 1, lambda _: ())
        self._outputs = instance.outputs
        self._handle = InputHandle(instance, lambda _, __: None)
        self._rows = [BatchFormat(output.schema) for output in instance.outputs]
        self._run = run
        self._workers = workers
        self._keys = keys
        self._turn = 0
        self.name = node.name
        self._schema, self._extra = node.outputs[0].schema, node.extra_columns

    @property
    def time(self) -> Any:  # noqa: ANN401 - the root time
        """The time at which batches are sent now."""
        return self._handle.time

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._handle.is_closed

    def send(self, data: Any, *, late: bool = False) -> int:  # noqa: ANN401 - anything that holds rows
        """Send rows at the current time; return how many bytes they have."""
        port = LATE_PORT if late else 0
        rows = [data] if late else input_batches(data, self._schema, f"input '{self.name}'", self._extra)
        for each in rows:
            self._handle.send(each, late=late)
        batches = [batch for _, batch in self._outputs[port].sent]
        self._outputs[port].sent.clear()
        for batch in batches:
            are_own = self._are_split(batch, port)
            for worker, part in self._parts(batch, are_own=are_own):
                order = SendRows(self.name, late, are_own)
                self._run.order(worker, order, [self._rows[port].encode(part)])
        return sum(batch.nbytes for batch in batches)

    def _are_split(self, batch: pa.RecordBatch, port: int) -> bool:
        """Return whether the rows of a batch go to the owners of their keys."""
        is_small = -(-batch.num_rows // self._workers) < SLICE_ROWS_MIN
        return is_small and self._keys is not None and port != LATE_PORT

    def _parts(self, batch: pa.RecordBatch, *, are_own: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The recipient of each row of a batch."""
        if are_own and self._keys is not None:
            parts = partition(batch, self._keys, self._workers)
            yield from ((worker, part) for worker, part in enumerate(parts) if part is not None)
            return
        share = -(-batch.num_rows // self._workers)
        size = min(share if share >= SLICE_ROWS_MIN else batch.num_rows, SLICE_ROWS_MAX)
        for start in range(0, batch.num_rows, size):
            yield self._turn, batch.slice(start, size)
            self._turn = (self._turn + 1) % self._workers

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        """Promise that no rows follow before this time; workers are informed."""
        self._run.times.check((time,))
        before = None if self.is_closed else self.time
        self._handle.advance_to(time)
        for output in self._outputs:
            output.changes.clear()
        if time != before:
            self._run.order_all(AdvanceInput(self.name, (time,)))

    def close(self) -> None:
        """Promise that nothing will be sent any more."""
        if not self._handle.is_closed:
            self._handle.close()
            self._run.order_all(CloseInput(self.name))
