"""Incremental least, greatest, first and last values, and sums, outside loops.

Values are kept in order, by key, so that a change costs what the first few values of the key do, also where
the least one is deleted from a million. What was sent before is recomputed, as ``OnSums`` does.

Invariant: what was sent up to an epoch, consolidated, is the row of each key that has rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.column_arrays import (
    KeptColumn,
    as_batch,
    equal_kept,
    kept_columns,
    merged_columns,
    taken,
)
from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD, Integers, Positions
from pointstamp.arrangement.groups import Grouped, groups_of, run_by_key, without_nothing
from pointstamp.arrangement.open_changes import OpenChanges
from pointstamp.arrangement.ordering import Ordered
from pointstamp.arrangement.run import Layout, Run, run_and_rows
from pointstamp.arrangement.top_rows import Ends, changed_ends
from pointstamp.arrow import runs as kernels
from pointstamp.incremental.exact_sums import Results, Summing
from pointstamp.incremental.requested_aggregates import FirstValue
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece

Keys: TypeAlias = Sequence[KeptColumn]
"""The columns of the keys of groups."""


@dataclass(frozen=True, slots=True)
class ExtremesPlan:
    """Of which columns the value in a first row is wanted, and what is summed besides."""

    summing: Summing
    extremes: Mapping[str, FirstValue]
    """By the name of the result."""
    result: pa.Schema


class OnExtremes:
    """Sends how the aggregates of keys change when an epoch is settled; keeps values in order, and sums."""

    keeps: ClassVar = (
        "the values of each key, in order, and sums; a change costs its rows and a few values of their keys"
    )

    def __init__(self, plan: ExtremesPlan) -> None:
        self._plan = plan
        summing = plan.summing
        self._sums = Arrangement(summing.stored, summing.keys, summing.weight_names)
        self._values = {each: _arrangement(summing, each) for each in plan.extremes.values()}
        self._layout = Layout(summing.schema, summing.keys)
        for each, arranged in self._values.items():
            if each.where is None and [*summing.keys, *each.columns, DIFF] == summing.schema.names:
                # The columns are those of these values, so that a change is sorted once for both.
                self._layout = arranged.layout
        self._open = OpenChanges()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Add the change of the epoch to what is kept, and send what comes of it."""
        for change in self._open.take_runs(context.time, {"in": self._layout}).values():
            self._change(context, change)

    def _change(self, context: Context, change: Run) -> None:
        firsts, group = groups_of(change)
        keys = [taken(column, firsts) for column in change.keys]
        rows = as_batch(change.columns, self._plan.summing.schema)
        sums_before, sums_after = self._change_sums(change, rows, firsts, group, keys)
        values = {each: self._extreme(each, change, rows, firsts, group) for each in self._values}
        before, after = (
            (self._columns(sums, {each: both[time] for each, both in values.items()}), has_rows)
            for time, (sums, has_rows) in enumerate((sums_before, sums_after))
        )
        sent = result_changes(self._plan.result, keys, before, after)
        if sent is not None:
            context.send(sent)

    def _change_sums(
        self, change: Run, rows: pa.RecordBatch, firsts: Positions, group: Positions, keys: Keys
    ) -> tuple[Results, Results]:
        """Add a change to the sums of its keys; return what comes of these before and after it."""
        summing = self._plan.summing
        if self._sums.layout.is_by_row and (group[1:] >= group[:-1]).all():
            sums = summing.sums_of_rows(change.columns)
            weights = [sums[name] for name in summing.weight_names]
            by_key = run_by_key(change, firsts, weights, self._sums.layout)
            before, after = summing.results_around(self._sums.sums_of(by_key), by_key.sums, keys)
            self._sums.add_run(without_nothing(by_key))
            return before, after
        shares = summing.shares(rows)
        stored, of = self._sums.stored_of(change, firsts)
        sums_before, had = summing.results(stored, of, keys)
        # A row may have several shares, one for each place of a float's limbs.
        group_of_share = group[summing.rows_of_shares(rows)]
        sums_after, has = summing.results(
            pa.concat_batches([stored, shares]), np.concatenate((of, group_of_share)), keys
        )
        self._sums.add(shares)
        return (sums_before, had > 0), (sums_after, has > 0)

    def _columns(self, sums: Sequence[KeptColumn], values: Mapping[FirstValue, pa.Array]) -> list[KeptColumn]:
        """The aggregates in the order in which they were asked for."""
        summed = dict(zip(self._plan.summing.aggregates, sums, strict=True))
        names = self._plan.result.names[len(self._plan.summing.keys) : -1]
        return [summed[name] if name in summed else values[self._plan.extremes[name]] for name in names]

    def _extreme(
        self, each: FirstValue, change: Run, rows: pa.RecordBatch, firsts: Positions, group: Positions
    ) -> tuple[pa.Array, pa.Array]:
        """The value in the first row of each key, before the change and after it; null if it has none."""
        arranged = self._values[each]
        delta, own = _rows_of(each, change, rows, arranged)
        of = group if own is None else group[own]
        value = arranged.schema.get_field_index(_names(each)[each.column])
        found: list[list[tuple[Positions, pa.Array]]] = [[], []]
        for ends in changed_ends(arranged, change, firsts, delta, of, 1):
            order, _ = ends.in_order(_order(each))
            for at, weights in zip(found, (ends.before, ends.after), strict=True):
                at.append(self._first(ends, order, weights, value))
        arranged.add_run(delta)
        kind = arranged.layout.types[value]
        before, after = (_placed(parts, kind, len(firsts)) for parts in found)
        return before, after

    def _first(
        self, ends: Ends, order: Positions, weights: Integers, value: int
    ) -> tuple[Positions, pa.Array]:
        """Of each key that has a row the value in the first one."""
        group = ends.group.take(order)
        kept, _ = kernels.first_of_groups(group, None, weights.take(order), 1)
        at = (kept > 0).nonzero()[0]
        return group.take(at), ends.rows.column(value, order.take(at))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The sums, and the values of each order."""
        assert not len(self._open), "changes wait at a snapshot"
        return {name: each.save(changes_only=changes_only) for name, each in self._arranged().items()}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with what is kept of this worker's keys."""
        for name, each in self._arranged().items():
            each.load(pieces[name])

    def _arranged(self) -> dict[str, Arrangement]:
        return {"sums": self._sums} | {str(each): rows for each, rows in self._values.items()}


def _names(each: FirstValue) -> dict[str, str]:
    """What the columns that are looked at are called where they are kept: one may also be a key."""
    return {name: f"__{number}" for number, name in enumerate(each.columns)}


def _order(each: FirstValue) -> list[Ordered]:
    return [replace(one, column=_names(each)[one.column]) for one in each.by]


def _arrangement(summing: Summing, each: FirstValue) -> Arrangement:
    keys = [summing.schema.field(key) for key in summing.keys]
    columns = [summing.schema.field(name).with_name(kept) for name, kept in _names(each).items()]
    return Arrangement(pa.schema([*keys, *columns, DIFF_FIELD]), summing.keys, order=_order(each)[0])


def _rows_of(
    each: FirstValue, change: Run, rows: pa.RecordBatch, arranged: Arrangement
) -> tuple[Run, Positions | None]:
    """The rows of a change that take part, and for each one that it is of those; None if it is the change."""
    takes_part = np.ones(len(change), np.bool_)
    if each.not_null is not None and rows.column(each.not_null).null_count:
        takes_part &= rows.column(each.not_null).is_valid().to_numpy(zero_copy_only=False)
    elif change.layout is arranged.layout:
        return change, None
    if each.where is not None:
        takes_part &= rows.column(each.where).fill_null(False).to_numpy(zero_copy_only=False)
    columns = [rows.column(name) for name in (*arranged.keys, *each.columns, DIFF)]
    own = pa.RecordBatch.from_arrays(columns, schema=arranged.schema)
    part = np.flatnonzero(takes_part)
    own = own if len(part) == len(change) else own.take(pa.array(part))
    delta, taken = run_and_rows(kept_columns(own, arranged.layout.dtypes), arranged.layout)
    return delta, part[taken]


def _placed(parts: list[tuple[Positions, pa.Array]], kind: pa.DataType, count: int) -> pa.Array:
    """Values at the places of their keys, null elsewhere."""
    if len(parts) == 1 and len(parts[0][0]) == count:  # each key has a value, and they are in order
        return parts[0][1]
    places = np.full(count, -1, np.int64)
    values = pa.concat_arrays([pa.array([], kind), *(values for _, values in parts)])
    keys = np.concatenate([np.empty(0, np.intp), *(keys for keys, _ in parts)])
    places[keys] = np.arange(len(keys))
    return values.take(pa.array(places, mask=places < 0))


# An operator on sums: what comes out for a key is computed from sums that are kept, outside loops.
#
# What was sent for a key before is recomputed from the sums before the change, so that it need not be kept.
# In loops, where a key is looked at at several times of an epoch, it is kept: ``OnGroups`` does that with the
# same sums.
#
# Invariant: what was sent up to an epoch, consolidated, is the row of each key that has rows.


@dataclass(frozen=True, slots=True)
class SumsPlan:
    """What is summed, and what comes out."""

    summing: Summing
    result: pa.Schema


PARTS_ROWS_MIN: Final = 256
"""Fewer rows of a batch are sent as they are: finding out that they have few keys costs as much."""


class InParts:
    """Sends rows to the worker of their key; where few keys have many rows, their sums in place of the rows.

    The sums are those of one batch, deletions included, so they are exact whatever other workers send. One
    worker sends rows as they are: nothing is exchanged.
    """

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, summing: Summing) -> None:
        self._summing = summing

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows, or what they add to the sums of their keys."""
        parts = self._summing.parts(batch, PARTS_ROWS_MIN) if context.workers > 1 else None
        if parts is None:
            context.send(batch, output="rows")
        else:
            context.send(parts, output="parts")


class OnSums:
    """Sends how the aggregates of keys change when an epoch is settled; keeps the sums of each key."""

    keeps: ClassVar = "the sums of each key, and no rows; a change costs its rows"

    def __init__(self, plan: SumsPlan) -> None:
        self._plan = plan
        summing = plan.summing
        self._sums = Arrangement(summing.stored, summing.keys, summing.weight_names)
        self._open = OpenChanges()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the shares of the rows until their epoch is settled; parts of sums are shares."""
        shares = batch if input == "parts" else self._plan.summing.few_shares(batch)
        self._open.put(context.time, "in", shares)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Add the change of the epoch to the sums, and send what comes of it."""
        for change in self._open.take_runs(context.time, {"in": self._sums.layout}).values():
            self._change(context, change)

    def _change(self, context: Context, change: Run) -> None:
        results = self._results_by_row if change.layout.is_by_row else self._results
        keys, before, after = results(change)
        self._sums.add_run(change)
        sent = result_changes(self._plan.result, keys, before, after)
        if sent is not None:
            context.send(sent)

    def _results_by_row(self, change: Run) -> tuple[Keys, Results, Results]:
        """The keys, and what comes out for them before and after, where each has one row of sums."""
        sums = self._sums.sums_of(change)
        return change.keys, *self._plan.summing.results_around(sums, change.sums, change.keys)

    def _results(self, change: Run) -> tuple[Keys, Results, Results]:
        """The same where a key has a row for each place of a float's limbs."""
        summing = self._plan.summing
        firsts, group = groups_of(change)
        keys = [taken(column, firsts) for column in change.keys]
        stored, of = self._sums.stored_of(change, firsts)
        before, had = summing.results(stored, of, keys)
        both = pa.concat_batches([stored, change.batch]) if stored.num_rows else change.batch
        after, has = summing.results(both, np.concatenate((of, group)), keys)
        summing.check_rows(has, keys)
        return keys, (before, had > 0), (after, has > 0)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The sums."""
        assert not len(self._open), "changes wait at a snapshot"
        return {"sums": self._sums.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the sums of this worker's keys."""
        self._sums.load(pieces["sums"])


def result_changes(schema: pa.Schema, keys: Keys, before: Results, after: Results) -> pa.RecordBatch | None:
    """What is sent where the results of these keys change: nothing where they do not."""
    (was, was_there), (now, is_there) = before, after
    kinds = schema.types[len(keys) : -1]
    every = np.arange(len(was_there))
    differs = (was_there != is_there) | ~equal_kept(was, every, now, every, kinds)
    gone, new = (was_there & differs).nonzero()[0], (is_there & differs).nonzero()[0]
    if not len(gone) + len(new):
        return None
    at = np.concatenate((gone, new))
    values = merged_columns(was, now, np.concatenate((gone, new + len(every))), kinds)
    weights = np.ones(len(at), np.int64)
    weights[: len(gone)] = -1
    return as_batch([*(taken(key, at) for key in keys), *values, weights], schema)


@dataclass(frozen=True, slots=True)
class SumsOfGroups:
    """Sums as a function of groups, for operators that keep what they have sent."""

    summing: Summing
    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """One row for each group that has rows."""
        count = len(groups.starts)
        group = np.repeat(np.arange(count), np.diff(groups.starts, append=groups.rows.num_rows))
        columns, rows = self.summing.results(groups.rows, group, groups.keys.columns)
        made = [*groups.keys.columns, *columns, np.ones(count, np.int64)]
        return as_batch(made, self.result).filter(pa.array(rows > 0))
