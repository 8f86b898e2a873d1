"""Tables from 64-bit numbers to slots, looked up and filled a whole array at a time.

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

Slots: TypeAlias = npt.NDArray[np.intp]
Words: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
SameKey: TypeAlias = Callable[[Slots, Slots], npt.NDArray[np.bool_]]
"""Whether the keys of these rows are those of these slots, one answer for each pair."""

UNKNOWN: Final = -1

_PLACES_MIN: Final = 1_024
# Direct addresses cost 8 bytes each, a place of the hash table 16 and there are two to four per key.
_ADDRESSES_PER_KEY_MAX: Final = 8
# Block by block, what lies between the passes stays in the nearest caches.
_BLOCK_ROWS: Final = 16_384


class HashTable:
    """Open addressing with triangular steps, at most half full; changed by the key index that owns it."""

    def __init__(self) -> None:
        self._entries = 0
        self._allocate(_PLACES_MIN)

    def find(self, hashes: Hashes, same: SameKey | None = None) -> Slots:
        """The slot of each hash, or UNKNOWN; of hits that ``same`` denies the search goes on."""
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
        """Which of these places hold another key: the search goes on there; at a free one it ends."""
        other = self._hashes[at] != hashes
        if same is not None:
            hits = np.flatnonzero(~other & (slots >= 0))
            if len(hits):
                other[hits] = ~same(hits if rows is None else rows[hits], slots[hits])
        other &= slots >= 0
        return np.flatnonzero(other)


class IntegerTable:
    """Integers to slots, by direct address or by hash; changed by the key index that owns it."""

    def __init__(self) -> None:
        self._entries = 0
        self._least = 0
        self._greatest = -1
        self._hashed: HashTable | None = None
        self._base = 0
        self._direct: Slots = np.empty(0, np.intp)

    @property
    def is_direct(self) -> bool:
        """Whether integers are looked up by their own value, which costs next to nothing per row."""
        return self._hashed is None

    def find(self, words: Words) -> Slots:
        """The slot of each integer, or UNKNOWN."""
        if len(words) <= _BLOCK_ROWS:
            return self._find(words)
        found = np.empty(len(words), np.intp)
        for start in range(0, len(words), _BLOCK_ROWS):
            stop = start + _BLOCK_ROWS
            found[start:stop] = self._find(words[start:stop])
        return found

    def _find(self, words: Words) -> Slots:
        if self._hashed is not None:
            return self._hashed.find(mixed(words))
        if not len(self._direct):
            return np.full(len(words), UNKNOWN, np.intp)
        # As unsigned, everything outside is too large; the last address is kept free and stands for it.
        at = np.minimum((words - self._base).view(np.uint64), np.uint64(len(self._direct) - 1))
        return self._direct[at.view(np.int64)]

    def place(self, words: Words, slots: Slots, known: Callable[[], tuple[Words, Slots]]) -> None:
        """Enter distinct integers that are not in the table yet; ``known`` are all that were placed before."""
        if not len(words):
            return
        least, greatest = int(words.min()), int(words.max())
        self._least = min(self._least, least) if self._entries else least
        self._greatest = max(self._greatest, greatest) if self._entries else greatest
        self._entries += len(words)
        addresses = self._greatest - self._least + 1
        if addresses > _ADDRESSES_PER_KEY_MAX * self._entries + _PLACES_MIN:
            if self._hashed is None:
                self._hashed = HashTable()
                self._direct = np.empty(0, np.intp)
                old_words, old_slots = known()
                self._hashed.place(mixed(old_words), old_slots)
            self._hashed.place(mixed(words), slots)
            return
        is_inside = self._base <= self._least and self._greatest < self._base + len(self._direct) - 1
        if self._hashed is not None or not is_inside:
            self._lay(addresses, *known())
        self._direct[words - self._base] = slots

    def _lay(self, addresses: int, words: Words, slots: Slots) -> None:
        """Lay the direct addresses anew, with as much room on both sides as they have in the middle."""
        self._hashed = None
        lowest, highest = max(self._least - addresses, -(1 << 63)), min(self._greatest + addresses, (1 << 63) - 1)
        self._base = lowest
        self._direct = np.full(highest - lowest + 2, UNKNOWN, np.intp)
        self._direct[words - lowest] = slots


def mixed(words: Words) -> Hashes:
    """Splitmix64 of each integer: a bijection, and neighbours come to lie far apart."""
    mixed = words.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
