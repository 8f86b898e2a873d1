"""Checks of join arguments: key columns and names of results.

The key comes out once, under the name that it has on the left; of the right side come all other columns, with
a suffix where the left side has one of that name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.column_arrays import KeptColumn, as_batch, taken
from pointstamp.arrangement.consolidate import DIFF
from pointstamp.arrangement.loop_times import Rounds, by_rounds, counted_at, kept_rounds, stored_schema
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.arrangement.run import Layout, Run
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import Compiled
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.flow.plan import How
from pointstamp.incremental.column_names import check_new_names
from pointstamp.incremental.shared_arrangements import Arrangements, TableByKey
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time

_ELSEWHERE: Final = {
    "outer": "full",
    "full_outer": "full",
    "fullouter": "full",
    "left_outer": "left",
    "leftouter": "left",
    "right_outer": "right",
    "rightouter": "right",
    "left_semi": "semi",
    "leftsemi": "semi",
    "left_anti": "anti",
    "leftanti": "anti",
}


@dataclass(frozen=True, slots=True)
class Joining:
    """The columns of a join: ``pairs`` from left keys to right keys, ``added`` from right columns on."""

    left: pa.Schema
    right: pa.Schema
    pairs: Mapping[str, str]
    added: Mapping[str, str]

    @property
    def result(self) -> pa.Schema:
        """The columns of a pair."""
        return pa.schema([*self.left, *(self.right.field(own).with_name(n) for own, n in self.added.items())])

    def left_of_pairs(self) -> dict[str, Expression]:
        """The row of the left side, out of a pair."""
        return {name: col(name) for name in self.left.names}

    def right_of_pairs(self) -> dict[str, Expression]:
        """The row of the right side, out of a pair: its keys are those of the left."""
        mine = {theirs: own for own, theirs in self.pairs.items()}
        return {name: col(mine.get(name) or self.added[name]) for name in self.right.names}

    def left_alone(self) -> dict[str, Expression]:
        """What comes out for a row of the left side that has no partner."""
        nulls = {name: lit(None).cast(self.right.field(own).type) for own, name in self.added.items()}
        return self.left_of_pairs() | nulls

    def right_alone(self) -> dict[str, Expression]:
        """What comes out for a row of the right side that has no partner."""
        made: dict[str, Expression] = {}
        for field in self.left:
            theirs = self.pairs.get(field.name)
            made[field.name] = lit(None).cast(field.type) if theirs is None else col(theirs)
        return made | {name: col(own) for own, name in self.added.items()}


def joining(
    who: str, left: pa.Schema, right: pa.Schema, on: str | Mapping[str, str] | Iterable[str], suffix: str
) -> Joining:
    """Work a join's columns out; SchemaError names what does not fit."""
    pairs = _pairs(who, on)
    check_columns(f"{who}, on its left side,", left, pairs)
    check_columns(f"{who}, on its right side,", right, pairs.values())
    for mine, theirs in pairs.items():
        one, other = left.field(mine).type, right.field(theirs).type
        if one != other:
            raise SchemaError(
                f"{who}: '{mine}' is {one} and '{theirs}' is {other}, but both must have one type. Cast "
                "one of them with with_columns."
            )
    added: dict[str, str] = {}
    for own in right.names:
        if own not in pairs.values():
            added[own] = f"{own}{suffix}" if own in left.names else own
    check_new_names(who, (name for own, name in added.items() if name != own))
    names = [*left.names, *added.values()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SchemaError(
            f"{who}: both sides have a column '{twice[0]}'. Give another suffix=, or rename one of them."
        )
    return Joining(left, right, pairs, added)


def checked_how(who: str, how: str) -> How:
    """Which join is meant; FlowError says its name here if it has another one elsewhere."""
    for known in get_args(How):
        if how == known:
            return known  # type: ignore[no-any-return]
    said = f"; here that is '{_ELSEWHERE[how]}'" if how in _ELSEWHERE else ""
    raise FlowError(
        f"{who}: how must be one of {', '.join(get_args(How))}, got {how!r}{said}. Choose one of these."
    )


def check_no_key(who: str, on: str | Mapping[str, str] | Iterable[str]) -> None:
    """Refuse a key for all pairs."""
    if on != ():
        raise FlowError(f"{who}: how='cross' takes no on=, got {on!r}. Leave one of them out.")


def _pairs(who: str, on: str | Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(on, Expression):
        raise FlowError(
            f"{who}: on= takes names of columns, got the expression {on}. Write on='id' or "
            "on={'mine': 'theirs'}, or give a condition with where=."
        )
    pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {k: k for k in on}
    if not pairs:
        raise FlowError(
            f"{who} needs at least one column to join on, got none. Give on=, or how='cross' for all pairs."
        )
    if len(set(pairs.values())) < len(pairs):
        raise FlowError(f"{who}: a column of the right side is twice in on={pairs}. Name each column once.")
    return pairs


# The inner join of two tables on equal keys, kept up to date (McSherry et al. 2013, section 4).
#
# The change of a join is what the change of one side finds on the other: ``dA x B + A x dB + dA x dB``. Both
# sides are arranged by key. In a loop a pair is there from the least upper bound of both rounds on, and is
# sent there: an update of (epoch 5, round 2) that meets a row of round 7 is seen at (5, 7) and not at (5, 2).
#
# A key with a null in it matches nothing, as in SQL, unless the plan says otherwise. Rows are multiplied:
# weights 2 and -1 make -2.

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
    """Whether a null in a key equals a null, as it does where complete rows are compared."""


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
        self._undecided: dict[Time, list[pa.RecordBatch]] = {}
        """Pairs of later rounds for which the condition raises, until their time is settled."""

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
        found: Met = [(rounds, each) for each in self._undecided.pop(context.time, [])]
        changes = self._open.take_runs(context.time, self._layouts)
        for name, change in changes.items():
            found.extend(self._met(change, name, rounds))
            # The other side's change then meets this one, too: dA x dB is found once.
            if rounds:
                self._sides[name].add(counted_at(change.batch, rounds))
            else:
                self._sides[name].add_run(change)
        for at, batches in _together(found):
            may_cancel = not rounds and rows_may_cancel(batches) and _have_common_keys(*changes.values())
            self._send(context, at, [added_up(batches)] if may_cancel else batches)

    def _send(self, context: Context, at: Rounds, batches: list[pa.RecordBatch]) -> None:
        """Send the pairs of some rounds for which the condition holds.

        The condition may raise for a pair that other pairs of the same time cancel. So it is evaluated again
        for their sum, when all of them are found.
        """
        where, time = self._plan.where, (context.time[0], *at)
        if where is not None:
            try:
                batches = [each.filter(where(each)) for each in batches]
            except Exception:  # of whatever kind: it is raised again unless the pairs cancel
                if time != context.time:
                    self._undecided.setdefault(time, []).extend(batches)
                    context.notify_at(time)
                    return
                total = added_up(batches)
                batches = [total.filter(where(total))]
        context.send(batches[0] if len(batches) == 1 else pa.concat_batches(batches), at=time)

    def _met(self, change: Run, side: str, rounds: Rounds) -> Met:
        """What the change of one side meets on the other."""
        other = "right" if side == "left" else "left"
        rows, which = self._sides[other].matches_of(change)
        if not len(which):
            return []
        ours = [taken(column, which) for column in change.columns]
        pairs = self._pairs(rows, ours) if other == "left" else self._pairs(ours, rows)
        if rounds:
            bounds = self._bounds(rows, rounds)
            return [(at, pairs.take(pa.array(these))) for at, these in by_rounds(bounds)]
        # A stored row and its deletion may be in two runs that are not merged.
        return [((), added_up([pairs]) if (np.asarray(rows[-1]) < 0).any() else pairs)]

    def _bounds(self, rows: Sequence[KeptColumn], rounds: Rounds) -> np.typing.NDArray[np.int64]:
        """The rounds from which on each of these stored rows and a row of the time are both there."""
        return np.asarray(np.maximum(kept_rounds(rows, 1, len(rounds)), np.array(rounds, np.int64)))

    def _pairs(self, left: Sequence[KeptColumn], right: Sequence[KeptColumn]) -> pa.RecordBatch:
        weights = np.asarray(left[-1]) * np.asarray(right[-1])
        own = left[: len(self._plan.left) - 1]
        return as_batch([*own, *(right[at] for at in self._right), weights], self._plan.result)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Both sides, if no other operator keeps them."""
        assert not len(self._open) + len(self._undecided), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._arrangements.load(context.operator, pieces)


def without_null_keys(batch: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
    """The rows whose keys can match anything."""
    if not any(batch.column(key).null_count for key in keys):
        return batch
    return batch.filter(reduce(pc.and_, (pc.is_valid(batch.column(key)) for key in keys)))


def rows_may_cancel(batches: Sequence[pa.RecordBatch]) -> bool:
    """Return whether the second of two changes of one time may delete rows that the first one inserts.

    A table contains such a row at no time, and an expression downstream could raise for it.
    """
    if len(batches) < 2:
        return False
    first, second = (each.column(DIFF).to_numpy() for each in batches)
    return bool((first > 0).any() and (second < 0).any())


def _have_common_keys(one: Run, other: Run) -> bool:
    return bool(np.isin(one.words[0], other.words[0]).any())


def _together(found: Met) -> list[tuple[Rounds, list[pa.RecordBatch]]]:
    """What is to be sent at each time, the least first."""
    batches: dict[Rounds, list[pa.RecordBatch]] = {}
    for at, batch in found:
        batches.setdefault(at, []).append(batch)
    return sorted(batches.items())
