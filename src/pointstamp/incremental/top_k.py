"""Top-k: the first rows of each group in an order, with or without ties.

A row that is there three times is three rows: of the first two, two copies come out. Without ties every row
has a place of its own (SQL's ``row_number``), and what the order leaves open is decided by all columns from
left to right, so that the answer depends on the rows alone. With ties rows that the order holds for equal
share a place (``rank``), and come out together or not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.column_arrays import as_batch
from pointstamp.arrangement.consolidate import DIFF, Integers, columns_without_weight, with_weights
from pointstamp.arrangement.groups import Grouped, grouped, groups_of
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.arrangement.ordering import Ordered, ranks
from pointstamp.arrangement.run import Run, run_of
from pointstamp.arrangement.top_rows import Ends, changed_ends
from pointstamp.arrow import runs as kernels
from pointstamp.incremental.shared_arrangements import Arrangements, TableByKey
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece


@dataclass(frozen=True, slots=True)
class First:
    """The function of ``top``: from groups to their first rows."""

    count: int
    by: tuple[Ordered, ...]
    ties: bool
    rank: str | None
    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """The first rows of each group, with weights, and their places if these are asked for."""
        rows = groups.rows
        group = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=rows.num_rows))
        wanted = ranks(rows, self.by)
        order = np.lexsort([*reversed(wanted), group])
        is_new = _is_new([group[order], *(each[order] for each in wanted)])
        if not is_new.all():
            # What the order holds for equal stays together, so that is_new is the same.
            rest = ranks(rows, [Ordered(name) for name in columns_without_weight(rows.schema)])
            order = np.lexsort([*reversed(rest), *reversed(wanted), group])
        weights: Integers = rows.column(DIFF).to_numpy()[order]
        kept, before = self.kept(weights, group[order], is_new)
        at = np.flatnonzero(kept > 0)
        return self.made(rows, order[at], kept[at], before[at])

    def kept(
        self, weights: Integers, group: npt.NDArray[np.intp], is_new: npt.NDArray[np.bool_]
    ) -> tuple[Integers, Integers]:
        """Of rows in order: how many copies of each come out, and how many stand before it.

        ``is_new`` says which rows differ from the one before, by group and in the order's columns.
        """
        return kernels.first_of_groups(group, is_new if self.ties else None, weights, self.count)

    def made(
        self, rows: pa.RecordBatch, positions: npt.NDArray[np.intp], weights: Integers, before: Integers
    ) -> pa.RecordBatch:
        """Rows at some positions with these weights, and with their places if these are asked for."""
        places = before + 1
        if self.rank is not None and not self.ties:
            # Each copy has a place of its own.
            firsts = np.repeat(np.cumsum(weights) - weights, weights)
            places = np.repeat(places, weights) + np.arange(int(weights.sum())) - firsts
            positions = np.repeat(positions, weights)
            weights = np.ones(len(positions), np.int64)
        taken = rows.select(columns_without_weight(rows.schema)).take(pa.array(positions))
        extra = [] if self.rank is None else [pa.array(places)]
        return pa.RecordBatch.from_arrays([*taken.columns, *extra, pa.array(weights)], schema=self.result)


def _is_new(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_]:
    """For rows in the order of these keys: which differ from the one before."""
    is_new = np.ones(len(keys[0]), np.bool_)
    if len(is_new):
        is_new[1:] = False
    for each in keys:
        is_new[1:] |= each[1:] != each[:-1]
    return is_new


# The first rows of keys, kept up to date outside loops: a change costs what the first rows do, not the key.
#
# In loops, where a key is looked at at every round of its rows, all of them are looked at: ``OnGroups`` does
# that with the function ``First``.
#
# Invariant: what was sent up to an epoch, consolidated, is the first rows of each key.


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
        return pa.concat_batches(parts) if len(parts) > 1 else next(iter(parts), None)

    def _changed(self, ends: Ends) -> list[pa.RecordBatch]:
        """What comes and goes."""
        order, is_new = ends.in_order(self._first.by)
        group = ends.group.take(order)
        was, was_before = self._first.kept(ends.before.take(order), group, is_new)
        now, now_before = self._first.kept(ends.after.take(order), group, is_new)
        if self._first.rank is None:
            at = (was != now).nonzero()[0]
            if not len(at):
                return []
            rows = ends.rows.columns(order.take(at))
            return [as_batch([*rows, now.take(at) - was.take(at)], self._first.result)]
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


class FirstOfBatch:
    """Sends the first rows of each key among those of a batch, of a table that never loses a row.

    A row that is not among them never is among the first of all workers' rows, because it is never deleted,
    and neither are the rows before it. One worker sends all rows: nothing is exchanged.
    """

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, plan: TopPlan) -> None:
        self._plan = plan

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Choose the rows and send them."""
        is_sent = context.workers == 1 or batch.num_rows < FIRST_ROWS_MIN
        context.send(batch if is_sent else self._plan.first(grouped(batch, self._plan.keys)))


FIRST_ROWS_MIN: Final = 256
"""Of fewer rows all are sent: choosing costs as much as sending."""


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
