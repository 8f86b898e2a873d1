"""Recoveries that are broken on purpose are found, and by the judge that is there for them.

Families, and what only each can find:
- the mutants of recovery: that each condition of failure transparency is needed, and that each judge really
  looks: what was published, the events of a generation, the explanation, and whether the query comes to an
  end at all;
- the mutants of storage, savepoints and epoch columns: that worlds have these, and that it matters whether
  what is acknowledged is durable, what was answered holds and what is kept is whole; many were mistakes of
  ours once;
- the same flows as they are: that the mutants are found for their mistake and not for being crashed;
- a user's mistake: an operator that keeps something and declares no state is found, named and made small.
"""

from typing import Any, Final

import pytest

from pointstamp.simulate.crash.seeds import CrashOutcome
from pointstamp.simulate.seeds import FindingKind, cases, simulate
from pointstamp.simulate.shrink import Shrinking
from support import broken_durability, broken_recovery
from support.broken_recovery import Mutant, OfBefore, forgetful, simulator_of, sound_flows

SEEDS_MAX: Final = 200


def _name(mutant: Mutant) -> str:
    return f"{mutant.switch.__name__}-{mutant.flow}-{mutant.property or mutant.judge}"


def _mutants() -> list[Any]:
    """All of them; the one that takes longest is found in the long run."""
    slow = broken_durability.what_a_savepoint_needs_is_removed
    return [
        pytest.param(each, id=_name(each), marks=[pytest.mark.long] if each.switch is slow else [])
        for each in (*broken_recovery.MUTANTS, *broken_durability.MUTANTS)
    ]


@pytest.mark.parametrize("mutant", _mutants())
def test_a_broken_recovery_is_found_by_its_judge(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.switch(monkeypatch)
    simulator = simulator_of(sound_flows()[mutant.flow]())
    for case in cases(range(SEEDS_MAX), 1, 4, (0, 4)):
        outcome = simulator.run(case)
        assert isinstance(outcome, CrashOutcome)
        if mutant.judge in outcome.objections and mutant.property in ("", outcome.verdict.property):
            assert outcome.is_finding
            return
    pytest.fail(f"{SEEDS_MAX} worlds, and '{mutant.judge}' had nothing against it")


@pytest.mark.parametrize("name", sorted({mutant.flow for mutant in broken_recovery.MUTANTS}))
def test_what_is_not_broken_survives_the_same_worlds(name: str) -> None:
    simulator = simulator_of(sound_flows()[name]())
    report = simulate(simulator, cases(range(12), 1, 4, (0, 4)))
    assert report.finding is None, report.finding.reason
    assert not report.unknown


def test_what_is_not_broken_survives_damaged_disks_though_little_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken_durability.disks_are_damaged(monkeypatch)
    report = simulate(simulator_of(sound_flows()["delayed"]()), cases(range(20), 1, 4, (1, 4)))
    assert report.finding is None, report.finding.reason
    assert not report.unknown


def test_what_is_not_broken_survives_publications_that_were_seen_and_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken_durability.publications_are_lost(monkeypatch)
    report = simulate(simulator_of(sound_flows()["running"]()), cases(range(20), 1, 4, (0, 4)))
    assert report.finding is None, report.finding.reason
    assert not report.unknown


def test_an_operator_that_forgets_its_state_is_named_and_the_world_made_small() -> None:
    simulator = simulator_of(forgetful(), epochs=3)
    simulator.world = OfBefore
    report = simulate(simulator, cases(range(SEEDS_MAX), 1, 2, (1, 2)))
    assert report.finding is not None
    shrinking = Shrinking(simulator, report.finding)
    smallest = shrinking.run()
    assert shrinking.is_repeatable
    assert smallest.kind is FindingKind.DIFFERS
    assert "operator 'tally' keeps seen and declares no state" in smallest.reason
    assert smallest.case.crashes == 1
    assert smallest.case.rows is not None
    assert 2 <= len(smallest.case.rows) <= 4, "a row before the crash, and one of the same key after it"
    assert "--crashes 1" in smallest.case.command("FLOW.py")


def test_an_operator_that_forgets_its_state_is_named_where_a_savepoint_shows_it_without_a_crash() -> None:
    simulator = simulator_of(forgetful(), epochs=3)
    for case in cases(range(SEEDS_MAX), 1, 2, (0, 0)):
        outcome = simulator.run(case)
        if outcome.is_finding:
            break
    assert outcome.kind is FindingKind.DIFFERS
    assert "a query that began with a savepoint of epoch" in outcome.reason
    assert "operator 'tally' keeps seen and declares no state" in outcome.reason
