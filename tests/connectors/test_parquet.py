"""Parquet files and their chain of manifests: what readers see while it grows, for months.

Families:
- laws of the chain's arithmetic, for any length: each commit is held once, and late drivers are harmless;
- growth: a thousand commits leave few objects, and cost few bytes; only this finds what grows with time;
- readers that are overtaken: more is published between any two of a reader's steps;
- drivers that are overtaken, likewise, by one that publishes the same commits and continues;
- deaths where a link takes over others, which the contract's few commits do not reach;
- refusals as text: gaps, foreign queries, changed columns, files that are not as they were written.
"""

import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.harness import SCHEMAS, batches, pairs, stepping
from pointstamp.connectors.published.chain import (
    FOLDER,
    FORMAT_VERSION,
    Chain,
    PublishedCommit,
    first_held,
    links_to,
)
from pointstamp.connectors.published.reader import published_now, read_changes
from pointstamp.connectors.published.sink import ParquetPublisher, ParquetSink
from pointstamp.connectors.sink import Staged
from pointstamp.errors import FlowError, SchemaError, StorageError
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Content, Storage
from pointstamp.storage.sealed import seal_json
from pointstamp.testing import Died, Steps


@given(st.integers(0, 10**7))
def test_the_links_to_a_commit_hold_each_commit_up_to_it_once_and_are_few(number: int) -> None:
    links = list(links_to(number))
    held = [(first_held(link), link) for link in reversed(links)]
    assert held[0][0] == 0
    assert held[-1][1] == number
    assert all(after[0] == before[1] + 1 for before, after in pairwise(held))
    assert len(links) <= number // 10_000 + 36
    assert all(last - first < 10_000 for first, last in held)


@given(st.integers(0, 10**5), st.integers(0, 10**5))
def test_what_a_later_chain_needs_an_earlier_one_needs_too(one: int, other: int) -> None:
    # So a driver that still believes in the earlier one removes nothing that readers of the later one need.
    earlier, later = sorted((one, other))
    assert {link for link in links_to(later) if link <= earlier} <= set(links_to(earlier))


def _commit(number: int) -> PublishedCommit:
    return PublishedCommit(number, number, [Staged("counts", number, number, f"counts/{number}", 1, 1, 1)])


def _numbers(chain: Chain) -> list[int]:
    return [commit.number for link in chain.links() for commit in link.commits]


class CountingStorage(MemoryStorage):
    """Counts the bytes that are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.stored_bytes = 0

    def create(self, name: str, content: Content) -> None:
        super().create(name, content)
        self.stored_bytes += len(b"".join([content] if isinstance(content, bytes) else content))


def test_a_thousand_commits_leave_few_objects_and_each_was_written_a_few_times() -> None:
    storage = CountingStorage()
    chain = Chain(storage)
    most = 0
    for number in range(1_234):
        chain.append("q", {}, _commit(number))
        most = max(most, len(storage.list()))
    assert most <= 27
    assert len(storage.list()) == 1 + 2 + 3 + 4
    assert _numbers(chain) == list(range(1_234))
    final_bytes = sum(storage.size(name) or 0 for name in storage.list())
    assert storage.stored_bytes < 5 * final_bytes


class OvertakingStorage(MemoryStorage):
    """Whoever reads finds that more was published since its last step, as long as there is more."""

    def __init__(self, commits: list[int], pace: int) -> None:
        super().__init__()
        self._waiting = commits
        self._pace = pace
        self._is_publishing = False

    def read(self, name: str) -> bytes:
        self._publish()
        return super().read(name)

    def _publish(self) -> None:
        if not self._is_publishing:
            self._is_publishing = True
            for _ in range(min(self._pace, len(self._waiting))):
                Chain(self).append("q", {}, _commit(self._waiting.pop(0)))
            self._is_publishing = False


@given(st.integers(1, 150), st.integers(1, 40), st.integers(0, 300))
def test_a_reader_that_is_overtaken_sees_all_commits_up_to_some_one(begun: int, pace: int, more: int) -> None:
    storage = OvertakingStorage(list(range(begun, begun + more)), pace)
    inner = Chain(storage)
    storage._is_publishing = True
    for number in range(begun):
        inner.append("q", {}, _commit(number))
    storage._is_publishing = False
    last = Chain(storage).last()
    seen = _numbers(Chain(storage))
    assert seen == list(range(len(seen)))
    assert last is not None
    assert begun <= last.commits[-1].number + 1 <= len(seen)


class RacedStorage(MemoryStorage):
    """Before one of its operations, another driver publishes some commits."""

    def __init__(self, begun: MemoryStorage, after: int, others: list[int]) -> None:
        super().__init__()
        for name in begun.list():
            super().create(name, begun.read(name))
        self._others = others
        self._steps_left: int | None = after

    @property
    def was_raced(self) -> bool:
        return self._steps_left is None

    def _step(self) -> None:
        if self._steps_left == 0:
            self._steps_left = None
            for number in self._others:
                Chain(self).append("q", {}, _commit(number))
        elif self._steps_left is not None:
            self._steps_left -= 1

    def list(self, prefix: str = "") -> list[str]:
        self._step()
        return super().list(prefix)

    def read(self, name: str) -> bytes:
        self._step()
        return super().read(name)

    def create(self, name: str, content: Content) -> None:
        self._step()
        super().create(name, content)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)


@pytest.mark.parametrize("number", [0, 8, 9, 19, 99])
@pytest.mark.parametrize("ahead", [1, 2, 15])
def test_another_driver_may_publish_the_same_commits_between_any_two_steps(number: int, ahead: int) -> None:
    begun = MemoryStorage()
    for each in range(number):
        Chain(begun).append("q", {}, _commit(each))
    everything = list(range(number + ahead))
    for step in range(1_000):
        storage = RacedStorage(begun, step, everything[number:])
        Chain(storage).append("q", {}, _commit(number))
        if not storage.was_raced:
            break  # it took fewer steps than this
        assert _numbers(Chain(storage)) == everything, step
        Chain(storage).append("q", {}, _commit(number))  # removes what may be left
        assert len(storage.list()) == len(list(links_to(everything[-1]))), step
    assert step > 1


@pytest.mark.parametrize("number", [9, 10, 19, 99])
def test_a_driver_may_die_before_any_step_while_a_link_takes_over_others(tmp_path: Path, number: int) -> None:
    def attempt(folder: Path, steps: Steps) -> None:
        Chain(stepping(str(folder), steps)).append("q", {}, _commit(number))

    whole, folder = Steps(), tmp_path / "whole"
    _grow(folder, number)
    attempt(folder, whole)
    wanted = sorted(each.name for each in (folder / FOLDER).iterdir())
    for death in range(0, whole.taken, 1 + whole.taken // 30):
        folder = tmp_path / f"death-{death}"
        _grow(folder, number)
        with pytest.raises(Died):
            attempt(folder, Steps(dies_before=death))
        assert _numbers(Chain(stepping(str(folder), Steps())))[:number] == list(range(number))
        attempt(folder, Steps())
        assert sorted(each.name for each in (folder / FOLDER).iterdir()) == wanted


def _grow(folder: Path, number: int) -> None:
    """The chain of this many commits, as memory has it, put down in a folder."""
    storage = MemoryStorage()
    for each in range(number):
        Chain(storage).append("q", {}, _commit(each))
    for name in storage.list():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(storage.read(name))


def test_a_late_driver_that_creates_a_link_again_is_not_seen_and_its_link_goes() -> None:
    storage = MemoryStorage()
    chain = Chain(storage)
    for number in range(8):
        chain.append("q", {}, _commit(number))
    stale = storage.read(f"{FOLDER}/000000000005.json")
    for number in (8, 9):
        chain.append("q", {}, _commit(number))
    storage.create(f"{FOLDER}/000000000005.json", stale)
    assert _numbers(chain) == list(range(10))
    chain.append("q", {}, _commit(5))  # what the late driver does next
    assert storage.list() == [f"{FOLDER}/000000000009.json"]


def test_a_gap_is_refused_and_so_is_what_is_no_manifest(tmp_path: Path) -> None:
    _grow(tmp_path, 25)
    link = tmp_path / FOLDER / "000000000019.json"
    content = link.read_text()
    link.unlink()
    with pytest.raises(StorageError, match=r"link 24 exists, but an earlier link is missing: .*019.json"):
        published_now(str(tmp_path))
    link.write_text('{"format_version": 3, "query": 1}')
    with pytest.raises(StorageError, match=r"019.json' cannot be read as a manifest"):
        published_now(str(tmp_path))
    link.write_text('{"format_version": 9}')
    with pytest.raises(StorageError, match=r"expected format 3, got 9"):
        published_now(str(tmp_path))
    fewer = json.loads(content)["content"]
    fewer["commits"].pop()
    link.write_bytes(seal_json(json.dumps(fewer).encode(), f"{FOLDER}/{link.name}", FORMAT_VERSION))
    with pytest.raises(StorageError, match=r"must hold the commits 10 to 19, but does not"):
        published_now(str(tmp_path))
    link.write_text(content)
    (tmp_path / FOLDER / "notes.txt").write_text("somebody else's")
    assert len(_numbers(Chain(stepping(str(tmp_path), Steps())))) == 25


def _publisher(storage: Storage, query: str = "q", **columns: str) -> ParquetPublisher:
    schema = pa.schema(
        [(name, pa.type_for_alias(kind)) for name, kind in (columns or {"x": "int64"}).items()]
    )
    return ParquetSink("memory", lambda _: storage).for_query(query, {"counts": schema}).publisher()


def test_other_queries_other_columns_and_epochs_out_of_turn_are_refused() -> None:
    storage = MemoryStorage()
    storage.create("counts/a", b"1234")
    piece = Staged("counts", 3, 5, "counts/a", 1, 4, 0)
    with pytest.raises(StorageError, match=r"must hold epochs after -1 up to 4, got files of epochs .*3, 5"):
        _publisher(storage).publish(0, 4, [piece])
    _publisher(storage).publish(0, 5, [piece])
    with pytest.raises(StorageError, match=r"belongs to query 'q', and query 'other' cannot publish to it"):
        _publisher(storage, "other").publish(1, 6, [])
    with pytest.raises(
        StorageError, match=r"output 'counts' has the columns epoch, x, but commit 1 has epoch, x, y"
    ):
        _publisher(storage, x="int64", y="int64").publish(1, 6, [])
    with pytest.raises(StorageError, match=r"must hold epochs after 5 up to 6"):
        _publisher(storage).publish(1, 6, [piece])
    with pytest.raises(StorageError, match=r"must hold epochs after 5 up to 4"):
        _publisher(storage).publish(1, 4, [])
    _publisher(storage).publish(1, 5, [], is_complete=True)
    with pytest.raises(StorageError, match=r"expected the commit after the last one, 1, got commit 2"):
        _publisher(storage).publish(2, 6, [])


def test_epochs_of_one_commit_share_a_file_and_a_reader_may_ask_for_later_ones(tmp_path: Path) -> None:
    path = str(tmp_path)
    sink = ParquetSink(path).for_query("q", SCHEMAS)
    first = sink.writer(0, 0).stage("counts", {1: batches(10), 0: batches(5, 6)})
    assert len(first) == 1
    sink.publisher().publish(0, 1, first)
    sink.publisher().publish(1, 2, sink.writer(3, 0).stage("counts", {2: batches(20)}))
    tables = read_changes(path)
    assert list(tables) == list(SCHEMAS)
    assert tables["counts"].schema.names == ["epoch", "x"]
    assert pairs(tables["counts"]) == [(0, 5), (0, 6), (1, 10), (2, 20)]
    assert tables["_other names"].num_rows == 0
    assert pairs(read_changes(path, "counts", after=0)) == [(1, 10), (2, 20)]
    assert pairs(read_changes(path, "counts", after=1)) == [(2, 20)]
    assert read_changes(path, "counts", after=2).num_rows == 0
    with pytest.raises(FlowError, match=r"has the outputs 'counts', '_other names', but not 'count'"):
        read_changes(path, "count")


def test_a_path_may_be_any_that_fsspec_knows(tmp_path: Path) -> None:
    path = f"memory://{tmp_path}/any path"  # whose name no other test has
    sink = ParquetSink(path).for_query("q", SCHEMAS)
    for number in range(12):
        sink.publisher().publish(number, number, sink.writer(0, 0).stage("counts", {number: batches(number)}))
    sink.publisher().discard(1, [])
    assert pairs(read_changes(path, "counts")) == [(number, number) for number in range(12)]
    assert sink.publisher().published_through() == 11


def test_a_file_that_is_not_as_it_was_written_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path)
    sink = ParquetSink(path).for_query("q", SCHEMAS)
    staged = sink.writer(0, 0).stage("counts", {0: batches(5, 6)})
    file = tmp_path / staged[0].path
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(StorageError, match=r"must have \d+ bytes, but has \d+ bytes"):
        sink.publisher().publish(0, 0, staged)
    file.write_bytes(content)
    sink.publisher().publish(0, 0, staged)
    file.write_bytes(content[:4] + b"?" + content[5:])
    assert published_now(path).epochs_through == 0  # it only looks at sizes
    with pytest.raises(StorageError, match=r"is not as it was published: .* Restore it from a copy"):
        read_changes(path)
    file.unlink()
    with pytest.raises(StorageError, match=r"is not there. It was removed or changed after"):
        published_now(path)


def test_two_processes_that_think_they_are_the_same_worker_do_not_overwrite_each_other(
    tmp_path: Path,
) -> None:
    sink = ParquetSink(str(tmp_path)).for_query("q", SCHEMAS)
    sink.writer(0, 0).stage("counts", {0: batches(5)})
    with pytest.raises(StorageError, match=r"already"):
        sink.writer(0, 0).stage("counts", {0: batches(6)})
    other = ParquetSink(str(tmp_path)).for_query("another query", SCHEMAS)
    assert other.writer(0, 0).stage("counts", {0: batches(6)})


def test_columns_that_files_cannot_have_and_values_that_they_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"output 'out' has a column 'epoch'"):
        ParquetSink(str(tmp_path)).for_query("q", {"out": pa.schema([("Epoch", pa.int64())])})
    sink = ParquetSink(str(tmp_path)).for_query("q", {"counts": pa.schema([("x", pa.int8())])})
    with pytest.raises(SchemaError, match=r"output 'counts' has values that .* cannot hold: .*1000"):
        sink.writer(0, 0).stage("counts", {0: batches(1000)})
