"""Vertex labels as a table that retracts the old label of a vertex."""

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.columns import arrays_of, batch_of
from pointstamp.graphs.arrays.slots import Ids, Slots, distinct, grown
from pointstamp.graphs.arrays.vertices import VertexTable

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
