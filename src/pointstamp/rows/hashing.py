"""A documented hash of key columns, which assigns rows to workers.

The hash of a value depends on the value alone: not on the process, the run, the Python version, the batch it
came in, its slice or its encoding. Two workers that never met agree on where a key lives, and a worker that
restarts finds its keys where it left them. Python's ``hash`` promises none of this.

The definition, version 1. Everything is unsigned 64-bit arithmetic that wraps::

    mix(x)        z = x + G;  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;  z = (z ^ z >> 27) * 0x94D049BB133111EB;
                  z ^ z >> 31                                    (splitmix64; G = 0x9E3779B97F4A7C15)
    fold(n, hs)   mix(n + h_0 * P^0 + h_1 * P^1 + ...)           (P = 0xD6E8FEB86659FD93)

    null          the constant NULL = mix(0x6E756C6C), of whatever type
    int, bool     mix(v), v extended to 64 bits with its sign: 1 hashes alike in every width
    date, time,   mix(v) of the integer that Arrow stores; another unit is another hash
    timestamp,
    duration
    float         mix(the bits of v as float64), where -0.0 is 0.0 and every NaN is 0x7FF8000000000000
    decimal       of the unscaled integer in 64-bit words w_0 (lowest), w_1, ...: with s = all ones where it
                  is negative and 0 elsewhere, mix(w_0 + (w_1 ^ s) * P + (w_2 ^ s) * P^2 + ...): alike in
                  every width; another scale is another hash
    string,       fold(length in bytes, mix of every 8 bytes read little-endian, the last filled with zeros)
    binary
    list          fold(length, hashes of the elements)
    struct        fold(number of fields, hashes of the fields, in the order of the type)
    map           mix(length + sum over the entries of fold(2, (hash of key, hash of value))): in any order
    dictionary,   the hash of the value they stand for
    run-end, view,
    extension
    composite     one key column: the hash of its value; otherwise that of a struct of the key columns

A change of this definition moves keys to other workers and makes saved state unreadable: it is a new version.
It is fast and well distributed, but does not protect against keys that are chosen to collide.

With ``OTHER`` for P, with another NULL, and with s = 0 for decimals, the same definition is a second hash of
the values of one type: what is alike in one is apart in the other, but for maps whose entries come in another
order, and for one chance in about 2^127. ``pointstamp.rows.mixing`` has mix, and what undoes it.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import SchemaError
from pointstamp.rows.mixing import BLOCK_ROWS, WORD, Hashes, mix, mixed

Counts = npt.NDArray[np.int64]
HashFunction: TypeAlias = Callable[[pa.Array, int], Hashes]
"""Gives the hash of each value of an array, with P."""

_BASE: Final = 0xD6E8FEB86659FD93
OTHER: Final = 0xA0761D6478BD642D
"""Another P, for a second hash: odd, and its distance from P is not a multiple of 4."""
_NAN_BITS: Final = np.uint64(0x7FF8000000000000)
# The low k bytes of a word, for k from 0 to 8.
_LOW_BYTES: Final = np.array([(1 << 8 * k) - 1 for k in range(9)], dtype=np.uint64)
# Above this length strings are hashed as runs of words, whose cost does not grow with the longest one.
_SHORT_BYTES_MAX: Final = 64
# So few strings are hashed one by one, in Python: that takes less than the calls for all of them.
_FEW_STRINGS_MAX: Final = 12


def hash_columns(batch: pa.RecordBatch, keys: Sequence[str]) -> Hashes:
    """Every row's hash of its key columns, in the order of the keys; without keys all rows hash alike."""
    return fold_columns([hash_array(_column(batch, key)) for key in keys], batch.num_rows)


def fold_columns(columns: Sequence[Hashes], rows: int, base: int = _BASE) -> Hashes:
    """Every row's hash, from those of its key columns: what is hashed once may be part of several keys."""
    return columns[0] if len(columns) == 1 else _fold_fields(columns, rows, base)


def _column(batch: pa.RecordBatch, key: str) -> pa.Array:
    try:
        return batch.column(key)
    except KeyError:
        raise SchemaError(
            f"rows are exchanged by the column '{key}', so exactly one column must have that name, got "
            f"{', '.join(map(repr, batch.schema.names))}. Exchange by another column, or rename one."
        ) from None


def hash_array(array: pa.Array | pa.ChunkedArray, base: int = _BASE) -> Hashes:
    """Every value's hash, as the definition above says."""
    if isinstance(array, pa.ChunkedArray):
        return np.concatenate([np.empty(0, np.uint64), *(hash_array(chunk, base) for chunk in array.chunks)])
    if isinstance(array, pa.ExtensionArray):
        return hash_array(array.storage, base)
    hash_values = _HASH_BY_TYPE.get(array.type.id)
    if hash_values is None:
        raise SchemaError(
            f"rows cannot be exchanged by a value of the type {array.type}, which has no hash. "
            "Exchange by a column of another type, or cast this one first."
        )
    hashes = hash_values(array, base)
    assert len(hashes) == len(array)
    if array.null_count and (validity := array.buffers()[0]) is not None:
        hashes[~_bits(validity, array)] = _null(base)
    return hashes


@lru_cache(maxsize=2)
def _null(base: int) -> np.uint64:
    """The hash of a null."""
    return np.uint64(mix(np.array([0x6E756C6C ^ base ^ _BASE], np.uint64))[0])


@lru_cache(maxsize=64)
def _powers(count: int, base: int) -> Hashes:
    """P^0, P^1, and so on; not to be changed."""
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    made = np.multiply.accumulate(powers, dtype=np.uint64)
    made.setflags(write=False)
    return made


def _fold_fields(fields: Sequence[Hashes], rows: int, base: int) -> Hashes:
    """Fold one hash per field into one per row."""
    if rows == 1:
        total, powers = len(fields), _powers(len(fields), base).tolist()
        for hashes, power in zip(fields, powers, strict=True):
            total += hashes.item() * power
        return np.array([mixed(total & WORD)], np.uint64)
    sums = np.full(rows, len(fields), np.uint64)
    for hashes, power in zip(fields, _powers(len(fields), base), strict=True):
        sums += hashes * power
    return mix(sums)


def _fold_runs(lengths: Hashes, hashes: Hashes, counts: Counts, base: int) -> Hashes:
    """Fold ``counts[i]`` consecutive hashes into one, for every row i."""
    firsts = np.cumsum(counts) - counts
    position = np.arange(len(hashes)) - np.repeat(firsts, counts)
    powers = _powers(int(counts.max(initial=0)), base)
    return mix(lengths + _sum_runs(hashes * powers[position], counts))


def _sum_runs(hashes: Hashes, counts: Counts) -> Hashes:
    """The sum of ``counts[i]`` consecutive hashes, for every row i."""
    sums = np.zeros(len(counts), np.uint64)
    filled = counts > 0  # reduceat gives an empty run the element that follows it
    if filled.any():
        firsts = np.cumsum(counts) - counts
        sums[filled] = np.add.reduceat(hashes, firsts[filled])
    return sums


def _bits(buffer: pa.Buffer, array: pa.Array) -> npt.NDArray[np.bool_]:
    """The bits of a bitmap that belong to the array, which may be a slice."""
    first, last = array.offset, array.offset + len(array)
    data = np.frombuffer(buffer, np.uint8)[first // 8 : (last + 7) // 8]
    bits = np.unpackbits(data, bitorder="little")[first % 8 :]
    return bits[: len(array)].view(np.bool_)


def _raw(array: pa.Array, dtype: str, width: int = 1) -> npt.NDArray[np.generic]:
    """The stored values of an array, ``width`` of them per row; where it has a null they can be anything."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) * width, dtype)
    return np.frombuffer(buffer, dtype, len(array) * width, array.offset * width * np.dtype(dtype).itemsize)


def _integers(dtype: str) -> HashFunction:
    """Hash values that are stored as integers of this type."""
    # By way of int64, so that a negative value gets its sign in all 64 bits.
    return lambda array, base: mix(_raw(array, dtype).astype(np.int64).view(np.uint64))


def _floats(dtype: str) -> HashFunction:
    """Hash floats of this type."""

    def hash_floats(array: pa.Array, base: int) -> Hashes:
        del base
        with np.errstate(invalid="ignore"):  # a signalling NaN where a null is
            values = _raw(array, dtype).astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        bits = values.view(np.uint64)
        bits[np.isnan(values)] = _NAN_BITS
        return mix(bits)

    return hash_floats


def _booleans(array: pa.Array, base: int) -> Hashes:
    del base
    buffer = array.buffers()[1]
    return mix(np.zeros(len(array), np.uint64) if buffer is None else _bits(buffer, array).astype(np.uint64))


def _nulls(array: pa.Array, base: int) -> Hashes:
    return np.full(len(array), _null(base))


def _decimals(array: pa.Array, base: int) -> Hashes:
    if array.type.bit_width < 64:
        return _integers("i4")(array, base)
    words = array.type.bit_width // 64
    stored = _raw(array, "u8", words).view(np.uint64).reshape(len(array), words)
    is_first = np.uint64(base == _BASE)
    sign = (stored[:, -1].view(np.int64) >> np.int64(63)).view(np.uint64) * is_first
    sums = stored[:, 0].copy()
    for word, power in zip(range(1, words), _powers(words, base)[1:], strict=True):
        sums += (stored[:, word] ^ sign) * power
    return mix(sums)


def _bytes(offset_dtype: str) -> HashFunction:
    """Hash strings or binaries with offsets of this type."""

    def hash_bytes(array: pa.Array, base: int) -> Hashes:
        if len(array) > BLOCK_ROWS:
            blocks = [array.slice(start, BLOCK_ROWS) for start in range(0, len(array), BLOCK_ROWS)]
            return np.concatenate([hash_bytes(block, base) for block in blocks])
        offsets = _offsets(array, offset_dtype)
        data = array.buffers()[2]
        if len(array) <= _FEW_STRINGS_MAX and data is not None:
            few = offsets.tolist()
            if few[-1] - few[0] <= _FEW_STRINGS_MAX * _SHORT_BYTES_MAX:
                return _hash_few(data.slice(few[0], few[-1] - few[0]).to_pybytes(), few, base)
        return _hash_slices(data, int(offsets[0]), offsets - offsets[0], base)

    return hash_bytes


def _fixed_bytes(array: pa.Array, base: int) -> Hashes:
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    return _hash_slices(data, array.offset * width, np.arange(len(array) + 1, dtype=np.int64) * width, base)


def _hash_slices(data: pa.Buffer | None, first: int, offsets: Counts, base: int) -> Hashes:
    """Hash the bytes between consecutive offsets, which count from the byte ``first``."""
    size = int(offsets[-1])
    # A copy with room behind it: the last word may be read past the end of the last string.
    padded = np.zeros(size + 8, np.uint8)
    if data is not None:
        padded[:size] = np.frombuffer(data, np.uint8, size, first)
    word_at: npt.NDArray[np.uint64] = np.ndarray((size + 1,), "<u8", padded, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    if lengths.max(initial=0) <= _SHORT_BYTES_MAX:
        return _hash_short(word_at, starts, lengths, base)
    counts = (lengths + 7) >> 3
    lasts = np.cumsum(counts)
    # The k-th word of all words belongs 8 * (k - first word of its string) bytes behind its string's start.
    at = np.repeat(starts - 8 * (lasts - counts), counts) + np.arange(lasts[-1]) * 8
    words = word_at[at]
    filled = counts > 0
    words[lasts[filled] - 1] &= _LOW_BYTES[(lengths - 8 * (counts - 1))[filled]]
    return _fold_runs(lengths.view(np.uint64), mix(words), counts, base)


def _hash_short(word_at: Hashes, starts: Counts, lengths: Counts, base: int) -> Hashes:
    """The same for short strings, all first words at once, then all second ones: twice as fast."""
    sums = lengths.astype(np.uint64)
    for position, power in enumerate(_powers(_SHORT_BYTES_MAX // 8, base)):
        has_word = lengths > 8 * position
        if not has_word.any():
            break
        # Strings that ended before this word have no part in it.
        rows = slice(None) if has_word.all() else np.flatnonzero(has_word)
        words = word_at[starts[rows] + 8 * position] & _LOW_BYTES[np.minimum(lengths[rows] - 8 * position, 8)]
        sums[rows] += mix(words) * power
    return mix(sums)


def _hash_few(data: bytes, offsets: Sequence[int], base: int) -> Hashes:
    """The same for few strings, one by one; ``data`` begins where the first one does."""
    first, hashes = offsets[0], []
    for start, end in itertools.pairwise(offsets):
        total, power = end - start, 1
        for at in range(start - first, end - first, 8):
            word = int.from_bytes(data[at : min(at + 8, end - first)], "little")
            total, power = total + mixed(word) * power, power * base & WORD
        hashes.append(mixed(total & WORD))
    return np.array(hashes, np.uint64)


def _offsets(array: pa.Array, dtype: str) -> Counts:
    """Where the rows of an array start, and where the last one ends."""
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:  # an array without rows may leave its offsets out
        return np.zeros(len(array) + 1, np.int64)
    start = array.offset * np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, len(array) + 1, start).astype(np.int64)


def _lists(offset_dtype: str) -> HashFunction:
    """Hash lists with offsets of this type."""

    def hash_lists(array: pa.Array, base: int) -> Hashes:
        offsets = _offsets(array, offset_dtype)
        elements = hash_array(array.values.slice(offsets[0], offsets[-1] - offsets[0]), base)
        counts = np.diff(offsets)
        return _fold_runs(counts.view(np.uint64), elements, counts, base)

    return hash_lists


def _list_views(dtype: str) -> HashFunction:
    """Hash lists that say where they start and how long they are; Arrow's cast to lists breaks on nulls."""

    def hash_list_views(array: pa.Array, base: int) -> Hashes:
        width = np.dtype(dtype).itemsize
        starts, sizes = (
            np.frombuffer(buffer, dtype, len(array), array.offset * width).astype(np.int64)
            for buffer in array.buffers()[1:3]
        )
        if array.null_count:
            sizes[array.is_null().to_numpy(zero_copy_only=False)] = 0  # where a null is they can be anything
        at = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        return _fold_runs(sizes.view(np.uint64), hash_array(array.values, base)[at], sizes, base)

    return hash_list_views


def _fixed_lists(array: pa.Array, base: int) -> Hashes:
    width = array.type.list_size
    elements = hash_array(array.values.slice(array.offset * width, len(array) * width), base)
    by_row = elements.reshape(len(array), width)
    sums = np.full(len(array), width, np.uint64)
    return mix(sums + (by_row * _powers(width, base)).sum(axis=1, dtype=np.uint64))


def _maps(array: pa.Array, base: int) -> Hashes:
    offsets = _offsets(array, "i4")
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    both = [hash_array(side.slice(first, entries), base) for side in (array.keys, array.items)]
    counts = np.diff(offsets)
    return mix(counts.view(np.uint64) + _sum_runs(_fold_fields(both, entries, base), counts))


def _structs(array: pa.Array, base: int) -> Hashes:
    # field() follows the slice of the struct, and leaves out its nulls, which hash_array puts in.
    fields = [hash_array(array.field(index), base) for index in range(array.type.num_fields)]
    return _fold_fields(fields, len(array), base)


def _dictionaries(array: pa.Array, base: int) -> Hashes:
    is_view = array.type.value_type in (pa.string_view(), pa.binary_view())  # which Arrow cannot take from
    if len(array.dictionary) > len(array) and not is_view:  # a small slice: hash what it uses
        return hash_array(array.dictionary_decode(), base)
    hashes = np.append(hash_array(array.dictionary, base), _null(base))
    at = array.indices.fill_null(0) if array.null_count else array.indices
    taken: Hashes = hashes[at.to_numpy()]
    return taken


def _decoded(array: pa.Array, base: int) -> Hashes:
    return hash_array(pc.run_end_decode(array), base)


def _cast_to(same_values: pa.DataType) -> HashFunction:
    """Hash an array after a cast to a type of the same values that has offsets."""
    return lambda array, base: hash_array(array.cast(same_values), base)


_HASH_BY_TYPE: Final[dict[int, HashFunction]] = {
    pa.lib.Type_NA: _nulls,
    pa.lib.Type_BOOL: _booleans,
    pa.lib.Type_INT8: _integers("i1"),
    pa.lib.Type_INT16: _integers("i2"),
    pa.lib.Type_INT32: _integers("i4"),
    pa.lib.Type_INT64: _integers("i8"),
    pa.lib.Type_UINT8: _integers("u1"),
    pa.lib.Type_UINT16: _integers("u2"),
    pa.lib.Type_UINT32: _integers("u4"),
    pa.lib.Type_UINT64: _integers("u8"),
    pa.lib.Type_DATE32: _integers("i4"),
    pa.lib.Type_DATE64: _integers("i8"),
    pa.lib.Type_TIME32: _integers("i4"),
    pa.lib.Type_TIME64: _integers("i8"),
    pa.lib.Type_TIMESTAMP: _integers("i8"),
    pa.lib.Type_DURATION: _integers("i8"),
    pa.lib.Type_HALF_FLOAT: _floats("f2"),
    pa.lib.Type_FLOAT: _floats("f4"),
    pa.lib.Type_DOUBLE: _floats("f8"),
    # Older versions of pyarrow have no narrow decimals.
    **{getattr(pa.lib, name): _decimals for name in dir(pa.lib) if name.startswith("Type_DECIMAL")},
    pa.lib.Type_STRING: _bytes("i4"),
    pa.lib.Type_BINARY: _bytes("i4"),
    pa.lib.Type_LARGE_STRING: _bytes("i8"),
    pa.lib.Type_LARGE_BINARY: _bytes("i8"),
    pa.lib.Type_FIXED_SIZE_BINARY: _fixed_bytes,
    pa.lib.Type_LIST: _lists("i4"),
    pa.lib.Type_LARGE_LIST: _lists("i8"),
    pa.lib.Type_FIXED_SIZE_LIST: _fixed_lists,
    pa.lib.Type_MAP: _maps,
    pa.lib.Type_STRUCT: _structs,
    pa.lib.Type_DICTIONARY: _dictionaries,
    pa.lib.Type_RUN_END_ENCODED: _decoded,
    pa.lib.Type_STRING_VIEW: _cast_to(pa.large_string()),
    pa.lib.Type_BINARY_VIEW: _cast_to(pa.large_binary()),
    pa.lib.Type_LIST_VIEW: _list_views("i4"),
    pa.lib.Type_LARGE_LIST_VIEW: _list_views("i8"),
}
