"""The operator of growing components: a forest, updated epoch by epoch.

Epochs may overlap on the way in, but the labels have one version. So the operator keeps what comes for a
time, with the capabilities to act on it (Brun et al. 2021, section 4), until that time is complete and so is
every round of the epochs before.

What is saved at a closed epoch is the label of every vertex, twice: for the owner of the vertex, and for the
owner of the label, which has to know who uses its label elsewhere, on however many workers there will be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.graphs.components.edge_pairs import FACTS
from pointstamp.graphs.components.followers import LABELS, followers_of, pairs_of
from pointstamp.graphs.components.forest import Forest
from pointstamp.graphs.components.pairs import Pairs
from pointstamp.ports import Context, Piece
from pointstamp.timely import Capability

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _WaitingEdges:
    """What has come for a time that is not complete yet, and the right to act on it."""

    again: Capability
    labels: Capability
    batches: list[pa.RecordBatch]


class LeastLabels:
    """Takes facts into its forest, round by round of one epoch after the other, and reports each epoch.

    A round is taken in whole, when it is complete. Acting on every batch would be right as well, but each
    would be answered by as many as there are workers: their number would grow by that factor every round.
    """

    outputs: ClassVar = {"again": FACTS, "labels": LABELS}

    def __init__(self) -> None:
        self._forest: Forest | None = None
        self._waiting: dict[tuple[int, int], _WaitingEdges] = {}
        # The right to report the epoch that is being worked on.
        self._report: Capability | None = None

    def on_start(self, context: Context) -> None:
        """Begin without edges."""
        self._forest = Forest(owns_all=context.workers == 1)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The labels of all vertices of this worker, or of those that changed since the last save."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        assert self._report is None, "an epoch has not been reported at a snapshot"
        labels, members, is_whole = self._known().save(changes_only=changes_only)
        return {
            "labels": Piece(pa.table(list(labels), schema=LABELS), ("vertex",), ("vertex",), is_whole),
            "members": Piece(pa.table(list(members), schema=LABELS), ("component",), ("vertex",), is_whole),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the labels of this worker's vertices, and who follows the labels that it owns."""
        self._forest = Forest(owns_all=context.workers == 1)
        labels = pairs_of(pieces["labels"])
        followers = followers_of(labels, pieces["members"], context.worker, context.workers)
        self._forest.restore(labels, followers)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep facts until their time is complete."""
        waiting = self._waiting.get(context.time)
        if waiting is not None:
            waiting.batches.append(batch)
            return
        if not isinstance(context.epoch, int):
            raise FlowError(
                f"operator '{context.operator}' needs epochs, which are totally ordered, but this flow "
                f"has custom times, such as {context.epoch!r}. Use a flow without 'times'."
            )
        again, labels = context.retain(output="again"), context.retain(output="labels")
        self._waiting[context.time] = _WaitingEdges(again, labels, [batch])

    def on_frontier(self, context: Context) -> None:
        """Take in the rounds that are complete, and report the epochs that are."""
        while self._report_epoch(context) or self._take_round(context):
            pass

    def _take_round(self, context: Context) -> bool:
        """Take in the earliest time, if it is settled: nothing of it or of the epochs before can come."""
        time = min(self._waiting, default=None)
        if time is None or not context.is_settled(time):
            return False
        assert self._report is None or self._report.time[0] == time[0]
        waiting = self._waiting.pop(time)
        first, *more = waiting.batches
        facts = pa.concat_batches([first, *more]) if more else first
        told = self._known().absorb(Pairs(*(column.to_numpy() for column in facts.columns)))
        _send(context, "again", FACTS, told, waiting.again)
        waiting.again.drop()
        if self._report is None:
            self._report = waiting.labels
        else:
            waiting.labels.drop()
        return True

    def _report_epoch(self, context: Context) -> bool:
        """Report what an epoch has changed, if nothing of it goes round any more."""
        if self._report is None:
            return False
        # A single worker has told nobody, so it need not wait to hear that nothing is under way.
        if context.workers > 1 and not context.is_complete((self._report.time[0], _LAST_ROUND)):
            return False
        _send(context, "labels", LABELS, self._known().take_changes(), self._report)
        self._report.drop()
        self._report = None
        return True

    def _known(self) -> Forest:
        assert self._forest is not None, "on_start comes first"
        return self._forest


def _send(context: Context, output: str, schema: pa.Schema, pairs: Pairs, capability: Capability) -> None:
    if len(pairs.vertex):
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in pairs], schema=schema)
        context.send(batch, output=output, capability=capability)
