"""Triangle corners by the array operator, for integer ids.

Every worker is told all edges that change, and keeps them all; each finds the triangles of the edges that are
its own by their hash. So the work is shared, and nothing more has to be said. Every worker saves all edges,
for where as many workers continue, each gets back what it has saved itself.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs.arrays.columns import DIFF, added_up, arrays_of, batch_of, table_of
from pointstamp.graphs.arrays.ends import added_up_ids
from pointstamp.graphs.graph import DST, ID, SRC
from pointstamp.graphs.patterns.triads import Changes, Triads

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
