"""Folders by the values of columns: what is read comes back as it was given, by us and by other readers.

Families:
- round trips: rows of any values of each type that may partition, with compaction and without;
- layout: the names of folders are Hive's, so that polars and pyarrow find the columns and skip folders;
- refusals as text: columns that are not there, types that names cannot hold, too many folders, long names.
"""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.connectors.files.partitions import NULL, values_of
from pointstamp.connectors.published.merging import CompactionPolicy
from pointstamp.connectors.published.reader import published_files, published_now, read_changes
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.errors import FlowError, SchemaError
from pointstamp.storage.memory import MemoryStorage

DAY = pa.schema([("x", pa.int64()), ("day", pa.date32()), ("city", pa.string())])
FIRST = datetime.date(2024, 1, 1)
ODD = ["a/b", "a=b", "50%", "%41", "ü ?*", "..", ".", "{[^]}", "a\nb", "\x01'\"#:\\", "_"]
ODD += ["", NULL, f"{NULL}x"]
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.sampled_from(ODD) | st.text(st.characters(codec="utf-8"), max_size=20),
    pa.large_string(): st.sampled_from(ODD),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.decimal128(10, 3): st.decimals(-999_999, 999_999, places=3),
}


def _publish(sink: ParquetSink, schema: pa.Schema, tables: list[list[dict[str, Any]]]) -> None:
    ready = sink.for_query("q", {"out": schema})
    for number, rows in enumerate(tables):
        batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        ready.publisher().publish(number, number, ready.writer(0, 0).stage("out", {number: [batch]}))


@given(st.data())
def test_rows_come_back_as_they_were_whatever_the_values_and_types(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    by = [f"c{number}" for number in range(len(kinds))]
    schema = pa.schema([*zip(by, kinds, strict=True), ("x", pa.int64())])
    row = st.fixed_dictionaries(
        {
            "x": st.integers(0, 9) | st.none(),
            **{name: VALUES[kind] | st.none() for name, kind in zip(by, kinds, strict=True)},
        }
    )
    tables = data.draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=4))
    storage = MemoryStorage()
    _publish(ParquetSink("memory", lambda _: storage, partition_by=by), schema, tables)
    expected = [{"epoch": n, **row} for n, rows in enumerate(tables) for row in rows]
    wanted = pa.schema([("epoch", pa.int64()), *schema])
    for _ in range(2):
        found = read_changes("", "out", open_storage=lambda _: storage)
        assert found.schema == wanted
        assert sorted(map(_comparable, found.to_pylist())) == sorted(map(_comparable, expected))
        later = read_changes("", "out", after=0, open_storage=lambda _: storage)
        assert later.num_rows == sum(map(len, tables[1:]))
        ps.io.compact("", CompactionPolicy(keep_seconds=0), open_storage=lambda _: storage)
    distinct = {tuple(row[name] for name in by) for rows in tables for row in rows}
    assert len(storage.list("out/")) == len(distinct)


def _comparable(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def _days() -> list[list[dict[str, Any]]]:
    return [
        [
            {"x": 10 * e + d, "day": FIRST + datetime.timedelta(d), "city": city}
            for d, city in enumerate(("Zürich", "a/b:c", None))
        ]
        for e in range(4)
    ]


def test_folders_are_named_as_hive_names_them_and_the_columns_are_not_in_the_files(tmp_path: Path) -> None:
    _publish(ParquetSink(str(tmp_path), partition_by=["day", "city"]), DAY, _days())
    folders = sorted({Path(name).parent.relative_to(tmp_path).as_posix() for name in _names(tmp_path)})
    assert folders == [
        "out/day=2024-01-01/city=Zürich",
        "out/day=2024-01-02/city=a%2Fb%3Ac",
        f"out/day=2024-01-03/city={NULL}",
    ]
    assert values_of(f"out/day=2024-01-03/city={NULL}/x.parquet") == {"day": "2024-01-03", "city": None}
    assert pl.read_parquet(_names(tmp_path)[0], hive_partitioning=False).columns == ["epoch", "x"]


def _names(path: Path) -> list[str]:
    return published_files(path, "out")


@pytest.mark.parametrize("is_compacted", [False, True])
def test_other_readers_find_the_columns_in_the_folders_and_skip_folders(
    tmp_path: Path, is_compacted: bool
) -> None:
    _publish(ParquetSink(str(tmp_path), partition_by=["day", "city"]), DAY, _days())
    if is_compacted:
        assert ps.io.compact(tmp_path) == ps.io.Compacted(12, 3)
    ours = read_changes(tmp_path, "out").sort_by("x").to_pylist()
    frame = pl.scan_parquet(_names(tmp_path), hive_partitioning=True).sort("x").collect()
    assert frame.select("epoch", "x", "day", "city").to_dicts() == ours
    arrow = ds.dataset(_names(tmp_path), partitioning=ds.partitioning(DAY.remove(0), flavor="hive"))
    assert arrow.to_table(columns=["epoch", "x", "day", "city"]).sort_by("x").to_pylist() == ours
    second = ds.field("day") == FIRST + datetime.timedelta(1)
    fragments = [each.path for each in arrow.get_fragments(filter=second)]
    assert len(fragments) == (1 if is_compacted else 4)
    assert all("day=2024-01-02" in path for path in fragments)


def test_outputs_may_be_partitioned_each_in_its_own_way_and_later_in_another(tmp_path: Path) -> None:
    schemas = {"a": DAY, "b": pa.schema([("y", pa.int64())])}
    rows = pa.RecordBatch.from_pylist(_days()[0], schema=DAY)
    for number, by in enumerate(({"a": ["day"]}, {"a": ["city", "day"]}, {})):
        sink = ParquetSink(str(tmp_path), partition_by=by).for_query("q", schemas)
        writer = sink.writer(0, number)
        other = writer.stage("b", {number: [pa.record_batch({"y": [number]})]})
        sink.publisher().publish(number, number, [*writer.stage("a", {number: [rows]}), *other])
    folders = [file.path.count("/") - 1 for file in published_now(tmp_path).outputs["a"].files]
    assert folders == [1, 1, 1, 2, 2, 2, 0]
    for _ in range(2):
        read = read_changes(tmp_path)
        assert read["a"].num_rows == 9
        assert read["a"].schema.names == ["epoch", "x", "day", "city"]
        assert sorted(read["a"]["city"].to_pylist(), key=str) == sorted(3 * rows["city"].to_pylist(), key=str)
        assert read["b"]["y"].to_pylist() == [0, 1, 2]
        ps.io.compact(tmp_path)


def test_what_a_dead_generation_has_staged_in_folders_goes(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path), partition_by=["city"]).for_query("q", {"out": DAY})
    rows = [{"x": 1, "day": None, "city": city} for city in ("", None, "b")]
    staged = sink.writer(0, 0).stage("out", {0: [pa.RecordBatch.from_pylist(rows, schema=DAY)]})
    assert len({piece.path for piece in staged}) == 3
    sink.publisher().discard(1, staged[:1])
    assert [(tmp_path / piece.path).exists() for piece in staged] == [True, False, False]


def test_what_cannot_be_laid_out_is_refused_in_words(tmp_path: Path) -> None:
    def check(match: str, schema: pa.Schema = DAY, **options: Any) -> None:  # noqa: ANN401 - of the sink
        with pytest.raises(FlowError, match=match):
            ParquetSink(str(tmp_path), **options).for_query("q", {"out": schema})

    check(r"output 'out' has no column 'week'; it has 'x', 'day', 'city'", partition_by=["week"])
    check(r"has no column 'epoch'", partition_by=["epoch"])
    check(r"must be a list of columns, got", partition_by="day")
    check(r"must be a list of columns, got", partition_by={"out": "day"})
    check(r"partition_by names \['other'\], but the outputs are \['out'\]", partition_by={"other": ["day"]})
    check(r"partitioned twice", partition_by=["day", "day"])
    times = pa.schema([("at", pa.timestamp("us")), ("f", pa.float64())])
    check(r"cannot be partitioned by 'at', got timestamp\[us\]\. ", times, partition_by=["at"])
    check(r"cannot be partitioned by 'f', got double", times, partition_by=["f"])


def test_too_many_folders_and_names_that_are_too_long_are_refused_in_words(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string())])
    sink = ParquetSink(str(tmp_path), partition_by=["k"], partitions_max=3).for_query("q", {"out": schema})
    writer = sink.writer(0, 0)
    assert len(writer.stage("out", {0: [pa.record_batch({"k": ["a", "b", "c", "a"]})]})) == 3
    with pytest.raises(SchemaError, match=r"has rows for 4 folders in one commit of one worker"):
        writer.stage("out", {1: [pa.record_batch({"k": list("abcd")})]})
    with pytest.raises(
        SchemaError, match=r"a value of 254 characters in the partition column 'k'.* at most 255 bytes"
    ):
        writer.stage("out", {2: [pa.record_batch({"k": ["k" * 254]})]})


def test_a_flow_whose_output_has_not_got_the_column_is_refused_when_it_starts(tmp_path: Path) -> None:
    flow = ps.Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").count("key"))
    sink = ps.io.ParquetSink(str(tmp_path / "out"), partition_by=["day"])
    with pytest.raises(SchemaError, match=r"output 'counts' has no column 'day'"):
        flow.start(keys=[pa.table({"key": [1]})], checkpoint=tmp_path / "checkpoint", output=sink)
    assert not (tmp_path / "checkpoint" / "journal").exists()


def test_a_query_publishes_into_folders(tmp_path: Path) -> None:
    flow = ps.Dataflow("counting")
    flow.output("counts", flow.stream_input("keys", "key long").count("key"))
    sink = ps.io.ParquetSink(str(tmp_path / "out"), partition_by=["key"])
    query = flow.start(
        keys=[pa.table({"key": [1, 2, 1]}), pa.table({"key": [2]})], checkpoint=tmp_path / "c", output=sink
    )
    query.await_termination()
    rows = read_changes(tmp_path / "out", "counts").sort_by([("epoch", "ascending"), ("key", "ascending")])
    assert rows.to_pylist() == [
        {"epoch": 0, "key": 1, "count": 2},
        {"epoch": 0, "key": 2, "count": 1},
        {"epoch": 1, "key": 2, "count": 1},
    ]
    assert sorted(each.name for each in (tmp_path / "out" / "counts").iterdir()) == ["key=1", "key=2"]


def test_decimals_keep_their_scale(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.decimal128(10, 3)), ("x", pa.int64())])
    _publish(ParquetSink(str(tmp_path), partition_by=["d"]), schema, [[{"d": Decimal("0.000"), "x": 1}]])
    assert read_changes(tmp_path, "out")["d"].to_pylist() == [Decimal("0.000")]
