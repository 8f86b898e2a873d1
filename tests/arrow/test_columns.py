"""Rows taken out of columns, and compared, beside lists of Python's.

Families, and what only each can find:
- every type that is worked on, with nulls, as a slice of a longer array: an offset that is left out, of
  values or of bitmaps;
- several parts one behind the other, and two parts interleaved, some without nulls: bits that are set at the
  wrong place, texts that begin where others do;
- types that are not worked on: an answer where there should be none.
Two values are the same here if Python says so; NaN and -0.0 are cases of their own.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrangement.column_arrays import kept_column
from pointstamp.arrow import columns

Values = list[Any]

_small = st.integers(-(2**7), 2**7 - 1)
_text = st.text(st.characters(codec="utf-8"), max_size=9)
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): _small,
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False).map(lambda x: x + 0.0),
    pa.float64(): st.floats(allow_nan=False).map(lambda x: x + 0.0),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(12, 2): st.decimals("-9999", "9999", places=2),
    pa.decimal256(50, 1): st.decimals("-9999", "9999", places=1),
    pa.string(): _text,
    pa.large_string(): _text,
    pa.binary(): st.binary(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
}


@st.composite
def column(draw: st.DrawFn, kind: pa.DataType) -> tuple[pa.Array, Values]:
    """A slice of an array of this type, and its values."""
    value = KINDS[kind]
    with_nulls = st.one_of(st.none(), value) if draw(st.booleans()) else value
    values = draw(st.lists(with_nulls, max_size=40))
    begin = draw(st.integers(0, len(values)))
    end = draw(st.integers(begin, len(values)))
    return pa.array(values, kind).slice(begin, end - begin), values[begin:end]


@st.composite
def kinds_and_columns(draw: st.DrawFn, most: int) -> tuple[pa.DataType, list[tuple[pa.Array, Values]]]:
    kind = draw(st.sampled_from(list(KINDS)))
    return kind, draw(st.lists(column(kind), min_size=1, max_size=most))


def places(rows: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, rows - 1), max_size=60) if rows else st.just([])


def positions(at: list[int]) -> np.ndarray[Any, np.dtype[np.intp]]:
    return np.array(at, np.intp)


def values_of(found: object, kind: pa.DataType) -> Values:
    """What a kernel made, after Arrow has checked it, as Python's values."""
    if isinstance(found, np.ndarray):
        found = pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(np.ascontiguousarray(found))])
    assert isinstance(found, pa.Array)
    assert found.type == kind
    found.validate(full=True)
    values: Values = found.to_pylist()
    assert found.null_count == values.count(None)
    return values


@given(st.data(), kinds_and_columns(3))
def test_oracle_rows_are_taken_from_parts_one_behind_the_other(
    data: st.DataObject, made: tuple[pa.DataType, list[tuple[pa.Array, Values]]]
) -> None:
    kind, parts = made
    at = [data.draw(places(len(values))) for _, values in parts]
    given_parts = [(kept_column(array), positions(own)) for (array, _), own in zip(parts, at, strict=True)]
    wanted = [values[place] for (_, values), own in zip(parts, at, strict=True) for place in own]
    assert values_of(columns.taken_together(given_parts, kind), kind) == wanted
    first, own = given_parts[0]
    assert values_of(columns.taken(first, own), kind) == wanted[: len(own)]


@given(st.data(), st.sampled_from(list(KINDS)))
def test_oracle_rows_of_two_columns_are_interleaved(data: st.DataObject, kind: pa.DataType) -> None:
    (one, left), (other, right) = data.draw(column(kind)), data.draw(column(kind))
    both = left + right
    at = data.draw(places(len(both)))
    found = columns.merged_columns([kept_column(one)], [kept_column(other)], positions(at), [kind])[0]
    assert values_of(found, kind) == [both[place] for place in at]


@given(st.data(), kinds_and_columns(4))
def test_oracle_rows_are_gathered_from_any_part_in_any_order(
    data: st.DataObject, made: tuple[pa.DataType, list[tuple[pa.Array, Values]]]
) -> None:
    kind, parts = made
    every = [(part, row) for part, (_, values) in enumerate(parts) for row in range(len(values))]
    asked = data.draw(st.lists(st.sampled_from(every), max_size=60)) if every else []
    part_of, at = positions([part for part, _ in asked]), positions([row for _, row in asked])
    (found,) = columns.gathered([[kept_column(array)] for array, _ in parts], part_of, at, [kind])
    assert values_of(found, kind) == [parts[part][1][row] for part, row in asked]


@given(st.data(), st.sampled_from(list(KINDS)))
def test_oracle_rows_are_equal_where_python_says_so(data: st.DataObject, kind: pa.DataType) -> None:
    (one, left), (other, right) = data.draw(column(kind)), data.draw(column(kind))
    if data.draw(st.booleans()):
        other, right = one, left
    pairs = [(a, b) for a in range(len(left)) for b in range(len(right))][:200]
    these, those = positions([a for a, _ in pairs]), positions([b for _, b in pairs])
    found = columns.equal_rows(kept_column(one), these, kept_column(other), those)
    assert found is not None
    assert found.tolist() == [left[a] == right[b] for a, b in pairs]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("with_null", [False, True])
def test_every_nan_is_the_same_and_zero_has_no_sign(kind: pa.DataType, with_null: bool) -> None:
    dtype = kind.to_pandas_dtype()
    odd = np.array([np.nan, -np.nan, 0.0, -0.0, 1.0, np.inf, -np.inf], dtype)
    odd.view(f"u{odd.itemsize}")[1] |= 1  # another NaN
    array = pa.array([*odd, None] if with_null else odd, kind)
    count = len(array)
    these, those = np.repeat(np.arange(count), count), np.tile(np.arange(count), count)
    found = columns.equal_rows(kept_column(array), these, kept_column(array), those)
    assert found is not None
    alike = [{0, 1}, {2, 3}, {4}, {5}, {6}, {7}]
    wanted = [any({a, b} <= each for each in alike) for a, b in zip(these, those, strict=True)]
    assert found.tolist() == wanted


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], None, [2, 3]]),
        pa.array([{"a": 1}, None]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array([None, None]),
        pa.array(["a"], pa.string_view()),
        pa.array([b"ab"], pa.binary(2)),
    ],
    ids=lambda array: str(array.type),
)
def test_other_types_are_left_to_arrow(array: pa.Array) -> None:
    at = positions([0])
    assert columns.taken(array, at) is None
    assert columns.merged_columns([array], [array], at, [array.type]) == [None]
    assert columns.equal_rows(array, at, array, at) is None


def test_texts_that_are_more_than_one_array_can_hold_are_left_to_arrow() -> None:
    text = pa.array(["x" * (1 << 20)])
    at = np.zeros(2_048, np.intp)
    assert columns.taken(text, at) is None
    assert columns.merged_columns([text], [text], at, [text.type]) == [None]
    assert columns.taken(text, at[:3]) == pa.array(["x" * (1 << 20)] * 3)


def test_what_is_in_steps_or_of_another_width_is_refused() -> None:
    with pytest.raises(TypeError, match="values of 8 bytes in one piece"):
        columns.taken(np.arange(9)[::2], np.arange(2))
    with pytest.raises(TypeError, match="values of 8 bytes in one piece"):
        columns.taken(np.arange(9), np.arange(2, dtype=np.int32))


def test_many_rows_are_taken_as_few_are() -> None:
    rows = 100_000
    at = np.random.default_rng(1).permutation(rows)
    texts = pa.array([None if row % 7 == 0 else str(row) * (row % 4) for row in range(rows)])
    found = columns.taken(texts, at)
    assert isinstance(found, pa.Array)
    assert found.equals(texts.take(pa.array(at)))
