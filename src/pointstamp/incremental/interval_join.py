"""The interval join: pairs of rows close in event time, with bounded state.

A row can meet another one until event time has passed the last instant that is close enough. Until then it is
kept, by the lesser bound of both streams; then it is freed, and its pairs are not
back: they have come, and that is all that is asked for.

Invariant: of rows that are in time every pair comes, in the epoch of the later one of them.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions import functions
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.time_windows import Span, event_time_type, span_of
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.updates import Passes
from pointstamp.incremental import operations
from pointstamp.incremental.hash_join import joining
from pointstamp.operators.context import Context


class Appearing:
    """Sends the rows that appear, as often as they do, and none that disappears."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the copies of each row that is added."""
        added = batch.filter(pc.greater(batch.column(DIFF), 0))
        weights = added.column(DIFF).to_numpy()
        context.send(added.drop_columns([DIFF]).take(pa.array(np.repeat(np.arange(len(weights)), weights))))


def pairs_within(
    left: PhysicalStream,
    right: PhysicalStream,
    on: str | Mapping[str, str] | Iterable[str],
    at: str | Mapping[str, str],
    within: Span | tuple[Span, Span],
    suffix: str,
    name: str,
) -> PhysicalStream:
    """The pairs of rows of two tables that only grow, with equal keys and close event times."""
    who = f"'{name}'"
    asked = joining(who, operations.rows_schema(left), operations.rows_schema(right), on, suffix)
    mine, theirs = pair_of_times(who, at)
    check_columns(f"{who}, at= of its left side,", asked.left, [mine])
    check_columns(f"{who}, at= of its right side,", asked.right, [theirs])
    kind, other = asked.left.field(mine).type, asked.right.field(theirs).type
    if event_time_type(f"{who}, of '{mine}',", kind) != event_time_type(f"{who}, of '{theirs}',", other):
        raise SchemaError(
            f"{who}: '{mine}' is {kind} and '{theirs}' is {other}, but both must have one "
            "type. Cast one of them."
        )
    lengths = within if isinstance(within, tuple) else (within, within)
    before, after = (span_of(f"{who}: within", kind, each) for each in lengths)
    if before < 0 or after < 0:
        raise FlowError(f"{who}: within must be durations of 0 or more, got {within!r}. Give larger ones.")
    early, late = (_shifted(col(mine), kind, each) for each in ((lengths[0], -1), (lengths[1], 1)))
    beside = col(asked.added[theirs]) if theirs in asked.added else col(mine)
    close = (beside >= early) & (beside <= late)
    # A row is over when nothing that is close to it can come: one instant after the last that is.
    kept_left = operations.kept_until(
        left, f"{name}: left", col(mine), who, only_grows=True, beside=right, later=after + 1
    )
    kept_right = operations.kept_until(
        right, f"{name}: right", col(theirs), who, only_grows=True, beside=left, later=before + 1
    )
    found = operations.inner_join(kept_left, kept_right, asked, f"{name}: pairs", close)
    # All copies of a row are freed at once, and a join sends no pair of a row that the same epoch deletes.
    outputs = {"out": operations.rows_schema(found)}
    return add_operator(name, Appearing, {"in": found}, outputs, sends=Passes.ROWS)[0]


def pair_of_times(who: str, at: str | Mapping[str, str]) -> tuple[str, str]:
    """The columns of event time on both sides."""
    if isinstance(at, str):
        return at, at
    if len(at) != 1:
        raise FlowError(
            f"{who}: at must be one column, or a mapping of one, got {dict(at)}. Write "
            "at='at' or at={'mine': 'theirs'}."
        )
    return next(iter(at.items()))


def _shifted(time: Expression, kind: pa.DataType, by: tuple[Span, int]) -> Expression:
    """A time that is earlier or later by a length."""
    length, sign = by
    if types.is_integer(kind):
        return time + lit(length) * sign
    if types.is_date32(kind):
        return functions.date_add(time, span_of("within", kind, length) * sign)
    duration = functions.duration(length) if isinstance(length, str | timedelta) else lit(length)
    return time + duration if sign > 0 else time - duration
