"""Sessions where epochs are event time: each comes once, in the epoch in which its gap has passed.

After an epoch nothing before its end can come any more. So a session that ends before is over: its rows are
sent with where it begins and ends, and are forgotten. For one that is still open the operator asks to be
told when the epoch is complete in which it ends, unless it grows until then.

Invariant: after every epoch that was handled only rows of sessions are kept that end with it or later.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.expressions.windows import integers_of
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.grouping import GroupPlan
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.calendar import Calendar
from pointstamp.tables.kept.groups import distinct, grouped
from pointstamp.tables.kept.open_changes import OpenChanges
from pointstamp.tables.kept.weights import DIFF, with_weights
from pointstamp.tables.timed.until import copies


class EpochSessions:
    """Sends the rows of sessions that are over, with their sessions; keeps those that are open."""

    keeps: ClassVar = "the rows of open sessions, by key; a change costs those of the keys that change"

    def __init__(self, plan: GroupPlan, every: int) -> None:
        self._plan = plan
        self._every = every
        self._rows = Arrangement(plan.schema, plan.keys)
        self._open = OpenChanges()
        self._end = plan.result.names[-2]
        own = [plan.result.field(key) for key in plan.keys]
        self._ends = Calendar(pa.schema([*own, plan.result.field(DIFF)]))

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Look at the keys that have new rows, or a session that may be over."""
        keys = list(self._plan.keys)
        passed = (context.epoch + 1) * self._every
        touched = []
        change = self._open.take(context.time).get("in")
        if change is not None:
            self._rows.add(change)
            touched.append(change.select(keys))
        due = self._ends.take(passed - 1)
        if due is not None:
            touched.append(due.select(keys))
        if touched:
            stored = self._rows.rows_of(distinct(pa.concat_batches(touched)), keys)
            self._look_at(context, self._plan.function(grouped(stored, keys)), passed)

    def _look_at(self, context: Context, sessions: pa.RecordBatch, passed: int) -> None:
        ends = np.asarray(integers_of(sessions.column(self._end)).to_numpy(), np.int64)
        over = sessions.filter(pa.array(ends < passed))
        if over.num_rows:
            gone = with_weights(over, -over.column(DIFF).to_numpy()).select(self._plan.schema.names)
            self._rows.add(gone)
            context.send(copies(over))
        later = sessions.filter(pa.array(ends >= passed))
        if later.num_rows:
            # A key may be noted more than once; it is looked at again then, and nothing is over.
            self._ends.add(later.select([*self._plan.keys, DIFF]), ends[ends >= passed])
            for epoch in np.unique(ends[ends >= passed] // self._every).tolist():
                context.notify_at((epoch,))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows of open sessions, and when these end."""
        assert not len(self._open), "changes wait at a snapshot"
        return {
            "rows": self._rows.save(changes_only=changes_only),
            "ends": self._ends.save(self._plan.keys, changes_only=changes_only),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._rows.load(pieces["rows"])
        self._ends.load(pieces["ends"])
