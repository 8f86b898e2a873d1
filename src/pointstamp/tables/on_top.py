"""The first rows of keys, kept up to date outside loops: a change costs what the first rows do, not the key.

In loops, where a key is looked at at every round of its rows, all of them are looked at: ``OnGroups`` does
that with the function ``First``.

Invariant: what was sent up to an epoch, added up, is the first rows of each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.columns import as_batch
from pointstamp.tables.kept.ends import Ends, changed_ends
from pointstamp.tables.kept.open_changes import OpenChanges, added_up
from pointstamp.tables.kept.run import Run, run_of
from pointstamp.tables.kept.run_keys import groups_of
from pointstamp.tables.kept.weights import DIFF, Integers, with_weights
from pointstamp.tables.sharing import Arrangements, TableByKey
from pointstamp.tables.top import First, starts_of


@dataclass(frozen=True, slots=True)
class TopPlan:
    """By which columns rows are grouped, and which of them are wanted."""

    schema: pa.Schema
    keys: tuple[str, ...]
    first: First


class OnTop:
    """Sends how the first rows of keys change when an epoch is settled; keeps all rows, in order."""

    keeps: ClassVar = "all rows, in order by key; a change costs its rows and the first rows of their keys"

    def __init__(self, plan: TopPlan, *, arranged: Mapping[str, TableByKey]) -> None:
        self._first = plan.first
        self._rows = Arrangement(plan.schema, plan.keys, order=plan.first.by[0])
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
        """Look at the first rows of the keys that changed."""
        for change in self._open.take_runs(context.time, {"in": self._rows.layout}).values():
            sent = self._sent(change)
            self._rows.add_run(change)
            if sent is not None:
                context.send(sent)

    def _sent(self, change: Run) -> pa.RecordBatch | None:
        """Return how the first rows change."""
        parts = []
        firsts, group = groups_of(change)
        for ends in changed_ends(self._rows, change, firsts, change, group, self._first.count):
            parts.extend(self._changed(ends))
        return pa.concat_batches(parts) if parts else None

    def _changed(self, ends: Ends) -> list[pa.RecordBatch]:
        """What comes and goes."""
        order, is_new = ends.in_order(self._first.by)
        starts = starts_of(ends.group[order])
        was, was_before = self._first.kept(ends.before[order], starts, is_new)
        now, now_before = self._first.kept(ends.after[order], starts, is_new)
        if self._first.rank is None:
            at = (was != now).nonzero()[0]
            if not len(at):
                return []
            rows = ends.rows.columns(order[at])
            return [as_batch([*rows, now[at] - was[at]], self._first.result)]
        gone = self._made(ends, order, was, was_before)
        new = self._made(ends, order, now, now_before)
        return [added_up([new, with_weights(gone, -gone.column(DIFF).to_numpy())])]

    def _made(
        self, ends: Ends, order: np.typing.NDArray[np.intp], kept: Integers, before: Integers
    ) -> pa.RecordBatch:
        at = np.flatnonzero(kept)
        rows = ends.rows.taken(order[at])
        return self._first.made(rows, np.arange(len(at)), kept[at], before[at])

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows, if no other operator keeps them."""
        assert not len(self._open), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._arrangements.load(context.operator, pieces)


class OnFirstOnly(OnTop):
    """The same for a table that never loses a row: a row that is not among the first never will be."""

    keeps: ClassVar = "the first rows of each key, and no others; a change costs its rows and these"

    def on_notify(self, context: Context) -> None:
        """Look at the first rows of the keys that changed, and keep how they change."""
        for change in self._open.take_runs(context.time, {"in": self._rows.layout}).values():
            sent = self._sent(change)
            if sent is not None:
                self._rows.add_run(run_of(sent, self._rows.layout))
                context.send(sent)
