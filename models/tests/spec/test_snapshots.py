"""Frontier-triggered epoch snapshots as an executable model.

Five families. *Counts* compare whole state spaces with the published ones: a guard that is a little too weak
or too strong shows there even if no property notices. *Mutants* show that each property can fail, by the
trace that is known. *Hand cases* fix could-result-in, delivery and what is saved on cases small enough to
check on paper. *Bad flows* break what the rules assume of a flow, where mutants break the rules. *Autonomy*
compares configurations that agree up to an epoch, where the other families look at one run at a time.
"""

from collections.abc import Iterator
from functools import partial

import pytest

from pointstamp_models.catalogue.snapshot_programs import (
    AHEAD,
    AHEAD_VERSIONS,
    LOOP,
    OWING_NOTIFIED,
    VERSIONS,
    WINDOW,
    WINDOW_NOTIFIED,
    WINDOW_VERSIONS,
    collect,
    flow,
    remember,
    upto,
    versioned,
)
from pointstamp_models.catalogue.snapshots import ENTRY
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import Violation, explore
from pointstamp_models.exploring.liveness import violation
from pointstamp_models.spec.model import Label
from pointstamp_models.spec.snapshot_flows import (
    Edge,
    Effects,
    Epoch,
    Flow,
    Node,
    NodeIndex,
    Source,
    Time,
    Value,
)
from pointstamp_models.spec.snapshot_rules import RECOVER, SNAP, Configuration, beyond
from pointstamp_models.spec.snapshots import EpochSnapshots

S, V, K = range(3)
BROKEN = [mutant for mutant in ENTRY.mutants if mutant.breaks is not None]


def mutant(identifier: str) -> Mutant:
    return next(mutant for mutant in ENTRY.mutants if mutant.identifier == identifier)


def broken(identifier: str, name: str) -> list[str]:
    """The steps by which the mutant first breaks the property of this name."""
    found = explore(mutant(identifier).build(), properties=[name]).violation
    assert found is not None, f"{identifier} keeps {name}"
    return [step.label for step in found.trace[1:]]


def without_failures(flow: Flow) -> list[Configuration]:
    found = explore(EpochSnapshots(flow, failures=0), properties=[])
    return [found.state(index) for index in range(found.states)]


# Counts.


@pytest.mark.parametrize("instance", ENTRY.instances, ids=lambda instance: instance.name)
def test_an_instance_has_the_published_size_and_keeps_every_property(instance: Instance) -> None:
    found = explore(instance.build(), keep_edges=True)
    assert found.violation is None
    assert not found.missing_witnesses
    assert instance.states in (None, found.states)
    assert violation(found) is None


@pytest.mark.parametrize(("failures", "times"), [(0, 1), (1, 5), (2, 12)])
@pytest.mark.parametrize(("flow", "states"), [(LOOP, 54), (WINDOW, 55), (AHEAD, 190), (VERSIONS, 113)])
def test_recovery_adds_no_configuration_to_those_of_failure_free_runs(
    flow: Flow, states: int, failures: int, times: int
) -> None:
    """One failure: none has happened, one of three parts is down, or all is as if nothing had happened."""
    assert explore(EpochSnapshots(flow, failures=failures), properties=[]).states == states * times


def test_every_property_is_judged_under_its_name() -> None:
    model = EpochSnapshots(LOOP, failures=1)
    assert list(model.invariants()) == ["Explain", "ConsistentCut"]
    assert list(model.step_properties()) == [
        "GceMono",
        "OutMono",
        "CommitOnly",
        "FrontierSound",
        "NothingLate",
        "NonInterference",
        "EpochNeverLowered",
    ]
    assert list(model.liveness()) == ["Liveness of epoch 1", "Liveness of epoch 2"]


# Mutants.


@pytest.mark.parametrize("mutant", BROKEN, ids=lambda mutant: mutant.identifier)
def test_a_mutant_is_rejected_by_the_property_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks is not None
    found = explore(mutant.build(), properties=[mutant.breaks]).violation
    assert isinstance(found, Violation)
    assert found.property == mutant.breaks


def test_each_mutant_is_the_model_with_one_method_changed() -> None:
    for candidate in ENTRY.mutants:
        changed = [name for name in vars(type(candidate.build())) if not name.startswith("_")]
        assert len(changed) == 1, f"{candidate.identifier} changes {changed}"


def test_eager_processing_without_versions_takes_the_published_trace() -> None:
    assert broken("M7.1", "Explain") == [
        "emit(S, (1, 0), a)",
        "advance(S, (1, 0))",
        "emit(S, (2, 0), b)",
        "take(V, (1, 0), a)",
        "take(V, (2, 0), b)",
        "take(V, (1, 1), a)",
        "snap(V, 1)",
        "take(K, (1, 0), ((1, 0, 'a'), (2, 0, 'b'), (1, 1, 'a')))",
        "snap(K, 1)",
    ]


def test_an_offset_that_is_not_reset_loses_input_after_the_published_trace() -> None:
    labels = broken("M7.6", "Explain")
    assert labels[:4] == ["emit(S, (1, 0), a)", "FAIL(S)", "RECOVER(0)", "advance(S, (1, 0))"]
    assert labels[4:] == ["snap(V, 1)", "snap(K, 1)"]


def test_a_sink_that_does_not_wait_for_owed_output_snapshots_before_the_node_that_owes() -> None:
    labels = broken("M7.7", "CommitOnly")
    assert labels.index("snap(K, 1)") < labels.index("snap(V, 1)")
    assert labels[-1].startswith("take(K, (1, 0)")
    assert broken("M7.7", "NothingLate") == labels


def test_blocking_a_channel_deadlocks_with_the_iteration_behind_the_next_epoch() -> None:
    model = mutant("M7.8").build()
    found = explore(model, properties=["deadlock"])
    assert found.violation is not None
    assert found.violation.steps() == 5
    assert (
        "V = ((1, 0, 'a'),); saved to 0; awaits b at (2, 0), a at (1, 1)" in found.violation.trace[-1].state
    )


@pytest.mark.parametrize("identifier", ["M7.2", "M7.7 at the node", "M7.8"])
def test_a_mutant_that_deadlocks_never_commits_the_first_epoch(identifier: str) -> None:
    found = violation(explore(mutant(identifier).build(), properties=[], keep_edges=True))
    assert found is not None
    assert found.property == "Liveness of epoch 1"


@pytest.mark.parametrize("identifier", ["M7.3", "M7.4", "M7.5", "M7.6"])
def test_a_wrong_snapshot_is_noticed_before_its_output_is(identifier: str) -> None:
    assert len(broken(identifier, "ConsistentCut")) < len(broken(identifier, "Explain"))


def test_with_versions_a_held_capability_may_be_used_up_before_the_snapshot_that_must_store_it() -> None:
    labels = broken("M7.4 with versions", "ConsistentCut")
    assert labels.index("notify(V, (2, 1))") < labels.index("snap(V, 1)")
    lost = mutant("M7.4 under hold-back").build()
    kept = EpochSnapshots(WINDOW_NOTIFIED, failures=1)
    assert explore(lost).violation is None
    assert explore(lost).states == explore(kept).states


# Hand cases.


def test_the_loop_raises_the_round_and_never_reaches_an_earlier_epoch() -> None:
    of_capability, of_message = LOOP.could_result_in
    everything = LOOP.location(V, LOOP.times) | LOOP.location(K, LOOP.times)
    assert of_capability[S, (1, 0)] == everything
    assert of_message[V, (1, 1)] == LOOP.location(V, [(1, 1), (2, 1)]) | LOOP.location(K, LOOP.times)
    assert of_capability[V, (2, 0)] == LOOP.location(V, [(2, 1)]) | LOOP.location(K, [(2, 0), (2, 1)])
    assert of_capability[K, (1, 0)] == 0


def test_a_message_in_the_second_round_keeps_its_epoch_open_though_the_first_round_is_complete() -> None:
    model = EpochSnapshots(LOOP, failures=0)
    clock = LOOP.could_result_in[1][V, (1, 1)]
    assert not clock & LOOP.location(V, [(1, 0)])
    assert not model.frontier_passed(clock, V, 1)
    assert model.frontier_passed(LOOP.could_result_in[1][V, (2, 0)], V, 1)


@pytest.mark.parametrize(
    ("times", "places"),
    [
        ([], []),
        ([(1, 0), (1, 0)], [0]),
        ([(2, 0), (1, 1)], [0, 1]),
        ([(1, 1), (2, 0)], [0, 1]),
        ([(1, 0), (2, 0)], [0]),
        ([(2, 0), (1, 1), (2, 1)], [0, 1]),
    ],
)
def test_a_message_overtakes_only_what_is_not_before_it_in_time(times: list[Time], places: list[int]) -> None:
    model = EpochSnapshots(LOOP, failures=0)
    assert model.deliverable(tuple((time, "x") for time in times)) == places


def test_a_log_keeps_what_a_coming_snapshot_may_have_to_store() -> None:
    log: list[tuple[Time, Epoch]] = [((2, 0), 1), ((3, 0), 1), ((3, 0), 2), ((1, 1), 1)]
    assert beyond(log, 1) == (((2, 0), 1), ((3, 0), 1), ((3, 0), 2))
    assert beyond(log, 2) == (((3, 0), 1), ((3, 0), 2))
    assert beyond(log, 3) == ()


@pytest.mark.parametrize("flow", [AHEAD, AHEAD_VERSIONS])
def test_what_was_sent_ahead_is_under_way_again_after_recovery(flow: Flow) -> None:
    model = EpochSnapshots(flow, failures=0)
    committed = [c for c in without_failures(flow) if model.gce(c) == 1]
    for c in committed:
        assert model.restore(c, 1).inboxes == ((), (((2, 0), "a'"),), ())
    assert any(not c.inboxes[V] for c in committed), "the message was never received before the commit"


@pytest.mark.parametrize("flow", [WINDOW, WINDOW_NOTIFIED, WINDOW_VERSIONS])
def test_a_window_is_open_again_after_recovery(flow: Flow) -> None:
    model = EpochSnapshots(flow, failures=0)
    for c in without_failures(flow):
        if model.gce(c) == 1:
            assert model.restore(c, 1).held == ((((2, 0), 1),), (((2, 1), 1),), ())


def test_recovery_to_the_beginning_is_the_beginning() -> None:
    model = EpochSnapshots(OWING_NOTIFIED, failures=0)
    [first] = model.initial()
    assert all(model.restore(c, 0) == first for c in without_failures(OWING_NOTIFIED))


def test_after_recovery_the_frontier_is_that_of_what_was_restored() -> None:
    model = EpochSnapshots(AHEAD, failures=0)
    for c in without_failures(AHEAD):
        restored = model.restore(c, model.gce(c))
        epoch = model.gce(c)
        for v in (V, K):
            assert epoch == 0 or model.frontier_passed(model.clock(restored), v, epoch)
            assert epoch == 2 or not model.frontier_passed(model.clock(restored), v, epoch + 1)


def test_committing_an_epoch_before_its_output_came_is_seen() -> None:
    model = EpochSnapshots(LOOP, failures=0)
    assert (0, ()) in model.failure_free_outputs
    assert (1, ()) not in model.failure_free_outputs


# Bad flows.


def test_an_edge_that_lowers_the_epoch_is_noticed() -> None:
    def send_back(log: Value, time: Time, value: Value) -> Effects:
        effects = remember(log, time, value)
        late = (("past", value),) if time == (2, 0) else ()
        return effects._replace(sends=effects.sends + late)

    eager = Node("V", partial(versioned, send_back), project=upto)
    past = flow(eager, Edge("past", "V", "V", epochs=-1))
    found = explore(EpochSnapshots(past, failures=0), properties=["EpochNeverLowered"]).violation
    assert found is not None
    assert found.trace[-1].label == "take(V, (2, 0), b)"


def test_a_request_for_an_earlier_epoch_is_noticed() -> None:
    def ask_back(log: Value, time: Time, value: Value) -> Effects:
        return remember(log, time, value)._replace(requests=((1, 1),) if time[0] == 2 else ())

    def ignore(log: Value, time: Time) -> Effects:
        return Effects(log)

    asking = flow(Node("V", ask_back, ignore))
    found = explore(EpochSnapshots(asking, failures=0), properties=["EpochNeverLowered"]).violation
    assert found is not None
    assert found.trace[-1].label == "take(V, (2, 0), b)"


def first_entry(log: Value, epoch: Epoch) -> Value:
    return log[:1]


@pytest.mark.parametrize(
    ("act", "project", "why"),
    [
        (remember, upto, "NI2: what is sent in epoch 1 shows epoch 2"),
        (partial(versioned, remember), first_entry, "NI1: an event of epoch 2 makes the entry of epoch 1"),
    ],
)
def test_a_projection_that_lets_later_epochs_through_is_noticed(act: Value, project: Value, why: str) -> None:
    found = explore(
        EpochSnapshots(flow(Node("V", act, project=project)), failures=0), properties=["NonInterference"]
    )
    assert found.violation is not None, why


def test_a_node_that_swallows_what_it_owes_still_lets_epochs_pass() -> None:
    def swallow(log: Value, time: Time, value: Value) -> Effects:
        return Effects((*log, (*time, value)))

    silent = Flow(
        (Source("S", ((1, "a"),)),),
        (Node("V", swallow), Node("K", collect, project=upto)),
        (Edge("in", "S", "V"), Edge("out", "V", "K", leaves=True)),
        ("K",),
        epochs_max=2,
        rounds_max=0,
    )
    model = EpochSnapshots(silent, failures=1)
    found = explore(model, properties=["Explain", "ConsistentCut", "deadlock"], keep_edges=True)
    assert found.violation is None
    assert violation(found) is None
    assert (2, ()) in model.failure_free_outputs


# Autonomy (L4): what happens up to an epoch depends on nothing beyond it.


def seen_of(model: EpochSnapshots, c: Configuration, epoch: Epoch) -> Value:
    """c|e: projected states, pointstamps and snapshots up to e, and what events up to e left for later."""
    return tuple(part_up_to(model, c, v, epoch) for v in range(len(model.parts)))


def part_up_to(model: EpochSnapshots, c: Configuration, v: NodeIndex, epoch: Epoch) -> Value:
    part, archive = model.parts[v], c.archives[v][: epoch + 1]
    waiting = tuple(message for message in c.inboxes[v] if message[0][0] <= epoch)
    held = tuple(entry for entry in c.held[v] if entry[0][0] <= epoch)
    if isinstance(part, Source):
        return min(c.states[v], sum(e <= epoch for e, _ in part.records)), held, archive
    if len(archive) > epoch:
        return archive[epoch], waiting, held, archive
    return (model.saved_state(c, v, epoch), model.saved_held(c, v, epoch), model.saved_ahead(c, v, epoch)), (
        waiting,
        held,
        archive,
    )


def steps_up_to(model: EpochSnapshots, c: Configuration, epoch: Epoch) -> Iterator[tuple[Label, Value]]:
    for label, after in model.steps(c):
        own = model.epoch_of(label, c)
        assert own is not None
        if own <= epoch:
            yield label, seen_of(model, after, epoch)
        else:
            assert seen_of(model, after, epoch) == seen_of(model, c, epoch), f"{label} changes epoch {epoch}"


@pytest.mark.parametrize(
    "flow", [LOOP, VERSIONS, AHEAD, AHEAD_VERSIONS, WINDOW, WINDOW_VERSIONS, OWING_NOTIFIED]
)
def test_what_is_enabled_up_to_an_epoch_and_what_it_does_depends_only_on_that_part(flow: Flow) -> None:
    model = EpochSnapshots(flow, failures=0)
    enabled: dict[Value, set[tuple[Label, Value]]] = {}
    compared = 0
    for c in without_failures(flow):
        steps = set(steps_up_to(model, c, 1))
        known = enabled.setdefault(seen_of(model, c, 1), steps)
        compared += known is not steps
        assert known == steps
    assert compared > 10, "no two configurations agree up to epoch 1, so nothing was compared"


def test_only_snapshots_and_recoveries_touch_the_archives_of_nodes() -> None:
    model = EpochSnapshots(LOOP, failures=1)
    found = explore(model, properties=[], keep_edges=True)
    for edge in found.edges:
        before, after = found.state(edge.origin), found.state(edge.target)
        changed = before.archives[V:] != after.archives[V:]
        assert not changed or edge.label[0] in (SNAP, RECOVER)
