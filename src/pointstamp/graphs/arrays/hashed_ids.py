"""A hash table from sparse ids to slots, in arrays, with open addressing.

Many ids enter at once. Of those that want one place one has it, and the others continue to the next, further
away each time. Ids are never removed.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slots import Ids, Slots

_NONE: Final = -1
_PLACES_MIN: Final = 1_024


class HashedIds:
    """A map from ids to slots; changed by the vertex table that owns it."""

    def __init__(self) -> None:
        self._keys: Ids = np.empty(0, np.int64)
        self._places: Slots = np.empty(0, np.intp)

    def __len__(self) -> int:
        """How many places there are."""
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
