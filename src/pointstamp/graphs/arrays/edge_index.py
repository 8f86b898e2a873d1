"""An index of edges by one end, in arrays, updated in batches.

Rows lie in two runs, each in the order of (vertex, other end, length): a large one, and a small one of what
came since. A change finds its row by bisection and counts it up or down where it stands; a row that is new
goes to the small run, which is merged into the large one when it has grown. Rows that are counted down to
nothing stay until then, and are passed over.

A change costs its rows times a logarithm, and the small run; what is asked costs the answer. It knows slots
and no ids.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_runs import (
    Counts,
    EdgeRun,
    FoundEdges,
    Lengths,
    edges_of,
    ends_of,
    laid_in_order,
    merged_runs,
    no_edges,
    paired,
    places_in,
)
from pointstamp.graphs.arrays.slots import Slots

_SMALL_RUN_MAX: Final = 4_096
_SMALL_RUN_SHARE: Final = 8
"""A small run may have this fraction of the rows of the large one, so that merging is rare."""


class EdgeIndex:
    """Multiplicities of edges by one end vertex; changed by its owner."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._runs = [no_edges(kind), no_edges(kind)]

    def change(self, vertex: Slots, other: Slots, length: Lengths, by: Counts) -> tuple[Counts, Counts]:
        """Count edges up and down; no edge twice. Return how often each was there before, and is now."""
        pair = paired(vertex, other)
        before = np.zeros(len(pair), np.int64)
        is_new = np.ones(len(pair), np.bool_)
        for run in self._runs:
            rows, place = places_in(run, pair, length)
            before[rows] = run.times[place]
            run.times[place] += by[rows]
            is_new[rows] = False
        new = np.flatnonzero(is_new)
        if len(new):
            self._insert(EdgeRun(pair[new], length[new], by[new]))
        return before, before + by

    def of(self, vertices: Slots) -> FoundEdges:
        """Return the distinct edges of these vertices."""
        large, small = self._runs
        found = edges_of(large, vertices.astype(np.int64))
        if not len(small.pair):
            return found
        more = edges_of(small, vertices.astype(np.int64))
        return FoundEdges(*map(np.concatenate, zip(found, more, strict=True))) if len(more.which) else found

    def lengths(self, vertex: Slots, other: Slots) -> Lengths:
        """The length of one edge between each two vertices, 0 where there is none."""
        pair = paired(vertex, other)
        lengths = np.zeros(len(pair), self._runs[0].length.dtype)
        for run in self._runs:
            if not len(run.pair):
                continue
            at = np.searchsorted(run.pair, pair)
            waiting = np.arange(len(pair))
            while len(waiting):
                at = np.minimum(at, len(run.pair) - 1)
                same = run.pair[at] == pair[waiting]
                is_there = same & (run.times[at] > 0)
                lengths[waiting[is_there]] = run.length[at[is_there]]
                further = same & ~is_there & (at + 1 < len(run.pair))
                waiting, at = waiting[further], at[further] + 1
        return lengths

    def __len__(self) -> int:
        return int(sum(np.count_nonzero(run.times) for run in self._runs))

    def rows(self) -> tuple[Slots, Slots, Lengths, Counts]:
        """Everything: vertex, other end, length and how often."""
        pair, length, count = map(np.concatenate, zip(*self._runs, strict=True))
        at = np.flatnonzero(count)
        return *ends_of(pair[at]), length[at], count[at]

    def _insert(self, new: EdgeRun) -> None:
        large, small = self._runs
        small = merged_runs(small, new) if len(small.pair) else laid_in_order(new)
        if len(small.pair) > max(_SMALL_RUN_MAX, len(large.pair) // _SMALL_RUN_SHARE):
            large = merged_runs(large, small) if len(large.pair) else small
            small = no_edges(large.length.dtype)
        self._runs = [large, small]
