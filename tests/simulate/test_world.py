"""Simulated worlds are decided by their seed alone, keep what a transport promises, and come to an end.

Families, and what only each can find:
- *the same seed*: in this process, and in fresh processes with other hash seeds: anything that depends on the
  order of sets, on addresses or on the clock;
- *the network* (hypothesis): order within a pair, nothing lost and nothing twice, whatever the delays;
- *the feed* (hypothesis): every row is dealt exactly once, at its epoch;
- *ends*: the four ways in which a run ends;
- *variety*: that seeds really lead to different worlds, so that a pass means something.
"""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.simulate.case import Case, prepared
from pointstamp.simulate.feed import FedItem, deal
from pointstamp.simulate.network import (
    Choices,
    SimulatedClock,
    SimulatedNetwork,
    SimulatedTransport,
    parse_ranges,
    ranges_text,
)
from pointstamp.simulate.seeds import FindingKind, Simulator
from pointstamp.simulate.world import Ended, World
from pointstamp.verify.trace import to_bytes
from pointstamp.worker.events import MessagePulled, ProgressReceived
from pointstamp.worker.protocols import Chooser, Clock, Transport
from support.worlds import SCHEMA, Steps, busy_flow, nested_flow, simulator_of

# The same seed.


def trace_bytes(seed: int, workers: int) -> bytes:
    simulator = simulator_of(busy_flow(), epochs=3)
    return to_bytes(simulator.trace(simulator.run(Case(seed, workers))))


def test_the_same_seed_gives_the_same_trace_byte_for_byte() -> None:
    assert trace_bytes(5, 3) == trace_bytes(5, 3)


def test_another_seed_gives_another_trace() -> None:
    assert len({trace_bytes(seed, 3) for seed in range(5)}) == 5


@pytest.mark.long
def test_fresh_processes_with_other_hash_seeds_give_the_same_traces() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:2]\nfrom simulate.test_world import digest\nprint(digest())\n"
    )
    tests = str(Path(__file__).parent.parent)
    digests = [
        subprocess.run(
            [sys.executable, "-c", program, tests],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for hash_seed in ("1", "271828")
    ]
    assert digests == [f"{digest()}\n"] * 2


def digest() -> str:
    """Of the traces of some worlds of two flows; fresh processes call it too."""
    found = hashlib.sha256()
    for flow in (busy_flow, nested_flow):
        simulator = simulator_of(flow(), epochs=2)
        for seed in range(8):
            found.update(to_bytes(simulator.trace(simulator.run(Case(seed, 1 + seed % 4)))))
    return found.hexdigest()


def test_a_choice_depends_on_its_number_and_not_on_the_answers_before() -> None:
    whole = Choices(3)
    answers = [whole.choose(1000) for _ in range(20)]
    some = Choices(3, frozenset({4, 17}))
    assert [some.choose(1000) for _ in range(20)] == [
        answer if number in (4, 17) else 0 for number, answer in enumerate(answers)
    ]
    assert some.made == [4, 17]


@given(st.frozensets(st.integers(0, 60)))
def test_numbers_survive_being_written_as_ranges(numbers: frozenset[int]) -> None:
    assert frozenset(parse_ranges(ranges_text(numbers))) == numbers


# The network.


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60),
)
def test_messages_of_a_pair_arrive_in_order_and_each_exactly_once(
    seed: int, acts: list[tuple[int, int, bool]]
) -> None:
    choices, clock = Choices(seed), SimulatedClock()
    network = SimulatedNetwork(3, clock, choices)
    network.delays_max = [[choices.choose(9) for _ in range(3)] for _ in range(3)]
    arrived: dict[tuple[int, int], list[int]] = {}
    sent: Counter[tuple[int, int]] = Counter()

    def receive(worker: int) -> None:
        for message in network.receive(WorkerIndex(worker)):
            assert isinstance(message, ProgressBatch)
            arrived.setdefault((message.sender, worker), []).append(message.sequence)

    for sender, receiver, is_send in acts:
        clock.ticks += 1
        if is_send:
            batch = ProgressBatch(WorkerIndex(sender), sent[sender, receiver], ())
            network.send(WorkerIndex(sender), WorkerIndex(receiver), batch)
            sent[sender, receiver] += 1
        else:
            receive(receiver)
    clock.ticks += 100
    for worker in range(3):
        receive(worker)
    assert arrived == {pair: list(range(count)) for pair, count in sent.items()}
    assert network.in_flight == 0


def test_a_message_does_not_arrive_before_its_time_has_come() -> None:
    clock = SimulatedClock()
    network = SimulatedNetwork(2, clock, Choices(0))
    network.delays_max[1][0] = 50
    network.send(WorkerIndex(0), WorkerIndex(1), ProgressBatch(WorkerIndex(0), 0, ()))
    waited = 0
    while not network.receive(WorkerIndex(1)):
        clock.ticks += 1
        waited += 1
    assert 0 < waited <= 50
    assert clock.now_seconds() == pytest.approx(waited / 1000)


def test_the_simulated_ports_are_ports() -> None:
    clock: Clock = SimulatedClock()
    chooser: Chooser = Choices(0)
    transport: Transport = SimulatedTransport(
        SimulatedNetwork(1, SimulatedClock(), Choices(0)), WorkerIndex(0)
    )
    assert (clock.now_seconds(), chooser.choose(1), list(transport.receive())) == (0.0, 0, [])


# The feed.


@given(st.integers(0, 2**32), st.integers(1, 4), st.lists(st.integers(0, 12), max_size=4))
def test_every_row_is_dealt_exactly_once_at_its_epoch(seed: int, workers: int, sizes: list[int]) -> None:
    schema = pa.schema([("n", pa.int64())])
    items = [
        FedItem(pa.RecordBatch.from_pylist([{"n": n} for n in range(size)], schema=schema)) for size in sizes
    ]
    dealt = deal({"rows": items}, workers, Choices(seed))["rows"]
    for epoch, size in enumerate(sizes):
        parts = [part for of_worker in dealt for part in of_worker[epoch]]
        assert all(part.num_rows for part in parts)
        assert sorted(row["n"] for part in parts for row in part.to_pylist()) == list(range(size))


# Ends.


class KeepsForEver:
    outputs = SCHEMA

    def __init__(self) -> None:
        self.kept: list[ps.timely.Capability] = []

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.kept.append(context.retain())


class Fails:
    outputs = SCHEMA

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        raise LookupError("no such thing")


def world_of(logic: ps.ports.DeclaredOperator[str], *, steps_max: int = 1000) -> World:
    flow = ps.Dataflow("one operator")
    flow.output("out", ps.operator("it", logic, rows=flow.stream_input("rows", SCHEMA).exchange("key")))
    inputs = prepared(flow.plan, {"rows": [[{"key": "a", "n": 3}], [{"key": "b", "n": 2}]]})
    return World(flow.plan, inputs, workers=2, seed=1, steps_max=steps_max)


def test_a_run_in_which_all_is_done_is_complete() -> None:
    run = world_of(Steps()).run()
    assert (run.ended, run.reason) == (Ended.COMPLETE, "")
    assert {(name, time) for name, time in run.outputs} == {("out", (0,)), ("out", (1,))}


def test_a_capability_that_is_never_given_up_leaves_the_run_stuck() -> None:
    assert world_of(KeepsForEver()).run().ended is Ended.STUCK


def test_an_operator_that_raises_ends_the_run_with_its_error() -> None:
    run = world_of(Fails()).run()
    assert run.ended is Ended.FAILED
    assert "operator 'it' failed with a batch" in run.reason
    assert isinstance(run.error, ps.errors.PointstampError)


def test_a_run_that_takes_too_long_is_given_up_with_a_reason() -> None:
    run = world_of(Steps(), steps_max=5).run()
    assert (run.ended, run.reason) == (Ended.GIVEN_UP, "it had not come to an end after 5 steps")


# Variety.


def test_where_nothing_is_left_to_chance_every_seed_is_the_same_world() -> None:
    simulator = simulator_of(busy_flow(), epochs=2)
    traces = [simulator.run(Case(seed, 2, choices=frozenset())).run.events for seed in (1, 2)]
    assert traces[0] == traces[1]


def test_worlds_interleave_epochs_and_progress_in_many_ways() -> None:
    simulator = Simulator(busy_flow().plan, simulator_of(busy_flow(), epochs=3).inputs)
    overlaps = late = 0
    for seed in range(20):
        outcome = simulator.run(Case(seed, 3))
        assert outcome.kind is FindingKind.VALID, outcome.reason
        pulled = [event.time for event in outcome.run.events if isinstance(event, MessagePulled)]
        overlaps += any(later[0] < earlier[0] for earlier, later in pairwise(pulled))
        heard = [event for event in outcome.run.events if isinstance(event, ProgressReceived)]
        late += any(
            first.sender == second.sender and first.sequence > second.sequence
            for first, second in pairwise(heard)
        )
    assert overlaps >= 10
    assert late >= 10
