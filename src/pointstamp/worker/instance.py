"""One operator on one worker: its logic, context and waiting messages."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pointstamp.errors import OperatorError, PointstampError, words_of
from pointstamp.flow.plan import Node, NodeKind
from pointstamp.operators.authority import Authority
from pointstamp.operators.context import Context
from pointstamp.operators.interface import IsNotified, Receives, SharesState, Starts, WatchesFrontiers
from pointstamp.operators.notify import Request
from pointstamp.operators.portstate import InputState, OutputState, moves_of
from pointstamp.optional import conforms
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, SourcePort, Target
from pointstamp.worker.lineage import LINEAGE, end_copy
from pointstamp.worker.userline import line_words, user_line

_SAMPLE_ROWS: Final = 3


class Instance:
    """A running operator; changed by its worker alone."""

    def __init__(
        self,
        node: Node,
        graph: OperatorGraph,
        worker: WorkerIndex,
        workers: int,
        read_frontier: Callable[[Location], Sequence[Time]],
    ) -> None:
        self.node = node
        self.index = node.index
        self.name = node.name
        operator = graph.operators[node.index]
        self.outputs = [
            OutputState(
                node.name,
                port.name,
                port.schema,
                graph.location(SourcePort(node.index, o)),
                operator.outputs[o],
                reports_loss=node.kind is not NodeKind.INPUT,
            )
            for o, port in enumerate(node.outputs)
        ]
        self.inputs = [
            InputState(
                port.name,
                graph.location(Target(node.index, i)),
                operator.inputs[i],
                *(
                    [
                        moves_of(operator.summaries.get((i, o), ()), operator.inputs[i], rows=rows)
                        for o in range(len(node.outputs))
                    ]
                    for rows in (False, True)
                ),
            )
            for i, port in enumerate(node.inputs)
        ]
        self.logic: Any = node.logic() if node.logic is not None else None
        self.authority = Authority(node.name, worker, workers, self.inputs, self.outputs, self.shown_frontier)
        self.context = Context(self.authority)
        self.inbox = Inbox()
        # By input: the operators that run before this one, where it ends a chain.
        self.chains: list[Sequence[Instance]] = [() for _ in self.inputs]
        self.frontier_moved = False
        # What is held for a notification stays held where the operator fails in it.
        self._serving: Request | None = None
        self.on_notified: Callable[[Time], None] | None = None
        """Receives every time just before the operator is notified, if a trace is recorded."""
        # How many calls of its methods there were, how many rows it was given and has sent, and why it is
        # inside of a call; another thread may read them.
        self.calls = 0
        self.rows_in = 0
        self.rows_out = 0
        self.calling: str | None = None
        self.board: Any = None
        """The shared memory in which other processes see that this operator is called."""
        # Where snapshots are taken: the last epoch of which there is one, the last that may be seen, what
        # came too early, and what was sent for epochs beyond.
        self.snapped = -1
        self.limit: int | None = None
        self.ahead: list[Any] = []
        self._stash = Inbox()
        self._read_frontier = read_frontier
        logic: Any = self.logic
        self._on_receive: Any = logic.on_receive if conforms(logic, Receives) else None
        self._on_notify: Any = logic.on_notify if conforms(logic, IsNotified) else None
        self.authority.can_be_notified = self._on_notify is not None
        self.on_frontier: Any = logic.on_frontier if conforms(logic, WatchesFrontiers) else None
        self._on_start: Any = logic.on_start if conforms(logic, Starts) else None

    def share_with(self, others: dict[Any, Any]) -> None:
        """Let the operator keep what others of its worker keep, too, in one place with them."""
        if isinstance(self.logic, SharesState):
            self.logic.share_with(others)

    def put(self, port: int, time: Time, batch: pa.RecordBatch) -> bool:
        """Let a message wait; whether it may be handled now."""
        if self.limit is not None and time[0] > self.limit:
            self._stash.put(port, time, batch)
            return False
        self.inbox.put(port, time, batch)
        return True

    def unstash(self) -> bool:
        """Let messages be handled that came too early and may be seen now; whether there are any."""
        stashed, self._stash = self._stash, Inbox()
        for port, time, batch in stashed:
            self.put(port, time, batch)
        return bool(self.inbox)

    def shown_frontier(self, location: Location) -> Sequence[Time]:
        """The frontier of a location as this operator may see it: nothing beyond the epoch it may see."""
        frontier = self._read_frontier(location)
        limit = self.limit
        if limit is None or (frontier and all(time[0] <= limit for time in frontier)):
            return frontier
        rounds = next(port.domain.rounds for port in self.inputs if port.location == location)
        return [*(time for time in frontier if time[0] <= limit), (limit + 1, *(0,) * rounds)]

    def output_number(self, name: str) -> int:
        """The number of an output by its name."""
        return next(number for number, output in enumerate(self.outputs) if output.name == name)

    @property
    def wants_frontiers(self) -> bool:
        """Whether a moved frontier may be a reason to activate this operator."""
        return self.on_frontier is not None or len(self.authority.notifications) > 0

    def can_act(self) -> bool:
        """Return whether the operator has something to do now that a frontier has moved."""
        authority = self.authority
        if self.on_frontier is not None or not len(authority.notifications):
            return self.on_frontier is not None
        in_order = self.node.in_order
        is_complete = authority.is_first if in_order else authority.is_notifiable
        return authority.notifications.has_ready(is_complete, in_order=in_order)

    def start(self, least: Time) -> None:
        """Let the operator do what it does before anything arrives, at the least time."""
        if self._on_start is not None:
            self.authority.act_for(None, least)
            self.call(self._on_start, "at the start")

    def receive(self, port: int, time: Time, batch: pa.RecordBatch) -> None:
        """Hand a batch to the operator, or what the chain before it makes of the batch."""
        if not self.chains[port]:
            self._take(port, time, batch)
            return
        for made in through(self.chains[port], time, batch):
            self._take(port, time, made)

    def _take(self, port: int, time: Time, batch: pa.RecordBatch) -> None:
        if self._on_receive is None:
            return
        self.rows_in += batch.num_rows
        state = self.inputs[port]
        self.authority.act_for(state, time)
        self.call(self._on_receive, f"with a batch at input '{state.name}'", state.name, batch, sample=batch)

    def notify(self) -> None:
        """Serve, in order, every request for a time that is complete."""
        authority = self.authority
        if self._on_notify is None or not len(authority.notifications):
            return
        if self.node.in_order:
            authority.notifications.serve_in_order(authority.is_first, self.name, self.serve)
        else:
            authority.notifications.serve(authority.is_notifiable, self.serve)

    def serve(self, request: Request) -> None:
        """Notify the operator of a time, and give up what was held for that."""
        if self.on_notified is not None:
            self.on_notified(request.time)
        self.authority.act_for(request.port, request.time)
        self._serving = request
        self.call(self._on_notify, "when it was notified")
        for capability in request.held:
            capability.drop()
        self._serving = None

    def look_at_frontiers(self) -> None:
        """Notify the operator of a moved frontier, if it has ``on_frontier``."""
        if self.on_frontier is not None:
            self.authority.act_for(None, None)
            self.call(self.on_frontier, "when a frontier moved")

    def close(self) -> None:
        """The run is over: capabilities that are still held are not an error now."""
        for output in self.outputs:
            output.is_over = True

    def call(
        self, method: Callable[..., object], when: str, *given: object, sample: pa.RecordBatch | None = None
    ) -> None:
        """Call a method of the operator; what it raises is explained."""
        depth = LINEAGE.depth
        self.calls += 1
        self.calling = when
        board = self.board
        if board is not None:
            board.enter(self.index)
        try:
            method(self.context, *given)
        except PointstampError:
            raise
        except (Exception, SystemExit) as error:  # who exits means the flow, and would end one worker of it
            explained = OperatorError(self._explain(error, when, sample))
            explained.__cause__ = error  # the compiler leaves out what `from` says
            raise explained  # noqa: B904
        except BaseException as error:
            # An interrupt of the keyboard is for whoever runs the flow. Where it cannot be one, as in a
            # process of a worker's own, the note is what is told.
            error.add_note(self._explain(error, when, sample))
            raise
        finally:
            self.calling = None
            if board is not None:
                board.leave()
            if LINEAGE.depth != depth:  # the operator has forked, and this is the copy
                end_copy(sys.exc_info()[1])

    def _explain(self, error: BaseException, when: str, sample: pa.RecordBatch | None) -> str:
        """Operator, moment, the user's own line, and the first rows of the batch."""
        line = user_line(error)
        try:
            time = f" at {self.context.time}"
        except PointstampError:
            time = ""
        where = "" if line is None else f" ({line_words(line)})"
        message = f"operator '{self.name}' failed {when}{time}: {words_of(error)}{where}"
        if sample is not None:
            first = sample.slice(0, _SAMPLE_ROWS).to_pylist()
            message += f"; the batch has {sample.num_rows} rows and begins {first}"
        return message


def through(chain: Sequence[Instance], time: Time, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the output of a chain of operators (``pointstamp.flow.plan``) for a batch, at the batch's time.

    Each of them is an instance as any other, with its own rows, calls and errors, but none is ever woken: the
    operator at the end of the chain is, and passes its input on.
    """
    batches = [batch]
    for instance in chain:
        for each in batches:
            instance.receive(0, time, each)
        instance.authority.act_for(None, None)
        output = instance.outputs[0]
        sent, output.sent = output.sent, []
        batches = [made for _, made in sent]
        instance.rows_out += sum([made.num_rows for made in batches])
        if not batches:
            break
    return batches


# The inbox of an operator: waiting batches by input and time.
#
# Batches of one input and one time are delivered together, in the order in which they came: small batches
# would otherwise split further with every exchange in a loop. Between different times there is no order to
# keep; the one whose first batch has waited longest comes first.

COALESCE_ROWS_MAX: Final = 65_536
"""Waiting batches are brought together up to about this many rows."""


Waiting: TypeAlias = tuple[int, Time, pa.RecordBatch, int]
"""A delivery: an input, a time, the rows, and the number of their messages."""


class Inbox:
    """Changed by the worker that runs the operator."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[tuple[int, Time], list[pa.RecordBatch]] = {}

    def put(self, port: int, time: Time, batch: pa.RecordBatch) -> None:
        """Let a batch wait."""
        place = (port, time)
        if place in self._batches:
            self._batches[place].append(batch)
        else:
            self._batches[place] = [batch]

    def pull(self) -> Waiting:
        """Take out what has waited longest, with what waits for the same input and time."""
        place = next(iter(self._batches))
        batches = self._batches[place]
        if len(batches) == 1:
            del self._batches[place]
            return (place[0], place[1], batches[0], 1)
        rows = taken = 0
        while taken < len(batches) and rows < COALESCE_ROWS_MAX:
            rows += batches[taken].num_rows
            taken += 1
        if taken == len(batches):
            del self._batches[place]
        else:
            self._batches[place] = batches[taken:]
        return (place[0], place[1], pa.concat_batches(batches[:taken]), taken)

    def __len__(self) -> int:
        return sum([len(batches) for batches in self._batches.values()])

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __iter__(self) -> Iterator[tuple[int, Time, pa.RecordBatch]]:
        return iter([(*place, batch) for place, batches in self._batches.items() for batch in batches])
