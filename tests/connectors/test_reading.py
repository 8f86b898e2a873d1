"""The rows of one file.

Families, and what only each can find:
- *formats*: the same rows come back from each format, chosen, ordered and typed as declared;
- *text*: what CSV and JSON leave open (nulls, words, dates, line breaks, compression) is read one way;
- *shares*: n shares are together every row once, for any number of row groups or batches;
- *refusals*: files that are missing, torn, altered or that do not fit are named, with the column;
- *names*: formats, and columns that folders are named after;
- *bad rows*: text that is not UTF-8, values that do not fit, lines that are too long, each with its place.
"""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.arrow.schema import as_schema
from pointstamp.connectors.files import formats
from pointstamp.connectors.files.folder import Format
from pointstamp.connectors.files.source import files
from pointstamp.connectors.source import Part, shared
from pointstamp.errors import FlowError, PointstampError, SchemaError, SourceError, StorageError

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


def rows(folder: Path, name: str, schema: str, format_name: Format | None) -> list[Row]:
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
    monkeypatch.setattr(formats, "_BLOCK_BYTES", block_bytes)
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
    with pytest.raises(PointstampError, match=r"^files .*file 'one'") as caught:
        list(files(folder, format_name).read(Part("one", size), as_schema(schema)))
    assert str(folder) in str(caught.value)
    assert "file 'one'" in str(caught.value)
    return caught.value


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, "a long", "csv", size_bytes=1)
    assert isinstance(error, StorageError)
    assert "no longer exists" in str(error)


def test_a_file_that_was_written_after_it_was_found_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\n1\n")
    assert "3 bytes when it was listed, and now has 4" in str(
        refusal(tmp_path, "a long", "csv", size_bytes=3)
    )


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


# Names: formats and columns that they tell.


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"x\n1\n"),
        ("a.tsv", b"y\tx\n0\t1\n"),
        ("a.jsonl", b'{"x": 1}\n'),
        ("a.ndjson", b'{"x": 1}\n'),
        ("a.JSON", b'{"x": 1}\n'),
        ("a.csv.gz", gzip.compress(b"x\n1\n")),
        ("a.jsonl.gz", gzip.compress(b'{"x": 1}\n')),
    ],
)
def test_the_name_of_a_file_tells_its_format(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert rows(tmp_path, name, "x long", None) == [{"x": 1}]


def test_a_name_that_tells_nothing_is_parquet_and_the_error_says_how_to_name_another_format(
    tmp_path: Path,
) -> None:
    write_parquet(pa.table({"x": [1]}), tmp_path / "part-0")
    assert rows(tmp_path, "part-0", "x long", None) == [{"x": 1}]
    (tmp_path / "part-1.txt").write_text("x\n1\n")
    with pytest.raises(
        SourceError, match=r"cannot be read as parquet.*If it has another format, set format="
    ):
        rows(tmp_path, "part-1.txt", "x long", None)


@pytest.mark.parametrize("format_name", WRITERS)
def test_values_of_folders_are_columns(format_name: Format, tmp_path: Path) -> None:
    folder = tmp_path / "day=2024-01-31" / "city=S%C3%A3o%20Paulo" / "n=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    WRITERS[format_name](pa.table({"x": [1, 2]}), folder / "one")
    name = str((folder / "one").relative_to(tmp_path))
    both: Row = {"city": "São Paulo", "day": date(2024, 1, 31), "n": None}
    found = rows(tmp_path, name, "x long, city string, day date, n long", format_name)
    assert found == [{"x": 1, **both}, {"x": 2, **both}]
    assert rows(tmp_path, name, "day date", format_name) == [{"day": date(2024, 1, 31)}] * 2


def test_a_value_of_a_folder_that_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "day=soon").mkdir()
    write_parquet(pa.table({"x": [1]}), tmp_path / "day=soon" / "one")
    with pytest.raises(
        SchemaError, match=r"file 'day=soon/one': its folder is day=soon, but 'day' is declared as date32"
    ):
        rows(tmp_path, "day=soon/one", "x long, day date", "parquet")


@pytest.mark.parametrize("format_name", ["parquet", "arrow", "csv"])
def test_columns_match_exactly_or_else_without_case(format_name: Format, tmp_path: Path) -> None:
    WRITERS[format_name](pa.table({"ID": [1], "id": [2], "Name": ["a"]}), tmp_path / "one")
    assert rows(tmp_path, "one", "id long, name string", format_name) == [{"id": 2, "name": "a"}]
    WRITERS[format_name](pa.table({"ID": [1], "Id": [2]}), tmp_path / "two")
    with pytest.raises(SchemaError, match="declares 'id', but the file has 'ID', 'Id', which differ"):
        rows(tmp_path, "two", "id long", format_name)


def test_a_missing_column_is_advised_to_be_skipped(tmp_path: Path) -> None:
    write_parquet(pa.table({"x": [1]}), tmp_path / "one")
    with pytest.raises(SchemaError, match=r"has no column 'y'.* leave this file out with skip="):
        rows(tmp_path, "one", "y long", "parquet")


# Times.


def test_times_that_spark_writes_as_int96_are_instants(tmp_path: Path) -> None:
    at = datetime(2024, 1, 31, 12, 30, tzinfo=UTC)
    table = pa.table({"at": [at], "s": [{"at": at, "x": 1}], "l": [[at]]})
    pq.write_table(table, tmp_path / "one", use_deprecated_int96_timestamps=True)
    schema = "at timestamp, s struct<at:timestamp, x:long>, l array<timestamp>"
    assert rows(tmp_path, "one", schema, "parquet") == [{"at": at, "s": {"at": at, "x": 1}, "l": [at]}]
    naive = datetime(2024, 1, 31, 12, 30)
    assert rows(tmp_path, "one", "at timestamp_ntz", "parquet") == [{"at": naive}]


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_a_timestamp_of_text_without_a_zone_is_utc(format_name: Format, tmp_path: Path) -> None:
    texts = ["2024-01-31 12:30:00", "2024-01-31T12:30:00.5Z", "2024-01-31 12:30:00+02:00", "2024-01-31"]
    WRITERS[format_name](pa.table({"at": texts}), tmp_path / "one")
    found = [str(row["at"]) for row in rows(tmp_path, "one", "at timestamp", format_name)]
    assert found == [
        "2024-01-31 12:30:00+00:00",
        "2024-01-31 12:30:00.500000+00:00",
        "2024-01-31 10:30:00+00:00",
        "2024-01-31 00:00:00+00:00",
    ]


# Options of CSV.


def test_csv_may_have_another_delimiter_another_quote_and_no_header(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1;'a;b'\n2;c\n")
    source = files(tmp_path, "csv", delimiter=";", quote="'", header=False)
    part = Part("one", (tmp_path / "one").stat().st_size)
    found = [row for batch in source.read(part, as_schema("x long, s string")) for row in batch.to_pylist()]
    assert found == [{"x": 1, "s": "a;b"}, {"x": 2, "s": "c"}]


@pytest.mark.parametrize(
    "wrong", [{"delimiter": ";;"}, {"quote": "ä"}, {"on_bad": "skip"}, {"on_bad": "keep"}]
)
def test_options_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FlowError, match=f"files '/in': {next(iter(wrong))}"):
        files("/in", "csv", **wrong)


# Text that is not UTF-8.

LATIN = '{"s": "ok"}\n{"s": "café"}\n'.encode("latin-1")


def test_json_that_is_not_utf8_is_refused_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(LATIN)
    with pytest.raises(SchemaError, match=r"file 'one', line 2: it is not UTF-8: byte 0xe9 at position 10\."):
        rows(tmp_path, "one", "s string", "json")
    with pytest.raises(SchemaError, match=r"line 2: it is not UTF-8"):  # whatever is declared
        rows(tmp_path, "one", "t string", "json")


def test_csv_that_is_not_utf8_is_refused_with_file_and_row(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes("s\nok\ncafé\n".encode("latin-1"))
    with pytest.raises(SchemaError, match=r"file 'one', row 2: .*column 's': .*Invalid UTF8"):
        rows(tmp_path, "one", "s string", "csv")


@pytest.mark.parametrize("format_name", ["parquet", "arrow"])
def test_binary_files_with_text_that_is_not_utf8_are_refused(format_name: Format, tmp_path: Path) -> None:
    wrong = pa.array([b"caf\xe9"]).view(pa.string())
    WRITERS[format_name](
        pa.table({"s": wrong, "n": pa.StructArray.from_arrays([wrong], ["t"])}), tmp_path / "one"
    )
    for schema in ("s string", "n struct<t:string>"):
        with pytest.raises(SchemaError, match=r"file 'one': column '.' has text that is not UTF-8"):
            rows(tmp_path, "one", schema, format_name)


# Rows that cannot be read.


BAD = {
    "csv": b"x,s\n1,a\noops,b\n3,c\n4\n5,caf\xe9\n6,d\n",
    "json": b'{"x": 1, "s": "a"}\n{"x": "oops"}\n\n{"x": 3, "s": "c"}\n{\n{"s": "caf\xe9"}\n'
    b'{"x": 6, "s": "d"}\n',
}


def read_with(folder: Path, format_name: Format, schema: str, **options: Any) -> tuple[list[Row], int]:  # noqa: ANN401
    source = files(folder, format_name, **options)
    part = Part("one", (folder / "one").stat().st_size)
    found = [row for batch in source.read(part, as_schema(schema)) for row in batch.to_pylist()]
    return found, source.skipped(part)


@pytest.mark.parametrize("format_name", BAD)
def test_bad_rows_may_be_dropped_and_are_counted(
    format_name: Format, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "one").write_bytes(BAD[format_name])
    found, skipped = read_with(tmp_path, format_name, "x long, s string", on_bad="drop")
    assert found == [{"x": 1, "s": "a"}, {"x": 3, "s": "c"}, {"x": 6, "s": "d"}]
    assert skipped == 3
    assert "file 'one': 3 rows could not be read and were dropped." in caplog.messages[-1]


@pytest.mark.parametrize("format_name", BAD)
def test_bad_rows_may_be_kept_with_the_reason(format_name: Format, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(BAD[format_name])
    columns = {"why": "error", "name": "file"}
    found, skipped = read_with(
        tmp_path, format_name, "x long, why string, name string, s string", on_bad="keep", columns=columns
    )
    assert skipped == 0
    assert [row for row in found if row["why"] is None] == [
        {"x": x, "why": None, "name": "one", "s": s} for x, s in ((1, "a"), (3, "c"), (6, "d"))
    ]
    bad = [row for row in found if row["why"] is not None]
    assert [(row["x"], row["s"], row["name"]) for row in bad] == [(None, None, "one")] * 3
    reasons = " | ".join(str(row["why"]) for row in bad)
    assert "oops" in reasons or "line 2" in reasons


@pytest.mark.parametrize("format_name", BAD)
@pytest.mark.parametrize("block_bytes", [60, 64, 70, 80])
def test_bad_rows_are_the_same_wherever_a_block_ends(
    format_name: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(formats, "_BLOCK_BYTES", block_bytes)
    (tmp_path / "one").write_bytes(BAD[format_name])
    found, skipped = read_with(tmp_path, format_name, "x long, s string", on_bad="drop")
    assert [row["x"] for row in found] == [1, 3, 6]
    assert skipped == 3


# Long lines.


@pytest.mark.parametrize(
    ("format_name", "content"),
    [
        ("json", '{{"x": 1, "s": "a"}}\n{{"x": 2, "s": "{}"}}\n{{"x": 3, "s": "c"}}\n'),
        ("csv", "x,s\n1,a\n2,{}\n3,c\n"),
    ],
)
def test_a_long_line_is_read_or_named_with_the_option(
    format_name: Format, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 256)
    (tmp_path / "one").write_text(content.format("b" * 5_000))
    found, _ = read_with(tmp_path, format_name, "x long, s string")
    assert [(row["x"], len(str(row["s"]))) for row in found] == [(1, 1), (2, 5_000), (3, 1)]
    with pytest.raises(SourceError, match=r"file 'one', .*longer than line_bytes_max=1,000 bytes"):
        read_with(tmp_path, format_name, "x long, s string", line_bytes_max=1_000)


@pytest.mark.parametrize("block_bytes", [64, 4096])
@pytest.mark.parametrize("long_bytes", [1_000, 1_001, 1_040, 1_900])
def test_a_line_of_json_may_have_the_longest_length_and_no_byte_more_wherever_a_block_ends(
    long_bytes: int, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_BLOCK_BYTES", block_bytes)
    short = '{"x": 1, "s": "a"}'
    long = f'{{"x": 2, "s": "{"b" * (long_bytes - len(short) + 1)}"}}'
    assert len(long) == long_bytes
    (tmp_path / "one").write_text("\n".join([short, short, long, short, ""]))
    if long_bytes > 1_000:
        with pytest.raises(SourceError, match=r"file 'one', line 3: it is longer than line_bytes_max=1,000"):
            read_with(tmp_path, "json", "x long, s string", line_bytes_max=1_000)
    else:
        found, _ = read_with(tmp_path, "json", "x long, s string", line_bytes_max=1_000)
        assert [row["x"] for row in found] == [1, 1, 2, 1]


def test_a_row_of_csv_twice_as_long_as_the_longest_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 64)
    for long_bytes, is_read in ((990, True), (2_000, False)):
        (tmp_path / "one").write_text(f"x,s\n1,a\n2,{'b' * (long_bytes - 2)}\n3,c\n")
        if is_read:
            found, _ = read_with(tmp_path, "csv", "x long, s string", line_bytes_max=1_000)
            assert [row["x"] for row in found] == [1, 2, 3]
        else:
            with pytest.raises(SourceError, match=r"longer than line_bytes_max=1,000 bytes"):
                read_with(tmp_path, "csv", "x long, s string", line_bytes_max=1_000)
