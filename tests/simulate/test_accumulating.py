"""Workers that tell their progress along a tree of roots, in simulated worlds, judged by the same rules.

Families, and what only each can find:
- worlds of flows with loops, doors and overlapping epochs: what is held back too long, or added up wrongly,
  under schedules that nobody thought of; also with crashes, and with another number of workers in each
  generation;
- mutants: that the judge really looks at sums. Each says which property is expected to catch it.
"""

from collections.abc import Callable
from typing import Final

import pytest

import pointstamp as ps
from pointstamp.progress.accumulating import TOP, AccumulatingBroadcast
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.tracker import Tracker
from pointstamp.simulate.case import Case
from pointstamp.simulate.network import SimulatedNetwork
from pointstamp.simulate.seeds import FindingKind, cases, simulate
from pointstamp.simulate.world import Ended
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location
from pointstamp.worker.events import ProgressReceived, ProgressSummed, SumReceived
from pointstamp.worker.protocols import Message
from support.broken_recovery import Rescaled, sound_flows
from support.broken_recovery import simulator_of as crash_simulator_of
from support.worlds import busy_flow, doors_flow, nested_flow, simulator_of, tallies_flow, walking_flow

Patch = pytest.MonkeyPatch
Out = list[tuple[WorkerIndex, ProgressBatch]]


def along_a_tree(flow: ps.Dataflow) -> ps.Dataflow:
    flow.plan.broadcast = "accumulating"
    return flow


# Worlds.


@pytest.mark.parametrize("flow", [busy_flow, doors_flow, nested_flow, tallies_flow, walking_flow])
def test_workers_along_a_tree_do_what_one_worker_does(flow: Callable[[], ps.Dataflow]) -> None:
    report = simulate(simulator_of(along_a_tree(flow()), 2), cases(range(5), 3, 7))
    assert report.finding is None, report.finding.reason
    assert not report.unknown


def test_everything_is_told_by_sums_of_roots() -> None:
    outcome = simulator_of(along_a_tree(busy_flow()), 2).run(Case(3, 7))
    kinds = [type(event) for event in outcome.run.events]
    assert kinds.count(SumReceived) > 0 == kinds.count(ProgressReceived)
    roots = {event.worker for event in outcome.run.events if isinstance(event, ProgressSummed)}
    assert roots == {0, 3, 6}
    sums = [event for event in outcome.run.events if isinstance(event, ProgressSummed)]
    assert any(len(event.batches) + len(event.sums) > 1 for event in sums)


@pytest.mark.parametrize("name", ["running", "carried"])
def test_crashes_and_other_numbers_of_workers_are_survived_along_a_tree(name: str) -> None:
    simulator = crash_simulator_of(along_a_tree(sound_flows()[name]()))
    report = simulate(simulator, cases(range(4), 2, 5, (1, 4)))
    assert report.finding is None, report.finding.reason
    simulator.world = Rescaled
    for case in cases(range(4), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case


@pytest.mark.long
@pytest.mark.parametrize("flow", [busy_flow, doors_flow, nested_flow, tallies_flow, walking_flow])
def test_workers_along_a_tree_do_what_one_worker_does_in_many_worlds(
    flow: Callable[[], ps.Dataflow],
) -> None:
    report = simulate(simulator_of(along_a_tree(flow()), 3), cases(range(400), 2, 9))
    assert report.finding is None, report.finding.reason


# Mutants.


def the_top_sends_minus_before_plus(patch: Patch) -> None:
    send = AccumulatingBroadcast._send_sum

    def split(self: AccumulatingBroadcast, out: Out) -> None:
        if self.worker != TOP:
            send(self, out)
            return
        less = [(point, count) for point, count in self._sum.items() if count < 0]
        more = [(point, count) for point, count in self._sum.items() if count > 0]
        for half in (less, more):
            self._sum.drain()
            self._sum.extend(half)
            send(self, out)

    patch.setattr(AccumulatingBroadcast, "_send_sum", split)


def a_root_forgets_what_it_held(patch: Patch) -> None:
    add = AccumulatingBroadcast._add

    def forgetful(self: AccumulatingBroadcast, batch: ProgressBatch) -> None:
        if self.worker not in (TOP, batch.sender) and batch.sequence == 1:
            self._sum.drain()
        add(self, batch)

    patch.setattr(AccumulatingBroadcast, "_add", forgetful)


def a_root_takes_batches_out_of_order(patch: Patch) -> None:
    send = SimulatedNetwork.send

    def overtake(
        self: SimulatedNetwork, sender: WorkerIndex, receiver: WorkerIndex, message: Message
    ) -> None:
        send(self, sender, receiver, message)
        queue = self._queues[receiver][sender]
        if len(queue) > 1 and sender > receiver:
            queue[-1], queue[-2] = queue[-2], queue[-1]

    patch.setattr(SimulatedNetwork, "send", overtake)
    patch.setattr(AccumulatingBroadcast, "_next", lambda self, batch, expected: batch.sequence + 1)


def a_root_of_a_host_holds_as_the_top_does(patch: Patch) -> None:
    may_hold = AccumulatingBroadcast._may_hold_sum

    def as_top(self: AccumulatingBroadcast) -> bool:
        me, self.worker = self.worker, TOP
        try:
            return may_hold(self)
        finally:
            self.worker = me

    patch.setattr(AccumulatingBroadcast, "_may_hold_sum", as_top)


def a_pointstamp_covers_itself(patch: Patch) -> None:
    def may_come(self: Tracker, location: Location, time: Time) -> bool:
        return any(self.graph.domains[location].less_equal(at, time) for at in self.frontier(location))

    patch.setattr(Tracker, "is_covered", may_come)


def the_top_leaves_members_of_its_host_out(patch: Patch) -> None:
    send = AccumulatingBroadcast._send_sum

    def leave_out(self: AccumulatingBroadcast, out: Out) -> None:
        send(self, out)
        if self.worker == TOP:
            out[:] = [(peer, batch) for peer, batch in out if peer == TOP or peer in self._other_roots]

    patch.setattr(AccumulatingBroadcast, "_send_sum", leave_out)


def a_sum_is_applied_twice_below_a_root(patch: Patch) -> None:
    receive = AccumulatingBroadcast.receive

    def twice(self: AccumulatingBroadcast, batch: ProgressBatch) -> tuple[Change, ...] | None:
        changes = receive(self, batch)
        return changes if changes is None or self.is_root else changes * 2

    patch.setattr(AccumulatingBroadcast, "receive", twice)


def what_was_covered_is_not_looked_at_again(patch: Patch) -> None:
    patch.setattr(AccumulatingBroadcast, "look_again", lambda self: None)


def a_root_keeps_half_of_each_batch_for_the_next_sum(patch: Patch) -> None:
    send = AccumulatingBroadcast._send_sum

    def half(self: AccumulatingBroadcast, out: Out) -> None:
        kept = [(point, count) for point, count in self._sum.items() if count > 0]
        for point, count in kept:
            self._sum.add(point, -count)
        send(self, out)
        self._sum.extend(kept)

    patch.setattr(AccumulatingBroadcast, "_send_sum", half)


MUTANTS: Final[dict[Callable[[Patch], None], str]] = {
    the_top_sends_minus_before_plus: "PtsEqGlob",
    a_root_forgets_what_it_held: "PtsEqGlob",
    a_root_takes_batches_out_of_order: "GaplessSequence",
    a_root_of_a_host_holds_as_the_top_does: "Completes",
    a_pointstamp_covers_itself: "Completes",
    the_top_leaves_members_of_its_host_out: "Completes",
    a_sum_is_applied_twice_below_a_root: "PtsEqGlob",
    what_was_covered_is_not_looked_at_again: "Completes",
    a_root_keeps_half_of_each_batch_for_the_next_sum: "PtsEqGlob",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_tree_is_caught_by(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    report = simulate(simulator_of(along_a_tree(busy_flow()), 3), cases(range(60), 4, 7))
    assert report.finding is not None
    found = report.finding.verdict.property or report.finding.kind.value
    assert found == MUTANTS[mutant], report.finding.reason
