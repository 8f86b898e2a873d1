"""Chains in simulated worlds: schedules, crashes and numbers of workers change no result.

Families, and what only each can find:
- plain worlds: a batch that is counted where it does not arrive, under delays and schedules by chance;
- crashes: rows that were sent ahead into a chain, and state behind one;
- generations of different sizes, some with chains and some without: a place of a snapshot that chains moved;
- chains of an optimized plan: columns and conditions that were moved and fused in front of functions;
- operators that do more than to pass batches on, though they say that they may run in a chain: one that looks
  at frontiers or asks for times, and one that sends after its call.
A chain that continues over an exchange must be found, and so must one with such an operator inside.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.driver.local_run import LocalRun
from pointstamp.errors import CapabilityError
from pointstamp.flow import plan as chains
from pointstamp.flow.plan import Plan
from pointstamp.operators.interface import (
    DeclaresState,
    IsNotified,
    IsRestored,
    Restores,
    RunsInChain,
    Saves,
    Starts,
    WatchesFrontiers,
)
from pointstamp.operators.spec import spec_of
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, first_difference, simulate
from pointstamp.simulate.world import Ended, World
from pointstamp.topology.domain import Time
from pointstamp.verify.conformance import Status, judge
from pointstamp.verify.plan_shape import walker_of
from pointstamp.worker import instance
from pointstamp.worker.instance import Instance
from support.broken_recovery import Rescaled, simulator_of
from support.worlds import SCHEMA, Seen, Steps, Waits, Watches, some_rows

NUMBERS = "k long, v long"


def chained() -> ps.Dataflow:
    """Chains before an exchange, behind one and before state, and one into which rows are sent ahead."""
    flow = ps.Dataflow("chained", optimize=False)
    numbers, late = flow.stream_input("numbers", NUMBERS), flow.stream_input("late", NUMBERS)
    some = numbers.with_columns(v=ps.col("v") + 1).named("a").filter(ps.col("v") % 4 != 0).named("b")
    ahead = late.select("k", "v").named("c").delay(1).exchange("k")
    seen = ps.operator(
        "seen",
        Seen(),
        numbers=some.exchange("k").select("k", "v").named("d").select("k", "v").named("e"),
        late=ahead.filter(ps.col("v") % 3 != 0).named("f").select("k", "v").named("g"),
    )
    flow.output("out", seen.filter(ps.col("n") > 1).named("h").select("k", "n").named("i"))
    return flow


def looping() -> ps.Dataflow:
    flow = ps.Dataflow("looping", optimize=False)
    rows = flow.stream_input("rows", SCHEMA).select("key", "n").named("a")
    with rows.loop("down") as loop:
        again = loop.variable(SCHEMA)
        both = loop.enter(rows).select("key", "n").named("b").union(again.filter(ps.col("n") > 0).named("c"))
        steps = ps.operator("steps", Steps(), rows=both.exchange("key").select("key", "n").named("d"))
        loop.feedback(again, steps.select("key", "n").named("e"))
        flow.output("down", loop.leave(steps.select("key", "n").named("f")).select("key", "n").named("g"))
    return flow


def optimized() -> ps.Dataflow:
    """Chains that the optimizer leaves: functions between expressions, and joined tables."""
    flow = ps.Dataflow("optimized")
    numbers, late = flow.stream_input("numbers", NUMBERS), flow.stream_input("late", NUMBERS)
    some = numbers.with_columns(w=ps.col("v") + 1).map_batches(_turned, "k long, v long, w long")
    kept = some.filter(_is_odd).filter(ps.col("w") != 4).select("k", v=ps.col("w") * 2)
    ahead = late.map_batches(_same).select("k", "v").delay(1).exchange("k").map_batches(_same)
    flow.output("all", kept.union(ahead).filter(ps.col("v") > 2).map_batches(_same))
    sums = kept.to_table().group_by("k").agg(v=ps.sum("v"), n=ps.count())
    flow.output("sums", sums.filter(ps.col("n") > 1).map_batches(_same).select("k", "v"))
    both = sums.join(ahead.to_table().select("k", m=ps.col("v")), "k")
    flow.output("both", both.filter(ps.col("m") > 1).map_batches(_same).filter(ps.col("k") != 1))
    return flow


def optimized_loop() -> ps.Dataflow:
    """The same in a loop."""
    flow = ps.Dataflow("optimized loop")
    rows = flow.stream_input("rows", SCHEMA).select("key", n=ps.col("n")).map_batches(_same)
    with rows.loop("down") as loop:
        again = loop.variable(SCHEMA)
        both = loop.enter(rows).map_batches(_same).union(again.filter(ps.col("n") > 0).map_batches(_same))
        steps = ps.operator("steps", Steps(), rows=both.exchange("key").map_batches(_same).select("key", "n"))
        loop.feedback(again, steps.map_batches(_same).select("key", "n"))
        flow.output("down", loop.leave(steps.map_batches(_same)).filter(ps.col("n") >= 0))
    return flow


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _turned(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.set_column(1, "v", pc.negate(batch.column(1)))


def _is_odd(batch: pa.RecordBatch) -> pa.Array:
    return pc.equal(pc.bit_wise_and(batch.column(1), 1), 1)


class Alternating(Rescaled):
    """A world in which each generation has its number of workers, and chains or none."""

    def _take_over(self) -> None:
        plan = self.spec.plan
        has_chains = bool(self.choices.choose(2))
        other = Plan(plan.name, plan.root, plan.nodes, plan.broadcast, plan.memory, has_chains)
        self.spec = replace(self.spec, plan=other)
        super()._take_over()


def check_generations(seeds: range, flow: ps.Dataflow) -> set[int]:
    """The first world of generations that publishes something else is an error."""
    simulator = simulator_of(flow)
    simulator.world = Alternating
    sizes = set()
    for case in cases(seeds, 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    return sizes


def test_there_are_chains() -> None:
    assert sorted(chained().plan.chains().before.values()) == [(2,), (6, 7), (8, 9), (11, 12)]
    assert len(looping().plan.chains().before) == 4
    assert [len(flow.plan.chains().before) for flow in (optimized(), optimized_loop())] == [9, 5]


@pytest.mark.parametrize("make", [looping, optimized_loop])
def test_schedules_and_delays_change_no_result(make: Callable[[], ps.Dataflow]) -> None:
    plan = make().plan
    simulator = Simulator(plan, prepared(plan, {"rows": some_rows()}))
    report = simulate(simulator, cases(range(20), 1, 4, (0, 0)))
    assert report.finding is None, report.finding
    assert not report.unknown


@pytest.mark.parametrize("make", [chained, optimized])
def test_crashes_change_no_result(make: Callable[[], ps.Dataflow]) -> None:
    report = simulate(simulator_of(make()), cases(range(10), 1, 4, (0, 4)))
    assert report.finding is None, report.finding
    assert not report.unknown


@pytest.mark.parametrize("make", [chained, optimized])
def test_generations_with_chains_and_without_change_no_result(make: Callable[[], ps.Dataflow]) -> None:
    assert check_generations(range(15), make()) == {1, 2, 3, 4}


def test_a_chain_that_goes_on_over_an_exchange_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "StayHere", object)
    with pytest.raises(AssertionError, match=r"Kind\.DIFFERS"):
        check_generations(range(15), chained())


# Operators that do more than to pass batches on.


class PassesOn(RunsInChain):
    """Sends what comes, and may run in a chain."""

    outputs = SCHEMA

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)


class WatchesInChain(RunsInChain, Watches):
    """Sends a time when it sees that it is complete, and says wrongly that it may run in a chain."""


class WaitsInChain(RunsInChain, Waits):
    """Sends a time when it is notified of it, and says wrongly that it may run in a chain."""


def plan_with(logic: type) -> Plan:
    """A plan in which an operator stands where a chain would take it in."""
    flow = ps.Dataflow("inside", optimize=False)
    rows = (
        flow.stream_input("rows", SCHEMA)
        .select("key", "n")
        .named("before")
        .select("key", "n")
        .named("inside")
    )
    flow.output("out", rows.select("key", "n").named("behind"))
    plan = flow.plan
    nodes = [replace(node, logic=spec_of(logic)) if node.name == "inside" else node for node in plan.nodes]
    return Plan(plan.name, plan.root, nodes, plan.broadcast, plan.memory, plan.has_chains)


def check_inside(logic: type) -> None:
    """The first world that differs from one without chains is an error."""
    plan = plan_with(logic)
    inputs = prepared(plan, {"rows": some_rows()})
    alone = Plan(plan.name, plan.root, plan.nodes, plan.broadcast, plan.memory, has_chains=False)
    expected = World(alone, inputs, workers=1, seed=0).run()
    assert expected.ended is Ended.COMPLETE, expected.reason
    for seed in range(8):
        run = World(plan, inputs, workers=1 + seed % 3, seed=seed).run()
        assert run.ended is Ended.COMPLETE, (seed, run.reason)
        assert first_difference(expected.outputs, run.outputs, None) is None, seed
        assert judge(walker_of(plan), 1 + seed % 3, run.events, at_rest=True).status is Status.VALID, seed


@pytest.mark.parametrize("logic", [PassesOn, WatchesInChain, WaitsInChain])
def test_an_operator_does_the_same_whether_chains_would_take_it_in_or_not(logic: type) -> None:
    check_inside(logic)


NEVER = {
    "on_start": Starts,
    "on_notify": IsNotified,
    "on_frontier": WatchesFrontiers,
    "on_restore": IsRestored,
    "save": Saves,
    "restore": Restores,
    "state": DeclaresState,
}


@pytest.mark.parametrize("name", NEVER)
def test_an_operator_that_does_more_than_to_pass_batches_on_runs_in_no_chain(name: str) -> None:
    def inside(logic: type) -> set[str]:
        plan = plan_with(logic)
        return {plan.nodes[index].name for chain in plan.chains().before.values() for index in chain}

    assert set(NEVER.values()) == set(chains._NEVER)
    assert inside(PassesOn) == {"before", "inside", "behind"}
    more: type = type("More", (PassesOn,), {name: {} if name == "state" else lambda self, *given: None})
    assert inside(more) == {"before", "behind"}


@pytest.mark.parametrize(
    ("forgotten", "logic"), [(WatchesFrontiers, WatchesInChain), (IsNotified, WaitsInChain)]
)
def test_a_chain_with_an_operator_that_waits_for_times_inside_is_found(
    forgotten: type, logic: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "_NEVER", tuple(each for each in chains._NEVER if each is not forgotten))
    with pytest.raises(AssertionError, match=r"Difference.output='out', time=0"):
        check_inside(logic)


LENT: list[ps.ports.Context] = []


class Lends(PassesOn):
    """Lets others have its context, with which it must not be able to send after its call."""

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        LENT[:] = [context]
        context.send(batch)


def check_lent() -> None:
    """That an operator of a chain sends after its call is an error of its own, and nothing comes of it."""
    LENT.clear()
    flow = ps.Dataflow("lends", optimize=False)

    def borrow(batch: pa.RecordBatch) -> pa.RecordBatch:
        LENT[0].send(batch)
        return batch

    rows = (
        flow.stream_input("rows", SCHEMA)
        .select("key", "n")
        .named("lends")
        .select("key", "n")
        .named("between")
    )
    flow.output("out", rows.map_batches(borrow).named("borrows"))
    nodes = [
        replace(node, logic=spec_of(Lends)) if node.name == "lends" else node for node in flow.plan.nodes
    ]
    plan = Plan("lends", flow.plan.root, nodes)
    assert any(nodes[index].name == "lends" for chain in plan.chains().before.values() for index in chain)
    said = "operator 'lends' sent on output 'out' without a message"
    with LocalRun(plan) as run:
        run.input("rows").send([{"key": "a", "n": 1}])
        with pytest.raises(CapabilityError, match=said):
            run.settle()


def test_an_operator_of_a_chain_cannot_send_after_its_call() -> None:
    check_lent()


def test_a_chain_whose_operators_may_send_after_their_calls_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lasting(chain: Sequence[Instance], time: Time, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        batches = [batch]
        for each in chain:
            for one in batches:
                each.receive(0, time, one)
            sent, each.outputs[0].sent = each.outputs[0].sent, []
            batches = [made for _, made in sent]
        return batches

    monkeypatch.setattr(instance, "through", lasting)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_lent()
