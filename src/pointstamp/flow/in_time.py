"""Rows that are in time, and what becomes of those that are late.

The rows of an epoch are held until the epoch is complete, and are then judged by the bound of the epochs
before it (``pointstamp.operators.event_time``). So which rows are late is the same on any number of workers,
whatever arrives first, and whoever reads the rows again finds the same late ones.

Invariant: no row that is sent on lies before the bound of the epochs before its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError
from pointstamp.expressions.windows import instants_of, integers_of
from pointstamp.operators.context import Context
from pointstamp.operators.event_time import Bounds
from pointstamp.rows.late import LatePolicy
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time

BOUND: Final = "event times"
"""The input at which the greatest event times arrive."""

LATE_COUNT: Final = pa.schema({"stream": pa.string(), "rows": pa.int64()})
"""What is emitted of late rows that are dropped: how many they were."""


@dataclass(frozen=True, slots=True)
class InTimePlan:
    """Which column is the event time of a stream, how late it may be, and what becomes of late rows."""

    stream: str
    at: str
    kind: pa.DataType
    lateness: int
    late: LatePolicy
    together: tuple[Mapping[str, int], ...] = ()
    """The streams with which it is waited for, where it may fall silent: how late each may be, by input."""


class InTime:
    """Sends the rows of an epoch that are in time when the epoch is complete, and the others apart."""

    keeps: ClassVar = "the greatest event time; a change costs its rows"

    def __init__(self, plan: InTimePlan) -> None:
        self._plan = plan
        self._bounds = [Bounds(each) for each in ({BOUND: plan.lateness}, *plan.together)]
        self._rows: dict[Time, list[pa.RecordBatch]] = {}
        self._late_rows = 0
        self.rows_late = 0
        """How many late rows there were up to the last snapshot."""

    @property
    def event_time_latest(self) -> int | None:
        """The greatest event time of all complete epochs; None before the first."""
        bound = self._bounds[0].now
        return None if bound is None else bound + self._plan.lateness

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        if input == "in":
            self._rows.setdefault(context.time, []).append(batch)
        for bounds in self._bounds:
            if input in bounds:
                bounds.put(context.time, input, batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Judge the rows of the epoch by the bound of those before it."""
        # That of the stream itself, unless others have continued while it was silent.
        bound = max((now for each in self._bounds if (now := each.now) is not None), default=None)
        for batch in self._rows.pop(context.time, []):
            if bound is None:
                context.send(batch)
                continue
            is_late = pc.fill_null(pc.less(integers_of(batch.column(self._plan.at)), bound), False)
            context.send(batch.filter(pc.invert(is_late)))
            late = batch.filter(is_late)
            if late.num_rows:
                self._late_rows += late.num_rows
                self._send_late(context, late, bound)
        for each in self._bounds:
            each.take(context.time)

    def _send_late(self, context: Context, rows: pa.RecordBatch, bound: int) -> None:
        plan = self._plan
        if plan.late == "error":
            passed = instants_of(pa.array([bound]), plan.kind)[0]
            raise FlowError(
                f"operator '{context.operator}' came in epoch {context.epoch} to the row "
                f"{rows.slice(0, 1).to_pylist()[0]}, which is late: by the lateness that was promised, "
                f"no '{plan.at}' before {passed} was to come any more. Promise a greater lateness, or say "
                "late='output' or late='drop'."
            )
        if plan.late == "output":
            context.send(rows, output="late")
            return
        counted = [pa.array([plan.stream]), pa.array(np.array([rows.num_rows], np.int64))]
        context.send(pa.RecordBatch.from_arrays(counted, schema=LATE_COUNT), output="late")

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """What is known of event times: every worker knows the same."""
        assert not self._rows, "rows wait at a snapshot"
        del changes_only
        self.rows_late = self._late_rows
        return {name: Piece(each.saved(), ()) for name, each in self._named_bounds()}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with what was known."""
        for name, each in self._named_bounds():
            each.load(pieces[name])

    def _named_bounds(self) -> Iterator[tuple[str, Bounds]]:
        for number, each in enumerate(self._bounds):
            yield f"bounds {number}" if number else "bounds", each
