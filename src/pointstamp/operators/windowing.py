"""Assign rows to time windows: one row per window.

Nothing is kept: in which windows a row lies depends on the row alone. So a row that is taken back is taken
back from the same windows.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.windows import (
    Span,
    Windows,
    event_time_type,
    instants_of,
    integers_of,
    windows_of,
)
from pointstamp.operators.context import Context


@dataclass(frozen=True, slots=True)
class Windowing:
    """Of which column, which windows, and the columns of the result."""

    at: str
    windows: Windows
    schema: pa.Schema


def windowing(
    who: str,
    schema: pa.Schema,
    at: str,
    lengths: tuple[Span, Span | None, Span | None],
    names: tuple[str, str],
) -> Windowing:
    """Return the checked windows; SchemaError for a missing or existing column."""
    check_columns(who, schema, [at])
    found = schema.field(at).type
    windows = windows_of(f"{who}, of '{at}',", found, *lengths)
    for name in names:
        if name in schema.names or names[0] == names[1]:
            raise SchemaError(
                f"{who}: the column '{name}' already exists. Choose other names with start= and end=, or "
                "rename it."
            )
    gives = event_time_type(who, found)
    return Windowing(at, windows, pa.schema([*schema, *(pa.field(name, gives) for name in names)]))


class InWindows:
    """Sends each row once for each window in which it lies, with its beginning and end."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, asked: Windowing) -> None:
        self._asked = asked

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows of the batch in their windows."""
        windows, schema = self._asked.windows, self._asked.schema
        instants = integers_of(batch.column(self._asked.at))
        there = np.flatnonzero(np.asarray(instants.is_valid()))
        instants = instants.take(pa.array(there))
        since = windows.since_start(instants.to_numpy())
        # The last window of each row, and from there on back those that are still open at it.
        back = since[:, None] + np.arange(windows.count_max, dtype=np.int64) * windows.slide
        which, earlier = np.nonzero(back < windows.size)
        starts = pc.subtract_checked(instants.take(pa.array(which)), pa.array(back[which, earlier]))
        ends = pc.add_checked(starts, pa.scalar(windows.size, pa.int64()))
        rows, own = batch.take(pa.array(there[which])), len(schema) - 2
        added = [instants_of(each, schema.field(own).type) for each in (starts, ends)]
        # A weight, where the rows have one, stays the last column.
        fields = pa.schema([*schema, *list(rows.schema)[own:]])
        columns = [*rows.columns[:own], *added, *rows.columns[own:]]
        context.send(pa.RecordBatch.from_arrays(columns, schema=fields))
