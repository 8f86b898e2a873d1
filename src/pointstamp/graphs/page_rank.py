"""Incremental PageRank: the changed ranks of each epoch.

    graph = graphs.Graph(flow.table("edges", "src long, dst long, w long", weight="w"))
    flow.output("ranks", graphs.pagerank(graph))                   # id, rank double

The ranks p of Brin and Page (1998) solve p = b + d A p, where b is the *reset*, 1 for every vertex, d the
*damping*, and A p shares the rank of a vertex out evenly among its links. For any other p the *residual* r =
b + d A p - p says what is missing. A change of some links changes r at the targets of their sources, and
nowhere else. So nothing starts over: ranks stay as they are, and residuals are pushed along the links until
none exceeds the tolerance t (this module; Gauss-Southwell, as in Andersen, Chung and Lang 2006).

Why that is enough: the exact ranks x differ from p by e = x - p, and e = d A e + r. So e is the sum of (d
A)^k r over all k. No entry of A is negative, so from -t b <= r <= t b it follows that e lies between the sums
of -t (d A)^k b and t (d A)^k b, which are -t x and t x. **Every rank p(v) is within t x(v) of the exact one:
the tolerance is relative, at each vertex.** Scaling ranks to a sum at most doubles it. Shares are rounded to
units of t / 2^20 or less, which adds half a unit for each link that comes in, and vertices with more than
2^19 (1 - d) links are pushed later; so t holds for up to some 10^5 links at a vertex, and grows with their
number beyond that. Ranks are whole numbers of these units until they are scaled at the very end: they depend
on the epochs so far alone, and on no schedule, crash or number of workers.

What becomes of a vertex without links, of which nothing continues? In Graphalytics, networkx and igraph its
rank is spread over all vertices, as the reset is. That multiplies all ranks by one number, for b is
multiplied by it, so those ranks are these, scaled to a sum of one. GraphX and GraphFrames scale to a sum of
the number of vertices. Where all ranks are scaled, all change with each; ``sums_to=None`` leaves them as the
formula of Brin and Page has them, (1 - d) + d A p, and then a change is told where it matters and nowhere
else.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp import Stream, Table, col, count, operator, when
from pointstamp import sum as sum_of
from pointstamp.errors import FlowError
from pointstamp.graphs.arrays.links import Links, Numbers, OutLinks, added_up
from pointstamp.graphs.arrays.slot_arrays import DIFF, Slots, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.edge_tables import Graph, check_graph
from pointstamp.graphs.validation import Key
from pointstamp.ports import Context, Piece

SumsTo = Literal["one", "vertices"] | None

_COUNTS: Final = pa.schema([(DIFF, pa.int64())])


def pagerank(
    graph: Graph, *, damping: float = 0.85, tolerance: float = 1e-4, sums_to: SumsTo = "one"
) -> Table:
    """Compute the PageRank of each vertex.

    A duplicate edge counts twice, and a self-loop counts.

    Args:
        graph: The graph.
        damping (float, default 0.85): The damping factor.
        tolerance (float, default 0.0001): The maximum relative error of each rank.
        sums_to (str, default "one"): ``"one"`` scales ranks as networkx and igraph do, ``"vertices"`` as
            GraphFrames does. With None a rank is ``(1 - damping) + damping * incoming``, and a change updates
            only the ranks that change.

    Returns:
        A table of ``id`` and ``rank``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.pagerank(graph).select("id", rank=F.round("rank", 2)))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'rank': [0.33, 0.33, 0.33]}

    """
    check_graph("pagerank", graph)
    ranks = _pushed("pagerank", graph, None, damping, tolerance)
    return _scaled("pagerank", ranks, damping, tolerance, sums_to)


def personalised_pagerank(
    graph: Graph,
    sources: Table | Iterable[Key] | Key,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    sums_to: SumsTo = "one",
) -> Table:
    """Compute the personalized PageRank of each vertex, which resets to the sources only.

    Before scaling, a rank differs from the exact one by at most the tolerance times the PageRank of the
    vertex. With few sources in a large graph, set ``tolerance`` well below the number of sources divided by
    the number of vertices. While no source is a vertex, all ranks are 0.

    Args:
        graph: The graph.
        sources: An id, several ids, or a table of ``id``; ids that are not vertices are ignored.
        damping (float, default 0.85): The damping factor.
        tolerance (float, default 0.0001): The maximum error, as above.
        sums_to (str, default "one"): As in ``pagerank``.

    Returns:
        A table of ``id`` and ``rank``.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> ranks = ps.graphs.personalised_pagerank(graph, 1)
        >>> flow.output("out", ranks.select("id", rank=F.round("rank", 2)))
        >>> edges = pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3], 'rank': [0.39, 0.33, 0.28]}

    """
    check_graph("personalised_pagerank", graph)
    who = "personalised_pagerank"
    ranks = _pushed(who, graph, graph.among(sources), damping, tolerance)
    return _scaled(who, ranks, damping, tolerance, sums_to)


def _pushed(who: str, graph: Graph, sources: Table | None, damping: float, tolerance: float) -> Table:
    """The ranks in units, kept up to date by a loop around one operator."""
    if not 0 <= damping <= 0.99:
        raise FlowError(
            f"{who}: damping must be from 0 to 0.99, got {damping!r}. Give a value in this range."
        )
    if not 1e-9 <= tolerance <= 0.1:
        raise FlowError(
            f"{who}: tolerance must be from 1e-9 to 0.1, got {tolerance!r}. Give a value in this range."
        )
    links = graph.link_changes
    if links.loops:
        raise FlowError(
            f"{who} of {graph}: the graph must be outside of loops, got one in loop '{links.loops[-1]}'. "
            "Leave the loop first."
        )
    ids = graph.ids.changes().named("vertices")
    resets = ids if sources is None else sources.changes().named("resets")
    logic = PushResiduals(graph.key_type, damping, tolerance, counts_sources=sources is not None)
    with links.loop("residuals") as loop:
        again = loop.variable(logic.outputs["again"], "incoming")
        inputs = {
            "ids": loop.enter(ids).exchange("id"),
            "resets": loop.enter(resets).exchange("id"),
            "links": loop.enter(links).exchange("src"),
            "again": again.exchange("id"),
        }
        if sources is not None:
            counts = resets.map_batches(_summed, _COUNTS).named("number of sources")
            inputs["sources"] = loop.enter(counts).broadcast()
        told, ranks = cast("tuple[Stream, Stream]", operator(who, logic, **inputs))
        loop.feedback(again, told)
        return Table(loop.leave(ranks))


def _summed(changes: pa.RecordBatch) -> pa.RecordBatch:
    """By how much the number of rows changes."""
    total = pc.sum(changes.column(DIFF), min_count=0).as_py()
    return pa.RecordBatch.from_pylist([{DIFF: total}], schema=_COUNTS)


def _scaled(who: str, ranks: Table, damping: float, tolerance: float, sums_to: SumsTo) -> Table:
    if sums_to is None:
        return ranks.select("id", rank=col("units") * ((1 - damping) / units(tolerance))).named(who)
    if sums_to not in ("one", "vertices"):
        raise FlowError(
            f"{who}: sums_to must be 'one', 'vertices' or None, got {sums_to!r}. Choose one of these."
        )
    # As doubles, for a sum of units may exceed a long; a sum of doubles is exact here.
    masses = ranks.select("id", mass=col("units").cast("double")).named(f"{who}: masses")
    all_of_it = masses.agg(total=sum_of("mass"), vertices=count()).named(f"{who}: total")
    parts = masses.join(all_of_it, how="cross").named(f"{who}: parts")
    wanted = 1.0 if sums_to == "one" else col("vertices")
    # If no source is a vertex, all ranks are 0, and so is their sum.
    total = when(col("total") > 0, col("total")).otherwise(1.0)
    return parts.select("id", rank=col("mass") / total * wanted).named(who)


# The PageRank operator: ranks in state, residuals pushed round by round.
#
# A round takes in all that was sent in the one before, so the ranks do not depend on who is told first; sums
# are those of whole numbers, so they do not depend on how they are put together. One worker alone has no
# other worker to tell and goes through the same rounds within one call, with the same result.
#
# An epoch is reported once, after its last round. this module says what is saved at
# a closed epoch. Where resets are at some sources only, every worker knows their number: when the last one
# goes all ranks are 0. Residuals alone would leave them within the tolerance, and scaling to a sum would make
# them large again.

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62
_SAVED: Final = ("is_there", "resets", "rank", "incoming")


class PushResiduals:
    """Sends ``again``, what comes in at other vertices, and ``ranks``, the changes of an epoch, in units."""

    takes_times_in_order = True

    def __init__(
        self, type_: pa.DataType, damping: float, tolerance: float, *, counts_sources: bool = False
    ) -> None:
        self.outputs = {
            "again": pa.schema([("id", type_), ("incoming", pa.int64())]),
            "ranks": pa.schema([("id", type_), ("units", pa.int64()), ("diff", pa.int64())]),
        }
        self._vertices = pa.schema([("id", type_), *((name, pa.int64()) for name in _SAVED)])
        self._links = pa.schema([("src", type_), ("dst", type_), ("diff", pa.int64())])
        self._ranks = Residuals(type_, damping, tolerance)
        # The number of sources on all workers, where resets are at sources only.
        self._sources: int | None = 0 if counts_sources else None
        self._waiting: dict[Any, dict[str, list[pa.RecordBatch]]] = {}
        self._unsaved: list[pa.RecordBatch] | None = None
        """Changes of links since the last save; None if nothing was saved yet."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what comes until its round is complete."""
        self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Take a round in; after the last one report the epoch."""
        now = context.time[-1]
        if now < _LAST_ROUND:
            slots, values = self._take(self._waiting.pop(context.time, {}), now)
            if context.workers > 1:
                self._tell(context, slots, values)
                return
            while len(slots) or len(self._ranks.pending):
                now += 1
                self._ranks.take_in(slots, values)
                slots, values = self._added_up([self._ranks.push(slots, now)])
        slots, units, diff = self._ranks.report()
        if len(slots):
            columns = [self._ranks.ids.ids_of(slots), pa.array(units), pa.array(diff)]
            context.send(pa.RecordBatch.from_arrays(columns, schema=context.schema("ranks")), output="ranks")

    def _tell(self, context: Context, slots: Slots, values: Numbers) -> None:
        """Tell the owners of other vertices what comes in there, and continue in the next round."""
        epoch, now = context.time
        if len(slots):
            told = [self._ranks.ids.ids_of(slots), pa.array(values)]
            context.send(pa.RecordBatch.from_arrays(told, schema=context.schema("again")), output="again")
        if len(self._ranks.pending):
            context.notify_at((epoch, now + 1))
        context.notify_at((epoch, _LAST_ROUND))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Vertices and links, all or those that changed since the last save."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        ranks, unsaved = self._ranks, self._unsaved
        is_whole = not changes_only or unsaved is None or sum(map(len, unsaved)) > len(ranks.links)
        numbers = [getattr(ranks, name)[: ranks.ids.count] for name in _SAVED]
        is_known = np.logical_or.reduce([column != 0 for column in numbers])
        slots = np.flatnonzero(is_known if is_whole else ranks.is_unsaved[: ranks.ids.count])
        columns = [ranks.ids.ids_of(slots), *(pa.array(column[slots]) for column in numbers)]
        links = [self._batch_of(ranks.links.all())] if is_whole or unsaved is None else unsaved
        ranks.is_unsaved[:] = False
        self._unsaved = []
        tables = pa.table(columns, schema=self._vertices), pa.Table.from_batches(links, self._links)
        return pieces_of(*tables, self._sources, is_whole=is_whole)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the ranks of this worker's vertices, and with their links."""
        ranks, vertices, links = self._ranks, pieces["vertices"], pieces["links"].combine_chunks()
        if self._sources is not None:
            self._sources = saved_sources(pieces)
        slots = ranks.slots_of(vertices["id"].combine_chunks())
        for name in _SAVED:
            getattr(ranks, name)[slots] = vertices[name].to_numpy()
        ranks.shown[slots] = np.where(ranks.is_there[slots] > 0, ranks.rank[slots], NONE)
        if links.num_rows:
            self._ranks.restore_links(self._links_of(links.to_batches()[0]))

    def _take(self, came: Mapping[str, list[pa.RecordBatch]], now: int) -> tuple[Slots, Numbers]:
        """Take in a round: the vertices and links that change, what comes in, and who has to push then."""
        ranks = self._ranks
        looked_at = [np.empty(0, np.intp)]
        for input_, column in (("ids", "is_there"), ("resets", "resets")):
            for batch in came.get(input_, ()):
                slots = ranks.slots_of(batch.column(0))
                np.add.at(getattr(ranks, column), slots, batch.column(1).to_numpy())
                ranks.touch(slots)
                looked_at.append(slots)
        if "sources" in came and self._sources is not None:
            self._sources += sum(int(batch.column(0).to_numpy().sum()) for batch in came["sources"])
            if self._sources == 0:
                ranks.clear()
        sent = []
        if "links" in came:
            batch = pa.concat_batches(came["links"])
            links = self._links_of(batch)
            sent.append(ranks.relink(links))
            looked_at.append(links.src)
            if self._unsaved is not None:
                self._unsaved.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._links))
        again = came.get("again", ())
        told = [(ranks.slots_of(batch.column(0)), batch.column(1).to_numpy()) for batch in again]
        slots, values = self._added_up(told) if told else (np.empty(0, np.intp), np.empty(0, np.int64))
        ranks.take_in(slots, values)
        sent.append(ranks.push(distinct(max(ranks.ids.count, 1), slots, *looked_at), now))
        return self._added_up(sent)

    def _added_up(self, sent: Sequence[tuple[Slots, Numbers]]) -> tuple[Slots, Numbers]:
        slots, values = sent[0]
        if len(sent) > 1:
            slots, values = (np.concatenate(columns) for columns in zip(*sent, strict=True))
        return added_up(slots, values, self._ranks.ids.count)

    def _links_of(self, batch: pa.RecordBatch) -> Links:
        src, dst = (self._ranks.slots_of(batch.column(end)) for end in (0, 1))
        return Links(src, dst, batch.column(2).to_numpy())

    def _batch_of(self, links: Links) -> pa.RecordBatch:
        ends = [self._ranks.ids.ids_of(end) for end in links[:2]]
        return pa.RecordBatch.from_arrays([*ends, pa.array(links.weight)], schema=self._links)


# Integer ranks and residuals, and how a residual is pushed along links.
#
# A vertex u has a *reset* b(u), 1 or 0, a rank p(u), and what comes in, s(u): the sum over all links v -> u
# of the *share* of v, which is d p(v) / out(v), rounded to a whole number of units. The residual b(u) + s(u)
# - p(u) is what the rank lacks. To *push* u is to let its rank be b(u) + s(u), and to send the change of its
# share along its links; this is what Gauss and Southwell do with the largest residual, done here with all
# that are too large at once. A link that comes or goes changes the share of its source, and so the residuals
# beside that alone.
#
# What is pushed early goes round as many small changes, some up and some down. So a residual waits until it
# is among the larger ones: in round i all are pushed that exceed 2^-i resets, until that is the tolerance.
# What comes in meanwhile consolidates, or cancels out; this halves the work. All workers know the round, so
# who waits does not depend on who asks.
#
# A share is a function of the rank and the number of links as they are now. So what has come in is exactly
# the sum of shares as they are now, whatever the order in which changes were consolidated and however often;
# when all links to a vertex are gone, s(u) is 0, and not almost 0. Floating-point sums could promise none of
# that.
#
# It ends: with a residual r at a vertex of n links, a push takes |r| away and adds at most d |r| + n units
# elsewhere. So vertices are pushed when |r| exceeds the tolerance and also 2 n / (1 - d) units, and each push
# takes more than n units from the sum of all residuals.

NONE: Final = -1


class Residuals:
    """The vertices of a worker, and the targets of their links; changed by the operator that owns it."""

    def __init__(self, type_: pa.DataType, damping: float, tolerance: float) -> None:
        self.ids: IdSlots = id_slots(type_)
        self.links = OutLinks()
        self.one: int = units(tolerance)
        self._damping = damping
        self._tolerance = int(tolerance * self.one)
        # By slot: whether the vertex is there and how large its reset is, its rank, the sum of the shares
        # that come in, the number of its links, and the rank that was reported last, or NONE.
        self.is_there, self.resets, self.rank, self.incoming, self.out, self.shown = np.empty(
            (6, 0), np.int64
        )
        self.is_touched, self.is_unsaved = np.empty((2, 0), np.bool_)
        self.pending: Slots = np.empty(0, np.intp)
        """Vertices that lack too much, but not so much that it was pushed in the last round."""

    def slots_of(self, ids: pa.Array) -> Slots:
        """The slots of vertices; for those that are new everything is 0, and nothing has been reported."""
        before = self.ids.count
        slots = self.ids.slots_of(ids)
        if self.ids.count > before:
            for name in (*_NUMBERS, "shown", "is_touched", "is_unsaved"):
                longer = grown(getattr(self, name), before, self.ids.count)
                longer[before:] = NONE if name == "shown" else 0
                setattr(self, name, longer)
        return slots

    def relink(self, links: Links) -> tuple[Slots, Numbers]:
        """Insert and delete links; return the effect on their targets and siblings."""
        sources = distinct(self.ids.count, links.src)
        before = self._shares(sources)
        np.add.at(self.out, links.src, links.weight)
        slots, values = self.links.along(sources, self._shares(sources) - before)
        self.links.add(links)
        new = self._shares(links.src) * links.weight
        return np.concatenate((slots, links.dst)), np.concatenate((values, new))

    def restore_links(self, links: Links) -> None:
        """Begin with these links, whose shares have come in already."""
        np.add.at(self.out, links.src, links.weight)
        self.links.add(links)

    def take_in(self, slots: Slots, incoming: Numbers) -> None:
        """Add to the incoming values; each slot occurs once."""
        self.incoming[slots] += incoming
        self.is_unsaved[slots] = True

    def push(self, slots: Slots, now: int) -> tuple[Slots, Numbers]:
        """Push those of the vertices, and of the pending ones, that lack too much in a round."""
        if len(self.pending):
            slots = distinct(self.ids.count, slots, self.pending)
        wanted = self.resets[slots] * self.one + self.incoming[slots]
        check_range(wanted, self.one)
        lacks = np.abs(wanted - self.rank[slots])
        lacks_too_much = (lacks > self._tolerance) & (lacks > 2 / (1 - self._damping) * self.out[slots])
        is_pushed = lacks_too_much & (lacks > self.one >> min(now + 1, 62))
        self.pending = slots[lacks_too_much & ~is_pushed]
        slots, wanted = slots[is_pushed], wanted[is_pushed]
        before = self._shares(slots)
        self.rank[slots] = wanted
        self.touch(slots)
        change = self._shares(slots) - before
        most = float(np.abs(change).max(initial=0)) * float(self.out[slots].sum())
        slots, values = self.links.along(slots, change)
        if most > RANK_MAX:  # else no sum can be too large
            check_range(np.bincount(slots, np.abs(values)), self.one)
        return slots, values

    def clear(self) -> None:
        """Let all ranks be 0, and what comes in: these are the ranks if there is no reset anywhere."""
        count = self.ids.count
        slots = np.flatnonzero((self.rank[:count] != 0) | (self.incoming[:count] != 0))
        self.rank[slots] = self.incoming[slots] = 0
        self.pending = self.pending[:0]
        self.touch(slots)

    def touch(self, slots: Slots) -> None:
        """Mark vertices as changed, to be reported and saved."""
        self.is_touched[slots] = True
        self.is_unsaved[slots] = True

    def report(self) -> tuple[Slots, Numbers, Numbers]:
        """Return the changes since the last report: vertices, ranks, and insertions or deletions."""
        touched = np.flatnonzero(self.is_touched[: self.ids.count])
        self.is_touched[touched] = False
        # A vertex that is gone has no links, so its rank is worth nothing to anybody.
        self.rank[touched[self.is_there[touched] == 0]] = 0
        before = self.shown[touched]
        now = np.where(self.is_there[touched] > 0, self.rank[touched], NONE)
        self.shown[touched] = now
        goes, comes = ((each != NONE) & (before != now) for each in (before, now))
        slots = np.concatenate((touched[goes], touched[comes]))
        ranks = np.concatenate((before[goes], now[comes]))
        return slots, ranks, np.repeat([-1, 1], [int(goes.sum()), int(comes.sum())])

    def _shares(self, slots: Slots) -> Numbers:
        """The share of each link of these vertices; the only rounding."""
        out = self.out[slots]
        share = np.rint(self._damping * self.rank[slots] / np.maximum(out, 1)).astype(np.int64)
        share[out == 0] = 0
        return share


_NUMBERS: Final = ("is_there", "resets", "rank", "incoming", "out")


# The integer units of ranks, and the largest rank that they express.

UNITS_PER_TOLERANCE: Final = 1 << 20
RANK_MAX: Final = 1 << 62


def units(tolerance: float) -> int:
    """In how many units a reset of 1 is counted: a power of two, so that the tolerance is many of them."""
    return 1 << math.ceil(math.log2(UNITS_PER_TOLERANCE / tolerance))


def check_range(ranks: npt.NDArray[Any], one: int) -> None:
    """Reject ranks in units that are too large; ``one`` is a reset of 1."""
    assert ranks.min(initial=0) >= 0, "shares are never below zero"
    if ranks.max(initial=0) > RANK_MAX:
        raise FlowError(
            f"pagerank: a rank exceeds {RANK_MAX / one:.0f} times the reset, the maximum in units of this "
            "tolerance. Give a larger tolerance."
        )


# Map ids of any key type to slots of the operator's arrays.
#
# Whole numbers are found by a ``VertexTable``, a whole array at a time. Ids of another type, such as text,
# are found one by one in a dictionary; this costs a tenth of a microsecond each, when they come and when they
# are told to another worker, and nothing while one worker goes round by itself.
#
# Invariant: equal ids have equal slots, different ids different ones; slots are given without gaps and stay.


class IdSlots(Protocol):
    """Slots of ids; grows with what it is asked for."""

    @property
    def count(self) -> int:
        """The number of ids with a slot."""
        ...

    def slots_of(self, ids: pa.Array) -> Slots:
        """The slot of each id; an id that is seen for the first time gets the next one."""
        ...

    def ids_of(self, slots: Slots) -> pa.Array:
        """The ids of some slots."""
        ...


def id_slots(type_: pa.DataType) -> IdSlots:
    """The slots of ids of this type.

    >>> table = id_slots(pa.string())
    >>> table.slots_of(pa.array(["b", "a", "b"])).tolist(), table.ids_of(np.array([1])).to_pylist()
    ([0, 1, 0], ['a'])
    """
    return _Numbers(type_) if pa.types.is_signed_integer(type_) else _Others(type_)


class _Numbers:
    """Integers, by a table of vertices."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._table = VertexTable()

    @property
    def count(self) -> int:
        return self._table.count

    def slots_of(self, ids: pa.Array) -> Slots:
        return self._table.slots_of(ids.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def ids_of(self, slots: Slots) -> pa.Array:
        return pa.array(self._table.ids[slots]).cast(self._type)


class _Others:
    """All other ids, by a dictionary."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        # Texts, dates and the like are equal in Python if and only if they are the same id.
        self._needs_keys = pa.types.is_floating(type_) or pa.types.is_nested(type_)
        self._slots: dict[Any, int] = {}
        self._ids: list[Any] = []

    @property
    def count(self) -> int:
        return len(self._ids)

    def slots_of(self, ids: pa.Array) -> Slots:
        values = ids.to_pylist()
        keys = list(map(_hashable, values)) if self._needs_keys else values
        for key, value in zip(keys, values, strict=True):
            if self._slots.setdefault(key, len(self._ids)) == len(self._ids):
                self._ids.append(value)
        return np.fromiter((self._slots[key] for key in keys), np.intp, len(keys))

    def ids_of(self, slots: Slots) -> pa.Array:
        return pa.array([self._ids[slot] for slot in slots.tolist()], self._type)


_NOT_A_NUMBER: Final = object()


def _hashable(value: Any) -> Any:  # noqa: ANN401 - an id of any type
    """A key that is equal for values that are the same id: NaN is, and so are 0.0 and -0.0.

    >>> _hashable(float("nan")) == _hashable(-float("nan")), _hashable({"a": [1, 2]})
    (True, (('a', (1, 2)),))
    """
    if isinstance(value, float):
        return value if value == value else _NOT_A_NUMBER
    if isinstance(value, dict):
        return tuple((name, _hashable(part)) for name, part in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


# Save and restore ranks, links and the number of sources.
#
# Vertices and links belong to the owner of the vertex from which a link leads. The number of sources is that
# of all workers: each saves the same one.

_SOURCES: Final = "sources"


def pieces_of(
    vertices: pa.Table, links: pa.Table, sources: int | None, *, is_whole: bool
) -> Mapping[str, Piece]:
    """The pieces of a worker: everything, or what has changed since the last save."""
    pieces = {
        "vertices": Piece(vertices, ("id",), ("id",), is_whole),
        "links": Piece(links, ("src",), is_whole=is_whole, adds_up=True),
    }
    if sources is not None:
        pieces[_SOURCES] = Piece(pa.table({_SOURCES: pa.array([sources], pa.int64())}), ())
    return pieces


def saved_sources(pieces: Mapping[str, pa.Table]) -> int:
    """The number of sources that every worker has saved."""
    return max(pieces[_SOURCES][_SOURCES].to_pylist(), default=0)
