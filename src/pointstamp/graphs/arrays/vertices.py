"""Map 64-bit vertex ids to slots.

A slot is given to an id when it is first seen and never changes, so that every other array of a graph can be
indexed by slot. Ids that lie close together are looked up by their own value; others by a hash table
(this module). Which of the two it is shows in the cost only.

Invariant: equal ids have equal slots, different ids different ones, ``ids[slot]`` is the id, and slots are
given without gaps. Ids are never removed.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.slot_arrays import DIFF, Ids, Slots, batch_of, distinct, grown

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


# A hash table from sparse ids to slots, in arrays, with open addressing.
#
# Many ids enter at once. Of those that want one place one has it, and the others continue to the next,
# further away each time. Ids are never removed.

_PLACES_MIN: Final = 1_024


class HashedIds:
    """A map from ids to slots; changed by the vertex table that owns it."""

    def __init__(self) -> None:
        self._keys: Ids = np.empty(0, np.int64)
        self._places: Slots = np.empty(0, np.intp)

    def __len__(self) -> int:
        """The number of places."""
        return len(self._places)

    def lay(self, ids: int) -> None:
        """Lay the table again, without ids, so that it is a quarter full with so many."""
        places = 1 << max(4 * ids - 1, _PLACES_MIN - 1).bit_length()
        self._keys = np.zeros(places, np.int64)
        self._places = np.full(places, _NONE, np.intp)

    def enter(self, ids: Ids, first: int, *, known: Slots | None = None) -> tuple[Slots, Ids]:
        """The slot of each id; new ones enter, with their known slots or with the next from ``first`` on.

        Return the new ones as well, by their slots.
        """
        slots = np.empty(len(ids), np.intp)
        entered: list[Ids] = []
        rows = np.arange(len(ids))
        last = np.int64(len(self._places) - 1)
        at = mixed(ids).view(np.int64) & last
        step = 0
        while len(rows):
            free = np.flatnonzero(self._places[at] < 0)
            if len(free):
                entered.append(self._claim(at[free], rows[free], ids, first, known))
                first += len(entered[-1])
            is_hit = self._keys[at] == ids[rows]
            slots[rows[is_hit]] = self._places[at[is_hit]]
            rest = np.flatnonzero(~is_hit)
            step += 1
            rows, at = rows[rest], (at[rest] + step) & last
        return slots, np.concatenate(entered) if entered else ids[:0]

    def _claim(self, at: Slots, rows: Slots, ids: Ids, first: int, known: Slots | None) -> Ids:
        # Of several that want one place the last writer has it, which reading back tells.
        self._places[at] = rows
        has_it = self._places[at] == rows
        at, rows = at[has_it], rows[has_it]
        self._keys[at] = ids[rows]
        self._places[at] = np.arange(first, first + len(rows)) if known is None else known[rows]
        return ids[rows]


def mixed(ids: Ids) -> npt.NDArray[np.uint64]:
    """Splitmix64 of each id: a bijection after which neighbours lie far apart."""
    mixed = ids.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


# Accumulate the vertices that edges name, before they are counted.
#
# A graph names a vertex as often as it has ends there. Where ids are whole numbers, the ends of a batch are
# consolidated in arrays, so that what keeps the vertices is told of each once in a batch and not once for
# each end.

_ADDRESSES_PER_END_MAX: Final = 4


def named_by(changes: ps.Stream, *, name: str) -> ps.Table:
    """Return the ``id`` of both ends of edges, with multiplicities."""
    schema = pa.schema([("id", changes.schema.field("src").type), changes.schema.field(DIFF)])
    return ps.Table(changes.map_batches(_AddedUpEnds(schema), schema).named(name))


class _AddedUpEnds:
    """Makes the ends of edges of the edges, each end once."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, edges: pa.RecordBatch) -> pa.RecordBatch | None:
        src, dst, by = (edges.column(name).to_numpy() for name in ("src", "dst", DIFF))
        ids, by = added_up_ids(np.concatenate((src, dst)), np.tile(by, 2))
        return batch_of(self._schema, ids, by) if len(ids) else None


def added_up_ids(
    ids: npt.NDArray[np.int64], by: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Each id once with the sum of its numbers, where that is not 0.

    >>> [each.tolist() for each in added_up_ids(np.array([7, 5, 7, 5, 9]), np.array([1, 2, -1, 1, 1]))]
    [[5, 9], [3, 1]]
    """
    if not len(ids):
        return ids, by
    least, greatest = int(ids.min()), int(ids.max())
    if greatest - least < _ADDRESSES_PER_END_MAX * len(ids):
        sums = np.zeros(greatest - least + 1, np.int64)
        np.add.at(sums, ids - least, by)
        at = np.flatnonzero(sums)
        return at + least, sums[at]
    known, place = np.unique(ids, return_inverse=True)
    sums = np.zeros(len(known), np.int64)
    np.add.at(sums, place, by)
    at = np.flatnonzero(sums)
    return known[at], sums[at]
