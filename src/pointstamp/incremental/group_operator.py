"""An operator on groups: its output is a function of all rows of a key.

Distinct, aggregates with deletions and the top rows of a key are such functions. When the rows of a key
change, the function is asked again for that key, and what differs from what was sent before is sent.

In a loop this must be done at every time at which the rows of the key may be others than before, not only
where something arrives: a change at (epoch 5, round 2) is seen again at round 7 if the key has a row that is
there from round 7 on, and the function of both may be another then. So a key is looked at again at the least
upper bounds of the round of its change with the rounds of its stored rows, and with theirs in turn (McSherry
et al. 2013, 4.3). A version that looks only where something arrives is right for insertions, and wrong for
the first deletion.

Invariant: at every time that was handled, what was sent up to there, consolidated, is the function of what
came up to there, consolidated, for every key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.column_arrays import KeptColumn, as_batch
from pointstamp.arrangement.consolidate import (
    DIFF,
    DIFF_FIELD,
    Positions,
    columns_without_weight,
    with_weights,
)
from pointstamp.arrangement.groups import GroupFunction, grouped_rows
from pointstamp.arrangement.loop_times import (
    Rounds,
    by_rounds,
    counted_at,
    kept_rounds,
    kept_up_to,
    stored_schema,
)
from pointstamp.arrangement.open_changes import OpenChanges
from pointstamp.arrangement.run import Layout, Run, run_of
from pointstamp.incremental.exact_sums import Summing
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
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
        self._keys = Layout(pa.schema([*map(schema.field, plan.keys), DIFF_FIELD]), plan.keys)
        self._added_up = Layout(stored_schema(schema, 0, self._weights), plan.keys, self._weights)
        self._result = Layout(plan.result, tuple(columns_without_weight(plan.result)))
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
        both = pa.concat_batches(keys)
        touched = run_of(with_weights(both, np.ones(both.num_rows, np.int64)), self._keys)
        stored, group = self._rows.matches_of(touched)
        sent, _ = self._sent.matches_of(touched)
        if rounds:
            self._look_again(context, touched, group, self._meetings(stored, rounds))
        wanted = self._wanted(stored, group, touched, rounds)
        change = run_of(pa.concat_batches([wanted, self._taken_back(sent, rounds)]), self._result).batch
        if change.num_rows:
            self._sent.add(counted_at(change, rounds))
            self._send(context, change)

    def _send(self, context: Context, change: pa.RecordBatch) -> None:
        context.send(change)

    def _wanted(
        self, stored: Sequence[KeptColumn], group: Positions, touched: Run, rounds: Rounds
    ) -> pa.RecordBatch:
        """What should be there for these keys at these rounds."""
        columns, at = kept_up_to(stored, len(self._weights), rounds)
        groups = grouped_rows(columns, group if at is None else group[at], touched, self._added_up)
        return self._plan.function(groups)

    def _taken_back(self, sent: Sequence[KeptColumn], rounds: Rounds) -> pa.RecordBatch:
        """What was sent for them up to these rounds, with opposite weights."""
        *own, weights = kept_up_to(sent, 1, rounds)[0]
        return as_batch([*own, -np.asarray(weights)], self._plan.result)

    def _look_again(
        self, context: Context, touched: Run, group: Positions, meetings: npt.NDArray[np.int64]
    ) -> None:
        """Note the keys that have rows of other rounds for where these and this time meet."""
        for at, these in by_rounds(meetings):
            if at != context.time[1:]:
                time = (context.time[0], *at)
                is_met = np.zeros(len(touched), np.bool_)
                is_met[group[these]] = True
                self._again.setdefault(time, []).append(touched.keys_at(is_met.nonzero()[0]))
                context.notify_at(time)

    def _meetings(self, stored: Sequence[KeptColumn], rounds: Rounds) -> npt.NDArray[np.int64]:
        """Where each of these rows and a change of this time meet: at the least upper bound of their rounds.

        At those times the same is asked again, so that in the end all bounds of several rounds are looked at.
        """
        theirs = kept_rounds(stored, len(self._weights), len(rounds))
        return np.asarray(np.maximum(theirs, np.array(rounds, np.int64)))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows, and what was sent for them."""
        assert not len(self._open), "changes wait at a snapshot"
        assert not self._again, "keys are to be looked at again at a snapshot"
        return {
            "rows": self._rows.save(changes_only=changes_only),
            "sent": self._sent.save(changes_only=changes_only),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        for name, arranged in (("rows", self._rows), ("sent", self._sent)):
            arranged.load(pieces[name])
