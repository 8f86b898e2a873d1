"""Sessions that event time has not passed: those that are over leave the table, and nothing of them is kept.

It is the operator of all sessions, to which the rows of a session that is over are given once more, taken
away: so it forgets them as it forgets any row that is deleted. When a session is over is noted beside it, by
key and end.

Invariant: after every epoch with event times, no session is there whose end the bound before that epoch had
passed.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.expressions.windows import integers_of
from pointstamp.operators.context import Context
from pointstamp.operators.event_time import Bounds
from pointstamp.state.pieces import Piece
from pointstamp.tables.grouping import GroupPlan, OnGroups
from pointstamp.tables.kept.calendar import Calendar
from pointstamp.tables.kept.groups import distinct
from pointstamp.tables.kept.open_changes import added_up
from pointstamp.tables.kept.weights import DIFF, with_weights


class OpenSessions(OnGroups):
    """Sends how the sessions of keys change, and takes those back that event time has passed."""

    keeps: ClassVar = (
        "the rows of open sessions, by key, and what it has sent; a change costs those of its keys"
    )

    def __init__(self, plan: GroupPlan, lateness: Mapping[str, int]) -> None:
        super().__init__(plan)
        self._bounds = Bounds(lateness)
        self._end = plan.result.names[-2]
        own = [plan.result.field(key) for key in plan.keys]
        self._ends = Calendar(pa.schema([*own, plan.result.field(DIFF)]))

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what came until its epoch is settled."""
        if input in self._bounds:
            self._bounds.put(context.time, input, batch)
            context.notify_at()
        else:
            super().on_receive(context, input, batch)

    def on_notify(self, context: Context) -> None:
        """Take the rows away whose sessions are over, and look at the keys that may have changed."""
        before = self._bounds.now
        if self._bounds.take(context.time) and before is not None:
            over = self._ends.take(before - 1)
            if over is not None:
                self._open.put(context.time, "in", self._taken_away(over, before))
        super().on_notify(context)

    def _taken_away(self, over: pa.RecordBatch, bound: int) -> pa.RecordBatch:
        """The rows of the sessions of these keys that end before a bound, to be deleted."""
        keys = list(self._plan.keys)
        rows = added_up([self._sent.rows_of(distinct(over.select(keys)), keys)])
        ended = rows.filter(pc.less(integers_of(rows.column(self._end)), bound))
        return with_weights(ended.select(self._plan.schema.names), -ended.column(DIFF).to_numpy())

    def _send(self, context: Context, change: pa.RecordBatch) -> None:
        until = integers_of(change.column(self._end)).to_numpy()
        self._ends.add(change.select([*self._plan.keys, DIFF]), np.asarray(until, np.int64))
        super()._send(context, change)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """As for all sessions, and when those that are open end."""
        return {
            **super().save(changes_only=changes_only),
            "ends": self._ends.save(self._plan.keys, changes_only=changes_only),
            "bounds": Piece(self._bounds.saved(), ()),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with all of it."""
        super().restore(context, pieces)
        self._ends.load(pieces["ends"])
        self._bounds.load(pieces["bounds"])
