"""Strongly connected components.

Outside loops, with numbers for ids of other types, they are kept by an operator in arrays (``whole.parts``).
Otherwise they are a loop of tables.

Two vertices of one component have the same ancestors and the same descendants, so the least of each, too. A
link whose ends differ in one of these lies between two components and is left out; this is done again, with
the links that are left, until none goes. What is left connects components within themselves (forward and
backward search, Fleischer, Hendrickson and Pinar 2000, for all components at once). Each pass spreads labels,
which is a loop in the loop.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.edges import Counts, EdgeIndex
from pointstamp.graphs.arrays.slot_arrays import Ids, Slots, distinct, order_of
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.gathering import ByVertex, SlotEdges, gathered
from pointstamp.graphs.search_state import ByDistance, StartChanges, StepChanges, Ways
from pointstamp.graphs.weak_components import COMPONENT, by_least_id, least_label


def scc(graph: Graph) -> ps.Table:
    """Compute the strongly connected components.

    Returns:
        A table of ``id`` and ``component``, the least id of the component.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.scc(graph))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'component': [1, 1, 1]}

    """
    check_graph("scc", graph)
    if graph.needs_numbers:
        return by_least_id(graph, scc(graph.in_numbers), name="scc")
    if graph.is_for_arrays:
        answer = pa.schema([(ID, pa.int64()), (COMPONENT, pa.int64())])
        edges = graph.links.select(SRC, DST).named("scc: ends")
        return gathered(ByVertex(StrongParts()), answer, edges, graph.given, name="scc")
    links = graph.links.select(SRC, DST).filter(ps.col(SRC) != ps.col(DST)).distinct().named("scc: links")
    within = links.iterate(lambda left: _reversed(_within(_reversed(_within(left)))), name="scc")
    return least_label(graph.ids, within, name="scc: names")


def _within(links: ps.Table) -> ps.Table:
    """The links whose ends have the same least ancestor among these links."""
    ends = links.select(id=ps.col(SRC)).union(links.select(id=ps.col(DST))).distinct().named("scc: ends")
    least = least_label(ends, links, name="scc: ancestors")
    at_src = links.join(least, {SRC: ID}).named("scc: at source")
    same = at_src.join(least, {DST: ID}, where=ps.col(COMPONENT) == ps.col("component_right")).named(
        "scc: at target"
    )
    return same.select(SRC, DST)


def _reversed(links: ps.Table) -> ps.Table:
    return links.select(src=ps.col(DST), dst=ps.col(SRC))


# Strongly connected components of a changing graph, in arrays.
#
# Every component has a *root*. A vertex belongs to it as long as a way leads from the root to it and one
# leads back, inside the component. These are two searches (``ways``), which know what rests on an edge that
# goes: who is no longer reached by both leaves the component, and those who leave fall into components of
# their own, which are found from scratch, among them alone. Nobody who stays has a way through one who
# leaves: who is on a way between two of a component belongs to it.
#
# Edges that come between two components can make one of several. So the components and the edges between
# them, a graph that has no cycle before, are searched for components (this module).
# Of those that become one the largest keeps its root.
#
# A change costs the ways that it breaks, a pass over the vertices, and where an edge comes between two
# components, the edges between components.

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


# Strongly connected components of a graph in arrays, from scratch.
#
# Most of it goes in whole arrays: who has no edge to it, or none from it, is alone (*trimming*, McLendon et
# al. 2005), and the component of the vertex with most edges, which is often nearly everything, is what it
# leads to and what leads to it (forward and backward search, Fleischer, Hendrickson and Pinar 2000). This
# continues as long as it takes many edges away (Slota, Rajamanickam and Madduri 2014 have the same order of
# steps). What is left, small components and long paths, goes by Tarjan's one walk (1972), vertex by vertex.

Flags: TypeAlias = npt.NDArray[np.bool_]

_SHARE: Final = 8
"""Searches continue while they take away this fraction of the edges."""
_TRIMMED_SHARE: Final = 64
"""Trimming continues while it removes this fraction: the walk takes a hundred times as long for an edge."""
_FEW: Final = 2_048
_STEPS_MAX: Final = 64
"""Paths that are longer are walked vertex by vertex."""


def strong_components(count: int, src: Slots, dst: Slots) -> Slots:
    """Each vertex gets one vertex of its component, the same for all of it.

    >>> found = strong_components(5, np.array([0, 1, 2, 2, 4]), np.array([1, 2, 1, 3, 0]))
    >>> bool(found[1] == found[2]), len(set(found.tolist()))
    (True, 4)
    """
    component = np.arange(count)
    while True:
        edges = len(src)
        src, dst = _trimmed(count, src, dst)
        if len(src) > _FEW:
            found = _largest(count, src, dst)
            component[found] = found[0] if len(found) else 0
            is_left = np.ones(count, np.bool_)
            is_left[found] = False
            left = np.flatnonzero(is_left[src] & is_left[dst])
            src, dst = src[left], dst[left]
        if _SHARE * (edges - len(src)) <= edges or len(src) <= _FEW:
            break
    ends = np.flatnonzero(np.bincount(np.concatenate((src, dst)), minlength=count))
    component[ends] = ends[walked(len(ends), np.searchsorted(ends, src), np.searchsorted(ends, dst))]
    return component


def _trimmed(count: int, src: Slots, dst: Slots) -> tuple[Slots, Slots]:
    """The edges without those at vertices that no edge leads to or from, as long as there are many."""
    while len(src):
        is_left, is_led_to = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        is_left[src], is_led_to[dst] = True, True
        is_left &= is_led_to
        kept = np.flatnonzero(is_left[src] & is_left[dst])
        is_over = _TRIMMED_SHARE * (len(src) - len(kept)) <= len(src)
        src, dst = src[kept], dst[kept]
        if is_over:
            break
    return src, dst


def _largest(count: int, src: Slots, dst: Slots) -> Slots:
    """The component of the vertex with most edges, or nothing where paths are long."""
    begins, ends = np.bincount(src, minlength=count), np.bincount(dst, minlength=count)
    pivot = int(np.argmax(begins * ends))
    there = _reached(count, pivot, src, dst, begins)
    back = _reached(count, pivot, dst, src, ends) if there is not None else None
    return np.empty(0, np.intp) if there is None or back is None else np.flatnonzero(there & back)


def _reached(count: int, start: int, src: Slots, dst: Slots, sizes: Slots) -> Flags | None:
    """The vertices reachable from a vertex, itself included; None if that takes too many steps."""
    beyond = dst[order_of(src, count)]
    first = np.cumsum(sizes) - sizes
    is_reached = np.zeros(count, np.bool_)
    is_reached[start] = True
    going = np.array([start])
    for _ in range(_STEPS_MAX):
        lengths = sizes[going]
        at = np.arange(lengths.sum()) + np.repeat(first[going] - (np.cumsum(lengths) - lengths), lengths)
        is_next = np.zeros(count, np.bool_)
        is_next[beyond[at]] = True
        is_next &= ~is_reached
        is_reached |= is_next
        going = np.flatnonzero(is_next)
        if not len(going):
            return is_reached
    return None


def walked(count: int, src: Slots, dst: Slots) -> Slots:
    """Each vertex gets one vertex of its component, by Tarjan's walk, depth first."""
    first = np.concatenate(([0], np.cumsum(np.bincount(src, minlength=count)))).tolist()
    beyond = dst[order_of(src, max(count, 1))].tolist()
    at, ends = first[:-1], first[1:]
    # Numbers begin at 1, in the order in which vertices are met; a link is the least number that is reached.
    number, link, component = [0] * count, [0] * count, [-1] * count
    met: list[int] = []
    last = 0
    for start in range(count):
        walk = [] if number[start] else [start]
        while walk:
            vertex = walk[-1]
            if not number[vertex]:
                last += 1
                number[vertex] = link[vertex] = last
                met.append(vertex)
            if at[vertex] < ends[vertex]:
                other = beyond[at[vertex]]
                at[vertex] += 1
                if not number[other]:
                    walk.append(other)
                elif component[other] < 0:
                    link[vertex] = min(link[vertex], number[other])
                continue
            walk.pop()
            if link[vertex] == number[vertex]:
                while component[vertex] < 0:
                    component[met.pop()] = vertex
            elif walk:
                link[walk[-1]] = min(link[walk[-1]], link[vertex])
    return np.array(component, np.intp)
