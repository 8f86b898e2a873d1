"""Upserts: rows that replace or delete the row of their key.

With an order column the row with the greatest order value wins, in whichever epoch it arrives. So the table
is a function of the rows alone: it does not depend on how they are split into files and epochs. To that end
a deleted key leaves a *tombstone*: its key and the order value of the deletion, by which older rows lose.
Rows of a key with one order value are ordered, too: a deletion wins, and otherwise the row that is greatest
by its columns from left to right.

A tombstone can be freed when no older row can arrive any more, that is, when the order column is event time
and the watermark has passed it. Else it is kept.

Without an order column the row of the latest epoch wins, and an epoch that has two rows of a key is rejected.
A row that deletes a key that is not there changes nothing.

Invariant: at every epoch there is at most one row of each key, and in an order it is the greatest so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD, columns_without_weight, with_weights
from pointstamp.arrangement.open_changes import added_up
from pointstamp.arrangement.ordering import Ordered, ranks
from pointstamp.arrangement.time_index import Calendar
from pointstamp.arrow.arrays import floats_in, with_one_zero
from pointstamp.arrow.key_index import KeyIndex
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.expressions.time_windows import integers_of
from pointstamp.operators.context import Context
from pointstamp.operators.watermark import Bounds
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time


@dataclass(frozen=True, slots=True)
class UpsertPlan:
    """Which columns are the key, which one orders the rows of a key, which one marks deletions."""

    key: tuple[str, ...]
    order: str | None
    deleted: str | None
    result: pa.Schema
    """The columns of the table, and the weight."""

    def split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows of a batch that are to be there, and those that delete."""
        if self.deleted is None:
            return batch, batch.slice(0, 0)
        is_deleted = pc.fill_null(batch.column(self.deleted), False)
        return batch.filter(pc.invert(is_deleted)), batch.filter(is_deleted)


def _received(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as a table may hold them."""
    floats = floats_in(batch.schema)
    if not floats:
        return batch
    return pa.RecordBatch.from_arrays(with_one_zero(batch.columns, floats), schema=batch.schema)


class Upserts:
    """Sends how the table changes by the upserts of an epoch; keeps the row of each key."""

    keeps: ClassVar = "the row of each key; a change costs its rows"

    def __init__(self, plan: UpsertPlan) -> None:
        self._plan = plan
        self._rows = Arrangement(plan.result, plan.key)
        self._open: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        self._open.setdefault(context.time, []).append(_received(batch))
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Replace what the rows of the epoch replace."""
        batch = pa.concat_batches(self._open.pop(context.time))
        self._check(context, batch)
        before = self._rows.rows_of(batch, self._plan.key)
        there, _ = self._plan.split(batch)
        own = [there.column(name) for name in columns_without_weight(self._plan.result)]
        ones = pa.array(np.ones(there.num_rows, np.int64))
        after = pa.RecordBatch.from_arrays([*own, ones], schema=self._plan.result)
        change = added_up([after, _negated(before)])
        self._rows.add(change)
        context.send(change)

    def _check(self, context: Context, batch: pa.RecordBatch) -> None:
        """Reject two rows of one key, of which neither is the later one."""
        slots = _slots(batch, self._plan.key)
        order = np.argsort(slots, kind="stable")
        twice = np.flatnonzero(slots[order][1:] == slots[order][:-1])
        if not len(twice):
            return
        one, other = batch.take(pa.array(order[twice[0] : twice[0] + 2])).to_pylist()
        raise FlowError(
            f"operator '{context.operator}': epoch {context.epoch} has two rows with one key, {one} and "
            f"{other}, and no order= to choose the later one. Name a column with order=, or send the rows "
            "in different epochs."
        )

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The row of each key."""
        assert not self._open, "rows wait at a snapshot"
        return {"rows": self._rows.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._rows.load(pieces["rows"])


class OrderedUpserts:
    """Sends how the greatest row of each key changes; keeps it, or a tombstone where it deletes."""

    keeps: ClassVar = (
        "the row of each key, with its order value, and a tombstone (key and order value) of each deleted "
        "key forever; a change costs its rows"
    )

    def __init__(self, plan: UpsertPlan) -> None:
        assert plan.order is not None
        self._plan = plan
        self._order = plan.order
        self._mark = "is tombstone"
        while self._mark in plan.result.names:
            self._mark += "_"
        fields = [*list(plan.result)[:-1], pa.field(self._mark, pa.bool_())]
        self._kept_schema = pa.schema([*fields, DIFF_FIELD])
        self._newest = Arrangement(self._kept_schema, plan.key)
        self._open: dict[Time, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their epoch is settled."""
        self._open.setdefault(context.time, []).append(_received(batch))
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Replace what the rows of the epoch replace."""
        self._apply(context, pa.concat_batches(self._open.pop(context.time)))

    def _apply(self, context: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Send and keep what changes by some rows; the change with its tombstones."""
        stored = added_up([self._newest.rows_of(_one_of_each_key(batch, self._plan.key), self._plan.key)])
        there, deleted = self._plan.split(batch)
        newest = self._greatest(pa.concat_batches([stored, self._as_kept(there), self._tombstones(deleted)]))
        change = added_up([newest, _negated(stored)])
        self._newest.add(change)
        context.send(change.filter(pc.invert(change.column(self._mark))).select(self._plan.result.names))
        return change

    def _greatest(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The greatest row of each key: by the order value, then a deletion, then by all columns."""
        slots = _slots(rows, self._plan.key)
        by = [slots, ranks(rows, [Ordered(self._order)])[0], _flags(rows.column(self._mark))]
        order = np.lexsort(by[::-1])
        is_last = np.append(slots[order][1:] != slots[order][:-1], True)
        same = np.logical_and.reduce([each[order][1:] == each[order][:-1] for each in by])
        if (same & is_last[1:]).any():
            names = columns_without_weight(self._plan.result)
            order = np.lexsort([*ranks(rows, [Ordered(name) for name in names])[::-1], *by[::-1]])
        return rows.take(pa.array(order[is_last]))

    def _as_kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that are to be there, as they are kept."""
        own = [rows.column(name) for name in columns_without_weight(self._plan.result)]
        return self._marked(own, rows.num_rows, is_deleted=False)

    def _tombstones(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that delete, as they are kept: of the columns, only the key and the order value."""
        told = {*self._plan.key, self._order}
        own = [
            rows.column(field.name) if field.name in told else pa.nulls(rows.num_rows, field.type)
            for field in list(self._plan.result)[:-1]
        ]
        return self._marked(own, rows.num_rows, is_deleted=True)

    def _marked(self, columns: list[pa.Array], count: int, *, is_deleted: bool) -> pa.RecordBatch:
        marks = pa.array(np.full(count, is_deleted))
        ones = pa.array(np.ones(count, np.int64))
        return pa.RecordBatch.from_arrays([*columns, marks, ones], schema=self._kept_schema)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The greatest row of each key."""
        assert not self._open, "rows wait at a snapshot"
        return {"newest": self._newest.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        if "newest" not in pieces:
            raise RecoveryError(
                f"operator '{context.operator}': the snapshot of an earlier version has no tombstones of "
                "deleted keys, so older rows could reinsert them. Start with a new checkpoint and a new "
                "output."
            )
        self._newest.load(pieces["newest"])


class TimedUpserts(OrderedUpserts):
    """Frees a tombstone when the watermark has passed its order value, which is event time."""

    keeps: ClassVar = (
        "the row of each key, with its order value, and a tombstone (key and order value) of each deleted "
        "key until the watermark passes it; a change costs its rows"
    )

    def __init__(self, plan: UpsertPlan, lateness: Mapping[str, int]) -> None:
        super().__init__(plan)
        self._bounds = Bounds(lateness)
        names = dict.fromkeys([*plan.key, self._order])
        self._deleted = Calendar(pa.schema([*(plan.result.field(name) for name in names), DIFF_FIELD]))

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep what arrived until its epoch is settled."""
        if input not in self._bounds:
            super().on_receive(context, input, batch)
            return
        self._bounds.put(context.time, input, batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Replace what the rows of the epoch replace, and free the tombstones that it passes."""
        if context.time in self._open:
            super().on_notify(context)
        self._bounds.take(context.time)
        # A tombstone at the watermark itself is needed: a row with this order value can still arrive.
        passed = None if self._bounds.now is None else self._deleted.take(self._bounds.now - 1)
        if passed is not None:
            self._newest.add(_negated(self._tombstones(passed)))

    def _apply(self, context: Context, batch: pa.RecordBatch) -> pa.RecordBatch:
        nulls = batch.filter(pc.is_null(batch.column(self._order)))
        if nulls.num_rows:
            raise FlowError(
                f"operator '{context.operator}': the row {nulls.slice(0, 1).to_pylist()[0]} of epoch "
                f"{context.epoch} has null in '{self._order}', which orders the rows of a key and is "
                "event time. Filter such rows out upstream."
            )
        change = super()._apply(context, batch)
        deletions = change.filter(change.column(self._mark))
        self._deleted.add(deletions, integers_of(deletions.column(self._order)).to_numpy())
        return change

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """As without event time; and the tombstones by their time, and what is known of event times."""
        deleted = self._deleted.save(self._plan.key, changes_only=changes_only)
        bounds = Piece(self._bounds.saved(), ())
        return {**super().save(changes_only=changes_only), "deleted": deleted, "bounds": bounds}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with all of it."""
        super().restore(context, pieces)
        self._deleted.load(pieces["deleted"])
        self._bounds.load(pieces["bounds"])


def _slots(rows: pa.RecordBatch, key: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """A number for each row: the same for rows of one key."""
    keys = rows.select(list(key))
    return np.asarray(KeyIndex(keys.schema).slots(keys), np.int64)


def _one_of_each_key(rows: pa.RecordBatch, key: tuple[str, ...]) -> pa.RecordBatch:
    """One row of each key that a batch has."""
    firsts = np.unique(_slots(rows, key), return_index=True)[1]
    return rows if len(firsts) == rows.num_rows else rows.take(pa.array(firsts))


def _flags(marks: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(marks.to_numpy(zero_copy_only=False), np.int64)


def _negated(rows: pa.RecordBatch) -> pa.RecordBatch:
    return with_weights(rows, -rows.column(DIFF).to_numpy())
