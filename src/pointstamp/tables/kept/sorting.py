"""Positions of rows, and rows with equal words told apart.

The order of rows by words is worked out by ``pointstamp.arrow.runs``; a tie is a place in it where a row has
all words of the one before it. Nearly always these rows are equal.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.keyed.index import KeyIndex

Positions: TypeAlias = npt.NDArray[np.intp]


def told_apart(rows: Callable[[Positions], pa.RecordBatch], order: Positions, ties: Positions) -> Positions:
    """Those of the ties at which a row equals the one before it, where different rows have the same words.

    The order is changed among rows with the same words, so that those that are equal stand side by side.
    """
    is_tie = np.zeros(len(order) + 1, np.bool_)
    is_tie[ties] = True
    block = np.cumsum(~is_tie[:-1])
    tied = np.flatnonzero(is_tie[:-1] | is_tie[1:])
    theirs = order[tied]
    found = rows(theirs)
    slots = KeyIndex(found.schema).slots(found)
    inner = np.lexsort((slots, block[tied]))
    order[tied] = theirs[inner]
    slot_at = np.full(len(order), -1, np.int64)
    slot_at[tied] = slots[inner]
    same: Positions = ties[slot_at[ties] == slot_at[ties - 1]]
    return same
