"""Session windows: rows of a key with gaps below a limit.

Two events of a key are in one session when they are at most the gap apart, or when others between them are,
each of the next. A session begins with its first event and ends the gap after its last one. As in Spark, an
event at the end itself is still in it, so a session is over when event time has passed its end.

An event that comes late may join two sessions to one, and one that is deleted may divide one into two: all
events of the key are looked at again, and those whose session is another one now are retracted and resent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD, with_weights
from pointstamp.arrangement.groups import Grouped, distinct, grouped
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.arrangement.time_index import Calendar
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.time_windows import Span, event_time_type, instants_of, integers_of, span_of
from pointstamp.incremental.column_names import check_new_names
from pointstamp.incremental.event_time_filters import copies
from pointstamp.incremental.group_operator import GroupPlan, OnGroups
from pointstamp.operators.context import Context
from pointstamp.operators.watermark import Bounds
from pointstamp.state.pieces import Piece


@dataclass(frozen=True, slots=True)
class Sessions:
    """The function of ``session_window``: from groups to their rows, each with its session."""

    at: str
    gap: int
    result: pa.Schema
    """The columns of the rows, where a session begins and ends, and the weight."""

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """All rows of all groups, with where their sessions begin and end."""
        rows = groups.rows
        group = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=rows.num_rows))
        instants = integers_of(rows.column(self.at)).to_numpy()
        order = np.lexsort([instants, group])
        ordered, owner = instants[order], group[order]
        starts = np.flatnonzero(self._begins(ordered, owner))
        lasts = np.append(starts[1:], len(ordered))[: len(starts)] - 1
        which = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ordered)))
        kind = self.result.field(len(self.result) - 2).type
        begins = pa.array(ordered[starts][which])
        last = pc.add_checked(pa.array(ordered[lasts][which]), pa.scalar(self.gap, pa.int64()))
        taken = rows.take(pa.array(order))
        own = [taken.column(name) for name in self.result.names[:-3]]
        added = [instants_of(begins, kind), instants_of(last, kind), taken.column(DIFF)]
        return pa.RecordBatch.from_arrays([*own, *added], schema=self.result)

    def _begins(
        self, instants: np.typing.NDArray[np.int64], owner: np.typing.NDArray[np.intp]
    ) -> np.typing.NDArray[np.bool_]:
        """Whether a session begins with each of these, which are in order for each owner."""
        begins = np.ones(len(instants), np.bool_)
        # As unsigned numbers, because the difference of the least and the greatest instant is no signed one.
        apart = (instants[1:] - instants[:-1]).view(np.uint64)
        begins[1:] = (owner[1:] != owner[:-1]) | (apart > self.gap)
        return begins


def sessions(who: str, schema: pa.Schema, at: str, gap: Span, names: tuple[str, str]) -> Sessions:
    """Return the checked sessions; raise for a missing or existing column, or an invalid gap."""
    check_columns(who, schema, [at])
    found = schema.field(at).type
    gives = event_time_type(f"{who}, of '{at}',", found)
    length = span_of(f"{who}: gap", found, gap)
    if length < 1:
        raise FlowError(f"{who}: gap must be above 0, got {gap!r}. Give a duration such as '5 minutes'.")
    check_new_names(who, names)
    for name in names:
        if name in schema.names or names[0] == names[1]:
            raise SchemaError(
                f"{who}: the column '{name}' already exists. Choose other names with start= and end=, or "
                "rename it."
            )
    added = [pa.field(name, gives) for name in names]
    return Sessions(at, length, pa.schema([*schema, *added, DIFF_FIELD]))


# Sessions that event time has not passed: those that are over leave the table, and nothing of them is kept.
#
# It is the operator of all sessions, to which the rows of a session that is over are given once more, taken
# away: so it forgets them as it forgets any row that is deleted. When a session is over is noted beside it,
# by key and end.
#
# Invariant: after every epoch with event times, no session is there whose end the bound before that epoch had
# passed.


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


# Sessions where epochs are event time: each comes once, in the epoch in which its gap has passed.
#
# After an epoch nothing before its end can come any more. So a session that ends before is over: its rows are
# sent with where it begins and ends, and are forgotten. For one that is still open the operator asks to be
# told when the epoch is complete in which it ends, unless it grows until then.
#
# Invariant: after every epoch that was handled only rows of sessions are kept that end with it or later.


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
