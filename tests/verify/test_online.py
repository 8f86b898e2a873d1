"""The judge of a run that continues: the same verdict as for a trace, whoever's events come first.

Families, and what only each can find:
- *merging* (hypothesis): the events of the workers of a recorded world arrive in any order. Only this finds a
  verdict that depends on whose events come first, or an event that is never judged;
- *forgeries* (hypothesis): one event is left out, told twice or told by another worker. Only this finds a
  trace that is found wrong as a whole and let pass when it is merged, or the other way round;
- *broken runtimes*, the mutants of ``test_runtime_mutants``: the same for mistakes that a runtime can make;
- *causes that never come*: when an event that waits is found wrong, and that it is not before;
- *commits*: that an epoch is committed once, in order, when everybody has taken its snapshot;
- *bounds*: that what is kept does not grow with the number of epochs.

Rules of snapshots need a runtime that takes them, and are tested with it in tests/query/test_verify.py.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.simulate.case import Case
from pointstamp.simulate.seeds import Simulator
from pointstamp.topology.ports import OperatorIndex
from pointstamp.verify.abstract_state import BrokenError
from pointstamp.verify.conformance import JUDGED, PROPERTIES, Status, Verdict, judge
from pointstamp.verify.online import RENUMBER_EVENTS, EpochWalker, Online
from pointstamp.verify.plan_shape import walker_of
from pointstamp.verify.snapshot_rules import SNAPSHOT_PROPERTIES, CommitRules, SnapshotRules
from pointstamp.worker.events import Event, MessagePulled, ProgressReceived, SnapshotTaken
from simulate.test_runtime_mutants import MUTANTS, Patch
from support.worlds import busy_flow, nested_flow, simulator_of

FLOWS = {"busy": busy_flow, "nested": nested_flow}
WORKERS = 3


@cache
def simulator(name: str, epochs: int = 3) -> Simulator:
    return simulator_of(FLOWS[name](), epochs)


@cache
def world(name: str, seed: int, epochs: int = 3) -> tuple[Event, ...]:
    """The events of a right run, in the order in which they happened."""
    return tuple(simulator(name, epochs).run(Case(seed, WORKERS)).run.events)


def online_of(of: Simulator, workers: int = WORKERS) -> Online:
    return Online(EpochWalker(of.shape), workers, [])


def by_worker(events: Sequence[Event], workers: int = WORKERS) -> list[list[Event]]:
    return [[event for event in events if event.worker == number] for number in range(workers)]


def let_arrive(online: Online, told: Sequence[Sequence[Event]], chance: random.Random) -> None:
    """Every worker's events arrive in order, in pieces, and the pieces of different workers in any order."""
    left = [list(events) for events in told]
    while any(left):
        number = chance.choice([number for number, events in enumerate(left) if events])
        size = chance.choice((1, 2, 7, 40, 500))
        piece, left[number] = left[number][:size], left[number][size:]
        online.take(number, piece)


def verdict_of(online: Online, told: Sequence[Sequence[Event]], chance: random.Random, *, end: bool) -> str:
    """The property that is broken, or "" for a valid run, or why the judge cannot say."""
    try:
        let_arrive(online, told, chance)
        if end:
            online.end()
        else:
            online.cut()
            online.cut()
    except BrokenError as rule:
        return rule.property
    except Exception as error:
        return f"unknown: {error}"
    return ""


# Merging.


@settings(max_examples=60)
@given(st.sampled_from(sorted(FLOWS)), st.integers(0, 7), st.randoms(use_true_random=False))
def test_a_right_run_is_valid_in_whatever_order_its_events_arrive(
    name: str, seed: int, chance: random.Random
) -> None:
    events = world(name, seed)
    online = online_of(simulator(name))
    assert verdict_of(online, by_worker(events), chance, end=True) == ""
    assert sum(online.judged) == len(events)
    assert online.waiting == 0


def test_every_event_is_recorded_after_its_cause() -> None:
    events = world("busy", 1)
    merged: list[Event] = []
    online = Online(EpochWalker(simulator("busy").shape), WORKERS, [], record=merged.append)
    for number in reversed(range(WORKERS)):
        online.take(number, by_worker(events)[number])
    assert by_worker(merged) == by_worker(events)
    assert merged != list(events)
    assert judge(walker_of(simulator("busy").plan), WORKERS, merged).status is Status.VALID


# Forgeries.


def forged(events: Sequence[Event], how: str, place: int, other: int) -> list[Event]:
    changed = list(events)
    event = changed[place % len(changed)]
    match how:
        case "left out":
            del changed[place % len(changed)]
        case "told twice":
            changed.insert(place % len(changed), event)
        case "told by another":
            moved = WorkerIndex((event.worker + 1 + other) % WORKERS)
            changed[place % len(changed)] = msgspec.structs.replace(event, worker=moved)
    return changed


@settings(max_examples=120)
@given(
    st.sampled_from(sorted(FLOWS)),
    st.integers(0, 3),
    st.sampled_from(["left out", "told twice", "told by another"]),
    st.integers(0, 100_000),
    st.integers(0, WORKERS - 2),
    st.randoms(use_true_random=False),
)
def test_a_forged_run_gets_the_same_verdict_merged_as_in_its_own_order(
    name: str, seed: int, how: str, place: int, other: int, chance: random.Random
) -> None:
    events = forged(world(name, seed), how, place, other)
    whole = judge(walker_of(simulator(name).plan), WORKERS, events)
    found = verdict_of(online_of(simulator(name)), by_worker(events), chance, end=True)
    assert (found == "") == (whole.status is Status.VALID), (found, whole)


# Broken runtimes.


def broken_world(flow: Callable[[], ps.Dataflow]) -> tuple[Simulator, Case, Verdict] | None:
    """The first world of a flow whose trace is found wrong."""
    of = simulator_of(flow(), epochs=3)
    for seed in range(100):
        case = Case(seed, 2 + seed % 3)
        outcome = of.run(case)
        if outcome.verdict.status is Status.INVALID:
            return of, case, outcome.verdict
    return None


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant, caught_by in MUTANTS.items() if caught_by in PROPERTIES],
    ids=lambda mutant: mutant.__name__,
)
def test_a_broken_runtime_is_caught_while_it_runs_in_any_order_of_arrival(
    mutant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    found = broken_world(busy_flow) or broken_world(nested_flow)
    assert found is not None
    of, case, verdict = found
    run = of.run(case).run
    told = by_worker(run.events, case.workers)
    for seed in range(5):
        online = online_of(of, case.workers)
        caught = verdict_of(online, told, random.Random(seed), end=run.ended.value in ("complete", "stuck"))
        assert caught in PROPERTIES, (caught, verdict)


# Causes that never come.


def without_sends_of(events: Sequence[Event], sender: int) -> list[list[Event]]:
    """What the others have told before this worker has told anything."""
    return [[] if number == sender else told for number, told in enumerate(by_worker(events))]


def test_an_event_waits_for_its_cause_and_is_judged_when_that_comes() -> None:
    events = world("busy", 2)
    online = online_of(simulator("busy"))
    let_arrive(online, without_sends_of(events, 0), random.Random(0))
    assert online.waiting > 0
    online.take(0, by_worker(events)[0])
    assert online.waiting == 0
    online.end()


def test_one_cut_allows_what_two_do_not() -> None:
    online = online_of(simulator("busy"))
    let_arrive(online, without_sends_of(world("busy", 2), 0), random.Random(0))
    online.cut()
    with pytest.raises(BrokenError, match=r"applied progress batch|in flight to it") as rule:
        online.cut()
    assert rule.value.property in ("RecvCapEnabled", "GaplessSequence")


def test_where_everybody_waits_for_another_one_the_run_is_wrong_at_once() -> None:
    online = online_of(simulator("busy"))
    told = by_worker(world("busy", 3))
    pulls = [next(each for each in events if isinstance(each, MessagePulled)) for events in told]
    # Each worker starts, propagates, and pulls what nobody has sent.
    for number in range(WORKERS - 1):
        online.take(number, [*told[number][:2], pulls[number]])
    assert online.waiting == WORKERS - 1
    with pytest.raises(BrokenError, match="but none was in flight to it") as rule:
        online.take(WORKERS - 1, [*told[WORKERS - 1][:2], pulls[WORKERS - 1]])
    assert rule.value.property == "RecvCapEnabled"


def test_progress_that_was_heard_twice_is_wrong_at_once() -> None:
    told = by_worker(world("busy", 4))
    place, heard = next(
        (place, event) for place, event in enumerate(told[0]) if isinstance(event, ProgressReceived)
    )
    told[0].insert(place, heard)
    assert verdict_of(online_of(simulator("busy")), told, random.Random(1), end=False) == "GaplessSequence"


# Commits.


def taken(worker: int, operator: int, epoch: int) -> SnapshotTaken:
    return SnapshotTaken(WorkerIndex(worker), OperatorIndex(operator), epoch)


def commits_of_two() -> tuple[CommitRules, SnapshotRules]:
    online = Online(EpochWalker(simulator("busy").shape), 2, [0, 1])
    commits = CommitRules()
    commits.begin(2, [0, 1], -1, -1)
    assert online._snapshots is not None
    return commits, online._snapshots


def test_an_epoch_is_committed_when_every_operator_of_every_worker_has_taken_it() -> None:
    commits, snapshots = commits_of_two()
    for worker, operator in ((0, 0), (0, 1), (1, 0)):
        commits.came(taken(worker, operator, 0))
    with pytest.raises(BrokenError, match="on worker 1 ") as rule:
        commits.committed(0, snapshots)
    assert rule.value.property == "CommitWhole"
    commits.came(taken(1, 1, 0))
    commits.committed(0, snapshots)


def test_an_epoch_is_committed_once_also_over_a_restart() -> None:
    commits, snapshots = commits_of_two()
    for worker, operator in ((0, 0), (0, 1), (1, 0), (1, 1)):
        commits.came(taken(worker, operator, 4))
    commits.committed(4, snapshots)
    commits.begin(2, [0, 1], 4, 4)
    with pytest.raises(BrokenError, match="epoch 4 was committed after epoch 4") as rule:
        commits.committed(4, snapshots)
    assert rule.value.property == "CommitsInOrder"


def test_a_restart_from_an_older_snapshot_commits_nothing_again() -> None:
    commits, snapshots = commits_of_two()
    commits.begin(2, [0, 1], 3, 7)
    with pytest.raises(BrokenError, match="epoch 6 was committed after epoch 7") as rule:
        commits.committed(6, snapshots)
    assert rule.value.property == "CommitsInOrder"


# Bounds.


def test_what_is_kept_does_not_grow_with_the_number_of_epochs(monkeypatch: Patch) -> None:
    monkeypatch.setattr("pointstamp.verify.online.RENUMBER_EVENTS", 300)
    sizes = []
    for epochs in (4, 24):
        online = online_of(simulator("busy", epochs))
        let_arrive(online, by_worker(world("busy", 0, epochs)), random.Random(0))
        online.end()
        state = online.state
        kept = sum(len(list(batches.since(len(batches)))) for batches in state.sent)
        sizes.append((len(state.walker.points), len(state.walker._implied), kept))
    assert sum(online.judged) > 3 * 300
    assert sizes[1][2] == 0
    assert sizes[1][0] < 2 * sizes[0][0] + 300
    assert sizes[1][1] <= 300


def test_forgetting_what_has_passed_changes_no_verdict(monkeypatch: Patch) -> None:
    monkeypatch.setattr("pointstamp.verify.online.RENUMBER_EVENTS", 1)
    events = world("nested", 0)
    assert verdict_of(online_of(simulator("nested")), by_worker(events), random.Random(0), end=True) == ""
    assert RENUMBER_EVENTS > 1


def test_every_property_has_words_and_a_name_of_its_own() -> None:
    assert len(JUDGED) == len(PROPERTIES) + len(SNAPSHOT_PROPERTIES)
    assert all(JUDGED.values())
