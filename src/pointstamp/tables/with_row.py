"""A table with one row more, which is there from the first time on and is never taken away.

By it the group of all rows is a group even before the first row comes, and after the last one is gone: SQL
has one row for an aggregate of no rows.
"""

from collections.abc import Mapping

import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece


class WithRow:
    """Sends a row once, at the least time of all, and then whatever comes."""

    def __init__(self, row: pa.RecordBatch) -> None:
        self._row = row

    def on_start(self, context: Context) -> None:
        """Send the row, from one worker."""
        if context.worker == 0:
            context.send(self._row)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Pass the batch on."""
        context.send(batch)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Nothing: whoever goes on from a snapshot has the row already."""
        del changes_only
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Go on without sending the row again."""
