"""An operator on groups: what comes out for a key is a function of all rows of the key, kept up to date.

Distinct, aggregates with deletions and the top rows of a key are such functions. When the rows of a key
change, the function is asked again for that key, and what differs from what was sent before is sent.

In a loop this must be done at every time at which the rows of the key may be others than before, not only
where something arrives: a change at (epoch 5, round 2) is seen again at round 7 if the key has a row that is
there from round 7 on, and the function of both may be another then. So a key is looked at again at the least
upper bounds of the round of its change with the rounds of its stored rows, and with theirs in turn (McSherry
et al. 2013, 4.3). A version that looks only where something arrives is right for insertions, and wrong for
the first deletion.

Invariant: at every time that was handled, what was sent up to there, added up, is the function of what came
up to there, added up, for every key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.tables.aggregates.sums import Summing
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.groups import GroupFunction, distinct, grouped
from pointstamp.tables.kept.open_changes import OpenChanges, added_up
from pointstamp.tables.kept.rounds import Rounds, by_rounds, counted_at, rounds_of, stored_schema, up_to
from pointstamp.tables.kept.weights import DIFF, with_weights
from pointstamp.topology.domain import Time


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """By which columns rows are grouped, and what comes out of groups."""

    schema: pa.Schema
    keys: tuple[str, ...]
    result: pa.Schema
    result_keys: tuple[str, ...]
    """The same columns in the result."""
    function: GroupFunction
    rounds: int
    summing: Summing | None = None
    """What is kept in place of the rows, if sums are enough."""


class OnGroups:
    """Sends how the results of groups change when a time is settled; keeps the rows and what it has sent."""

    keeps: ClassVar = "all rows by key, and what it has sent; a change costs all rows of the keys that change"

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._weights = (DIFF,) if plan.summing is None else plan.summing.weight_names
        schema = plan.schema if plan.summing is None else plan.summing.stored
        self._rows = Arrangement(stored_schema(schema, plan.rounds, self._weights), plan.keys, self._weights)
        self._sent = Arrangement(stored_schema(plan.result, plan.rounds), plan.result_keys)
        self._open = OpenChanges()
        self._again: dict[Time, list[pa.RecordBatch]] = {}
        """Keys that are to be looked at again at a later time of the same epoch."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its time is settled."""
        self._open.put(context.time, input, batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Look at the keys that may have changed at this time."""
        rounds = context.time[1:]
        keys = self._again.pop(context.time, [])
        for change in self._open.take(context.time).values():
            kept = change if self._plan.summing is None else self._plan.summing.shares(change)
            self._rows.add(counted_at(kept, rounds, self._weights))
            keys.append(change.select(list(self._plan.keys)))
        if not keys:
            return
        touched = distinct(pa.concat_batches(keys))
        stored = self._rows.rows_of(touched, self._plan.keys)
        renamed = touched.rename_columns(list(self._plan.result_keys))
        sent = self._sent.rows_of(renamed, self._plan.result_keys)
        if rounds:
            self._look_again(context, stored, rounds)
        wanted = self._wanted(up_to(stored, rounds))
        before = up_to(sent, rounds)
        change = added_up([wanted, with_weights(before, -before.column(DIFF).to_numpy())])
        if change.num_rows:
            self._sent.add(counted_at(change, rounds))
            self._send(context, change)

    def _send(self, context: Context, change: pa.RecordBatch) -> None:
        context.send(change)

    def _wanted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        groups = grouped(rows, self._plan.keys, self._weights)
        return self._plan.function(groups)

    def _look_again(self, context: Context, stored: pa.RecordBatch, rounds: Rounds) -> None:
        """Note the keys that have rows of other rounds for where these and this time meet."""
        for at, these in by_rounds(self._meetings(stored, rounds)):
            if at != rounds:
                time = (context.time[0], *at)
                keys = stored.select(list(self._plan.keys)).take(pa.array(these))
                self._again.setdefault(time, []).append(keys)
                context.notify_at(time)

    def _meetings(self, stored: pa.RecordBatch, rounds: Rounds) -> npt.NDArray[np.int64]:
        """Where each of these rows and a change of this time meet: at the least upper bound of their rounds.

        At those times the same is asked again, so that in the end all bounds of several rounds are looked at.
        """
        return np.maximum(rounds_of(stored, len(rounds)), np.array(rounds, np.int64))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows, and what was sent for them."""
        assert not len(self._open), "changes wait at a snapshot"
        assert not self._again, "keys are to be looked at again at a snapshot"
        return {
            "rows": self._rows.save(changes_only=changes_only),
            "sent": self._sent.save(changes_only=changes_only),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Go on with the rows of this worker's keys."""
        for name, arranged in (("rows", self._rows), ("sent", self._sent)):
            arranged.load(pieces[name])
