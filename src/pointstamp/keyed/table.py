"""Hash tables from 64-bit integers to slots, in bulk.

``HashTable`` is open addressing in numpy: every round looks one place further for the rows that are not yet
decided, and these become few fast. Its entries are hashes; where two different keys can have the same hash,
the caller says which of the hits are the same key, and the others look on. ``IntegerTable`` maps integers
exactly: by direct address while they lie close together, and otherwise by their splitmix64, which is a
bijection, so that equal hashes are equal integers.

Invariant: what was placed is found with its slot, and nothing else is found. Entries are never removed.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pointstamp.rows.mixing import Hashes, mix

Slots: TypeAlias = npt.NDArray[np.intp]
Words: TypeAlias = npt.NDArray[np.int64]
SameKey: TypeAlias = Callable[[Slots, Slots], npt.NDArray[np.bool_]]
"""Whether the keys of these rows are those of these slots, one answer for each pair."""

UNKNOWN: Final = -1

_PLACES_MIN: Final = 1_024
# A direct address costs 8 bytes, a place of the hash table 16, and there are two to four of these per key.
_ADDRESSES_PER_KEY_MAX: Final = 4
_INT64: Final = np.iinfo(np.int64)
# Block by block, what lies between the passes stays in the nearest caches.
_BLOCK_ROWS: Final = 16_384


class HashTable:
    """Open addressing with triangular steps, at most half full; changed by the key index that owns it."""

    def __init__(self) -> None:
        self._entries = 0
        self._allocate(_PLACES_MIN)

    def find(self, hashes: Hashes, same: SameKey | None = None) -> Slots:
        """The slot of each hash, or UNKNOWN; the search continues past hits that ``same`` denies."""
        at = (hashes & self._mask).view(np.int64)
        found = self._slots[at]
        rows = self._undecided(found, at, hashes, None, same)
        step = 0
        at = at[rows]
        while len(rows):
            step += 1
            at = (at + step) & self._mask_signed
            slots = self._slots[at]
            undecided = self._undecided(slots, at, hashes[rows], rows, same)
            found[rows] = slots
            rows, at = rows[undecided], at[undecided]
        return found

    def place(self, hashes: Hashes, slots: Slots) -> None:
        """Enter keys that are not in the table yet; their slots are distinct, their hashes need not be."""
        self._entries += len(slots)
        if 2 * self._entries > len(self._slots):
            full = np.flatnonzero(self._slots >= 0)
            old_hashes, old_slots = self._hashes[full], self._slots[full]
            self._allocate(1 << (4 * self._entries - 1).bit_length())
            self._fill(old_hashes, old_slots)
        self._fill(hashes, slots)

    def _allocate(self, places: int) -> None:
        self._mask = np.uint64(places - 1)
        self._mask_signed = np.int64(places - 1)
        self._hashes: Hashes = np.zeros(places, np.uint64)
        self._slots: Slots = np.full(places, UNKNOWN, np.intp)

    def _fill(self, hashes: Hashes, slots: Slots) -> None:
        at = (hashes & self._mask).view(np.int64)
        step = 0
        while len(slots):
            free = self._slots[at] < 0
            # Of several that want one place the last writer has it, which reading back tells.
            self._slots[at[free]] = slots[free]
            placed = self._slots[at] == slots
            self._hashes[at[placed]] = hashes[placed]
            rest = np.flatnonzero(~placed)
            step += 1
            at = (at[rest] + step) & self._mask_signed
            hashes, slots = hashes[rest], slots[rest]

    def _undecided(
        self, slots: Slots, at: Words, hashes: Hashes, rows: Slots | None, same: SameKey | None
    ) -> Slots:
        """Which of these places hold another key: the search continues there; at a free one it ends."""
        other = self._hashes[at] != hashes
        if same is not None:
            hits = np.flatnonzero(~other & (slots >= 0))
            if len(hits):
                other[hits] = ~same(hits if rows is None else rows[hits], slots[hits])
        other &= slots >= 0
        return np.flatnonzero(other)


class IntegerTable:
    """Integers to slots, by direct address or by hash; changed by the key index that owns it.

    Each change between the two needs the number of keys or their range to double, so there are few.
    """

    def __init__(self) -> None:
        self._entries = 0
        self._least = self._greatest = 0
        self._table: HashTable | _DirectTable | None = None

    @property
    def is_direct(self) -> bool:
        """Whether integers are looked up by their own value, which costs next to nothing per row."""
        return isinstance(self._table, _DirectTable)

    def find(self, words: Words) -> Slots:
        """The slot of each integer, or UNKNOWN."""
        if self._table is None:
            return np.full(len(words), UNKNOWN, np.intp)
        if len(words) <= _BLOCK_ROWS:
            return self._find(words)
        found = np.empty(len(words), np.intp)
        for start in range(0, len(words), _BLOCK_ROWS):
            stop = start + _BLOCK_ROWS
            found[start:stop] = self._find(words[start:stop])
        return found

    def place(self, words: Words, slots: Slots, known: Callable[[], tuple[Words, Slots]]) -> None:
        """Enter distinct integers that are not in the table yet; ``known`` has all that already are."""
        if not len(words):
            return
        least, greatest = int(words.min()), int(words.max())
        self._least = min(self._least, least) if self._entries else least
        self._greatest = max(self._greatest, greatest) if self._entries else greatest
        self._entries += len(words)
        table = self._table
        if not self._are_close():
            if not isinstance(table, HashTable):
                self._table = table = HashTable()
                old_words, old_slots = known()
                table.place(mixed(old_words), old_slots)
            table.place(mixed(words), slots)
        else:
            if not isinstance(table, _DirectTable) or not table.covers(self._least, self._greatest):
                self._table = table = _DirectTable(self._least, self._greatest)
                table.place(*known())
            table.place(words, slots)

    def _find(self, words: Words) -> Slots:
        if isinstance(self._table, _DirectTable):
            return self._table.find(words)
        assert self._table is not None
        return self._table.find(mixed(words))

    def _are_close(self) -> bool:
        """Whether direct addresses are worth their memory; whoever has left them must be closer to return."""
        per_key = (
            _ADDRESSES_PER_KEY_MAX // 2 if isinstance(self._table, HashTable) else _ADDRESSES_PER_KEY_MAX
        )
        return self._greatest - self._least < per_key * self._entries + _PLACES_MIN


class _DirectTable:
    """One place for every integer of a range."""

    def __init__(self, least: int, greatest: int) -> None:
        room = (greatest - least) // 2 + 1
        self._base = max(least - room, _INT64.min)
        # The last place is never filled, and stands for all integers outside.
        self._slots: Slots = np.full(min(greatest + room, _INT64.max) - self._base + 2, UNKNOWN, np.intp)

    def covers(self, least: int, greatest: int) -> bool:
        return self._base <= least and greatest < self._base + len(self._slots) - 1

    def find(self, words: Words) -> Slots:
        # The difference may wrap, and as unsigned everything outside is too large.
        at = np.minimum((words - self._base).view(np.uint64), np.uint64(len(self._slots) - 1))
        return self._slots[at.view(np.int64)]

    def place(self, words: Words, slots: Slots) -> None:
        self._slots[words - self._base] = slots


def mixed(words: Words) -> Hashes:
    """Splitmix64 of each integer: a bijection, and neighbours come to lie far apart."""
    return mix(words.astype(np.int64).view(np.uint64))
