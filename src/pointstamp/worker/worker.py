"""A worker: a copy of the flow, driven by ``step``.

A step takes in what has arrived, lets one operator act, and when none has anything to do sends the progress
that has gathered and draws conclusions from what the others have sent. Everything that an activation
consumed, held, dropped and sent enters the progress protocol as one change, after the batches have been
counted and before any of it is told to anybody.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from pointstamp.arrow.row_hashing import partition, split
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.expressions.zones import UTC, enter_time_zone, leave_time_zone
from pointstamp.flow.plan import ExchangeBy, ExchangeByFunction, NodeKind, Plan, StayHere
from pointstamp.operators.interface import CountsLateRows, SeesEventTime
from pointstamp.operators.portstate import OutputState
from pointstamp.operators.stateless import Collect, Deliver
from pointstamp.progress.accumulating import Parts
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.choosing import broadcast_tree
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.view import ProgressView
from pointstamp.state.memory_budget import KeptRows, KeyRows, MemoryBudget, kept_by, largest_keys_by, within
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    Counted,
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    NotificationAsked,
    Notified,
    ProgressReceived,
    ProgressSent,
    ProgressSummed,
    SnapshotTaken,
    SumReceived,
    WorkerStarted,
)
from pointstamp.worker.input import InputHandle
from pointstamp.worker.instance import Instance
from pointstamp.worker.protocols import Chooser, DataMessage, EventLog, Message, Transport
from pointstamp.worker.routes import Route, routes_of, workers_by
from pointstamp.worker.snapshots import (
    OnSnapshot,
    Restored,
    RestoredInstance,
    SentAhead,
    Snapshots,
    place_of,
)
from pointstamp.worker.tails import OwnTails

SILENT_ACTIVATIONS_MAX: Final = 64
"""After so many activations in a row a worker tells the others how far it is, though it has more to do."""

_INPUT: Final = NodeKind.INPUT  # to name a member of an enumeration takes Python ten times longer


class Worker:
    """One of ``workers`` copies of a flow. Single-threaded: its driver calls ``step``."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        worker: WorkerIndex = WorkerIndex(0),  # noqa: B008 - an int with a name
        workers: int = 1,
        *,
        deliver: Deliver | None = None,
        chooser: Chooser | None = None,
        log: EventLog | None = None,
        on_snapshot: OnSnapshot | None = None,
        restored: Restored | None = None,
        hosts: Sequence[int] | None = None,
        has_tails: bool = False,
    ) -> None:
        self.plan = plan
        self._time_zone: str | None = None if plan.time_zone in (None, UTC) else plan.time_zone
        self.graph: OperatorGraph = plan.graph()
        self.worker = worker
        self.workers = workers
        self.view = ProgressView(
            self.graph, worker, workers, tree=broadcast_tree(plan.broadcast, workers, hosts)
        )
        self._is_root = False
        if self.view.accumulating is not None:
            self._is_root = self.view.accumulating.is_root
            if log is not None:
                self.view.accumulating.on_told = self._log_told
                self.view.accumulating.on_summed = self._log_summed
        self._transport = transport
        self._chooser = chooser
        self._log = log
        self._routes = routes_of(plan, self.graph)
        self.instances: dict[OperatorIndex, Instance] = {
            node.index: Instance(node, self.graph, worker, workers, self.view.tracker.frontier)
            for node in plan.nodes
            if not node.kind.is_door
        }
        self._chains = plan.chains()
        for end, chain in self._chains.before.items():
            self.instances[end.operator].chains[end.port] = [self.instances[each] for each in chain]
        # All that are woken by themselves: the others act inside of these, and hold nothing.
        self._acting = [self.instances[i] for i in self.instances if i not in self._chains.runs_at]
        logics = [(each.name, each.logic) for each in self.instances.values()]
        self._event_timed = [(name, logic) for name, logic in logics if isinstance(logic, SeesEventTime)]
        self._counting_late = [(name, logic) for name, logic in logics if isinstance(logic, CountsLateRows)]
        shared: dict[Any, Any] = {}
        for instance in self.instances.values():
            instance.share_with(shared)
        if plan.memory is not None:
            budget = MemoryBudget(plan.memory, plan.name)
            for instance in self.instances.values():
                within(budget, instance.logic)
        self._readers: dict[Location, tuple[Instance, int]] = {
            state.location: (instance, port)
            for instance in self._acting
            for port, state in enumerate(instance.inputs)
        }
        self._active: deque[OperatorIndex] = deque()
        self._is_active: set[OperatorIndex] = set()
        self._received_progress = False
        # Whoever drives the worker may want to hear of its progress more often.
        self.silent_activations_max = SILENT_ACTIVATIONS_MAX
        self._silent_activations = 0
        for instance in self.instances.values():
            if isinstance(instance.logic, Collect):
                instance.logic.deliver = deliver
            if log is not None:
                instance.authority.on_asked = partial(self._log_asked, log, instance.index)
                instance.on_notified = partial(self._log_notified, log, instance.index)
        self.inputs: dict[str, InputHandle] = {}
        self.messages_in = 0
        """The number of messages from rows that were sent into the inputs."""
        self._rounds: dict[int, int] = {}
        self.tails: OwnTails | None = None
        """The outputs as this worker knows them by itself, for their delivery."""
        self._are_own = False
        self.is_resting = False
        """Whether the last step has left nothing to do until something arrives, though it did something."""
        if has_tails:
            # Along a tree others wait for what is only passed on here.
            may_hold = self.view.accumulating is None
            self.tails = OwnTails(
                self.graph, self._routes, self.instances, self.view.tracker, may_hold=may_hold
            )
        self._snapshots: Snapshots | None = None
        if on_snapshot is not None:
            self._snapshots = Snapshots(
                self.instances,
                on_snapshot,
                epoch=-1 if restored is None else restored.epoch,
                on_taken=None if log is None else self._log_snapshot,
            )
        self._start(restored)

    # Driving it.

    def kept(self) -> dict[str, KeptRows]:
        """Return the state sizes by operator and name; called between two steps."""
        return {
            f"{instance.name}: {what}": kept
            for instance in self.instances.values()
            for what, kept in kept_by(instance.logic).items()
        }

    def largest_keys(self, most: int) -> dict[str, list[KeyRows]]:
        """The largest keys of what its operators keep, by the names of ``kept``; asked between two steps."""
        return {
            f"{instance.name}: {what}": keys
            for instance in self.instances.values()
            for what, keys in largest_keys_by(instance.logic, most).items()
        }

    def take_rounds(self, through: int) -> dict[int, int]:
        """Return and free the last round of a loop by epoch, up to an epoch.

        Only a worker that takes snapshots counts them: without a reader they would grow.
        """
        taken = {epoch: last for epoch, last in self._rounds.items() if epoch <= through}
        self._rounds = {epoch: last for epoch, last in self._rounds.items() if epoch > through}
        return taken

    def event_times(self) -> dict[str, int]:
        """The greatest event times of streams with a promise, by operator; asked between two steps."""
        latest = [(name, logic.event_time_latest) for name, logic in self._event_timed]
        return {name: at for name, at in latest if at is not None}

    def late_rows(self) -> dict[str, int]:
        """The number of late rows by operator, as of its last snapshot."""
        return {name: logic.rows_late for name, logic in self._counting_late}

    def step(self) -> bool:
        """Do one thing; False where there is nothing to do until something arrives."""
        if self._time_zone is None:
            return self._step()
        token = enter_time_zone(self._time_zone)
        try:
            return self._step()
        finally:
            leave_time_zone(token)

    def _step(self) -> bool:
        messages = self._transport.receive()
        if messages:
            self._take_in(messages)
        silent_max = 1 if self._is_root and self.view.has_relay() else self.silent_activations_max
        self.is_resting = False
        if self._active and self._silent_activations < silent_max:
            self._silent_activations += 1
            self._activate(self.instances[self._next_active()])
            return True
        self._silent_activations = 0
        exchanged = self._exchange_progress()
        if self._snapshots is not None:
            for instance in self._snapshots.look(self.view.tracker.frontier, self._is_active):
                self._wake(instance.index)
        elif self.tails is not None and exchanged and not self._active and self.view.accumulating is None:
            self.is_resting = not self._record_stray_changes()
        return exchanged or bool(messages) or bool(self._active) or self._record_stray_changes()

    def open_to(self, epoch: int | None) -> None:
        """Let epochs in, up to this one; None lets all in. Only for a worker that takes snapshots."""
        assert self._snapshots is not None, "this worker takes no snapshots"
        for instance in self._snapshots.open_to(epoch):
            self._wake(instance.index)

    def save(self, *, is_whole: bool) -> None:
        """Snapshot the last epoch that was let in, once nothing of it can come any more."""
        assert self._snapshots is not None, "this worker takes no snapshots"
        self._snapshots.save(is_whole=is_whole)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can happen any more, on any worker, as far as this one knows."""
        # Progress that came and was not propagated yet may still complete a time that somebody waits for.
        return not self._active and not self._received_progress and self.view.tracker.is_complete()

    @property
    def is_holding(self) -> bool:
        """Whether it keeps progress to itself that no other worker waits for."""
        return self.tails is not None and self.tails.is_holding

    def send_own(self, name: str, rows: pa.RecordBatch) -> None:
        """Send rows into an input that are this worker's by the key that all its readers exchange it by."""
        self._are_own = True
        try:
            self.inputs[name].send(rows)
        finally:
            self._are_own = False

    def hold_no_longer(self) -> None:
        """Tell with the next step what was kept, too."""
        if self.tails is not None:
            self.tails.hold_no_longer()

    @property
    def tells_next(self) -> bool:
        """Whether the next step only sends progress, unless a message arrives."""
        return not self._active and self._silent_activations > 0

    def close(self) -> None:
        """End the run and drop all capabilities."""
        for instance in self.instances.values():
            instance.close()

    # Taking in.

    def _take_in(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, ProgressBatch):
                self._receive_progress(message)
            else:
                self._enqueue(message.location, message.time, message.batch)

    def _receive_progress(self, batch: ProgressBatch) -> None:
        if not self.view.receive(batch):
            return
        self._received_progress = True
        if self._log is not None:
            count = self.view.tracker.count
            counts = tuple([Counted(at, time, count(at, time)) for at, time, _ in batch.changes])
            if self.view.accumulating is None:
                self._log.record(ProgressReceived(self.worker, batch.sender, batch.sequence, counts))
            else:
                self._log.record(SumReceived(self.worker, batch.sequence, counts))

    def _enqueue(self, location: Location, time: Time, batch: pa.RecordBatch) -> None:
        instance, port = self._readers[location]
        if instance.put(port, time, batch):
            self._wake(instance.index)

    def _wake(self, index: OperatorIndex) -> None:
        if index not in self._is_active:
            self._is_active.add(index)
            self._active.append(index)

    def _next_active(self) -> OperatorIndex:
        if self._chooser is None:
            # First come, first served: an operator behind a loop that spins must get its turn, too.
            index = self._active.popleft()
        else:
            index = sorted(self._active)[self._chooser.choose(len(self._active))]
            self._active.remove(index)
        self._is_active.discard(index)
        return index

    # Acting.

    def _activate(self, instance: Instance) -> None:
        """Let one operator handle what waits for it, and report all of it as one change."""
        changes: list[Change] = []
        while instance.inbox:
            port, time, batch, count = instance.inbox.pull()
            location = instance.inputs[port].location
            if self._log is not None:
                for _ in range(count):
                    self._log.record(MessagePulled(self.worker, location, time))
            instance.receive(port, time, batch)
            changes.append(Change(location, time, -count))
        instance.notify()
        if instance.frontier_moved:
            instance.frontier_moved = False
            if self._log is not None and instance.on_frontier is not None:
                shown = {
                    state.location: tuple(instance.shown_frontier(state.location))
                    for state in instance.inputs
                }
                self._log.record(FrontiersShown(self.worker, instance.index, shown))
            instance.look_at_frontiers()
        self.finish(instance, changes)

    def finish(self, instance: Instance, changes: list[Change]) -> None:
        """End an activation: send what it sent, and record everything it did as one change."""
        instance.authority.act_for(None, None)
        for number, output in enumerate(instance.outputs):
            if output.sent:
                sent, output.sent = output.sent, []
                for time, batch in sent:
                    instance.rows_out += batch.num_rows
                    self._send(instance, number, output, time, batch, changes)
            if output.lost:
                output.settle()
            if output.changes:
                if self._log is not None:
                    for location, time, diff in output.changes:
                        self._log.record(CapabilityChanged(self.worker, location, time, diff))
                changes.extend(output.changes)
                output.changes.clear()
        if changes:
            self.view.record(changes)
            if self.tails is not None:
                self.tails.record(changes)
            if self._log is not None:
                self._log.record(ActivationEnded(self.worker, instance.index, tuple(changes)))

    def _send(
        self,
        instance: Instance,
        number: int,
        output: OutputState,
        time: Time,
        batch: pa.RecordBatch,
        changes: list[Change],
    ) -> None:
        before = len(changes)
        for route in self._routes[instance.index, number]:
            arrival = route.arrival(time)
            if arrival is None:
                continue
            if self._snapshots is not None and self._snapshots.is_ahead(instance, time, arrival):
                target = place_of(self.instances[route.reader.operator].node)
                sent = time[0] if instance.node.kind is _INPUT else -1
                ahead = SentAhead(number, target, route.reader.port, arrival, batch, sent)
                instance.ahead.append(ahead)
            if route.turn is not None and self._snapshots is not None and route.turn < len(arrival):
                epoch = arrival[0]
                self._rounds[epoch] = max(self._rounds.get(epoch, 0), arrival[route.turn])
            self._send_along(route, output, time, arrival, batch, changes)
        if instance.node.kind is _INPUT:
            self.messages_in += len(changes) - before

    def _send_along(
        self,
        route: Route,
        output: OutputState,
        time: Time,
        arrival: Time,
        batch: pa.RecordBatch,
        changes: list[Change],
    ) -> None:
        for peer, part in self._shared(route, batch):
            changes.append(Change(route.location, arrival, 1))
            if self._log is not None:
                self._log.record(
                    MessageSent(
                        self.worker, output.location, time, route.location, arrival, peer, part.num_rows
                    )
                )
            if peer == self.worker:
                if self.instances[route.operator].put(route.port, arrival, part):
                    self._wake(route.operator)
            else:
                self._transport.send(peer, DataMessage(self.worker, route.location, arrival, part))

    def _shared(self, route: Route, batch: pa.RecordBatch) -> Sequence[tuple[WorkerIndex, pa.RecordBatch]]:
        """The recipient of each part of a batch."""
        if isinstance(route.pact, ExchangeByFunction):
            # On one worker, too: what is wrong with the function is to be known there.
            reader = self.instances[route.reader.operator].node
            who = f"exchange {route.pact} before {reader.kind.value} '{reader.name}'"
            worker = workers_by(route.pact, batch, self.workers, who)
            parts = split(batch, worker, self.workers)
            return [(WorkerIndex(peer), part) for peer, part in enumerate(parts) if part is not None]
        if self.workers == 1 or self._are_own or isinstance(route.pact, StayHere):
            return ((self.worker, batch),)
        if isinstance(route.pact, ExchangeBy):
            parts = partition(batch, route.pact.keys, self.workers)
            return [(WorkerIndex(peer), part) for peer, part in enumerate(parts) if part is not None]
        return [(WorkerIndex(peer), batch) for peer in range(self.workers)]

    # Progress.

    def _exchange_progress(self) -> bool:
        """Send what has gathered, draw conclusions from what has come; False where there is neither."""
        outgoing = () if self.tails is not None and self.tails.keeps() else self.view.flush()
        if outgoing and self._log is not None and self.view.accumulating is None:
            self._log_told(outgoing[0][1])
        # To the others first: they wake up meanwhile.
        for peer, batch in outgoing:
            if peer != self.worker:
                self._transport.send(peer, batch)
        for peer, batch in outgoing:
            if peer == self.worker:
                self._receive_progress(batch)
        if not self._received_progress:
            return bool(outgoing)
        self._received_progress = False
        moved = self.view.propagate()
        if moved and self.tails is not None:
            self.tails.is_fresh = True
        if self._log is not None:
            self._log.record(FrontiersMoved(self.worker, self._frontiers(moved)))
        for location in moved:
            reader = self._readers.get(location)
            if reader is not None and reader[0].can_act():
                reader[0].frontier_moved = True
                self._wake(reader[0].index)
        return True

    def _record_stray_changes(self) -> bool:
        """Record capabilities that came or went outside of an activation, as when one is collected."""
        stray = [
            each for each in self._acting if any(output.changes or output.lost for output in each.outputs)
        ]
        for instance in stray:
            self.finish(instance, [])
        return bool(stray)

    def _start(self, restored: Restored | None) -> None:
        """Hold the first capability of every output, let operators start, and give up what none kept.

        What a restored operator holds, and what had been sent ahead, comes in place of the first capability
        in one change: no reader can see progress in between.
        """
        if self._log is not None:
            self._log.record(WorkerStarted(self.worker, self.workers))
            everywhere = map(Location, range(len(self.graph.ports)))
            self._log.record(FrontiersMoved(self.worker, self._frontiers(everywhere)))
        for node in self.plan.nodes:
            # What runs inside of another operator has no output that could hold anything.
            least = [
                Change(
                    self.graph.location(SourcePort(node.index, o)),
                    self.graph.operators[node.index].outputs[o].minimum(),
                    -1,
                )
                for o in range(len(node.outputs))
                if node.index not in self._chains.runs_at
            ]
            if node.kind.is_door:
                self.view.record(least)
                self._log_start(node.index, least)
                continue
            instance = self.instances[node.index]
            if node.kind is NodeKind.INPUT:
                self.inputs[node.name] = InputHandle(
                    instance, self.finish, at=None if restored is None else restored.epoch + 1
                )
                if restored is not None:
                    self._send_ahead(instance, restored, least)
            elif restored is None:
                instance.start(instance.inputs[0].domain.minimum())
            else:
                self._restore(instance, restored, least)
            self._log_capabilities(least[: len(node.outputs)])
            self.finish(instance, least)

    def _restore(self, instance: Instance, restored: Restored, changes: list[Change]) -> None:
        saved = restored.instances.get(place_of(instance.node), RestoredInstance())
        assert self._snapshots is not None, "a restored worker takes snapshots"
        self._snapshots.restore(instance, saved, restored.epoch)
        self._send_ahead(instance, restored, changes)

    def _send_ahead(self, instance: Instance, restored: Restored, changes: list[Change]) -> None:
        """Send again what had been sent for epochs beyond the snapshot; an input, too, may send so far."""
        saved = restored.instances.get(place_of(instance.node), RestoredInstance())
        instance.ahead = list(saved.ahead)
        for ahead in saved.ahead:
            routes = [
                each
                for each in self._routes.get((instance.index, ahead.output), ())
                if each.reader.port == ahead.port
                and place_of(self.instances[each.reader.operator].node) == ahead.target
            ]
            if not routes:
                raise RecoveryError(
                    f"operator '{instance.name}' had sent rows for epoch {ahead.time[0]} to "
                    f"{ahead.target} when it was saved, but is no longer connected to it. Connect the two "
                    "again."
                )
            route, output = routes[0], instance.outputs[ahead.output]
            reader = self.instances[route.reader.operator].node
            if (
                not saved.must_regain
                and isinstance(route.pact, StayHere)
                and self._keeps_state(route.reader.operator)
            ):
                raise RecoveryError(
                    f"operator '{instance.name}' had sent rows for epoch {ahead.time[0]} to "
                    f"{reader.kind.value} {reader.name} without an exchange, and a different number of "
                    "workers saved them, so their owner is unknown. Start with as many workers as before, or "
                    "add an exchange between the two."
                )
            # It is sent again by the first capability, which is all that the worker holds at this moment.
            self._send_along(route, output, output.domain.minimum(), ahead.time, ahead.batch, changes)

    def _keeps_state(self, index: OperatorIndex) -> bool:
        return self._snapshots is not None and self._snapshots.keeps_state(index)

    def _frontiers(self, locations: Iterable[Location]) -> dict[Location, tuple[Time, ...]]:
        return {at: tuple(self.view.tracker.frontier(at)) for at in locations}

    def _log_told(self, batch: ProgressBatch) -> None:
        if self._log is not None:
            self._log.record(ProgressSent(self.worker, batch.sequence, batch.changes))

    def _log_summed(self, sequence: int, batches: Parts, sums: Parts) -> None:
        if self._log is not None:
            self._log.record(ProgressSummed(self.worker, sequence, batches, sums))

    def _log_snapshot(self, index: OperatorIndex, epoch: int) -> None:
        if self._log is not None:
            self._log.record(SnapshotTaken(self.worker, index, epoch))

    def _log_asked(self, log: EventLog, index: OperatorIndex, time: Time) -> None:
        log.record(NotificationAsked(self.worker, index, time))

    def _log_notified(self, log: EventLog, index: OperatorIndex, time: Time) -> None:
        log.record(Notified(self.worker, index, time))

    def _log_start(self, index: OperatorIndex, least: list[Change]) -> None:
        if self._log is not None:
            self._log_capabilities(least)
            self._log.record(ActivationEnded(self.worker, index, tuple(least)))

    def _log_capabilities(self, least: list[Change]) -> None:
        if self._log is not None:
            for location, time, diff in least:
                self._log.record(CapabilityChanged(self.worker, location, time, diff))

    def input(self, name: str) -> InputHandle:
        """The handle of an input by name."""
        handle = self.inputs.get(name)
        if handle is None:
            known = ", ".join(f"'{each}'" for each in self.inputs) or "none"
            raise FlowError(f"flow '{self.plan.name}' has no input '{name}'; it has {known}.")
        return handle
