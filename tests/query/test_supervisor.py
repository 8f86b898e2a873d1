"""Queries in one process, from first tick to last: what is published is right, once, whatever happens.

- *Deaths*: the driver dies before or after each of its writes in turn; only this finds the moment between two
  writes at which something is lost or done twice.
- *Damage*: each stored object in turn is removed, cut or altered; the answer is right, or a refusal as text.
- *Two drivers*: the second takes over, and the first ends with that.
- *Failures*: of operators, of storage; once and always; budgets, pauses and words.
- *Stopping and going on*, *changed flows*, *other numbers of workers*.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.sink import Staged
from pointstamp.driver.messages import Report, Saved
from pointstamp.errors import FencedError, OperatorError, PointstampError, RecoveryError, StorageError
from pointstamp.query.crew import InProcessCrew, InProcessLauncher
from pointstamp.query.mission import Mission, QuerySpec
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.query.supervisor import Supervisor
from pointstamp.state import saved
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content, Storage
from support.recoverables import FLOWS, Published, Rows, expected, numbers, rows_of
from support.recovering import APART, TOGETHER, Died, Growing, MemorySink, Mortal, copied, spec_of
from support.storages import Through

WAIT_SECONDS_MAX = 180.0
QUICK = RestartPolicy(restarts_max=20, pause_seconds=0.0)


def run(spec: QuerySpec) -> Supervisor:
    supervisor = Supervisor(spec, InProcessLauncher())
    supervisor.run()
    return supervisor


def running(supervisor: Supervisor) -> "Future[None]":
    """Run it in a thread; the answer is how it ended."""
    ended: Future[None] = Future()

    def work() -> None:
        try:
            supervisor.run()
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    threading.Thread(target=work, daemon=True).start()
    return ended


# Deaths.


@pytest.mark.parametrize("is_done_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("how", [APART, TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("name", ["running", "carried", "uneven"])
def test_the_driver_may_die_at_any_of_its_writes(
    name: str, how: Mapping[str, int], is_done_first: bool
) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 5, seed=2)
    wanted = expected(flow, data)
    lives = 0
    while True:
        storage, sink = MemoryStorage(), MemorySink()
        mortal = Mortal(storage, lives, is_done_first)
        snapshots = SnapshotPolicy(epochs=2, chain_max=2)
        try:
            run(spec_of(flow, data, mortal, sink, snapshots=snapshots, **how))
        except Died:
            run(spec_of(flow, data, storage, sink, snapshots=snapshots, **how))
        assert sink.rows() == wanted, f"after {lives} writes"
        if mortal.lives >= 0:
            break
        lives += 1
    assert lives > (10 if how is APART else 5)


@pytest.mark.parametrize("name", ["delayed", "windows", "reminders"])
def test_epochs_without_input_are_finished_after_a_death_too(name: str) -> None:
    flow = FLOWS[name]()
    rows = numbers([(1, 1), (2, 2)])
    data = [{"numbers": rows if epoch < 2 else rows[:0]} for epoch in range(5)]
    wanted = expected(flow, data)
    for lives in range(1, 40):
        storage, sink = MemoryStorage(), MemorySink()
        try:
            run(spec_of(flow, data, Mortal(storage, lives), sink))
        except Died:
            run(spec_of(flow, data, storage, sink))
        assert sink.rows() == wanted, f"after {lives} writes"


def test_the_driver_may_die_again_and_again() -> None:
    flow = FLOWS["components"]()
    data = rows_of(flow, 8, seed=4)
    storage, sink = MemoryStorage(), MemorySink()
    for lives in range(7, 60):
        try:
            run(spec_of(flow, data, Mortal(storage, lives, lives % 2 == 0), sink, workers=1 + lives % 3))
            break
        except Died:
            continue
    assert sink.rows() == expected(flow, data)


@dataclass(frozen=True)
class DeadlySink(MemorySink):
    """The driver dies before or after commits with these numbers are visible, once each."""

    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)

    def publish(self, number: int, epochs_through: int, staged: object) -> None:
        if number in self.before:
            self.before.remove(number)
            raise Died
        super().publish(number, epochs_through, staged)  # type: ignore[arg-type]
        if number in self.after:
            self.after.remove(number)
            raise Died


def test_a_death_beside_a_publication_neither_loses_nor_repeats_it() -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 6, seed=1)
    storage, sink = MemoryStorage(), DeadlySink(before={1, 3}, after={2, 3})
    for _ in range(4):
        with pytest.raises(Died):
            run(spec_of(flow, data, storage, sink))
    run(spec_of(flow, data, storage, sink))
    assert sink.rows() == expected(flow, data)


# Damage.


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _altered(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


@dataclass
class ReadsCounted(Through):
    """A storage that counts how often each object is read."""

    reads: Counter[str] = field(default_factory=Counter)

    def read(self, name: str) -> bytes:
        self.reads[name] += 1
        return self.inner.read(name)


def _refusal(spec: QuerySpec) -> str | None:
    try:
        run(spec)
    except (RecoveryError, StorageError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("how", [None, _cut, _altered], ids=["removed", "cut", "altered"])
@pytest.mark.parametrize("is_published", [False, True])
def test_damage_is_repaired_or_refused_and_never_shows(
    how: Callable[[bytes], bytes] | None, is_published: bool
) -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 9, seed=6)
    wanted = expected(flow, data)
    storage = MemoryStorage()
    deadly = DeadlySink(after={6}) if is_published else DeadlySink(before={6})
    snapshots = SnapshotPolicy(epochs=1, chain_max=2, keep=2)
    with pytest.raises(Died):
        run(spec_of(flow, data, storage, deadly, snapshots=snapshots))
    repaired = refused = 0
    for name in storage.list():
        there, sink = copied(storage), MemorySink(deadly.shelf.copy())
        if how is None:
            there.delete(name)
        else:
            there.write(name, how(there.read(name)))
        refusal = _refusal(spec_of(flow, data, there, sink, snapshots=snapshots))
        if refusal is None:
            repaired += 1
            assert sink.rows() == wanted, f"{name} was damaged, and nobody noticed"
        else:
            refused += 1
            assert name in refusal or "last entries of the journal are lost" in refusal
            assert all(wanted[place] == rows for place, rows in sink.rows().items())
    assert repaired > 4
    assert refused > 4


def test_parts_that_are_whole_are_read_by_the_members_that_go_on_from_them_and_by_nobody_else() -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 9, seed=6)
    storage, sink = MemoryStorage(), DeadlySink(after={6})
    snapshots = SnapshotPolicy(epochs=1, chain_max=2, keep=2)
    with pytest.raises(Died):
        run(spec_of(flow, data, storage, sink, snapshots=snapshots))
    counted = ReadsCounted(storage)
    run(spec_of(flow, data, counted, sink, snapshots=snapshots))
    assert sink.rows() == expected(flow, data)
    parts = {name: reads for name, reads in counted.reads.items() if name.startswith("snapshots/")}
    assert len(parts) > 1
    assert set(parts.values()) == {1}


def test_epochs_that_are_computed_again_are_not_published_again(caplog: pytest.LogCaptureFixture) -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 9, seed=6)
    storage, sink = MemoryStorage(), DeadlySink(after={6})
    snapshots = SnapshotPolicy(epochs=1, chain_max=4, keep=2)
    with pytest.raises(Died):
        run(spec_of(flow, data, storage, sink, snapshots=snapshots))
    storage.delete(storage.list("snapshots/000000000006-")[0])
    run(spec_of(flow, data, storage, sink, snapshots=snapshots))
    assert sink.rows() == expected(flow, data)
    (line,) = [
        each.getMessage() for each in caplog.records if "resumes from the snapshot" in each.getMessage()
    ]
    assert "snapshot of epoch 5; epochs up to 6 are recomputed, but not published again" in line
    # And what was saved after that does not rest on what is damaged.
    caplog.clear()
    run(spec_of(flow, [*data, *data], storage, sink, snapshots=snapshots))
    assert sink.rows() == expected(flow, [*data, *data])
    assert not [each for each in caplog.records if "resumes from the snapshot" in each.getMessage()]


# Two drivers.


def test_the_second_driver_takes_over_and_the_first_ends_with_that() -> None:
    flow = FLOWS["running"]()
    storage, sink, source = MemoryStorage(), MemorySink(), Growing()
    data = rows_of(flow, 8, seed=8)
    source.batches.extend(each["numbers"] for each in data[:4])
    spec = spec_of(flow, data, storage, sink, sources={"numbers": source})
    first, second = Supervisor(spec, InProcessLauncher()), Supervisor(spec, InProcessLauncher())
    first_ended = running(first)
    first.drained().result(WAIT_SECONDS_MAX)
    second_ended = running(second)
    second.wait_until_ready()
    source.batches.extend(each["numbers"] for each in data[4:])
    with pytest.raises(FencedError, match="generation 1 may write nothing more"):
        first_ended.result(WAIT_SECONDS_MAX)
    published_by_first = first.committed_epoch
    second.drained().result(WAIT_SECONDS_MAX)
    source.is_ended = True
    second_ended.result(WAIT_SECONDS_MAX)
    assert published_by_first == 3
    assert sink.rows() == expected(flow, data)
    with pytest.raises(RecoveryError, match="has ended"):
        first.drained().result(WAIT_SECONDS_MAX)


def test_a_driver_that_was_replaced_and_has_nothing_to_write_is_told_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pointstamp.query.supervisor.SUCCESSOR_SECONDS", 0.1)
    flow = FLOWS["running"]()
    storage, sink, source = MemoryStorage(), MemorySink(), Growing()
    data = rows_of(flow, 2, seed=8)
    source.batches.extend(each["numbers"] for each in data)
    spec = spec_of(flow, data, storage, sink, sources={"numbers": source})
    first, second = Supervisor(spec, InProcessLauncher()), Supervisor(spec, InProcessLauncher())
    first_ended = running(first)
    first.drained().result(WAIT_SECONDS_MAX)
    second_ended = running(second)
    with pytest.raises(FencedError, match="generation 1 may write nothing more"):
        first_ended.result(WAIT_SECONDS_MAX)
    source.is_ended = True
    second_ended.result(WAIT_SECONDS_MAX)
    assert sink.rows() == expected(flow, data)


def test_a_driver_that_was_replaced_removes_nothing_of_its_successor() -> None:
    from pointstamp.query.recovery import begin_generation
    from pointstamp.query.savepoints import remove_unneeded

    flow = FLOWS["running"]()
    data = rows_of(flow, 4, seed=8)
    storage, sink = MemoryStorage(), MemorySink()
    spec = spec_of(flow, data, storage, sink)
    old = begin_generation(spec, "the old one", 0.0)
    run(spec)
    kept = storage.list("snapshots/")
    storage.create("snapshots/of somebody else", b"?")
    remove_unneeded(spec, old.ledger, old.generation)
    assert storage.list("snapshots/") == [*kept, "snapshots/of somebody else"]


# Failures.


class Fails:
    """Fails when it is given 13: so many times, over all workers and generations of this process."""

    outputs = "k long, v long"
    left: ClassVar[dict[str, int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if 13 in batch.column("k").to_pylist() and self.left["times"] > 0:
            self.left["times"] -= 1
            raise ValueError("thirteen")
        context.send(batch)


def _failing(times: int) -> tuple[ps.Dataflow, list[Rows]]:
    Fails.left["times"] = times
    flow = ps.Dataflow("failing")
    flow.output("out", ps.operator("fails", Fails(), x=flow.stream_input("numbers", "k long, v long")))
    return flow, [{"numbers": numbers([(k, 1)])} for k in (1, 2, 13, 4)]


def _rows_of_failing(data: list[Rows]) -> Published:
    return {
        ("out", epoch): [tuple(row.values()) for row in each["numbers"].to_pylist()]
        for epoch, each in enumerate(data)
    }


def test_a_failure_that_does_not_come_again_is_gone_over(caplog: pytest.LogCaptureFixture) -> None:
    flow, data = _failing(times=1)
    sink = MemorySink()
    supervisor = run(spec_of(flow, data, MemoryStorage(), sink, restarts=QUICK))
    assert sink.rows() == _rows_of_failing(data)
    assert supervisor.restarts == 1
    (line,) = [each.getMessage() for each in caplog.records]
    assert "operator 'fails' failed" in line
    assert "as generation 2 (restart 1 of at most 20)" in line


def test_a_failure_that_comes_again_without_progress_ends_the_query_with_itself() -> None:
    flow, data = _failing(times=1000)
    sink = MemorySink()
    supervisor = Supervisor(spec_of(flow, data, MemoryStorage(), sink, restarts=QUICK), InProcessLauncher())
    with pytest.raises(OperatorError, match=r"operator 'fails' failed .* ValueError: thirteen"):
        supervisor.run()
    assert Fails.left["times"] <= 1000 - 2
    assert supervisor.restarts <= 2
    assert supervisor.phase == "ended"


def test_without_restarts_the_first_failure_ends_the_query() -> None:
    flow, data = _failing(times=1)
    with pytest.raises(OperatorError, match="thirteen"):
        run(spec_of(flow, data, MemoryStorage(), MemorySink(), restarts=RestartPolicy(restarts_max=0)))


@dataclass
class FullDisk(Mortal):
    """Stores no part of a snapshot, so many times."""

    lives: int = 1 << 60
    refusals: int = 1

    def create(self, name: str, content: Content) -> None:
        if name.startswith("snapshots/") and self.refusals > 0:
            self.refusals -= 1
            raise StorageError(f"'{name}' could not be written: no space left on device.")
        self.inner.create(name, content)


def test_a_disk_that_was_full_once_is_gone_over() -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 4, seed=3)
    sink = MemorySink()
    run(spec_of(flow, data, FullDisk(MemoryStorage()), sink, restarts=QUICK))
    assert sink.rows() == expected(flow, data)


@dataclass(frozen=True)
class RefusingSink(MemorySink):
    """Publishes nothing, so many times in a row, from this commit on."""

    refusals: list[int] = field(default_factory=list)

    def publish(self, number: int, epochs_through: int, staged: object) -> None:
        if self.refusals and number == self.refusals[0]:
            self.refusals.pop(0)
            raise StorageError(f"commit {number} could not be published: the server does not answer.")
        super().publish(number, epochs_through, staged)  # type: ignore[arg-type]


@pytest.mark.parametrize("refusals", [1, 2, 4])
def test_a_sink_that_refuses_several_times_in_a_row_is_gone_over(refusals: int) -> None:
    # The second refusal falls into the beginning of a generation, which is in the journal by then: the next
    # try took it for the one of another driver, and the query ended as if it had been replaced by itself.
    flow = FLOWS["running"]()
    data = rows_of(flow, 4, seed=3)
    sink = RefusingSink(refusals=[1] * refusals)
    run(spec_of(flow, data, MemoryStorage(), sink, restarts=QUICK))
    assert sink.rows() == expected(flow, data)


def test_a_disk_that_stays_full_ends_the_query_in_words(caplog: pytest.LogCaptureFixture) -> None:
    flow = FLOWS["running"]()
    restarts = RestartPolicy(restarts_max=3, pause_seconds=0.0)
    disk = FullDisk(MemoryStorage(), refusals=1 << 60)
    with pytest.raises(
        RecoveryError, match=r"after 3 restarts: .*no space left on device.* epoch -1 is published\. Start"
    ):
        run(spec_of(flow, rows_of(flow, 4, seed=3), disk, MemorySink(), restarts=restarts))
    assert "no space left on device" in caplog.text


def test_a_query_that_cannot_begin_says_so_each_time_before_it_gives_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flow = FLOWS["running"]()

    class Away(MemoryStorage):
        def list(self, prefix: str = "") -> list[str]:
            raise StorageError("the store does not answer.")

    restarts = RestartPolicy(restarts_max=3, pause_seconds=0.0)
    with pytest.raises(RecoveryError, match="after 3 restarts: the store does not answer"):
        run(spec_of(flow, rows_of(flow, 1, seed=3), Away(), MemorySink(), restarts=restarts))
    assert caplog.text.count("failed: the store does not answer; it restarts in") == 2


def test_whoever_stops_a_query_does_not_wait_for_its_pause() -> None:
    flow = FLOWS["running"]()
    restarts = RestartPolicy(restarts_max=3, pause_seconds=3600.0, pause_seconds_max=3600.0)
    disk = FullDisk(MemoryStorage(), refusals=1 << 60)
    data = rows_of(flow, 4, seed=3)
    supervisor = Supervisor(spec_of(flow, data, disk, MemorySink(), restarts=restarts), InProcessLauncher())
    ended = running(supervisor)
    waiting = threading.Event()
    while not supervisor.phase.startswith("restarting: "):
        assert not ended.done()
        waiting.wait(0.001)
    supervisor.stop(finish=False)
    ended.result(WAIT_SECONDS_MAX)


# Stopping and going on.


@pytest.mark.parametrize("finish", [True, False])
def test_a_query_that_was_stopped_goes_on_where_it_was(finish: bool) -> None:
    flow = FLOWS["windows"]()
    data = rows_of(flow, 12, seed=9)
    wanted = expected(flow, data)
    storage, sink, source = MemoryStorage(), MemorySink(), Growing()
    source.batches.extend(each["numbers"] for each in data[:6])
    policy = SnapshotPolicy(epochs=3)
    spec = spec_of(flow, data, storage, sink, sources={"numbers": source}, snapshots=policy)
    supervisor = Supervisor(spec, InProcessLauncher())
    ended = running(supervisor)
    supervisor.wait_until_ready()
    supervisor.stop(finish=finish)
    ended.result(WAIT_SECONDS_MAX)
    assert all(wanted[place] == rows for place, rows in sink.rows().items())
    if finish:
        assert storage.list("journal/"), "there is something to resume from"
    source.batches.extend(each["numbers"] for each in data[6:])
    source.is_ended = True
    run(spec)
    assert sink.rows() == wanted


def test_a_query_that_has_come_to_its_end_goes_on_when_there_is_more() -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 6, seed=1)
    storage, sink = MemoryStorage(), MemorySink()
    for known in (2, 2, 5, 6):
        run(spec_of(flow, data[:known], storage, sink))
        assert sink.rows() == expected(flow, data[:known])


def test_a_call_after_the_end_is_answered() -> None:
    flow = FLOWS["running"]()
    supervisor = run(spec_of(flow, rows_of(flow, 2, seed=1), MemoryStorage(), MemorySink()))
    for answer in (supervisor.call(lambda _: 1), supervisor.drained()):
        with pytest.raises(RecoveryError, match="query 'running' has ended"):
            answer.result(WAIT_SECONDS_MAX)


def test_an_answer_that_nobody_wants_any_more_disturbs_nobody() -> None:
    flow = FLOWS["running"]()
    supervisor = Supervisor(
        spec_of(flow, rows_of(flow, 2, seed=1), MemoryStorage(), MemorySink()), InProcessLauncher()
    )
    assert supervisor.call(lambda _: 1).cancel()
    drained = supervisor.drained()
    assert drained.cancel()
    supervisor.run()
    assert supervisor.committed_epoch == 1


@pytest.mark.parametrize("name", ["running", "components"])
def test_each_start_may_have_another_number_of_workers(name: str) -> None:
    flow = FLOWS[name]()
    data = rows_of(flow, 9, seed=5)
    storage, sink = MemoryStorage(), MemorySink()
    for known, workers in ((3, 1), (6, 3), (9, 2)):
        run(spec_of(flow, data[:known], storage, sink, workers=workers))
    assert sink.rows() == expected(flow, data)


@dataclass(frozen=True)
class CountingSink(MemorySink):
    """Counts objects of a storage at each commit."""

    storage: Storage = field(default_factory=MemoryStorage)
    counts: list[int] = field(default_factory=list)

    def publish(self, number: int, epochs_through: int, staged: object) -> None:
        super().publish(number, epochs_through, staged)  # type: ignore[arg-type]
        if number % 50 == 0:
            self.counts.append(len(self.storage.list()))


@pytest.mark.long
def test_a_checkpoint_stays_small_over_two_thousand_epochs() -> None:
    flow = FLOWS["running"]()
    data = [{"numbers": numbers([(epoch % 5, 1)])} for epoch in range(2000)]
    storage = MemoryStorage()
    sink = CountingSink(storage=storage)
    forgotten: list[int] = []
    policy = SnapshotPolicy(epochs=1, chain_max=16, keep=2)
    run(
        spec_of(
            flow,
            data,
            storage,
            sink,
            workers=1,
            snapshots=policy,
            forget=lambda ticks: forgotten.extend(tick.number for tick in ticks),
        )
    )
    # Since the last summary: at most 256 entries, and a part for each commit among them.
    assert max(sink.counts) < 256 + 128 + 3 * 16 + 16
    assert forgotten == list(range(len(forgotten)))
    assert len(forgotten) > 1600
    assert len(sink.rows()) == 2000


# Changed flows.


def _flow(name: str = "count", *, kind: str = "long", more: bool = False) -> ps.Dataflow:
    flow = ps.Dataflow("changed")
    words = flow.stream_input("numbers", "k long, v long")
    flow.output("out", ps.operator(name, Adds(), outputs=f"k long, n {kind}", x=words.exchange("k")))
    if more:
        flow.output("more", words.group_by("k", running=True).count().named("new"))
    return flow


class Adds:
    state: ClassVar = {"sums": saved.mapping("long", int)}

    def __init__(self) -> None:
        self.sums: dict[int, int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        for row in batch.to_pylist():
            self.sums[row["k"]] = self.sums.get(row["k"], 0) + row["v"]
            context.send([{"k": row["k"], "n": self.sums[row["k"]]}])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (_flow(more=True), "operator new is new; output more is new"),
        (_flow(kind="int"), r"operator count: columns of 'out' was k int64, n int64, is k int"),
    ],
    ids=["added", "retyped"],
)
def test_a_changed_flow_is_refused_before_it_has_fenced_anybody(changed: ps.Dataflow, words: str) -> None:
    data = [{"numbers": numbers([(1, 2), (2, 3)])}]
    storage, sink = MemoryStorage(), MemorySink()
    run(spec_of(_flow(), data, storage, sink))
    before = storage.list()
    with pytest.raises(RecoveryError, match=words):
        run(spec_of(changed, [*data, *data], storage, sink))
    assert storage.list() == before


def test_an_accepted_change_resumes_with_what_is_still_there_and_is_remembered() -> None:
    data = [{"numbers": numbers([(1, 2)])} for _ in range(3)]
    storage, sink = MemoryStorage(), MemorySink()
    run(spec_of(_flow(more=True), data[:1], storage, sink))
    run(spec_of(_flow(), data[:2], storage, sink, accept_changes=True))
    run(spec_of(_flow(), data[:3], storage, sink))
    assert sink.rows() == {
        ("out", 0): [(1, 2)],
        ("out", 1): [(1, 4)],
        ("out", 2): [(1, 6)],
        ("more", 0): [(1, 1)],
    }


def test_an_output_that_lost_its_journal_is_refused() -> None:
    flow = FLOWS["running"]()
    data = rows_of(flow, 3, seed=1)
    sink = MemorySink()
    run(spec_of(flow, data, MemoryStorage(), sink))
    with pytest.raises(PointstampError, match="has commits up to epoch -1 only"):
        run(spec_of(flow, data, MemoryStorage(), sink))


# Stopping at once.


class Together(InProcessCrew):
    """A crew whose reports arrive together, as those of a worker that is faster than the sink do."""

    def __init__(self, mission: Mission, saves: int) -> None:
        super().__init__(mission)
        self._held: list[tuple[int, Report]] = []
        self._saves = saves

    def collect(self) -> list[tuple[int, Report]]:
        came = super().collect()
        self._held += [each for each in came if isinstance(each[1], Saved)]
        others = [each for each in came if not isinstance(each[1], Saved)]
        if len(self._held) < self._saves:
            return others
        held, self._held = self._held, []
        return [*others, *held]


def test_a_query_that_is_told_to_end_at_once_ends_after_the_publication_in_hand() -> None:
    class Slow(MemorySink):
        def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
            super().publish(number, epochs_through, staged)
            supervisor.stop(finish=False)

    class Launcher:
        def launch(self, mission: Mission) -> Together:
            return Together(mission, 6)

    flow = FLOWS["running"]()
    data = rows_of(flow, 6, seed=2)
    sink = Slow()
    spec = spec_of(flow, data, MemoryStorage(), sink, snapshots=SnapshotPolicy(epochs=1), **APART)
    supervisor = Supervisor(spec, Launcher())
    supervisor.run()
    assert supervisor.committed_number == 0
    assert {epoch for _, epoch in sink.rows()} <= {0}
