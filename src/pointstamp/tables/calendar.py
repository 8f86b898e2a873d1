"""Rows that wait for event time, found by the time for which they wait.

Invariant: what was added and not taken is there, added up, and nothing before the last bound that was taken
for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np
import pyarrow as pa

from pointstamp.state.keeping import KeptRows
from pointstamp.state.pieces import Piece
from pointstamp.tables.arrangement import Arrangement
from pointstamp.tables.open_changes import added_up
from pointstamp.tables.weights import DIFF, DIFF_FIELD, Integers, columns_without_weight, with_weights

_UNTIL: Final = "__until"


class Calendar:
    """Rows with weights, by the event time for which they wait; changed by the operator that owns it."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = columns_without_weight(schema)
        own = [schema.field(name) for name in self._names]
        self._rows = Arrangement(pa.schema([*own, pa.field(_UNTIL, pa.int64()), DIFF_FIELD]), [_UNTIL])
        self._due: list[int] = []
        self._known: set[int] = set()

    def __len__(self) -> int:
        """How many rows are stored."""
        return len(self._rows)

    @property
    def kept_rows(self) -> KeptRows:
        """How many rows are stored, and what they take in memory."""
        return self._rows.kept_rows

    def add(self, batch: pa.RecordBatch, until: Integers) -> None:
        """Add rows, each with the time for which it waits."""
        columns = [*(batch.column(name) for name in self._names), pa.array(until), batch.column(DIFF)]
        self._rows.add(pa.RecordBatch.from_arrays(columns, schema=self._rows.schema))
        self._expect(np.unique(until).tolist())

    def take(self, bound: int) -> pa.RecordBatch | None:
        """The rows that wait for a time up to this one, added up; they are no longer there."""
        due = []
        while self._due and self._due[0] <= bound:
            due.append(heappop(self._due))
        if not due:
            return None
        self._known.difference_update(due)
        times = pa.RecordBatch.from_arrays([pa.array(due, pa.int64())], names=[_UNTIL])
        rows = added_up([self._rows.rows_of(times, [_UNTIL])])
        if not rows.num_rows:
            return None
        self._rows.add(with_weights(rows, -rows.column(DIFF).to_numpy()))
        return rows.select([*self._names, DIFF])

    def save(self, owners: Sequence[str], *, changes_only: bool) -> Piece:
        """The rows, which belong to workers by these columns."""
        return replace(self._rows.save(changes_only=changes_only), keys=tuple(owners))

    def load(self, rows: pa.Table) -> None:
        """Go on with rows that were saved."""
        self._rows.load(rows)
        self._expect(np.unique(rows.column(_UNTIL).to_numpy()).tolist())
        heapify(self._due)

    def _expect(self, times: Iterable[int]) -> None:
        for time in times:
            if time not in self._known:
                self._known.add(time)
                heappush(self._due, time)
