"""The label propagation operator: votes round by round, output by epoch.

A vertex votes again in round i if its links have changed, or the label of a neighbour in the round before;
its neighbors receive the new label in the next round. Links are the same in both directions, so the links by
which a vertex hears are those along which it tells. Labels are a function of the graph as it is now
(``round_labels``), so nothing in them depends on the past.

A worker knows the labels of its vertices and of their neighbours.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy.typing as npt
import pyarrow as pa

from pointstamp.graphs.arrays.columns import batch_of
from pointstamp.graphs.communities.round_labels import RoundLabels
from pointstamp.ports import Context, Piece

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62
_TOLD: Final = pa.schema([("to", pa.int64()), ("of", pa.int64()), ("label", pa.int64())])
_LABELS: Final = pa.schema([("id", pa.int64()), ("label", pa.int64()), ("diff", pa.int64())])


class CountVotes:
    """Takes changes of ``ids`` and ``links``; emits ``again`` (messages to neighbors) and ``labels``."""

    takes_times_in_order = True

    def __init__(self, rounds: int) -> None:
        self.outputs = {"again": _TOLD, "labels": _LABELS}
        self._rounds = rounds
        self._labels = RoundLabels(rounds)
        self._waiting: dict[Any, dict[str, list[pa.RecordBatch]]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what comes until its round is complete."""
        self._waiting.setdefault(context.time, {}).setdefault(input, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Let those vote who have reason to; after the last round report the epoch."""
        epoch, now = context.time
        labels = self._labels
        if now == _LAST_ROUND:
            self._send(context, "labels", *labels.take_report())
            return
        came = self._waiting.pop(context.time, {})
        if now == 0:
            labels.change(came)
        voters = labels.hear(now, came.get("again", ()))
        changed = labels.vote(now, voters)
        while context.workers == 1 and (now := now + 1) < self._rounds:
            changed = labels.vote(now, labels.beside(changed))
        if context.workers > 1 and now + 1 < self._rounds:
            self._send(context, "again", *labels.told(now + 1, changed))
            if len(labels.relinked):
                context.notify_at((epoch, now + 1))
        context.notify_at((epoch, _LAST_ROUND))

    def _send(self, context: Context, output: str, *columns: npt.NDArray[Any]) -> None:
        if len(columns[0]):
            context.send(batch_of(self.outputs[output], *columns), output=output)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The labels that this worker knows, and the links of its vertices; all, or what changed."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        return self._labels.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the labels that were known; those that the owners of vertices saved count."""
        self._labels.restore(pieces, context.worker, context.workers)
