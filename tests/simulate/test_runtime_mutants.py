"""Runtimes that are broken on purpose: each mutant is one switch in the worker, the tracker, the broadcast or
the network, and simulation must find it within 200 seeds.

Families, and what only each can find:
- the mutants: that the judge and the comparison of outputs really look. Each says which property is expected
  to catch it, so that a judge that gets weaker is noticed even while another property catches the mutant;
- the runtime as it is: that the same worlds and flows are valid, so that the mutants are caught for their
  mistake and not for being simulated.
"""

import operator as operators
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrow import row_hashing as dataflow_partition
from pointstamp.flow import outlet
from pointstamp.flow import physical_stream as streams
from pointstamp.flow.builder import PlanBuilder
from pointstamp.flow.outlet import wiring
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.plan import Node
from pointstamp.operators.authority import Authority
from pointstamp.operators.context import Context
from pointstamp.operators.notify import Notifications, Request
from pointstamp.operators.portstate import OutputState
from pointstamp.order.frontier import MutableAntichain
from pointstamp.progress import view
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.direct import DirectBroadcast
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.view import ProgressView, initial_changes
from pointstamp.simulate.network import SimulatedNetwork
from pointstamp.simulate.seeds import FindingKind, cases, simulate
from pointstamp.topology import domain
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location
from pointstamp.topology.summary import Advance, Summary, delay
from pointstamp.worker import routes, worker
from pointstamp.worker.events import ActivationEnded, CapabilityChanged
from pointstamp.worker.instance import Instance
from pointstamp.worker.protocols import DataMessage, Message
from pointstamp.worker.worker import Worker
from support.worlds import (
    busy_flow,
    doors_flow,
    nested_flow,
    simulator_of,
    tallies_flow,
    walking_flow,
    walks_in_walks_flow,
)

SEEDS_MAX: Final = 200
Patch = pytest.MonkeyPatch


# The broadcast.


def half_a_batch_is_sent(patch: Patch) -> None:
    whole = DirectBroadcast.flush

    def flush(self: DirectBroadcast) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        kept = list(self._pending.drain())
        for point, count in kept[: (len(kept) + 1) // 2]:
            self._pending.add(point, count)
        sent = whole(self)
        for point, count in kept[(len(kept) + 1) // 2 :]:
            self._pending.add(point, count)
        return sent

    patch.setattr(DirectBroadcast, "flush", flush)


def the_sender_is_left_out(patch: Patch) -> None:
    whole = DirectBroadcast.flush

    def flush(self: DirectBroadcast) -> Sequence[tuple[WorkerIndex, ProgressBatch]]:
        return [(peer, batch) for peer, batch in whole(self) if peer != self.worker]

    patch.setattr(DirectBroadcast, "flush", flush)


def own_changes_are_applied_at_once_and_again(patch: Patch) -> None:
    record = ProgressView.record

    def record_and_apply(self: ProgressView, changes: Iterable[Change]) -> None:
        changes = tuple(changes)
        record(self, changes)
        self.tracker.update_all(changes)

    patch.setattr(ProgressView, "record", record_and_apply)


def batches_overtake_each_other(patch: Patch) -> None:
    send = SimulatedNetwork.send

    def overtake(
        self: SimulatedNetwork, sender: WorkerIndex, receiver: WorkerIndex, message: Message
    ) -> None:
        send(self, sender, receiver, message)
        queue = self._queues[receiver][sender]
        if len(queue) > 1:
            queue[-1], queue[-2] = queue[-2], queue[-1]

    patch.setattr(SimulatedNetwork, "send", overtake)
    patch.setattr(DirectBroadcast, "receive", lambda self, batch: batch.changes)


def a_batch_is_applied_twice(patch: Patch) -> None:
    receive = DirectBroadcast.receive

    def twice(self: DirectBroadcast, batch: ProgressBatch) -> tuple[Change, ...]:
        return receive(self, batch) * (2 if batch.sender != self.worker else 1)

    patch.setattr(DirectBroadcast, "receive", twice)


# The tracker.


def frontiers_are_read_in_the_middle_of_propagation(patch: Patch) -> None:
    propagate = Tracker.propagate

    def show_the_first_conclusion(self: Tracker) -> list[Location]:
        if not self._readable or len(self._waiting) < 2:
            return propagate(self)
        rest = sorted(self._waiting)
        self._waiting[:] = [rest.pop(0)]
        moved = propagate(self)
        self._waiting.extend(rest)
        return moved

    patch.setattr(Tracker, "propagate", show_the_first_conclusion)


def the_initial_multiplicity_is_1(patch: Patch) -> None:
    def once(graph: OperatorGraph, workers: int) -> list[Change]:
        return initial_changes(graph, 1)

    patch.setattr(view, "initial_changes", once)


def times_are_compared_lexicographically(patch: Patch) -> None:
    patch.setattr(domain, "less_equal_2", operators.le)
    patch.setattr(domain, "less_equal_n", operators.le)


def negative_counts_are_clamped(patch: Patch) -> None:
    update_all = Tracker.update_all

    def clamped(self: Tracker, changes: Iterable[Change]) -> None:
        for change in changes:
            known = self._occurrences[change.location].counts.get(change.time, 0)
            update_all(self, (change._replace(diff=max(change.diff, -max(known, 0))),))

    patch.setattr(Tracker, "update_all", clamped)


def a_delay_is_forgotten_on_its_edge(patch: Patch) -> None:
    results_in = Summary.results_in

    def stay(self: Summary, time: Time) -> Time | None:
        return time if isinstance(self.root, Advance) else results_in(self, time)

    patch.setattr("pointstamp.progress.tracker._move", lambda summary, at: lambda time: stay(summary, time))


def a_frontier_that_lost_an_element_stays(patch: Patch) -> None:
    update = MutableAntichain.update

    def only_joins(self: MutableAntichain, element: Time, change: int) -> Sequence[tuple[Time, int]]:
        moved = update(self, element, change)
        return moved if len(moved) < 2 else [each for each in moved if each[1] > 0]

    patch.setattr(MutableAntichain, "update", only_joins)


# The worker.


def a_capability_is_released_before_its_batch_is_counted(patch: Patch) -> None:
    finish = Worker.finish

    def release_first(self: Worker, instance: Instance, changes: list[Change]) -> None:
        released = [change for output in instance.outputs for change in output.changes]
        for output in instance.outputs:
            output.changes.clear()
        if changes or released:
            self.view.record([*changes, *released])
            if self._log is not None:
                for location, time, diff in released:
                    self._log.record(CapabilityChanged(self.worker, location, time, diff))
                self._log.record(ActivationEnded(self.worker, instance.index, (*changes, *released)))
            self._exchange_progress()
        finish(self, instance, [])

    patch.setattr(Worker, "finish", release_first)


def messages_are_counted_by_their_rows(patch: Patch) -> None:
    send = Worker._send

    def count_rows(
        self: Worker,
        instance: Instance,
        number: int,
        output: OutputState,
        time: Time,
        batch: pa.RecordBatch,
        changes: list[Change],
    ) -> None:
        before = len(changes)
        send(self, instance, number, output, time, batch, changes)
        changes[before:] = [change._replace(diff=batch.num_rows) for change in changes[before:]]

    patch.setattr(Worker, "_send", count_rows)


def what_was_consumed_is_not_reported(patch: Patch) -> None:
    finish = Worker.finish

    def forget(self: Worker, instance: Instance, changes: list[Change]) -> None:
        if instance.name == "steps":
            changes = [change for change in changes if self._readers.get(change.location) is None]
        finish(self, instance, changes)

    patch.setattr(Worker, "finish", forget)


def a_watched_frontier_wakes_nobody(patch: Patch) -> None:
    patch.setattr(Instance, "can_act", lambda self: False)


def rows_go_to_a_worker_of_the_senders_choice(patch: Patch) -> None:
    partition = dataflow_partition.partition
    turn = [0]

    def rotated(batch: pa.RecordBatch, keys: Sequence[str], workers: int) -> list[Any]:
        turn[0] += 1
        parts = list(partition(batch, keys, workers))
        return parts[turn[0] % workers :] + parts[: turn[0] % workers]

    patch.setattr(worker, "partition", rotated)


# The plan.


def a_delay_is_made_an_epoch_too_long(patch: Patch) -> None:
    patch.setattr(streams, "delay", lambda epochs, rounds: delay(epochs + 1, rounds))


def a_loop_is_entered_in_its_second_round(patch: Patch) -> None:
    patch.setattr(streams, "enter", lambda rounds: Summary((0,) * rounds, (1,)))


# Notifications and capabilities.


def a_notification_comes_one_early(patch: Patch) -> None:
    def is_notifiable(self: Authority, time: Time) -> bool:
        return not any(
            lower != time and port.domain.less_equal(lower, time)
            for port in self.inputs
            for lower in self.read_frontier(port.location)
        )

    patch.setattr(Authority, "is_notifiable", is_notifiable)


def only_the_first_input_is_asked_whether_a_time_is_complete(patch: Patch) -> None:
    complete = Context.is_complete

    def of_first(self: Context, time: Time, input: int | str | None = None) -> bool:  # noqa: A002
        return complete(self, time, 0)

    def is_notifiable(self: Authority, time: Time) -> bool:
        return not self.may_come(self.inputs[0], time)

    patch.setattr(Context, "is_complete", of_first)
    patch.setattr(Authority, "is_notifiable", is_notifiable)


def notifications_come_latest_first(patch: Patch) -> None:
    ask = Notifications.ask

    def reversed_ask(self: Notifications, sort_key: tuple[int, ...], request: Request) -> None:
        ask(self, tuple(-part for part in sort_key), request)

    patch.setattr(Notifications, "ask", reversed_ask)


def a_time_is_told_that_nobody_asked_for(patch: Patch) -> None:
    serve = Instance.serve

    def tell_more(self: Instance, request: Request) -> None:
        if self.on_notified is not None:
            self.on_notified((*request.time[:-1], request.time[-1] - 1))
        serve(self, request)

    patch.setattr(Instance, "serve", tell_more)


def a_request_is_served_twice(patch: Patch) -> None:
    serve = Instance.serve

    def twice(self: Instance, request: Request) -> None:
        serve(self, request)
        serve(self, Request(request.time, request.port, ()))

    patch.setattr(Instance, "serve", twice)


def requests_are_served_at_another_operator(patch: Patch) -> None:
    """All operators of a worker that have as many loops around them share one list of requests."""
    init = Worker.__init__

    def share(self: Worker, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as the worker takes it
        init(self, *given, **named)
        shared: dict[int, Notifications] = {}
        for instance in self.instances.values():
            if instance._on_notify is not None:
                rounds = instance.inputs[0].domain.rounds
                instance.authority.notifications = shared.setdefault(rounds, instance.authority.notifications)

    patch.setattr(Worker, "__init__", share)


def a_request_is_forgotten(patch: Patch) -> None:
    ask = Notifications.ask

    def forget(self: Notifications, sort_key: object, request: Request) -> None:
        if request.time[0] != 1:
            ask(self, sort_key, request)
            return
        for capability in request.held:
            capability.drop()

    patch.setattr(Notifications, "ask", forget)


def a_request_holds_no_capability(patch: Patch) -> None:
    ask = Notifications.ask

    def without(self: Notifications, sort_key: object, request: Request) -> None:
        for capability in request.held:
            capability.drop()
        ask(self, sort_key, request)

    patch.setattr(Notifications, "ask", without)


def a_downgrade_forgets_the_new_time(patch: Patch) -> None:
    def move(self: OutputState, capability: object, time: Time) -> None:
        right = self.rights[id(capability)]
        self.count(right.time, -1)
        right.time = time

    patch.setattr(OutputState, "move", move)


# The way of the data.


def feedback_stays_in_its_round(patch: Patch) -> None:
    move_of = routes._move_of

    def still(node: Node, graph: OperatorGraph) -> Callable[[Time], Time | None]:
        if node.kind.value == "feedback":
            return lambda time: time if time[-1] < 5 else None
        return move_of(node, graph)

    patch.setattr(routes, "_move_of", still)


def without_exchange(stream: PhysicalStream) -> PhysicalStream:
    at = wiring(stream)
    return PhysicalStream(at.builder, at.source, stream.schema, at.scope)


def an_exchange_before_a_door_is_lost(patch: Patch) -> None:
    def forgetful(*given: Any, **named: Any) -> PhysicalStream:  # noqa: ANN401
        return without_exchange(outlet.add_door(*given, **named))

    patch.setattr(streams, "add_door", forgetful)


def an_exchange_before_a_feedback_is_lost(patch: Patch) -> None:
    def forgetful(variable: Node, stream: PhysicalStream, who: str) -> None:
        outlet.feed(variable, without_exchange(stream), who)

    patch.setattr(streams, "feed", forgetful)


def a_message_arrives_twice(patch: Patch) -> None:
    send = SimulatedNetwork.send

    def twice(self: SimulatedNetwork, sender: WorkerIndex, receiver: WorkerIndex, message: Message) -> None:
        for _ in range(2 if isinstance(message, DataMessage) else 1):
            send(self, sender, receiver, message)

    patch.setattr(SimulatedNetwork, "send", twice)


def a_message_is_lost(patch: Patch) -> None:
    send = SimulatedNetwork.send
    seen = [0]

    def lossy(self: SimulatedNetwork, sender: WorkerIndex, receiver: WorkerIndex, message: Message) -> None:
        seen[0] += isinstance(message, DataMessage)
        if not isinstance(message, DataMessage) or seen[0] % 7:
            send(self, sender, receiver, message)

    patch.setattr(SimulatedNetwork, "send", lossy)


MUTANTS: Final[dict[Callable[[Patch], None], str]] = {
    half_a_batch_is_sent: "TempJustified",
    the_sender_is_left_out: "Completes",
    own_changes_are_applied_at_once_and_again: "PtsEqGlob",
    batches_overtake_each_other: "GaplessSequence",
    a_batch_is_applied_twice: "PtsEqGlob",
    frontiers_are_read_in_the_middle_of_propagation: "Converged",
    the_initial_multiplicity_is_1: "PtsEqGlob",
    times_are_compared_lexicographically: "Converged",
    negative_counts_are_clamped: "PtsEqGlob",
    a_delay_is_forgotten_on_its_edge: "Converged",
    a_frontier_that_lost_an_element_stays: "Converged",
    a_capability_is_released_before_its_batch_is_counted: "DdataAbove",
    messages_are_counted_by_their_rows: "RecordCount",
    what_was_consumed_is_not_reported: "RecordCount",
    a_watched_frontier_wakes_nobody: "Completes",
    rows_go_to_a_worker_of_the_senders_choice: "differs",
    a_delay_is_made_an_epoch_too_long: "Converged",
    a_loop_is_entered_in_its_second_round: "Converged",
    a_notification_comes_one_early: "NotifiedComplete",
    only_the_first_input_is_asked_whether_a_time_is_complete: "differs",
    notifications_come_latest_first: "NotifiedInOrder",
    a_time_is_told_that_nobody_asked_for: "NotifiedWasAsked",
    a_request_is_served_twice: "NotifiedWasAsked",
    requests_are_served_at_another_operator: "NotifiedWasAsked",
    a_request_is_forgotten: "AskedIsServed",
    a_request_holds_no_capability: "DdataAbove",
    a_downgrade_forgets_the_new_time: "DdataAbove",
    feedback_stays_in_its_round: "ArrivesLater",
    an_exchange_before_a_door_is_lost: "differs",
    an_exchange_before_a_feedback_is_lost: "differs",
    a_message_arrives_twice: "RecvCapEnabled",
    a_message_is_lost: "Completes",
}
"""Each mutant, and what is to catch it: a property, or outputs that differ."""

FLOWS: Final[dict[Callable[[Patch], None], tuple[Callable[[], ps.Dataflow], ...]]] = {
    an_exchange_before_a_door_is_lost: (doors_flow,),
    an_exchange_before_a_feedback_is_lost: (doors_flow,),
}
"""The flows in which a mutant shows, where the busy one and the nested one have no such place."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_runtime_is_caught_by(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    caught = None
    for flow in FLOWS.get(mutant, (busy_flow, nested_flow)):
        report = simulate(simulator_of(flow(), epochs=3), cases(range(SEEDS_MAX // 2), 1, 4))
        if report.finding is not None:
            caught = report.finding
            break
    assert caught is not None
    assert (caught.verdict.property or caught.kind.value) == MUTANTS[mutant], caught.reason


# The order in which an operator with state takes its times, which only a flow with such an operator in a loop
# can show, where epochs overlap.


def a_later_epoch_does_not_wait_for_the_rounds_of_an_earlier_one(patch: Patch) -> None:
    patch.setattr(Authority, "is_first", Authority.is_notifiable)


def only_the_least_time_of_an_earlier_epoch_is_waited_for(patch: Patch) -> None:
    def is_first(self: Authority, time: Time) -> bool:
        earlier = [(epoch, *(0,) * (len(time) - 1)) for epoch in range(time[0])]
        return all(map(self.is_notifiable, (*earlier, time)))

    patch.setattr(Authority, "is_first", is_first)


def only_epochs_are_taken_in_order(patch: Patch) -> None:
    def is_first(self: Authority, time: Time) -> bool:
        frontiers = [self.read_frontier(port.location) for port in self.inputs]
        return self.is_notifiable(time) and all(lower[0] >= time[0] for each in frontiers for lower in each)

    patch.setattr(Authority, "is_first", is_first)


def no_operator_says_that_it_takes_its_times_in_order(patch: Patch) -> None:
    add = PlanBuilder.add

    def silent(self: PlanBuilder, *given: Any, in_order: bool = False, **named: Any) -> Node:  # noqa: ANN401
        return add(self, *given, **named)

    patch.setattr(PlanBuilder, "add", silent)


OUT_OF_ORDER: Final = [
    (a_later_epoch_does_not_wait_for_the_rounds_of_an_earlier_one, walking_flow, "TakenInOrder"),
    (only_the_least_time_of_an_earlier_epoch_is_waited_for, walking_flow, "TakenInOrder"),
    (only_epochs_are_taken_in_order, tallies_flow, "TakenInOrder"),
    (no_operator_says_that_it_takes_its_times_in_order, walking_flow, "differs"),
    (no_operator_says_that_it_takes_its_times_in_order, tallies_flow, "differs"),
]


@pytest.mark.parametrize(("mutant", "flow", "by"), OUT_OF_ORDER)
def test_times_that_are_taken_out_of_order_are_caught(
    mutant: Callable[[Patch], None], flow: Callable[[], ps.Dataflow], by: str, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    report = simulate(simulator_of(flow()), cases(range(SEEDS_MAX), 1, 4))
    assert report.finding is not None
    assert (report.finding.verdict.property or report.finding.kind.value) == by, report.finding.reason


@pytest.mark.parametrize(
    "flow",
    [
        *(busy_flow, nested_flow, doors_flow, walking_flow, tallies_flow),
        pytest.param(walks_in_walks_flow, marks=pytest.mark.long),
    ],
)
def test_the_runtime_as_it_is_is_valid_in_the_same_worlds(flow: Callable[[], ps.Dataflow]) -> None:
    report = simulate(simulator_of(flow(), epochs=3), cases(range(40), 1, 4))
    assert report.finding is None, report.finding
    assert not report.unknown
    assert report.worlds == 41


def test_the_mutants_are_caught_by_many_properties_and_by_the_outputs() -> None:
    assert len(MUTANTS) >= 20
    assert len(set(MUTANTS.values())) >= 10
    assert FindingKind.DIFFERS.value in MUTANTS.values()
