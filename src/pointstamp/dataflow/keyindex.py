"""A growing map from keys to slots: each new key gets the next number, and every row learns its key's number.

State of a keyed operator is then a set of plain arrays indexed by slot. Keys are one or more Arrow columns of
any type with equality (``pointstamp.dataflow.keycolumns`` says what equal means); null is a key like another.

A single column of integers, dates, times, booleans or floats is looked up exactly by its 64 bits. All other
keys are looked up by a 64-bit hash, and every hit is compared with the stored key: two keys with one hash stay
two keys. No Python runs per row.

Invariant: ``keys(slots(batch))`` are the keys of the batch, and different keys have different slots.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.dataflow.hashing import hash_columns
from pointstamp.dataflow.keycolumns import WORDS, KeyColumn, WordColumn, codec_of, column_of, words_of
from pointstamp.dataflow.keytable import UNKNOWN, HashTable, IntegerTable, Slots, Words

# Looking up distinct integers only wins where a batch repeats them; finding them costs what five rows do.
_DISTINCT_ROWS_MIN: Final = 8_192


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
        is_integer = len(schema) == 1 and self._codecs[0].coded == WORDS
        self._entries: _IntegerEntries | _HashedEntries = (
            _IntegerEntries() if is_integer else _HashedEntries([codec.coded for codec in self._codecs])
        )

    def __len__(self) -> int:
        return self._entries.count

    def slots(self, batch: pa.RecordBatch) -> Slots:
        """The slot of each row's key; a key that was not known gets the next one."""
        return self._entries.slots(self._coded(batch, inserts=True), inserts=True)

    def find(self, batch: pa.RecordBatch) -> Slots:
        """The slot of each row's key, or -1 where it is not known."""
        return self._entries.slots(self._coded(batch, inserts=False), inserts=False)

    def keys(self, slots: Slots) -> pa.RecordBatch:
        """The key columns of these slots, in this order."""
        coded = zip(self._codecs, self._entries.columns, strict=True)
        return pa.RecordBatch.from_arrays(
            [codec.decode(column.take(slots)) for codec, column in coded], schema=self._schema
        )

    def _coded(self, batch: pa.RecordBatch, *, inserts: bool) -> list[pa.Array]:
        named = zip(self._codecs, self._schema.names, strict=True)
        return [codec.encode(batch.column(name), inserts=inserts) for codec, name in named]


class _IntegerEntries:
    """Keys that are one 64-bit integer or null."""

    def __init__(self) -> None:
        self.count = 0
        self._column = WordColumn()
        self.columns: list[KeyColumn] = [self._column]
        self._table = IntegerTable()
        self._null_slot = UNKNOWN

    def slots(self, coded: list[pa.Array], *, inserts: bool) -> Slots:
        (column,) = coded
        if not column.null_count:
            return self._slots(words_of(column), inserts=inserts)
        if inserts and self._null_slot == UNKNOWN:
            self._null_slot = self.count
            self._append(pa.nulls(1, WORDS))
        slots = np.full(len(column), self._null_slot, np.intp)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        slots[valid] = self._slots(column.drop_null().to_numpy(), inserts=inserts)
        return slots

    def _slots(self, words: Words, *, inserts: bool) -> Slots:
        if len(words) >= _DISTINCT_ROWS_MIN and not self._table.is_direct:
            encoded = pa.array(words).dictionary_encode()
            return self._slots_of_few(encoded.dictionary.to_numpy(), inserts=inserts)[encoded.indices.to_numpy()]
        return self._slots_of_few(words, inserts=inserts)

    def _slots_of_few(self, words: Words, *, inserts: bool) -> Slots:
        slots = self._table.find(words)
        if inserts:
            unknown = np.flatnonzero(slots < 0)
            if len(unknown):
                encoded = pa.array(words[unknown]).dictionary_encode()
                new = np.arange(self.count, self.count + len(encoded.dictionary))
                self._table.place(encoded.dictionary.to_numpy(), new, self._known)
                self._append(encoded.dictionary)
                slots[unknown] = new[encoded.indices.to_numpy()]
        return slots

    def _append(self, column: pa.Array) -> None:
        self._column.append(column)
        self.count += len(column)

    def _known(self) -> tuple[Words, Slots]:
        slots = np.flatnonzero(self._column.valid)
        return self._column.words[slots], slots


class _HashedEntries:
    """Keys that are looked up by hash and compared: bytes, or several columns."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.count = 0
        self.columns = [column_of(coded) for coded in types]
        self._schema = pa.schema([pa.field(str(i), coded) for i, coded in enumerate(types)])
        self._table = HashTable()

    def slots(self, coded: list[pa.Array], *, inserts: bool) -> Slots:
        distinct, codes = _distinct(coded)
        batch = pa.RecordBatch.from_arrays(distinct, schema=self._schema)
        hashes = hash_columns(batch, self._schema.names)

        def same(rows: Slots, slots: Slots) -> npt.NDArray[np.bool_]:
            answers = (c.equal(d, rows, slots) for c, d in zip(self.columns, distinct, strict=True))
            return np.logical_and.reduce(list(answers))

        slots = self._table.find(hashes, same)
        unknown = np.flatnonzero(slots < 0)
        if inserts and len(unknown):
            new = np.arange(self.count, self.count + len(unknown))
            self.count += len(unknown)
            for column, values in zip(self.columns, distinct, strict=True):
                column.append(values.take(pa.array(unknown)))
            self._table.place(hashes[unknown], new)
            slots[unknown] = new
        return slots[codes]


def _distinct(coded: list[pa.Array]) -> tuple[list[pa.Array], Slots]:
    """The distinct rows, and which of them each row is."""
    first = coded[0].dictionary_encode(null_encoding="encode")
    if len(coded) == 1:
        return [first.dictionary], first.indices.to_numpy()
    codes = first.indices.to_numpy()
    for column in coded[1:]:
        encoded = column.dictionary_encode(null_encoding="encode")
        pairs = codes.astype(np.int64) * len(encoded.dictionary) + encoded.indices.to_numpy()
        # Numbered anew after each column, so that the product of the next two stays below 2^63.
        codes = pa.array(pairs).dictionary_encode().indices.to_numpy()
    rows = np.empty(int(codes.max(initial=-1)) + 1, np.intp)
    rows[codes] = np.arange(len(codes))
    return [column.take(pa.array(rows)) for column in coded], codes
