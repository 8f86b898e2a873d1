"""Chains in simulated worlds: schedules, crashes and numbers of workers change no result.

Families, and what only each can find:
- plain worlds: a batch that is counted where it does not arrive, under delays and schedules by chance;
- crashes: rows that were sent ahead into a chain, and state behind one;
- generations of different sizes, some with chains and some without: a place of a snapshot that chains moved.
A chain that goes on over an exchange must be found.
"""

from dataclasses import replace

import pytest

import pointstamp as ps
from pointstamp.flow import chains
from pointstamp.flow.plan import Plan
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.seeds import FindingKind, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import Rescaled, simulator_of
from support.worlds import SCHEMA, Seen, Steps, some_rows

NUMBERS = "k long, v long"


def chained() -> ps.Dataflow:
    """Chains before an exchange, behind one and before state, and one into which rows are sent ahead."""
    flow = ps.Dataflow("chained")
    numbers, late = flow.input("numbers", NUMBERS), flow.input("late", NUMBERS)
    some = numbers.with_columns(v=ps.col("v") + 1, name="a").filter(ps.col("v") % 4 != 0, name="b")
    ahead = late.select("k", "v", name="c").delay(1).exchange("k")
    seen = ps.operator(
        "seen",
        Seen(),
        numbers=some.exchange("k").select("k", "v", name="d").select("k", "v", name="e"),
        late=ahead.filter(ps.col("v") % 3 != 0, name="f").select("k", "v", name="g"),
    )
    flow.output("out", seen.filter(ps.col("n") > 1, name="h").select("k", "n", name="i"))
    return flow


def looping() -> ps.Dataflow:
    flow = ps.Dataflow("looping")
    rows = flow.input("rows", SCHEMA).select("key", "n", name="a")
    with rows.loop("down") as loop:
        again = loop.variable(SCHEMA)
        both = loop.enter(rows).select("key", "n", name="b").concat(again.filter(ps.col("n") > 0, name="c"))
        steps = ps.operator("steps", Steps(), rows=both.exchange("key").select("key", "n", name="d"))
        loop.feedback(again, steps.select("key", "n", name="e"))
        flow.output("down", loop.leave(steps.select("key", "n", name="f")).select("key", "n", name="g"))
    return flow


class Alternating(Rescaled):
    """A world in which each generation has its number of workers, and chains or none."""

    def _take_over(self) -> None:
        plan = self.spec.plan
        has_chains = bool(self.choices.choose(2))
        other = Plan(plan.name, plan.root, plan.nodes, plan.broadcast, plan.memory, has_chains)
        self.spec = replace(self.spec, plan=other)
        super()._take_over()


def check_generations(seeds: range) -> set[int]:
    """The first world of generations that publishes something else is an error."""
    simulator = simulator_of(chained())
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


def test_schedules_and_delays_change_no_result() -> None:
    plan = looping().plan
    simulator = Simulator(plan, prepared(plan, {"rows": some_rows()}))
    report = simulate(simulator, cases(range(20), 1, 4, (0, 0)))
    assert report.finding is None, report.finding
    assert not report.unknown


def test_crashes_change_no_result() -> None:
    report = simulate(simulator_of(chained()), cases(range(10), 1, 4, (0, 4)))
    assert report.finding is None, report.finding
    assert not report.unknown


def test_generations_with_chains_and_without_change_no_result() -> None:
    assert check_generations(range(15)) == {1, 2, 3, 4}


def test_a_chain_that_goes_on_over_an_exchange_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "StayHere", object)
    with pytest.raises(AssertionError, match=r"Kind\.DIFFERS"):
        check_generations(range(15))
