"""The hash that decides where a key lives, and the split of a batch by it.

Golden values catch any change of the definition, which would move keys between workers. An oracle in plain
Python computes the published definition value by value and shares no code with the hash: as a property it
finds what slices, nulls, long strings and nesting break. Equality tests say which encodings are one value.
Spread is bounded by chi-square over eight workers, for the keys that break weak hashes. One test starts fresh
processes with other hash seeds, because only there could Python's ``hash`` show.
"""

import os
import struct
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrow.row_hashing import hash_array, hash_columns, partition, worker_of
from pointstamp.errors import SchemaError

ALL_ONES = (1 << 64) - 1


def mix(x: int) -> int:
    z = (x + 0x9E3779B97F4A7C15) & ALL_ONES
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & ALL_ONES
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & ALL_ONES
    return z ^ z >> 31


def fold(n: int, hashes: list[int]) -> int:
    return mix((n + sum(h * 0xD6E8FEB86659FD93**i for i, h in enumerate(hashes))) & ALL_ONES)


def oracle(value: object) -> int:
    """The published definition, for one Python value; a tuple is a struct, a dict a map."""
    match value:
        case None:
            return mix(0x6E756C6C)
        case bool() | int():
            return mix(value & ALL_ONES)
        case float():
            normal = float("nan") if value != value else value + 0.0
            return mix(struct.unpack("<Q", struct.pack("<d", normal))[0])
        case str():
            return oracle(value.encode())
        case bytes():
            words = [value[i : i + 8].ljust(8, b"\0") for i in range(0, len(value), 8)]
            return fold(len(value), [mix(int.from_bytes(word, "little")) for word in words])
        case list() | tuple():
            return fold(len(value), [oracle(element) for element in value])
        case dict():
            return mix(
                (len(value) + sum(fold(2, [oracle(k), oracle(v)]) for k, v in value.items())) & ALL_ONES
            )
    raise AssertionError(value)


def hashes(array: pa.Array | pa.ChunkedArray) -> list[int]:
    return [int(h) for h in hash_array(array)]


# Do not change these: a worker that restarts with another hash does not find its keys.
GOLDEN = [
    (
        pa.array([0, 1, -1, 2**62]),
        [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1, 0xE4D971771B652C20, 0xAA50EA8E0FA9EB],
    ),
    (
        pa.array([False, True, None]),
        [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1, 0x20C5B486E45803DB],
    ),
    (
        pa.array([0.0, 1.5, float("nan")]),
        [0xE220A8397B1DCDAF, 0xD6DAB18E1392608A, 0xC72971D82E15BB46],
    ),
    (
        pa.array(["", "a", "12345678", "123456789", "x" * 100]),
        [0xE220A8397B1DCDAF, 0xD442DD5B42960211, 0x12A7373CD9A8F650, 0x6F77A47E5C339828, 0xC8616BE24F4E5B40],
    ),
    (
        pa.array([Decimal("-1.50"), Decimal(10**20)], pa.decimal128(30, 2)),
        [0x852C59A1A0D52641, 0x320D3207322A966A],
    ),
    (
        pa.array([[], [1, None], [2, 1]]),
        [0xE220A8397B1DCDAF, 0xE9C58C322A854032, 0xAC2F406ACBC1BC02],
    ),
    (
        pa.array([{"a": 1, "b": "x"}, None]),
        [0x89AE3DFACDCB373A, 0x20C5B486E45803DB],
    ),
    (
        pa.array([[("k", 1), ("l", 2)]], pa.map_(pa.string(), pa.int64())),
        [0xF98C1B22D023E39F],
    ),
]


@pytest.mark.parametrize(("array", "expected"), GOLDEN, ids=lambda case: str(getattr(case, "type", "")))
def test_the_definition_has_not_changed(array: pa.Array, expected: list[int]) -> None:
    assert hashes(array) == expected


def test_the_hash_is_the_published_splitmix64() -> None:
    # The first outputs of the reference implementation from the seed 0 are those of its successive states.
    gamma = 0x9E3779B97F4A7C15
    states = pa.array([0, gamma, 2 * gamma & ALL_ONES], pa.uint64())
    assert hashes(states) == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


ints = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=12) | st.text(min_size=60, max_size=70) | st.just("x" * 1000)
plain = {
    "long": (pa.int64(), ints),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.integers(0, ALL_ONES)),
    "boolean": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "string": (pa.string(), texts),
    "large binary": (pa.large_binary(), st.binary(max_size=20)),
    "fixed binary": (pa.binary(11), st.binary(min_size=11, max_size=11)),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 3), max_size=4)),
    "list of lists": (
        pa.large_list(pa.list_(pa.string())),
        st.lists(st.lists(texts, max_size=3), max_size=3),
    ),
    "fixed list": (pa.list_(pa.int8(), 3), st.lists(st.none() | st.integers(0, 9), min_size=3, max_size=3)),
}


def sliced(kind: str) -> st.SearchStrategy[tuple[pa.Array, list[object]]]:
    """An array that is a slice, and the values that it shows."""
    data_type, values = plain[kind]
    rows = st.lists(st.none() | values, max_size=20)
    return st.tuples(rows, st.integers(0, 12), st.integers(0, 12)).map(
        lambda drawn: (
            pa.array(drawn[0], data_type).slice(drawn[1], drawn[2]),
            list(drawn[0][drawn[1] : drawn[1] + drawn[2]]),
        )
    )


@given(st.sampled_from(list(plain)).flatmap(sliced))
def test_every_slice_of_every_type_hashes_as_published(case: tuple[pa.Array, list[object]]) -> None:
    array, values = case
    assert hashes(array) == [oracle(value) for value in values]


@given(
    st.lists(st.none() | st.tuples(st.none() | ints, st.none() | texts), max_size=8),
    st.lists(st.none() | st.dictionaries(st.text(max_size=3), st.none() | ints, max_size=4), max_size=8),
    st.integers(0, 4),
)
def test_structs_and_maps_hash_as_published(
    pairs: list[tuple[int | None, str | None] | None], maps: list[dict[str, int | None] | None], first: int
) -> None:
    struct_type = pa.struct([("a", pa.int64()), ("b", pa.string())])
    structs = pa.array([p and {"a": p[0], "b": p[1]} for p in pairs], struct_type)
    assert hashes(structs[first:]) == [oracle(pair) for pair in pairs[first:]]
    entries = pa.array([m if m is None else list(m.items()) for m in maps], pa.map_(pa.string(), pa.int64()))
    assert hashes(entries[first:]) == [oracle(m) for m in maps[first:]]


def test_a_value_under_a_null_does_not_show() -> None:
    one, other = (
        pa.StructArray.from_arrays([pa.array([1, hidden])], names=["a"], mask=pa.array([False, True]))
        for hidden in (2, 3)
    )
    assert hashes(one) == hashes(other) == [oracle((1,)), oracle(None)]


@pytest.mark.parametrize("rows", [2, 3, 9, 10, 11, 12, 13, 40])
def test_few_rows_hash_as_each_alone(rows: int) -> None:
    texts = pa.array([("a long text " * (n % 7))[: 9 * n % 70] for n in range(rows)])
    for values in (texts, pa.array(range(-5, rows - 5)), pa.array([n / 3 for n in range(rows)])):
        alone = [hash_array(values.slice(n, 1))[0] for n in range(rows)]
        assert hash_array(values).tolist() == alone


def test_more_rows_than_one_block_hash_as_each_alone() -> None:
    texts = [f"key {i}" * (i % 5) for i in range(20_000)]
    assert hashes(pa.array(texts))[::97] == [oracle(text) for text in texts[::97]]
    assert hashes(pa.array(range(20_000)))[::97] == [oracle(i) for i in range(0, 20_000, 97)]


def test_equal_integers_of_every_width_hash_alike() -> None:
    signed = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    for data_type in signed:
        assert hashes(pa.array([-128, -1, 0, 127, None], data_type)) == hashes(
            pa.array([-128, -1, 0, 127, None])
        )
    for data_type in [*signed, pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]:
        assert hashes(pa.array([0, 1, 127], data_type)) == hashes(pa.array([0, 1, 127]))
    assert hashes(pa.array([False, True])) == hashes(pa.array([0, 1]))


def test_equal_floats_hash_alike_zeros_and_nans_included() -> None:
    other_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64).view(
        np.float64
    )
    assert len(set(hashes(pa.array(other_nan)))) == 1
    assert hashes(pa.array([-0.0, 1.5, float("nan")])) == hashes(pa.array([0.0, 1.5, float(other_nan[0])]))
    for data_type in (pa.float16(), pa.float32()):
        narrow = pa.array([-0.0, 1.5, float("nan"), float("inf")], pa.float64()).cast(data_type)
        assert hashes(narrow) == hashes(pa.array([0.0, 1.5, float("nan"), float("inf")]))


def test_decimals_hash_by_their_unscaled_integer_in_every_width() -> None:
    small = [Decimal("-1.50"), Decimal("0.00"), Decimal("12345.67"), None]
    expected = [oracle(-150), oracle(0), oracle(1234567), oracle(None)]
    for decimal in (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256):
        assert hashes(pa.array(small, decimal(9, 2))) == expected
    large = [Decimal(10**30), Decimal(-(10**30)), Decimal(10**30 + 2**64)]
    assert hashes(pa.array(large, pa.decimal128(38, 0))) == hashes(pa.array(large, pa.decimal256(60, 0)))
    assert len(set(hashes(pa.array(large, pa.decimal128(38, 0))))) == 3


def test_times_hash_by_the_integer_that_is_stored() -> None:
    numbers = pa.array([0, 1, -5, None], pa.int64())
    for data_type in (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.duration("ms"), pa.time64("us")):
        assert hashes(numbers.view(data_type)) == hashes(numbers)
    assert hashes(pa.array([0, 1, -5, None], pa.int32()).view(pa.date32())) == hashes(numbers)


def test_every_encoding_of_a_string_hashes_alike() -> None:
    array = pa.array(["a", None, "longer than eight bytes", "", "a", "grüße"])
    expected = hashes(array)
    for data_type in (pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()):
        assert hashes(array.cast(data_type)) == expected
    assert hashes(array.cast(pa.string_view()).cast(pa.binary_view())) == expected
    encoded = array.dictionary_encode()
    assert hashes(encoded) == expected
    assert hashes(encoded[4:]) == expected[4:]
    views = pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(pa.string_view()))
    assert hashes(views[4:]) == expected[4:]
    assert hashes(pa.DictionaryArray.from_arrays([0, 1, None], ["a", None])) == [
        expected[i] for i in (0, 1, 1)
    ]
    assert hashes(pc.run_end_encode(array)) == expected
    assert hashes(pa.array([b"abc"], pa.binary(3))) == hashes(pa.array(["abc"]))
    assert hashes(pa.array([b"\0" * 16], pa.uuid())) == hashes(pa.array([b"\0" * 16]))


def test_every_encoding_of_a_list_hashes_alike() -> None:
    rows = [[1, 2], None, [3, None]]
    kinds = (
        pa.large_list(pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int8()),
    )
    for data_type in kinds:
        array = pa.array(rows, data_type)
        assert hashes(array) == [oracle(row) for row in rows]
        assert hashes(array[1:]) == [oracle(row) for row in rows[1:]]
        assert hashes(array[:0]) == []


def test_neighbours_in_structure_hash_differently() -> None:
    lists = pa.array([[], None, [None], [0], [0, 0], [1, 2], [2, 1]])
    assert len(set(hashes(lists))) == len(lists)
    texts = pa.array(["", "\0", "\0\0", "a", "a\0", "12345678", "12345678\0", "1234567812345678", None])
    assert len(set(hashes(texts))) == len(texts)
    nested = pa.array([[[1], []], [[], [1]], [[1]], [[]], []])
    assert len(set(hashes(nested))) == len(nested)


def test_a_map_hashes_alike_in_any_order() -> None:
    maps = pa.array(
        [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)]], pa.map_(pa.string(), pa.int8())
    )
    one, same, other = hashes(maps)
    assert one == same != other


def test_chunks_and_arrays_without_rows_hash_as_the_whole() -> None:
    chunked = pa.chunked_array([["a", "b"], [], ["c"]], pa.string())
    assert hashes(chunked) == hashes(pa.array(["a", "b", "c"]))
    assert hashes(pa.chunked_array([], pa.int64())) == []
    for data_type, _ in plain.values():
        assert hashes(pa.array([], data_type)) == []
        assert hashes(pa.nulls(3, data_type)) == [oracle(None)] * 3
    for data_type in (
        pa.null(),
        pa.map_(pa.int8(), pa.int8()),
        pa.struct([("a", pa.int8())]),
        pa.decimal128(3, 1),
    ):
        assert hashes(pa.nulls(3, data_type)) == [oracle(None)] * 3
    assert hashes(pa.nulls(2, pa.dictionary(pa.int8(), pa.string()))) == [oracle(None)] * 2
    assert hashes(pa.array([{}, None], pa.struct([]))) == [oracle(()), oracle(None)]


def test_several_keys_hash_as_a_struct_in_their_order() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", None], "c": [0, 0]})
    assert hash_columns(batch, ["a"]).tolist() == hashes(batch.column("a"))
    assert hash_columns(batch, ["a", "b"]).tolist() == [oracle((1, "x")), oracle((2, None))]
    assert hash_columns(batch, ["b", "a"]).tolist() == [oracle(("x", 1)), oracle((None, 2))]
    assert hash_columns(batch, []).tolist() == [oracle(())] * 2
    assert hash_columns(pa.table(batch), ["a", "b"]).tolist() == hash_columns(batch, ["a", "b"]).tolist()


def test_a_key_that_is_not_there_or_has_no_hash_is_refused_in_words() -> None:
    batch = pa.record_batch({"a": [1], "b": [2]})
    with pytest.raises(SchemaError, match=r"by the column 'c', .* got 'a', 'b'"):
        hash_columns(batch, ["c"])
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    with pytest.raises(SchemaError, match=r"a value of the type dense_union<.*>, which has no hash"):
        hash_array(union)


def test_the_hash_does_not_write_into_the_batch() -> None:
    for array in (pa.array([1, 2]), pa.array([1.0, -0.0]), pa.array(["a", "b"]), pa.array([Decimal(1)])):
        before = array.to_pylist()
        hash_array(array)
        assert array.to_pylist() == before


WORKERS = 8
ROWS = 1 << 16
KEYS = {
    "sequential": np.arange(ROWS),
    "negative": -np.arange(ROWS),
    **{f"multiples of 2^{k}": np.arange(ROWS) << k for k in (1, 3, 8, 16, 32, 47)},
    "floats": np.arange(ROWS, dtype=np.float64),
    "fractions": np.arange(ROWS) / 1000,
    "timestamps, one per day": pa.array(np.arange(ROWS) * 86_400_000_000, pa.timestamp("us")),
    "short strings": [str(i) for i in range(ROWS)],
    "strings with one prefix": [f"https://example.org/item/{i:09d}" for i in range(ROWS)],
    "strings that differ in front": [f"{i:09d}.example.org/and/so/on" for i in range(ROWS)],
}


@pytest.mark.parametrize("workers", [2, 3, WORKERS, 100])
@pytest.mark.parametrize("keys", KEYS)
def test_keys_spread_evenly_over_workers(keys: str, workers: int) -> None:
    counts = np.bincount(worker_of(hash_array(pa.array(KEYS[keys])), workers), minlength=workers)
    expected = ROWS / workers
    chi_square = float((((counts - expected) ** 2) / expected).sum())
    # With d degrees of freedom chi-square has the mean d and the deviation sqrt(2 d): five of them is far.
    degrees = workers - 1
    assert chi_square < degrees + 5 * (2 * degrees) ** 0.5


def test_different_keys_hash_differently() -> None:
    for keys in KEYS.values():
        assert len(np.unique(hash_array(pa.array(keys)))) == ROWS


def test_pairs_of_small_integers_spread_and_do_not_collide() -> None:
    side = 256
    src, dst = np.divmod(np.arange(side * side), side)
    both = hash_columns(pa.record_batch({"src": src, "dst": dst}), ["src", "dst"])
    assert len(np.unique(both)) == side * side
    counts = np.bincount(worker_of(both, WORKERS), minlength=WORKERS)
    expected = side * side / WORKERS
    assert float((((counts - expected) ** 2) / expected).sum()) < 26


@given(st.lists(st.integers(0, ALL_ONES), min_size=1), st.integers(1, 1000))
def test_a_worker_is_the_high_half_scaled_down(hashed: list[int], workers: int) -> None:
    expected = [((h >> 32) * workers) >> 32 for h in hashed]
    assert worker_of(np.array(hashed, np.uint64), workers).tolist() == expected
    assert all(0 <= worker < workers for worker in expected)


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 20), st.text(max_size=3)), max_size=60),
    st.sampled_from([["k"], ["s"], ["k", "s"], []]),
    st.integers(1, 300),
    st.integers(0, 5),
)
def test_partition_is_stable_and_loses_nothing(
    rows: list[tuple[int | None, str]], keys: list[str], workers: int, first: int
) -> None:
    whole = pa.record_batch(
        {"k": pa.array([k for k, _ in rows], pa.int64()), "s": pa.array([s for _, s in rows], pa.string())}
    )
    batch = whole.append_column("row", pa.array(range(len(rows)), pa.int64())).slice(first)
    parts = partition(batch, keys, workers)
    worker = worker_of(hash_columns(batch, keys), workers).tolist()
    assert len(parts) == workers
    for index, part in enumerate(parts):
        mine = [row for row, at in zip(batch.to_pylist(), worker, strict=True) if at == index]
        assert (part is None) == (not mine)
        if part is not None:
            part.validate(full=True)
            assert part.schema.equals(batch.schema)
            assert part.to_pylist() == mine


def test_rows_of_one_worker_are_not_copied() -> None:
    batch = pa.record_batch({"k": [7, 7, 7]})
    assert partition(batch, ["k"], 1) == [batch]
    assert partition(batch, ["k"], 1)[0] is batch
    (part,) = [part for part in partition(batch, ["k"], 8) if part is not None]
    assert part is batch


def test_parts_are_slices_of_one_copy() -> None:
    batch = pa.record_batch({"k": list(range(100))})
    buffers = {
        part.column("k").buffers()[1].address for part in partition(batch, ["k"], 4) if part is not None
    }
    assert len(buffers) == 1


@pytest.mark.parametrize("workers", [2, 5])
def test_each_worker_gets_its_rows_in_their_order(workers: int) -> None:
    words = [None if number % 11 == 0 else f"word {number % 37}" for number in range(1_000)]
    batch = pa.record_batch({"k": pa.array(words), "n": pa.array(range(1_000))}).slice(3)
    owners = [(hashed >> 32) * workers >> 32 for hashed in hash_columns(batch, ["k"]).tolist()]
    for worker, part in enumerate(partition(batch, ["k"], workers)):
        wanted = [row for row, owner in zip(batch.to_pylist(), owners, strict=True) if owner == worker]
        assert ([] if part is None else part.to_pylist()) == wanted
    alike = batch.filter(pa.array([word == "word 5" for word in batch["k"].to_pylist()]))
    (part,) = [part for part in partition(alike, ["k"], workers) if part is not None]
    assert part is alike


def test_partition_takes_more_workers_than_a_byte_can_count() -> None:
    batch = pa.record_batch({"k": list(range(1000))})
    parts = partition(batch, ["k"], 70_000)
    assert len(parts) == 70_000
    assert sum(part.num_rows for part in parts if part is not None) == 1000


def test_every_process_agrees_whatever_its_hash_seed() -> None:
    program = """
import pyarrow as pa
from pointstamp.arrow.row_hashing import hash_columns
batch = pa.record_batch({"a": [1, None], "b": ["x", "a longer string"], "c": [[1.5], []]})
print(hash_columns(batch, ["a", "b", "c"]).tolist())
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "4242")
    }
    assert printed == {f"{[oracle((1, 'x', [1.5])), oracle((None, 'a longer string', []))]}\n"}
