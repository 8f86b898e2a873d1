"""Compaction: what is published comes to lie in few files, and nobody who reads notices.

Families:
- cost: operations of storage are counted, for readers and for whoever compacts, as the output grows;
- readers that are overtaken: all is compacted and what was replaced is removed between any two steps;
- deaths before any step of compaction, among commits: nothing is lost or doubled, and no file is left behind;
- two who compact at once, one of them late by any number of steps;
- the grace: files that were replaced stay as long as the policy says, by the clock that is given;
- order: in whatever order commits and compactions come, files stay in the order of their first epochs;
- broken ones, which that family finds;
- what is wrong: files that are damaged, policies that make no sense.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from connectors.harness import batches, pairs, stepping
from pointstamp.connectors.published import compactor as compactor_module
from pointstamp.connectors.published.chain import PLACE, Compactions
from pointstamp.connectors.published.compactor import ParquetCompactor, compact
from pointstamp.connectors.published.merging import CompactionPolicy, chosen_groups
from pointstamp.connectors.published.reader import published_files, published_now, read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.sink import Staged
from pointstamp.errors import FlowError, StorageError
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content
from pointstamp.testing import Died, Steps

SCHEMAS = {"counts": pa.schema([("x", pa.int64())])}
AT_ONCE = CompactionPolicy(files=2, keep_seconds=0)


def _publish(storage: Any, first: int, after: int, generation: int = 0, workers: int = 1) -> None:  # noqa: ANN401
    sink = ParquetSink("memory", lambda _: storage).for_query("q", SCHEMAS)
    writers = [sink.writer(worker, generation) for worker in range(workers)]
    publisher = sink.publisher()
    for epoch in range(first, after):
        staged = [piece for w in writers for piece in w.stage("counts", {epoch: batches(epoch)})]
        publisher.publish(epoch, epoch, staged)


def _read(storage: Any, after: int | None = None) -> list[tuple[int, int]]:  # noqa: ANN401 - any storage
    return pairs(read_changes("", "counts", after=after, open_storage=lambda _: storage))


def _rows(count: int, first: int = 0) -> list[tuple[int, int]]:
    return [(epoch, epoch) for epoch in range(first, count)]


class Counting(MemoryStorage):
    """Counts its operations, and the bytes that are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.stored_bytes = 0

    def create(self, name: str, content: Content) -> None:
        super().create(name, content)
        self.counts["create"] += 1
        self.stored_bytes += len(content) if isinstance(content, bytes) else sum(map(len, content))

    def read(self, name: str) -> bytes:
        self.counts["read"] += 1
        return super().read(name)

    def list(self, prefix: str = "") -> list[str]:
        self.counts["list"] += 1
        return super().list(prefix)

    def operations(self, act: Callable[[], object]) -> int:
        self.counts.clear()
        act()
        return self.counts.total()


# Cost.


@pytest.mark.parametrize("most", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_an_output_of_thousands_of_epochs_is_read_in_few_operations_and_more_add_few(most: int) -> None:
    storage = Counting()
    compactor = ParquetCompactor(storage, CompactionPolicy(keep_seconds=0))
    taken = {}
    for epochs, (first, after) in zip(
        (100, most // 10, most), pairwise((0, 100, most // 10, most)), strict=True
    ):
        for begin in range(first, after, 25):
            _publish(storage, begin, begin + 25)
            while compactor.turn():
                pass
        taken[epochs] = storage.operations(lambda epochs=epochs: _check_read(storage, epochs))  # type: ignore[misc]
        assert storage.operations(lambda after=after: _check_read(storage, after, after - 4)) < 20  # type: ignore[misc]
    # With a file each it would be thousands. A tier has less than eight files, and there are a few.
    assert taken[most] < 120, taken
    assert taken[most] - taken[most // 10] < 40, taken
    assert len(storage.list("counts/")) < 100
    assert len(storage.list(f"{PLACE}/")) <= 2


def _check_read(storage: Counting, epochs: int, after: int | None = None) -> None:
    assert _read(storage, after) == _rows(epochs, 0 if after is None else after + 1)


def test_whoever_compacts_looks_at_the_number_of_commits_and_at_more_only_when_there_are_some() -> None:
    storage = Counting()
    _publish(storage, 0, 200)
    clock = [0.0]
    compactor = ParquetCompactor(storage, CompactionPolicy(), now_seconds=lambda: clock[0])
    _exhaust(compactor)
    taken = []
    for epoch in range(200, 208):
        assert storage.operations(compactor.turn) == 1
        _publish(storage, epoch, epoch + 1)
        taken.append(storage.operations(compactor.turn))
    assert taken[:-1] == [1] * 7
    assert 1 < taken[-1] < 30
    clock[0] = 60.0
    assert 1 < storage.operations(compactor.turn) < 30


def test_what_is_written_again_is_a_few_times_what_was_published() -> None:
    sizes = [Staged("counts", n, n, f"counts/{n}", 1 + 7 * (n % 5), 1_000, 0) for n in range(4_096)]
    live: list[Staged] = []
    written = 0
    for begin in range(0, len(sizes), 16):
        live += sizes[begin : begin + 16]
        while groups := chosen_groups(live, CompactionPolicy()):
            for group in groups:
                merged = _merged(group)
                written += merged.rows
                live[live.index(group[0])] = merged
                live = [file for file in live if file not in group]
    total = sum(file.rows for file in sizes)
    assert sum(file.rows for file in live) == total
    assert written < 6 * total
    assert len(live) < 50


def _merged(group: list[Staged]) -> Staged:
    rows, size = sum(file.rows for file in group), sum(file.size_bytes for file in group)
    first, last = group[0].first_epoch, group[-1].last_epoch
    return Staged("counts", first, last, f"counts/{first}-{last}-{rows}", rows, size, 0)


@given(st.lists(st.integers(1, 10**6), max_size=200), st.integers(2, 10), st.booleans())
def test_files_are_merged_with_their_neighbours_only_and_each_once(
    rows: list[int], fanout: int, is_full: bool
) -> None:
    files = [Staged("o", n, n, f"o/{n}", count, 10 * count, 0) for n, count in enumerate(rows)]
    policy = CompactionPolicy(files=fanout, file_bytes=10**6)
    taken: list[int] = []
    for group in chosen_groups(files, policy, is_full=is_full):
        numbers = [file.first_epoch for file in group]
        assert len(numbers) >= 2
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert sum(file.size_bytes for file in group) <= 10**6
        taken += numbers
    assert taken == sorted(set(taken))


def test_files_of_other_outputs_and_folders_are_never_merged_with_each_other() -> None:
    files = [
        Staged(output, n, n, f"{output}/day={n % 2}/{n}{blank}.parquet", 1, 1, 0)
        for n in range(40)
        for output in ("a", "b")
        for blank in ("", "-blank-0")
    ]
    groups = chosen_groups(files, CompactionPolicy(files=4))
    assert len(groups) == 8
    for group in groups:
        assert len({(f.output, f.path.rpartition("/")[0], "blank" in f.path) for f in group}) == 1


# Readers that are overtaken.


class Overtaken(MemoryStorage):
    """Before one of its reads, everything is compacted and what was replaced is removed."""

    def __init__(self, inner: MemoryStorage, before_read: int) -> None:
        super().__init__()
        for name in inner.list():
            super().create(name, inner.read(name))
        self._left: int | None = before_read
        self.removed = 0

    @property
    def was_overtaken(self) -> bool:
        return self._left is None

    def read(self, name: str) -> bytes:
        if self._left == 0:
            self._left = None
            there = len(self.list("counts/"))
            _publish(self, 40, 44)
            compact("", AT_ONCE, open_storage=lambda _: self)
            self.removed = there - len(self.list("counts/"))
        elif self._left is not None:
            self._left -= 1
        return super().read(name)


def test_a_reader_may_be_overtaken_by_compaction_between_any_two_of_its_steps() -> None:
    begun = MemoryStorage()
    _publish(begun, 0, 30)
    compact("", CompactionPolicy(files=2, keep_seconds=0), open_storage=lambda _: begun)
    _publish(begun, 30, 40)
    for step in range(1_000):
        storage = Overtaken(begun, step)
        seen = _read(storage, after=3)
        if not storage.was_overtaken:
            break
        assert storage.removed > 5
        assert seen in (_rows(40, 4), _rows(44, 4)), step
    assert step > 10


# The grace.


def _clocked(storage: Any, clock: list[float], policy: CompactionPolicy) -> ParquetCompactor:  # noqa: ANN401
    return ParquetCompactor(storage, policy, tail=0, is_full=True, now_seconds=lambda: clock[0])


def _exhaust(compactor: ParquetCompactor) -> None:
    while compactor.turn():
        pass


def test_what_a_reader_has_listed_stays_for_the_time_of_the_policy_and_goes_soon_after(
    tmp_path: Path,
) -> None:
    storage = stepping(str(tmp_path), Steps())
    _publish(storage, 0, 20)
    listed = published_files(tmp_path, "counts")
    policy = CompactionPolicy(keep_seconds=500)
    gone_at = {}
    for epoch, at in enumerate(range(1_000, 3_000, 40), start=20):
        _exhaust(_clocked(storage, [float(at)], policy))  # each time another process
        assert _read(storage) == _rows(epoch)
        assert len(published_files(tmp_path, "counts")) == 1
        for name in listed:
            if name not in gone_at and not Path(name).exists():
                gone_at[name] = at
        _publish(storage, epoch, epoch + 1)
    assert len(gone_at) == 20
    assert min(gone_at.values()) >= 1_500
    assert max(gone_at.values()) <= 1_000 + 500 + 125 + 40
    # So for all that came later: files of the last 700 seconds are there, and as many compactions as needed.
    assert len(list((tmp_path / "counts").iterdir())) < 2 * 700 / 40
    assert len(storage.list(f"{PLACE}/")) <= 7


def test_with_nothing_new_what_was_replaced_goes_when_its_time_has_come(tmp_path: Path) -> None:
    storage = stepping(str(tmp_path), Steps())
    _publish(storage, 0, 20)
    clock = [0.0]
    compactor = _clocked(storage, clock, CompactionPolicy(keep_seconds=500))
    for clock[0], left in ((0.0, 21), (499.0, 21), (500.0, 1), (501.0, 1)):
        _exhaust(compactor)
        assert len(list((tmp_path / "counts").iterdir())) == left
    assert _read(storage) == _rows(20)


def test_a_number_that_comes_again_after_its_files_were_replaced_changes_nothing() -> None:
    storage = MemoryStorage()
    _publish(storage, 0, 12)
    sink = ParquetSink("memory", lambda _: storage).for_query("q", SCHEMAS)
    files = published_now("", open_storage=lambda _: storage).outputs["counts"].files
    compact("", AT_ONCE, open_storage=lambda _: storage)
    assert len(storage.list("counts/")) == 1
    sink.publisher().publish(11, 11, files[11:])
    sink.publisher().publish(3, 3, files[3:4])
    with pytest.raises(StorageError, match=r"commit 3 of 'q' is already published with 1 files"):
        sink.publisher().publish(3, 3, [])
    sink.publisher().discard(1, [])
    assert sink.publisher().published_through() == 11
    assert _read(storage) == _rows(12)


# Deaths.


class Stepping(MemoryStorage):
    """May die before each operation; what was done until then stays."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()

    def create(self, name: str, content: Content) -> None:
        self.steps.take()
        super().create(name, content)

    def read(self, name: str) -> bytes:
        self.steps.take()
        return super().read(name)

    def list(self, prefix: str = "") -> list[str]:
        self.steps.take()
        return super().list(prefix)

    def delete(self, name: str) -> None:
        self.steps.take()
        super().delete(name)


def _journey(storage: Stepping, steps: Steps, generation: int) -> None:
    """A driver that resumes from what is published, to the 12th commit, and compacts after every third."""
    storage.steps = steps
    sink = ParquetSink("memory", lambda _: storage).for_query("q", SCHEMAS)
    publisher = sink.publisher()
    through = publisher.published_through()
    publisher.discard(generation, [])
    compactor = ParquetCompactor(storage, AT_ONCE, tail=1)
    for first in range(-1 if through is None else through, 11, 3):
        _publish(storage, first + 1, min(first + 4, 12), generation, workers=2)
        _exhaust(compactor)


def test_a_process_may_die_before_any_step_of_compaction_and_nothing_is_lost_doubled_or_left() -> None:
    whole = Steps()
    _journey(Stepping(), whole, 0)
    expected = sorted(2 * _rows(12))
    for death in range(whole.taken):
        storage = Stepping()
        with pytest.raises(Died):
            _journey(storage, Steps(dies_before=death), 0)
        storage.steps = Steps()
        if storage.list("_pointstamp/0"):
            seen = _read(storage)
            assert seen == expected[: len(seen)], f"died before step {death}"
        _journey(storage, Steps(), 1)
        assert _read(storage) == expected, f"died before step {death}"
        compact("", AT_ONCE, open_storage=lambda _, storage=storage: storage)  # type: ignore[misc]
        assert _read(storage) == expected, f"died before step {death}"
        assert len(storage.list("counts/")) == 1, f"died before step {death}"
        assert len(storage.list(f"{PLACE}/")) <= 2, f"died before step {death}"
    assert whole.taken > 100


# Two at once.


class Raced(MemoryStorage):
    """Before one of its operations, somebody else does something, once."""

    def __init__(self, begun: MemoryStorage, after: int, act: Callable[[MemoryStorage], None]) -> None:
        super().__init__()
        for name in begun.list():
            super().create(name, begun.read(name))
        self._left: int | None = after
        self._act = act

    @property
    def was_raced(self) -> bool:
        return self._left is None

    def _step(self) -> None:
        if self._left == 0:
            self._left = None
            self._act(self)
        elif self._left is not None:
            self._left -= 1

    def create(self, name: str, content: Content) -> None:
        self._step()
        super().create(name, content)

    def read(self, name: str) -> bytes:
        self._step()
        return super().read(name)

    def list(self, prefix: str = "") -> list[str]:
        self._step()
        return super().list(prefix)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)


def _compacts_and_goes_on(storage: MemoryStorage, policy: CompactionPolicy) -> None:
    """Another driver: several compactions, so that the number that a late one wants is free again."""
    for epoch in range(24, 36, 4):
        _publish(storage, epoch, epoch + 4)
        compact("", policy, open_storage=lambda _: storage)


# One that merges everything, and one for which every file is large enough already, and needed.
OTHERS = [AT_ONCE, CompactionPolicy(file_bytes=1, keep_seconds=0)]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("keep_seconds", [0.0, 1e6])
def test_one_who_compacts_may_be_overtaken_by_another_between_any_two_steps(
    keep_seconds: float, other: CompactionPolicy
) -> None:
    begun = MemoryStorage()
    _publish(begun, 0, 12)
    compact("", AT_ONCE, open_storage=lambda _: begun)
    _publish(begun, 12, 24)
    policy = CompactionPolicy(files=2, keep_seconds=keep_seconds)
    for step in range(1_000):
        storage = Raced(begun, step, lambda storage: _compacts_and_goes_on(storage, other))
        _exhaust(ParquetCompactor(storage, policy, tail=0, is_full=True))
        if not storage.was_raced:
            break
        assert _read(storage) == _rows(36), step
        _exhaust(ParquetCompactor(storage, AT_ONCE, tail=0, is_full=True))
        assert _read(storage) == _rows(36), step
        assert len(storage.list("counts/")) == 1, step
        assert len(storage.list(f"{PLACE}/")) <= 3, step  # the newest, and what it keeps
    assert step > 20


def test_a_compaction_that_comes_very_late_is_not_seen_and_what_it_made_goes() -> None:
    storage = MemoryStorage()
    _publish(storage, 0, 12)
    late: list[tuple[str, bytes]] = []
    copy = Raced(storage, -1, lambda _: None)
    compact("", AT_ONCE, open_storage=lambda _: copy)
    compact("", AT_ONCE, open_storage=lambda _: storage)
    for epoch in range(12, 20, 4):
        _publish(storage, epoch, epoch + 4)
        compact("", AT_ONCE, open_storage=lambda _: storage)
    late = [(name, copy.read(name)) for name in copy.list() if "compaction" in name]
    assert len(late) == 2
    for name, content in late:  # its file, and the compaction with a number that is free again
        storage.create(name, content)
    assert _read(storage) == _rows(20)
    compact("", AT_ONCE, open_storage=lambda _: storage)
    assert _read(storage) == _rows(20)
    assert len(storage.list("counts/")) == 1
    assert [name for name, _ in late if name in storage.list()] == []


# Order.

DAYS = {"days": pa.schema([("day", pa.int64()), ("x", pa.int64())])}


def _tell_a_story(commits: list[list[int]], turns: set[int]) -> None:
    """Publish rows into folders by day, one commit for each epoch, and compact after some of them."""
    storage = MemoryStorage()
    sink = ParquetSink("memory", lambda _: storage, partition_by=["day"]).for_query("q", DAYS)
    writer, publisher = sink.writer(0, 0), sink.publisher()
    compactor = ParquetCompactor(storage, AT_ONCE, tail=0, is_full=True)
    for epoch, days in enumerate(commits):
        rows = pa.RecordBatch.from_pylist([{"day": day, "x": epoch} for day in days], DAYS["days"])
        publisher.publish(epoch, epoch, writer.stage("days", {epoch: [rows]}))
        if epoch in turns:
            compactor.turn()
        files = published_now("", open_storage=lambda _: storage).outputs["days"].files
        firsts = [file.first_epoch for file in files]
        assert firsts == sorted(firsts), "files are not in the order of their first epochs"
    found = read_changes("", "days", open_storage=lambda _: storage).to_pylist()
    wanted = [(epoch, day) for epoch, days in enumerate(commits) for day in days]
    assert sorted((row["epoch"], row["day"]) for row in found) == sorted(wanted)
    assert all(row["x"] == row["epoch"] for row in found)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), min_size=3, max_size=8), st.data())
def test_files_stay_in_the_order_of_their_first_epochs(commits: list[list[int]], data: st.DataObject) -> None:
    _tell_a_story(commits, data.draw(st.sets(st.integers(0, len(commits) - 1))))


def _last_place(files: Sequence[Staged], merges: Iterable[tuple[list[Staged], Staged]]) -> list[Staged]:
    places: dict[str, Staged | None] = {}
    for group, merged in merges:
        places |= dict.fromkeys((file.path for file in group), None) | {group[-1].path: merged}
    return [place for file in files if (place := places.get(file.path, file)) is not None]


def _at_the_end(files: Sequence[Staged], merges: Iterable[tuple[list[Staged], Staged]]) -> list[Staged]:
    gone = {file.path for group, _ in merges for file in group}
    return [*(file for file in files if file.path not in gone), *(merged for _, merged in merges)]


@pytest.mark.parametrize("broken", [_last_place, _at_the_end])
def test_a_merged_file_that_stands_elsewhere_is_found(
    broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactor_module, "replace_groups", broken)
    with pytest.raises(AssertionError, match="not in the order of their first epochs"):
        _tell_a_story([[0], [1], [0], [1]], {2})


# By hand, and what is wrong.


def test_by_hand_everything_small_becomes_one_file_with_the_same_rows_in_the_same_order(
    tmp_path: Path,
) -> None:
    storage = stepping(str(tmp_path), Steps())
    _publish(storage, 0, 30, workers=3)
    before = read_changes(tmp_path)
    done = ps.io.compact(tmp_path)
    assert (done.files_before, done.files_after) == (90, 1)
    assert read_changes(tmp_path)["counts"].equals(before["counts"])
    assert read_changes(tmp_path, "counts", after=17).num_rows == 3 * 12
    assert ps.io.compact(tmp_path) == ps.io.Compacted(1, 1)
    assert Compactions(storage).numbers() == [0]
    with pytest.raises(FlowError, match=r"nothing has been published to it"):
        ps.io.compact(tmp_path / "nowhere")


def test_a_turn_reads_no_more_than_it_may_and_files_grow_no_larger_than_they_should(tmp_path: Path) -> None:
    storage = stepping(str(tmp_path), Steps())
    _publish(storage, 0, 40)
    size = published_now(tmp_path).outputs["counts"].files[0].size_bytes
    policy = CompactionPolicy(files=2, file_bytes=10 * size, keep_seconds=1e6)
    compactor = ParquetCompactor(storage, policy, tail=0, is_full=True)
    turns = 1
    while compactor.turn():
        turns += 1
        assert _read(storage) == _rows(40)
    assert turns >= 4
    assert len(published_files(tmp_path, "counts")) <= 4
    assert all(file.size_bytes <= 10 * size for file in published_now(tmp_path).outputs["counts"].files)


def test_a_file_that_is_damaged_or_lost_is_left_alone_and_the_others_are_merged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = stepping(str(tmp_path), Steps())
    _publish(storage, 0, 30)
    altered, lost = (Path(published_files(tmp_path, "counts")[number]) for number in (7, 20))
    content = altered.read_bytes()
    altered.write_bytes(content[:-9] + b"?" + content[-8:])
    lost.rename(tmp_path / "lost")
    done = ps.io.compact(tmp_path, AT_ONCE)
    assert done.files_after == 3
    assert "compaction skips a file" in caplog.text
    with pytest.raises(StorageError, match=r"is not as it was published"):
        read_changes(tmp_path)
    altered.write_bytes(content)
    with pytest.raises(StorageError, match=r"It was removed or changed after it was published"):
        read_changes(tmp_path)
    (tmp_path / "lost").rename(lost)
    assert _read(storage) == _rows(30)


def test_a_compaction_of_another_format_and_policies_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    storage = stepping(str(tmp_path), Steps())
    _publish(storage, 0, 3)
    ps.io.compact(tmp_path)
    path = tmp_path / PLACE / "000000000000.json"
    content = path.read_text()
    path.write_text(content.replace('"format_version":2', '"format_version":7'))
    with pytest.raises(StorageError, match=r"expected format 2, got 7"):
        read_changes(tmp_path)
    path.write_text("{}")
    with pytest.raises(StorageError, match=r"cannot be read as a manifest"):
        read_changes(tmp_path)
    path.write_text(content)
    path.rename(path.with_name("000000000004.json"))
    with pytest.raises(StorageError, match=r"contains the object that was written as"):
        read_changes(tmp_path)
    with pytest.raises(FlowError, match=r"files must be at least 2"):
        CompactionPolicy(files=1)
    with pytest.raises(FlowError, match=r"must be 0 or more, got"):
        CompactionPolicy(keep_seconds=-1)
