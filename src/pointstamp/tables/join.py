"""The inner join of two tables on equal keys, kept up to date (McSherry et al. 2013, section 4).

The change of a join is what the change of one side finds on the other: ``dA x B + A x dB + dA x dB``. Both
sides are arranged by key. In a loop a pair is there from the least upper bound of both rounds on, and is sent
there: an update of (epoch 5, round 2) that meets a row of round 7 is seen at (5, 7) and not at (5, 2).

A key with a null in it matches nothing, as in SQL, unless the plan says otherwise. Rows are multiplied:
weights 2 and -1 make -2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.expressions.compiling import Compiled
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.columns import KeptColumn, as_batch, taken
from pointstamp.tables.kept.open_changes import OpenChanges
from pointstamp.tables.kept.rounds import Rounds, by_rounds, counted_at, kept_rounds, stored_schema
from pointstamp.tables.kept.run import Layout, Run
from pointstamp.tables.sharing import Arrangements, TableByKey

Met = list[tuple[Rounds, pa.RecordBatch]]
"""Pairs, by the rounds from which on they are there."""


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Which columns are compared, and which of both sides come out, under which names."""

    left: pa.Schema
    right: pa.Schema
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    right_columns: tuple[str, ...]
    """Of the right side; all of the left side come out."""
    result: pa.Schema
    rounds: int
    where: Compiled | None = None
    """What must hold of a pair besides, over the columns of the result."""
    nulls_match: bool = False
    """Whether a null in a key equals a null, as it does where whole rows are compared."""


class InnerJoin:
    """Sends the change of a join when a time is settled; keeps both sides."""

    keeps: ClassVar = "both sides, by key; a change costs its rows and their matches"

    def __init__(self, plan: JoinPlan, *, arranged: Mapping[str, TableByKey]) -> None:
        self._plan = plan
        self._layouts = {
            "left": Layout(plan.left, plan.left_keys),
            "right": Layout(plan.right, plan.right_keys),
        }
        """Of changes; what is stored has the rounds besides."""
        self._sides = {
            "left": Arrangement(stored_schema(plan.left, plan.rounds), plan.left_keys),
            "right": Arrangement(stored_schema(plan.right, plan.rounds), plan.right_keys),
        }
        self._right = [plan.right.get_field_index(name) for name in plan.right_columns]
        self._arrangements = Arrangements(self._sides, arranged)
        self._open = OpenChanges()

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its time is settled."""
        if not self._plan.nulls_match:
            batch = without_null_keys(batch, self._layouts[input].keys)
        if batch.num_rows:
            self._open.put(context.time, input, batch)
            context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Find what the changes of the time meet, send it where it is there, and keep the changes."""
        rounds = context.time[1:]
        found: Met = []
        for name, change in self._open.take_runs(context.time, self._layouts).items():
            found.extend(self._met(change, name, rounds))
            # The other side's change then meets this one, too: dA x dB is found once.
            if rounds:
                self._sides[name].add(counted_at(change.batch, rounds))
            else:
                self._sides[name].add_run(change)
        for at, batches in _together(found):
            sent = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
            context.send(sent, at=(context.time[0], *at))

    def _met(self, change: Run, side: str, rounds: Rounds) -> Met:
        """What the change of one side meets on the other."""
        other = "right" if side == "left" else "left"
        rows, which = self._sides[other].matches_of(change)
        if not len(which):
            return []
        ours = [taken(column, which) for column in change.columns]
        pairs = self._pairs(rows, ours) if other == "left" else self._pairs(ours, rows)
        if not rounds:
            return [((), pairs if self._plan.where is None else pairs.filter(self._holds(pairs)))]
        bounds = self._bounds(rows, rounds)
        if self._plan.where is not None:
            holds = self._holds(pairs)
            pairs, bounds = pairs.filter(holds), bounds[np.asarray(holds, np.bool_)]
        return [(at, pairs.take(pa.array(these))) for at, these in by_rounds(bounds)]

    def _holds(self, pairs: pa.RecordBatch) -> pa.Array:
        assert self._plan.where is not None
        return pc.fill_null(self._plan.where(pairs), False)

    def _bounds(self, rows: Sequence[KeptColumn], rounds: Rounds) -> np.typing.NDArray[np.int64]:
        """The rounds from which on each of these stored rows and a row of the time are both there."""
        return np.asarray(np.maximum(kept_rounds(rows, 1, len(rounds)), np.array(rounds, np.int64)))

    def _pairs(self, left: Sequence[KeptColumn], right: Sequence[KeptColumn]) -> pa.RecordBatch:
        weights = np.asarray(left[-1]) * np.asarray(right[-1])
        own = left[: len(self._plan.left) - 1]
        return as_batch([*own, *(right[at] for at in self._right), weights], self._plan.result)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Both sides, if no other operator keeps them."""
        assert not len(self._open), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._arrangements.load(context.operator, pieces)


def without_null_keys(batch: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    """The rows whose keys can match anything."""
    if not any(batch.column(key).null_count for key in keys):
        return batch
    return batch.filter(reduce(pc.and_, (pc.is_valid(batch.column(key)) for key in keys)))


def _together(found: Met) -> list[tuple[Rounds, list[pa.RecordBatch]]]:
    """What is to be sent at each time, the least first."""
    batches: dict[Rounds, list[pa.RecordBatch]] = {}
    for at, batch in found:
        batches.setdefault(at, []).append(batch)
    return sorted(batches.items())
