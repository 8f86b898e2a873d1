"""Map 64-bit vertex ids to slots.

A slot is given to an id when it is first seen and never changes, so that every other array of a graph can be
indexed by slot. Ids that lie close together are looked up by their own value; others by a hash table
(``hashed_ids``). Which of the two it is shows in the cost only.

Invariant: equal ids have equal slots, different ids different ones, ``ids[slot]`` is the id, and slots are
given without gaps. Ids are never removed.
"""

from typing import Final

import numpy as np

from pointstamp.graphs.arrays.hashed_ids import HashedIds
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct, grown

_NONE: Final = -1
# A direct address costs 8 bytes, a place of the hash table 16, and there are two to eight of those per id.
_ADDRESSES_PER_ID_MAX: Final = 8
_ADDRESSES_MIN: Final = 65_536
_ROOM_MIN: Final = 1_024
# Block by block, what lies between the passes stays in the nearest caches, and the table grows by need.
_BLOCK_IDS: Final = 65_536
_ID_MIN: Final = -(1 << 63)
_ID_MAX: Final = (1 << 63) - 1


class VertexTable:
    """Slots of vertex ids; grows with what it is asked for, and is changed by the forest that owns it."""

    def __init__(self) -> None:
        self.count = 0
        self.is_ascending = True
        """Whether slots are in the order of ids."""
        self._ids: Ids = np.empty(_ROOM_MIN, np.int64)
        self._least, self._greatest = _ID_MAX, _ID_MIN
        self._is_direct = True
        self._base = 0
        # The first and the last address are never taken: they stand for everything outside.
        self._direct: Slots = _no_addresses()
        self._hashed = HashedIds()

    @property
    def ids(self) -> Ids:
        """The id of each slot."""
        return self._ids[: self.count]

    def slots_of(self, ids: Ids) -> Slots:
        """The slot of each id; ids that are seen for the first time get the next ones."""
        if not len(ids):
            return np.empty(0, np.intp)
        self._least, self._greatest = min(self._least, int(ids.min())), max(self._greatest, int(ids.max()))
        if not self._is_direct or not self._reach(len(ids)):
            return self._hashed_slots(ids)
        self._add(ids)
        return self._addressed(ids)

    # By direct address.

    def _addressed(self, ids: Ids) -> Slots:
        slots = np.empty(len(ids), np.intp)
        for start in range(0, len(ids), _BLOCK_IDS):
            block = slice(start, start + _BLOCK_IDS)
            # Where the difference wraps around, the id is as far outside as where it does not.
            np.take(self._direct, ids[block] - self._base, out=slots[block], mode="clip")
        return slots

    def _reach(self, ids: int) -> bool:
        """Let the direct addresses cover all ids, or change to hashing where they lie too far apart."""
        is_inside = self._base < self._least and self._greatest < self._base + len(self._direct) - 1
        if not is_inside and self._is_dense(self.count + ids):
            self._lay_direct()
        elif not is_inside:
            self._is_direct = False
            self._direct = _no_addresses()
            self._lay_hashed(self.count)
        return self._is_direct

    def _is_dense(self, ids: int) -> bool:
        span = self._greatest - self._least
        is_far_from_the_ends = self._least - span > _ID_MIN and self._greatest + span < _ID_MAX
        return is_far_from_the_ends and span < max(_ADDRESSES_PER_ID_MAX * ids, _ADDRESSES_MIN)

    def _lay_direct(self) -> None:
        """Lay the addresses again, with half as much room again on both sides."""
        room = (self._greatest - self._least) // 2 + 1
        self._base = self._least - room
        self._direct = np.full(self._greatest + room - self._base + 1, _NONE, np.intp)
        self._direct[self.ids - self._base] = np.arange(self.count)

    def _add(self, ids: Ids) -> None:
        """Give slots to those that have none, ascending: a graph loaded at once has them in order of ids."""
        unknown = ids[self._addressed(ids) < 0] if self.count else ids
        if len(unknown):
            new = distinct(self._greatest - self._least + 1, unknown - self._least) + self._least
            first = self.count
            self._append(new)
            self._direct[new - self._base] = np.arange(first, self.count)

    def _append(self, new: Ids) -> None:
        if self.is_ascending:
            follows = self.count == 0 or bool(self._ids[self.count - 1] < new[0])
            self.is_ascending = follows and bool(np.all(new[1:] > new[:-1]))
        self._ids = grown(self._ids, self.count, self.count + len(new))
        self._ids[self.count : self.count + len(new)] = new
        self.count += len(new)

    # By hash.

    def _hashed_slots(self, ids: Ids) -> Slots:
        slots = np.empty(len(ids), np.intp)
        places = len(self._hashed)
        for start in range(0, len(ids), _BLOCK_IDS):
            block = ids[start : start + _BLOCK_IDS]
            if 2 * (self.count + len(block)) > len(self._hashed):
                self._lay_hashed(self.count + len(block))
            slots[start : start + _BLOCK_IDS], new = self._hashed.enter(block, self.count)
            if len(new):
                self._append(new)
        if len(self._hashed) > places and self._is_dense(self.count):
            self._is_direct = True
            self._lay_direct()
            self._hashed = HashedIds()
        return slots

    def _lay_hashed(self, ids: int) -> None:
        """Lay the hash table again, with room for so many ids, and enter those that are there."""
        self._hashed.lay(ids)
        for start in range(0, self.count, _BLOCK_IDS):
            stop = min(start + _BLOCK_IDS, self.count)
            self._hashed.enter(self._ids[start:stop], start, known=np.arange(start, stop))


def _no_addresses() -> Slots:
    return np.full(2, _NONE, np.intp)
