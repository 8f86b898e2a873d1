"""Run a flow in this process: n workers, stepped in turn, deterministic.

``LocalRun`` is the open form: input handles to send and advance, ``step`` and ``settle`` to let the workers
work, results that come out as soon as their time is complete on every worker. It stands behind ``run``
and is what a notebook or a test drives by hand.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from pointstamp.arrangement.column_arrays import widths_of
from pointstamp.arrow.schema import input_batches, to_batches
from pointstamp.driver.feeder import OnResult, RunInput
from pointstamp.errors import FlowError
from pointstamp.flow.plan import NodeKind, Plan, Probe, probed
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import Holder, holders
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, Port, Target
from pointstamp.worker.protocols import EventLog, Message
from pointstamp.worker.worker import Worker


class LocalTransport:
    """Queues between the workers of one process."""

    def __init__(self, worker: WorkerIndex, inboxes: Sequence[deque[Message]]) -> None:
        self._inbox = inboxes[worker]
        self._inboxes = inboxes

    def send(self, peer: WorkerIndex, message: Message) -> None:
        """Put a message into the other worker's inbox."""
        self._inboxes[peer].append(message)

    def receive(self) -> Sequence[Message]:
        """Take everything out of this worker's inbox."""
        if not self._inbox:
            return ()
        messages = list(self._inbox)
        self._inbox.clear()
        return messages


class LocalInput:
    """One input of a flow for all its workers: batches go to them in turn, times to all."""

    def __init__(self, workers: Sequence[Worker], name: str) -> None:
        self._handles = [worker.input(name) for worker in workers]
        node = workers[0].plan.named(NodeKind.INPUT)[name]
        self._schema, self._late_schema = node.outputs[0].schema, node.outputs[-1].schema
        self._extra = node.extra_columns
        widths = widths_of(self._schema)
        # Arrow adds up the sizes of all buffers more slowly than an epoch of one row takes.
        self._row_bytes = (
            None if None in widths else sum(each.itemsize for each in widths if each is not None)
        )
        self._turn = 0
        self.name = name

    @property
    def time(self) -> Any:  # noqa: ANN401 - the root time
        """The time at which rows are sent now."""
        return self._handles[0].time

    @property
    def is_closed(self) -> bool:
        """Whether the input is closed."""
        return self._handles[0].is_closed

    def send(self, data: Any, *, late: bool = False) -> int:  # noqa: ANN401 - anything that holds rows
        """Send rows at the current time; return their size in bytes."""
        sent = 0
        who = f"input '{self.name}'"
        batches = (
            to_batches(data, self._late_schema, who)
            if late
            else input_batches(data, self._schema, who, self._extra)
        )
        for batch in batches:
            self._handles[self._turn].send(batch, late=late)
            self._turn = (self._turn + 1) % len(self._handles)
            sent += batch.nbytes if self._row_bytes is None else self._row_bytes * batch.num_rows
        return sent

    def advance_to(self, time: Any) -> None:  # noqa: ANN401 - a root time
        """Advance to a time: promise that no rows will be sent before it."""
        for handle in self._handles:
            handle.advance_to(time)

    def close(self) -> None:
        """Close the input: promise that no more rows will be sent."""
        for handle in self._handles:
            handle.close()


class LocalRun:
    """A flow that runs in this process and is fed by hand; as a context manager it closes itself.

    Examples:
        >>> flow = ps.Dataflow("words")
        >>> flow.output("counts", flow.stream_input("words", "word string").count("word"))
        >>> with flow.open(on_result=lambda output, time, table: print(time, table.to_pylist())) as run:
        ...     size = run.input("words").send([{"word": "so"}])
        ...     run.input("words").advance_to(1)
        ...     run.settle()
        ...     print(run.frontier("counts"))
        0 [{'word': 'so', 'count': 1}]
        [(1,)]

    """

    def __init__(
        self,
        plan: Plan,
        workers: int = 1,
        *,
        on_result: OnResult | None = None,
        log: EventLog | None = None,
    ) -> None:
        if workers < 1:
            raise FlowError(
                f"flow '{plan.name}': workers must be at least 1, got {workers}. Give a larger number."
            )
        inboxes: list[deque[Message]] = [deque() for _ in range(workers)]
        self.plan = plan
        self.on_result = on_result
        self._parts: dict[tuple[str, Time], list[pa.RecordBatch]] = {}
        self._workers = [
            Worker(
                plan,
                LocalTransport(WorkerIndex(number), inboxes),
                WorkerIndex(number),
                workers,
                deliver=self._deliver,
                log=log,
            )
            for number in range(workers)
        ]
        self._graph = self._workers[0].graph
        self.inputs: dict[str, RunInput] = {
            name: LocalInput(self._workers, name) for name in plan.named(NodeKind.INPUT)
        }
        self._outputs = {name: Target(node.index, 0) for name, node in plan.named(NodeKind.OUTPUT).items()}
        # Who waits for an output asks after each step.
        self._places: dict[Probe | str, Location] = {name: self._place(name) for name in self._outputs}
        self.settle()

    def input(self, name: str) -> RunInput:
        """Return the handle of an input.

        Args:
            name: The name of the input.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").advance_to(3)
            ...     print(run.input("words").time)
            3

        """
        if name not in self.inputs:
            self._workers[0].input(str(name))  # raises, and says which there are
        return self.inputs[name]

    def step(self) -> bool:
        """Let each worker do one step; return False, after delivering results, if no worker had one.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").close()
            ...     while run.step():
            ...         pass
            ...     print(run.is_complete)
            True

        """
        stepped = False
        for worker in self._workers:
            if worker.step():
                stepped = True
        if stepped:
            return True
        self._emit()
        return False

    def settle(self) -> None:
        """Step until no worker has anything to do, and deliver every result that is complete.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").close()
            ...     run.settle()
            ...     print(run.is_complete)
            True

        """
        while self.step():
            pass

    def step_until(self, is_done: Callable[[], bool]) -> None:
        """Step until a condition holds.

        Args:
            is_done: Returns whether the condition holds.

        Raises:
            FlowError: No worker has anything left to do, and the condition does not hold.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").advance_to(1)
            ...     run.step_until(lambda: run.is_done("words", 0))

        """
        while not is_done():
            if not self.step() and not is_done():
                raise FlowError(
                    f"flow '{self.plan.name}' is idle, but the awaited condition does not hold. Advance "
                    "or close its inputs."
                )

    def is_done(self, place: Probe | str, time: Any) -> bool:  # noqa: ANN401 - a root time
        """Return whether no more rows at this time or earlier can pass a place.

        Args:
            place: A probe, or the name of an output.
            time: A root time, such as an epoch.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     run.input("words").advance_to(1)
            ...     run.settle()
            ...     print(run.is_done("words", 0), run.is_done("words", 1))
            True False

        """
        location = self._places.get(place)
        if location is None:
            location = self._place(place)
        for worker in self._workers:  # noqa: SIM110 - all() takes longer
            if worker.view.tracker.may_come(location, (time,)):
                return False
        return True

    def is_time_done(self, time: Any) -> bool:  # noqa: ANN401 - a root time
        """Return whether no more rows at this time or earlier can reach any output.

        Without outputs: whether no such rows can exist.

        Args:
            time: A root time, such as an epoch.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     print(run.is_time_done(0))
            False

        """
        if self._outputs:
            return all(self.is_done(name, time) for name in self._outputs)
        less_equal = self.plan.root.less_equal
        return not any(
            less_equal(counted[0], time)
            for worker in self._workers
            for number in range(len(self._graph.ports))
            for counted in worker.view.tracker.occurrences(Location(number))
        )

    def describe_standstill(self) -> str:
        """Return, as text, the operators that hold outputs back.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     print("input 'words' may still send at epoch 0" in run.describe_standstill())
            False

        """
        held = [str(holder) for name in self._outputs for holder in self.why(name)]
        return (
            f"flow '{self.plan.name}' has read its inputs and has nothing left to do, but is not complete: "
            + ("; ".join(held) or "something is held outside the way to any output")
            + ". An operator that keeps a capability must drop it when it is done."
        )

    def frontier(self, place: Probe | str) -> list[Time]:
        """Return the frontier of a place, as the first worker knows it; empty if it is complete.

        Args:
            place: A probe, or the name of an output.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     print(run.frontier("words"))
            [(0,)]

        """
        return list(self._workers[0].view.tracker.frontier(self._graph.location(self._port(place))))

    def tracker(self) -> Tracker:
        """Return the progress of the flow as the first worker knows it. Do not change it."""
        return self._workers[0].view.tracker

    def why(self, place: Probe | str) -> list[Holder]:
        """Return the holders of a frontier: inputs, capabilities and messages that hold it back.

        Args:
            place: A probe, or the name of an output.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> with flow.open() as run:
            ...     (holder,) = run.why("words")
            ...     print(str(holder)[:50])
            time (0,) is outstanding at output 0 of 'words' an

        """
        return holders(self._workers[0].view.tracker, self._port(place))

    @property
    def is_complete(self) -> bool:
        """Whether all inputs are closed and all rows are processed."""
        return all(worker.is_complete for worker in self._workers)

    def close(self) -> None:
        """End the run at any point.

        Examples:
            >>> flow = ps.Dataflow("words")
            >>> flow.output("words", flow.stream_input("words", "word string"))
            >>> flow.open().close()

        """
        for worker in self._workers:
            worker.close()

    def __enter__(self) -> "LocalRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, place: Probe | str) -> Location:
        """The location of a place that can be asked about by a root time: one outside loops."""
        location = self._graph.location(self._port(place))
        if self._graph.domains[location].rounds:
            raise FlowError("is_done needs a stream outside of loops. Probe the stream that leaves the loop.")
        return location

    def _port(self, place: Probe | str) -> Port:
        if isinstance(place, Probe):
            return probed(place)
        if place not in self._outputs:
            known = ", ".join(f"'{name}'" for name in self._outputs) or "none"
            raise FlowError(f"flow '{self.plan.name}' has no output '{place}'; it has {known}.")
        return self._outputs[place]

    def _deliver(self, output: str, time: Time, batches: Iterable[pa.RecordBatch]) -> None:
        self._parts.setdefault((output, time), []).extend(batches)

    def _emit(self) -> None:
        """Hand over, in order of time, what is complete on every worker."""
        if not self._parts:
            return
        done = [(name, time) for name, time in self._parts if self.is_done(name, time[0])]
        for name, time in sorted(done, key=self._sort_key):
            table = pa.Table.from_batches(self._parts.pop((name, time)))
            if self.on_result is not None:
                self.on_result(name, time[0], table)

    def _sort_key(self, part: tuple[str, Time]) -> Any:  # noqa: ANN401 - any sort key
        name, time = part
        return self._graph.domains[self._graph.location(self._outputs[name])].sort_key(time)


def workers_of(run: LocalRun) -> Sequence[Worker]:
    """The workers of a run, by number; for those who look into one between two steps, and not for users."""
    return run._workers  # noqa: SLF001 - this function is the one way to them
