"""The mistakes of a first day with queries: each is said at once and as text, and can be resumed from.

Families:
- places: folders that are not there, paths in other forms than text, inputs and outputs of a wrong kind;
- files that cannot be read: the query ends soon, and continues without the file where it is told to;
- epoch columns with a checkpoint: what a run without one gives, also across wide gaps between the epochs.
"""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, RecoveryError, SourceError, StorageError
from support.options import with_options


def counting() -> ps.Dataflow:
    flow = ps.Dataflow("counting")
    flow.output("counts", flow.stream_input("words", "word string").group_by("word", running=True).count())
    return flow


def folder_in(place: Path) -> Path:
    folder = place / "in"
    folder.mkdir()
    return folder


def places_in(place: Path) -> dict[str, Any]:
    return {"checkpoint": place / "checkpoint", "output": place / "out"}


def run(flow: ps.Dataflow, source: Any, place: Path) -> list[dict[str, Any]]:  # noqa: ANN401 - any input
    query = flow.start(words=source, available_now=True, **with_options(places_in(place)))
    try:
        query.await_termination()
    finally:
        query.stop(finish=False)
    rows: list[dict[str, Any]] = ps.read_changes(place / "out", "counts").sort_by("epoch").to_pylist()
    return rows


# Places.


def test_a_folder_that_is_not_there_is_said_by_start_itself(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"the folder '.*nowhere' cannot be listed"):
        counting().start(words=ps.io.files(tmp_path / "nowhere"), **with_options(places_in(tmp_path)))
    file = folder_in(tmp_path) / "1.parquet"
    pq.write_table(pa.table({"word": ["a"]}), file)
    with pytest.raises(StorageError, match=r"if this is the path of a file, give its folder and pattern="):
        counting().start(words=ps.io.files(file), **with_options(places_in(tmp_path)))
    assert not (tmp_path / "checkpoint").exists()


def test_a_path_is_no_input_and_the_message_names_what_is(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"got str\. For files of a folder, use .*ps\.io\.files\(path\)"):
        counting().start(words=str(tmp_path), **with_options(places_in(tmp_path)))


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (7, r"of type int, which has no for_query and no writer and no publisher\."),
        (None, r"of type NoneType, which has no for_query"),
        (ps.io.ParquetSink, r"the class ParquetSink, not an object of it\."),
    ],
    ids=["a number", "nothing", "a class"],
)
def test_what_is_no_sink_is_refused_and_the_message_says_what_one_has(
    output: Any,  # noqa: ANN401 - whatever somebody may give
    found: str,
    tmp_path: Path,
) -> None:
    words = rf"output must be the path of a folder or a sink, got {found}.*for_query, writer, publisher"
    with pytest.raises(FlowError, match=words):
        counting().start(words=[], checkpoint=tmp_path / "checkpoint", output=output)
    assert not (tmp_path / "checkpoint").exists()


def test_places_may_be_paths_as_well_as_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"word": ["a"]}), folder_in(tmp_path) / "1.parquet")
    assert run(counting(), ps.io.files(tmp_path / "in"), tmp_path) == [{"epoch": 0, "word": "a", "count": 1}]
    results = counting().run(words=[pa.table({"word": ["a"]})], checkpoint=tmp_path / "bounded")
    assert results["counts"].table().num_rows == 1


def test_an_output_that_was_emptied_or_is_another_one_is_refused_at_once(tmp_path: Path) -> None:
    words = [pa.table({"word": ["a"]})] * 4
    run(counting(), words[:3], tmp_path)
    (tmp_path / "out").rename(tmp_path / "moved")
    query = counting().start(words=words, **with_options(places_in(tmp_path)))
    with pytest.raises(RecoveryError, match=r"has published up to epoch \d+, but the output has no commit"):
        query.await_termination()
    assert query.restarts == 0
    (tmp_path / "moved").rename(tmp_path / "out")
    assert [row["count"] for row in run(counting(), words, tmp_path)] == [1, 2, 3, 4]


# Files that cannot be read.


def test_a_file_that_cannot_be_read_ends_the_query_soon_and_can_be_skipped(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    pq.write_table(pa.table({"word": ["a"]}), folder / "1.parquet")
    (folder / "2.parquet").write_text("a note that somebody has dropped here")
    pq.write_table(pa.table({"word": ["a"]}), folder / "3.parquet")
    query = counting().start(words=ps.io.files(folder), **with_options(places_in(tmp_path)))
    with pytest.raises(FlowError, match=r"file '2\.parquet': it cannot be read as parquet.*skip="):
        query.await_termination()
    assert query.restarts == 0
    assert run(counting(), ps.io.files(folder, skip=["2.parquet"]), tmp_path) == [
        {"epoch": 0, "word": "a", "count": 1},
        {"epoch": 2, "word": "a", "count": 2},
    ]


@pytest.mark.parametrize("processes", [None, 2])
def test_a_corrupt_page_is_said_once_with_input_and_file_and_the_file_can_be_mended(
    processes: int | None, tmp_path: Path
) -> None:
    folder = folder_in(tmp_path)
    file = folder / "1.parquet"
    pq.write_table(pa.table({"word": [f"word {n}" for n in range(20_000)]}), file, use_dictionary=False)
    whole = file.read_bytes()
    file.write_bytes(whole[:1000] + bytes(1000) + whole[2000:])
    query = counting().start(
        words=ps.io.files(folder), processes=processes, **with_options(places_in(tmp_path))
    )
    with pytest.raises(
        SourceError, match=r"input 'words': .*file '1\.parquet': it cannot be read as parquet"
    ):
        query.await_termination()
    assert query.restarts == 0
    file.write_bytes(whole)
    assert len(run(counting(), ps.io.files(folder), tmp_path)) == 20_000


@pytest.mark.parametrize("comes", ["before", "while it runs"])
def test_a_name_that_is_no_text_is_said_once_with_the_input(comes: str, tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    pq.write_table(pa.table({"word": ["a"]}), tmp_path / "new")

    def arrive() -> None:
        os.rename(tmp_path / "new", os.fsencode(folder) + b"/\xff.parquet")

    if comes == "before":
        arrive()
    query = counting().start(words=ps.io.files(folder), **with_options(places_in(tmp_path)))
    if comes == "while it runs":
        query.process_all_available()
        arrive()
    with pytest.raises(
        SourceError, match=r"input 'words': the folder .* name is not UTF-8: '.udcff\.parquet'"
    ):
        query.await_termination()
    assert query.restarts == 0


def test_skip_takes_names_and_not_one_text() -> None:
    with pytest.raises(FlowError, match=r"skip must be a list of names"):
        ps.io.files("in", skip="2.parquet")


# Epoch columns with a checkpoint.


@pytest.mark.parametrize(
    "days",
    [
        [[3, 1], [5]],
        [[0, 1], [1, 2]],
        [[], []],
        [[1, 128], [128]],
        [[7, 20240101], [20240101, 20240102]],
    ],
    ids=["gaps", "an epoch in two items", "nothing", "a wide gap", "days written as numbers"],
)
def test_a_checkpoint_changes_nothing_about_epoch_columns(days: list[list[int]], tmp_path: Path) -> None:
    flow = ps.Dataflow("two inputs")
    dated, counted = flow.stream_input("dated", "x long"), flow.stream_input("counted", "x long")
    flow.output("counts", dated.union(counted).group_by("x", running=True).count())
    flow.output("later", dated.delay(2))
    given = {
        "dated": [
            pa.table({"x": pa.array(item, pa.int64()), "day": pa.array(item, pa.int64())}) for item in days
        ],
        "counted": [pa.table({"x": [1]})],
    }

    def told(results: ps.Results) -> dict[str, dict[int, list[str]]]:
        return {
            name: {epoch: sorted(map(str, table.to_pylist())) for epoch, table in tables.items()}
            for name, tables in results.items()
        }

    plain = told(flow.run(given, epoch={"dated": "day"}))
    assert told(flow.run(given, epoch={"dated": "day"}, checkpoint=tmp_path, workers=2)) == plain
    assert told(flow.run(given, epoch={"dated": "day"}, checkpoint=tmp_path, workers=2)) == plain
