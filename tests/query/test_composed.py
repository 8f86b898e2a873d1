"""A query that reads what another one publishes: the same epochs, complete when they are, exactly once.

Families, and what only each can find:
- *both run*: both queries in processes of their own, files arriving, workers of either killed; an epoch is
  published here although the other query continues: only this finds one that is lost, doubled or split;
- *catching up*: long after, out of merged files, with epochs that are millions apart;
- *refusals*: another query's output in the same place, an output that is not there.
"""

import os
import signal
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.connectors.published.source import published
from pointstamp.errors import FlowError, PointstampError
from pointstamp.query.query import Query
from support.options import with_options
from support.streams import published_by_epoch, put, until

WORDS = [["a", "b", "a"], ["b"], [], ["c", "a", "c"], ["a"], ["b", "b"], ["d"]]
SCHEMA = pa.schema([("x", pa.int64())])


def counting() -> ps.Dataflow:
    """Per epoch how often each word comes, and each word."""
    flow = ps.Dataflow("counting")
    words = flow.stream_input("words", "word string")
    flow.output("counts", words.count("word"))
    flow.output("lengths", words.select("word", length=ps.functions.length("word")).distinct("word"))
    return flow


def summing() -> ps.Dataflow:
    """Two outputs of one query, joined epoch by epoch, and what the counts add up to so far."""
    flow = ps.Dataflow("summing")
    counts = flow.stream_input("counts", "word string, count long")
    lengths = flow.stream_input("lengths", "word string, length long")
    flow.output(
        "letters", counts.join(lengths, "word").select("word", letters=ps.col("count") * ps.col("length"))
    )
    flow.output("total", counts.to_table().group_by("word").agg(total=ps.sum("count")).changes())
    return flow


def letters_by_epoch() -> dict[int, list[tuple[str, int]]]:
    return {
        epoch: sorted({(word, words.count(word) * len(word)) for word in words})
        for epoch, words in enumerate(WORDS)
        if words
    }


def totals() -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for words in WORDS:
        for word in words:
            found[word] += 1
    return dict(found)


def start_reader(folder: Path, **options: object) -> Query:
    return summing().start(
        counts=ps.io.published(folder / "first", "counts"),
        lengths=ps.io.published(folder / "first", "lengths"),
        checkpoint=folder / "second-state",
        output=folder / "second",
        **with_options(options, ps.QueryOptions(epoch="epoch")),
    )


def start_writer(folder: Path, **options: object) -> Query:
    return counting().start(
        words=ps.io.files(folder / "in"),
        checkpoint=folder / "first-state",
        output=folder / "first",
        **with_options(options),
    )


def test_both_run_and_workers_of_either_die(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    second, first = start_reader(tmp_path, processes=2), start_writer(tmp_path, processes=2)
    try:
        for number, words in enumerate(WORDS):
            put(tmp_path / "in", f"{number}", {"word": pa.array(words, pa.string())})
            until(lambda number=number: second.epoch >= number)  # type: ignore[misc]
            if number == 1:
                os.kill(first.workers()[1][1], signal.SIGKILL)
            if number == 3:
                os.kill(second.workers()[0][1], signal.SIGKILL)
        assert (first.restarts, second.restarts) == (1, 1)
        waits = f"input 'lengths' waits for epoch 7 of what is published in '{tmp_path}/first' as 'lengths'"
        assert [each for each in second.why("letters") if each.startswith(waits)]
        assert not [each for each in second.why("total") if "lengths" in each]
    finally:
        first.stop(finish=False)
        second.stop(finish=False)
    assert published_by_epoch(tmp_path / "second", "letters") == letters_by_epoch()
    assert _totals(tmp_path) == totals()


def _totals(folder: Path) -> dict[str, int]:
    rows = ps.read_table(folder / "second", "total").to_pylist()
    return {row["word"]: row["total"] for row in rows}


def test_a_reader_that_begins_late_and_stops_in_between_reads_merged_files(tmp_path: Path) -> None:
    for number, words in enumerate(WORDS):
        put(tmp_path / "in", f"{number}", {"word": pa.array(words, pa.string())})
        start_writer(tmp_path, available_now=True).awaitTermination()
        if number == 3:
            start_reader(tmp_path, available_now=True).awaitTermination()
            ps.io.compact(tmp_path / "first", ps.io.CompactionPolicy(keep_seconds=0))
    ps.io.compact(tmp_path / "first", ps.io.CompactionPolicy(keep_seconds=0))
    start_reader(tmp_path, available_now=True, processes=2).awaitTermination()
    assert published_by_epoch(tmp_path / "second", "letters") == letters_by_epoch()
    assert _totals(tmp_path) == totals()


def test_epochs_far_apart_are_as_many_units_as_have_rows(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), compaction=None).for_query("other", {"numbers": SCHEMA})
    writer, publisher = sink.writer(0, 1), sink.publisher()
    rows = pa.record_batch({"x": [1]})
    epochs = [3, 1_000_000_000, 1_000_000_007]
    publisher.publish(0, 2_000_000_000, writer.stage("numbers", {epoch: [rows] for epoch in epochs}))
    units = published(tmp_path, "numbers").watch(None).poll()
    assert [(unit.least_epoch, len(unit.parts)) for unit in units] == [
        *((epoch, 1) for epoch in epochs),
        (2_000_000_000, 0),
    ]
    schema = pa.schema([("epoch", pa.int64()), *SCHEMA])
    read = [
        row
        for unit in units
        for part in unit.parts
        for row in published(tmp_path, "numbers").read(part, schema)
    ]
    assert [batch.to_pylist() for batch in read] == [[{"epoch": epoch, "x": 1}] for epoch in epochs]


def test_what_an_input_has_completed_is_known_after_a_restart(tmp_path: Path) -> None:
    columns = {name: [("word", pa.string()), (name[:-1], pa.int64())] for name in ("counts", "lengths")}
    publishers = {
        name: ParquetSink(str(tmp_path / name)).for_query(name, {name: pa.schema(each)}).publisher()
        for name, each in columns.items()
    }

    def read_on() -> int:
        query = summing().start(
            counts=ps.io.published(tmp_path / "counts", "counts"),
            lengths=ps.io.published(tmp_path / "lengths", "lengths"),
            checkpoint=tmp_path / "c",
            output=tmp_path / "o",
            options=ps.QueryOptions(epoch="epoch"),
        )
        until(lambda: query.epoch >= expected, 30)
        query.stop()
        return query.epoch

    publishers["counts"].publish(0, 5, [])
    publishers["lengths"].publish(0, 2, [])
    expected = 2
    assert read_on() == 2
    publishers["lengths"].publish(1, 5, [])  # and nothing more of the counts
    expected = 5
    assert read_on() == 5


def test_another_query_in_the_same_place_is_refused(tmp_path: Path) -> None:
    source = published(tmp_path / "out", "numbers")
    ParquetSink(str(tmp_path / "out")).for_query("one", {"numbers": SCHEMA}).publisher().publish(0, 4, [])
    (unit,) = source.watch(None).poll()
    position = source.after(None, unit)
    os.rename(tmp_path / "out", tmp_path / "old")
    ParquetSink(str(tmp_path / "out")).for_query("two", {"numbers": SCHEMA}).publisher().publish(0, 4, [])
    with pytest.raises(PointstampError, match=r"epochs up to 4 of query 'one' were read, .* query 'two'"):
        source.watch(position).poll()


def test_an_output_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    ParquetSink(str(tmp_path / "first")).for_query("one", {"numbers": SCHEMA}).publisher().publish(0, 4, [])
    with pytest.raises(FlowError, match=r"has the outputs 'numbers', but not 'counts'\. Ask for one"):
        start_reader(tmp_path)


def test_a_table_of_another_query_goes_on_as_a_table_with_its_deletions(tmp_path: Path) -> None:
    first = ps.Dataflow("first")
    first.output("table", first.table("rows", "x long, w long", weight="w").distinct().changes())
    rows = [[{"x": 1, "w": 1}, {"x": 2, "w": 1}], [{"x": 1, "w": -1}], [{"x": 5, "w": 1}]]
    first.start(
        rows=[pa.Table.from_pylist(each) for each in rows],
        checkpoint=tmp_path / "c1",
        output=tmp_path / "o1",
        available_now=True,
    ).await_termination()
    second = ps.Dataflow("second")
    table = second.table("table", "x long, diff long", weight="diff")
    second.output("total", table.agg(total=ps.sum("x")).changes())
    second.start(
        table=ps.io.published(tmp_path / "o1", "table"),
        checkpoint=tmp_path / "c2",
        output=tmp_path / "o2",
        available_now=True,
        options=ps.QueryOptions(epoch="epoch"),
    ).await_termination()
    totals = [ps.read_table(tmp_path / "o2", "total", as_of=epoch).to_pylist() for epoch in range(3)]
    assert totals == [[{"total": 3}], [{"total": 2}], [{"total": 7}]]
