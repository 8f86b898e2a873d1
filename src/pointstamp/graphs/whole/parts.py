"""Strongly connected components of a changing graph, in arrays.

Every component has a *root*. A vertex belongs to it as long as a way leads from the root to it and one leads
back, inside the component. These are two searches (``ways``), which know what rests on an edge that goes: who
is no longer reached by both leaves the component, and those who leave fall into components of their own,
which are found from scratch, among them alone. Nobody who stays has a way through one who leaves: who is on a
way between two of a component belongs to it.

Edges that come between two components can make one of several. So the components and the edges between them,
a graph that has no cycle before, are searched for components (``strong``). Of those that become one the
largest keeps its root.

A change costs the ways that it breaks, a pass over the vertices, and where an edge comes between two
components, the edges between components.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.graphs.arrays.edge_index import EdgeIndex
from pointstamp.graphs.arrays.edge_runs import Counts
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct
from pointstamp.graphs.paths.pace import ByDistance
from pointstamp.graphs.paths.step_changes import StartChanges, StepChanges
from pointstamp.graphs.paths.ways import Ways
from pointstamp.graphs.whole.counted import SlotEdges
from pointstamp.graphs.whole.strong import strong_components

_ID_MAX: Final = (1 << 63) - 1
_NO_SLOTS: Final[Slots] = np.empty(0, np.intp)


class StrongParts:
    """The root of each vertex, and the ways from it and back; changed by the operator that owns it."""

    def __init__(self) -> None:
        self._root: Slots = np.empty(0, np.intp)
        # The least id in the component of a root.
        self._least: Ids = np.empty(0, np.int64)
        self._from_root, self._to_root = (Ways(np.int64, np.int8, ByDistance()) for _ in range(2))
        self._between = EdgeIndex(np.int8)

    def of(self, slots: Slots) -> Counts:
        """The least id of the component of each."""
        return np.asarray(self._least[self._root[slots]])

    def change(self, vertices: npt.NDArray[np.int64], gone: SlotEdges, come: SlotEdges) -> Slots:
        """Take edges away and add others; return whose component has another name."""
        known, count = len(self._root), len(vertices)
        self._root, self._least = (
            np.append(self._root, np.arange(known, count)),
            np.append(self._least, vertices[known:]),
        )
        before = self._least[self._root]
        within = self._root[gone.src] == self._root[gone.dst]
        self._count_between(gone.take(~within), -1)
        parts = self._split(self._count_within(gone.take(within), -1))
        within = self._root[come.src] == self._root[come.dst]
        self._add_within(come.take(within))
        self._name(distinct(count, parts, self._merge(come.take(~within))), vertices)
        return np.flatnonzero(before != self._least[self._root])

    def _split(self, lost: Slots) -> Slots:
        """Let vertices leave their components, for some among themselves; return the roots of all these."""
        if not len(lost):
            return lost
        is_lost = np.zeros(len(self._root), np.bool_)
        is_lost[lost] = True
        edges = self._edges_at(lost, is_lost)
        self._count_within(edges, -1)
        among = edges.take(is_lost[edges.src] & is_lost[edges.dst])
        found = strong_components(len(lost), *(np.searchsorted(lost, end) for end in among[:2]))
        left, self._root[lost] = self._root[lost], lost[found]
        within = self._root[edges.src] == self._root[edges.dst]
        self._count_between(edges.take(~within), 1)
        self._count_within(edges.take(within), 1, begun=self._root[edges.src[within]])
        return np.concatenate((left, self._root[lost]))

    def _edges_at(self, lost: Slots, is_lost: npt.NDArray[np.bool_]) -> SlotEdges:
        """The edges inside components that lead from those who are lost or to them."""
        away, (to, back) = self._from_root.steps_from(lost), self._to_root.steps_from(lost)
        others = ~is_lost[back]  # the rest has been found from its other end
        src, dst = np.append(away[0], back[others]), np.append(away[1], to[others])
        return SlotEdges(src, dst, np.zeros(len(src), np.int8))

    def _merge(self, come: SlotEdges) -> Slots:
        """Add edges between components; return the roots of those that have become one of several."""
        if not len(come.src):
            return _NO_SLOTS
        count = len(self._root)
        src, dst, length, _ = self._between.rows()
        edges = SlotEdges(*map(np.concatenate, zip(come, (src, dst, length), strict=True)))
        ends = self._root[edges.src], self._root[edges.dst]
        parts, found = distinct(count, *ends), strong_components(count, *ends)
        group = found[parts]
        are_several = np.bincount(group, minlength=count)[group] > 1
        parts, group = parts[are_several], group[are_several]
        order = np.lexsort((np.bincount(self._root, minlength=count)[parts], group))
        heir = np.arange(count)
        # Of several that are written to one place the last stays: the largest.
        heir[group[order]] = parts[order]
        heirs = heir[group]
        onto = np.arange(count)
        onto[parts] = heirs
        self._root = onto[self._root]
        within = self._root[edges.src] == self._root[edges.dst]
        is_new = np.arange(len(within)) < len(come.src)
        self._count_between(edges.take(is_new & ~within), 1)
        self._count_between(edges.take(~is_new & within), -1)
        self._count_within(edges.take(within), 1, begun=heirs, ended=parts[parts != heirs])
        return heirs

    def _name(self, roots: Slots, ids: Ids) -> None:
        """Name components by the least of their vertices."""
        is_asked = np.zeros(len(self._root), np.bool_)
        is_asked[roots] = True
        members = np.flatnonzero(is_asked[self._root])
        self._least[roots] = _ID_MAX
        np.minimum.at(self._least, self._root[members], ids[members])

    def _count_between(self, edges: SlotEdges, by: int) -> None:
        self._between.change(*edges, np.full(len(edges.src), by, np.int64))

    def _add_within(self, edges: SlotEdges) -> None:
        """Add edges whose ends are in one component already, for which no way need become shorter."""
        by = np.ones(len(edges.src), np.int64)
        self._from_root.change_steps(StepChanges(*edges, by), passes_on=False)
        back = StepChanges(edges.dst, edges.src, edges.length, by)
        self._to_root.change_steps(back, passes_on=False)

    def _count_within(
        self, edges: SlotEdges, by: int, *, begun: Slots = _NO_SLOTS, ended: Slots = _NO_SLOTS
    ) -> Slots:
        """Add or take away edges inside components, with roots that begin and end; return who is lost."""
        roots = np.concatenate((distinct(len(self._root), begun), ended))
        signs = np.repeat(np.array([1, -1]), [len(roots) - len(ended), len(ended)])
        lost = []
        for ways, (src, dst) in (
            (self._from_root, (edges.src, edges.dst)),
            (self._to_root, (edges.dst, edges.src)),
        ):
            steps = StepChanges(src, dst, edges.length, np.full(len(src), by, np.int64))
            starts = StartChanges(roots, np.zeros(len(roots), np.int64), signs)
            ways.doubt(np.concatenate((ways.change_steps(steps), ways.change_starts(starts))))
            ways.relax(ways.begin_again())
            before, now = ways.take_changes()
            lost.append(np.setdiff1d(before.ids, now.ids))
        return distinct(len(self._root), *lost)
