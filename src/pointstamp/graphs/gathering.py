"""Run array algorithms on a graph that is gathered on one worker.

All changes of the graph are brought to one worker, which has the complete graph and works alone; which worker
that is, the name of the operator decides, so that several such algorithms are spread. What they find is a
function of the graph, so nothing more is saved than the graph, and what is known of it is recomputed.
"""

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.edges import Counts, EdgeIndex, Lengths
from pointstamp.graphs.arrays.slot_arrays import (
    DIFF,
    Ids,
    Slots,
    added_up,
    arrays_of,
    batch_of,
    distinct,
    grown,
    table_of,
)
from pointstamp.graphs.arrays.vertices import VertexTable
from pointstamp.graphs.edge_tables import DST, ID, SRC, WEIGHT

_HOME: Final = "home"


# A complete graph in arrays, with counted edges and vertices.
#
# Edges and vertices may be there several times. An edge *comes* when it is there for the first time, and
# *goes* with the last; edges from a vertex to itself do neither, but they name it. A vertex is there while
# something names it: an edge that ends at it, or that it was given. It knows no times and no workers.

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
        """Return whether each of these is a vertex of the graph now."""
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


_NO_VERTICES: Final = CountedVertices(np.empty(0, np.int64), np.empty(0, np.int64))
Columns = tuple[npt.NDArray[Any], ...]


class WholeAlgorithm(Protocol):
    """A result of a complete graph, updated when the graph changes."""

    def changed(self, graph: WholeGraph, change: WholeChange) -> Columns:
        """The columns of the rows that the answer loses and gains by a change, with -1 and 1 at the end."""
        ...


def gathered(
    algorithm: WholeAlgorithm, answer: pa.Schema, edges: ps.Table, vertices: ps.Table | None, *, name: str
) -> ps.Table:
    """The table of what an algorithm finds; ``answer`` has its columns.

    Edges have ``src`` and ``dst``, each once for each time that it is there, and may have a ``weight``;
    vertices, where they matter, have ``id``.
    """
    home = zlib.crc32(name.encode())
    at_one = {
        which: table.with_columns(home=ps.lit(home, "long"))
        .named(f"{name}: {which} brought together")
        .changes()
        .named(f"{name}: {which}")
        for which, table in (("edges", edges), ("vertices", vertices))
        if table is not None
    }
    weight = at_one["edges"].schema.field(DIFF)
    schema = pa.schema([*answer, weight])
    kept = {which: stream.schema for which, stream in at_one.items()}
    inputs = {which: stream.exchange(_HOME) for which, stream in at_one.items()}
    return ps.Table(ps.operator(name, Gathered(algorithm, schema, kept, home), **inputs))


class Gathered:
    """Takes all changes of a graph, epoch by epoch, and sends how the answer of an algorithm changes."""

    keeps: ClassVar = "the whole graph, in arrays, on one worker, and what the algorithm knows of each vertex"
    takes_times_in_order = True

    def __init__(
        self, algorithm: WholeAlgorithm, answer: pa.Schema, kept: Mapping[str, pa.Schema], home: int
    ) -> None:
        self.outputs = answer
        self._algorithm = algorithm
        self._kept = {which: _nullable(schema) for which, schema in kept.items()}
        self._home = home
        names = kept["edges"].names
        self._has_weights = WEIGHT in names
        self._graph = WholeGraph(
            kept["edges"].field(WEIGHT).type.to_pandas_dtype() if self._has_weights else np.int8
        )
        self._waiting: dict[ps.timely.Time, dict[str, list[pa.RecordBatch]]] = {}
        # What has changed since it was last saved, once it was.
        self._unsaved: dict[str, list[pa.RecordBatch]] | None = None

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep changes until their epoch is complete."""
        self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """Make the changes of an epoch, and send how the answer changes."""
        waiting = self._waiting.pop(context.time, {})
        if self._unsaved is not None:
            for which, batches in waiting.items():
                self._unsaved[which] += batches
        columns = self._changed(
            {which: table_of(self._kept[which], waiting.get(which, [])) for which in self._kept}
        )
        if len(columns[0]):
            context.send(batch_of(context.schema(), *columns))

    def _changed(self, come: Mapping[str, pa.Table]) -> Columns:
        table = come["edges"]
        length = WEIGHT if self._has_weights else None
        src, dst, by = arrays_of(table.select([SRC, DST, DIFF]))
        lengths = np.zeros(len(src), np.int8) if length is None else table.column(length).to_numpy()
        given = (
            CountedVertices(*arrays_of(come["vertices"].select([ID, DIFF]))) if "vertices" in come else None
        )
        change = self._graph.change(CountedEdges(src, dst, lengths, by), given or _NO_VERTICES)
        return self._algorithm.changed(self._graph, change)

    def save(self, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """All edges and vertices that were given, or how they have changed."""
        assert not self._waiting, f"epochs {list(self._waiting)} are open at a snapshot"
        changes, self._unsaved = self._unsaved, {which: [] for which in self._kept}
        is_whole = not changes_only or changes is None
        rows = self._all() if is_whole or changes is None else changes
        return {
            which: ps.ports.Piece(table_of(schema, rows[which]), (_HOME,), is_whole=is_whole, adds_up=True)
            for which, schema in self._kept.items()
        }

    def _all(self) -> dict[str, list[pa.RecordBatch]]:
        edges, given = self._graph.edges(), self._graph.given()
        columns = {
            "edges": {SRC: edges.src, DST: edges.dst, WEIGHT: edges.length, DIFF: edges.by},
            "vertices": {ID: given.ids, DIFF: given.by},
        }
        made = {}
        for which, schema in self._kept.items():
            there = columns[which]
            there[_HOME] = np.full(len(there[DIFF]), self._home)
            made[which] = [batch_of(schema, *(there[name] for name in schema.names))]
        return made

    def restore(self, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        """Resume with the graph; recompute the last answer."""
        self._changed({which: added_up(pieces[which]) for which in self._kept})


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each.with_nullable(True) for each in schema])


# Answers with one number per vertex, and the changes between two of them.


class VertexValues(Protocol):
    """A number for every vertex, which follows from the edges."""

    def change(self, vertices: npt.NDArray[np.int64], gone: SlotEdges, come: SlotEdges) -> Slots:
        """Take edges away and add others; return all whose numbers may be others now."""
        ...

    def of(self, slots: Slots) -> npt.NDArray[np.int64]:
        """The numbers of these."""
        ...


class ByVertex:
    """An answer with one number per vertex."""

    def __init__(self, values: VertexValues) -> None:
        self._values = values
        # What was said of each vertex, if something was.
        self._said: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._is_said: npt.NDArray[np.bool_] = np.empty(0, np.bool_)

    def changed(self, graph: WholeGraph, change: WholeChange) -> Columns:
        """``id`` and number of the vertices that come, go, or have another number."""
        count, known = graph.vertices.count, len(self._said)
        if count > known:
            self._said, self._is_said = grown(self._said, known, count), grown(self._is_said, known, count)
            self._is_said[known:] = False
        others = self._values.change(graph.vertices.ids, change.gone, change.come)
        slots = distinct(count, others, change.named)
        numbers, is_there = self._values.of(slots), graph.are_there(slots)
        was_said = self._is_said[slots]
        differs = (was_said != is_there) | (was_said & is_there & (self._said[slots] != numbers))
        back, out = slots[differs & was_said], differs & is_there
        ids = np.concatenate((graph.vertices.ids[back], graph.vertices.ids[slots[out]]))
        both = np.concatenate((self._said[back], numbers[out]))
        self._said[slots], self._is_said[slots] = numbers, is_there
        return ids, both, np.repeat(np.array([-1, 1]), [len(back), len(ids) - len(back)])
