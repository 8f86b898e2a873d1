"""The encoded keys of an index by slot, in append-only arrays."""

from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow import columns as kernels
from pointstamp.keyed.table import Slots, Words

Validity: TypeAlias = npt.NDArray[np.bool_]

WORDS: Final = pa.int64()
BYTES: Final = pa.large_binary()


class KeyColumn(Protocol):
    """The coded values of the keys, by slot; changed by the key index that owns it."""

    def append(self, coded: pa.Array) -> None:
        """Store the values of the next slots."""
        ...

    def take(self, slots: Slots) -> pa.Array:
        """The values of these slots."""
        ...

    def equal(self, coded: pa.Array, rows: Slots, slots: Slots) -> Validity:
        """Return where the values of rows equal those of slots; null equals null.

        The rows are ascending and each is there once, so as many rows as there are values are all of them.
        """
        ...


def column_of(coded: pa.DataType) -> KeyColumn:
    """An empty column of WORDS or BYTES."""
    return WordColumn() if coded == WORDS else BytesColumn()


class WordColumn:
    """Integers in a growing array; zero where null."""

    def __init__(self) -> None:
        self._count = 0
        self._words: Words = np.empty(0, np.int64)
        self._valid: Validity = np.empty(0, np.bool_)
        self._has_nulls = False

    @property
    def words(self) -> Words:
        """All values, zero where null."""
        return self._words[: self._count]

    @property
    def valid(self) -> Validity:
        """Return the mask of non-null keys."""
        return self._valid[: self._count]

    def append(self, coded: pa.Array) -> None:
        """Store the values of the next slots."""
        first, self._count = self._count, self._count + len(coded)
        self._words, self._valid = grown(self._words, self._count), grown(self._valid, self._count)
        self._words[first : self._count] = words_of(coded)
        self._has_nulls = self._has_nulls or coded.null_count > 0
        self._valid[first : self._count] = valid_of(coded)

    def take(self, slots: Slots) -> pa.Array:
        """The values of these slots."""
        words = self._words[slots]
        if not self._has_nulls:
            # As pa.array does, which takes three times as long for a few values.
            return pa.Array.from_buffers(WORDS, len(words), [None, pa.py_buffer(words)])
        return pa.array(words, WORDS, mask=~self._valid[slots])

    def equal(self, coded: pa.Array, rows: Slots, slots: Slots) -> Validity:
        """Return where the values of rows equal those of slots; null equals null."""
        same: Validity = words_of(coded)[rows] == self._words[slots]
        if coded.null_count or self._has_nulls:
            same &= valid_of(coded)[rows] == self._valid[slots]
        return same


class BytesColumn:
    """Bytes in one growing buffer; none where null."""

    def __init__(self) -> None:
        self._count = 0
        self._offsets: Words = np.zeros(1, np.int64)
        self._data: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._valid: Validity = np.empty(0, np.bool_)

    def append(self, coded: pa.Array) -> None:
        """Store the values of the next slots."""
        offsets, data = bytes_of(coded)
        used = int(self._offsets[self._count])
        first, self._count = self._count, self._count + len(coded)
        self._offsets = grown(self._offsets, self._count + 1)
        self._valid = grown(self._valid, self._count)
        self._data = grown(self._data, used + len(data))
        self._offsets[first + 1 : self._count + 1] = offsets[1:] + used
        self._valid[first : self._count] = valid_of(coded)
        self._data[used : used + len(data)] = data

    def take(self, slots: Slots) -> pa.Array:
        """The values of these slots."""
        taken = pc.take(self._all(), pa.array(slots), boundscheck=False)
        valid = self._valid[slots]
        return taken if valid.all() else pc.if_else(pa.array(valid), taken, None)

    def equal(self, coded: pa.Array, rows: Slots, slots: Slots) -> Validity:
        """Return where the values of rows equal those of slots; null equals null."""
        here = coded.fill_null(b"") if coded.null_count else coded
        same = kernels.equal_rows(here, rows, self._all(), slots)
        assert same is not None, "bytes are compared"
        if coded.null_count or not self._valid[slots].all():
            same = same & (valid_of(coded)[rows] == self._valid[slots])
        return same

    def _all(self) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(BYTES, self._count, buffers)


def grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array itself if it has that size, or a copy of at least twice its own: appending stays cheap."""
    if len(array) >= size:
        return array
    larger = np.zeros(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


def words_of(coded: pa.Array) -> Words:
    """The integers of an array of WORDS, zero where null."""
    filled = coded.fill_null(0) if coded.null_count else coded
    words: Words = filled.to_numpy()
    return words


def bytes_of(coded: pa.Array) -> tuple[Words, npt.NDArray[np.uint8]]:
    """Return offsets and bytes of a BYTES array; null values are empty."""
    if not len(coded):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    filled = coded.fill_null(b"") if coded.null_count else coded
    _, offset_buffer, data_buffer = filled.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(filled) + 1, filled.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.empty(0, np.uint8) if first == last else np.frombuffer(data_buffer, np.uint8)[first:last]
    return offsets - first, data


def valid_of(array: pa.Array) -> Validity:
    """Return the mask of non-null values."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    valid: Validity = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
