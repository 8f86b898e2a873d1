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
order, and for one chance in about 2^127. ``pointstamp.arrow.row_hashing`` has mix, and what undoes it.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow import hashing, runs
from pointstamp.arrow import hashing as kernels
from pointstamp.errors import SchemaError

Counts = npt.NDArray[np.int64]


# The splitmix64 hash of words, and its inverse; hashes are arrays of words.

Hashes = npt.NDArray[np.uint64]
mix = hashing.mix
unmixed = hashing.unmixed


HashFunction: TypeAlias = Callable[[pa.Array, int], Hashes]
"""Gives the hash of each value of an array, with P."""

_BASE: Final = 0xD6E8FEB86659FD93
OTHER: Final = 0xA0761D6478BD642D
"""Another P, for a second hash: odd, and its distance from P is not a multiple of 4."""


def hash_columns(batch: pa.RecordBatch, keys: Sequence[str]) -> Hashes:
    """Every row's hash of its key columns, in the order of the keys; without keys all rows hash alike."""
    return fold_columns([hash_array(_column(batch, key)) for key in keys], batch.num_rows)


def fold_columns(columns: Sequence[Hashes], rows: int, base: int = _BASE) -> Hashes:
    """Every row's hash, from those of its key columns: what is hashed once may be part of several keys."""
    return columns[0] if len(columns) == 1 else kernels.fold_fields(columns, rows, base)


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
        kernels.set_nulls(hashes, validity.address, array.offset, _null(base))
    return hashes


def hash_kept(columns: Sequence[npt.NDArray[Any] | pa.Array], base: int = _BASE) -> list[Hashes]:
    """Every value's hash of some columns; arrays of numpy's hold values as Arrow does, none of them null."""
    return [
        kernels.hash_values(column, base, base == _BASE)
        if isinstance(column, np.ndarray)
        else hash_array(column, base)
        for column in columns
    ]


@lru_cache(maxsize=2)
def _null(base: int) -> int:
    """The hash of a null."""
    return int(kernels.mix(np.array([0x6E756C6C ^ base ^ _BASE], np.uint64))[0])


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)


def _of_zeros(array: pa.Array) -> Hashes:
    """The hashes of an array that has no values, because all are null or it has no rows."""
    return kernels.mix(np.zeros(len(array), np.uint64))


def _integers(width: int, *, is_signed: bool = True) -> HashFunction:
    """Hash values that are stored as integers of so many bytes."""

    def hash_numbers(array: pa.Array, base: int) -> Hashes:
        del base
        values = array.buffers()[1]
        if values is None:
            return _of_zeros(array)
        return kernels.hash_integers(values.address, array.offset, len(array), width, is_signed)

    return hash_numbers


def _floats(width: int) -> HashFunction:
    """Hash floats of so many bytes."""

    def hash_numbers(array: pa.Array, base: int) -> Hashes:
        del base
        values = array.buffers()[1]
        if values is None:
            return _of_zeros(array)
        return kernels.hash_floats(values.address, array.offset, len(array), width)

    return hash_numbers


def _halves(array: pa.Array, base: int) -> Hashes:
    del base
    values = array.buffers()[1]
    if values is None:
        return _of_zeros(array)
    with np.errstate(invalid="ignore"):  # a signalling NaN where a null is
        numbers = np.frombuffer(values, np.float16, len(array), array.offset * 2).astype(np.float64)
    return kernels.hash_floats(numbers.ctypes.data, 0, len(array), 8)


def _booleans(array: pa.Array, base: int) -> Hashes:
    del base
    values = array.buffers()[1]
    return _of_zeros(array) if values is None else kernels.hash_bits(values.address, array.offset, len(array))


def _nulls(array: pa.Array, base: int) -> Hashes:
    return np.full(len(array), _null(base), np.uint64)


def _decimals(array: pa.Array, base: int) -> Hashes:
    if array.type.bit_width < 64:
        return _integers(4)(array, base)
    values = array.buffers()[1]
    if values is None:
        return _of_zeros(array)
    words = array.type.bit_width // 64
    return kernels.hash_decimals(values.address, array.offset, len(array), words, base, base == _BASE)


def _bytes(width: int) -> HashFunction:
    """Hash strings or binaries whose offsets have so many bytes."""

    def hash_bytes(array: pa.Array, base: int) -> Hashes:
        _, offsets, data = array.buffers()
        if offsets is None or not len(array):  # an array without rows may leave its offsets out
            return _of_zeros(array)
        return kernels.hash_texts(offsets.address, _address(data), array.offset, len(array), width, base)

    return hash_bytes


def _fixed_bytes(array: pa.Array, base: int) -> Hashes:
    return kernels.hash_fixed(
        _address(array.buffers()[1]), array.offset, len(array), array.type.bit_width // 8, base
    )


def _offsets(array: pa.Array, dtype: str) -> Counts:
    """The offsets of the rows of an array, and the end of the last one."""
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
        return kernels.fold_runs(elements, counts, base)

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
        return kernels.fold_runs(hash_array(array.values, base)[at], sizes, base)

    return hash_list_views


def _fixed_lists(array: pa.Array, base: int) -> Hashes:
    width = array.type.list_size
    elements = hash_array(array.values.slice(array.offset * width, len(array) * width), base)
    return kernels.fold_runs(elements, np.full(len(array), width, np.int64), base)


def _maps(array: pa.Array, base: int) -> Hashes:
    offsets = _offsets(array, "i4")
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    both = [hash_array(side.slice(first, entries), base) for side in (array.keys, array.items)]
    counts = np.diff(offsets)
    return kernels.fold_runs(kernels.fold_fields(both, entries, base), counts, 1)


def _structs(array: pa.Array, base: int) -> Hashes:
    # field() follows the slice of the struct, and leaves out its nulls, which hash_array puts in.
    fields = [hash_array(array.field(index), base) for index in range(array.type.num_fields)]
    return kernels.fold_fields(fields, len(array), base)


def _dictionaries(array: pa.Array, base: int) -> Hashes:
    is_view = array.type.value_type in (pa.string_view(), pa.binary_view())  # which Arrow cannot take from
    if len(array.dictionary) > len(array) and not is_view:  # a small slice: hash what it uses
        return hash_array(array.dictionary_decode(), base)
    hashes = np.append(hash_array(array.dictionary, base), np.uint64(_null(base)))
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
    pa.lib.Type_INT8: _integers(1),
    pa.lib.Type_INT16: _integers(2),
    pa.lib.Type_INT32: _integers(4),
    pa.lib.Type_INT64: _integers(8),
    pa.lib.Type_UINT8: _integers(1, is_signed=False),
    pa.lib.Type_UINT16: _integers(2, is_signed=False),
    pa.lib.Type_UINT32: _integers(4, is_signed=False),
    pa.lib.Type_UINT64: _integers(8),
    pa.lib.Type_DATE32: _integers(4),
    pa.lib.Type_DATE64: _integers(8),
    pa.lib.Type_TIME32: _integers(4),
    pa.lib.Type_TIME64: _integers(8),
    pa.lib.Type_TIMESTAMP: _integers(8),
    pa.lib.Type_DURATION: _integers(8),
    pa.lib.Type_HALF_FLOAT: _halves,
    pa.lib.Type_FLOAT: _floats(4),
    pa.lib.Type_DOUBLE: _floats(8),
    # Older versions of pyarrow have no narrow decimals.
    **{getattr(pa.lib, name): _decimals for name in dir(pa.lib) if name.startswith("Type_DECIMAL")},
    pa.lib.Type_STRING: _bytes(4),
    pa.lib.Type_BINARY: _bytes(4),
    pa.lib.Type_LARGE_STRING: _bytes(8),
    pa.lib.Type_LARGE_BINARY: _bytes(8),
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


# Split a batch by the worker of each row.


def worker_of(hashes: Hashes, workers: int) -> npt.NDArray[np.intp]:
    """The worker of each hash: its high 32 bits, scaled from [0, 2^32) down to [0, workers).

    Multiply and shift, and not modulo: it is as even for every number of workers, and it leaves the low bits
    alone, so that a worker's own tables can use those.
    """
    assert 1 <= workers < 1 << 32
    return kernels.workers_of(hashes, workers)


def partition(batch: pa.RecordBatch, keys: Sequence[str], workers: int) -> list[pa.RecordBatch | None]:
    """The rows of each worker, in the order in which they came; None where it has none.

    Where all rows belong to one worker that part is the batch itself. Otherwise all rows are copied once, and
    the parts are slices of that copy: they share its buffers, so one part alive keeps all of it.
    """
    parts: list[pa.RecordBatch | None] = [None] * workers
    if batch.num_rows == 0:
        return parts
    if workers == 1:
        return [batch]
    return split(batch, worker_of(hash_columns(batch, keys), workers), workers)


def split(batch: pa.RecordBatch, worker: npt.NDArray[np.intp], workers: int) -> list[pa.RecordBatch | None]:
    """The rows of each worker, where the worker of each row is known; for a batch that has rows."""
    parts: list[pa.RecordBatch | None] = [None] * workers
    order, begins = runs.by_number(worker, workers)
    ends = begins.tolist()
    first = int(worker[0])
    if ends[first + 1] - ends[first] == batch.num_rows:
        parts[first] = batch
        return parts
    rows = pc.take(batch, pa.array(order), boundscheck=False)
    for index, (begin, end) in enumerate(pairwise(ends)):
        if begin < end:
            parts[index] = rows.slice(begin, end - begin)
    return parts
