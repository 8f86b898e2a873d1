"""A growing index from keys to slots.

State of a keyed operator is then a set of plain arrays indexed by slot. Keys are one or more Arrow columns of
any type with equality (``pointstamp.arrow.key_codec`` says what equal means); null is a key like another.

A single column of integers, dates, times, booleans or floats is looked up exactly by its 64 bits. All other
keys are looked up by a 64-bit hash, and every hit is compared with the stored key: two keys with one hash
stay two keys. No Python runs per row, but for such two.

Invariant: ``keys(slots(batch))`` are the keys of the batch, and different keys have different slots.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrow import columns as kernels
from pointstamp.arrow import slots as slot_tables
from pointstamp.arrow.hash_table import UNKNOWN, Slots
from pointstamp.arrow.key_codec import KeyColumn, WordColumn, codec_of, column_of, valid_of, words_of
from pointstamp.arrow.row_hashing import Hashes, fold_columns, hash_array


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
            _IntegerLookup()
            if len(self._columns) == 1 and isinstance(first, WordColumn)
            else _HashLookup(self._columns)
        )
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def slots(self, batch: pa.RecordBatch) -> Slots:
        """The slot of each row's key; a key that was not known gets the next one."""
        coded = self._coded(batch, inserts=True)
        slots, new = self._lookup.number(coded, self._count)
        if len(new):
            self._count += len(new)
            for column, values in zip(self._columns, coded, strict=True):
                column.append(values if len(new) == len(values) else values.take(pa.array(new)))
        return slots

    def find(self, batch: pa.RecordBatch) -> Slots:
        """The slot of each row's key, or -1 where it is not known."""
        return self._lookup.find(self._coded(batch, inserts=False))

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


class _Lookup(Protocol):
    """The lookup of coded keys."""

    def find(self, coded: list[pa.Array]) -> Slots:
        """The slot of each row, or -1."""
        ...

    def number(self, coded: list[pa.Array], count: int) -> tuple[Slots, Slots]:
        """The slot of each row, of new keys from ``count`` on; and the first row of each new key, in order.

        New keys are to be appended to the columns before the next call.
        """
        ...


class _IntegerLookup:
    """Keys that are one 64-bit integer or null."""

    def __init__(self) -> None:
        self._table = slot_tables.SlotTable()
        self._null_slot = UNKNOWN

    def find(self, coded: list[pa.Array]) -> Slots:
        slots = self._table.find(words_of(coded[0]), True)
        if coded[0].null_count:
            slots[~valid_of(coded[0])] = self._null_slot
        return slots

    def number(self, coded: list[pa.Array], count: int) -> tuple[Slots, Slots]:
        (column,) = coded
        valid = valid_of(column) if column.null_count else None
        slots, new = self._table.number(words_of(column), True, valid, self._null_slot, count)
        if valid is not None and self._null_slot == UNKNOWN:
            self._null_slot = int(slots[(~valid).argmax()])
        return slots, new


class _HashLookup:
    """Keys that are looked up by hash and compared: bytes, or several columns."""

    def __init__(self, columns: Sequence[KeyColumn]) -> None:
        self._columns = columns
        self._table = slot_tables.SlotTable()

    def find(self, coded: list[pa.Array]) -> Slots:
        return self._find(coded, _hashes(coded))

    def number(self, coded: list[pa.Array], count: int) -> tuple[Slots, Slots]:
        hashes = _hashes(coded)
        slots = self._find(coded, hashes)
        unknown = np.flatnonzero(slots < 0)
        if not len(unknown):
            return slots, unknown
        codes, firsts = _distinct(coded, hashes, unknown)
        slots[unknown] = codes + count
        new = unknown[firsts]
        self._table.enter(hashes[new], count)
        return slots, new

    def _find(self, coded: list[pa.Array], hashes: Hashes) -> Slots:
        slots = self._table.find(hashes, False)
        (hits,) = (slots >= 0).nonzero()
        if len(hits):
            # Nearly always the first key with this hash is the same key.
            for row in hits[~self._same(coded, hits, slots[hits])].tolist():
                slots[row] = self._among(self._table.candidates(int(hashes[row])), coded, row)
        return slots

    def _among(self, candidates: list[int], coded: list[pa.Array], row: int) -> int:
        """The one of these slots that has the key of a row, or -1."""
        one = [column.slice(row, 1) for column in coded]
        for slot in candidates:
            if self._same(one, np.zeros(1, np.intp), np.array([slot])).all():
                return slot
        return UNKNOWN

    def _same(self, coded: list[pa.Array], rows: Slots, slots: Slots) -> npt.NDArray[np.bool_]:
        same = np.ones(len(rows), np.bool_)
        for column, values in zip(self._columns, coded, strict=True):
            same &= column.equal(values, rows, slots)
        return same


def _distinct(coded: list[pa.Array], hashes: Hashes, rows: Slots) -> tuple[Slots, Slots]:
    """The number of the distinct key of each row, in order of appearance, and the first row of each key."""
    codes, firsts = slot_tables.SlotTable().number(hashes[rows], False, None, UNKNOWN, 0)
    if len(firsts) < len(rows):
        own = rows[firsts[codes]]
        for values in coded:
            same = kernels.equal_rows(values, rows, values, own)
            assert same is not None, "coded values are integers or bytes"
            if not same.all():  # two keys of the batch have one hash
                return _distinct_by_value(coded, rows)
    return codes, firsts


def _distinct_by_value(coded: list[pa.Array], rows: Slots) -> tuple[Slots, Slots]:
    numbers: dict[tuple[object, ...], int] = {}
    firsts: list[int] = []
    values = [column.take(pa.array(rows)).to_pylist() for column in coded]
    codes = np.empty(len(rows), np.intp)
    for row, key in enumerate(zip(*values, strict=True)):
        codes[row] = numbers.setdefault(key, len(numbers))
        if codes[row] == len(firsts):
            firsts.append(row)
    return codes, np.array(firsts, np.intp)


def _hashes(coded: list[pa.Array]) -> Hashes:
    return fold_columns([hash_array(column) for column in coded], len(coded[0]))
