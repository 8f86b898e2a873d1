"""A complete graph in arrays, with counted edges and vertices.

Edges and vertices may be there several times. An edge *comes* when it is there for the first time, and *goes*
with the last; edges from a vertex to itself do neither, but they name it. A vertex is there while something
names it: an edge that ends at it, or that it was given. It knows no times and no workers.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_index import EdgeIndex
from pointstamp.graphs.arrays.edge_runs import Counts, Lengths
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable

_ROOM_MIN: Final = 1_024


class CountedEdges(NamedTuple):
    """Distinct edges by ids, with their multiplicities, or changes of them."""

    src: Ids
    dst: Ids
    length: Lengths
    by: Counts


class CountedVertices(NamedTuple):
    """Vertices, and how often they are given, or are to be given more."""

    ids: Ids
    by: Counts


class SlotEdges(NamedTuple):
    """Edges in slots, each once, without self-loops."""

    src: Slots
    dst: Slots
    length: Lengths

    def take(self, which: npt.NDArray[np.bool_] | Slots) -> "SlotEdges":
        """Some of them."""
        return SlotEdges(self.src[which], self.dst[which], self.length[which])

    def both_ways(self) -> tuple[Slots, Slots, Lengths]:
        """Each edge from either end."""
        src, dst = np.concatenate((self.src, self.dst)), np.concatenate((self.dst, self.src))
        return src, dst, np.tile(self.length, 2)


class WholeChange(NamedTuple):
    """The changes of a graph: deleted and inserted edges, and affected vertices."""

    gone: SlotEdges
    come: SlotEdges
    named: Slots


class WholeGraph:
    """All edges and vertices of a graph; changed by the operator that owns it."""

    def __init__(self, lengths: npt.DTypeLike) -> None:
        self.vertices: Final = VertexTable()
        self._edges = EdgeIndex(lengths)
        # How often a vertex is named, and how often it was given.
        self._named: Counts = np.zeros(_ROOM_MIN, np.int64)
        self._given: Counts = np.zeros(_ROOM_MIN, np.int64)

    def change(self, edges: CountedEdges, given: CountedVertices) -> WholeChange:
        """Add and take away edges and vertices."""
        src, dst, own = self._slots_of(edges.src, edges.dst, given.ids)
        before, after = self._edges.change(src, dst, edges.length, edges.by)
        np.add.at(self._given, own, given.by)
        for slots, by in ((src, edges.by), (dst, edges.by), (own, given.by)):
            np.add.at(self._named, slots, by)
        ends, between_two = SlotEdges(src, dst, edges.length), src != dst
        gone = ends.take((before > 0) & (after <= 0) & between_two)
        come = ends.take((before <= 0) & (after > 0) & between_two)
        return WholeChange(gone, come, distinct(self.vertices.count, src, dst, own))

    def are_there(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Whether each of these is a vertex of the graph now."""
        return np.asarray(self._named[slots] > 0)

    def edges(self) -> CountedEdges:
        """All edges."""
        src, dst, length, times = self._edges.rows()
        return CountedEdges(self.vertices.ids[src], self.vertices.ids[dst], length, times)

    def given(self) -> CountedVertices:
        """All vertices that were given."""
        slots = np.flatnonzero(self._given[: self.vertices.count])
        return CountedVertices(self.vertices.ids[slots], self._given[slots])

    def _slots_of(self, *columns: Ids) -> list[Slots]:
        before = self.vertices.count
        slots = self.vertices.slots_of(np.concatenate(columns))
        count = self.vertices.count
        if count > before:
            self._named, self._given = grown(self._named, before, count), grown(self._given, before, count)
            self._named[before:count] = self._given[before:count] = 0
        return np.split(slots, np.cumsum([len(each) for each in columns])[:-1])
