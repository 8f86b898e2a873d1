"""Prefixes of values: 64 bits each, in the order of the values, so that a sorted run has its least first.

Of numbers, dates and times the prefix is the value itself, of text its first eight bytes, of decimals the
float next to it. Where a prefix is the same for two values, only these are compared as they are.

Invariant: a value that is less than another, as ``pointstamp.tables.kept.ordering`` says, has no greater
prefix.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.ordering import Ordered

_SIGN: Final = np.uint64(1 << 63)
_ALL_BITS: Final = np.uint64(2**64 - 1)
# The low k bytes of a word, for k from 0 to 8.
_LOW_BYTES: Final = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)


def prefixes_of(values: pa.Array, by: Ordered) -> Hashes:
    """The prefix of each value in this order; that of null comes before all of them, or after."""
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    made = _ascending(values) ^ (_ALL_BITS if by.descends else np.uint64(0))
    if values.null_count:
        made[values.is_null().to_numpy(zero_copy_only=False)] = _ALL_BITS if by.nulls_last else 0
    return made


def _ascending(values: pa.Array) -> Hashes:
    kind = values.type
    if types.is_decimal(kind) or types.is_floating(kind):
        return _of_floats(values)
    if types.is_integer(kind) or types.is_boolean(kind):
        return _of_integers(values)
    if types.is_temporal(kind):
        return _of_integers(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if types.is_string(kind) or types.is_binary(kind):
        return _of_bytes(values, "i4")
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _of_bytes(values, "i8")
    # Of other types nothing is known: all have the same prefix, and are compared as they are.
    return np.zeros(len(values), np.uint64)


def _of_integers(values: pa.Array) -> Hashes:
    filled = values.fill_null(False if types.is_boolean(values.type) else 0) if values.null_count else values
    numbers = filled.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        return np.array(numbers)
    return np.asarray(numbers.astype(np.int64).view(np.uint64) ^ _SIGN)


def _of_floats(values: pa.Array) -> Hashes:
    floats = values.cast(pa.float64())
    filled = floats.fill_null(0.0) if floats.null_count else floats
    numbers = filled.to_numpy() + 0.0  # -0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan  # every NaN is the same, and the greatest
    bits = numbers.view(np.int64)
    flips = (bits >> 63).view(np.uint64) | _SIGN
    return np.asarray(bits.view(np.uint64) ^ flips)


def _of_bytes(values: pa.Array, offset_dtype: str) -> Hashes:
    """The first eight bytes, the first one highest; shorter values are filled with zeros."""
    width = np.dtype(offset_dtype).itemsize
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.zeros(len(values), np.uint64)
    offsets = np.frombuffer(buffer, offset_dtype, len(values) + 1, values.offset * width).astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    padded = np.zeros(size + 8, np.uint8)
    data = values.buffers()[2]
    if data is not None:
        padded[:size] = np.frombuffer(data, np.uint8, size, first)
    word_at: Hashes = np.ndarray((size + 1,), "<u8", padded, strides=(1,))
    words = word_at[offsets[:-1] - first] & _LOW_BYTES[np.minimum(np.diff(offsets), 8)]
    return np.asarray(words.byteswap())
