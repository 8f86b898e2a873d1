"""Input items with event time as epochs: rows ordered by the watermark.

After each value that is read, everything before the greatest event time so far, less the lateness, is
complete: these epochs are given, in order, and rows of them that come later are late. At the end of the
input everything is.

Invariant: the times of items never go back, and all rows of an epoch that are in time are in one item.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError
from pointstamp.rows.epochcolumn import EventEpochs, by_epoch
from pointstamp.rows.late import LatePolicy, late_rows
from pointstamp.rows.schema import input_batches
from pointstamp.rows.undeclared import ExtraColumns

_log = logging.getLogger("pointstamp.run")


@dataclass(frozen=True, slots=True)
class LateItem:
    """Rows that are to go to the port for late rows of their input."""

    rows: Any


def by_event_time(
    who: str,
    values: Iterable[Any],
    epochs: EventEpochs,
    schema: pa.Schema,
    late: LatePolicy,
    extra: ExtraColumns = "warn",
) -> Iterator[tuple[int, Any]]:
    """Pairs of an epoch and its rows, in order; late ones as the policy says."""
    waiting: dict[int, list[pa.Table]] = {}
    complete = dropped = 0
    for value in values:
        table = pa.Table.from_batches(input_batches(value, schema, who, extra), schema)
        for epoch, rows in by_epoch(table, epochs, schema, who):
            if epoch >= complete:
                waiting.setdefault(epoch, []).append(rows)
            elif late == "output":
                yield complete, LateItem(late_rows(rows, epoch))
            elif late == "drop":
                dropped += rows.num_rows
            else:
                raise FlowError(
                    f"{who} has rows of epoch {epoch}, by their event time '{epochs.at}', after the "
                    f"watermark had reached epoch {complete}. Allow a greater lateness, or declare the "
                    "input with late='output' or late='drop'."
                )
        latest = pc.max(epochs.instants(table)).as_py()
        if latest is not None:
            complete = max(complete, epochs.complete_by(latest))
        for epoch in sorted(each for each in waiting if each < complete):
            yield epoch, pa.concat_tables(waiting.pop(epoch))
    for epoch in sorted(waiting):
        yield epoch, pa.concat_tables(waiting[epoch])
    if dropped:
        _log.warning("%s: %s rows arrived too late and were dropped", who, dropped)
