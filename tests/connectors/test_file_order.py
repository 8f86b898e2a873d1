"""In which order files are taken, and what is said of one that comes too early in it.

Families:
- *waiting together*: by modification time, by name with numbers as numbers, by a column;
- *too early*: a file that sorts before one that was taken is a warning, at once and after a restart;
- *undecidable*: an order that a column cannot give is an error that names the file;
- *links*: a folder that is a symbolic link is followed when it is switched;
- *looking now*: a source that looks at intervals looks at once where somebody waits for what is there.
"""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.schema import as_schema
from pointstamp.connectors.files import file_watch, wholeness
from pointstamp.connectors.files.folder import name_key
from pointstamp.connectors.files.inotify import FolderEvents
from pointstamp.connectors.files.source import FolderSource, files
from pointstamp.connectors.files.wholeness import State
from pointstamp.connectors.source import Position, complete_watch
from pointstamp.errors import FlowError, SourceError, StorageError
from support.splits import write_rows

AT = as_schema("at long")


def put(folder: Path, name: str, *, at: float | None = None, rows: Sequence[int] = (1,)) -> None:
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    write_rows([{"at": value} for value in rows], AT, folder / name, "parquet")
    if at is not None:
        os.utime(folder / name, (at, at))


def taken(source: FolderSource, position: Position = None) -> list[str]:
    watch = source.watch(position, available_now=True)
    names = [unit.name for unit in watch.poll()]
    watch.close()
    return names


# Waiting together.


def test_files_that_wait_are_taken_by_modification_time_then_by_name(tmp_path: Path) -> None:
    put(tmp_path, "part-9c", at=1000)
    put(tmp_path, "part-0a", at=3000)
    put(tmp_path, "part-10", at=2000)
    put(tmp_path, "part-2", at=2000)
    assert taken(files(tmp_path)) == ["part-9c", "part-2", "part-10", "part-0a"]


def test_by_name_numbers_are_compared_as_numbers(tmp_path: Path) -> None:
    for number in (12, 1, 10, 2):
        put(tmp_path, f"{number}.parquet")
    assert taken(files(tmp_path, order_by="name")) == ["1.parquet", "2.parquet", "10.parquet", "12.parquet"]


@given(st.lists(st.text("ab019.-/", min_size=1), unique=True))
def test_the_order_of_names_is_total(names: list[str]) -> None:
    keys = sorted(map(name_key, names))
    assert [name for _, name in keys] == sorted(names, key=name_key)
    assert len(set(keys)) == len(names)


def test_a_column_orders_files_by_its_least_value(tmp_path: Path) -> None:
    put(tmp_path, "a", at=1000, rows=[7, 3, 9])
    put(tmp_path, "b", at=2000, rows=[])
    put(tmp_path, "c", at=3000, rows=[5, 1])
    assert taken(files(tmp_path, order_by="at")) == ["b", "c", "a"]


@pytest.mark.parametrize("format_name", ["csv", "json", "arrow", "parquet"])
def test_a_column_orders_files_of_every_format(tmp_path: Path, format_name: str) -> None:
    for name, value in (("a", 10), ("b", 9)):
        write_rows([{"at": value}, {"at": 11}], AT, tmp_path / f"{name}.{format_name}", format_name)
    assert taken(files(tmp_path, order_by="at")) == [f"b.{format_name}", f"a.{format_name}"]


def test_a_store_tells_times_too(tmp_path: Path) -> None:
    far: Any = fsspec.filesystem("memory")
    for name in ("2", "10", "1"):
        far.pipe(f"{tmp_path}/{name}.csv", b"x\n1\n")
    assert taken(files(f"memory:/{tmp_path}")) == ["2.csv", "10.csv", "1.csv"]


def test_the_newest_row_of_a_key_wins_after_downtime_whatever_the_names_are(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, (name, status) in enumerate([("part-c", "new"), ("part-b", "paid"), ("part-a", "sent")]):
        path = tmp_path / "in" / f"{name}.parquet"
        pq.write_table(pa.table({"id": [1], "status": [status]}), path)
        os.utime(path, (1000 + number, 1000 + number))
    flow = ps.Dataflow("orders")
    flow.output("orders", flow.table("orders", "id long, status string", key="id"))
    query = flow.start(
        orders=ps.io.files(tmp_path / "in"),
        checkpoint=tmp_path / "c",
        output=tmp_path / "o",
        available_now=True,
    )
    query.await_termination()
    last = [row for row in ps.read_changes(str(tmp_path / "o"), "orders").to_pylist() if row["diff"] > 0][-1]
    assert last["status"] == "sent"


# Too early.


def test_in_order_ten_comes_after_nine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1, 13):
        put(tmp_path, f"{number}.parquet")
    source = files(tmp_path, in_order=True)
    assert taken(source) == [f"{number}.parquet" for number in range(1, 13)]
    watch = source.watch(None)
    position = None
    for unit in watch.poll()[:9]:
        position = source.after(position, unit)
    watch.close()
    assert taken(source, position) == ["10.parquet", "11.parquet", "12.parquet"]
    assert caplog.messages == []


@pytest.mark.parametrize("every", [None, 0.0], ids=["told", "listed"])
def test_in_order_a_file_that_comes_too_early_in_the_order_is_a_warning_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, every: float | None
) -> None:
    put(tmp_path, "2.parquet")
    watch = files(tmp_path, in_order=True, list_every_seconds=every).watch(None)
    assert [unit.name for unit in watch.poll()] == ["2.parquet"]
    put(tmp_path, "1.parquet")
    put(tmp_path, "3.parquet")
    found: list[str] = []
    while not found:
        found = [unit.name for unit in watch.poll()]
    assert found == ["3.parquet"]
    refresh(watch)
    watch.close()
    (message,) = caplog.messages
    assert f"the folder '{tmp_path}': '1.parquet' will not be read." in message
    assert "and '2.parquet' was already read." in message


@pytest.mark.parametrize("every", [None, 30.0], ids=["told", "listed"])
def test_looking_now_waits_for_a_file_that_another_process_still_holds_open(
    tmp_path: Path, every: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = files(tmp_path, list_every_seconds=every)
    states = iter([State.WRITTEN, State.WRITTEN])
    monkeypatch.setattr(wholeness, "by_lease", lambda _: next(states, State.WHOLE))
    watch = complete_watch(source.watch(None))
    monkeypatch.setattr(FolderEvents, "read", lambda _: ([], False))  # the kernel tells of nothing
    put(tmp_path, "1.parquet")
    watch.refresh()
    found: list[str] = []
    while watch.is_refreshing:
        found += [unit.name for unit in watch.poll()]
        time.sleep(0.01)
    found += [unit.name for unit in watch.poll()]
    watch.close()
    assert found == ["1.parquet"]
    assert next(states, None) is None


@pytest.mark.parametrize("every", [None, 30.0], ids=["told", "listed"])
def test_looking_now_does_not_wait_for_a_writer_that_goes_on_for_long(
    tmp_path: Path, every: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watch, "_COMPLETE_WITHIN_SECONDS", 0.3)
    monkeypatch.setattr(wholeness, "by_lease", lambda _: State.WRITTEN)
    put(tmp_path, "1.parquet")
    watch = files(tmp_path, list_every_seconds=every).watch(None)
    refresh(watch)
    watch.close()


def refresh(watch: Any) -> None:  # noqa: ANN401 - a watch that can
    watch.refresh()
    while watch.is_refreshing:
        assert watch.poll() == []


def test_in_order_a_file_that_came_too_early_while_the_query_was_down_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = files(tmp_path, in_order=True)
    position: Position = None
    for name in ("2", "5"):
        put(tmp_path, name)
        (unit,) = source.watch(position, available_now=True).poll()
        position = source.after(position, unit)
    assert taken(source, position) == []
    assert caplog.messages == []
    put(tmp_path, "3")
    assert taken(source, list(position)) == []  # as a journal gives it
    (message,) = caplog.messages
    assert "'3' will not be read." in message


def test_in_order_files_that_were_removed_or_copied_are_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    source = files(old, in_order=True)
    position: Position = None
    for name in ("1", "2", "10"):
        put(old, name)
    for unit in source.watch(None, available_now=True).poll():
        position = source.after(position, unit)
    new.mkdir()
    for name in ("10", "2", "1"):  # as they are copied they arrive in any order
        shutil.copy(old / name, new / name)
    assert taken(files(new, in_order=True), position) == []
    (old / "1").unlink()
    assert taken(source, position) == []
    assert caplog.messages == []


def test_a_position_of_an_older_version_still_counts(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        put(tmp_path, f"{number}")
    source = files(tmp_path, in_order=True)
    assert taken(source, "2") == ["3"]
    (unit,) = source.watch("2", available_now=True).poll()
    assert taken(source, source.after("2", unit)) == []


def test_by_column_a_file_that_should_have_come_before_is_read_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "b", rows=[5])
    watch = files(tmp_path, order_by="at", list_every_seconds=0.0).watch(None)
    assert [unit.name for unit in watch.poll()] == ["b"]
    put(tmp_path, "a", rows=[3])
    found: list[str] = []
    while not found:
        found = [unit.name for unit in watch.poll()]
    watch.close()
    assert found == ["a"]
    assert "file 'a'" in caplog.messages[0]
    assert "begins at at=3, but 'b', which begins at 5, was read before it arrived" in caplog.messages[0]


# Undecidable.


def test_a_column_that_cannot_order_files_is_an_error_with_the_file(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet")
    with pytest.raises(
        SourceError, match=r"file 'a.parquet': order_by='on' cannot be decided.*no column 'on'"
    ):
        taken(files(tmp_path, order_by="on"))
    pq.write_table(pa.table({"at": pa.array([None], pa.int64())}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"file 'b.parquet'.*the column has only nulls"):
        taken(files(tmp_path, order_by="at"))
    pq.write_table(pa.table({"at": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"cannot compare .* with .*Write the column with one type"):
        taken(files(tmp_path, order_by="at"))


def test_in_order_and_another_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match="in_order=True orders files by name"):
        files(tmp_path, in_order=True, order_by="modified")


# Links.


def test_a_link_that_is_switched_is_followed(tmp_path: Path) -> None:
    for name in ("first", "second"):
        put(tmp_path / name, f"{name}.parquet")
    link = tmp_path / "in"
    link.symlink_to(tmp_path / "first")
    watch = files(link).watch(None)
    assert [unit.name for unit in watch.poll()] == ["first.parquet"]
    (tmp_path / "next").symlink_to(tmp_path / "second")
    (tmp_path / "next").replace(link)
    assert [unit.name for unit in watch.poll()] == ["second.parquet"]
    put(tmp_path / "first", "late.parquet")
    assert watch.poll() == []
    put(tmp_path / "second", "third.parquet")
    assert [unit.name for unit in watch.poll()] == ["third.parquet"]
    link.unlink()  # between two links there is none for a moment
    assert watch.poll() == []
    link.symlink_to(tmp_path / "first")
    assert [unit.name for unit in watch.poll()] == ["late.parquet"]
    watch.close()


def test_all_that_is_available_after_a_link_was_switched_is_processed(tmp_path: Path) -> None:
    for number, name in enumerate(("first", "second")):
        put(tmp_path / name, f"{name}.parquet", rows=[number])
    link = tmp_path / "in"
    link.symlink_to(tmp_path / "first")
    flow = ps.Dataflow("links")
    flow.output("out", flow.stream_input("rows", "at long"))
    query = flow.start(rows=ps.io.files(link), checkpoint=tmp_path / "c", output=tmp_path / "o")
    query.process_all_available(60)
    (tmp_path / "next").symlink_to(tmp_path / "second")
    (tmp_path / "next").replace(link)
    query.process_all_available(60)
    found = ps.read_changes(str(tmp_path / "o"), "out")["at"].to_pylist()
    query.stop()
    assert sorted(found) == [0, 1]


# Looking now.


def test_all_that_is_available_is_listed_before_it_is_said_to_be_processed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    flow = ps.Dataflow("listed")
    flow.output("out", flow.stream_input("rows", "at long"))
    source = ps.io.files(tmp_path / "in", list_every_seconds=3600.0)
    query = flow.start(rows=source, checkpoint=tmp_path / "c", output=tmp_path / "o")
    for number in range(3):
        put(tmp_path / "in", f"{number}.parquet", rows=[number])
        query.process_all_available(60)
        assert ps.read_changes(str(tmp_path / "o"), "out").num_rows == number + 1
    query.stop()


def test_a_folder_that_is_gone_for_long_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    link = tmp_path / "in"
    link.symlink_to(tmp_path / "a")
    now = [0.0]
    events = FolderEvents(str(link), lambda: now[0])
    link.unlink()
    assert events.read() == ([], False)
    now[0] = 6.0
    with pytest.raises(StorageError, match="cannot be listed"):
        events.read()
    events.close()
