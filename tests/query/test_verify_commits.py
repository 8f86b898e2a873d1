"""Nothing of a snapshot or a commit can be missing from what a judge is told without being missed.

Families, and what only each can find:
- *left out*: from what a judge was told of a right run, each snapshot of each operator, and each commit, is
  left out in turn, and each time the rule that says so must be broken. Only this finds a rule that looks at
  the newest epoch and lets those before it pass;
- *told twice*: the same for a commit that is told again;
- *as it was*: the same messages as they are break nothing, so that the others are found for what is missing.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.driver.event_reports import decode_events
from pointstamp.flow.plan import Plan
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from pointstamp.verify.abstract_state import BrokenError
from pointstamp.verify.verifier_process import Bench, CommitTold, End, Said, Take
from pointstamp.worker.events import Event, SnapshotTaken
from query.test_verify import InlineJudge, inputs_of
from support.recoverables import FLOWS

EPOCHS = 7
WORKERS = 2


class Recording(InlineJudge):
    """Keeps everything that it is told."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(plan, folder)
        self.said: list[Said] = []

    def _follow(self, said: Said) -> None:
        self.said.append(said)
        super()._follow(said)


@pytest.fixture(scope="module", params=["as it came", "commits last"])
def told(request: pytest.FixtureRequest, recorded: list[Said]) -> list[Said]:
    """What a judge is told of a right run; commits may be told long after what they rest on."""
    if request.param == "as it came":
        return recorded
    events = [said for said in recorded if not isinstance(said, CommitTold)]
    assert isinstance(events[-1], End)
    return [*events[:-1], *(said for said in recorded if isinstance(said, CommitTold)), events[-1]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """What a judge is told of a right run that commits every epoch."""
    folder = tmp_path_factory.mktemp("told")
    flow = FLOWS["running"]()
    judge = Recording(flow.plan, folder)
    sink = ParquetSink(str(folder / "out"))
    inputs = inputs_of(flow, EPOCHS)
    spec = QuerySpec(flow.plan, inputs, sink, MemoryStorage(), WORKERS, "tested", judge=judge)
    Supervisor(spec, InProcessLauncher()).run()
    assert judge._finding is None
    return judge.said


def verdict_of(said: Sequence[Said], folder: Path) -> str:
    """The property that is broken, or ""."""
    bench = Bench(folder / "trace")
    try:
        for each in said:
            bench.follow(each)
    except BrokenError as rule:
        return rule.property
    finally:
        bench.close()
    return ""


def without_event(told: Sequence[Said], place: int, number: int) -> list[Said]:
    take = told[place]
    assert isinstance(take, Take)
    events = decode_events(take.events)
    del events[number]
    return [*told[:place], Take(take.worker, msgspec.msgpack.encode(events)), *told[place + 1 :]]


def snapshots_in(told: Sequence[Said]) -> list[tuple[int, int, Event]]:
    return [
        (place, number, event)
        for place, said in enumerate(told)
        if isinstance(said, Take)
        for number, event in enumerate(decode_events(said.events))
        if isinstance(event, SnapshotTaken)
    ]


def commits_in(told: Sequence[Said]) -> list[int]:
    return [place for place, said in enumerate(told) if isinstance(said, CommitTold)]


def test_what_was_told_is_right_as_it_is(told: list[Said], tmp_path: Path) -> None:
    assert verdict_of(told, tmp_path) == ""
    assert len(commits_in(told)) == EPOCHS
    operators = {event.operator for _, _, event in snapshots_in(told) if isinstance(event, SnapshotTaken)}
    assert len(snapshots_in(told)) == EPOCHS * WORKERS * len(operators) >= 42


def test_every_snapshot_that_is_left_out_is_missed(told: list[Said], tmp_path: Path) -> None:
    verdicts = {
        str(event): verdict_of(without_event(told, place, number), tmp_path)
        for place, number, event in snapshots_in(told)
    }
    assert {event: verdict for event, verdict in verdicts.items() if verdict != "CommitWhole"} == {}


def test_every_commit_that_is_left_out_is_missed(told: list[Said], tmp_path: Path) -> None:
    verdicts = [verdict_of([*told[:place], *told[place + 1 :]], tmp_path) for place in commits_in(told)]
    assert verdicts == ["CommitEvery"] * EPOCHS


def test_every_commit_that_is_told_again_is_refused(told: list[Said], tmp_path: Path) -> None:
    verdicts = [
        verdict_of([*told[: place + 1], told[place], *told[place + 1 :]], tmp_path)
        for place in commits_in(told)
    ]
    assert verdicts == ["CommitsInOrder"] * EPOCHS
