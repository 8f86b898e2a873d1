"""Compute vertex levels from their neighbors, in bulk.

A level is a shell and a round in it, in one number. Both questions are about neighbours in descending order:
how far down one can go until there are enough of them, or how far up until there are few enough.
"""

from typing import Final

import numpy as np

from pointstamp.graphs.arrays.edge_runs import Counts
from pointstamp.graphs.arrays.slots import Slots

SHELL_BITS: Final = 32
"""The bits of a round; above them are those of the shell."""


def _descending(count: int, which: Slots, values: Counts) -> tuple[Slots, Counts, Counts]:
    """The values of each, greatest first, with their places."""
    order = np.lexsort((-values, which))
    which, values = which[order], values[order]
    sizes = np.bincount(which, minlength=count)
    return which, values, np.arange(len(which)) - (np.cumsum(sizes) - sizes)[which]


def h_index(count: int, which: Slots, shells: Counts) -> Counts:
    """Of each the greatest h such that h of its neighbours are in shell h or above."""
    which, shells, place = _descending(count, which, shells)
    found = np.zeros(count, np.int64)
    np.maximum.at(found, which, np.minimum(shells, place + 1))
    return found


def lowest_place(count: int, which: Slots, levels: Counts) -> Counts:
    """The lowest level on which each has no more neighbours on it and above than the number of its shell."""
    which, levels, place = _descending(count, which, levels)
    found = np.bincount(which, minlength=count).astype(np.int64) << SHELL_BITS
    np.minimum.at(found, which, np.maximum(levels + 1, place << SHELL_BITS))
    return found
