"""All triangles of a complete graph at once.

Each edge becomes an arrow from the end with fewer neighbours to the one with more. Two arrows from one vertex
are a triangle if an arrow leads between their ends (Latapy 2008). No vertex has more arrows than the square
root of twice the edges, so a hub costs no more than others. Pairs of arrows are looked up in the order of the
vertex from which the third would lead, so that what is looked up one after the other lies close together.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_runs import Counts, Lengths
from pointstamp.graphs.arrays.slots import Slots, order_of, order_of_pairs

_PAIRS_MAX: Final = 1 << 20
"""So many pairs of arrows are looked up at a time, so that memory stays small beside the graph."""


def sides_of_corners(
    ends: tuple[Slots, Slots], counts: Lengths, is_mine: npt.NDArray[np.bool_], vertices: int
) -> Counts:
    """For each vertex the sum of what the sides count that are opposite to it in triangles.

    A triangle counts if the first of its arrows is mine: of all who share the edges among them, one finds it.
    """
    rank = np.empty(vertices, np.intp)
    degree = np.bincount(np.concatenate(ends), minlength=vertices)
    rank[order_of(degree, int(degree.max(initial=0)) + 1)] = np.arange(vertices)
    one, other = (rank[end] for end in ends)
    low, high = np.minimum(one, other), np.maximum(one, other)
    order = order_of_pairs(low, high)
    low, high, is_mine = low[order], high[order], is_mine[order]
    counts = counts[order].astype(np.int64)
    arrows = low * vertices + high
    last = np.cumsum(np.bincount(low, minlength=vertices))[low]
    firsts = order_of(high, vertices)
    found = np.zeros(vertices, np.int64)
    for first, second in _pairs(firsts[is_mine[firsts]], last):
        wanted = high[first] * vertices + high[second]
        third = np.searchsorted(arrows, wanted)
        closes = np.flatnonzero(arrows.take(third, mode="clip") == wanted)
        first, second, third = first[closes], second[closes], third[closes]
        np.add.at(found, low[first], counts[third])
        np.add.at(found, high[first], counts[second])
        np.add.at(found, high[second], counts[first])
    return found[rank]


def _pairs(firsts: Slots, last: Slots) -> Iterator[tuple[Slots, Slots]]:
    """Each of these arrows with every one that stands behind it and begins where it does, some at a time."""
    sizes = last[firsts] - firsts - 1
    work = np.cumsum(sizes)
    total = int(work[-1]) if len(work) else 0
    cuts = np.searchsorted(work, np.arange(_PAIRS_MAX, total, _PAIRS_MAX))
    for part in np.split(np.arange(len(firsts)), np.unique(cuts)):
        first = np.repeat(firsts[part], sizes[part])
        begun = np.cumsum(sizes[part]) - sizes[part]
        yield first, np.arange(len(first)) - np.repeat(begun, sizes[part]) + first + 1
