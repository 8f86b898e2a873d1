"""A growing index from keys to slots.

State of a keyed operator is then a set of plain arrays indexed by slot. Keys are one or more Arrow columns of
any type with equality (``pointstamp.keyed.codec`` says what equal means); null is a key like another.

A single column of integers, dates, times, booleans or floats is looked up exactly by its 64 bits. All other
keys are looked up by a 64-bit hash, and every hit is compared with the stored key: two keys with one hash
stay two keys. No Python runs per row.

Invariant: ``keys(slots(batch))`` are the keys of the batch, and different keys have different slots.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.keyed.codec import codec_of
from pointstamp.keyed.columns import KeyColumn, WordColumn, column_of, words_of
from pointstamp.keyed.table import UNKNOWN, HashTable, IntegerTable, Slots, Words
from pointstamp.rows.hashing import fold_columns, hash_array
from pointstamp.rows.mixing import Hashes

# To find the distinct keys of a batch first wins where it is large enough to repeat them.
_DISTINCT_ROWS_MIN: Final = 8_192
_FIRST_ROWS: Final = 131_072
"""Of a large batch of integers so many rows are looked up first, and then larger and larger slices."""
_SLICE_ROWS_MAX: Final = 1_048_576


class KeyIndex:
    """Keys to slots 0, 1, 2, ...; changed by the operator that owns it, and only ever larger.

    >>> index = KeyIndex(pa.schema({"word": pa.string()}))
    >>> index.slots(pa.record_batch({"word": ["to", "be", "or", "not", "to", "be"]})).tolist()
    [0, 1, 2, 3, 0, 1]
    >>> index.keys(np.array([3, 0]))["word"].to_pylist()
    ['not', 'to']
    """

    def __init__(self, schema: pa.Schema) -> None:
        assert len(schema), "a key has at least one column"
        self._schema = schema
        self._codecs = [codec_of(field, KeyIndex) for field in schema]
        self._columns = [column_of(codec.coded) for codec in self._codecs]
        first = self._columns[0]
        self._lookup: _Lookup = (
            _IntegerLookup(first)
            if len(self._columns) == 1 and isinstance(first, WordColumn)
            else _HashLookup(self._columns)
        )
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def slots(self, batch: pa.RecordBatch) -> Slots:
        """The slot of each row's key; a key that was not known gets the next one."""
        coded, rows = self._coded(batch, inserts=True), batch.num_rows
        if rows <= _FIRST_ROWS or not isinstance(self._lookup, _IntegerLookup):
            return self._slots(coded)
        # Whether looking up every row is cheap is known when some keys are, and of later slices nearly all.
        found, start = [self._slots([column.slice(0, _FIRST_ROWS) for column in coded])], _FIRST_ROWS
        while start < rows:
            size = min(start, _SLICE_ROWS_MAX) if self._lookup.is_cheap else rows - start
            found.append(self._slots([column.slice(start, size) for column in coded]))
            start += size
        return np.concatenate(found)

    def _slots(self, coded: list[pa.Array]) -> Slots:
        if self._is_reduced_first(coded):
            coded, codes = distinct_rows(coded)
            slots = self._lookup.find(coded)
            unknown = np.flatnonzero(slots < 0)
            slots[unknown] = self._append([column.take(pa.array(unknown)) for column in coded])
            return slots[codes]
        slots = self._lookup.find(coded)
        (unknown,) = (slots < 0).nonzero()
        if len(unknown):
            new = coded if len(unknown) == len(slots) else [each.take(pa.array(unknown)) for each in coded]
            if len(unknown) == 1:
                slots[unknown] = self._append(new)
            else:
                new, codes = distinct_rows(new)
                slots[unknown] = self._append(new)[codes]
        return slots

    def find(self, batch: pa.RecordBatch) -> Slots:
        """The slot of each row's key, or -1 where it is not known."""
        coded = self._coded(batch, inserts=False)
        if self._is_reduced_first(coded):
            coded, codes = distinct_rows(coded)
            return self._lookup.find(coded)[codes]
        return self._lookup.find(coded)

    def keys(self, slots: Slots) -> pa.RecordBatch:
        """The keys of these slots, in this order."""
        return pa.RecordBatch.from_arrays(self.key_columns(slots), schema=self._schema)

    def key_columns(self, slots: Slots) -> list[pa.Array]:
        """The columns of the keys of these slots, in this order."""
        coded = zip(self._codecs, self._columns, strict=True)
        return [codec.decode(column.take(slots)) for codec, column in coded]

    def _coded(self, batch: pa.RecordBatch, *, inserts: bool) -> list[pa.Array]:
        named = zip(self._codecs, self._schema.names, strict=True)
        return [codec.encode(batch.column(name), inserts=inserts) for codec, name in named]

    def _is_reduced_first(self, coded: list[pa.Array]) -> bool:
        return len(coded[0]) >= _DISTINCT_ROWS_MIN and not self._lookup.is_cheap

    def _append(self, coded: list[pa.Array]) -> Slots:
        """Give the next slots to keys that are distinct and not known."""
        first, self._count = self._count, self._count + len(coded[0])
        slots = np.arange(first, self._count)
        self._lookup.place(coded, slots)
        for column, values in zip(self._columns, coded, strict=True):
            column.append(values)
        return slots


class _Lookup(Protocol):
    """How coded keys are looked up."""

    @property
    def is_cheap(self) -> bool:
        """Whether looking up every row costs less than finding the distinct ones."""
        ...

    def find(self, coded: list[pa.Array]) -> Slots:
        """The slot of each row, or -1."""
        ...

    def place(self, coded: list[pa.Array], slots: Slots) -> None:
        """Enter distinct keys that are not known, before they are appended to the columns."""
        ...


class _IntegerLookup:
    """Keys that are one 64-bit integer or null."""

    def __init__(self, column: WordColumn) -> None:
        self._column = column
        self._table = IntegerTable()
        self._null_slot = UNKNOWN

    @property
    def is_cheap(self) -> bool:
        return self._table.is_direct

    def find(self, coded: list[pa.Array]) -> Slots:
        slots = self._table.find(words_of(coded[0]))
        if coded[0].null_count:
            slots[coded[0].is_null().to_numpy(zero_copy_only=False)] = self._null_slot
        return slots

    def place(self, coded: list[pa.Array], slots: Slots) -> None:
        if coded[0].null_count:
            is_null = coded[0].is_null().to_numpy(zero_copy_only=False)
            self._null_slot = int(slots[is_null][0])
            slots = slots[~is_null]
        self._table.place(coded[0].drop_null().to_numpy(), slots, self._known)

    def _known(self) -> tuple[Words, Slots]:
        slots = np.flatnonzero(self._column.valid)
        return self._column.words[slots], slots


class _HashLookup:
    """Keys that are looked up by hash and compared: bytes, or several columns."""

    is_cheap = False

    def __init__(self, columns: Sequence[KeyColumn]) -> None:
        self._columns = columns
        self._table = HashTable()

    def find(self, coded: list[pa.Array]) -> Slots:
        hashes = _hashes(coded)
        slots = self._table.find(hashes)
        (hits,) = (slots >= 0).nonzero()
        if not len(hits):
            return slots
        # Nearly always the first key with this hash is the same key, and then they are compared once.
        others = hits[~self._same(coded, hits, slots[hits])]
        if len(others):
            slots[others] = self._table.find(
                hashes[others], lambda rows, candidates: self._same(coded, others[rows], candidates)
            )
        return slots

    def place(self, coded: list[pa.Array], slots: Slots) -> None:
        self._table.place(_hashes(coded), slots)

    def _same(self, coded: list[pa.Array], rows: Slots, slots: Slots) -> npt.NDArray[np.bool_]:
        same = np.ones(len(rows), np.bool_)
        for column, values in zip(self._columns, coded, strict=True):
            same &= column.equal(values, rows, slots)
        return same


def distinct_rows(coded: list[pa.Array]) -> tuple[list[pa.Array], npt.NDArray[np.int32]]:
    """The distinct rows in the order in which they first come, and which of them each row is."""
    first = coded[0].dictionary_encode(null_encoding="encode")
    codes = first.indices.to_numpy()
    if len(coded) == 1:
        return [first.dictionary], codes
    for column in coded[1:]:
        encoded = column.dictionary_encode(null_encoding="encode")
        pairs = codes * np.int64(len(encoded.dictionary)) + encoded.indices.to_numpy()
        # Numbered again after each column, so that the next product stays below 2^63.
        codes = pa.array(pairs).dictionary_encode().indices.to_numpy()
    rows = np.empty(int(codes.max(initial=-1)) + 1, np.intp)
    rows[codes[::-1]] = np.arange(len(codes))[::-1]
    return [column.take(pa.array(rows)) for column in coded], codes


def _hashes(coded: list[pa.Array]) -> Hashes:
    return fold_columns([hash_array(column) for column in coded], len(coded[0]))
