"""The least and greatest values of keys, kept up to date outside loops, beside aggregates that are sums.

Values are kept in order, by key, so that a change costs what the first few values of the key do, also where
the least one is deleted from a million. What was sent before is worked out anew, as ``OnSums`` does.

Invariant: what was sent up to an epoch, added up, is the row of each key that has rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.aggregates.sums import Summing
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.ends import Ends, changed_ends
from pointstamp.tables.kept.open_changes import OpenChanges
from pointstamp.tables.kept.ordering import Ordered
from pointstamp.tables.kept.run import Layout, Run, groups_of, run_and_rows
from pointstamp.tables.kept.sorting import Positions
from pointstamp.tables.kept.weights import DIFF, DIFF_FIELD, Integers
from pointstamp.tables.on_sums import result_changes

_VALUE: Final = "__value"


@dataclass(frozen=True, slots=True)
class ExtremesPlan:
    """Which columns are asked for their least or greatest value, and what is summed besides."""

    summing: Summing
    extremes: Mapping[str, Ordered]
    """By the name of the result: the column, and whether its greatest value is wanted."""
    result: pa.Schema


class OnExtremes:
    """Sends how the aggregates of keys change when an epoch is settled; keeps values in order, and sums."""

    keeps: ClassVar = (
        "the values of each key, in order, and sums; a change costs its rows and a few values of their keys"
    )

    def __init__(self, plan: ExtremesPlan) -> None:
        self._plan = plan
        summing = plan.summing
        self._layout = Layout(summing.schema, summing.keys)
        self._sums = Arrangement(summing.stored, summing.keys, summing.weight_names)
        own = [summing.schema.field(key) for key in summing.keys]
        self._values: dict[str, Arrangement] = {}
        for each in plan.extremes.values():
            value = summing.schema.field(each.column).with_name(_VALUE)
            schema = pa.schema([*own, value, DIFF_FIELD])
            order = Ordered(_VALUE, each.descends)
            self._values.setdefault(_name(each), Arrangement(schema, summing.keys, order=order))
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
        summing = self._plan.summing
        firsts, group = groups_of(change)
        keys = change.batch.select(list(summing.keys)).take(pa.array(firsts))
        stored, of = self._sums.stored_of(change, firsts)
        shares = summing.shares(change.batch)
        sums_before, had = summing.results(stored, of, keys)
        # A row may have several shares, one for each place of a float's limbs.
        group_of_share = group[summing.rows_of_shares(change.batch)]
        sums_after, has = summing.results(
            pa.concat_batches([stored, shares]), np.concatenate((of, group_of_share)), keys
        )
        self._sums.add(shares)
        values = {
            each: self._extreme(each, change, firsts, group) for each in set(self._plan.extremes.values())
        }
        before, after = (
            self._columns(sums, {each: both[time] for each, both in values.items()})
            for time, sums in enumerate((sums_before, sums_after))
        )
        sent = result_changes(self._plan.result, keys, (before, had > 0), (after, has > 0))
        if sent is not None:
            context.send(sent)

    def _columns(self, sums: list[pa.Array], values: Mapping[Ordered, pa.Array]) -> list[pa.Array]:
        """The aggregates in the order in which they were asked for."""
        summed = dict(zip(self._plan.summing.aggregates, sums, strict=True))
        names = self._plan.result.names[len(self._plan.summing.keys) : -1]
        return [summed[name] if name in summed else values[self._plan.extremes[name]] for name in names]

    def _extreme(
        self, each: Ordered, change: Run, firsts: Positions, group: Positions
    ) -> tuple[pa.Array, pa.Array]:
        """The first value of each key, before the change and after it; null where there is none."""
        arranged = self._values[_name(each)]
        column = change.batch.column(each.column)
        valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        own = [change.batch.column(key) for key in self._plan.summing.keys]
        rows = pa.RecordBatch.from_arrays([*own, column, change.batch.column(DIFF)], schema=arranged.schema)
        delta, taken = run_and_rows(rows.take(pa.array(valid)), arranged.layout)
        of = group[valid][taken]
        found: list[list[tuple[Positions, pa.Array]]] = [[], []]
        for ends in changed_ends(arranged, change, firsts, delta, of, 1):
            order, _ = ends.in_order([arranged.layout.order or Ordered(_VALUE)])
            for at, weights in zip(found, (ends.before, ends.after), strict=True):
                at.append(self._first(ends, order, weights))
        arranged.add_run(delta)
        before, after = (_placed(parts, column.type, len(firsts)) for parts in found)
        return before, after

    def _first(self, ends: Ends, order: Positions, weights: Integers) -> tuple[Positions, pa.Array]:
        """Of each key that has a value the first one."""
        there = order[weights[order] > 0]
        keys, at = np.unique(ends.group[there], return_index=True)
        return keys, ends.rows.taken(there[at]).column(_VALUE)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The sums, and the values of each order."""
        assert not len(self._open), "changes wait at a snapshot"
        return {name: each.save(changes_only=changes_only) for name, each in self._arranged().items()}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Go on with what is kept of this worker's keys."""
        for name, each in self._arranged().items():
            each.load(pieces[name])

    def _arranged(self) -> dict[str, Arrangement]:
        return {"sums": self._sums} | self._values


def _name(each: Ordered) -> str:
    return f"{'greatest' if each.descends else 'least'} of {each.column}"


def _placed(parts: list[tuple[Positions, pa.Array]], kind: pa.DataType, count: int) -> pa.Array:
    """Values at the places of their keys, null elsewhere."""
    places = np.full(count, -1, np.int64)
    values = pa.concat_arrays([pa.array([], kind), *(values for _, values in parts)])
    keys = np.concatenate([np.empty(0, np.intp), *(keys for keys, _ in parts)])
    places[keys] = np.arange(len(keys))
    return values.take(pa.array(places, mask=places < 0))
