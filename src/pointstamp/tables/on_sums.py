"""An operator on sums: what comes out for a key is worked out from sums that are kept, outside loops.

What was sent for a key before is recomputed from the sums before the change, so that it need not be
kept. In loops, where a key is looked at at several times of an epoch, it is kept: ``OnGroups`` does that with
the same sums.

Invariant: what was sent up to an epoch, added up, is the row of each key that has rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.aggregates.sums import Results, Summing, check_rows
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.columns import as_batch, kept_column, taken, together
from pointstamp.tables.kept.groups import Grouped
from pointstamp.tables.kept.open_changes import OpenChanges
from pointstamp.tables.kept.run import Run
from pointstamp.tables.kept.run_keys import groups_of
from pointstamp.tables.kept.weights import equal_values


@dataclass(frozen=True, slots=True)
class SumsPlan:
    """What is summed, and what comes out."""

    summing: Summing
    result: pa.Schema


class OnSums:
    """Sends how the aggregates of keys change when an epoch is settled; keeps the sums of each key."""

    keeps: ClassVar = "the sums of each key, and no rows; a change costs its rows"

    def __init__(self, plan: SumsPlan) -> None:
        self._plan = plan
        summing = plan.summing
        self._sums = Arrangement(summing.stored, summing.keys, summing.weight_names)
        self._open = OpenChanges()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the shares of the rows until their epoch is settled."""
        self._open.put(context.time, "in", self._plan.summing.few_shares(batch))
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

    def _results_by_row(self, change: Run) -> tuple[pa.RecordBatch, Results, Results]:
        """The keys, and what comes out for them before and after, where each has one row of sums."""
        keys = as_batch(change.keys, change.layout.key_schema)
        sums = self._sums.sums_of(change)
        return keys, *self._plan.summing.results_around(sums, change.sums, keys)

    def _results(self, change: Run) -> tuple[pa.RecordBatch, Results, Results]:
        """The same where a key has a row for each place of a float's limbs."""
        summing = self._plan.summing
        firsts, group = groups_of(change)
        keys = change.keys_at(firsts)
        stored, of = self._sums.stored_of(change, firsts)
        before, had = summing.results(stored, of, keys)
        both = pa.concat_batches([stored, change.batch]) if stored.num_rows else change.batch
        after, has = summing.results(both, np.concatenate((of, group)), keys)
        check_rows(has, keys)
        return keys, (before, had > 0), (after, has > 0)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The sums."""
        assert not len(self._open), "changes wait at a snapshot"
        return {"sums": self._sums.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the sums of this worker's keys."""
        self._sums.load(pieces["sums"])


def result_changes(
    schema: pa.Schema, keys: pa.RecordBatch, before: Results, after: Results
) -> pa.RecordBatch | None:
    """What is sent where the results of these keys change: nothing where they do not."""
    differs = before[1] != after[1]
    for one, other in zip(before[0], after[0], strict=True):
        differs |= ~equal_values(one, other)
    gone, new = ((is_there & differs).nonzero()[0] for _, is_there in (before, after))
    if not len(gone) + len(new):
        return None
    at = np.concatenate((gone, new))
    made = [taken(kept_column(column), at) for column in keys.columns]
    for was, now, kind in zip(before[0], after[0], schema.types[len(made) : -1], strict=True):
        made.append(together((taken(kept_column(was), gone), taken(kept_column(now), new)), kind))
    weights = np.ones(len(at), np.int64)
    weights[: len(gone)] = -1
    return as_batch([*made, weights], schema)


@dataclass(frozen=True, slots=True)
class SumsOfGroups:
    """Sums as a function of groups, for operators that keep what they have sent."""

    summing: Summing
    result: pa.Schema

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """One row for each group that has rows."""
        count = len(groups.starts)
        group = np.repeat(np.arange(count), np.diff(groups.starts, append=groups.rows.num_rows))
        columns, rows = self.summing.results(groups.rows, group, groups.keys)
        made = [*groups.keys.columns, *columns, pa.array(np.ones(count, np.int64))]
        return pa.RecordBatch.from_arrays(made, schema=self.result).filter(pa.array(rows > 0))
