"""Whole executions of cyclic flows with crashes are explained by executions without.

Three families. *Explanations* build the failure-free run for every recovery that can happen and for random
executions, and judge it step by step; properties of single configurations cannot see that the
order of observations is kept. *Order* shows where hold-back and versions differ: which steps an explanation
moves past which. *Broken rules* show that the explainer refuses what must not be explained.
"""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from pointstamp_models.catalogue.snapshot_programs import (
    AHEAD,
    AHEAD_VERSIONS,
    LOOP,
    LOOP_OF_TWO,
    LOOP_OF_TWO_VERSIONS,
    OWING,
    OWING_NOTIFIED,
    VERSIONS,
    WINDOW,
    WINDOW_NOTIFIED,
    WINDOW_VERSIONS,
)
from pointstamp_models.catalogue.snapshots import (
    ENTRY,
    AheadNotSaved,
    ChannelsKept,
    EagerWithoutVersions,
    HeldNotSaved,
    HeldNowSaved,
    OffsetKept,
    SinkCommitsAlone,
    explain_random,
    explain_recoveries,
)
from pointstamp_models.exploring.entry import Check
from pointstamp_models.exploring.transparency import (
    Execution,
    Generation,
    explain,
    first_unexplained,
    random_executions,
    side_by_side,
)
from pointstamp_models.spec.snapshot_flows import Flow
from pointstamp_models.spec.snapshot_rules import FAIL, NOTIFY, RECOVER, TAKE, Configuration
from pointstamp_models.spec.snapshots import EpochSnapshots

HOLD_BACK = {"LOOP": LOOP, "AHEAD": AHEAD, "WINDOW": WINDOW, "WINDOW_NOTIFIED": WINDOW_NOTIFIED}
HOLD_BACK |= {"OWING": OWING, "OWING_NOTIFIED": OWING_NOTIFIED, "LOOP_OF_TWO": LOOP_OF_TWO}
WITH_VERSIONS = {"VERSIONS": VERSIONS, "AHEAD": AHEAD_VERSIONS, "WINDOW": WINDOW_VERSIONS}
WITH_VERSIONS |= {"LOOP_OF_TWO": LOOP_OF_TWO_VERSIONS}
ALL = {**HOLD_BACK, **{f"{name} with versions": flow for name, flow in WITH_VERSIONS.items()}}
SMALL = {name: flow for name, flow in ALL.items() if "LOOP_OF_TWO" not in name}

Run = Execution[Configuration]


def walks(flow: Flow, number: int) -> Iterator[Run]:
    return random_executions(EpochSnapshots(flow, failures=3), seed=7, number=number)


# Explanations.


@pytest.mark.parametrize("flow", SMALL.values(), ids=SMALL)
def test_every_recovery_is_explained(flow: Flow) -> None:
    outcome = explain_recoveries(flow, 1)
    assert outcome.holds, outcome.detail
    assert outcome.cases > 100


@pytest.mark.parametrize("flow", ALL.values(), ids=ALL)
def test_random_executions_with_three_crashes_are_explained(flow: Flow) -> None:
    outcome = explain_random(flow, 3, 100)
    assert outcome.holds, outcome.detail
    assert outcome.cases == 100


def test_random_executions_undo_work_keep_work_and_come_to_an_end() -> None:
    model = EpochSnapshots(LOOP, failures=3)
    runs = list(walks(LOOP, 100))
    steps = [(c, label, d) for run in runs for (_, c), (label, d) in pairwise(run) if label[0] == RECOVER]
    assert sum(c.states != d.states for c, _, d in steps) > 20
    assert sum(label[1] > 0 for _, label, _ in steps) > 20
    assert sum(model.all_committed(run[-1][1]) for run in runs) > 20


def test_an_explanation_replays_without_failures_and_shows_everything_that_was_seen() -> None:
    model = EpochSnapshots(AHEAD_VERSIONS, failures=3)
    for run in walks(AHEAD_VERSIONS, 50):
        explanation = explain(model, run)
        assert explanation.flaw is None
        state = explanation.states[0]
        for step, after in zip(explanation.trace, explanation.states[1:], strict=True):
            assert step.label[0] not in (FAIL, RECOVER)
            assert after in [d for label, d in model.specification.steps(state) if label == step.label]
            state = after
        assert list(explanation.mapping) == sorted(explanation.mapping)
        for (_, c), place in zip(run, explanation.mapping, strict=True):
            assert model.observe(c) == model.observe(explanation.states[place])


@pytest.mark.parametrize("check", ENTRY.checks, ids=lambda check: check.name)
def test_a_check_of_the_catalogue_holds(check: Check) -> None:
    outcome = check.run()
    assert outcome.holds, outcome.detail


# Order.


def overtaken(generation: Generation[Configuration]) -> bool:
    """Whether the explanation moves an event of a node past a later-epoch event of the same node."""
    events = [step for step in generation.steps if step.label[0] in (TAKE, NOTIFY)]
    return any(
        earlier.label[1] == later.label[1] and earlier in generation.discarded and later in generation.kept
        for place, earlier in enumerate(events)
        for later in events[place + 1 :]
    )


@pytest.mark.parametrize("flow", HOLD_BACK.values(), ids=HOLD_BACK)
def test_under_hold_back_no_event_of_a_node_without_versions_is_moved_past_another_of_it(flow: Flow) -> None:
    model = EpochSnapshots(flow, failures=3)
    for run in walks(flow, 50):
        for generation in explain(model, run).generations:
            own = [s for s in generation.steps if s.label[0] in (TAKE, NOTIFY) and s.label[1] != "K"]
            assert not overtaken(Generation(tuple(own), generation.gce, None))


@pytest.mark.parametrize("flow", WITH_VERSIONS.values(), ids=WITH_VERSIONS)
def test_with_versions_events_of_one_node_are_moved_past_each_other_and_still_replay(flow: Flow) -> None:
    model = EpochSnapshots(flow, failures=3)
    explanations = [explain(model, run) for run in walks(flow, 200)]
    assert all(explanation.flaw is None for explanation in explanations)
    assert any(overtaken(generation) for e in explanations for generation in e.generations)


# Broken rules.


@pytest.mark.parametrize(
    "model",
    [
        EagerWithoutVersions(LOOP, failures=2),
        AheadNotSaved(AHEAD, failures=2),
        HeldNotSaved(WINDOW, failures=2),
        HeldNowSaved(WINDOW_VERSIONS, failures=2),
        ChannelsKept(LOOP, failures=2),
        OffsetKept(LOOP, failures=2),
        SinkCommitsAlone(LOOP, failures=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_execution_under_broken_rules_is_not_explained(model: EpochSnapshots) -> None:
    runs = random_executions(model, seed=1, number=500)
    _, unexplained = first_unexplained(model, runs, specified=model.specification.observe)
    assert unexplained is not None
    assert side_by_side(model, unexplained).splitlines()[-1].startswith("NOT EXPLAINED: ")
