"""Encode key columns of any Arrow type as 64-bit integers or bytes.

A ``KeyCodec`` brings a column to that form and back, so that two values are the same key exactly where the
coded values are equal. Nulls stay nulls, and are a key. Floats are the same key as SQL and the exchange see
it: -0.0 is 0.0, and every NaN is one. A struct is the slot of its fields in a key index of their own,
and a list is the bytes of the slots of its elements: exact, however deep, without Python per row.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from pointstamp.arrow import columns as kernels
from pointstamp.arrow.hash_table import Slots, Words
from pointstamp.errors import SchemaError

Convert: TypeAlias = Callable[[pa.Array], pa.Array]


class ElementIndex(Protocol):
    """The key index interface that a nested column needs."""

    def slots(self, batch: pa.RecordBatch) -> Slots:
        """The slots of these keys, new ones included."""
        ...

    def find(self, batch: pa.RecordBatch) -> Slots:
        """The slots of these keys, or -1."""
        ...

    def keys(self, slots: Slots) -> pa.RecordBatch:
        """The keys of these slots."""
        ...


IndexOf: TypeAlias = Callable[[pa.Schema], ElementIndex]


class KeyCodec(Protocol):
    """A column of one type as WORDS or BYTES, and back."""

    coded: pa.DataType

    def encode(self, array: pa.Array, *, inserts: bool) -> pa.Array:
        """The coded values; without ``inserts`` values that were not seen before are not remembered."""
        ...

    def decode(self, coded: pa.Array) -> pa.Array:
        """The values that were coded."""
        ...


def codec_of(field: pa.Field, index_of: IndexOf) -> KeyCodec:
    """The codec of a column; SchemaError names a column that cannot be a key."""
    kind: pa.DataType = field.type
    if isinstance(kind, pa.BaseExtensionType):
        inner = codec_of(pa.field(field.name, kind.storage_type), index_of)
        return Through(inner, lambda a: a.storage, lambda a: pa.ExtensionArray.from_storage(kind, a))
    if types.is_dictionary(kind):
        inner = codec_of(pa.field(field.name, kind.value_type), index_of)
        return Through(inner, lambda a: a.dictionary_decode(), lambda a: a.dictionary_encode().cast(kind))
    if types.is_run_end_encoded(kind):
        inner = codec_of(pa.field(field.name, kind.value_type), index_of)
        return Through(inner, pc.run_end_decode, lambda a: pc.run_end_encode(a, kind.run_end_type))
    if types.is_null(kind):
        return Cast(WORDS, lambda a: pa.nulls(len(a), WORDS), lambda a: pa.nulls(len(a)))
    if types.is_boolean(kind):
        return Cast(WORDS, lambda a: a.cast(WORDS), lambda a: a.cast(kind))
    if types.is_floating(kind):
        return Cast(WORDS, _bits_of_floats, lambda a: a.view(pa.float64()).cast(kind))
    if kind == WORDS:
        return Cast(WORDS, lambda a: a, lambda a: a)
    if types.is_uint64(kind):
        return Cast(WORDS, lambda a: a.view(WORDS), lambda a: a.view(kind))
    if types.is_integer(kind) or (types.is_temporal(kind) and not types.is_interval(kind)):
        stored = kind if types.is_integer(kind) else pa.int32() if kind.bit_width == 32 else WORDS
        return Cast(WORDS, lambda a: a.view(stored).cast(WORDS), lambda a: a.cast(stored).view(kind))
    if types.is_decimal(kind) or types.is_interval(kind):
        width = pa.binary(kind.bit_width // 8)
        return Cast(BYTES, lambda a: a.view(width).cast(BYTES), lambda a: a.cast(width).view(kind))
    if types.is_string(kind) or types.is_large_string(kind):
        # The view spares checking again that the bytes are text.
        return Cast(BYTES, lambda a: a.cast(BYTES), lambda a: a.view(pa.large_string()).cast(kind))
    if _is_bytes(kind):
        return Cast(BYTES, lambda a: a.cast(BYTES), lambda a: a.cast(kind))
    if types.is_struct(kind):
        return Structs(kind, index_of)
    if _is_list(kind):
        return Lists(kind, index_of)
    raise SchemaError(
        f"column '{field.name}' of type {kind} cannot be a key, because equality is not defined for it. "
        "Use another column as the key, or turn this one into a struct, a list or a string first."
    )


class Cast:
    """A codec of two functions."""

    def __init__(self, coded: pa.DataType, encode: Convert, decode: Convert) -> None:
        self.coded = coded
        self._encode, self._decode = encode, decode

    def encode(self, array: pa.Array, *, inserts: bool) -> pa.Array:
        """Apply the one."""
        return self._encode(array)

    def decode(self, coded: pa.Array) -> pa.Array:
        """Apply the other."""
        return self._decode(coded)


class Through:
    """Another encoding of the same values: their codec, with one step before and after."""

    def __init__(self, inner: KeyCodec, before: Convert, after: Convert) -> None:
        self.coded = inner.coded
        self._inner, self._before, self._after = inner, before, after

    def encode(self, array: pa.Array, *, inserts: bool) -> pa.Array:
        """Encode the values that the array stands for."""
        return self._inner.encode(self._before(array), inserts=inserts)

    def decode(self, coded: pa.Array) -> pa.Array:
        """Bring the values to the encoding of the column."""
        return self._after(self._inner.decode(coded))


# The encoded keys of an index by slot, in append-only arrays.

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


class Structs:
    """A struct as the slot of its fields."""

    coded = WORDS

    def __init__(self, kind: pa.DataType, index_of: IndexOf) -> None:
        self._kind = kind
        # Numbered, for a struct may have two fields of one name.
        self._schema = pa.schema([pa.field(str(i), kind.field(i).type) for i in range(kind.num_fields)])
        self._index = index_of(self._schema)

    def encode(self, array: pa.Array, *, inserts: bool) -> pa.Array:
        """Look the fields up, or enter them."""
        fields = pa.RecordBatch.from_arrays(array.flatten(), schema=self._schema)
        slots = self._index.slots(fields) if inserts else self._index.find(fields)
        return pa.array(slots, WORDS, mask=_mask(array))

    def decode(self, coded: pa.Array) -> pa.Array:
        """Take the fields back."""
        known = pc.drop_null(coded)
        fields = self._index.keys(known.to_numpy())
        rows = pa.array(np.cumsum(valid_of(coded)) - 1, mask=_mask(coded))
        columns = [column.take(rows) for column in fields.columns]
        named = [self._kind.field(i) for i in range(self._kind.num_fields)]
        return pa.StructArray.from_arrays(columns, fields=named, mask=pa.array(~valid_of(coded)))


class Lists:
    """A list as the bytes of its elements' slots."""

    coded = BYTES

    def __init__(self, kind: pa.DataType, index_of: IndexOf) -> None:
        self._kind = kind
        self._plain = pa.large_list(kind.value_field)
        self._schema = pa.schema([pa.field("element", kind.value_type)])
        self._index = index_of(self._schema)

    def encode(self, array: pa.Array, *, inserts: bool) -> pa.Array:
        """Look the elements up, or enter them."""
        lists = array.cast(self._plain)
        elements = pa.RecordBatch.from_arrays([lists.flatten()], schema=self._schema)
        slots = self._index.slots(elements) if inserts else self._index.find(elements)
        lengths = lists.value_lengths().fill_null(0).to_numpy()
        offsets = np.append(0, np.cumsum(lengths)) * slots.itemsize
        coded = pa.Array.from_buffers(BYTES, len(array), [None, pa.py_buffer(offsets), pa.py_buffer(slots)])
        return pc.if_else(pa.array(valid_of(array)), coded, None) if array.null_count else coded

    def decode(self, coded: pa.Array) -> pa.Array:
        """Take the elements back."""
        offsets, data = bytes_of(coded)
        slots = data.view(np.intp)
        values = self._index.keys(slots).column(0)
        starts, mask = pa.array(offsets // slots.itemsize), pa.array(~valid_of(coded))
        lists = pa.LargeListArray.from_arrays(starts, values, self._plain, mask=mask)
        return lists.cast(self._kind)


def _bits_of_floats(array: pa.Array) -> pa.Array:
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values.view(np.int64), mask=_mask(array))


def _mask(array: pa.Array) -> Validity | None:
    return ~valid_of(array) if array.null_count else None


def _is_bytes(kind: pa.DataType) -> bool:
    is_binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(is_binary or types.is_string_view(kind) or types.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
