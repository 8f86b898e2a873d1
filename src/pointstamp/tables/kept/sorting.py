"""The order of rows by several words of 64 bits, and which neighbours are equal in it.

What is sorted here is nearly sorted: two runs one behind the other, or the rows of keys that lie together. A
stable sort of one word passes over such rows about once, and a sort by two words passes over all of them for
each. So two words are packed into one where they fit, and what does not fit is looked at again.

Rows in no order at all are sorted by words into which their positions are packed: numbers are sorted in half
the time in which an order of them is found.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.keyed.index import KeyIndex
from pointstamp.rows.mixing import Hashes

Positions: TypeAlias = npt.NDArray[np.intp]

# For fewer rows one call costs less than several.
_PACKED_ROWS_MIN: Final = 2_048
_SWAPS_MAX: Final = 4
_FEW_ROWS_MAX: Final = 128


def in_order(words: Sequence[Hashes], *, is_merge: bool) -> tuple[Positions, npt.NDArray[np.bool_]]:
    """The order of rows by these words, and whether each row but the first has those of the one before."""
    # Sorted parts are merged in one pass by what is stable; for others it is slower.
    order = np.argsort(words[0], kind="stable") if is_merge else by_word(words[0])
    ranked = words[0][order]
    is_same = ranked[1:] == ranked[:-1]
    for word in words[1:]:
        if not is_same.any():
            break
        ranked = word[order]
        behind = is_same & (ranked[1:] < ranked[:-1])
        if behind.any():
            # Only what is equal so far, and out of order in this word, is sorted by it.
            group = np.concatenate(([0], np.cumsum(~is_same)))
            mixed = np.zeros(group[-1] + 1, np.bool_)
            mixed[group[1:][behind]] = True
            at = np.flatnonzero(mixed[group])
            rows = order[at]
            order[at] = rows[by_both(group[at], word[rows])]
            ranked = word[order]
        is_same &= ranked[1:] == ranked[:-1]
    return order, is_same


def by_word(word: Hashes) -> Positions:
    """The order of rows by a word.

    >>> by_word(np.array([9, 7, 8], np.uint64)).tolist()
    [1, 2, 0]
    """
    if len(word) < _PACKED_ROWS_MIN:
        return np.argsort(word)
    low = np.uint64((1 << (len(word) - 1).bit_length()) - 1)
    packed: Hashes = word & ~low
    packed |= np.arange(len(word), dtype=np.uint64)
    packed.sort()
    packed &= low
    order: Positions = packed.view(np.intp)
    # Words that differ only in what their positions have replaced are few, and stand side by side.
    for _ in range(_SWAPS_MAX):
        ranked = word[order]
        behind = np.flatnonzero(ranked[1:] < ranked[:-1])
        if not len(behind):
            return order
        apart = behind[np.append(True, behind[1:] > behind[:-1] + 1)]
        order[apart], order[apart + 1] = order[apart + 1], order[apart]
    return np.argsort(word)


def by_both(group: Positions, word: Hashes) -> Positions:
    """The order of rows by the number of their group and then by a word.

    >>> by_both(np.array([0, 0, 1, 1]), np.array([9, 7, 8, 2], np.uint64)).tolist()
    [1, 0, 3, 2]
    """
    if len(word) <= _FEW_ROWS_MAX:
        return np.lexsort((word, group))
    packed, is_exact = both_packed(group, word)
    order = np.argsort(packed, kind="stable")
    if not is_exact:
        ranked, words = packed[order], word[order]
        if ((ranked[1:] == ranked[:-1]) & (words[1:] < words[:-1])).any():
            return np.lexsort((word, group))
    return order


def both_packed(group: Positions, word: Hashes) -> tuple[Hashes, bool]:
    """A number of a group and a word as one word, in the order of both; whether nothing was left out."""
    if not len(word):
        return word, True
    room = 64 - int(group.max()).bit_length()
    least = word.min()
    too_long = max(0, int(word.max() - least).bit_length() - room)
    packed: Hashes = word - least
    packed >>= np.uint64(too_long)
    if room < 64:
        packed |= group.astype(np.uint64) << np.uint64(room)
    return packed, not too_long


def told_apart(
    rows: Callable[[Positions], pa.RecordBatch], order: Positions, is_same: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether each row but the first is that before it, where different rows have the same words.

    The order is changed among rows with the same words, so that those that are equal stand side by side.
    """
    block = np.concatenate(([0], np.cumsum(~is_same)))
    tied = np.flatnonzero(np.append(False, is_same) | np.append(is_same, False))
    theirs = order[tied]
    found = rows(theirs)
    slots = KeyIndex(found.schema).slots(found)
    inner = np.lexsort((slots, block[tied]))
    order[tied] = theirs[inner]
    slot_at = np.full(len(order), -1, np.int64)
    slot_at[tied] = slots[inner]
    return np.asarray(is_same & (slot_at[1:] == slot_at[:-1]))
