"""Incremental triangles, found from the edges that change.

A triangle comes or goes with one of its edges. So those that go are found before a change is made, from the
edges that go, and those that come after it, from the edges that come: for each edge the neighbours of the end
that has fewer of them, as far as they are beside the other end, too. So a hub costs what its neighbours have.
A triangle of which several edges change is found from each of them, and counts where the vertex opposite to
the edge is the least of those opposite to edges that change. A graph that is loaded into nothing is looked at
as a whole (``arrows``).

It keeps all edges, each from both of its ends. It knows no times and no workers: it may be asked for the
triangles of some of the edges, where others ask for the rest.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_index import EdgeIndex
from pointstamp.graphs.arrays.edge_runs import Counts, Lengths
from pointstamp.graphs.arrays.slots import Ids, Slots, grown
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.patterns.arrows import sides_of_corners

_CANDIDATES_MAX: Final = 1 << 21
"""So many possible triangles are looked at at a time, so that memory stays small beside the graph."""


class Changes(NamedTuple):
    """Edges that come, with 1, or go, with -1; each once, and one whose count changes goes and comes."""

    src: Ids
    dst: Ids
    counts: Lengths
    by: Counts


class Sides(NamedTuple):
    """Edges in slots, and what each counts for who is opposite to it."""

    one: Slots
    other: Slots
    counts: Lengths


class Corners(NamedTuple):
    """Vertices of triangles, with the sum of what the sides opposite to them count."""

    ids: Ids
    sides: Counts


class Triads:
    """All edges of a graph, and the triangles that change with them; changed by its owner."""

    def __init__(self) -> None:
        self._vertices = VertexTable()
        self._edges = EdgeIndex(np.int8)
        self._degree: Counts = np.zeros(1_024, np.int64)

    def change(self, changes: Changes, is_mine: npt.NDArray[np.bool_]) -> Corners:
        """Make changes; return how corners change, of triangles that are found from an edge of mine."""
        sides, by = self._in_slots(changes), changes.by
        if not len(self._edges) and (by > 0).all():
            self._make(sides, by)
            count = self._vertices.count
            return self._at(sides_of_corners((sides.one, sides.other), sides.counts, is_mine, count))
        found = np.zeros(self._vertices.count, np.int64)
        gone, come = np.flatnonzero(by < 0), np.flatnonzero(by > 0)
        self._find(found, -1, _taken(sides, gone), is_mine[gone])
        self._make(sides, by)
        self._find(found, 1, _taken(sides, come), is_mine[come])
        return self._at(found)

    def _at(self, found: Counts) -> Corners:
        at = np.flatnonzero(found)
        return Corners(self._vertices.ids[at], found[at])

    def _make(self, sides: Sides, by: Counts) -> None:
        one, other, counts = sides
        ends, far, both = np.concatenate((one, other)), np.concatenate((other, one)), np.tile(by, 2)
        self._edges.change(ends, far, np.tile(counts, 2), both)
        np.add.at(self._degree, ends, both)

    def restore(self, edges: Changes) -> None:
        """Begin with these edges."""
        self._make(self._in_slots(edges), edges.by)

    def edges(self) -> tuple[Ids, Ids, Lengths]:
        """All edges, each once, the lesser id first."""
        one, other, counts, _ = self._edges.rows()
        src, dst = self._vertices.ids[one], self._vertices.ids[other]
        once = np.flatnonzero(src < dst)
        return src[once], dst[once], counts[once].astype(np.int64)

    def _find(self, found: Counts, sign: int, sides: Sides, is_mine: npt.NDArray[np.bool_]) -> None:
        """Add the corners of all triangles with one of these sides, where the one that counts is mine."""
        changed = np.sort(_pairs(sides.one, sides.other))
        ids, all_changed = self._vertices.ids, 2 * len(changed) == len(self._edges)
        for part in self._parts(_taken(sides, np.flatnonzero(is_mine))):
            few = np.where(self._degree[part.one] <= self._degree[part.other], part.one, part.other)
            beside = self._edges.of(few)
            which, third = beside.which, beside.other
            few, far = few[which], (part.one + part.other - few)[which]
            counts_here = third != far
            for end, opposite in ((few, far), (far, few)):
                counts_elsewhere = ids[opposite] < ids[third]
                if not all_changed:
                    counts_elsewhere &= _is_in(changed, _pairs(end, third))
                counts_here &= ~counts_elsewhere
            at = np.flatnonzero(counts_here)
            closing = self._edges.lengths(far[at], third[at])
            at, closing = at[closing > 0], closing[closing > 0]
            np.add.at(found, third[at], sign * part.counts[which[at]].astype(np.int64))
            np.add.at(found, far[at], sign * beside.length[at].astype(np.int64))
            np.add.at(found, few[at], sign * closing.astype(np.int64))

    def _parts(self, sides: Sides) -> Iterator[Sides]:
        """The sides in parts that have not too many possible triangles."""
        work = np.cumsum(np.minimum(self._degree[sides.one], self._degree[sides.other]))
        if len(work):
            cuts = np.searchsorted(work, np.arange(_CANDIDATES_MAX, int(work[-1]), _CANDIDATES_MAX))
            for part in np.split(np.arange(len(work)), np.unique(cuts)):
                yield _taken(sides, part)

    def _in_slots(self, changes: Changes) -> Sides:
        before = self._vertices.count
        slots = self._vertices.slots_of(np.concatenate((changes.src, changes.dst)))
        count = self._vertices.count
        if count > before:
            self._degree = grown(self._degree, before, count)
            self._degree[before:count] = 0
        one, other = np.split(slots, 2)
        return Sides(one, other, changes.counts.astype(np.int8))


def _taken(sides: Sides, places: Slots) -> Sides:
    return Sides(*(column[places] for column in sides))


def _pairs(one: Slots, other: Slots) -> npt.NDArray[np.int64]:
    return (np.minimum(one, other).astype(np.int64) << 32) | np.maximum(one, other)


def _is_in(ordered: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    at = np.searchsorted(ordered, values)
    at[at == len(ordered)] = 0
    return np.asarray(ordered[at] == values) if len(ordered) else np.zeros(len(values), np.bool_)
