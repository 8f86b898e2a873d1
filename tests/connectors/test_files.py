"""Which files of a folder become which units.

Families, and what only each can find:
- *input*: which names count, in which order, and which never;
- *groups*: what each kind of marker closes, under events and under listings;
- *the end*: the final marker, with and without groups, and after a restart;
- *races*: files that come while the watch starts, while a listing is made, or while events are dropped;
- *intervals*: a listing is made when it is time, one at a time, and never by the poll itself;
- *refusals*: arguments and folders that cannot work, as text;
- *subfolders*: what is not read is said, once, where nothing else is there;
- *partitions*: folders named after a column and its value are part of the folder.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import fsspec
import pytest

from pointstamp.connectors.files.file_watch import EventWatch, Listing, ListingWatch
from pointstamp.connectors.files.folder import Entry, Folder, LocalFolder
from pointstamp.connectors.files.inotify import Arrived, FolderEvents
from pointstamp.connectors.files.source import FolderSource, files
from pointstamp.connectors.files.units import Grouping, GroupingRules
from pointstamp.connectors.files.wholeness import Settling
from pointstamp.connectors.source import Position, Unit, Watch
from pointstamp.errors import FlowError, SourceError, StorageError

SECONDS_MAX = 180.0
needs_events = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of files on Linux")

Open = Callable[..., Watch]


@pytest.fixture(name="open_watch")
def _open_watch() -> Iterator[Open]:
    """Open watches that are closed when the test ends."""
    opened: list[Watch] = []

    def open_watch(source: FolderSource, position: Position = None) -> Watch:
        opened.append(source.watch(position))
        return opened[-1]

    yield open_watch
    for watch in opened:
        watch.close()


def put(folder: Path, *names: str, content: str = "x\n1\n") -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / f"{name}.tmp").write_text(content)
        (folder / f"{name}.tmp").rename(folder / name)


def shown(units: list[Unit]) -> list[tuple[str, list[str]]]:
    return [(unit.name, [part.locator for part in unit.parts]) for unit in units]


def names(units: list[Unit]) -> list[str]:
    return [unit.name for unit in units]


def polled(watch: Watch, count: int) -> list[Unit]:
    """Poll until so many units were found."""
    deadline = monotonic() + SECONDS_MAX
    units = watch.poll()
    while len(units) < count:
        assert monotonic() < deadline
        units += watch.poll()
    return units


# Input


def test_hidden_unfinished_and_accompanying_files_are_not_input(tmp_path: Path, open_watch: Open) -> None:
    (tmp_path / "sub").mkdir()
    left_out = [".hidden", "_SUCCESS", "a.tmp", "b.inprogress", "c.crc", ".d.parquet.crc"]
    for name in left_out[:3]:
        (tmp_path / name).write_text("x")
    watch = open_watch(files(tmp_path))
    for name in left_out[3:]:
        (tmp_path / name).write_text("x")
    put(tmp_path, "e.parquet")
    assert names(watch.poll()) == ["e.parquet"]


def test_only_names_that_match_the_pattern_are_input(tmp_path: Path, open_watch: Open) -> None:
    put(tmp_path, "edges-1.csv", "nodes-1.csv", "EDGES-2.csv", "edges-2.csv")
    assert names(open_watch(files(tmp_path, "csv", pattern="edges-*")).poll()) == [
        "edges-1.csv",
        "edges-2.csv",
    ]


@pytest.mark.parametrize("order_by", ["modified", "name"])
def test_files_found_by_one_poll_are_in_the_order_of_the_source(
    tmp_path: Path, open_watch: Open, order_by: str
) -> None:
    put(tmp_path, "d", "b")
    watch = open_watch(files(tmp_path, order_by=order_by))
    put(tmp_path, "c", "a")
    assert names(watch.poll()) == (["a", "b", "c", "d"] if order_by == "name" else ["d", "b", "c", "a"])


def test_in_order_a_name_before_the_last_one_taken_does_not_count(tmp_path: Path, open_watch: Open) -> None:
    source = files(tmp_path, in_order=True)
    put(tmp_path, "b")
    watch = open_watch(source)
    (unit,) = watch.poll()
    put(tmp_path, "a", "c")
    assert names(watch.poll()) == ["c"]
    position = source.after(None, unit)
    assert position[0] == "b"
    assert names(open_watch(source, position).poll()) == ["c"]


def test_a_file_that_is_gone_before_it_is_taken_is_no_unit_until_it_comes_back(
    tmp_path: Path, open_watch: Open
) -> None:
    watch = open_watch(files(tmp_path))
    put(tmp_path, "a", "b")
    (tmp_path / "a").unlink()
    assert names(watch.poll()) == ["b"]
    put(tmp_path, "a")
    assert polled(watch, 1)[0].name == "a"


def test_parquet_may_be_shared_and_csv_may_not(tmp_path: Path, open_watch: Open) -> None:
    put(tmp_path, "a", content="12345")
    assert [open_watch(files(tmp_path, kind)).poll()[0].parts[0].share for kind in ("parquet", "csv")] == [
        (0, 1),
        None,
    ]
    assert open_watch(files(tmp_path)).poll()[0].parts[0].size_bytes == 5


# Groups


@needs_events
def test_an_empty_marker_closes_what_came_before_it(tmp_path: Path, open_watch: Open) -> None:
    watch = open_watch(files(tmp_path, group_by_marker="_done"))
    put(tmp_path, "z", "b")
    assert watch.poll() == []
    put(tmp_path, "1_done", content="")
    put(tmp_path, "c")
    put(tmp_path, "0_done", content="")
    put(tmp_path, "a")
    assert shown(watch.poll()) == [("1_done", ["b", "z"]), ("0_done", ["c"])]


def test_empty_markers_found_at_once_take_all_files_with_the_first(tmp_path: Path, open_watch: Open) -> None:
    put(tmp_path, "a", "b", "c")
    put(tmp_path, "1_done", "2_done", content="")
    source = files(tmp_path, group_by_marker="_done")
    assert shown(open_watch(source).poll()) == [("1_done", ["a", "b", "c"]), ("2_done", [])]


@pytest.mark.parametrize("is_early", [True, False])
def test_in_order_an_empty_marker_closes_the_names_before_it(
    tmp_path: Path, open_watch: Open, is_early: bool
) -> None:
    source = files(tmp_path, group_by_marker="_done", in_order=True)
    early = open_watch(source)
    put(tmp_path, "1-a", "1-b", "2-a", "3-a")
    put(tmp_path, "1_done", "2_done", content="")
    watch = early if is_early else open_watch(source)
    assert shown(polled(watch, 2)) == [("1_done", ["1-a", "1-b"]), ("2_done", ["2-a"])]
    assert shown(open_watch(source, "1_done").poll()) == [("2_done", ["2-a"])]


def test_a_marker_with_lines_closes_exactly_these_also_in_subfolders(
    tmp_path: Path, open_watch: Open
) -> None:
    put(tmp_path, "a", "batch-1/part-0", "batch-1/part-1", "other")
    put(tmp_path, "batch-1_done", content="batch-1/part-1\r\n\nbatch-1/part-0\na\n")
    put(tmp_path, "batch-2_done", content="")
    source = files(tmp_path, group_by_marker="_done", units_per_tick=None)
    assert shown(open_watch(source).poll()) == [
        ("batch-1_done", ["batch-1/part-1", "batch-1/part-0", "a"]),
        ("batch-2_done", ["other"]),
    ]


@pytest.mark.parametrize("is_early", [True, False])
def test_in_order_a_file_that_its_marker_left_out_is_left_out_before_and_after_a_restart(
    tmp_path: Path, open_watch: Open, is_early: bool
) -> None:
    source = files(tmp_path, group_by_marker="_done", in_order=True)
    watch = open_watch(source)
    put(tmp_path, "1-a", "1-b", "2-a")
    put(tmp_path, "1_done", content="1-a")
    assert shown(watch.poll()) == [("1_done", ["1-a"])]
    put(tmp_path, "2_done", content="")
    later = watch if is_early else open_watch(source, "1_done")
    assert shown(later.poll()) == [("2_done", ["2-a"])]


def test_a_marker_may_be_the_suffix_alone(tmp_path: Path, open_watch: Open) -> None:
    put(tmp_path, "part-0", "_SUCCESS")
    (tmp_path / "_SUCCESS").write_text("")
    source = files(tmp_path, group_by_marker="_SUCCESS")
    assert shown(open_watch(source).poll()) == [("_SUCCESS", ["part-0"])]


def test_a_group_without_files_is_a_unit_without_parts(tmp_path: Path, open_watch: Open) -> None:
    put(tmp_path, "1_done", content="")
    source = files(tmp_path, group_by_marker="_done")
    (unit,) = open_watch(source).poll()
    assert unit == Unit("1_done", ())
    assert open_watch(source, source.after(None, unit)).poll() == []


def refused(source: FolderSource) -> str:
    with pytest.raises((FlowError, StorageError), match=r"the folder|the marker|files") as caught:
        source.watch(None, available_now=True)
    return str(caught.value)


def test_a_marker_that_lists_what_is_not_there_names_it(tmp_path: Path) -> None:
    put(tmp_path, "a")
    put(tmp_path, "1_done", content="a\nb\n")
    assert "'1_done'" in (said := refused(files(tmp_path, group_by_marker="_done")))
    assert "lists 'b', which does not exist" in said


@pytest.mark.parametrize("listed", ["a\na\n", "../a", "/a", "a/../../b"])
def test_a_marker_that_lists_a_file_twice_or_outside_is_refused(tmp_path: Path, listed: str) -> None:
    put(tmp_path, "a")
    put(tmp_path, "1_done", content=listed)
    assert "'1_done'" in refused(files(tmp_path, group_by_marker="_done"))


def test_a_file_listed_in_two_markers_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a")
    put(tmp_path, "1_done", "2_done", content="a\n")
    assert "'2_done'" in (said := refused(files(tmp_path, group_by_marker="_done")))
    assert "'a' twice or from another group" in said


def test_a_marker_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1_done").write_bytes(b"\xff\xfe")
    assert "'1_done'" in refused(files(tmp_path, group_by_marker="_done"))


# The end


def test_the_final_marker_finishes_a_source_after_what_is_there(tmp_path: Path, open_watch: Open) -> None:
    source = files(tmp_path, until="_end")
    watch = open_watch(source)
    put(tmp_path, "a")
    assert names(watch.poll()) == ["a"]
    put(tmp_path, "b", "_end", "c")
    still_open = watch.is_finished
    assert names(polled(watch, 1)) == ["b"]
    assert (still_open, watch.is_finished) == (False, True)
    assert watch.poll() == []


@pytest.mark.parametrize(("in_order", "position"), [(False, ("part-1",)), (True, "part-1")])
def test_the_final_marker_is_found_again_after_a_restart_wherever_it_sorts(
    tmp_path: Path, open_watch: Open, in_order: bool, position: Position
) -> None:
    put(tmp_path, "part-1", "_end")
    watch = open_watch(files(tmp_path, until="_end", in_order=in_order), position)
    assert watch.poll() == []
    assert watch.is_finished


def test_with_lists_in_markers_the_pattern_keeps_other_files_out_of_the_last_group(
    tmp_path: Path, open_watch: Open
) -> None:
    put(tmp_path, "batch-1/part-0.parquet", "finished-once.end")
    put(tmp_path, "batch-1.done", content="batch-1/part-0.parquet")
    put(tmp_path, "finished-again.end")
    source = files(
        tmp_path, group_by_marker=".done", until="finished-again.end", in_order=True, pattern="*.parquet"
    )
    assert shown(open_watch(source).poll()) == [("batch-1.done", ["batch-1/part-0.parquet"])]


@pytest.mark.parametrize("in_order", [True, False])
def test_the_final_marker_closes_the_last_group(tmp_path: Path, open_watch: Open, in_order: bool) -> None:
    put(tmp_path, "1-a", "1_done", "2-a", "2-b", "_end")
    (tmp_path / "1_done").write_text("1-a")
    source = files(tmp_path, group_by_marker="_done", until="_end", in_order=in_order)
    units = open_watch(source).poll()
    assert shown(units) == [("1_done", ["1-a"]), ("2-b", ["2-a", "2-b"])]
    position: Position = None
    for unit in units:
        position = source.after(position, unit)
    later = open_watch(source, position)
    assert later.poll() == []
    assert later.is_finished


# Races


@needs_events
@pytest.mark.parametrize("is_before", [True, False])
def test_a_file_that_comes_while_the_watch_starts_is_found_once(
    tmp_path: Path, open_watch: Open, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    plain = LocalFolder.list

    def slow(folder: LocalFolder) -> list[Entry]:
        if is_before:
            put(tmp_path, "late")
        entries = plain(folder)
        if not is_before:
            put(tmp_path, "late")
        return entries

    monkeypatch.setattr(LocalFolder, "list", slow)
    watch = open_watch(files(tmp_path))
    assert isinstance(watch, EventWatch)
    assert names(watch.poll()) == ["late"]
    assert watch.poll() == []


class Torn(LocalFolder):
    """A folder whose first listing shows a marker and not the file that was there before it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.count = 0

    def list(self) -> list[Entry]:
        self.count += 1
        return [entry for entry in super().list() if self.count > 1 or entry.name != "a"]


def listed(folder: Folder, rules: GroupingRules) -> tuple[Listing, Grouping]:
    grouping = Grouping(rules, folder, None)
    return Listing(folder, rules, grouping, Settling(folder.look)), grouping


@pytest.mark.parametrize("border", ["1_done", "_end"])
def test_a_listing_that_shows_a_marker_before_its_file_is_made_again(tmp_path: Path, border: str) -> None:
    put(tmp_path, "a")
    put(tmp_path, border, content="")
    folder = Torn(str(tmp_path))
    rules = GroupingRules(group_by_marker="_done", until="_end")
    watch = ListingWatch(*listed(folder, rules), 0)
    assert [parts for _, parts in shown(watch.poll())] == [["a"]]
    watch.close()


class Dropping(FolderEvents):
    """Events of which the kernel drops all."""

    is_dropping = False

    def read(self) -> Arrived:
        super().read()
        return Arrived([], self.is_dropping)


@needs_events
def test_dropped_events_cost_one_listing_and_no_file(tmp_path: Path) -> None:
    put(tmp_path, "a")
    folder, rules = LocalFolder(str(tmp_path)), GroupingRules()
    events = Dropping(folder.path)
    watch = EventWatch(*listed(folder, rules), events)
    assert names(watch.poll()) == ["a"]
    put(tmp_path, "c", "b")
    assert watch.poll() == []
    events.is_dropping = True
    assert names(watch.poll()) == ["c", "b"]
    watch.close()


@needs_events
def test_done_files_are_not_listed_again(
    tmp_path: Path, open_watch: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = open_watch(files(tmp_path))

    def listed(_: LocalFolder) -> list[Entry]:
        raise AssertionError

    monkeypatch.setattr(LocalFolder, "list", listed)
    for name in "abc":
        put(tmp_path, name)
        assert names(watch.poll()) == [name]


@pytest.mark.parametrize("every", [None, 0.0])
def test_no_file_of_a_writer_that_never_pauses_is_lost_or_found_twice_over_restarts(
    tmp_path: Path, every: float | None
) -> None:
    (tmp_path / "in").mkdir()
    source = files(tmp_path / "in", list_every_seconds=every)
    expected = [f"{number * 7919 % 10007:05}" for number in range(1000)]

    is_restarted = Event()

    def write() -> None:
        for name in expected:
            assert name != expected[500] or is_restarted.wait(SECONDS_MAX)  # some come after a restart
            (tmp_path / "x").write_text(name)
            (tmp_path / "x").rename(tmp_path / "in" / name)

    position: Position = None
    writer = Thread(target=write)
    writer.start()
    deadline = monotonic() + SECONDS_MAX
    while len(position or ()) < len(expected):
        assert monotonic() < deadline
        watch = source.watch(position)
        for _ in range(20):
            for unit in watch.poll():
                position = source.after(position, unit)
        watch.close()
        is_restarted.set()
    writer.join()
    assert sorted(position) == sorted(expected)


# Intervals


class Held(LocalFolder):
    """A folder whose listings, after the first, wait until they may continue."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.go_on = Event()
        self.count = 0

    def list(self) -> list[Entry]:
        self.count += 1
        assert self.count == 1 or self.go_on.wait(SECONDS_MAX)
        return super().list()


def test_polling_does_not_wait_for_a_listing_and_begins_one_when_it_is_time(tmp_path: Path) -> None:
    folder, rules, now = Held(str(tmp_path)), GroupingRules(), [0.0]
    watch = ListingWatch(*listed(folder, rules), 10.0, lambda: now[0])
    put(tmp_path, "a")
    now[0] = 9.9
    assert watch.poll() == []
    assert folder.count == 1
    now[0] = 10.0
    assert [watch.poll() for _ in range(100)] == [[]] * 100
    folder.go_on.set()
    assert names(polled(watch, 1)) == ["a"]
    assert watch.poll() == []
    assert folder.count == 2
    watch.close()


def test_a_folder_that_goes_away_between_listings_is_an_error_that_names_it(
    tmp_path: Path, open_watch: Open
) -> None:
    (tmp_path / "in").mkdir()
    watch = open_watch(files(tmp_path / "in", list_every_seconds=0))
    (tmp_path / "in").rmdir()
    with pytest.raises(StorageError, match=r"/in' cannot be listed"):
        polled(watch, 1)


# Refusals


@pytest.mark.parametrize("every", [None, 0.0])
@pytest.mark.parametrize("is_file", [True, False])
def test_a_path_that_is_no_folder_is_refused(tmp_path: Path, every: float | None, is_file: bool) -> None:
    if is_file:
        (tmp_path / "in").write_text("x")
    with pytest.raises(StorageError, match=r"the folder '.*/in' cannot be listed"):
        files(tmp_path / "in", list_every_seconds=every).watch(None)


def test_a_file_system_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nosuch"):
        files("nosuch://in").watch(None)


@needs_events
def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path, open_watch: Open) -> None:
    (tmp_path / "a").write_text("x")
    os.rename(tmp_path / "a", os.fsencode(tmp_path) + b"/\xff")
    with pytest.raises(SourceError, match="not UTF-8"):
        open_watch(files(tmp_path)).poll()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"format": "orc"}, "must be one of parquet, csv, json, arrow"),
        ({"group_by_marker": ""}, "group_by_marker must be a name"),
        ({"until": "a/b"}, "until must be a name"),
        ({"units_per_tick": 0}, "units_per_tick must be at least 1"),
        ({"list_every_seconds": -1.0}, "list_every_seconds"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(FlowError, match=words):
        files("/in", **arguments)  # type: ignore[arg-type]  # on purpose


def test_keys_of_a_store_are_not_shown(tmp_path: Path) -> None:
    assert "hunter2" not in repr(files("s3://in", storage_options={"secret": "hunter2"}))


# Subfolders.


def opened_says(
    caplog: pytest.LogCaptureFixture, source: FolderSource, *, available_now: bool = False
) -> list[str]:
    caplog.clear()
    watch = source.watch(None, available_now=available_now)
    watch.poll()
    watch.poll()
    watch.close()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("available_now", [False, True], ids=["continues", "available now"])
@pytest.mark.parametrize("every", [None, 0.0], ids=["told", "listed"])
def test_a_folder_with_nothing_but_subfolders_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, every: float | None, available_now: bool
) -> None:
    put(tmp_path, "b/1.csv", "a/1.csv", "_SUCCESS", "_log/0.json")
    source = files(tmp_path, "csv", list_every_seconds=every)
    (said,) = opened_says(caplog, source, available_now=available_now)
    assert f"files '{tmp_path}': the folder holds subfolders, such as 'a', but no files" in said
    put(tmp_path, "1.csv")
    assert opened_says(caplog, source, available_now=available_now) == []


def test_a_far_folder_with_nothing_but_subfolders_is_said_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far: Any = fsspec.filesystem("memory")
    far.pipe(f"{tmp_path}/a/1.csv", b"x\n1\n")
    (said,) = opened_says(caplog, files(f"memory:/{tmp_path}", "csv"))
    assert "such as 'a'" in said
    far.pipe(f"{tmp_path}/1.csv", b"x\n1\n")
    assert opened_says(caplog, files(f"memory:/{tmp_path}", "csv")) == []


def test_nothing_is_said_of_empty_folders_hidden_ones_and_where_markers_may_list_what_is_below(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert opened_says(caplog, files(tmp_path, "csv")) == []
    put(tmp_path, ".hidden/1.csv", "_log/0.json")
    assert opened_says(caplog, files(tmp_path, "csv")) == []
    put(tmp_path, "a/1.csv")
    assert opened_says(caplog, files(tmp_path, "csv", group_by_marker="_done")) == []


# Partitions.


@pytest.mark.parametrize("every", [None, 0.0], ids=["told", "listed"])
def test_files_in_folders_named_after_columns_are_found_as_they_come(
    tmp_path: Path, open_watch: Open, every: float | None
) -> None:
    put(tmp_path, "day=1/a", "day=1/_hidden", "other/b")
    watch = open_watch(files(tmp_path, list_every_seconds=every))
    assert names(watch.poll()) == ["day=1/a"]
    put(tmp_path, "day=1/b")
    assert names(polled(watch, 1)) == ["day=1/b"]
    (tmp_path / "day=2").mkdir()
    put(tmp_path, "day=2/hour=3/c")
    assert names(polled(watch, 1)) == ["day=2/hour=3/c"]
    put(tmp_path, "day=2/hour=3/d", "day=2/hour=4/e")
    assert sorted(names(polled(watch, 2))) == ["day=2/hour=3/d", "day=2/hour=4/e"]


def test_a_partition_that_is_removed_is_no_loss(tmp_path: Path, open_watch: Open) -> None:
    put(tmp_path, "day=1/a")
    watch = open_watch(files(tmp_path))
    assert names(watch.poll()) == ["day=1/a"]
    shutil.rmtree(tmp_path / "day=1")
    put(tmp_path, "b")
    assert names(polled(watch, 1)) == ["b"]


def test_partitions_of_a_store_are_found(tmp_path: Path, open_watch: Open) -> None:
    far: Any = fsspec.filesystem("memory")
    far.pipe(f"{tmp_path}/day=1/hour=2/1.csv", b"x\n1\n")
    far.pipe(f"{tmp_path}/2.csv", b"x\n1\n")
    assert sorted(names(open_watch(files(f"memory:/{tmp_path}")).poll())) == ["2.csv", "day=1/hour=2/1.csv"]
