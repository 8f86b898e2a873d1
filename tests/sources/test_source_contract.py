"""What every Source promises, tried on each implementation under arrivals, polls, ticks and restarts.

Families, and what only each can find:
- *interleavings* (hypothesis): whatever the order of arrivals, polls, ticks and restarts, every row that has
  arrived is taken exactly once, no unit twice, and the position alone is enough to go on from;
- *replay*: a unit from the journal, read by a source that was pickled, gives the same batches again;
- *manners*: polling without news gives nothing, positions are pure values, available-now finishes, and
  closing twice is closing.

An implementation joins by adding one line to ``BENCHES``: a class that makes unit number n arrive.
"""

import io
import pickle
import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.sinks.parquet import ParquetSink
from pointstamp.sources.dealing import deal, shared
from pointstamp.sources.delta import delta_changes
from pointstamp.sources.files import files
from pointstamp.sources.kafka.source import kafka
from pointstamp.sources.memory import Rows
from pointstamp.sources.port import Position, Source, Unit, Watch
from pointstamp.sources.published import published
from support.kafka_broker import address, new_topic, put, put_in_transaction

SECONDS_MAX = 180.0
ARRIVALS_MAX = 8
SCHEMA = pa.schema([("x", pa.int64())])

Steps = Sequence[tuple[str, int]]


class Bench(Protocol):
    """A source, and how its units come to be."""

    source: Source
    is_ordered: bool  # units are taken in the order in which they arrived

    def arrive(self, number: int) -> list[int]:
        """Let unit ``number`` arrive; the rows it has."""
        ...


class RowsBench:
    """All batches are there from the start, so arriving does nothing."""

    is_ordered = True

    def __init__(self, folder: Path) -> None:
        self.source: Source = Rows(
            tuple(pa.record_batch({"x": numbers_of(each)}) for each in range(ARRIVALS_MAX))
        )

    def arrive(self, number: int) -> list[int]:
        return numbers_of(number)


class FilesBench:
    """Each unit is a file, or two and a marker; renamed into a local folder, or put into a far one."""

    def __init__(
        self, folder: Path, *, marker: str = "", lists: bool = False, far: bool = False, **arguments: object
    ) -> None:
        self.is_ordered = bool(arguments.get("in_order"))
        self._marker, self._lists = marker, lists
        self._path = f"memory:/{folder}" if far else str(folder)
        self._system: Any = fsspec.filesystem("memory") if far else None
        if marker:
            arguments["group_by_marker"] = marker
        self.source: Source = files(self._path, **arguments)  # type: ignore[arg-type]  # as the benches name them

    def arrive(self, number: int) -> list[int]:
        base = f"{number:04}" if self.is_ordered else f"{number * 7919 % 10007:05}"
        rows = numbers_of(number)
        if not self._marker:
            self._put(f"{base}.parquet", _parquet(rows))
            return rows
        names = [f"{base}-a.parquet", f"{base}-b.parquet"]
        self._put(names[0], _parquet(rows[:1]))
        self._put(names[1], _parquet(rows[1:]))
        self._put(f"{base}{self._marker}", "\n".join(names).encode() if self._lists else b"")
        return rows

    def _put(self, name: str, content: bytes) -> None:
        if self._system is not None:
            self._system.pipe(f"{self._path}/{name}", content)
        else:
            unfinished = Path(self._path) / f"{name}.tmp"
            unfinished.write_bytes(content)
            unfinished.rename(Path(self._path) / name)


class PublishedBench:
    """Each unit is an epoch that a sink has published; now and then what is there is merged."""

    is_ordered = True

    def __init__(self, folder: Path, *, merges: bool = False, **arguments: Any) -> None:  # noqa: ANN401
        self._path, self._merges = f"{folder}/out", merges
        sink = ParquetSink(self._path, compaction=None).for_query("other", {"numbers": SCHEMA})
        self._writer, self._publisher = sink.writer(0, 1), sink.publisher()
        self.source: Source = published(self._path, "numbers", **arguments)

    def arrive(self, number: int) -> list[int]:
        rows = pa.record_batch({"x": numbers_of(number)})
        self._publisher.publish(number, number, self._writer.stage("numbers", {number: [rows]}))
        if self._merges and number % 3 == 2:
            ps.compact(self._path, ps.CompactionPolicy(keep_seconds=0))
        return numbers_of(number)


class DeltaBench:
    """Each unit is a version of a Delta table, to which rows are appended."""

    is_ordered = True

    def __init__(self, folder: Path, look_every_seconds: float | None = None) -> None:
        self._path = str(folder / "table")
        write_deltalake(self._path, self._rows([]), configuration={"delta.enableChangeDataFeed": "true"})
        self.source: Source = delta_changes(
            self._path, starting_version=1, look_every_seconds=look_every_seconds
        )

    def arrive(self, number: int) -> list[int]:
        write_deltalake(self._path, self._rows(numbers_of(number)), mode="append")
        return numbers_of(number)

    def _rows(self, numbers: list[int]) -> pa.Table:
        return pa.table({"x": pa.array(numbers, pa.int64())})


class KafkaBench:
    """Each unit is what was sent to a topic since the last poll: in transactions, marks lie between."""

    is_ordered = True

    def __init__(self, folder: Path, *, has_transactions: bool = False, **arguments: Any) -> None:  # noqa: ANN401
        self._topic = new_topic()
        self._has_transactions = has_transactions
        self.source: Source = kafka(address(), self._topic, **arguments)

    def arrive(self, number: int) -> list[int]:
        values = [b'{"x": %d, "more": "of it"}' % each for each in numbers_of(number)]
        (put_in_transaction if self._has_transactions else put)(self._topic, values)
        return numbers_of(number)


def numbers_of(number: int) -> list[int]:
    return [number * 10 + each for each in range(3)]


def _parquet(numbers: list[int]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": numbers, "left": numbers}), buffer, row_group_size=1)
    return buffer.getvalue()


def bench(
    *, marker: str = "", lists: bool = False, far: bool = False, **arguments: object
) -> Callable[[Path], Bench]:
    return lambda folder: FilesBench(folder, marker=marker, lists=lists, far=far, **arguments)


BENCHES: dict[str, Callable[[Path], Bench]] = {
    "rows": RowsBench,
    "files": bench(),
    "files in order": bench(in_order=True),
    "files, all in a tick": bench(units_per_tick=None),
    "files, listed": bench(list_every_seconds=0),
    "files, far": bench(far=True, list_every_seconds=0),
    "files in order, far": bench(far=True, in_order=True, list_every_seconds=0),
    "groups": bench(marker="_done"),
    "groups in order": bench(marker="_done", in_order=True),
    "groups in order, listed": bench(marker="_done", in_order=True, list_every_seconds=0),
    "groups with lists": bench(marker="_done", lists=True),
    "published": PublishedBench,
    "published, merged": lambda folder: PublishedBench(folder, merges=True),
    "published, all in a tick": lambda folder: PublishedBench(folder, units_per_tick=None),
    "groups, far": bench(marker="_done", far=True, list_every_seconds=0),
    "versions": DeltaBench,
    "versions, looked for": lambda folder: DeltaBench(folder, 0.0),
    "topic": KafkaBench,
    "topic, in transactions": lambda folder: KafkaBench(folder, has_transactions=True),
}


Make = Callable[[Path], Bench]
of_every_source = pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.kafka] if name.startswith("topic") else [])
        for name, make in BENCHES.items()
    ],
)


@dataclass
class Driver:
    """What a driver does with a source: polls, takes units one by one, restarts from the position."""

    source: Source
    position: Position = None
    found: list[Unit] = field(default_factory=list)
    taken: list[Unit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch: Watch = self.source.watch(self.position)

    def poll(self) -> None:
        self.found += self.watch.poll()

    def tick(self) -> None:
        if self.found:
            unit = self.found.pop(0)
            before = msgspec.msgpack.encode(self.position)
            self.position = self.source.after(self.position, unit)
            assert self.source.after(msgspec.msgpack.decode(before), unit) == self.position
            self.taken.append(unit)

    def restart(self) -> None:
        self.watch.close()
        self.found.clear()
        self.position = msgspec.msgpack.decode(msgspec.msgpack.encode(self.position))
        self.watch = self.source.watch(self.position)

    def numbers(self, unit: Unit) -> list[int]:
        """The rows of a unit, read from the journal by a source that has travelled."""
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(unit), type=Unit)
        source: Source = pickle.loads(pickle.dumps(self.source))  # noqa: S301  our own bytes
        parts = deal(shared(kept.parts, 2, 1), 2, 0)
        batches = [batch for hand in parts for part in hand for batch in source.read(part, SCHEMA)]
        assert all(batch.schema == SCHEMA for batch in batches)
        return sorted(value for batch in batches for value in batch.column(0).to_pylist())

    def drain(self, count: int) -> list[int]:
        """Take units until so many rows were taken; all rows, unit by unit."""
        deadline = monotonic() + SECONDS_MAX
        numbers = [value for unit in self.taken for value in self.numbers(unit)]
        polls_left = 3  # after the last row, to see one that comes twice
        while polls_left:
            assert monotonic() < deadline, "a unit that arrived was not found"
            polls_left -= len(numbers) >= count
            self.poll()
            while self.found:
                self.tick()
                numbers += self.numbers(self.taken[-1])
        return numbers


STEPS = st.lists(st.sampled_from(["arrive", "poll", "tick", "restart"]), max_size=24)


@of_every_source
@settings(max_examples=30)
@given(steps=STEPS)
def test_every_row_is_taken_once_whatever_the_order_of_arrivals_polls_and_restarts(
    make: Make, steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = make(tmp_path_factory.mktemp("in"))
    driver = Driver(bench.source)
    arrived: list[int] = []
    is_static = isinstance(bench, RowsBench)
    left = list(range(ARRIVALS_MAX))
    try:
        for step in [*(["arrive"] * ARRIVALS_MAX if is_static else []), *steps]:
            if step == "arrive" and left:
                arrived += bench.arrive(left.pop(0))
            elif step != "arrive":
                getattr(driver, step)()
        taken = driver.drain(len(arrived))
    finally:
        driver.watch.close()
    assert (taken if bench.is_ordered else sorted(taken)) == arrived
    names = [unit.name for unit in driver.taken]
    assert len(names) == len(set(names))


@of_every_source
def test_a_unit_gives_the_same_batches_every_time(make: Make, tmp_path: Path) -> None:
    bench = make(tmp_path)
    bench.arrive(0)
    watch = bench.source.watch(None)
    (unit, *_) = watch.poll()
    watch.close()
    once, again = (
        [batch for part in unit.parts for batch in bench.source.read(part, SCHEMA)] for _ in range(2)
    )
    assert once == again
    assert sum(batch.num_rows for batch in once) == 3


@of_every_source
def test_polling_without_news_gives_nothing_and_does_not_finish(make: Make, tmp_path: Path) -> None:
    bench = make(tmp_path)
    bench.arrive(0)
    watch = bench.source.watch(None)
    assert watch.poll()
    assert [watch.poll() for _ in range(5)] == [[]] * 5
    assert watch.is_finished == isinstance(bench, RowsBench)
    watch.close()
    watch.close()


@of_every_source
def test_an_available_now_watch_gives_what_is_there_and_is_finished(make: Make, tmp_path: Path) -> None:
    bench = make(tmp_path)
    bench.arrive(0)
    watch = bench.source.watch(None, available_now=True)
    bench.arrive(1)
    was_finished = watch.is_finished
    units = watch.poll()
    assert (was_finished, watch.is_finished) == (False, True)
    assert len(units) == (ARRIVALS_MAX if isinstance(bench, RowsBench) else 1)
    position: Position = None
    for unit in units:
        position = bench.source.after(position, unit)
    later = bench.source.watch(position, available_now=True).poll()
    assert len(later) == (0 if isinstance(bench, RowsBench) else 1)


@of_every_source
def test_what_is_waited_for_becomes_readable_when_a_unit_arrives(make: Make, tmp_path: Path) -> None:
    bench = make(tmp_path)
    watch = bench.source.watch(None)
    watch.poll()
    if (number := watch.fileno()) is not None:
        bench.arrive(0)
        assert select.select([number], [], [], SECONDS_MAX)[0]
        assert len(watch.poll()) == 1
        assert not select.select([number], [], [], 0)[0]
    watch.close()


@of_every_source
def test_a_source_says_who_it_is(make: Make, tmp_path: Path) -> None:
    assert make(tmp_path).source.describe().split()[0] in {"rows", "files", "what", "changes", "topic"}
