"""An index of edges by one end, in arrays, updated in batches.

Rows lie in two runs, each in the order of (vertex, other end, length): a large one, and a small one of what
came since. A change finds its row by bisection and counts it up or down where it stands; a row that is new
goes to the small run, which is merged into the large one when it has grown. Rows that are counted down to
nothing stay until then, and are passed over.

A change costs its rows times a logarithm, and the small run; what is asked costs the answer. It knows slots
and no ids.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.slot_arrays import Slots, order_of_pairs

_SMALL_RUN_MAX: Final = 4_096
_SMALL_RUN_SHARE: Final = 8
"""A small run may have this fraction of the rows of the large one, so that merging is rare."""


# Sorted runs of edges as columns: build, merge and search them.
#
# A run is never changed but in how often its rows are there, which this module
# counts. Rows that are there no more are passed over, and left out where two runs are merged.

Lengths: TypeAlias = npt.NDArray[Any]
"""Integers or floats, as the graph has them."""
Counts: TypeAlias = npt.NDArray[np.int64]


_BITS: Final = np.int64(32)
_LOW: Final = np.int64((1 << 32) - 1)


class EdgeRun(NamedTuple):
    """Rows in the order of (vertex, other end, length)."""

    pair: npt.NDArray[np.int64]
    """Vertex and other end in one number."""
    length: Lengths
    times: Counts
    """The multiplicity of each edge."""


class FoundEdges(NamedTuple):
    """Rows of some vertices: which vertex each belongs to, by its place in the question."""

    which: Slots
    other: Slots
    length: Lengths


def paired(vertex: Slots, other: Slots) -> npt.NDArray[np.int64]:
    """Vertex and other end in one number each."""
    return (vertex.astype(np.int64) << _BITS) | other


def ends_of(pair: npt.NDArray[np.int64]) -> tuple[Slots, Slots]:
    """The vertex and the other end of each."""
    return (pair >> _BITS).astype(np.intp), (pair & _LOW).astype(np.intp)


def no_edges(kind: npt.DTypeLike) -> EdgeRun:
    """A run without rows, for lengths of a kind."""
    return EdgeRun(np.empty(0, np.int64), np.empty(0, kind), np.empty(0, np.int64))


def merged_runs(one: EdgeRun, other: EdgeRun) -> EdgeRun:
    """Return the merged rows of both, in order, without cancelled ones."""
    pair, length, count = map(np.concatenate, zip(one, other, strict=True))
    there = np.flatnonzero(count)
    # Both parts are in order, and this merges them in one pass.
    order = np.argsort(pair[there], kind="stable")
    return _sorted(EdgeRun(pair[there], length[there], count[there]), order)


def laid_in_order(rows: EdgeRun) -> EdgeRun:
    """Rows that are in no order, in order."""
    vertex, other = rows.pair >> _BITS, rows.pair & _LOW
    return _sorted(rows, order_of_pairs(vertex, other))


def _sorted(rows: EdgeRun, order: Slots) -> EdgeRun:
    """The rows in an order in which only those between the same two may be out of order."""
    pair, length, count = rows.pair[order], rows.length[order], rows.times[order]
    if (pair[1:] == pair[:-1]).any():
        order = np.lexsort((length, pair))
        pair, length, count = pair[order], length[order], count[order]
    return EdgeRun(pair, length, count)


def places_in(run: EdgeRun, pair: npt.NDArray[np.int64], length: Lengths) -> tuple[Slots, Slots]:
    """Return which of these edges the run contains, and their positions."""
    low, high = np.searchsorted(run.pair, pair), np.searchsorted(run.pair, pair, "right")
    rows = np.flatnonzero(low < high)
    low, high, wanted = low[rows], high[rows], length[rows]
    # Edges between the same two vertices are in the order of their lengths.
    while len(low) and int((high - low).max()) > 1:
        middle = (low + high) >> 1
        is_later = wanted >= run.length[middle]
        low, high = np.where(is_later, middle, low), np.where(is_later, high, middle)
    same = np.flatnonzero(run.length[low] == wanted)
    return rows[same], low[same]


def edges_of(run: EdgeRun, vertices: npt.NDArray[np.int64]) -> FoundEdges:
    """Return the rows of these vertices."""
    begin, end = (
        np.searchsorted(run.pair, vertices << _BITS),
        np.searchsorted(run.pair, (vertices + 1) << _BITS),
    )
    sizes = end - begin
    which = np.repeat(np.arange(len(vertices)), sizes)
    firsts = np.cumsum(sizes) - sizes
    at = np.arange(len(which)) + np.repeat(begin - firsts, sizes)
    is_there = run.times[at] > 0
    if not is_there.all():
        which, at = which[is_there], at[is_there]
    return FoundEdges(which, (run.pair[at] & _LOW).astype(np.intp), run.length[at])


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
        """All edges: vertex, other end, length and multiplicity."""
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
