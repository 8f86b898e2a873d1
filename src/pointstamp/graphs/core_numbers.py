"""Core numbers: the greatest k for which a vertex belongs to the k-core.

Outside loops, with numbers for ids of other types, they are kept by an operator in arrays (``whole.shells``).
Otherwise they are a loop of tables.

A vertex is in a k-core if k of its neighbours are. So its number is the greatest k such that k neighbours
have k or more: the h-index of theirs (Lu, Zhou, Zhang and Stanley 2016). Beginning with degrees and taking
the h-index again and again, numbers only fall, and where none falls they are the core numbers.

Direction, loops at vertices and how often an edge is there make no difference (networkx's core_number).
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.edges import Counts, EdgeIndex
from pointstamp.graphs.arrays.slot_arrays import Slots, distinct, grown
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.gathering import ByVertex, SlotEdges, gathered


def k_core(graph: Graph) -> ps.Table:
    """Compute the core number of each vertex.

    Returns:
        A table of ``id`` and ``core``; 0 for a vertex without neighbors.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.k_core(graph))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'core': [2, 2, 2]}

    """
    check_graph("k_core", graph)
    if graph.needs_numbers:
        return graph.by_id(k_core(graph.in_numbers))
    if graph.is_for_arrays:
        answer = pa.schema([(ID, pa.int64()), ("core", pa.int64())])
        pairs = graph.pairs.select(SRC, DST).named("k-core: pairs")
        return gathered(ByVertex(Shells()), answer, pairs, graph.given, name="k-core")
    neighbours = graph.neighbours
    degrees = (
        neighbours.group_by(SRC)
        .agg(core=ps.count())
        .named("k-core: degrees")
        .select(id=ps.col(SRC), core=ps.col("core"))
    )
    cores = degrees.iterate(_h_index, neighbours, name="k-core")
    alone = graph.ids.select(ID, core=ps.lit(0, "long"))
    return cores.union(alone).group_by(ID).agg(core=ps.max("core")).named("k-core: of every vertex")


def _h_index(cores: ps.Table, neighbours: ps.Table) -> ps.Table:
    """The greatest h of each vertex such that h neighbours have h or more."""
    theirs = neighbours.join(cores, {DST: ID}).named("k-core: of neighbours").select(SRC, DST, "core")
    placed = theirs.with_columns(place=ps.row_number().over(partition_by=SRC, order_by="core desc")).named(
        "k-core: in order"
    )
    enough = placed.filter(ps.col("core") >= ps.col("place"))
    return (
        enough.group_by(SRC)
        .agg(core=ps.count())
        .named("k-core: h-index")
        .select(id=ps.col(SRC), core=ps.col("core"))
    )


# Core numbers of a changing graph, by its peeling order.
#
# Peeling takes away, round by round, who has at most k neighbours left, and then continues with a greater k.
# The *level* of a vertex is its core number, the *shell*, and in it the round in which it went. Two things
# prove that all numbers are right (Zhang, Yu, Zhang and Qin 2017 keep an order of vertices, where this keeps
# rounds):
#
# - *not too low*: no vertex has more neighbors on its own level and above than its number;
# - *not too high*: every vertex has as many neighbors in its shell and above as its number.
#
# When edges go, who is too high *falls* into the shell that its neighbours allow (their h-index: Lu, Zhou,
# Zhang and Stanley 2016), behind all rounds that this shell has. When edges come, who is too low *climbs* to
# the lowest level on which it is not. Neighbours can drive each other into a shell that is too high; those
# fall again. A change costs those that climb and fall, and their neighbours.

# Compute vertex levels from their neighbors, in bulk.
#
# A level is a shell and a round in it, in one number. Both questions are about neighbours in descending
# order: how far down one can go until there are enough of them, or how far up until there are few enough.

SHELL_BITS: Final = 32
"""The bits of a round; above them are those of the shell."""


def _descending(count: int, which: Slots, values: Counts) -> tuple[Slots, Counts, Counts]:
    """The values of each, greatest first, with their places."""
    order = np.lexsort((-values, which))
    which, values = which[order], values[order]
    sizes = np.bincount(which, minlength=count)
    return which, values, np.arange(len(which)) - (np.cumsum(sizes) - sizes)[which]


def h_index(count: int, which: Slots, shells: Counts) -> Counts:
    """The greatest h of each vertex such that h of its neighbours are in shell h or above."""
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


_ROUND: Final = (1 << SHELL_BITS) - 1
_CLIMBS_MAX: Final = 8
"""The number of climbs after which a vertex moves to the next shell at once."""
_LOAD_SHARE: Final = 4
"""All vertices are peeled again if more than one in this many edges is inserted."""


class Shells:
    """The neighbours and the level of each vertex; changed by the operator that owns it."""

    def __init__(self) -> None:
        self._beside = EdgeIndex(np.int8)
        self._level: Counts = np.zeros(0, np.int64)
        # How many rounds a shell has, by its number.
        self._rounds: Counts = np.zeros(1, np.int64)
        self._pairs = 0

    def of(self, slots: Slots) -> Counts:
        """The core numbers of these."""
        return np.asarray(self._level[slots] >> SHELL_BITS)

    def change(self, vertices: npt.NDArray[np.int64], gone: SlotEdges, come: SlotEdges) -> Slots:
        """Take edges away and add others; return who has moved."""
        count, known = len(vertices), len(self._level)
        self._level = grown(self._level, known, count)
        self._level[known:] = 0
        self._pairs += len(come.src) - len(gone.src)
        self._count(gone, -1)
        if _LOAD_SHARE * len(come.src) > self._pairs:
            self._count(come, 1)
            self._peel(count)
            return np.arange(count)
        fallen = self._fall(distinct(count, gone.src, gone.dst))
        self._count(come, 1)
        climbed, risen = self._climb(distinct(count, come.src, come.dst))
        return np.concatenate((fallen, climbed, self._fall(risen)))

    def _count(self, edges: SlotEdges, by: int) -> None:
        one, other, length = edges.both_ways()
        self._beside.change(one, other, length, np.full(len(one), by, np.int64))

    def _peel(self, count: int) -> None:
        """Peel the complete graph."""
        one, _, _, _ = self._beside.rows()
        left = np.bincount(one, minlength=count)
        is_there, there = np.ones(count, np.bool_), np.arange(count)
        self._rounds[:] = 0
        shell = 0
        while len(there):
            shell = max(shell, int(left[there].min()))
            going, rounds = there[left[there] <= shell], 0
            while len(going):
                rounds += 1
                self._level[going] = (shell << SHELL_BITS) | rounds
                is_there[going] = False
                other = self._beside.of(going).other
                other = other[is_there[other]]
                np.subtract.at(left, other, 1)
                going = distinct(count, other[left[other] <= shell])
            self._reserve(shell)
            self._rounds[shell] = rounds
            there = there[is_there[there]]

    def _fall(self, suspects: Slots) -> Slots:
        """Lower all vertices that are too high, repeatedly; return them."""
        fallen = [suspects[:0]]
        rounds = self._rounds.copy()
        while len(suspects):
            beside = self._beside.of(suspects)
            own, theirs = self.of(suspects), self.of(beside.other)
            with_me = np.bincount(beside.which[theirs >= own[beside.which]], minlength=len(suspects))
            is_high = with_me < own
            high, kept = suspects[is_high], is_high[beside.which]
            which, theirs = (np.cumsum(is_high) - 1)[beside.which[kept]], theirs[kept]
            shell = h_index(len(high), which, theirs)
            rounds[distinct(len(rounds), shell)] += 1
            self._level[high] = (shell << SHELL_BITS) | rounds[shell]
            fallen.append(high)
            lost = beside.other[kept][(theirs > shell[which]) & (theirs <= own[is_high][which])]
            suspects = distinct(len(self._level), high, lost)
        self._rounds = rounds
        return np.concatenate(fallen)

    def _climb(self, suspects: Slots) -> tuple[Slots, Slots]:
        """Raise all vertices that are too low, repeatedly; return them, and those in another shell."""
        climbed, risen, turn = [suspects[:0]], [suspects[:0]], 0
        while len(suspects):
            beside = self._beside.of(suspects)
            own, theirs = self._level[suspects], self._level[beside.other]
            above = np.bincount(beside.which[theirs >= own[beside.which]], minlength=len(suspects))
            is_low = above > own >> SHELL_BITS
            low, kept = suspects[is_low], is_low[beside.which]
            which, other, theirs = (
                (np.cumsum(is_low) - 1)[beside.which[kept]],
                beside.other[kept],
                theirs[kept],
            )
            level = lowest_place(len(low), which, theirs)
            shell = level >> SHELL_BITS
            self._reserve(int(shell.max(initial=0)) + 1)
            is_past = ((level & _ROUND) > self._rounds[shell]) | (turn >= _CLIMBS_MAX)
            level[is_past] = (shell[is_past] + 1) << SHELL_BITS
            self._level[low] = level
            climbed.append(low)
            risen.append(low[level >> SHELL_BITS > own[is_low] >> SHELL_BITS])
            passed = other[(theirs > own[is_low][which]) & (theirs <= level[which])]
            suspects = distinct(len(self._level), low, passed)
            turn += 1
        return np.concatenate(climbed), distinct(len(self._level), *risen)

    def _reserve(self, shell: int) -> None:
        known = len(self._rounds)
        if shell >= known:
            self._rounds = np.concatenate((self._rounds, np.zeros(shell + 1, np.int64)))
