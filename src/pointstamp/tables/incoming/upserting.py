"""Upserts: rows that replace the row with their key, or delete it; they become a table by key.

Of several rows of a key in one epoch the last one counts, by a column that the user names. Where no such
column is named, or two rows are equal in it, nobody can say which one counts, and the epoch is refused.
A row that deletes a key that is not there changes nothing: it says how things are, and they are so.

Invariant: at every epoch there is at most one row of each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError
from pointstamp.keyed.index import KeyIndex
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.open_changes import added_up
from pointstamp.tables.kept.ordering import Ordered, ranks
from pointstamp.tables.kept.weights import DIFF, with_weights
from pointstamp.topology.domain import Time


@dataclass(frozen=True, slots=True)
class UpsertPlan:
    """Which columns are the key, which one orders the rows of an epoch, which one marks deletions."""

    key: tuple[str, ...]
    order: str | None
    deleted: str | None
    result: pa.Schema
    """The columns of the table, and the weight."""


class Upserts:
    """Sends how the table changes by the upserts of an epoch; keeps the row of each key."""

    keeps: ClassVar = "the row of each key; a change costs its rows"

    def __init__(self, plan: UpsertPlan) -> None:
        self._plan = plan
        self._rows = Arrangement(plan.result, plan.key)
        self._open: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        self._open.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Replace what the rows of the epoch replace."""
        last = self._last(context, pa.concat_batches(self._open.pop(context.time)))
        before = self._rows.rows_of(last, self._plan.key)
        after = self._there(last)
        change = added_up([after, with_weights(before, -before.column(DIFF).to_numpy())])
        self._rows.add(change)
        context.send(change)

    def _last(self, context: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The row of each key that counts."""
        index = KeyIndex(batch.select(list(self._plan.key)).schema)
        slots = index.slots(batch.select(list(self._plan.key)))
        rank = np.zeros(batch.num_rows, np.int64)
        if self._plan.order is not None:
            rank = ranks(batch, [Ordered(self._plan.order)])[0]
        order = np.lexsort([rank, slots])
        is_last = np.append(slots[order][1:] != slots[order][:-1], True)
        ties = np.flatnonzero(~is_last[:-1] & is_last[1:] & (rank[order][1:] == rank[order][:-1]))
        if len(ties):
            self._refuse(context, batch, order[ties[0] : ties[0] + 2])
        return batch.take(pa.array(order[is_last]))

    def _refuse(self, context: Context, batch: pa.RecordBatch, pair: npt.NDArray[np.intp]) -> None:
        one, other = batch.take(pa.array(pair)).to_pylist()
        order = self._plan.order
        lack = "no order= is named" if order is None else f"they are equal in '{order}'"
        raise FlowError(
            f"operator '{context.operator}': epoch {context.epoch} has two rows with one key, {one} and "
            f"{other}, and {lack}, so that nobody can say which one counts. Name a column that orders the "
            "rows of a key, or send them in different epochs."
        )

    def _there(self, last: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are there after it, with weights."""
        if self._plan.deleted is not None:
            last = last.filter(pc.invert(pc.fill_null(last.column(self._plan.deleted), False)))
        own = [last.column(name) for name in self._plan.result.names if name != DIFF]
        ones = pa.array(np.ones(last.num_rows, np.int64))
        return pa.RecordBatch.from_arrays([*own, ones], schema=self._plan.result)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The row of each key."""
        assert not self._open, "rows wait at a snapshot"
        return {"rows": self._rows.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Go on with the rows of this worker's keys."""
        self._rows.load(pieces["rows"])
