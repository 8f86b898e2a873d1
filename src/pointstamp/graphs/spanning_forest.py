"""The minimum spanning forest.

Boruvka (1926): every component of the forest so far takes the lightest edge that leaves it, until none does.
Edges are ordered by weight and then by their ends, so no two are equally light, and there is one answer.

Outside loops, with numbers in the order of ids for ids of other types, it is kept by an operator in arrays
(``whole.lightest``). Otherwise it is a loop of tables: components are found by spreading labels along the
forest, a loop in the loop, and their number halves each round.

Direction makes no difference; of edges that are there several times the lightest counts, and loops at
vertices never do.
"""

from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs.arrays.edges import Counts, EdgeIndex, Lengths
from pointstamp.graphs.arrays.slot_arrays import Ids, Slots, distinct
from pointstamp.graphs.edge_tables import DST, ID, SRC, WEIGHT, Graph, check_graph
from pointstamp.graphs.gathering import SlotEdges, WholeChange, WholeGraph, gathered
from pointstamp.graphs.union_find import jumped, least_of_components
from pointstamp.graphs.weak_components import COMPONENT, least_label


def minimum_spanning_forest(graph: Graph) -> ps.Table:
    """Compute the minimum spanning forest.

    Returns:
        A table of ``src``, ``dst`` and ``weight`` of the edges of the forest; ``src`` is the lesser end.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> edges = flow.table("edges", "src long, dst long, cost double")
        >>> graph = ps.graphs.Graph(edges, weight="cost", directed=False)
        >>> flow.output("out", ps.graphs.minimum_spanning_forest(graph))
        >>> edges = pa.table({"src": [1, 2, 1], "dst": [2, 3, 3], "cost": [1.0, 1.0, 5.0]})
        >>> flow.run(edges=edges).table("out").sort_by("src").to_pydict()
        {'src': [1, 2], 'dst': [2, 3], 'weight': [1.0, 1.0]}

    """
    check_graph("minimum_spanning_forest", graph)
    if graph.weight is None:
        raise FlowError(
            f"minimum_spanning_forest of {graph}: the edges have no weights. Name their column with "
            "Graph(..., weight='km')."
        )
    if graph.needs_numbers:
        checked = graph.checked(partial(_weighed_by, graph.weight), name="forest: weights are there")
        return checked.by_ordered_id(minimum_spanning_forest(checked.in_order), SRC, DST)
    pairs = (
        graph.pairs.select(SRC, DST, WEIGHT)
        .named("forest: pairs")
        .map_batches(_weighed)
        .named("forest: weights are there")
    )
    if graph.is_for_arrays:
        answer = pa.schema([pairs.schema.field(each).with_nullable(True) for each in (SRC, DST, WEIGHT)])
        algorithm = LightestForest(answer.field(WEIGHT).type.to_pandas_dtype())
        return gathered(algorithm, answer, pairs, None, name="forest")
    links = pairs.filter(ps.col(SRC) != ps.col(DST)).distinct().named("forest: links")
    with links.loop("forest") as loop:
        links, ids = loop.enter(links), loop.enter(graph.ids)
        forest = loop.variable(links.schema, "forest")
        grown = forest.union(_lightest(forest, links, ids)).distinct().named("forest: grown")
        loop.feedback(forest, grown)
        return loop.leave(grown)


def _weighed(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The pairs as they are, all of whose weights must be numbers."""
    return _weighed_by(WEIGHT, pairs)


def _weighed_by(weight: str, pairs: pa.RecordBatch) -> pa.RecordBatch:
    is_number = pc.equal(pairs.column(weight), pairs.column(weight))  # what is not a number equals nothing
    if not pc.all(pc.fill_null(is_number, False), min_count=0).as_py():
        first = pairs.filter(pc.invert(pc.fill_null(is_number, False))).slice(0, 1).to_pylist()[0]
        raise FlowError(
            f"minimum_spanning_forest: every edge needs a weight, but the edge between {first[SRC]!r} and "
            f"{first[DST]!r} has {first[weight]}. Filter such edges out, or give them a weight."
        )
    return pairs


def _lightest(forest: ps.Table, links: ps.Table, ids: ps.Table) -> ps.Table:
    """The lightest edge that leaves each component of the forest."""
    pairs = forest.select(SRC, DST)
    back = pairs.select(src=ps.col(DST), dst=ps.col(SRC))
    parts = least_label(ids, pairs.union(back), name="forest: components")
    at_src = links.join(parts, {SRC: ID}).named("forest: at one end")
    between = at_src.join(parts, {DST: ID}, where=ps.col(COMPONENT) != ps.col("component_right")).named(
        "forest: between"
    )
    leaving = between.select(COMPONENT, SRC, DST, WEIGHT).union(
        between.select(SRC, DST, WEIGHT, component=ps.col("component_right")).select(
            COMPONENT, SRC, DST, WEIGHT
        )
    )
    chosen = leaving.distinct(COMPONENT, by=[WEIGHT, SRC, DST]).named("forest: lightest")
    return chosen.select(SRC, DST, WEIGHT)


# The minimum spanning forest of a changing graph, in arrays.
#
# Edges are ordered by weight, and then by the ids of their ends, so no two are equally light, and there is
# one forest. It is found by Boruvka (1926): every component of the forest so far takes the lightest edge that
# leaves it, until none does.
#
# When edges go that were in the forest, it falls into pieces. An edge outside the forest closed a cycle of
# which it was the heaviest; so it can come into the forest only where that cycle is cut, and then it leads
# from one piece to another. The edges at all pieces but the largest of each tree are enough. When edges come,
# the new forest is that of the old one and these edges: no other edge becomes lighter. So a change costs a
# pass over the forest, and the edges of the pieces that were cut off.

Flags: TypeAlias = npt.NDArray[np.bool_]


class LightestForest:
    """The edges of the forest, lightest first, and all edges by both ends."""

    def __init__(self, weights: npt.DTypeLike) -> None:
        none = np.empty(0, np.intp)
        self._edges = EdgeIndex(weights)
        self._forest = SlotEdges(none, none, np.empty(0, weights))

    def changed(self, graph: WholeGraph, change: WholeChange) -> tuple[Ids, Ids, Lengths, Counts]:
        """The edges that leave the forest, with -1, and those that come into it, with 1."""
        ids = graph.vertices.ids
        for edges, by in ((change.gone, -1), (change.come, 1)):
            one, other, weight = edges.both_ways()
            self._edges.change(one, other, weight, np.full(len(one), by, np.int64))
        is_cut = _are_among(self._forest, change.gone, ids)
        left, cut = self._forest.take(~is_cut), self._forest.take(is_cut)
        come = _joined(change.come, self._between_pieces(cut, left, len(ids)))
        both, is_left = _merged(left, come, ids)
        is_in = lightest(len(ids), both.src, both.dst)
        self._forest = both.take(is_in)
        gone, new = _joined(cut, both.take(is_left & ~is_in)), both.take(~is_left & is_in)
        rows = _joined(gone, new)
        diff = np.repeat(np.array([-1, 1]), [len(gone.src), len(new.src)])
        return ids[rows.src], ids[rows.dst], rows.length, diff

    def _between_pieces(self, cut: SlotEdges, left: SlotEdges, count: int) -> SlotEdges:
        """The edges from piece to piece, found at all pieces but the largest of each tree that was cut."""
        if not len(cut.src):
            return cut
        piece = least_of_components(count, left.src, left.dst)
        pieces = distinct(count, piece[cut.src], piece[cut.dst])
        one, other = (np.searchsorted(pieces, piece[end]) for end in (cut.src, cut.dst))
        tree = least_of_components(len(pieces), one, other)
        order = np.lexsort((np.bincount(piece, minlength=count)[pieces], tree))
        is_largest = np.append(tree[order][1:] != tree[order][:-1], True)
        is_small = np.zeros(count, np.bool_)
        is_small[pieces[order[~is_largest]]] = True
        members = np.flatnonzero(is_small[piece])
        found = self._edges.of(members)
        src, dst = members[found.which], found.other
        is_first = ~is_small[piece[dst]] | (src < dst)  # an edge between two small pieces is found twice
        return SlotEdges(src, dst, found.length).take((piece[src] != piece[dst]) & is_first)


def lightest(count: int, one: Slots, other: Slots) -> Flags:
    """Return which edges are in the minimum spanning forest; edges are sorted by weight.

    >>> lightest(4, np.array([0, 1, 0, 2]), np.array([1, 2, 2, 3])).tolist()
    [True, True, False, True]
    """
    is_in = np.zeros(len(one), np.bool_)
    rows, own = np.arange(len(one)), np.arange(count)
    while len(rows):
        best = np.full(count, len(rows))
        for ends in (one, other):
            np.minimum.at(best, ends, np.arange(len(rows)))
        choosing = np.flatnonzero(best < len(rows))
        chosen = best[choosing]
        is_in[rows[chosen]] = True
        beyond = own.copy()
        beyond[choosing] = one[chosen] + other[chosen] - choosing
        # Two that have chosen the same edge would point to each other: the lesser stays.
        stays = (beyond[beyond] == own) & (own < beyond)
        beyond[stays] = own[stays]
        component = jumped(beyond)
        one, other = component[one], component[other]
        apart = np.flatnonzero(one != other)
        rows, one, other = rows[apart], one[apart], other[apart]
    return is_in


def _merged(forest: SlotEdges, come: SlotEdges, ids: Ids) -> tuple[SlotEdges, Flags]:
    """The edges of a forest, which are in order, and others, in order; and which are of the forest."""
    turned = ids[come.src] > ids[come.dst]
    src, dst = np.where(turned, come.dst, come.src), np.where(turned, come.src, come.dst)
    come = SlotEdges(src, dst, come.length).take(np.lexsort((ids[dst], ids[src], come.length)))
    places = _places(forest, come, ids)
    both = (np.insert(old, places, new) for old, new in zip(forest, come, strict=True))
    return SlotEdges(*both), np.insert(np.ones(len(forest.src), np.bool_), places, False)


def _are_among(forest: SlotEdges, edges: SlotEdges, ids: Ids) -> Flags:
    """The edges of a forest that are among others."""
    found = np.zeros(len(forest.src), np.bool_)
    places = _places(forest, edges, ids)
    inside = np.flatnonzero(places < len(found))
    places, edges = places[inside], edges.take(inside)
    same = [old[places] == new for old, new in zip(forest, edges, strict=True)]
    found[places[np.logical_and.reduce(same)]] = True
    return found


def _places(forest: SlotEdges, edges: SlotEdges, ids: Ids) -> Slots:
    """The number of sorted edges of a forest before each of these, by bisection."""
    low, high = np.zeros(len(edges.src), np.intp), np.full(len(edges.src), len(forest.src))
    src, dst = ids[edges.src], ids[edges.dst]
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        weight, wanted = forest.length[middle], edges.length[open_]
        from_, to = ids[forest.src[middle]], ids[forest.dst[middle]]
        is_less = (from_ < src[open_]) | ((from_ == src[open_]) & (to < dst[open_]))
        is_less = (weight < wanted) | ((weight == wanted) & is_less)
        low[open_[is_less]] = middle[is_less] + 1
        high[open_[~is_less]] = middle[~is_less]
        open_ = open_[low[open_] < high[open_]]
    return low


def _joined(one: SlotEdges, other: SlotEdges) -> SlotEdges:
    return SlotEdges(*map(np.concatenate, zip(one, other, strict=True)))
