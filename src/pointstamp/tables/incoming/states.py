"""Whole states: each epoch has all rows of a table as they are then, and the difference is worked out.

Rows are kept by the worker that owns them. A worker that is given none of an epoch's rows must still know
that there was such an epoch, because all its own rows are gone then; so every worker is told of each epoch.

Invariant: after an epoch that had rows, what was sent so far adds up to the rows of that epoch.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.open_changes import OpenChanges, added_up
from pointstamp.tables.kept.weights import DIFF, columns_without_weight, with_weights
from pointstamp.topology.domain import Time

TICKS: Final = pa.schema({"rows": pa.int64()})


class Ticks:
    """Says that an epoch has rows."""

    keeps: ClassVar = "nothing; an epoch costs a row"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send how many."""
        context.send(pa.RecordBatch.from_arrays([pa.array(np.array([batch.num_rows]))], schema=TICKS))


class States:
    """Sends the difference of each epoch's rows to those before; keeps the rows of the last epoch."""

    keeps: ClassVar = "the rows of the last epoch; an epoch costs all rows, of it and of the last one"

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = Arrangement(schema, columns_without_weight(schema))
        self._open = OpenChanges()
        self._ticked: set[Time] = set()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        if input == "rows":
            self._open.put(context.time, "rows", batch)
        self._ticked.add(context.time)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Replace all rows by those of the epoch."""
        self._ticked.discard(context.time)
        before = self._rows.all_rows().combine_chunks().to_batches()
        gone = [with_weights(batch, -batch.column(DIFF).to_numpy()) for batch in before]
        parts = [*self._open.take(context.time).values(), *gone]
        if parts:
            change = added_up(parts)
            self._rows.add(change)
            context.send(change)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows of the last epoch."""
        assert not self._ticked, "rows wait at a snapshot"
        return {"rows": self._rows.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker."""
        self._rows.load(pieces["rows"])
