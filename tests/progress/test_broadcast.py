"""The broadcast of progress, and with the tracker the whole protocol, under random interleavings.

Families:
- hand cases of the state machine: self included, atomic, gapless, a gap and a repetition named;
- the protocol machine: 1 to 5 workers on a random graph with nested loops do random legal things, while a
  ledger beside them keeps the truth (which pointstamps really exist). At every step every worker's view is
  safe (SafeCombined: nothing that exists could arrive below a frontier that a worker has seen) and never
  goes back; when everything has been delivered every view is exact. The ledger shares no code with the
  protocol: implied frontiers are walked from scratch.
"""

import random
from collections import Counter, deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pointstamp.errors import ProgressError
from pointstamp.order.multiset import SignedMultiset
from pointstamp.progress.accumulating import BroadcastTree
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.direct import DirectBroadcast
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.view import ProgressView
from pointstamp.topology.ports import Location, SourcePort
from support.nets import Net, Time, below, nets

AT = Location(0)


def worker(number: int = 0, workers: int = 2) -> DirectBroadcast:
    return DirectBroadcast(WorkerIndex(number), workers)


def test_a_batch_goes_to_everybody_the_sender_included() -> None:
    broadcast = worker(1, workers=3)
    broadcast.record([Change(AT, (0,), 1)])
    sent = broadcast.flush()
    assert [peer for peer, _ in sent] == [0, 1, 2]
    assert {batch for _, batch in sent} == {ProgressBatch(WorkerIndex(1), 0, (Change(AT, (0,), 1),))}


def test_what_activations_changed_is_sent_whole_and_what_cancels_out_is_not_sent() -> None:
    broadcast = worker()
    broadcast.record([Change(AT, (0,), -1), Change(AT, (1,), 1)])
    broadcast.record([Change(AT, (1,), -1), Change(AT, (2,), 1)])
    assert not broadcast.is_idle
    [(_, batch), _] = broadcast.flush()
    assert SignedMultiset(((c.location, c.time), c.diff) for c in batch.changes) == SignedMultiset(
        {(AT, (0,)): -1, (AT, (2,)): 1}
    )
    assert broadcast.flush() == ()
    broadcast.record([Change(AT, (5,), 1), Change(AT, (5,), -1)])
    assert broadcast.flush() == ()


def test_a_gap_names_the_peer_and_both_numbers() -> None:
    receiver = worker()
    receiver.receive(ProgressBatch(WorkerIndex(1), 0, ()))
    with pytest.raises(ProgressError, match=r"batch 2 from worker 1, but expected batch 1: a batch was lost"):
        receiver.receive(ProgressBatch(WorkerIndex(1), 2, ()))


def test_a_repetition_names_the_peer_and_both_numbers() -> None:
    receiver = worker()
    receiver.receive(ProgressBatch(WorkerIndex(1), 0, ()))
    with pytest.raises(
        ProgressError, match=r"batch 0 from worker 1, but expected batch 1: .* delivered twice"
    ):
        receiver.receive(ProgressBatch(WorkerIndex(1), 0, ()))


def test_a_refused_batch_changes_nothing() -> None:
    receiver = worker()
    with pytest.raises(ProgressError, match="expected batch 0: a batch was lost"):
        receiver.receive(ProgressBatch(WorkerIndex(1), 4, ()))
    assert receiver.receive(ProgressBatch(WorkerIndex(1), 0, (Change(AT, (0,), 1),))) == (
        Change(AT, (0,), 1),
    )


def test_strangers_are_refused() -> None:
    with pytest.raises(ProgressError, match="worker 7, but the run has 2 workers"):
        worker().receive(ProgressBatch(WorkerIndex(7), 0, ()))
    with pytest.raises(ProgressError, match="worker must be a number from 0 to 1, got 2"):
        worker(2)


class ProtocolMachine(RuleBasedStateMachine):
    """Workers that do random legal things, and the truth beside them."""

    @initialize(net=nets(), workers=st.integers(1, 5))
    def start(self, net: Net, workers: int) -> None:
        self.net = net
        self.workers = workers
        self.views = [ProgressView(net.graph, WorkerIndex(w), workers) for w in range(workers)]
        least = {number: (0,) * (1 + net.rounds[number]) for number in net.outputs}
        self.capabilities: list[Counter[tuple[int, Time]]] = [
            Counter((number, time) for number, time in least.items()) for _ in range(workers)
        ]
        self.messages: list[Counter[tuple[int, Time]]] = [Counter() for _ in range(workers)]
        self.queues: dict[tuple[int, int], deque[ProgressBatch]] = {
            (a, b): deque() for a in range(workers) for b in range(workers)
        }
        self.seen: list[list[set[Time]]] = [self.frontiers(view) for view in self.views]

    def frontiers(self, view: ProgressView) -> list[set[Time]]:
        return [set(view.tracker.frontier(Location(number))) for number in range(len(self.net.rounds))]

    def exists(self) -> list[tuple[int, Time]]:
        return [point for counts in (*self.capabilities, *self.messages) for point in counts.elements()]

    @rule(data=st.data(), rng=st.randoms(use_true_random=False))
    def activate(self, data: st.DataObject, rng: random.Random) -> None:
        """One activation: take a message or a capability, keep and send what that allows, report it whole."""
        me = data.draw(st.integers(0, self.workers - 1))
        taken, changes = self.take(me, rng)
        if taken is None:
            return
        for _ in range(rng.randint(0, 2)):
            self.make(me, taken, rng, changes)
        self.views[me].record(changes)

    def take(self, me: int, rng: random.Random) -> tuple[tuple[int, Time] | None, list[Change]]:
        held = sorted(self.capabilities[me].elements())
        arrived = sorted(self.messages[me].elements())
        if arrived and (not held or rng.random() < 0.6):
            point = rng.choice(arrived)
            self.messages[me] -= Counter([point])
        elif held:
            point = rng.choice(held)
            if rng.random() < 0.2:
                return point, []  # used, and kept
            self.capabilities[me] -= Counter([point])
        else:
            return None, []
        return point, [Change(Location(point[0]), point[1], -1)]

    def make(self, me: int, taken: tuple[int, Time], rng: random.Random, changes: list[Change]) -> None:
        """Mint a capability or send a message, one or two hops on from what was taken."""
        where, time = taken
        if not isinstance(self.net.graph.ports[where], SourcePort):
            onward = [(target, move) for origin, target, move in self.net.edges if origin == where]
            if not onward:
                return
            where, move = rng.choice(onward)
            time = move(time)
        time = tuple(part + (rng.random() < 0.2) for part in time)
        if rng.random() < 0.5:
            self.capabilities[me][where, time] += 1
            changes.append(Change(Location(where), time, 1))
            return
        for origin, target, _ in self.net.edges:
            if origin == where:  # a message goes to every input that the output feeds
                self.messages[rng.randrange(self.workers)][target, time] += 1
                changes.append(Change(Location(target), time, 1))

    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        me = data.draw(st.integers(0, self.workers - 1))
        for peer, batch in self.views[me].flush():
            self.queues[me, peer].append(batch)

    @precondition(lambda self: any(self.queues.values()))
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        pair = data.draw(st.sampled_from(sorted(pair for pair, queue in self.queues.items() if queue)))
        self.views[pair[1]].receive(self.queues[pair].popleft())

    @rule(data=st.data())
    def propagate(self, data: st.DataObject) -> None:
        self.look(data.draw(st.integers(0, self.workers - 1)))

    def look(self, me: int) -> None:
        self.views[me].propagate()
        self.views[me].tracker.expect_consistent()
        now = self.frontiers(self.views[me])
        for number, (before, after) in enumerate(zip(self.seen[me], now, strict=True)):
            for time in after:
                assert any(below(old, time) for old in before), (number, before, after)
        self.seen[me] = now

    @invariant()
    def nothing_that_exists_could_arrive_below_a_frontier_that_was_seen(self) -> None:
        if not hasattr(self, "net"):
            return
        implied = self.net.implied_frontiers(self.exists())
        for seen in self.seen:
            for frontier, arriving in zip(seen, implied, strict=True):
                for time in arriving:
                    assert any(below(lower, time) for lower in frontier)

    @rule()
    def settle(self) -> None:
        """Deliver everything: then every view is exact."""
        for me, view in enumerate(self.views):
            for peer, batch in view.flush():
                self.queues[me, peer].append(batch)
        for (_, receiver), queue in self.queues.items():
            while queue:
                self.views[receiver].receive(queue.popleft())
        implied = self.net.implied_frontiers(self.exists())
        for me in range(self.workers):
            self.look(me)
            assert self.seen[me] == implied


class TreeMachine(ProtocolMachine):
    """The same along a tree: what moves no frontier may be held back, so only frontiers are exact."""

    @initialize(net=nets(), workers=st.integers(2, 6), data=st.data())
    def start(self, net: Net, workers: int, data: st.DataObject) -> None:
        super().start(net, workers)
        tree = BroadcastTree(data.draw(st.lists(st.integers(0, 2), min_size=workers, max_size=workers)))
        self.views = [ProgressView(net.graph, WorkerIndex(w), workers, tree=tree) for w in range(workers)]

    @rule()
    def settle(self) -> None:
        """Deliver and conclude until nobody has anything to send: then every frontier is exact."""
        is_moving = True
        while is_moving:
            is_moving = False
            for me, view in enumerate(self.views):
                for peer, batch in view.flush():
                    is_moving = True
                    self.queues[me, peer].append(batch)
            for (_, receiver), queue in self.queues.items():
                while queue:
                    is_moving = True
                    self.views[receiver].receive(queue.popleft())
            for me in range(self.workers):
                self.look(me)
        implied = self.net.implied_frontiers(self.exists())
        assert self.seen == [implied] * self.workers


def test_every_view_along_a_tree_is_safe_at_every_step_and_exact_when_nobody_sends() -> None:
    run_state_machine_as_test(TreeMachine, settings=settings(stateful_step_count=40, max_examples=25))


@pytest.mark.long
def test_every_view_along_a_tree_is_safe_in_long_runs() -> None:
    run_state_machine_as_test(TreeMachine, settings=settings(stateful_step_count=120, max_examples=1_500))


def test_every_view_is_safe_at_every_step_and_exact_when_all_is_delivered() -> None:
    run_state_machine_as_test(ProtocolMachine, settings=settings(stateful_step_count=40, max_examples=60))


@pytest.mark.long
def test_every_view_is_safe_in_long_runs() -> None:
    run_state_machine_as_test(ProtocolMachine, settings=settings(stateful_step_count=120, max_examples=1_500))
