"""The fingerprint of rows at hand: the same for the same values, another for others.

Families, and what only each can find:
- *the same*: values that lie in memory in another way: a slice, a copy, garbage under nulls, bytes before an
  offset; of every type that a flow may declare. Only this finds a fingerprint of what nobody can see;
- *others* (hypothesis, and by hand for what is larger than a block): one value, one null, one swap, one row
  more; only this finds a difference that is folded away;
- *known*: the letters of some rows, written down: a checkpoint of yesterday must be continued with today.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.connectors.memory import fingerprint

WORDS_PER_BLOCK = 8_192

COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([1, None, -3, 4], pa.int64()),
    "byte": pa.array([1, 2, None, 4], pa.uint8()),
    "flag": pa.array([True, None, False, True]),
    "float": pa.array([0.5, None, float("nan"), -1.0]),
    "text": pa.array(["a", "", None, "long " * 20]),
    "large": pa.array(["a", None, "", "b"], pa.large_string()),
    "bytes": pa.array([b"\x00", None, b"", b"\xff\xff"]),
    "fixed": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
    "decimal": pa.array([1, None, 3, 4], pa.decimal128(20, 2)),
    "day": pa.array([1, None, 3, 4], pa.date32()),
    "instant": pa.array([1, None, 3, 4], pa.timestamp("us", "UTC")),
    "span": pa.array([1, None, 3, 4], pa.duration("us")),
    "list": pa.array([[1, None], None, [], [3]], pa.list_(pa.int64())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}, {"a": 4, "b": None}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", None, "y", "x"]).dictionary_encode(),
    "null": pa.nulls(4),
}
of_every_type = pytest.mark.parametrize("column", COLUMNS.values(), ids=list(COLUMNS))


def of(*columns: pa.Array) -> str:
    return fingerprint(
        pa.RecordBatch.from_arrays(list(columns), [str(number) for number in range(len(columns))])
    )


# The same.


@of_every_type
def test_a_slice_and_a_copy_of_it_are_the_same(column: pa.Array) -> None:
    twice = pa.concat_arrays([column, column, column])
    assert of(twice.slice(len(column), len(column))) == of(column)
    assert of(twice.slice(1, 2)) == of(column.take(pa.array([1, 2])))
    assert of(column.slice(0, 0)) == of(twice.slice(5, 0))


@pytest.mark.parametrize("garbage", [[1, 99, 3], [1, -1, 3]], ids=str)
def test_what_lies_under_a_null_is_not_looked_at(garbage: list[int]) -> None:
    mask = np.array([False, True, False])
    assert of(pa.array(np.array(garbage), mask=mask)) == of(pa.array([1, None, 3]))


def test_text_under_a_null_is_not_looked_at() -> None:
    full = pa.array(["a", "hidden", "c"])
    hiding = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *full.buffers()[1:]])
    assert hiding.to_pylist() == ["a", None, "c"]
    assert of(hiding) == of(pa.array(["a", None, "c"]))


def test_an_array_that_says_that_it_may_have_nulls_and_has_none_is_the_same() -> None:
    plain = pa.array([1, 2])
    bitmap = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\xff"), plain.buffers()[1]])
    assert of(bitmap) == of(plain)


def test_a_type_without_a_hash_counts_by_its_nulls() -> None:
    kind = pa.list_(pa.month_day_nano_interval())
    given = [[(1, 2, 3)], None], [[(9, 9, 9)], None], [None, None]
    before, other, fewer = (of(pa.array(each, kind)) for each in given)
    assert before == other != fewer


# Others.


@of_every_type
def test_every_row_that_is_lost_moved_or_made_null_is_seen(column: pa.Array) -> None:
    others = {
        "the same": column,
        "a row less": column.slice(0, 3),
        "another row": column.take(pa.array([0, 1, 2, 2])),
        "a null moved": column.take(pa.array([1, 0, 2, 3])),
        "a null more": column.take(pa.array([None, 1, 2, 3])),
    }
    found = {of(each) for each in others.values()}
    assert len(found) == (2 if pa.types.is_null(column.type) else len(others))


def test_columns_are_told_apart() -> None:
    a, b = pa.array([1, 2]), pa.array([3, 4])
    texts = [pa.array(["ab", "c"]), pa.array(["a", "bc"]), pa.array(["abc", ""])]
    assert len({of(a, b), of(b, a), of(a), of(a, b, b), *map(of, texts)}) == 7


@pytest.mark.parametrize("words", [1, WORDS_PER_BLOCK - 1, WORDS_PER_BLOCK, 2 * WORDS_PER_BLOCK + 3])
@pytest.mark.parametrize("value", [1, 1 << 32, 1 << 63], ids=hex)
def test_each_changed_bit_of_a_large_column_is_seen(words: int, value: int) -> None:
    numbers = np.arange(words, dtype=np.uint64)
    before = of(pa.array(numbers))
    for place in {0, words // 2, words - 1}:
        changed = numbers.copy()
        changed[place] ^= np.uint64(value)
        assert of(pa.array(changed)) != before


def test_two_round_floats_that_change_places_are_seen_wherever_they_are() -> None:
    """Their last 52 bits are zero: without the fold of words one pair in two thousand would be missed."""
    floats = np.ones(WORDS_PER_BLOCK)
    found = set()
    for place in range(0, WORDS_PER_BLOCK, 16):
        floats[place] = 2.0
        found.add(of(pa.array(floats)))
        floats[place] = 1.0
    assert len(found) == WORDS_PER_BLOCK // 16


Values = st.lists(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1])), max_size=20
)


@settings(max_examples=300)
@given(first=Values, second=Values)
def test_two_columns_have_the_same_fingerprint_exactly_if_they_are_equal(
    first: list[Any], second: list[Any]
) -> None:
    arrays = [pa.array(each, pa.int64()) for each in (first, second)]
    assert (of(arrays[0]) == of(arrays[1])) == (first == second)


# Known.


def test_the_fingerprints_of_yesterday_are_those_of_today() -> None:
    assert of() == "ca08ea5bca49cc18"
    assert of(*COLUMNS.values()) == "b5cbdbc9ed3d5637"
    assert of(pa.array(np.arange(3 * WORDS_PER_BLOCK + 5))) == "ac4d004fcc23885d"
