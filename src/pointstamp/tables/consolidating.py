"""Adding up what is sent at one time, before it leaves: every row once, none with the weight 0.

Before a feedback this is what makes loops end: a row that appears and disappears in one round would go round
for ever as two. Before an output it is what a reader may expect: at most one entry for each row and epoch.
"""

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.open_changes import OpenChanges


class Consolidated:
    """Sends the sum of a time's changes when the time is complete."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self) -> None:
        self._open = OpenChanges()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its time is complete."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the sum."""
        for change in self._open.take(context.time).values():
            context.send(change)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Nothing: a time that is complete leaves nothing behind."""
        assert not len(self._open), "changes wait at a snapshot"
        del changes_only
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Begin again."""
