"""Keys and slots.

- *oracle*: batches of random keys against a Python dict that numbers keys in the order in which they come. It
  finds a key that is lost, doubled or mixed up, in whatever way a batch is looked up.
- *types*: every Arrow type that can be a key, with nulls and in a slice, against the same dict. It finds a
  type whose values do not come back, or are told apart wrongly.
- *collisions*: the same with one hash for all keys, or for many. It finds a hit that is not compared.
- *ranges*: integers close together, far apart and at both ends of 64 bits. It finds what goes wrong where
  the table grows.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrow import key_index as keyindex
from pointstamp.arrow.key_index import KeyIndex
from pointstamp.errors import SchemaError

Hash = Callable[[list[pa.Array]], npt.NDArray[np.uint64]]


class DictIndex:
    """What a key index should do, one row at a time."""

    def __init__(self) -> None:
        self.known: dict[Hashable, int] = {}

    def slots(self, batch: pa.RecordBatch) -> list[int]:
        return [self.known.setdefault(key, len(self.known)) for key in keys_of(batch)]

    def find(self, batch: pa.RecordBatch) -> list[int]:
        return [self.known.get(key, -1) for key in keys_of(batch)]


def keys_of(batch: pa.RecordBatch) -> list[Hashable]:
    columns = [[plain(value) for value in column.to_pylist()] for column in batch.columns]
    return list(zip(*columns, strict=True))


def plain(value: Any) -> Hashable:  # noqa: ANN401 - whatever Arrow gives
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, plain(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(plain(inner) for inner in value)
    assert isinstance(value, Hashable)
    return value


def check(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> KeyIndex:
    """Every batch gets the slots that the dict gives, up to the names of slots, and its keys come back."""
    index, oracle = KeyIndex(schema), DictIndex()
    slot_of: dict[int, int] = {}
    for batch in batches:
        found, expected_found = index.find(batch), oracle.find(batch)
        assert found.tolist() == [slot_of.get(slot, -1) for slot in expected_found]
        slots, expected = index.slots(batch), oracle.slots(batch)
        for slot, expected_slot in zip(slots.tolist(), expected, strict=True):
            assert slot_of.setdefault(expected_slot, slot) == slot
        assert len(index) == len(oracle.known)
        assert sorted(slot_of.values()) == list(range(len(index)))
        back = index.keys(slots)
        assert back.schema.equals(batch.schema)
        back.validate(full=True)
        assert keys_of(back) == keys_of(batch)
        assert index.find(batch).tolist() == slots.tolist()
    return index


small_ints = st.integers(-5, 5)
any_ints = st.one_of(small_ints, st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1]))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "small": (pa.int32(), small_ints),
    "long": (pa.int64(), any_ints),
    "text": (pa.string(), texts),
    "real": (pa.float64(), st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan]))),
    "money": (pa.decimal128(6, 2), st.integers(-9999, 9999).map(lambda cents: Decimal(cents) / 100)),
}


@st.composite
def batches_of_keys(draw: st.DrawFn) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True))
    schema = pa.schema([pa.field(name, COLUMNS[name][0]) for name in names])
    row = st.tuples(*(st.none() | COLUMNS[name][1] for name in names))
    pool = draw(st.lists(row, min_size=1, max_size=12))
    batches = draw(st.lists(st.lists(st.sampled_from(pool), max_size=15), max_size=6))
    return schema, [
        pa.RecordBatch.from_pylist([dict(zip(names, values, strict=True)) for values in rows], schema=schema)
        for rows in batches
    ]


# oracle


@given(batches_of_keys())
def test_oracle_each_key_has_one_slot_and_each_slot_one_key(
    keys: tuple[pa.Schema, list[pa.RecordBatch]],
) -> None:
    check(*keys)


@pytest.mark.parametrize("spread", [1, 10**14], ids=["close together", "far apart"])
@pytest.mark.parametrize("rows", [7, 5_000, 20_000], ids=["few", "some", "many"])
def test_oracle_batches_of_every_size_are_looked_up_alike(rows: int, spread: int) -> None:
    random = np.random.default_rng(rows)
    batches = []
    for highest in (10, 3_000, 3_000, 40_000):
        integers = random.integers(0, highest, rows) * spread
        columns = {
            "id": pa.array(integers, mask=random.random(rows) < 0.01),
            "name": pa.array([f"name {i % 50}" for i in integers]),
        }
        batches.append(pa.record_batch(columns))
    for names in (["id"], ["name"], ["name", "id"]):
        check(batches[0].select(names).schema, [batch.select(names) for batch in batches])


def test_oracle_slots_of_new_keys_are_given_in_the_order_in_which_they_come() -> None:
    for values in ([30, 10, 30, 20], ["c", "a", "c", "b"]):
        batch = pa.record_batch({"key": values})
        assert KeyIndex(batch.schema).slots(batch).tolist() == [0, 1, 0, 2]


def test_oracle_keys_are_found_among_other_columns_and_in_any_order_of_them() -> None:
    index = KeyIndex(pa.schema({"a": pa.int64(), "b": pa.string()}))
    assert index.slots(pa.record_batch({"x": [0.5], "b": ["one"], "a": [1]})).tolist() == [0]
    assert index.find(pa.record_batch({"a": [1, 1], "b": ["one", "two"]})).tolist() == [0, -1]


# types

MOMENT = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
PAIR = pa.struct([("left", pa.int64()), ("right", pa.string())])
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [0, 1, 100]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, [0, 1, 2**kind.bit_width - 1]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *((kind, [0.0, -0.0, 1.5, math.nan, -math.inf]) for kind in (pa.float16(), pa.float32(), pa.float64())),
    (pa.bool_(), [True, False]),
    (pa.null(), [None]),
    *((kind, [date(1969, 12, 31), date(2024, 2, 29)]) for kind in (pa.date32(), pa.date64())),
    *((kind, [time(0), time(23, 59, 59)]) for kind in (pa.time32("s"), pa.time64("us"))),
    (pa.timestamp("us", "UTC"), [MOMENT, MOMENT + timedelta(microseconds=1)]),
    (pa.timestamp("s"), [datetime(1969, 1, 1), datetime(2024, 1, 1)]),
    (pa.duration("ms"), [timedelta(0), timedelta(milliseconds=-1)]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([3, 2, 1])]),
    *((kind, ["", "a", "b" * 70, "é"]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"", b"a", b"\0", b"\0\0"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), [b"abc", b"abd"]),
    *((kind, [Decimal("1.50"), Decimal("-1.50")]) for kind in (pa.decimal128(20, 2), pa.decimal256(50, 2))),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    (PAIR, [{"left": 1, "right": "a"}, {"left": 1, "right": None}, {"left": None, "right": None}]),
    (pa.struct([("inner", PAIR)]), [{"inner": None}, {"inner": {"left": 1, "right": "a"}}]),
    *(
        (kind, [[], [1], [1, 2], [None], [2, 1]])
        for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64()))
    ),
    (pa.list_(pa.int64(), 2), [[1, 2], [2, 1], [None, 1]]),
    (pa.list_(pa.list_(pa.string())), [[], [[]], [["a"], ["b"]], [["a", "b"]], [None]]),
    (pa.list_(PAIR), [[{"left": 1, "right": "a"}], [{"left": 1, "right": "a"}, None]]),
]


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_types_equal_values_are_one_key_and_different_values_are_not(
    kind: pa.DataType, values: list[Any]
) -> None:
    with_nulls = [None, *values, None, *reversed(values)]
    alone = pa.schema({"key": kind})
    column = pa.array(with_nulls, kind)
    batches = [
        pa.record_batch([part], schema=alone) for part in (column[2:], column[:0], column, column[1:3])
    ]
    check(alone, batches)
    both = pa.schema({"key": kind, "number": pa.int64()})
    check(
        both,
        [pa.record_batch([b.column(0), pa.array(range(len(b)), pa.int64())], schema=both) for b in batches],
    )


def test_types_zeros_are_one_key_and_nans_are_one_key() -> None:
    negative_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)
    batch = pa.record_batch({"key": np.concatenate(([0.0, -0.0, np.nan], negative_nan))})
    assert KeyIndex(batch.schema).slots(batch).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "kind", [pa.map_(pa.string(), pa.int64()), pa.sparse_union([pa.field("a", pa.int64())])]
)
def test_types_without_equality_are_refused_with_the_name_of_the_column(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="column 'labels' of type"):
        KeyIndex(pa.schema({"labels": kind}))


# collisions


def constant(coded: list[pa.Array]) -> npt.NDArray[np.uint64]:
    return np.full(len(coded[0]), 7, np.uint64)


def zero(coded: list[pa.Array]) -> npt.NDArray[np.uint64]:
    """The value that a free place of the table has, too."""
    return np.zeros(len(coded[0]), np.uint64)


def one_of_three(coded: list[pa.Array]) -> npt.NDArray[np.uint64]:
    values = coded[0].to_pylist()
    return np.array([len(str(value)) % 3 for value in values], np.uint64) << np.uint64(40)


@pytest.mark.parametrize("hash_of_rows", [constant, zero, one_of_three])
@given(keys=batches_of_keys())
def test_collisions_do_not_mix_keys_up(
    hash_of_rows: Hash, keys: tuple[pa.Schema, list[pa.RecordBatch]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyindex, "_hashes", hash_of_rows)
        check(*keys)


@pytest.mark.parametrize("hash_of_rows", [constant, one_of_three])
def test_collisions_of_many_keys_survive_the_growth_of_the_table(
    hash_of_rows: Hash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyindex, "_hashes", hash_of_rows)
    batches = [pa.record_batch({"key": [f"key {i}" for i in range(0, last, 3)]}) for last in (300, 3_000, 30)]
    assert len(check(batches[0].schema, batches)) == 1_000


# ranges


starts = st.one_of(st.integers(-5_000, 5_000), any_ints)


@given(st.lists(st.tuples(starts, st.integers(1, 3_000), st.integers(1, 50)), max_size=6))
def test_ranges_of_integers_are_told_apart_wherever_they_lie(runs: list[tuple[int, int, int]]) -> None:
    schema = pa.schema({"key": pa.int64()})
    batches = []
    for start, length, step in runs:
        values = [value for value in range(start, start + length * step, step) if value < 2**63]
        batches.append(pa.record_batch({"key": pa.array(values, pa.int64())}))
    check(schema, batches)


def test_ranges_may_grow_at_both_ends() -> None:
    ends = [(0, 100), (-100, 0), (-1_000, -100), (100, 5_000), (-9_000, -1_000), (4_000, 9_000)]
    batches = [pa.record_batch({"key": np.arange(*end)}) for end in ends]
    check(batches[0].schema, batches)


def test_ranges_that_were_left_can_become_dense_again() -> None:
    batches = [
        pa.record_batch({"key": values})
        for values in (
            np.arange(100),
            np.array([10**6]),
            np.arange(0, 10**6, 10),
            np.arange(0, 10**6, 3),
            np.array([-(2**63), 2**63 - 1]),
        )
    ]
    check(batches[0].schema, batches)


# Large batches.


@pytest.mark.parametrize("step", [1, 3, 1 << 40])
def test_many_keys_with_nulls_are_numbered_as_they_come(step: int) -> None:
    rng = np.random.default_rng(step)
    index, expected = KeyIndex(pa.schema({"k": pa.int64()})), DictIndex()
    for most in (5, 200, 2_000):
        values = rng.integers(-most, most, 1_000) * step
        batch = pa.record_batch({"k": pa.array(values, mask=values % 13 == 0)})
        assert index.slots(batch).tolist() == expected.slots(batch)
        found = index.keys(index.slots(batch))
        assert found.equals(batch)
