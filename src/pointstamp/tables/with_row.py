"""A table with one row more, which is there from the first time on and is never taken away.

By it the group of all rows is a group even before the first row comes, and after the last one is gone: SQL
has one row for an aggregate of no rows. A worker that resumes from a snapshot does not send it again; an
operator that is new in a flow starts where the flow continues, and does.
"""

from typing import ClassVar

import pyarrow as pa

from pointstamp.operators.context import Context


class WithRow:
    """Sends a row once, at the least time of all, and then whatever comes."""

    keeps: ClassVar = "nothing; epoch 0 costs a row"

    def __init__(self, row: pa.RecordBatch) -> None:
        self._row = row

    def on_start(self, context: Context) -> None:
        """Send the row, from one worker."""
        if context.worker == 0:
            context.send(self._row)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Pass the batch on."""
        context.send(batch)
