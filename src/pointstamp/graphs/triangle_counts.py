"""Triangle counts per vertex and in total.

Outside loops, with numbers for ids of other types, they are found by the operator of this module, from the
edges that change. Otherwise they are a join: each pair of neighbours is taken in one direction, from the one
with fewer neighbours to the one with more, and a triangle is a vertex from which two arrows lead and an arrow
between their ends (Latapy 2008). No vertex has more arrows than the square root of twice the edges, so a hub
costs no more than others; but all pairs of arrows are kept. Numbers of neighbours are compared by their
powers of two, and then by id: a vertex that gains or loses one seldom turns any arrow round.

Direction, loops at vertices and how often an edge is there make no difference (networkx, GraphFrames).
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp import functions
from pointstamp.graphs.arrays.edges import Counts, EdgeIndex, Lengths
from pointstamp.graphs.arrays.slot_arrays import (
    DIFF,
    Ids,
    Slots,
    added_up,
    arrays_of,
    batch_of,
    grown,
    order_of,
    order_of_pairs,
    table_of,
)
from pointstamp.graphs.arrays.vertices import VertexTable, added_up_ids
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph


def triangles(graph: Graph) -> ps.Table:
    """Count the triangles at each vertex.

    Returns:
        A table of ``id`` and ``triangles``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.triangles(graph))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'triangles': [1, 1, 1]}

    """
    check_graph("triangles", graph)
    if graph.needs_numbers:
        return graph.by_id(triangles(graph.in_numbers))
    alone = graph.ids.select(ID, sides=ps.lit(0, "long"))
    return _sides(graph).union(alone).group_by(ID).agg(triangles=ps.sum(SIDES)).named("triangles")


def triangle_count(graph: Graph) -> ps.Table:
    """Count the triangles of the graph.

    Returns:
        A table of one row with ``triangles``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.triangle_count(graph))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("triangles").to_pydict()
        {'triangles': [1]}

    """
    check_graph("triangle_count", graph)
    if graph.needs_numbers:
        return triangle_count(graph.in_numbers)
    counted = _sides(graph).agg(corners=ps.sum(SIDES)).named("triangle count")
    return counted.select(triangles=ps.functions.coalesce(ps.col("corners") / 3, ps.lit(0)).cast("long"))


def _sides(graph: Graph) -> ps.Table:
    """``id`` of each corner of a triangle, with 1 in ``sides`` for each."""
    if graph.is_for_arrays:
        pairs = graph.pairs.select(SRC, DST).filter(ps.col(SRC) < ps.col(DST)).named("triangles: ends")
        once = pairs.distinct().named("triangles: neighbours").select(SRC, DST, sides=ps.lit(1, "long"))
        found = corners(once, name="triangles").filter(ps.col("is_corner"))
        return found.select(ID, sides=ps.lit(1, "long"))
    return sides_in_join(graph.neighbours.select(SRC, DST, sides=ps.lit(1, "long")))


def sides_in_join(neighbours: ps.Table) -> ps.Table:
    """``id`` of each vertex that is a corner, with the ``sides`` opposite to it, as a join.

    Neighbors are in both directions, each pair once, without self-loops, with the same ``sides`` in either
    direction.
    """
    return _closed(_arrows(neighbours)).group_by(ID).agg(sides=ps.sum(SIDES)).named("triangles: at corners")


def _closed(arrows: ps.Table) -> ps.Table:
    """``id`` of each corner of each triangle, with the ``sides`` of the pair opposite to it."""
    ways = {"mid": ps.col(DST), "one": ps.col(SIDES)}, {"end": ps.col(DST), "two": ps.col(SIDES)}
    first, second = (arrows.select(SRC, **names).named("triangles: two arrows") for names in ways)
    wedges = first.join(second, SRC, where=ps.col("mid") < ps.col("end")).named("triangles: wedges")
    closing = arrows.select(
        mid=ps.functions.least(ps.col(SRC), ps.col(DST)),
        end=ps.functions.greatest(ps.col(SRC), ps.col(DST)),
        three=ps.col(SIDES),
    ).named("triangles: closing")
    found = wedges.join(closing, ["mid", "end"]).named("triangles: closed")
    at_src = found.select(id=ps.col(SRC), sides=ps.col("three"))
    at_mid = found.select(id=ps.col("mid"), sides=ps.col("two"))
    return at_src.union(at_mid).union(found.select(id=ps.col("end"), sides=ps.col("one")))


def _arrows(neighbours: ps.Table) -> ps.Table:
    """Each pair once, from the vertex with fewer neighbours to the one with more."""
    size = ps.functions.floor(ps.functions.log2(ps.col("count"))).cast("long")
    sizes = neighbours.count(SRC).named("triangles: degrees").select(id=ps.col(SRC), size=size)
    both = (
        neighbours.join(sizes, {SRC: ID})
        .named("triangles: of sources")
        .join(sizes, {DST: ID})
        .named("triangles: of targets")
    )
    less = (ps.col("size") == ps.col("size_right")) & (ps.col(SRC) < ps.col(DST))
    upward = both.filter((ps.col("size") < ps.col("size_right")) | less).named("triangles: arrows")
    return upward.select(SRC, DST, "sides")


# Triangle corners by the array operator, for integer ids.
#
# Every worker is told all edges that change, and keeps them all; each finds the triangles of the edges that
# are its own by their hash. So the work is shared, and nothing more has to be said. Every worker saves all
# edges, for where as many workers continue, each gets back what it has saved itself.

SIDES: Final = "sides"


def corners(edges: ps.Table, *, name: str) -> ps.Table:
    """``id`` of the ends of edges and of the corners of triangles, told apart by ``is_corner``.

    An end is here for each of its edges, and a corner as often as the ``sides`` opposite to it count in all.
    The edges are those of a simple graph, each pair once, with a column ``sides``, a number from 1 to 127.
    """
    changes = edges.changes().named(f"{name}: edges")
    return ps.Table(ps.operator(name, FindCorners(changes.schema), edges=changes.broadcast()))


class FindCorners:
    """Takes changes of edges, epoch by epoch, and sends which corners come and go."""

    keeps: ClassVar = (
        "all edges by both ends, in arrays, on every worker; a change costs the neighbours of its ends"
    )

    def __init__(self, edges: pa.Schema) -> None:
        self.outputs = pa.schema([(ID, pa.int64()), ("is_corner", pa.bool_()), edges.field(DIFF)])
        self._edges = pa.schema([edges.field(name).with_nullable(True) for name in edges.names])
        self._triads = Triads()
        self._waiting: dict[ps.timely.Time, list[pa.RecordBatch]] = {}
        self._worker, self._workers = 0, 1
        # What has changed since it was last saved, once it was.
        self._unsaved: list[pa.Table] | None = None

    def on_start(self, context: ps.ports.Context) -> None:
        """Begin without edges."""
        self._worker, self._workers = context.worker, context.workers

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep changes until their epoch is complete."""
        self._waiting.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """Make the changes of an epoch, and send the corners of the triangles that come and go with them."""
        table = table_of(self._edges, self._waiting.pop(context.time, []))
        changes, is_own = Changes(*arrays_of(table)), self._is_own(table)
        found = self._triads.change(changes, is_own)
        if self._unsaved is not None:
            self._unsaved.append(table)
        ends, by = np.concatenate((changes.src[is_own], changes.dst[is_own])), np.tile(changes.by[is_own], 2)
        for is_corner, (ids, times) in ((True, found), (False, added_up_ids(ends, by))):
            if len(ids):
                context.send(batch_of(context.schema(), ids, np.full(len(ids), is_corner), times))

    def save(self, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """All edges, or how they have changed."""
        assert not self._waiting, f"epochs {list(self._waiting)} are open at a snapshot"
        changes, self._unsaved = self._unsaved, []
        if changes_only and changes is not None:
            table = pa.concat_tables([self._edges.empty_table(), *changes])
            return {"edges": ps.ports.Piece(table, (), is_whole=False, adds_up=True)}
        src, dst, sides = self._triads.edges()
        edges = batch_of(self._edges, src, dst, sides, np.ones(len(src), np.int64))
        return {"edges": ps.ports.Piece(pa.Table.from_batches([edges]), (), adds_up=True)}

    def restore(self, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with all edges, which may have been saved by several workers."""
        self.on_start(context)
        src, dst, sides, _ = arrays_of(added_up(pieces["edges"]))
        self._triads.restore(Changes(src, dst, sides, np.ones(len(src), np.int64)))

    def _is_own(self, edges: pa.Table) -> np.typing.NDArray[np.bool_]:
        return np.asarray(ps.ports.saved.owners(edges, (SRC, DST), self._workers) == self._worker)


# Incremental triangles, found from the edges that change.
#
# A triangle comes or goes with one of its edges. So those that go are found before a change is made, from the
# edges that go, and those that come after it, from the edges that come: for each edge the neighbours of the
# end that has fewer of them, as far as they are beside the other end, too. So a hub costs what its neighbours
# have. A triangle of which several edges change is found from each of them, and counts where the vertex
# opposite to the edge is the least of those opposite to edges that change. A graph that is loaded into
# nothing is looked at as a whole (this module).
#
# It keeps all edges, each from both of its ends. It knows no times and no workers: it may be asked for the
# triangles of some of the edges, where others ask for the rest.

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


# All triangles of a complete graph at once.
#
# Each edge becomes an arrow from the end with fewer neighbours to the one with more. Two arrows from one
# vertex are a triangle if an arrow leads between their ends (Latapy 2008). No vertex has more arrows than the
# square root of twice the edges, so a hub costs no more than others. Pairs of arrows are looked up in the
# order of the vertex from which the third would lead, so that what is looked up one after the other lies
# close together.

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
    for first, second in _slot_pairs(firsts[is_mine[firsts]], last):
        wanted = high[first] * vertices + high[second]
        third = np.searchsorted(arrows, wanted)
        closes = np.flatnonzero(arrows.take(third, mode="clip") == wanted)
        first, second, third = first[closes], second[closes], third[closes]
        np.add.at(found, low[first], counts[third])
        np.add.at(found, high[first], counts[second])
        np.add.at(found, high[second], counts[first])
    return found[rank]


def _slot_pairs(firsts: Slots, last: Slots) -> Iterator[tuple[Slots, Slots]]:
    """Each of these arrows with every one that stands behind it and begins where it does, some at a time."""
    sizes = last[firsts] - firsts - 1
    work = np.cumsum(sizes)
    total = int(work[-1]) if len(work) else 0
    cuts = np.searchsorted(work, np.arange(_PAIRS_MAX, total, _PAIRS_MAX))
    for part in np.split(np.arange(len(firsts)), np.unique(cuts)):
        first = np.repeat(firsts[part], sizes[part])
        begun = np.cumsum(sizes[part]) - sizes[part]
        yield first, np.arange(len(first)) - np.repeat(begun, sizes[part]) + first + 1


# The local clustering coefficient of each vertex.
#
# LDBC Graphalytics' LCC: the neighbours of a vertex are those beside it in either direction, without itself;
# of n neighbours, n (n - 1) edges could lead from one to another, and those that are there count once each.
# Without directions each counts both ways. A vertex with fewer than two neighbours has 0.


def lcc(graph: Graph) -> ps.Table:
    """Compute the local clustering coefficient of each vertex.

    Returns:
        A table of ``id`` and ``coefficient``, from 0 to 1.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"), directed=False)
        >>> flow.output("out", ps.graphs.lcc(graph))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'coefficient': [1.0, 1.0, 1.0]}

    """
    check_graph("lcc", graph)
    if graph.needs_numbers:
        return graph.by_id(lcc(graph.in_numbers))
    found = _in_arrays(graph) if graph.is_for_arrays else _in_join(graph)
    alone = graph.ids.select(ID, edges=ps.lit(0, "long"), places=ps.lit(0, "long")).named(
        "lcc: of every vertex"
    )
    counted = found.union(alone).group_by(ID).agg(edges=ps.sum("edges"), places=ps.sum("places")).named("lcc")
    pairs = ps.col("places") * (ps.col("places") - 1)
    share = ps.functions.try_divide(ps.col("edges").cast("double"), pairs.cast("double"))
    return counted.select(ID, coefficient=ps.functions.coalesce(share, ps.lit(0.0)))


def _in_arrays(graph: Graph) -> ps.Table:
    """``id`` with 1 in ``edges`` for each edge among its neighbours, and in ``places`` for each of these."""
    links = ps.Table(graph.link_changes)
    if graph.directed:
        one_way = links.filter(ps.col(SRC) != ps.col(DST)).distinct().named("lcc: links")
        ends = {SRC: functions.least(SRC, DST), DST: functions.greatest(SRC, DST)}
        pairs = (
            one_way.select(**ends)
            .named("lcc: pairs")
            .group_by(SRC, DST)
            .agg(sides=ps.count())
            .named("lcc: neighbours")
        )
    else:
        there = links.filter(ps.col(SRC) < ps.col(DST)).distinct().named("lcc: neighbours")
        pairs = there.select(SRC, DST, sides=ps.lit(2, "long"))
    is_corner = ps.col("is_corner")
    return (
        corners(pairs, name="lcc: triangles")
        .select(ID, edges=is_corner.cast("long"), places=(~is_corner).cast("long"))
        .named("lcc: edges")
    )


def _in_join(graph: Graph) -> ps.Table:
    """``id`` with the number of ``edges`` among its neighbours, and 1 in ``places`` for each of these."""
    one_way = graph.links.select(SRC, DST).filter(ps.col(SRC) != ps.col(DST)).distinct().named("lcc: links")
    both_ways = one_way.union(one_way.select(src=ps.col(DST), dst=ps.col(SRC)))
    # In which directions a pair is connected: one or two. Of an undirected graph each is here twice.
    sides = both_ways.group_by(SRC, DST).agg(sides=ps.count()).named("lcc: neighbours")
    if not graph.directed:
        sides = sides.select(SRC, DST, sides=ps.lit(2, "long"))
    edges = sides_in_join(sides).select(ID, edges=ps.col("sides"), places=ps.lit(0, "long"))
    places = sides.select(id=ps.col(SRC), edges=ps.lit(0, "long"), places=ps.lit(1, "long"))
    return edges.union(places).named("lcc: edges")
