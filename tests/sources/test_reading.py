"""The rows of one file.

Families, and what only each can find:
- *formats*: the same rows come back from each format, chosen, ordered and typed as declared;
- *text*: what CSV and JSON leave open (nulls, words, dates, line breaks, compression) is read one way;
- *shares*: n shares are together every row once, for any number of row groups or batches;
- *refusals*: files that are missing, torn, altered or that do not fit are named, with the column.
"""

import gzip
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.errors import PointstampError, SchemaError, SourceError, StorageError
from pointstamp.rows.schema import as_schema
from pointstamp.sources import reading
from pointstamp.sources.dealing import shared
from pointstamp.sources.files import Format, files
from pointstamp.sources.port import Part

Write = Callable[[pa.Table, Path], None]
Row = dict[str, object]


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=2)


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=2)


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[Format, Write] = {
    "parquet": write_parquet,
    "arrow": write_arrow,
    "csv": pa_csv.write_csv,
    "json": write_json,
}


def rows(folder: Path, name: str, schema: str, format_name: Format) -> list[Row]:
    source = files(folder, format_name)
    part = Part(name, (folder / name).stat().st_size)
    return [row for batch in source.read(part, as_schema(schema)) for row in batch.to_pylist()]


# Formats


@pytest.mark.parametrize("format_name", WRITERS)
def test_declared_columns_come_in_the_declared_order_and_types(format_name: Format, tmp_path: Path) -> None:
    table = pa.table({"left": [9, 9, 9], "b": ["x", None, "z"], "a": [1, 2, None]})
    WRITERS[format_name](table, tmp_path / "one")
    expected = [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": None, "b": "z"}]
    assert rows(tmp_path, "one", "a long, b string", format_name) == expected


@pytest.mark.parametrize("format_name", WRITERS)
def test_every_batch_has_exactly_the_declared_schema_and_some_rows(
    format_name: Format, tmp_path: Path
) -> None:
    WRITERS[format_name](pa.table({"a": pa.array([1, 2, 3, 4, 5], pa.int32())}), tmp_path / "one")
    schema = as_schema("a long not null")
    batches = list(files(tmp_path, format_name).read(Part("one", (tmp_path / "one").stat().st_size), schema))
    assert [batch.schema for batch in batches] == [schema] * len(batches)
    assert all(batch.num_rows for batch in batches)


@pytest.mark.parametrize("format_name", WRITERS)
def test_a_file_without_rows_gives_none(format_name: Format, tmp_path: Path) -> None:
    WRITERS[format_name](pa.table({"a": pa.array([], pa.int64())}), tmp_path / "one")
    assert rows(tmp_path, "one", "a long", format_name) == []


# Text


def test_csv_takes_an_empty_field_for_null_and_no_word_for_it(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('code,value\nNA,1\n"",2\n,\nnull,NaN\n007,0.5\n')
    found = rows(tmp_path, "one", "code string, value double", "csv")
    assert [row["code"] for row in found] == ["NA", "", None, "null", "007"]
    assert str([row["value"] for row in found]) == "[1.0, 2.0, None, nan, 0.5]"


def test_csv_values_may_hold_line_breaks_and_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b'\xef\xbb\xbftext,"n, o"\r\n"a\nb",1\r\n')
    assert rows(tmp_path, "one", "text string, `n, o` long", "csv") == [{"text": "a\nb", "n, o": 1}]


@pytest.mark.parametrize("block_bytes", range(100, 120))
def test_csv_values_may_hold_line_breaks_wherever_a_block_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_BYTES", block_bytes)
    (tmp_path / "one").write_text("text\n" + '"ab\ncd\nef"\n' * 50)
    assert rows(tmp_path, "one", "text string", "csv") == [{"text": "ab\ncd\nef"}] * 50


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_a_text_file_of_no_bytes_has_no_rows(format_name: Format, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"")
    assert rows(tmp_path, "one", "a long", format_name) == []


def test_json_lines_without_an_object_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\n\n")
    assert rows(tmp_path, "one", "a long", "json") == []


def test_json_reads_dates_decimals_and_what_is_nested(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('{"d":"2024-02-29","m":"1.25","l":[1,2],"s":{"x":1}}\n{}\n')
    found = rows(tmp_path, "one", "d date, m decimal(9,2), l array<int>, s struct<x:long>", "json")
    first: Row = {"d": date(2024, 2, 29), "m": Decimal("1.25"), "l": [1, 2], "s": {"x": 1}}
    assert found == [first, dict.fromkeys("dmls")]


def test_json_is_read_alike_by_an_arrow_that_cannot_stream_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(pa_json, "open_json")
    (tmp_path / "one").write_text('{"a": 1, "d": "2024-02-29", "left": 1}\n{"a": null}\n')
    assert rows(tmp_path, "one", "a int, d date", "json") == [
        {"a": 1, "d": date(2024, 2, 29)},
        {"a": None, "d": None},
    ]
    (tmp_path / "one").write_text("\n")
    assert rows(tmp_path, "one", "a int", "json") == []


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_text_is_decompressed_as_its_name_says(format_name: Format, tmp_path: Path) -> None:
    WRITERS[format_name](pa.table({"a": [1, 2]}), tmp_path / "plain")
    (tmp_path / "one.gz").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    assert rows(tmp_path, "one.gz", "a long", format_name) == [{"a": 1}, {"a": 2}]


# Shares


@settings(max_examples=30)
@given(count=st.integers(0, 12), ways=st.integers(1, 6), format_name=st.sampled_from(["parquet", "arrow"]))
def test_shares_are_together_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, count: int, ways: int, format_name: Format
) -> None:
    folder = tmp_path_factory.mktemp("shares")
    WRITERS[format_name](pa.table({"a": pa.array(range(count), pa.int64())}), folder / "one")
    whole = Part("one", (folder / "one").stat().st_size, (0, 1))
    source = files(folder, format_name)
    found = [
        value
        for part in shared([whole], ways, 1)
        for batch in source.read(part, as_schema("a long"))
        for value in batch.column(0).to_pylist()
    ]
    assert found == list(range(count))


# Refusals


def refusal(folder: Path, schema: str, format_name: Format, size_bytes: int | None = None) -> PointstampError:
    size = (folder / "one").stat().st_size if size_bytes is None else size_bytes
    with pytest.raises(PointstampError) as caught:
        list(files(folder, format_name).read(Part("one", size), as_schema(schema)))
    assert str(folder) in str(caught.value)
    assert "file 'one'" in str(caught.value)
    return caught.value


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, "a long", "csv", size_bytes=1)
    assert isinstance(error, StorageError)
    assert "not there any more" in str(error)


def test_a_file_that_was_written_after_it_was_found_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\n1\n")
    assert "3 bytes when it was found and has 4" in str(refusal(tmp_path, "a long", "csv", size_bytes=3))


@pytest.mark.parametrize("format_name", ["parquet", "arrow"])
def test_a_torn_file_is_named(format_name: Format, tmp_path: Path) -> None:
    WRITERS[format_name](pa.table({"a": list(range(100))}), tmp_path / "one")
    (tmp_path / "one").write_bytes((tmp_path / "one").read_bytes()[:-9])
    # It is as it was found, so to read it again and again is no use: not a failure of the storage.
    assert type(refusal(tmp_path, "a long", format_name)) is SourceError


@pytest.mark.parametrize("format_name", ["parquet", "arrow", "csv"])
def test_a_column_that_is_not_in_a_file_is_named_with_those_that_are(
    format_name: Format, tmp_path: Path
) -> None:
    WRITERS[format_name](pa.table({"a": [1], "c": [2]}), tmp_path / "one")
    error = refusal(tmp_path, "a long, b long", format_name)
    assert isinstance(error, SchemaError)
    assert "the file has no column 'b', which the input declares; it has 'a', 'c'" in str(error)


@pytest.mark.parametrize("format_name", WRITERS)
def test_a_column_of_another_type_is_named(format_name: Format, tmp_path: Path) -> None:
    WRITERS[format_name](pa.table({"a": [1], "b": [1.5]}), tmp_path / "one")
    error = refusal(tmp_path, "a long, b long", format_name)
    assert isinstance(error, SchemaError)
    assert "column 'b'" in str(error)


@pytest.mark.parametrize("format_name", WRITERS)
def test_a_null_where_none_may_be_is_refused_with_its_column(format_name: Format, tmp_path: Path) -> None:
    WRITERS[format_name](pa.table({"a": [1], "b": pa.array([None], pa.int64())}), tmp_path / "one")
    assert "column 'b' must not be null" in str(refusal(tmp_path, "a long, b long not null", format_name))


def test_a_column_that_is_twice_in_a_csv_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a,a\n1,2\n")
    assert "the file has more than one column 'a'" in str(refusal(tmp_path, "a long", "csv"))


def test_what_is_no_json_blames_no_column(tmp_path: Path) -> None:
    (tmp_path / "one").write_text('{"a": 1')
    assert "column" not in str(refusal(tmp_path, "a long", "json"))
