"""Filters by event time: retain rows until the watermark, or emit them at it.

``KeptUntil`` is a filter whose condition is event time itself: a row is in the table as long as the time that
it says lies after the bound. So everything behind it, joins and groups, forgets what is over as it forgets
any row that is deleted. ``PhysicalEmitOnClose`` waits: it sends each row once, as it is when the bound
reaches its time, and nothing that happens to it later.

Both go together. Rows leave a table one epoch after the bound has passed them, in the next that has event
times: in the epoch in which the bound passes the end of a window all its rows are still there, and its result
comes out. When they leave, ``PhysicalEmitOnClose`` looks the other way, for it knows that the window is over.

Invariant: a row comes out of ``PhysicalEmitOnClose`` in the one epoch after which the bound first is not
before its time; where rows only come and never change, one that comes after its time comes out at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.consolidate import DIFF, Integers, columns_without_weight, with_weights
from pointstamp.arrangement.open_changes import added_up
from pointstamp.arrangement.time_index import Calendar
from pointstamp.errors import InternalError
from pointstamp.expressions.compiler import Compiled
from pointstamp.expressions.time_windows import integers_of
from pointstamp.operators.context import Context
from pointstamp.operators.watermark import Bounds
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time


@dataclass(frozen=True, slots=True)
class UntilPlan:
    """The rows of a table, the event time for which each waits, and how late each stream may be."""

    schema: pa.Schema
    when: Compiled
    lateness: Mapping[str, int]
    only_grows: bool = False
    """Whether rows are only inserted: a row that arrives after its time is not a correction then."""
    later: int = 0
    """How much later than its time a row is over, in the unit of event time."""


class AwaitsEventTime:
    """What both have in common: changes and event times come in, and rows wait."""

    keeps: ClassVar = "the rows that event time has not passed; a change costs its rows"

    def __init__(self, plan: UntilPlan) -> None:
        self._plan = plan
        self._bounds = Bounds(plan.lateness)
        self._rows = Calendar(plan.schema, only_grows=plan.only_grows)
        self._open: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what came until its epoch is settled."""
        if input in self._bounds:
            self._bounds.put(context.time, input, batch)
        else:
            self._open.setdefault(context.time, []).append(batch)
        context.notify_at()

    def _arrived(self, time: Time, after: int | None) -> tuple[pa.RecordBatch, Integers] | None:
        """The change of an epoch, of rows that wait for a time after this one, and their times."""
        arrived = self._open.pop(time, [])
        if not arrived:
            return None
        change = pa.concat_batches(arrived) if self._plan.only_grows else added_up(arrived)
        until = pc.add_checked(integers_of(self._plan.when(change)), pa.scalar(self._plan.later, pa.int64()))
        kept = until.is_valid() if after is None else pc.fill_null(pc.greater(until, after), False)
        return change.filter(kept), until.filter(kept).to_numpy()

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows that wait, and what is known of event times."""
        assert not self._open, "changes wait at a snapshot"
        owners = columns_without_weight(self._plan.schema)
        return {
            "rows": self._rows.save(owners, changes_only=changes_only),
            "bounds": Piece(self._bounds.saved(), ()),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker, and with what all know of event times."""
        self._rows.load(pieces["rows"])
        self._bounds.load(pieces["bounds"])


class PhysicalEmitOnClose(AwaitsEventTime):
    """Sends each row once, as often as it is there, when event time has passed what it waits for."""

    def on_notify(self, context: Context) -> None:
        """Take the change of the epoch, and send what is over after it."""
        arrived = self._arrived(context.time, None if self._plan.only_grows else self._bounds.now)
        if arrived is not None:
            self._rows.add(*arrived)
        self._bounds.take(context.time)
        bound = self._bounds.now
        over = None if bound is None else self._rows.take(bound)
        if over is not None:
            context.send(copies(over))


class KeptUntil(AwaitsEventTime):
    """Sends rows on, and takes them back when event time has passed what they wait for."""

    def __init__(self, plan: UntilPlan) -> None:
        super().__init__(plan)
        self._applied: int | None = None
        """The bound by which rows are there or not: that before the last epoch with event times."""

    def on_notify(self, context: Context) -> None:
        """Take back what is over, and send the change of the epoch that is not."""
        before = self._bounds.now
        if self._bounds.take(context.time) and before is not None:
            self._applied = before
            over = self._rows.take(before)
            if over is not None:
                context.send(with_weights(over, -over.column(DIFF).to_numpy()))
        arrived = self._arrived(context.time, self._applied)
        if arrived is not None and arrived[0].num_rows:
            self._rows.add(*arrived)
            # What goes and what comes have other times, so that no row is among both.
            context.send(arrived[0])

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """As every one that waits, and the bound that was applied."""
        applied = [] if self._applied is None else [self._applied]
        table = pa.table({"applied": pa.array(applied, pa.int64())})
        return {**super().save(changes_only=changes_only), "applied": Piece(table, ())}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with all of it."""
        super().restore(context, pieces)
        applied = pieces["applied"].column("applied").to_pylist()
        self._applied = applied[0] if applied else None


def copies(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Each row as often as its weight says."""
    weights = rows.column(DIFF).to_numpy()
    if (weights < 0).any():
        row = rows.slice(int(np.flatnonzero(weights < 0)[0]), 1).to_pylist()[0]
        raise InternalError(f"a row would be emitted with a negative multiplicity: {row}.")
    own = rows.select(columns_without_weight(rows.schema))
    return own if (weights == 1).all() else own.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
