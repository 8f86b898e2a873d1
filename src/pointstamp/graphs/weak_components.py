"""Weakly connected components.

A component is named by its least vertex. LDBC Graphalytics takes every labeling in which two vertices have
the same label if and only if a path connects them; this is one, and always the same.

It uses one of three algorithms, and ``flow.describe()`` shows which. Where edges are only added and ids are
longs, labels are joined by union-find (``connected_components``), which can take nothing back. Where edges
can go, it is a search in which every vertex starts with its own id for a distance and no step makes it
longer, by an operator in arrays. Ids of other types get numbers first. Graphs in loops spread
labels in a loop of tables.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.slot_arrays import DIFF, Ids, Slots, arrays_of, batch_of, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable, named_by
from pointstamp.graphs.edge_tables import DST, ID, SRC, Graph, check_graph
from pointstamp.graphs.growing_components import connected_components
from pointstamp.graphs.search_operator import searched
from pointstamp.graphs.search_state import DISTANCE


def wcc(graph: Graph) -> ps.Table:
    """Compute the weakly connected components.

    Returns:
        A table of ``id`` and ``component``, the least id of the component.

    Examples:
        >>> flow = ps.Dataflow("graph")
        >>> graph = ps.graphs.Graph(flow.table("edges", "src long, dst long"))
        >>> flow.output("out", ps.graphs.wcc(graph))
        >>> edges = pa.table({"src": [1, 2, 4], "dst": [2, 3, 5]})
        >>> flow.run(edges=edges).table("out").sort_by("id").to_pydict()
        {'id': [1, 2, 3, 4, 5], 'component': [1, 1, 1, 4, 4]}

    """
    check_graph("wcc", graph)
    if graph.needs_numbers:
        return by_least_id(graph, wcc(graph.in_numbers), name="wcc")
    if not graph.is_for_arrays:
        return least_label(graph.ids, graph.undirected().links.select(SRC, DST), name="wcc")
    if graph.is_append_only:
        return _joined(graph)
    pairs = graph.pairs.select(SRC, DST).named("wcc: ends").changes().named("wcc: pairs")
    ids = graph.with_given(named_by(pairs, name="wcc: vertices"))
    own = ids.select(ID, distance=ps.col(ID)).named("wcc: own labels")
    labels = searched(own, ps.Table(pairs), name="wcc", length=0, by_rank=True, both_ways=True)
    return labels.select(ID, component=ps.col(DISTANCE))


def _joined(graph: Graph) -> ps.Table:
    """By union-find, of a graph that only grows."""
    ends = graph.edges.select(SRC, DST).named("wcc: ends")
    if graph.given is not None:
        alone = graph.given.select(src=ps.col(ID), dst=ps.col(ID)).named("wcc: vertices")
        ends = ends.union(alone).named("wcc: links")
    changes = ends.changes().named("wcc: new links")
    labels = connected_components(changes, diff=DIFF).exchange("vertex")
    return ps.Table(ps.operator("wcc by union-find", Relabelled(changes.schema.field(DIFF)), labels=labels))


# Vertex labels as a table that retracts the old label of a vertex.

_ROOM_MIN: Final = 1_024
_KEPT: Final = pa.schema([("id", pa.int64()), ("component", pa.int64())])


class Relabelled:
    """Sends each label with 1, and the one that the vertex had with -1; a vertex comes once in an epoch."""

    keeps: ClassVar = "the label of each vertex; a change costs its rows"

    def __init__(self, weight: pa.Field) -> None:
        self.outputs = pa.schema([*_KEPT, weight])
        self._vertices = VertexTable()
        self._label: Ids = np.empty(_ROOM_MIN, np.int64)
        self._waiting: dict[ps.timely.Time, list[pa.RecordBatch]] = {}
        # Whose label has changed since it was last saved, once it was.
        self._unsaved: list[Slots] | None = None

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep labels until their epoch is complete."""
        self._waiting.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """Send the labels of an epoch, and those that they replace."""
        if context.time not in self._waiting:
            return
        ids, labels = arrays_of(pa.Table.from_batches(self._waiting.pop(context.time)))
        known = self._vertices.count
        slots = self._slots_of(ids)
        had = np.flatnonzero(slots < known)
        before = self._label[slots[had]]
        self._label[slots] = labels
        if self._unsaved is not None:
            self._unsaved.append(slots)
        diff = np.repeat(np.array([-1, 1]), [len(had), len(ids)])
        columns = np.concatenate((ids[had], ids)), np.concatenate((before, labels)), diff
        context.send(batch_of(context.schema(), *columns))

    def save(self, *, changes_only: bool) -> Mapping[str, ps.ports.Piece]:
        """All labels, or those that have changed."""
        assert not self._waiting, f"epochs {list(self._waiting)} are open at a snapshot"
        count, (changed, self._unsaved) = self._vertices.count, (self._unsaved, [])
        is_whole = not changes_only or changed is None
        none = np.empty(0, np.intp)
        slots = np.arange(count) if is_whole or changed is None else distinct(count, none, *changed)
        rows = batch_of(_KEPT, self._vertices.ids[slots], self._label[slots])
        return {"labels": ps.ports.Piece(pa.Table.from_batches([rows]), ("id",), ("id",), is_whole)}

    def restore(self, context: ps.ports.Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the labels of this worker's vertices."""
        ids, labels = arrays_of(pieces["labels"])
        slots = self._slots_of(ids)
        self._label[slots] = labels

    def _slots_of(self, ids: Ids) -> Slots:
        before = self._vertices.count
        slots = self._vertices.slots_of(ids)
        self._label = grown(self._label, before, self._vertices.count)
        return slots


# The least id that reaches each vertex, as a loop of tables.
#
# In round i the label of a vertex is the least id from which at most i links lead to it.

COMPONENT = "component"


def least_label(ids: ps.Table, links: ps.Table, *, name: str) -> ps.Table:
    """``id`` and ``component``: for each id the least from which links lead to it, itself among them."""

    def spread(labels: ps.Table, own: ps.Table, links: ps.Table) -> ps.Table:
        passed_on = (
            labels.join(links, {ID: SRC})
            .named(f"{name}: along links")
            .select(id=ps.col(DST), component=ps.col(COMPONENT))
            .named(f"{name}: passed on")
        )
        return (
            own.union(passed_on)
            .named(f"{name}: labels")
            .group_by(ID)
            .agg(component=ps.min(COMPONENT))
            .named(f"{name}: least")
        )

    own = ids.select(ID, component=ps.col(ID)).named(f"{name}: own")
    return own.iterate(spread, own, links, name=name)


def by_least_id(graph: Graph, found: ps.Table, *, name: str) -> ps.Table:
    """``id`` and ``component``, the least id of it, of components that were found ``in_numbers``."""
    named = graph.by_id(found).select(ID, number=ps.col(COMPONENT))
    least = named.group_by("number").agg(component=ps.min(ID)).named(f"{name}: least ids")
    return named.join(least, "number").named(f"{name}: named").select(ID, COMPONENT)
