"""An operator that starts from scratch at every time: one instance for each, freed with the time.

So an operator that keeps what all times so far add up to sees the rows of one time by themselves, and what a
table does over all epochs a stream does within one. Nothing of it is saved: at a closed epoch there is none.

Invariant: an operator is given the batches of one time, and is notified of that time alone.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time


class Afresh:
    """Runs a fresh operator for each time."""

    keeps: ClassVar = "nothing after an epoch, which costs its rows"

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._open: dict[Time, Any] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Hand the batch to the operator of its time."""
        if context.time not in self._open:
            self._open[context.time] = self._make()
        self._open[context.time].on_receive(context, input, batch)

    def on_notify(self, context: Context) -> None:
        """Let the operator of the time send what it has to, and forget it."""
        operator = self._open.pop(context.time, None)
        if operator is not None:
            operator.on_notify(context)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Nothing: what has come of a time is gone when it is complete."""
        del changes_only
        assert not self._open, f"times {list(self._open)} are open at a snapshot"
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Begin again."""
