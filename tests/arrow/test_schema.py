"""Rows at the border: what is cast, what is refused and in which words.

Tables of examples show every cast and every refusal. A property with an oracle in plain Python (the rows as
lists of values) finds what nesting, slicing and nulls break: whatever fits keeps its values. One test starts
a fresh process, because only there is nothing imported yet.
"""

import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrow.schema import as_schema, fit, to_batches
from pointstamp.errors import SchemaError

EDGES = as_schema("src long, dst long")
WHO = "input 'edges'"
UTC = datetime.UTC


def column(array: pa.Array, declared: str | pa.DataType, *, not_null: bool = False) -> pa.Array:
    """One column fitted to a type, by way of a batch."""
    data_type = as_schema(f"c {declared}").field("c").type if isinstance(declared, str) else declared
    schema = pa.schema([pa.field("c", data_type, nullable=not not_null)])
    fitted = fit(pa.record_batch({"c": array}), schema, WHO)
    assert fitted.schema.equals(schema)
    fitted.validate(full=True)
    return fitted.column("c")


def refusal(array: pa.Array, declared: str | pa.DataType, *, not_null: bool = False) -> str:
    with pytest.raises(SchemaError, match=r"^input 'edges': column 'c'") as refused:
        column(array, declared, not_null=not_null)
    return str(refused.value)


def test_a_schema_is_a_string_or_an_arrow_schema() -> None:
    assert as_schema(EDGES) is EDGES
    assert as_schema("src: bigint, dst: bigint").equals(EDGES)
    with pytest.raises(
        SchemaError, match=r"a string like 'src long, dst long' or a pyarrow.Schema, got a list"
    ):
        as_schema(["src"])
    with pytest.raises(
        SchemaError, match="column 'a' cannot be declared as list<item: string_view>, which Arrow cannot"
    ):
        as_schema(pa.schema([("a", pa.list_(pa.string_view()))]))
    with pytest.raises(SchemaError, match="got none"):
        as_schema(pa.schema([]))
    with pytest.raises(SchemaError, match="got 'a' twice"):
        as_schema(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


def test_a_batch_that_fits_comes_back_itself() -> None:
    batch = pa.record_batch({"src": [1], "dst": [2]}).replace_schema_metadata({"from": "somewhere"})
    assert fit(batch, EDGES, WHO) is batch


def test_columns_are_found_by_name() -> None:
    fitted = fit(pa.record_batch({"dst": [2], "src": [1]}), EDGES, WHO)
    assert fitted.to_pylist() == [{"src": 1, "dst": 2}]
    assert fitted.schema.names == ["src", "dst"]


MOMENT = datetime.datetime(2024, 5, 6, 7, 8, 9)
DAY = datetime.date(2024, 5, 6)
DECIMAL = Decimal("1.50")


@pytest.mark.parametrize(
    ("array", "declared"),
    [
        (pa.array([1, None], pa.int32()), "long"),
        (pa.array([-1], pa.int8()), "int"),
        (pa.array([255], pa.uint8()), "short"),
        (pa.array([2**32 - 1], pa.uint32()), "long"),
        (pa.array([2**31 - 1], pa.int32()), "double"),
        (pa.array([1], pa.int16()), "float"),
        (pa.array([1.5], pa.float32()), "double"),
        (pa.array(["a", None, "a"]).dictionary_encode(), "string"),
        (pa.array([1, 1], pa.int32()).dictionary_encode(), "long"),
        (pa.array(["a", None], pa.large_string()), "string"),
        (pa.array(["a", None], pa.string_view()), "string"),
        (pa.array([b"a"], pa.large_binary()), "binary"),
        (pa.array(["a"]), pa.large_string()),
        (pa.array([None, None]), "struct<a: int>"),
        (pa.array([MOMENT], pa.timestamp("s")), "timestamp_ntz"),
        (pa.array([MOMENT], pa.timestamp("ns")), "timestamp_ntz"),
        (pa.array([MOMENT.replace(tzinfo=UTC)], pa.timestamp("ms", tz="UTC")), "timestamp"),
        (pa.array([DAY], pa.date64()), "date"),
        (pa.array([DECIMAL], pa.decimal128(3, 2)), "decimal(10, 4)"),
        (pa.array([DECIMAL], pa.decimal256(3, 2)), "decimal(3, 2)"),
        (pa.array([[1], None, []], pa.large_list(pa.int8())), "array<long>"),
        (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), "array<int>"),
        (pa.array([{"b": 1, "a": "x"}, None]), "struct<a: string, b: long>"),
        (
            pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int8())),
            "map<string, int>",
        ),
    ],
    ids=str,
)
def test_a_cast_happens_where_it_keeps_every_value(array: pa.Array, declared: str | pa.DataType) -> None:
    assert column(array, declared).to_pylist() == array.to_pylist()


def test_a_time_in_another_zone_is_the_same_instant() -> None:
    there = pa.array([MOMENT.replace(tzinfo=UTC)], pa.timestamp("us", tz="Asia/Tokyo"))
    assert column(there, "timestamp").to_pylist() == [MOMENT.replace(tzinfo=UTC)]


@pytest.mark.parametrize(
    ("array", "declared", "words"),
    [
        (
            pa.array(["1"]),
            "long",
            "must be int64, got string. Cast it before sending, or declare 'c string'.",
        ),
        (
            pa.array([1]),
            "int",
            "must be int32, got int64. Cast it before sending, or declare 'c long'.",
        ),
        (pa.array([1], pa.uint64()), "long", "must be int64, got uint64. Cast it before sending."),
        (pa.array([1]), "double", "must be double, got int64."),
        (pa.array([1.0]), "long", "must be int64, got double."),
        (pa.array([1.0]), "float", "must be float, got double."),
        (pa.array([True]), "long", "must be int64, got bool."),
        (pa.array([1]), "boolean", "must be bool, got int64."),
        (pa.array([b"a"]), "string", "must be string, got binary."),
        (pa.array([DECIMAL], pa.decimal128(10, 2)), "decimal(10, 4)", "got decimal128(10, 2)."),
        (pa.array([MOMENT]), "timestamp", "got timestamp[us]. Give the times a zone before sending."),
        (pa.array([MOMENT.replace(tzinfo=UTC)]), "timestamp_ntz", "Drop the zone before sending."),
        (pa.array([MOMENT]), "date", "must be date32[day], got timestamp[us]."),
        (pa.array([1, 1_001], pa.timestamp("ns")), "timestamp_ntz", "with values that do not fit: Casting"),
        (pa.array([[1.5]]), "array<long>", "column 'c', element must be int64, got double."),
        (pa.array([{"a": "x"}]), "struct<a: int>", "column 'c', field 'a' must be int32, got string."),
        (pa.array([{"b": 1}]), "struct<a: int>", "column 'c' lacks 'a', which the schema declares"),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "map<string, int>",
            "'c', value must be int32",
        ),
        (pa.array([1]), "array<long>", "must be list<element: int64>, got int64."),
    ],
    ids=str,
)
def test_what_would_lose_something_is_refused(array: pa.Array, declared: str, words: str) -> None:
    message = refusal(array, declared)
    assert message.startswith("input 'edges': column 'c'")
    assert words in message


def test_a_refusal_is_one_sentence_with_the_need_and_what_to_do() -> None:
    with pytest.raises(SchemaError, match="column 'src' must be int64, got string") as refused:
        fit(pa.record_batch({"src": ["a"], "dst": [1]}), EDGES, WHO)
    assert str(refused.value) == (
        "input 'edges': column 'src' must be int64, got string. "
        "Cast it before sending, or declare 'src string'."
    )


def test_columns_that_are_missing_or_too_many_are_named() -> None:
    with pytest.raises(
        SchemaError, match=r"^input 'edges' lacks 'dst', which the schema declares; it has 'src'"
    ):
        fit(pa.record_batch({"src": [1]}), EDGES, WHO)
    with pytest.raises(
        SchemaError, match=r"^input 'edges' has 'w', 'x', but the schema declares only 'src', 'd"
    ):
        fit(pa.record_batch({"src": [1], "w": [1], "dst": [1], "x": [1]}), EDGES, WHO)
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["src", "dst", "src"])
    with pytest.raises(SchemaError, match="has the column 'src' twice"):
        fit(twice, EDGES, WHO)


def test_a_null_is_refused_where_there_must_be_none() -> None:
    assert column(pa.array([1, 2]), "long", not_null=True).to_pylist() == [1, 2]
    message = refusal(pa.array([1, None, None]), "long", not_null=True)
    assert message.startswith("input 'edges': column 'c' must not be null, got 2 nulls in 3 rows.")


def test_a_null_inside_is_refused_and_one_under_a_null_is_not() -> None:
    structs = pa.StructArray.from_arrays([pa.array([1, None])], names=["a"], mask=pa.array([False, True]))
    assert column(structs, "struct<a: long not null>").to_pylist() == [{"a": 1}, None]
    assert "column 'c', field 'a' must not be null" in refusal(
        pa.array([{"a": 1}, {"a": None}]), "struct<a: long not null>"
    )
    lists = pa.list_(pa.field("element", pa.int64(), nullable=False))
    assert column(pa.array([[1], None]), lists).to_pylist() == [[1], None]
    assert "column 'c', element must not be null" in refusal(pa.array([[1, None]]), lists)
    deep = "map<string, array<struct<a: int not null>>>"
    rows = pa.array(
        [[("k", [{"a": 1}, {"a": None}])]], pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int8())])))
    )
    assert "must not be null, got 1 nulls" in refusal(rows, deep)
    assert column(rows[:0], deep).to_pylist() == []


Tags = dict[str, bool]
Item = tuple[int | None, Tags | None]
items = st.tuples(
    st.none() | st.integers(-128, 127),
    st.none() | st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2),
)


@given(
    st.lists(st.none() | st.lists(st.none() | items, max_size=3), max_size=6),
    st.integers(0, 3),
    st.integers(0, 6),
)
def test_nested_and_sliced_rows_keep_their_values(
    rows: list[list[Item | None] | None], first: int, length: int
) -> None:
    def structs(items: list[Item | None]) -> list[object]:
        return [
            item and {"m": None if item[1] is None else list(item[1].items()), "n": item[0]} for item in items
        ]

    narrow = pa.struct([("m", pa.map_(pa.large_string(), pa.bool_())), ("n", pa.int8())])
    came = pa.array([row if row is None else structs(row) for row in rows], pa.large_list(narrow))
    sliced = came.slice(first, length)
    fitted = column(sliced, "array<struct<n: long, m: map<string, boolean>>>")
    assert fitted.to_pylist() == sliced.to_pylist()


def frames() -> dict[str, object]:
    rows = [{"src": 1, "dst": 2}, {"src": 3, "dst": 4}]
    batch = pa.RecordBatch.from_pylist(rows)
    return {
        "RecordBatch": batch,
        "Table": pa.Table.from_batches([batch]),
        "RecordBatchReader": pa.RecordBatchReader.from_batches(batch.schema, [batch]),
        "pandas": pd.DataFrame(rows, index=["x", "y"]),
        "polars": pl.DataFrame(rows),
        "dicts": rows,
    }


@pytest.mark.parametrize("kind", frames())
def test_rows_come_in_every_kind_of_frame(kind: str) -> None:
    batches = to_batches(frames()[kind], EDGES, WHO)
    assert [row for batch in batches for row in batch.to_pylist()] == frames()["dicts"]
    assert all(batch.schema.equals(EDGES) for batch in batches)


def test_a_table_of_several_chunks_keeps_their_order() -> None:
    table = pa.concat_tables([pa.table({"src": [i], "dst": [i]}) for i in range(3)])
    assert [batch.column("src").to_pylist() for batch in to_batches(table, EDGES, WHO)] == [[0], [1], [2]]


def test_rows_that_are_none_are_no_batches_and_their_columns_are_checked() -> None:
    empties: list[object] = [[], EDGES.empty_table(), pa.RecordBatch.from_pylist([], EDGES)]
    for empty in [*empties, EDGES.empty_table().to_pandas()]:
        assert to_batches(empty, EDGES, WHO) == []
    for wrong in (
        pa.schema([("x", pa.int8())]).empty_table(),
        pd.DataFrame({"x": []}),
        pl.DataFrame({"x": []}),
    ):
        with pytest.raises(SchemaError, match="lacks 'src', 'dst', which the schema declares"):
            to_batches(wrong, EDGES, WHO)


def test_pandas_objects_are_read_as_declared_and_nan_is_null() -> None:
    schema = as_schema("name string, n int, m map<string, long>, x double, at timestamp_ntz, kind string")
    frame = pd.DataFrame(
        {
            "name": ["a", None],
            "n": pd.Series([1, None], dtype=object),
            "m": [[("k", 1)], None],
            "x": [0.5, float("nan")],
            "at": pd.to_datetime([MOMENT, None]),
            "kind": pd.Series(["u", "v"], dtype="category"),
        }
    )
    (batch,) = to_batches(frame, schema, WHO)
    assert batch.to_pylist() == [
        {"name": "a", "n": 1, "m": [("k", 1)], "x": 0.5, "at": MOMENT, "kind": "u"},
        {"name": None, "n": None, "m": None, "x": None, "at": None, "kind": "v"},
    ]
    with pytest.raises(SchemaError, match="column 'src' must be int64, got double"):
        to_batches(pd.DataFrame({"src": [1, np.nan], "dst": [1, 2]}), EDGES, WHO)


def test_polars_strings_categories_and_lists_fit() -> None:
    frame = pl.DataFrame({"name": ["a", None], "tags": [["x"], []], "n": [1, 2]})
    frame = frame.with_columns(kind=pl.Series(["u", "v"], dtype=pl.Categorical))
    schema = as_schema("name string, kind string, tags array<string>, n long")
    assert [row for batch in to_batches(frame, schema, WHO) for row in batch.to_pylist()] == [
        {"name": "a", "kind": "u", "tags": ["x"], "n": 1},
        {"name": None, "kind": "v", "tags": [], "n": 2},
    ]


ROW_SCHEMA = as_schema(
    "b byte, x double, name string, raw binary, day date, at timestamp, local timestamp_ntz, "
    "price decimal(5,2), tags array<int>, m map<string, double>, s struct<a: int, t: timestamp>"
)
ROW = {
    "b": -128,
    "x": float("nan"),
    "name": "n",
    "raw": b"r",
    "day": DAY,
    "at": MOMENT.replace(tzinfo=UTC),
    "local": MOMENT,
    "price": DECIMAL,
    "tags": (1, None),
    "m": {"k": float("nan")},
    "s": {"a": None, "t": MOMENT.replace(tzinfo=UTC)},
}


def test_a_row_of_python_values_is_read_as_declared() -> None:
    (batch,) = to_batches([ROW, dict.fromkeys(ROW)], ROW_SCHEMA, WHO)
    first, second = batch.to_pylist()
    assert first["at"] == ROW["at"]
    assert first["tags"] == [1, None]
    assert first["s"] == ROW["s"]
    assert np.isnan(first["x"])
    assert second == dict.fromkeys(ROW)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b": 128}, "column 'b' must be int8, got a value that is not one: "),
        ({"b": 1.5}, "column 'b' must be int8, got 1.5, which would become 1."),
        ({"b": "1"}, "column 'b' must be int8, got a value that is not one: "),
        ({"name": 1}, "column 'name' must be string, got a value that is not one: "),
        ({"raw": "text"}, "column 'raw' must be binary, got 'text', which would become b'text'."),
        ({"day": MOMENT}, "which would become datetime.date(2024, 5, 6)"),
        ({"day": 3}, "got 3, which would become"),
        ({"at": MOMENT}, "column 'at' must be timestamp[us, tz=UTC], got datetime.datetime(2024,"),
        ({"local": ROW["at"]}, "column 'local' must be timestamp[us], got"),
        (
            {"price": Decimal("1.234")},
            "column 'price' must be decimal128(5, 2), got a value that is not one",
        ),
        ({"tags": [1.5]}, "column 'tags' must be list<element: int32>, got [1.5]"),
        ({"s": {"a": 1, "t": MOMENT}}, "column 's' must be struct"),
        ({"s": {"a": 1, "u": 2}}, "column 's' must be struct"),
        ({"extra": 1}, "input 'edges', row 1 has 'extra', but the schema declares only 'b', "),
    ],
    ids=str,
)
def test_a_python_value_that_would_change_is_refused(changed: dict[str, object], words: str) -> None:
    with pytest.raises(SchemaError, match=r"^input 'edges'") as refused:
        to_batches([ROW, {**ROW, **changed}], ROW_SCHEMA, WHO)
    assert words in str(refused.value)


def test_a_row_without_a_declared_column_is_refused() -> None:
    with pytest.raises(SchemaError, match="input 'edges', row 1 lacks 'dst', which the schema declares"):
        to_batches([{"src": 1, "dst": 1}, {"src": 1}], EDGES, WHO)


@pytest.mark.parametrize(
    ("value", "came"),
    [
        (1, "got int"),
        ("src", "got str"),
        ({"src": [1]}, "got dict"),
        ([(1, 2)], "got a list with tuple in it"),
        (pa.array([1]), "got pyarrow.lib.Int64Array"),
        (pa.chunked_array([[1]]), "got pyarrow.lib.ChunkedArray"),
        (pl.Series([1]), "got polars.series.series.Series"),
    ],
    ids=str,
)
def test_what_is_not_rows_is_refused_in_words(value: object, came: str) -> None:
    with pytest.raises(
        SchemaError, match="input 'edges': rows must be a pyarrow RecordBatch or Table"
    ) as refused:
        to_batches(value, EDGES, WHO)
    assert came in str(refused.value)


def test_neither_pandas_nor_polars_is_imported_for_rows_that_are_not_theirs() -> None:
    program = """
import sys
import pyarrow as pa
from pointstamp.arrow.schema import as_schema, to_batches
schema = as_schema("a long")
batch = pa.RecordBatch.from_arrays([pa.nulls(1, pa.int32())], names=["a"])  # pa.array imports pandas itself
assert to_batches(batch, schema, "x") == to_batches(pa.Table.from_batches([batch]), schema, "x") != []
assert not {"pandas", "polars"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
