"""What progress tracking asks of the channels that carry data: at most once, in any order, and no more.

The timely book says of its safety property that data may arrive in any order, or never, and that an operator
may work on what its worker's progress has not heard of. Production workers run here in worlds whose network
does that to batches of rows, and leaves the batches of progress alone, which must come in order, each once.

Families:
- *overtaken*: batches of rows overtake each other and the progress that tells of them: the results stay;
- *lost*: batches never arrive: what is handed over is right as far as it goes, nothing after the loss is
  taken for complete on any worker, and the run never says that it is complete. Safety asks for no more; that
  it comes to no end is against liveness alone, which is what ``Completes`` is about;
- *doubled*: where a batch arrives twice the promise is broken: this is what must be found, and why a
  Transport delivers each message once (``tests/mesh/test_transport_contract.py``).
"""

from collections.abc import Sequence
from typing import Any

import pytest

from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.simulate.case import prepared
from pointstamp.simulate.network import SimulatedNetwork
from pointstamp.simulate.seeds import first_difference
from pointstamp.simulate.world import Ended, SharedPlan, World, WorldRun
from pointstamp.verify.conformance import Status, Verdict, judge
from pointstamp.verify.plan_shape import walker_of
from pointstamp.worker.events import MessagePulled, MessageSent
from pointstamp.worker.protocols import DataMessage, Message
from support.worlds import busy_flow, inputs_of, nested_flow

FLOWS = {"busy": busy_flow, "nested": nested_flow}
WORKERS = 3
SEEDS = range(12)


class Unreliable(SimulatedNetwork):
    """Loses, doubles or lets overtake batches of rows, by their number as they are received."""

    lost: range = range(0)
    doubled: range = range(0)
    overtakes: bool = False

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - as the network takes it
        super().__init__(*given)
        self.received = 0

    def receive(self, receiver: WorkerIndex) -> Sequence[Message]:
        messages: list[Message] = []
        for message in super().receive(receiver):
            if not isinstance(message, DataMessage):
                messages.append(message)
                continue
            self.received += 1
            if self.received in self.lost:
                continue
            # Before everything that has come with it: other rows, and the progress that tells of them.
            where = self._choices.choose(len(messages) + 1) if self.overtakes else len(messages)
            messages.insert(where, message)
            if self.received in self.doubled:
                messages.append(message)
        return messages


def unreliable(name: str, seed: int, workers: int = WORKERS, **faults: Any) -> tuple[WorldRun, Verdict]:  # noqa: ANN401
    """One world of a flow with these faults, and what the judge says of it."""
    plan = SharedPlan.of(FLOWS[name]().plan)
    world = World(plan, prepared(plan, inputs_of(plan)), workers=workers, seed=seed)
    network = Unreliable(workers, world._clock, world._choices)
    network.delays_max = world._network.delays_max
    for fault, value in faults.items():
        setattr(network, fault, value)
    world._network = network
    run = world.run()
    at_rest = run.ended in (Ended.COMPLETE, Ended.STUCK)
    return run, judge(walker_of(plan), workers, run.events, at_rest=at_rest)


def under_way(run: WorldRun) -> int:
    """How many batches were sent and not taken by anybody."""
    sent = sum(isinstance(event, MessageSent) for event in run.events)
    return sent - sum(isinstance(event, MessagePulled) for event in run.events)


@pytest.mark.parametrize("name", FLOWS)
def test_rows_that_overtake_each_other_and_progress_change_no_result(name: str) -> None:
    expected, _ = unreliable(name, 0, workers=1)
    for seed in SEEDS:
        run, verdict = unreliable(name, seed, overtakes=True)
        assert run.ended is Ended.COMPLETE, (seed, run.reason)
        assert verdict.status is Status.VALID, (seed, verdict)
        assert first_difference(expected.outputs, run.outputs, None) is None, seed


@pytest.mark.parametrize("name", FLOWS)
def test_rows_that_never_arrive_hold_their_times_back_for_ever_and_spoil_nothing_before(name: str) -> None:
    expected, _ = unreliable(name, 0, workers=1)
    handed_over, losing = 0, 0
    for seed in SEEDS:
        run, verdict = unreliable(name, seed, lost=range(5 + seed, 7 + seed))
        if not under_way(run):
            continue  # so many batches did not go from worker to worker
        losing += 1
        assert run.ended is Ended.STUCK, (seed, run.ended, run.reason)
        assert verdict.property == "Completes", (seed, verdict)
        for output, time in run.outputs:
            true = {(output, time): expected.outputs[output, time]}
            got = {(output, time): run.outputs[output, time]}
            assert first_difference(true, got, None) is None, (seed, output, time)
        assert len(run.outputs) < len(expected.outputs), seed
        handed_over += len(run.outputs)
    assert losing > len(SEEDS) // 2
    assert handed_over, "in no world was anything complete before the loss"


@pytest.mark.parametrize("name", FLOWS)
def test_rows_that_arrive_twice_break_the_promise_and_are_found(name: str) -> None:
    found = 0
    for seed in SEEDS:
        run, verdict = unreliable(name, seed, doubled=range(3, 4))
        if under_way(run) < 0 or verdict.status is Status.INVALID or run.ended is Ended.FAILED:
            assert verdict.status is Status.INVALID, (seed, run.ended, verdict)
            found += 1
    assert found > len(SEEDS) // 2
