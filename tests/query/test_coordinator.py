"""The coordinator and its ledger, with members that a test plays itself.

- *The machine*: random offers, orders, answers, summaries, savepoints and deaths against a model that is a
  list of units; only this finds an order of events that loses or repeats one.
- *Flow control, intervals, trailing snapshots*: single decisions, with time as an argument.
- *Epoch columns*: rows of several epochs in one tick, through whole queries in one process.
"""

import threading
from collections import deque
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

import pointstamp as ps
from pointstamp.connectors.source import Unit
from pointstamp.driver.messages import Order, Progressed, Save, Saved, Tick
from pointstamp.errors import FlowError
from pointstamp.journal.history import Entry, Ticked
from pointstamp.journal.journal import Journal
from pointstamp.journal.ledger import Ledger
from pointstamp.journal.snapshot_parts import encode_part
from pointstamp.query.coordinator import Coordinator
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.query.recovery import begin_generation
from pointstamp.query.savepoints import remove_unneeded
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Storage
from pointstamp.worker.snapshots import WorkerSnapshot
from support.recovering import Died, Growing, MemorySink, Mortal, spec_of

WORKERS = 2
EPOCHS_MAX = 3


def _flow() -> ps.Dataflow:
    flow = ps.Dataflow("coordinated")
    flow.output("out", flow.stream_input("a", "x long").union(flow.stream_input("b", "x long")))
    return flow


class Played:
    """A member as the driver sees it: it follows orders, and answers when the test says so."""

    def __init__(self, number: int, writer: MemorySink, storage: MemoryStorage, generation: int) -> None:
        self.number = number
        self.orders: deque[Order] = deque()
        self.done_before = 0
        self.settled = -1
        self.rows: dict[int, list[int]] = {}
        self.saves: deque[tuple[int, bool]] = deque()
        self._writer = writer
        self._storage = storage
        self._generation = generation

    def work(self) -> None:
        order = self.orders.popleft()
        if isinstance(order, Tick):
            for name, parts in order.parts.items():
                rows = [int(part.locator) + (1000 if name == "b" else 0) for part in parts]
                self.rows.setdefault(order.number, []).extend(rows)
            self.done_before, self.settled = order.complete_to, order.number
        elif isinstance(order, Save):
            self.saves.append((self.done_before - 1, order.is_whole))

    def save(self) -> Saved:
        epoch, is_whole = self.saves.popleft()
        mine = {at: rows for at, rows in self.rows.items() if at <= epoch}
        for at in mine:
            del self.rows[at]
        staged = [
            piece
            for at, rows in mine.items()
            for piece in self._writer.stage("out", {at: [pa.record_batch({"x": rows})]})
        ]
        name = f"snapshots/{epoch:012d}-g{self._generation:06d}-worker-{self.number:05d}"
        snapshot = WorkerSnapshot(epoch, is_whole, {})
        part, content = encode_part(snapshot, self.number, WORKERS, name, "query")
        self._storage.create(name, content)
        return Saved(epoch, replace(part, size_bytes=100), staged, min(self.settled, epoch))


class Coordination(RuleBasedStateMachine):
    """Whatever happens, every unit that was offered is published once, in order, and can be found again."""

    @initialize(
        epochs=st.sampled_from((1, 2, 5)),
        chain_max=st.integers(1, 3),
        keep=st.integers(1, 2),
        gathered=st.sampled_from((1, 2, 64)),
    )
    def start(self, epochs: int, chain_max: int, keep: int, gathered: int) -> None:
        self.sources = {"a": Growing(units_per_tick=None), "b": Growing(units_per_tick=2)}
        self.sink = MemorySink()
        self.storage = MemoryStorage()
        self.policy = SnapshotPolicy(epochs=epochs, chain_max=chain_max, keep=keep)
        self.now = 0.0
        self.named: list[str] = []
        self.spec = spec_of(
            _flow(),
            [{}],
            self.storage,
            self.sink,
            workers=WORKERS,
            sources=self.sources,
            snapshots=self.policy,
            epochs_max=EPOCHS_MAX,
            ticks_gathered_max=gathered,
        )
        self.begin()

    @rule()
    def begin(self) -> None:
        """A driver begins, because there is none or because the last one died."""
        begun = begin_generation(self.spec, "test", self.now)
        self.generation, self.ledger = begun.generation, begun.ledger
        self.coordinator: Coordinator = begun.coordinator(self.spec, self.now)
        self.watches = {n: each.watch(self.ledger.positions[n]) for n, each in self.sources.items()}
        self.members = [
            Played(n, self.sink.writer(n, self.generation), self.storage, self.generation)
            for n in range(WORKERS)
        ]

    @rule(name=st.sampled_from("ab"), count=st.integers(1, 3))
    def offer(self, name: str, count: int) -> None:
        self.sources[name].batches.extend([pa.record_batch({"x": [1]})] * count)

    @rule(seconds=st.sampled_from((0.0, 0.01, 0.1)))
    def order(self, seconds: float) -> None:
        self.now += seconds
        for name, watch in self.watches.items():
            self.coordinator.offer(name, watch.poll())
        for worker, order in self.coordinator.orders(self.now):
            if isinstance(order, Tick) and self.spec.ticks_gathered_max == 1:
                assert order.number <= self.stored().last_tick, "a member sees what is not durable"
            self.members[worker].orders.append(order)
        assert self.coordinator.epochs_in_flight <= EPOCHS_MAX

    @rule(worker=st.integers(0, WORKERS - 1))
    def work(self, worker: int) -> None:
        if self.members[worker].orders:
            self.members[worker].work()

    @rule()
    def progress(self) -> None:
        done = min(member.done_before for member in self.members)
        for member in self.members:
            self.coordinator.progressed(member.number, Progressed(done, {}, {}))

    @rule(worker=st.integers(0, WORKERS - 1))
    def answer(self, worker: int) -> None:
        member = self.members[worker]
        done = min(each.done_before for each in self.members)
        if member.saves and member.saves[0][0] < done:
            self.coordinator.saved(worker, member.save())

    @rule()
    def summarize(self) -> None:
        remove_unneeded(self.spec, self.ledger, self.generation, self.ledger.summarize())

    @precondition(lambda self: self.ledger.commits)
    @rule()
    def name_a_savepoint(self) -> None:
        before = len(self.ledger.savepoints)
        self.coordinator.save_soon(f"number {len(self.named)}")
        if len(self.ledger.savepoints) > before:
            self.named.append(f"number {len(self.named)}")

    def stored(self) -> Ledger:
        journal: Journal[Entry] = Journal.open(self.storage, Entry, query="query")
        return Ledger(journal, self.sources, chains_kept=self.policy.keep)

    @invariant()
    def what_is_stored_is_what_the_driver_knows(self) -> None:
        stored, known = self.stored(), self.ledger
        gathered = len(known.ticks) - len(known.ticks_stored())
        assert gathered < self.spec.ticks_gathered_max
        assert stored.last_tick == known.last_tick - gathered
        if not gathered:
            for of in ("positions", "last_tick", "open_from", "is_final", "shape"):
                assert getattr(stored, of) == getattr(known, of), of
        after = known.ticks_after(known.chain())
        assert stored.ticks_after(stored.chain()) == after[: len(after) - gathered]
        if known.committed is not None:
            assert stored.open_from > known.committed.epoch, "a commit is stored before its ticks are"
        assert [each.number for each in stored.commits][-1:] == [each.number for each in known.commits][-1:]
        assert len(stored.savepoints) == len(known.savepoints)

    @invariant()
    def what_may_be_needed_is_there(self) -> None:
        there = set(self.storage.list("snapshots/"))
        assert self.ledger.names_needed() <= there
        wholes = sum(commit.is_whole for commit in self.ledger.commits)
        assert wholes >= min(self.policy.keep, sum(1 for _ in self.ledger.commits)) or wholes >= 1
        for chain in self.ledger.chains():
            assert chain.commits[0].is_whole
            assert [tick.number for tick in self.ledger.ticks_after(chain)] == list(
                range(chain.commits[-1].settled + 1, self.ledger.last_tick + 1)
            )

    @invariant()
    def what_is_published_is_a_beginning_of_what_came(self) -> None:
        for name, base in (("a", 0), ("b", 1000)):
            seen = [row[0] for _, rows in sorted(self.sink.rows().items()) for row in rows]
            mine = [row - base for row in seen if base <= row < base + 1000]
            assert sorted(mine) == list(range(len(mine))), f"{name}: lost, twice, or out of turn"

    def teardown(self) -> None:
        """In the end everything that came is published."""
        if not hasattr(self, "ledger"):
            return
        for _ in range(400):
            self.order(0.1)
            for worker in range(WORKERS):
                self.work(worker)
                self.answer(worker)
            self.progress()
        assert self.coordinator.is_idle
        count = sum(len(rows) for rows in self.sink.rows().values())
        assert count == sum(len(source.batches) for source in self.sources.values())


Coordination.TestCase.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
TestCoordination = Coordination.TestCase


# Flow control, intervals, trailing snapshots.


def _coordinator(storage: MemoryStorage, **given: object) -> Coordinator:
    flow = ps.Dataflow("one")
    flow.output("out", flow.stream_input("a", "x long"))
    source = Growing(units_per_tick=1)
    spec = spec_of(flow, [{}], storage, MemorySink(), workers=1, sources={"a": source}, **given)
    return begin_generation(spec, "test", 0.0).coordinator(spec, 0.0)


def _units(sizes: list[int]) -> list[Unit]:
    from pointstamp.connectors.source import Part

    return [Unit(str(n), (Part(str(n), size),)) for n, size in enumerate(sizes)]


def _ticks(coordinator: Coordinator, now: float = 0.0) -> list[int]:
    found = []
    while orders := coordinator.orders(now):
        found += [order.number for _, order in orders if isinstance(order, Tick)]
    return found


def test_no_more_bytes_are_let_in_than_allowed_but_always_one_tick() -> None:
    coordinator = _coordinator(MemoryStorage(), bytes_max=100)
    coordinator.offer("a", _units([500, 60, 60, 60]))
    assert _ticks(coordinator) == [0]
    coordinator.progressed(0, Progressed(1, {}, {}))
    assert _ticks(coordinator) == [1, 2]
    coordinator.progressed(0, Progressed(2, {}, {}))
    assert _ticks(coordinator) == [3]


def test_a_snapshot_trails_when_nothing_more_comes() -> None:
    coordinator = _coordinator(MemoryStorage(), snapshots=SnapshotPolicy(epochs=5))
    coordinator.offer("a", _units([1, 1]))
    orders = [order for _ in range(3) for _, order in coordinator.orders(1.0)]
    assert [type(order) for order in orders] == [Tick, Tick]
    due = coordinator.seconds_until_due(1.0)
    assert due is not None
    assert 0 < due < 1
    assert [order for _, order in coordinator.orders(1.0 + due)] == [Save(is_whole=True)]
    assert coordinator.seconds_until_due(9.0) is None


def test_nothing_is_due_by_time_while_more_waits_to_be_let_in() -> None:
    coordinator = _coordinator(MemoryStorage(), snapshots=SnapshotPolicy(epochs=5), epochs_max=2)
    coordinator.offer("a", _units([1, 1, 1]))
    assert _ticks(coordinator) == [0, 1]
    assert coordinator.seconds_until_due(99.0) is None, "or the driver would spin until there is room"


def test_a_snapshot_by_seconds_is_due_when_they_are_over() -> None:
    policy = SnapshotPolicy(epochs=None, seconds=10.0)
    coordinator = _coordinator(MemoryStorage(), snapshots=policy, epochs_max=1)
    coordinator.offer("a", _units([1, 1]))
    assert _ticks(coordinator, 4.0) == [0]
    assert coordinator.seconds_until_due(4.0) == 6.0
    assert [order for _, order in coordinator.orders(10.0)] == [Save(is_whole=True)]


@pytest.mark.parametrize("given", [{"epochs": 0}, {"seconds": -1.0}, {"keep": 0}, {"chain_max": 0}])
def test_a_policy_that_saves_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(FlowError, match=r"SnapshotPolicy: .* must be"):
        SnapshotPolicy(**given)


# Epoch columns.


def _stamped(*rows: tuple[int, int]) -> pa.RecordBatch:
    return pa.record_batch({"x": [x for x, _ in rows], "at": [at for _, at in rows]})


def _columns(sources: dict[str, Growing], storage: Storage, sink: MemorySink, **given: object) -> Supervisor:
    columns = {name: "at" for name in sources if name != "static"}
    flow = ps.Dataflow("stamped")
    streams = [flow.stream_input(name, "x long") for name in sources]
    flow.output("out", streams[0].union(*streams[1:]) if streams[1:] else streams[0])
    spec = spec_of(flow, [{}], storage, sink, sources=sources, epoch_columns=columns, **given)
    return Supervisor(spec, InProcessLauncher())


def _finished(*batches: pa.RecordBatch) -> Growing:
    return Growing(list(batches), is_ended=True)


ROWS = (_stamped((1, 0), (2, 3)), _stamped((3, 1), (4, 0)), _stamped((5, 2)), _stamped((6, 3)))
WANTED = {("out", 0): [(1,), (4,)], ("out", 1): [(3,)], ("out", 2): [(5,)], ("out", 3): [(2,), (6,)]}


def test_rows_of_several_epochs_come_in_one_tick_and_the_last_tick_closes_all() -> None:
    sink = MemorySink()
    _columns({"a": _finished(*ROWS)}, MemoryStorage(), sink).run()
    assert sink.rows() == WANTED


def test_an_input_that_ends_early_or_has_nothing_or_is_static_holds_nothing_back() -> None:
    sink = MemorySink()
    static = _finished(pa.record_batch({"x": [100]}))
    sources = {
        "a": _finished(*ROWS),
        "b": _finished(_stamped((7, 1))),
        "empty": _finished(),
        "static": static,
    }
    _columns(sources, MemoryStorage(), sink).run()
    assert sink.rows() == {
        ("out", 0): [(1,), (4,), (100,)],
        ("out", 1): [(3,), (7,)],
        ("out", 2): [(5,)],
        ("out", 3): [(2,), (6,)],
    }


@pytest.mark.parametrize("is_done_first", [False, True])
def test_with_epoch_columns_the_driver_may_die_at_any_of_its_writes(is_done_first: bool) -> None:
    commits = 0
    for lives in range(1, 100):
        storage, sink = MemoryStorage(), MemorySink()
        mortal = Mortal(storage, lives, is_done_first)
        try:
            _said_while_it_runs(mortal, sink).run()
        except Died:
            _said_while_it_runs(storage, sink).run()
        assert sink.rows() == WANTED, f"after {lives} writes"
        commits = max(commits, len(sink.shelf.commits))
        if mortal.lives >= 0:
            assert commits > 1
            return
    raise AssertionError("the driver never lived")


def _said_while_it_runs(storage: Storage, sink: MemorySink) -> Supervisor:
    """After each unit it is said what is complete, as the next one comes."""
    source = _finished(*ROWS)
    query = _columns({"a": source}, storage, sink)

    def say(number: int) -> None:
        epoch = (0, 2, 3, 4)[number]
        query.call(lambda session: session.coordinator.advance("a", epoch))

    source.on_given = say
    return query


def test_a_replayed_tick_gives_only_what_was_not_committed() -> None:
    sink, storage, source = MemorySink(), MemoryStorage(), Growing([_stamped((1, 0), (2, 5))])
    first = _columns({"a": source}, storage, sink)
    first.call(lambda session: session.advance("a", 1))

    def stop_when_committed() -> None:
        first.drained().add_done_callback(lambda _: first.stop(finish=False))

    stop_when_committed()
    first.run()
    assert sink.rows() == {("out", 0): [(1,)]}
    source.batches.append(_stamped((3, 4)))
    source.is_ended = True
    _columns({"a": source}, storage, sink).run()
    assert sink.rows() == {("out", 0): [(1,)], ("out", 4): [(3,)], ("out", 5): [(2,)]}


def test_a_query_of_which_everything_is_committed_comes_to_its_end() -> None:
    sink, storage, source = MemorySink(), MemoryStorage(), Growing([_stamped((1, 0))])
    first = _columns({"a": source}, storage, sink)
    first.call(lambda session: session.advance("a", 1))
    first.drained().add_done_callback(lambda _: first.stop(finish=False))
    first.run()
    source.is_ended = True
    second = _columns({"a": source}, storage, sink)
    thread = threading.Thread(target=second.run, daemon=True)
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive(), "it waits for ticks to be read that nobody will read again"
    assert sink.rows() == {("out", 0): [(1,)]}


def test_a_row_of_an_epoch_that_is_complete_is_refused_in_words() -> None:
    sink, source = MemorySink(), Growing([_stamped((1, 0))])
    query = _columns({"a": source}, MemoryStorage(), sink, restarts=RestartPolicy(1, pause_seconds=0.0))
    query.call(lambda session: session.advance("a", 2))

    def add_a_late_row(_: object) -> None:
        source.batches.append(_stamped((9, 1)))

    query.drained().add_done_callback(add_a_late_row)
    with pytest.raises(FlowError, match="row of epoch 1 in tick 1, after the input was advanced to"):
        query.run()
    assert sink.rows() == {("out", 0): [(1,)]}


def test_what_is_complete_cannot_be_taken_back_and_needs_a_column() -> None:
    query = _columns({"a": _finished(*ROWS), "static": _finished()}, MemoryStorage(), MemorySink())
    answers = [
        query.call(lambda session: session.coordinator.advance("static", 1)),
        query.call(lambda session: session.coordinator.advance("a", -1)),
    ]
    query.run()
    with pytest.raises(FlowError, match="input 'static' has no epoch column"):
        answers[0].result(0)
    with pytest.raises(FlowError, match="it cannot be advanced"):
        answers[1].result(0)


def test_a_tick_of_an_input_that_is_gone_is_refused_in_words() -> None:
    from pointstamp.errors import RecoveryError

    storage = MemoryStorage()
    journal: Journal[Entry] = Journal.open(storage, Entry)
    journal.start_generation("test", 0.0)
    journal.append(Ticked(0, {"gone": _units([1])}, 0, 1))
    with pytest.raises(RecoveryError, match="rows of an input 'gone', which this flow does not have"):
        Ledger(Journal.open(storage, Entry), {})
