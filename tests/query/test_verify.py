"""Queries that are judged while they run.

Families, and what only each can find:
- *right runs*, with the judge in its own process: that everything is judged to the end, also over a killed
  worker and a restart from a snapshot, and that nothing is found where nothing is wrong;
- *snapshots broken on purpose*: each mutant switches one condition of a consistent cut off, and is caught by
  the property that says so. Only this finds a rule about snapshots that never looks;
- *broken runtimes*: that what ends the query says which property, and leaves a trace to be judged again;
- *judges that fail*: killed, or told nonsense. Only this finds a query that continues unverified;
- *holding back* (with a judge of the test's own): that what was not judged is not believed, that a judge who
  is far behind lets no tick in, and when members are asked to tell everything.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.memory import Rows
from pointstamp.connectors.published.reader import published_now, read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.source import Part
from pointstamp.driver import event_reports
from pointstamp.driver.event_reports import EventTeller, TellRows
from pointstamp.driver.local_run import LocalTransport
from pointstamp.driver.messages import EventsTold, Finished, Progressed, Report, Saved
from pointstamp.errors import InternalError
from pointstamp.flow.plan import Plan
from pointstamp.journal.history import PartSaved
from pointstamp.order.frontier import MutableAntichain
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.direct import DirectBroadcast
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.query import observation
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.observation import Finding, Standing, Verification
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from pointstamp.topology.ports import OperatorIndex
from pointstamp.verify import trace
from pointstamp.verify.abstract_state import BrokenError
from pointstamp.verify.conformance import Status
from pointstamp.verify.plan_shape import shape_of
from pointstamp.verify.verifier import JudgeProcess
from pointstamp.verify.verifier_process import Begin, Bench, CommitTold, Cut, End, Said, Spool, Take
from pointstamp.worker import snapshots, worker
from pointstamp.worker.events import MessagePulled, SnapshotTaken
from pointstamp.worker.input import InputHandle
from pointstamp.worker.instance import Instance
from pointstamp.worker.protocols import DataMessage, Message
from pointstamp.worker.worker import Worker
from support.options import with_options
from support.recoverables import FLOWS, expected, rows_of

Patch = pytest.MonkeyPatch
SECONDS_MAX = 300.0
EPOCHS = 12


@dataclass(frozen=True, slots=True)
class Deadly:
    """Rows that kill the process that reads a certain batch, the first time."""

    rows: Rows
    marker: str
    batch: str
    units_per_tick: int | None = 1

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is as the rows have it
        return getattr(self.rows, name)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if part.locator == self.batch and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.rows.read(part, schema)


def word_count() -> ps.Dataflow:
    flow = ps.Dataflow("words")
    lines = flow.stream_input("lines", "line string")
    words = lines.flat_map(lambda row: [{"word": word} for word in row["line"].split()], "word string")
    flow.output("counts", words.group_by("word", running=True).count())
    return flow


def lines(epochs: int) -> tuple[pa.RecordBatch, ...]:
    return tuple(
        pa.record_batch({"line": [f"{word} the {epoch % 5}" for word in ("a", "b", "c", "d")]})
        for epoch in range(epochs)
    )


def inputs_of(flow: ps.Dataflow, epochs: int = EPOCHS) -> dict[str, Any]:
    data = rows_of(flow, epochs, 3)
    return {name: Rows(tuple(each[name] for each in data)) for name in data[0]}


# Right runs.


def test_a_word_count_in_two_processes_is_verified_to_its_end(tmp_path: Path) -> None:
    query = word_count().start(
        {"lines": Rows(lines(8))},
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
        processes=2,
        options=ps.QueryOptions(verify=True),
    )
    assert query.await_termination(SECONDS_MAX)
    assert query.last_progress is not None
    assert query.last_progress["verifiedEvents"] > 8 * 10
    assert published_now(str(tmp_path / "out")).epochs_through == 7


def test_without_verify_nothing_is_told_of_it(tmp_path: Path) -> None:
    query = word_count().start(
        {"lines": Rows(lines(2))}, checkpoint=str(tmp_path / "checkpoint"), output=str(tmp_path / "out")
    )
    assert query.await_termination(SECONDS_MAX)
    assert query.last_progress is not None
    assert "verifiedEvents" not in query.last_progress


@pytest.mark.parametrize("name", ["components", "delayed", "windows", "walked"])
def test_a_run_that_goes_on_from_a_snapshot_and_loses_a_worker_is_verified(name: str, tmp_path: Path) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, EPOCHS, 3)
    rows = tuple(each["numbers"] for each in data)
    where: dict[str, Any] = {
        "checkpoint": str(tmp_path / "checkpoint"),
        "output": str(tmp_path / "out"),
        "verify": True,
    }
    first = flow.start({"numbers": Rows(rows[:5])}, **with_options(where), workers=2, available_now=True)
    assert first.awaitTermination(SECONDS_MAX)
    deadly = Deadly(Rows(rows), str(tmp_path / "dead"), "8")
    query = flow.start({"numbers": deadly}, **with_options(where), processes=2)
    assert query.await_termination(SECONDS_MAX)
    assert query.restarts == 1
    assert query.last_progress is not None
    assert query.last_progress["verifiedEvents"] > 0
    (output,) = flow.plan.output_schemas()
    table = read_changes(where["output"], output)
    found = sorted(tuple(row.values()) for row in table.to_pylist())
    wanted = expected(flow, data, to_the_end=True)
    assert found == sorted((epoch, *row) for (_, epoch), rows in wanted.items() for row in rows)


# A judge in this process, so that mutants cost little.


class InlineJudge:
    """Judges at once, where it is told."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._path = folder / "trace"
        self._bench = Bench(self._path)
        self._finding: Finding | None = None
        self._read, self._write = os.pipe()

    def begin(self, generation: int, workers: int, *, restored: int, committed: int) -> None:
        operators = tuple(int(node.index) for node in self._plan.nodes if not node.kind.is_door)
        shape = shape_of(self._plan)
        self._follow(Begin(self._plan.name, shape, operators, generation, workers, restored, committed))

    def take(self, worker: int, events: bytes) -> None:
        self._follow(Take(worker, events))

    def cut(self) -> None:
        self._follow(Cut())

    def committed(self, epoch: int) -> None:
        self._follow(CommitTold(epoch))

    def end(self) -> None:
        self._follow(End())

    def standing(self) -> Standing:
        stands = self._bench.stands()
        assert stands is not None
        return Standing(stands.judged, stands.waiting, stands.is_over, self._finding)

    def fileno(self) -> int:
        return self._read

    def close(self) -> None:
        self._bench.close()
        os.close(self._read)
        os.close(self._write)

    def _follow(self, said: Said) -> None:
        if self._finding is not None:
            return
        try:
            self._bench.follow(said)
        except BrokenError as rule:
            self._finding = Finding(self._bench.found(rule).words, self._path.read_bytes())


def run(
    flow: ps.Dataflow, inputs: dict[str, Any], tmp_path: Path, storage: MemoryStorage | None = None
) -> MemoryStorage:
    """A query on two workers in this process, judged at once."""
    storage = storage or MemoryStorage()
    judge = InlineJudge(flow.plan, tmp_path)
    sink = ParquetSink(str(tmp_path / "out"))
    spec = QuerySpec(flow.plan, inputs, sink, storage, 2, "tested", judge=judge)
    Supervisor(spec, InProcessLauncher()).run()
    return storage


@pytest.mark.parametrize("name", FLOWS)
def test_every_recoverable_flow_is_right_and_goes_on_right(name: str, tmp_path: Path) -> None:
    flow = FLOWS[name]()
    storage = run(flow, inputs_of(flow, 6), tmp_path)
    run(flow, inputs_of(flow, 12), tmp_path, storage)
    assert published_now(str(tmp_path / "out")).epochs_through == 11


# Snapshots broken on purpose.


class Lazy:
    """Keeps the capability of an epoch until the next one has come: it cannot be saved in between."""

    outputs = "k long, v long"

    def __init__(self) -> None:
        self.held: dict[int, ps.timely.Capability] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self.held = {epoch: kept for epoch, kept in self.held.items() if epoch == context.epoch}
        if context.epoch not in self.held:
            self.held[context.epoch] = context.retain()
        context.send(batch)


def lazy() -> ps.Dataflow:
    flow = ps.Dataflow("lazy")
    flow.output("out", ps.operator("lazy", Lazy(), rows=flow.stream_input("numbers", "k long, v long")))
    return flow


def a_snapshot_is_taken_whatever_may_come(patch: Patch) -> None:
    patch.setattr(snapshots, "_is_past", lambda instance, epoch, frontier: not instance.inbox)


def only_the_first_round_of_an_epoch_counts(patch: Patch) -> None:
    def is_past(instance: Instance, epoch: int, frontier: Callable[[Any], Sequence[Any]]) -> bool:
        ends = ((epoch, *(0,) * port.domain.rounds) for port in instance.inputs)
        return not instance.inbox and not any(
            port.domain.less_equal(time, end)
            for port, end in zip(instance.inputs, ends, strict=True)
            for time in frontier(port.location)
        )

    patch.setattr(snapshots, "_is_past", is_past)


def what_an_operator_owns_does_not_count(patch: Patch) -> None:
    def is_past(instance: Instance, epoch: int, frontier: Callable[[Any], Sequence[Any]]) -> bool:
        return not any(time[0] <= epoch for port in instance.inputs for time in frontier(port.location))

    patch.setattr(snapshots, "_is_past", is_past)


def snapshots_are_late(patch: Patch) -> None:
    """Right, and what makes the next two matter: nobody is saved before several epochs are let in."""
    look = snapshots.Snapshots.look

    def late(self: snapshots.Snapshots, *given: Any) -> list[Instance]:  # noqa: ANN401
        early = self._horizon is not None and self._horizon < EPOCHS - 4
        return [] if early else look(self, *given)

    patch.setattr(snapshots.Snapshots, "look", late)


def messages_of_later_epochs_are_not_held_back(patch: Patch) -> None:
    snapshots_are_late(patch)

    def put(self: Instance, port: int, time: Any, batch: pa.RecordBatch) -> bool:  # noqa: ANN401
        self.inbox.put(port, time, batch)
        return True

    patch.setattr(Instance, "put", put)


def frontiers_of_later_epochs_are_shown(patch: Patch) -> None:
    snapshots_are_late(patch)
    patch.setattr(Instance, "shown_frontier", lambda self, location: self._read_frontier(location))


def one_operator_is_not_saved(patch: Patch) -> None:
    take = snapshots.Snapshots._take

    def all_but_outputs(self: snapshots.Snapshots, instance: Instance, target: Any) -> None:  # noqa: ANN401
        if instance.node.kind.value == "output":
            instance.snapped = target.epoch
        else:
            take(self, instance, target)

    patch.setattr(snapshots.Snapshots, "_take", all_but_outputs)


def an_epoch_is_saved_again(patch: Patch) -> None:
    log = Worker._log_snapshot

    def twice(self: Worker, index: Any, epoch: int) -> None:  # noqa: ANN401
        log(self, index, epoch)
        log(self, index, epoch)

    patch.setattr(Worker, "_log_snapshot", twice)


@pytest.mark.parametrize(
    ("mutant", "flow", "caught_by"),
    [
        (a_snapshot_is_taken_whatever_may_come, FLOWS["joined"], "SnapshotNothingArrives"),
        (only_the_first_round_of_an_epoch_counts, FLOWS["uneven"], "SnapshotNothingArrives"),
        (what_an_operator_owns_does_not_count, lazy, "SnapshotOwnWorkDone"),
        (messages_of_later_epochs_are_not_held_back, FLOWS["joined"], "SnapshotHeldBack"),
        (frontiers_of_later_epochs_are_shown, FLOWS["judge"], "SnapshotHeldBack"),
        (one_operator_is_not_saved, FLOWS["running"], "CommitWhole"),
        (an_epoch_is_saved_again, FLOWS["running"], "SnapshotsInOrder"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_snapshot_is_caught_by(
    mutant: Callable[[Patch], None],
    flow: Callable[[], ps.Dataflow],
    caught_by: str,
    monkeypatch: Patch,
    tmp_path: Path,
) -> None:
    mutant(monkeypatch)
    broken = flow()
    with pytest.raises(InternalError, match=f"{caught_by} "):
        run(broken, inputs_of(broken), tmp_path)


@pytest.mark.parametrize("name", ["judge", "joined"])
def test_snapshots_that_are_late_are_right(name: str, monkeypatch: Patch, tmp_path: Path) -> None:
    snapshots_are_late(monkeypatch)
    flow = FLOWS[name]()
    run(flow, inputs_of(flow), tmp_path)
    assert published_now(str(tmp_path / "out")).epochs_through == EPOCHS - 1


def the_input_begins_with_the_epoch_that_is_saved(patch: Patch) -> None:
    def one_early(*given: Any, at: Any = None) -> InputHandle:  # noqa: ANN401
        return InputHandle(*given, at=None if at is None else at - 1)

    patch.setattr(worker, "InputHandle", one_early)


def the_first_capabilities_are_kept(patch: Patch) -> None:
    finish = Worker.finish

    def keep(self: Worker, instance: Instance, changes: list[Change]) -> None:
        outputs = {output.location for output in instance.outputs}
        finish(self, instance, [each for each in changes if each.location not in outputs])

    patch.setattr(Worker, "finish", keep)
    patch.setattr(Worker, "_log_capabilities", lambda self, least: None)


@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        (the_input_begins_with_the_epoch_that_is_saved, "NothingAfterSnapshot"),
        (the_first_capabilities_are_kept, "RestoredStart"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_restart_is_caught_by(
    mutant: Callable[[Patch], None], caught_by: str, monkeypatch: Patch, tmp_path: Path
) -> None:
    flow = FLOWS["running"]()
    storage = run(flow, inputs_of(flow, 4), tmp_path)
    mutant(monkeypatch)
    with pytest.raises(InternalError, match=f"{caught_by} .* in generation 2"):
        run(flow, inputs_of(flow, 8), tmp_path, storage)
    assert published_now(str(tmp_path / "out")).epochs_through == 3


# Broken runtimes.


def a_batch_is_applied_twice(patch: Patch) -> None:
    receive = DirectBroadcast.receive

    def twice(self: DirectBroadcast, batch: ProgressBatch) -> tuple[Change, ...]:
        return receive(self, batch) * (2 if batch.sender != self.worker else 1)

    patch.setattr(DirectBroadcast, "receive", twice)


def a_frontier_that_lost_an_element_stays(patch: Patch) -> None:
    update = MutableAntichain.update

    def only_joins(self: Any, element: Any, change: int) -> Any:  # noqa: ANN401 - as it is
        moved = update(self, element, change)
        return moved if len(moved) < 2 else [each for each in moved if each[1] > 0]

    patch.setattr(MutableAntichain, "update", only_joins)


@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [(a_batch_is_applied_twice, "PtsEqGlob"), (a_frontier_that_lost_an_element_stays, "Converged")],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_runtime_ends_the_query_with_a_trace_that_is_judged_alike(
    mutant: Callable[[Patch], None], caught_by: str, monkeypatch: Patch, tmp_path: Path
) -> None:
    mutant(monkeypatch)
    query = word_count().start(
        {"lines": Rows(lines(8))},
        checkpoint=str(tmp_path / "checkpoint"),
        output=str(tmp_path / "out"),
        workers=2,
        options=ps.QueryOptions(verify=True),
    )
    with pytest.raises(InternalError, match=f"{caught_by} ") as error:
        query.await_termination(SECONDS_MAX)
    (saved,) = (tmp_path / "checkpoint" / "verify").iterdir()
    assert f"verify/{saved.name}" in str(error.value)
    loaded = trace.load(saved)
    verdict = loaded.judged()
    assert verdict.status is Status.INVALID
    assert verdict.property == caught_by
    assert verdict.event == len(loaded.events) - 1


def test_a_message_that_comes_twice_is_to_blame_and_not_who_waits_for_it(
    monkeypatch: Patch, tmp_path: Path
) -> None:
    send = LocalTransport.send

    def twice(self: LocalTransport, peer: WorkerIndex, message: Message) -> None:
        for _ in range(2 if isinstance(message, DataMessage) else 1):
            send(self, peer, message)

    monkeypatch.setattr(LocalTransport, "send", twice)
    flow = FLOWS["joined"]()
    with pytest.raises(InternalError, match="RecvCapEnabled "):
        run(flow, inputs_of(flow), tmp_path)


def test_an_event_without_a_cause_is_found_also_when_nothing_else_happens_any_more(
    monkeypatch: Patch, tmp_path: Path
) -> None:
    """The last epoch is saved, everybody is idle, and only questions to all say that no cause will come."""
    log_snapshot = Worker._log_snapshot

    def forge(self: Worker, index: OperatorIndex, epoch: int) -> None:
        inputs = self.instances[index].inputs
        if self.worker == 0 and epoch == EPOCHS - 1 and inputs and self._log is not None:
            self._log.record(MessagePulled(self.worker, inputs[0].location, (epoch + 1,)))
        log_snapshot(self, index, epoch)

    monkeypatch.setattr(Worker, "_log_snapshot", forge)
    monkeypatch.setattr(observation, "ASK_SECONDS", 0.01)
    flow = FLOWS["running"]()
    with pytest.raises(InternalError, match="RecvCapEnabled "):
        run(flow, inputs_of(flow), tmp_path)
    through = published_now(str(tmp_path / "out")).epochs_through
    assert through is not None
    assert through < EPOCHS - 1


def test_of_many_events_the_last_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "trace", bytes_max=10_000)
    events = [SnapshotTaken(WorkerIndex(0), OperatorIndex(1), epoch) for epoch in range(1_000)]
    for event in events:
        spool.add(event)
    spool.save(trace.Header("flow", 1, shape_of(word_count().plan), "broken off", "", ""))
    kept = trace.load(tmp_path / "trace").events
    assert 50 < len(kept) < 200
    assert list(kept) == events[spool.dropped :]


# Judges that fail.


def test_a_query_whose_judge_is_killed_ends_and_says_so(tmp_path: Path) -> None:
    flow = word_count()
    judge = JudgeProcess(flow.plan)

    class Kills(Rows):
        """Kills the judge when the fifth batch is read, in this process."""

        def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            if part.locator == "4" and judge.pid is not None:
                os.kill(judge.pid, signal.SIGKILL)
            return Rows.read(self, part, schema)

    sink = ParquetSink(str(tmp_path / "out"))
    spec = QuerySpec(flow.plan, {"lines": Kills(lines(8))}, sink, MemoryStorage(), 1, "tested", judge=judge)
    with pytest.raises(
        InternalError, match=r"does not continue without it: process \d+ has ended with code -9"
    ):
        Supervisor(spec, InProcessLauncher()).run()
    assert judge.pid is None


def test_a_judge_that_does_not_understand_has_failed_and_says_what() -> None:
    judge = JudgeProcess(word_count().plan)
    judge.begin(1, 1, restored=-1, committed=-1)
    try:
        judge.take(0, b"nonsense")
        with pytest.raises(InternalError, match=r"the verifier of flow 'words' has failed[\s\S]*Error"):
            wait_for(judge, lambda standing: standing.is_over)
    finally:
        judge.close()


def test_the_process_of_a_judge_ends_with_it() -> None:
    judge = JudgeProcess(word_count().plan)
    judge.begin(1, 1, restored=-1, committed=-1)
    pid = judge.pid
    assert pid is not None
    judge.close()
    judge.close()
    with pytest.raises(ProcessLookupError, match="No such process"):
        os.kill(pid, 0)


def wait_for(judge: JudgeProcess, is_done: Callable[[Standing], bool]) -> Standing:
    verification = Verification(judge, MemoryStorage(), 1, 1)
    verification._wait(lambda: is_done(verification._standing))
    return verification._standing


# Holding back.


class StillJudge:
    """Judges nothing until the test says how it stands."""

    def __init__(self) -> None:
        self.stands = Standing((0, 0), 0)
        self.cuts = 0

    def begin(self, generation: int, workers: int, *, restored: int, committed: int) -> None: ...

    def take(self, worker: int, events: bytes) -> None: ...

    def cut(self) -> None:
        self.cuts += 1

    def committed(self, epoch: int) -> None: ...

    def end(self) -> None: ...

    def standing(self) -> Standing:
        return self.stands

    def fileno(self) -> int:
        return -1

    def close(self) -> None: ...


def under_judge() -> tuple[StillJudge, Verification]:
    judge = StillJudge()
    return judge, Verification(judge, MemoryStorage(), 1, 2)


def saved(epoch: int) -> Saved:
    return Saved(epoch, PartSaved("part", 1, 0), [], epoch)


def test_a_report_is_believed_when_what_happened_before_it_was_judged() -> None:
    judge, verification = under_judge()
    verification.observed(0, EventsTold(b"", 10))
    verification.hold(0, saved(0))
    verification.observed(0, EventsTold(b"", 5))
    verification.hold(0, saved(1))
    assert verification.verified() == []
    judge.stands = Standing((10, 0), 0)
    assert verification.verified() == [(0, saved(0))]
    assert verification.verified() == []
    judge.stands = Standing((15, 0), 0)
    assert verification.verified() == [(0, saved(1))]


def test_a_judge_that_is_far_behind_lets_no_tick_in_and_one_that_waits_does(monkeypatch: Patch) -> None:
    monkeypatch.setattr(observation, "BEHIND_EVENTS_MAX", 100)
    judge, verification = under_judge()
    verification.observed(1, EventsTold(b"", 101))
    had_room = []
    for standing in (Standing((0, 0), 0), Standing((0, 1), 0)):
        judge.stands = standing
        verification.verified()
        had_room.append(verification.has_room)
    verification.observed(0, EventsTold(b"", 500))
    had_room.append(verification.has_room)
    judge.stands = Standing((0, 1), 600)
    verification.verified()
    had_room.append(verification.has_room)
    assert had_room == [False, True, False, True]


def test_members_are_asked_to_tell_everything_while_something_waits_one_round_at_a_time(
    monkeypatch: Patch,
) -> None:
    monkeypatch.setattr(observation, "ASK_SECONDS", 0.0)
    judge, verification = under_judge()
    assert verification.question() is None
    judge.stands = Standing((0, 0), 3)
    verification.verified()
    first = verification.question()
    assert first is not None
    assert verification.question() is None
    verification.observed(0, EventsTold(b"", 0, first.number))
    assert judge.cuts == 0
    verification.observed(1, EventsTold(b"", 0, first.number))
    assert judge.cuts == 1
    second = verification.question()
    assert second != first


def test_a_report_that_waits_for_what_nobody_has_told_lets_members_be_asked_at_once() -> None:
    judge, verification = under_judge()
    verification.observed(0, EventsTold(b"", 10))
    judge.stands = Standing((9, 0), 1)
    verification.verified()
    assert verification.question() is None, "nothing is held back"
    verification.hold(0, saved(0))
    verification.observed(1, EventsTold(b"", 3))
    assert verification.question() is None, "the judge has not looked at everything"
    judge.stands = Standing((9, 3), 1)
    assert verification.verified() == []
    assert verification.question() is not None
    assert verification.question() is None, "not everybody has answered"


def appending(told: list[Any]) -> TellRows:
    def tell(report: Report, bodies: Sequence[Any] = (), /) -> None:
        assert not bodies
        told.append(report)

    return tell


def test_what_rests_on_no_event_is_told_at_once_and_alone() -> None:
    told: list[Any] = []
    teller = EventTeller(told.append)
    tell = teller.before(appending(told))
    teller.record(SnapshotTaken(WorkerIndex(0), OperatorIndex(1), 2))
    tell(Progressed(1, {}, {}))
    assert [type(each) for each in told] == [Progressed]
    tell(Finished())
    assert [type(each) for each in told] == [Progressed, EventsTold, Finished]


def test_a_member_without_work_tells_what_happened_after_a_moment(monkeypatch: Patch) -> None:
    now = [100.0]
    monkeypatch.setattr(event_reports, "monotonic", lambda: now[0])
    told: list[Any] = []
    teller = EventTeller(told.append)
    event = SnapshotTaken(WorkerIndex(0), OperatorIndex(1), 2)
    assert teller.rest() == inf, "there is nothing to tell"
    teller.record(event)
    assert teller.rest() == inf, "it was never told anything"
    assert len(told) == 1
    teller.record(event)
    assert teller.rest() == pytest.approx(event_reports.TELL_SECONDS)
    assert len(told) == 1
    now[0] += 2 * event_reports.TELL_SECONDS
    assert teller.rest() == inf
    assert len(told) == 2


def test_a_member_tells_what_happened_before_it_tells_what_rests_on_it() -> None:
    told: list[Any] = []
    teller = EventTeller(told.append)
    tell = teller.before(appending(told))
    event = SnapshotTaken(WorkerIndex(0), OperatorIndex(1), 2)
    teller.record(event)
    tell(saved(2))
    tell(saved(3))
    assert [type(each) for each in told] == [EventsTold, Saved, Saved]
    assert event_reports.decode_events(told[0].events) == [event]


def test_a_member_tells_many_events_without_being_idle() -> None:
    told: list[EventsTold] = []
    teller = EventTeller(told.append)
    event = SnapshotTaken(WorkerIndex(0), OperatorIndex(1), 2)
    for _ in range(event_reports.TOLD_TOGETHER_MAX + 1):
        teller.record(event)
    assert [each.count for each in told] == [event_reports.TOLD_TOGETHER_MAX]
