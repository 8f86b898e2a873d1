"""Every row once, outside loops: a row comes out when its first copy appears and goes with its last one.

How often a row is there says all, before and after a change, so that what was sent need not be kept. In loops
it is: ``OnGroups`` does that with the function ``Once``.

Invariant: what was sent up to an epoch, added up, is every row that is there, once.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.open_changes import OpenChanges
from pointstamp.tables.kept.weights import Integers, columns_without_weight
from pointstamp.tables.sharing import Arrangements, TableByKey


class OnRows:
    """Sends the rows that appear and disappear when an epoch is settled; keeps how often each is there."""

    keeps: ClassVar = "every row once, with how often it is there; a change costs its rows"

    def __init__(self, schema: pa.Schema, *, arranged: Mapping[str, TableByKey]) -> None:
        self._rows = Arrangement(schema, columns_without_weight(schema))
        self._arrangements = Arrangements({"rows": self._rows}, arranged)
        self._open = OpenChanges()

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the rows of which the first copy has come, or the last one has gone."""
        for change in self._open.take_runs(context.time, {"in": self._rows.layout}).values():
            before = self._rows.weights_of(change)
            self._rows.add_run(change)
            sent = change.with_weights(self._sent(before, before + change.weights))
            if sent is not None:
                context.send(sent)

    def _sent(self, before: Integers, after: Integers) -> Integers:
        """What is sent for rows that were there so often, and are now."""
        return (after > 0).astype(np.int64) - (before > 0)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows, with their copies, if no other operator keeps them."""
        assert not len(self._open), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker."""
        self._arrangements.load(context.operator, pieces)
