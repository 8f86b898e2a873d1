"""Rows that wait for event time, found by the time for which they wait.

They lie in a few runs, each in the order of these times, that are merged by size as those of an arrangement
are. To take what is due is to cut the beginning off each run. Rows of a table that changes are consolidated
when runs are merged and when they are taken; rows that only come are not looked at before they are due.

Invariant: what was added and not taken is there, and nothing up to the last bound for which was taken.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.consolidate import (
    DIFF,
    DIFF_FIELD,
    Integers,
    columns_without_weight,
    with_weights,
)
from pointstamp.arrangement.open_changes import added_up
from pointstamp.arrangement.runs import GROWTH, is_worth_saving_apart
from pointstamp.state.memory_budget import KeptRows
from pointstamp.state.pieces import Piece

_UNTIL: Final = "__until"


class Calendar:
    """Rows with weights, by the event time for which they wait; changed by the operator that owns it."""

    def __init__(self, schema: pa.Schema, *, only_grows: bool = False) -> None:
        self._names = columns_without_weight(schema)
        own = [schema.field(name) for name in self._names]
        self._schema = pa.schema([*own, pa.field(_UNTIL, pa.int64()), DIFF_FIELD])
        self._only_grows = only_grows
        self._runs: list[pa.RecordBatch] = []
        self._sizes: list[int] = []
        """The number of rows of each run when it was built: a part that is cut off uses memory until then."""
        self._unsaved: list[pa.RecordBatch] | None = None
        """The changes after the last save; None if unknown or too many."""

    def __len__(self) -> int:
        """The number of stored rows, some of which may cancel out."""
        return sum(run.num_rows for run in self._runs)

    @property
    def kept_rows(self) -> KeptRows:
        """The number of stored rows, and their bytes in memory."""
        return KeptRows(len(self), sum(int(run.nbytes) for run in self._runs))

    def add(self, batch: pa.RecordBatch, until: Integers) -> None:
        """Add rows, each with the time for which it waits."""
        columns = [*(batch.column(name) for name in self._names), pa.array(until), batch.column(DIFF)]
        self._add(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def take(self, bound: int) -> pa.RecordBatch | None:
        """The rows that wait for a time up to this one, consolidated; they are no longer there."""
        due = []
        for number, run in enumerate(self._runs):
            count = int(np.searchsorted(run.column(_UNTIL).to_numpy(), bound, "right"))
            if count:
                due.append(run.slice(0, count))
                self._runs[number] = self._cut(run.slice(count), self._sizes[number])
        if not due:
            return None
        kept = [number for number, run in enumerate(self._runs) if run.num_rows]
        self._sizes = [self._sizes[number] for number in kept]
        self._runs = [self._runs[number] for number in kept]
        rows = self._together(due)
        if not rows.num_rows:
            return None
        self._note(with_weights(rows, -rows.column(DIFF).to_numpy()))
        return rows.select([*self._names, DIFF])

    def save(self, owners: Sequence[str], *, changes_only: bool) -> Piece:
        """All rows, or those that came and went since the last save; they belong to workers by columns."""
        unsaved, self._unsaved = self._unsaved, []
        if changes_only and unsaved is not None:
            table = pa.Table.from_batches(unsaved, self._schema)
            return Piece(table, tuple(owners), is_whole=False, adds_up=True)
        return Piece(pa.Table.from_batches(self._runs, self._schema), tuple(owners), adds_up=True)

    def load(self, rows: pa.Table) -> None:
        """Continue with rows that were saved; those that came and went are among them."""
        batches = rows.to_batches()
        if batches:
            self._add(added_up(batches))
        self._unsaved = None

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._note(batch)
        run = _in_order(batch)
        while self._runs and self._runs[-1].num_rows < GROWTH * run.num_rows:
            self._sizes.pop()
            run = _in_order(self._together([self._runs.pop(), run]))
        if run.num_rows:
            self._runs.append(run)
            self._sizes.append(run.num_rows)

    def _cut(self, rest: pa.RecordBatch, size: int) -> pa.RecordBatch:
        """The rest of a run; a copy if most of the run is gone."""
        return rest if GROWTH * rest.num_rows > size else pc.take(rest, pa.array(np.arange(rest.num_rows)))

    def _together(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        if self._only_grows:
            return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return added_up(batches)

    def _note(self, change: pa.RecordBatch) -> None:
        if self._unsaved is None:
            return
        self._unsaved.append(change)
        if not is_worth_saving_apart(sum(each.num_rows for each in self._unsaved), len(self)):
            self._unsaved = None


def _in_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, by the time for which they wait."""
    # Stable, because numpy then merges two sorted halves in one pass.
    until = batch.column(_UNTIL).to_numpy()
    if (until[1:] >= until[:-1]).all():
        return batch
    return pc.take(batch, pa.array(np.argsort(until, kind="stable")), boundscheck=False)
