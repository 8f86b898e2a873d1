"""The rules of snapshots and commits look at every generation of a world with crashes.

Families, and what only each can find:
- *left out*: from what happened in right worlds, each snapshot and each commit is left out in turn. Only this
  finds a rule that looks at some epochs, or at some generations, and not at others;
- *out of order*: a commit of an earlier epoch under a later number, whichever generation wrote it.

A snapshot of an epoch that its generation never committed, because it was lost before, is missed by nobody:
nothing rests on it. Neither is the last commit of a generation that was lost: its driver may have died with
it, before it could take that down.
"""

from functools import cache

import pytest

from pointstamp.simulate.case import Case
from pointstamp.simulate.crash.events import EpochCommitted, Happened
from pointstamp.simulate.crash.seeds import CrashSimulator, judge_generations
from pointstamp.simulate.world import Ended
from pointstamp.verify.conformance import Status, Verdict
from pointstamp.worker.events import SnapshotTaken
from support.broken_recovery import simulator_of, sound_flows

WORLDS = [Case(seed, 2, crashes=crashes) for seed in (1, 2) for crashes in (0, 2)]


@cache
def simulator() -> CrashSimulator:
    return simulator_of(sound_flows()["running"](), epochs=7)


@cache
def happened(case: Case) -> tuple[Happened, ...]:
    run = simulator().crash_run(case)
    assert run.ended is Ended.COMPLETE
    return tuple(run.happened)


def judged(events: list[Happened]) -> Verdict:
    of = simulator()
    return judge_generations(of._walker, of._operators, events, is_complete=True)


def without(events: tuple[Happened, ...], place: int) -> list[Happened]:
    return [*events[:place], *events[place + 1 :]]


@pytest.mark.parametrize("case", WORLDS, ids=lambda case: f"{case.seed}-{case.crashes}")
def test_what_happened_is_right_as_it_is(case: Case) -> None:
    assert judged(list(happened(case))) == Verdict(Status.VALID)


@pytest.mark.parametrize("case", WORLDS, ids=lambda case: f"{case.seed}-{case.crashes}")
def test_every_snapshot_that_a_commit_rests_on_is_missed(case: Case) -> None:
    events = happened(case)
    committed = {(each, event.epoch) for each, event in events if isinstance(event, EpochCommitted)}
    needed = [
        place
        for place, (generation, event) in enumerate(events)
        if isinstance(event, SnapshotTaken) and (generation, event.epoch) in committed
    ]
    assert len(needed) >= 6
    assert {judged(without(events, place)).property for place in needed} == {"CommitWhole"}


@pytest.mark.parametrize("case", WORLDS, ids=lambda case: f"{case.seed}-{case.crashes}")
def test_every_commit_that_another_follows_is_missed(case: Case) -> None:
    events = happened(case)
    newest = max(generation for generation, _ in events)
    commits = [place for place, each in enumerate(events) if isinstance(each.event, EpochCommitted)]
    last = {events[place].generation: place for place in commits}
    missed = [place for place in commits if place not in last.values() or place == last.get(newest)]
    assert missed
    assert {judged(without(events, place)).property for place in missed} == {"CommitEvery"}


def test_a_later_number_is_of_a_later_epoch_whoever_wrote_it() -> None:
    events = list(happened(WORLDS[0]))
    places = [place for place, each in enumerate(events) if isinstance(each.event, EpochCommitted)]
    assert len(places) > 2
    first, *_, last = (events[place] for place in places)
    assert isinstance(first.event, EpochCommitted)
    assert isinstance(last.event, EpochCommitted)
    events[places[0]] = Happened(first.generation, EpochCommitted(last.event.number, first.event.epoch))
    events[places[-1]] = Happened(last.generation, EpochCommitted(first.event.number, last.event.epoch))
    verdict = judged(events)
    assert (verdict.status, verdict.property, verdict.event) == (Status.INVALID, "CommitsInOrder", None)
