"""What tests of recovery share: a rig of workers that take snapshots, and a sink in memory.

``Rig`` runs one generation of a flow on workers without a driver: rows go in epoch by epoch, workers and
operators are chosen at random, and it can be dropped after any step. What was saved goes through the bytes
that a storage would hold. ``MemorySink`` keeps the contract of a sink by assertion: what a run publishes
twice, out of order or in part fails the test where it happens.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import pyarrow as pa

import pointstamp as ps
from pointstamp.connectors.memory import Rows as MemoryRows
from pointstamp.connectors.sink import Epochs, Sink, Staged
from pointstamp.connectors.source import Part, Position, Unit
from pointstamp.driver.local_run import LocalTransport
from pointstamp.errors import StorageError
from pointstamp.flow.plan import Plan
from pointstamp.journal.ledger import TICKS_GATHERED_MAX
from pointstamp.journal.snapshot_parts import (
    INLINE_BYTES_MAX,
    SavedPart,
    decode_part,
    encode_part,
    restored_from,
)
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.mission import QuerySpec
from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content, Storage, joined
from pointstamp.topology.domain import Time
from pointstamp.worker.protocols import Message
from pointstamp.worker.snapshots import OnSnapshot, WorkerSnapshot, place_of
from pointstamp.worker.worker import Worker
from support.recoverables import Published, Rows, by_epoch
from support.storages import Through

Chain = list[list[SavedPart]]
STEPS_MAX = 200_000
T = TypeVar("T")


class Rig:
    """One generation of workers; ``chain`` is what it resumes from, and grows with each whole snapshot."""

    def __init__(self, plan: Plan, workers: int, chain: Chain, choose: random.Random) -> None:
        self.plan = plan
        self.choose_from = choose
        self.begun = chain[-1][0].epoch if chain else -1
        same = bool(chain) and len(chain[-1]) == workers
        self.chain: Chain = list(chain) if same else []
        self._parts: dict[int, dict[int, SavedPart]] = {}
        self.output: list[tuple[str, int, pa.RecordBatch]] = []
        inboxes: list[deque[Message]] = [deque() for _ in range(workers)]
        names = {place_of(node): f"{node.kind.value} {node.name}" for node in plan.nodes}
        self.workers = [
            Worker(
                plan,
                LocalTransport(WorkerIndex(number), inboxes),
                WorkerIndex(number),
                workers,
                deliver=self._deliver,
                chooser=self,
                on_snapshot=self._saver(number),
                restored=restored_from(chain, number, workers, names=names) if chain else None,
            )
            for number in range(workers)
        ]

    def choose(self, options: int) -> int:
        return self.choose_from.randrange(options)

    def feed(self, epoch: int, rows: Rows) -> None:
        """Let an epoch in, with its rows on some worker."""
        for worker in self.workers:
            worker.open_to(epoch)
        for name, batch in rows.items():
            for start in range(batch.num_rows):
                self.choose_from.choice(self.workers).inputs[name].send(batch.slice(start, 1))
        for worker in self.workers:
            for handle in worker.inputs.values():
                handle.advance_to(epoch + 1)

    def save(self, *, is_whole: bool) -> None:
        for worker in self.workers:
            worker.save(is_whole=is_whole or not self.chain)

    def step(self) -> bool:
        """Let one worker, chosen at random, do one thing; False where none has anything to do."""
        order = self.choose_from.sample(self.workers, len(self.workers))
        return any(worker.step() for worker in order)

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise AssertionError("the workers do not come to rest")

    @property
    def epoch(self) -> int:
        """The last epoch that every worker has saved."""
        return self.chain[-1][0].epoch if self.chain else self.begun

    def published(self) -> Published:
        """What may be seen: the output up to the last snapshot."""
        return by_epoch(
            (name, epoch, batch) for name, epoch, batch in self.output if self.begun < epoch <= self.epoch
        )

    def drop(self) -> None:
        for worker in self.workers:
            worker.close()

    def _deliver(self, output: str, time: Time, batches: list[pa.RecordBatch]) -> None:
        self.output.extend((output, time[0], batch) for batch in batches)

    def _saver(self, number: int) -> OnSnapshot:
        def on_snapshot(snapshot: WorkerSnapshot) -> None:
            part, content = encode_part(snapshot, number, len(self.workers), "part", "query")
            parts = self._parts.setdefault(snapshot.epoch, {})
            parts[number] = decode_part(joined(content), part, "query")
            if len(parts) == len(self.workers):
                link = [parts[each] for each in range(len(self.workers))]
                self.chain = [link] if snapshot.is_whole else [*self.chain, link]

        return on_snapshot


def interrupted(
    plan: Plan,
    data: Sequence[Rows],
    seed: int,
    *,
    crews: Sequence[int],
    interval: int = 1,
    whole_every: int = 3,
    steps_max: int = 120,
) -> Published:
    """Run a flow with a loss of everything after some steps of each crew but the last; what was seen."""
    choose = random.Random(seed)
    seen: Published = {}
    chain: Chain = []
    for turn, workers in enumerate(crews):
        rig = Rig(plan, workers, chain, choose)
        budget = choose.randrange(steps_max) if turn + 1 < len(crews) else STEPS_MAX
        for epoch in range(rig.epoch + 1, len(data)):
            rig.feed(epoch, data[epoch])
            if (epoch + 1) % interval == 0 or epoch + 1 == len(data):
                rig.save(
                    is_whole=(epoch + 1) % (interval * whole_every) == 0 or epoch <= rig.begun + interval
                )
            for _ in range(choose.randrange(12)):
                budget -= rig.step()
            if budget <= 0:
                break
        while budget > 0 and rig.step():
            budget -= 1
        published = rig.published()
        assert not seen.keys() & published.keys(), "an epoch was seen twice"
        seen |= published
        chain = rig.chain or chain
        rig.drop()
    assert chain[-1][0].epoch == len(data) - 1, "the last epoch was not saved"
    return seen


@dataclass(frozen=True)
class MemorySink:
    """Rows in memory, staged by any thread of this process and published by commit."""

    shelf: "Shelf" = field(default_factory=lambda: Shelf())
    worker: int = 0
    generation: int = 0

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "MemorySink":
        return self

    def writer(self, worker: int, generation: int) -> "MemorySink":
        return replace(self, worker=worker, generation=generation)

    def publisher(self) -> "MemorySink":
        return self

    def check_outputs(self, before: Collection[str]) -> None:
        """Any will do."""

    def stage(self, output: str, epochs: Epochs) -> list[Staged]:
        token = f"{output}/{min(epochs)}-{self.worker}-{self.generation}"
        rows = [
            (epoch, tuple(row.values())) for epoch in epochs for b in epochs[epoch] for row in b.to_pylist()
        ]
        with self.shelf.lock:
            assert token not in self.shelf.staged, f"{token} is staged twice"
            self.shelf.staged[token] = (self.generation, output, rows)
        return [Staged(output, min(epochs), max(epochs), token, len(rows), 0, 0)]

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        with self.shelf.lock:
            commit = (epochs_through, sorted(piece.path for piece in staged))
            commits = self.shelf.commits
            if number < len(commits) and commits[number] == commit:
                return
            if number != len(commits):
                raise StorageError(f"commit {number} came with {commit}, and there are {commits[-2:]}.")
            before = commits[-1][0] if commits else -1
            assert epochs_through > before, f"commit {number} goes to {epochs_through} after {before}"
            for piece in staged:
                assert before < piece.first_epoch <= piece.last_epoch <= epochs_through, (number, piece)
                _, output, rows = self.shelf.staged[piece.path]
                for epoch, row in rows:
                    self.shelf.published.setdefault((output, epoch), []).append(row)
            commits.append(commit)

    def begin(self) -> None:
        self.shelf.is_begun = True

    def published_through(self) -> int | None:
        nothing = -1 if self.shelf.is_begun else None
        return self.shelf.commits[-1][0] if self.shelf.commits else nothing

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        kept = {piece.path for piece in keep} | {path for _, paths in self.shelf.commits for path in paths}
        with self.shelf.lock:
            for token in [
                t for t, (g, _, _) in self.shelf.staged.items() if g < generation and t not in kept
            ]:
                del self.shelf.staged[token]

    def rows(self) -> Published:
        """What is published, by output and epoch."""
        return {place: sorted(rows) for place, rows in self.shelf.published.items() if rows}


@dataclass
class Shelf:
    """What all copies of a sink share."""

    lock: Any = field(default_factory=threading.Lock)
    staged: dict[str, tuple[int, str, list[tuple[int, tuple[Any, ...]]]]] = field(default_factory=dict)
    published: dict[tuple[str, int], list[tuple[Any, ...]]] = field(default_factory=dict)
    commits: list[tuple[int, list[str]]] = field(default_factory=list)
    is_begun: bool = False

    def copy(self) -> "Shelf":
        """The same, from which each continues alone."""
        published = {place: list(rows) for place, rows in self.published.items()}
        return Shelf(threading.Lock(), dict(self.staged), published, list(self.commits), self.is_begun)


class Died(Exception):  # noqa: N818 - what happens, not what went wrong
    """The driver is gone at this moment."""


@dataclass
class Mortal(Through):
    """A storage and a counter: the driver dies before or after the operation that is its last."""

    lives: int
    is_done_first: bool = False

    def _live(self, act: Callable[[], T]) -> T:
        self.lives -= 1
        if self.lives < 0:
            if self.is_done_first and self.lives == -1:
                act()
            raise Died
        return act()

    def create(self, name: str, content: Content) -> None:
        self._live(lambda: self.inner.create(name, content))

    def write(self, name: str, content: Content) -> None:
        self._live(lambda: self.inner.write(name, content))

    def delete(self, name: str) -> None:
        self._live(lambda: self.inner.delete(name))


@dataclass
class Growing:
    """Units that a test adds while a query runs; only for crews in this process."""

    batches: "list[pa.RecordBatch]" = field(default_factory=list)
    is_ended: bool = False
    units_per_tick: int | None = 1
    on_given: Callable[[int], None] | None = None
    """Called with the number of each unit that is given; then they are given one by one."""

    def watch(self, position: Position, *, available_now: bool = False) -> "GrowingWatch":
        return GrowingWatch(self, position or 0)

    def read(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield self.batches[int(part.locator)].cast(schema)

    def after(self, position: Position, unit: Unit) -> int:
        assert int(unit.name) == (position or 0), "a unit was taken out of turn"
        return int(unit.name) + 1

    def describe(self) -> str:
        return "growing"


class GrowingWatch:
    """Gives what was added."""

    def __init__(self, source: Growing, position: int) -> None:
        self._source = source
        self._next = position

    def poll(self) -> list[Unit]:
        found = range(self._next, len(self._source.batches))
        if self._source.on_given is not None and found:
            found = found[:1]
            self._source.on_given(found[0])
        self._next += len(found)
        return [Unit(str(n), (Part(str(n), self._source.batches[n].nbytes),)) for n in found]

    def fileno(self) -> None:
        return None

    @property
    def is_finished(self) -> bool:
        return self._source.is_ended and self._next == len(self._source.batches)

    def close(self) -> None:
        """Nothing is held."""


APART: Final[Mapping[str, int]] = {"inline_bytes_max": 0, "ticks_gathered_max": 1}
"""Every part of a snapshot is a file, and every tick an entry: there are more places at which to die."""
TOGETHER: Final[Mapping[str, int]] = {
    "inline_bytes_max": INLINE_BYTES_MAX,
    "ticks_gathered_max": TICKS_GATHERED_MAX,
}
"""As queries do: what is small is stored with the commit."""


def spec_of(
    flow: ps.Dataflow,
    data: Sequence[Rows],
    storage: Storage,
    sink: Sink,
    **given: object,
) -> QuerySpec:
    """A query over data at hand, one epoch for each item; what it writes is apart, unless told."""
    sources = {name: MemoryRows(tuple(each[name] for each in data)) for name in data[0]}
    settings: dict[str, Any] = {
        "workers": 2,
        "query_id": "query",
        "snapshots": SnapshotPolicy(epochs=1, chain_max=3),
        "restarts": RestartPolicy(restarts_max=0),
        **APART,
        **given,
    }
    inline_bytes_max = settings.pop("inline_bytes_max")
    settings["snapshots"] = replace(settings["snapshots"], inline_bytes_max=inline_bytes_max)
    return QuerySpec(flow.plan, settings.pop("sources", sources), sink, storage, **settings)


def copied(storage: MemoryStorage) -> MemoryStorage:
    """A storage with the same objects."""
    copy = MemoryStorage()
    for name in storage.list():
        copy.create(name, storage.read(name))
    return copy
