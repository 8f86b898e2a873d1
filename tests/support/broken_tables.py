"""Tables with a mistake in them, one mistake each: what others have got wrong, and what a test must find."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pointstamp.arrangement.arrangement import Arrangement, FirstRows, Kept
from pointstamp.arrangement.column_arrays import KeptColumn, arrow_column
from pointstamp.arrangement.consolidate import DIFF, Integers
from pointstamp.arrangement.groups import Grouped, groups_of
from pointstamp.arrangement.loop_times import Rounds
from pointstamp.arrangement.run import Run
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.incremental import distinct, joins, operations
from pointstamp.incremental.aggregate_operators import OnSums, SumsPlan
from pointstamp.incremental.distinct import OnRows
from pointstamp.incremental.group_aggregates import Once
from pointstamp.incremental.group_operator import OnGroups
from pointstamp.incremental.hash_join import InnerJoin, JoinPlan
from pointstamp.incremental.shared_arrangements import Arrangements
from pointstamp.incremental.stateless import Consolidated
from pointstamp.operators.context import Context
from pointstamp.state.pieces import Piece

Break = Callable[[pytest.MonkeyPatch], None]


class AtTheLaterTime(InnerJoin):
    """Sends a pair at the later of both times, and not at their least upper bound."""

    def _bounds(self, rows: Sequence[KeptColumn], rounds: Rounds) -> npt.NDArray[np.int64]:
        return np.tile(np.array(rounds, np.int64), (len(rows[-1]), 1))


class OnlyWhereSomethingArrives(OnGroups):
    """Looks at a key only at times at which one of its rows changes."""

    def _look_again(self, *_: Any) -> None:  # noqa: ANN401 - as the operator takes it
        pass


class WithoutClosure(OnGroups):
    """Looks again where a change meets a stored row, but not where that meets another one."""

    def __init__(self, plan: Any) -> None:  # noqa: ANN401 - as the operator takes it
        super().__init__(plan)
        self._arrived: set[Any] = set()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._arrived.add(context.time)
        super().on_receive(context, input, batch)

    def _look_again(self, context: Context, *given: Any) -> None:  # noqa: ANN401 - as the operator takes it
        if context.time in self._arrived:
            super()._look_again(context, *given)


class KeepsZeros(Consolidated):
    """Adds rows up, and sends also those that add up to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._batches: dict[Any, list[pa.RecordBatch]] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._batches.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        table = pa.Table.from_batches(self._batches.pop(context.time))
        names = [name for name in table.column_names if name != DIFF]
        sums = table.group_by(names).aggregate([(DIFF, "sum")]).rename_columns([*names, DIFF])
        context.send(sums.cast(context.schema()).combine_chunks().to_batches()[0])


class NullsMatch(InnerJoin):
    """A null in a key equals a null."""

    def __init__(self, plan: JoinPlan, **given: Any) -> None:  # noqa: ANN401 - as the class takes it
        super().__init__(replace(plan, nulls_match=True), **given)


class Copies(OnRows):
    """Takes every copy of a row for a change of what is distinct."""

    def _sent(self, before: Integers, after: Integers) -> Integers:
        return after - before


class CopiesInLoops(Once):
    """The same in a loop."""

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        own = [groups.rows.column(name) for name in self.result.names]
        return pa.RecordBatch.from_arrays(own, schema=self.result)


class Drifting(OnSums):
    """Adds to the last sum what is new, and subtracts what is gone, as floats."""

    def __init__(self, plan: SumsPlan) -> None:
        super().__init__(plan)
        self._known: dict[Any, float] = {}

    def _change(self, context: Context, change: Run) -> None:
        firsts, group = groups_of(change)
        keys = change.batch.select(["k"]).take(pa.array(firsts))
        sums, _ = self._plan.summing.results(change.batch, group, keys.columns)
        values = arrow_column(sums[0], self._plan.result.types[1])
        for key, added in zip(keys.column(0).to_pylist(), values.to_pylist(), strict=True):
            before, after = self._known.get(key), self._known.get(key, 0.0) + (added or 0.0)
            self._known[key] = after
            rows = [{"k": key, "n": after, DIFF: 1}]
            rows += [] if before is None else [{"k": key, "n": before, DIFF: -1}]
            context.send(pa.RecordBatch.from_pylist(rows, self._plan.result))


class AddsOnly:
    """Sends what appears, and never takes it back."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch.filter(pc.greater(batch.column(DIFF), 0)))


def without_rounds(pieces: Mapping[str, Piece]) -> Mapping[str, Piece]:
    """What was saved, all of it in round 0."""
    return {name: replace(piece, table=_in_round_0(piece.table)) for name, piece in pieces.items()}


def _in_round_0(table: pa.Table) -> pa.Table:
    for position, name in enumerate(table.column_names):
        if name.startswith("__round"):
            zeros = pa.array(np.zeros(table.num_rows, np.int64))
            table = table.set_column(position, table.schema.field(position), zeros)
    return table


class JoinSavedWithoutRounds(InnerJoin):
    """Saves its sides without the rounds of their rows."""

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        return without_rounds(super().save(changes_only=changes_only))


class GroupsSavedWithoutRounds(OnGroups):
    """Saves its groups without the rounds of their rows."""

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        return without_rounds(super().save(changes_only=changes_only))


def _forgets_what_changed(patch: pytest.MonkeyPatch) -> None:
    right = Arrangement.save

    def save(self: Arrangement, *, changes_only: bool) -> Piece:
        piece = right(self, changes_only=changes_only)
        return piece if piece.is_whole else replace(piece, table=piece.table.slice(0, 0))

    patch.setattr(Arrangement, "save", save)


def _looks_no_further(patch: pytest.MonkeyPatch) -> None:
    right = Arrangement.first_rows

    def first_rows(self: Arrangement, *given: Any) -> FirstRows:  # noqa: ANN401 - as the method takes it
        found = right(self, *given)
        return replace(found, is_all=np.ones_like(found.is_all))

    patch.setattr(Arrangement, "first_rows", first_rows)


def _sees_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kept, "_later_of", lambda self, _: self.later)


def _looks_at_one_side(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(distinct.OnlyInFirst, "_wanted", lambda _, left, right: left)


def _adds_again(patch: pytest.MonkeyPatch) -> None:
    def add(self: Kept, _: int, run: Run) -> None:
        self.runs.add(run)

    patch.setattr(Kept, "add", add)


def _is_saved_by_nobody(patch: pytest.MonkeyPatch) -> None:
    right = Arrangements.save

    def save(self: Arrangements, *, changes_only: bool) -> dict[str, Piece]:
        return {
            name: piece
            if self._own[name]._kept.readers == 1
            else replace(piece, table=piece.table.slice(0, 0))
            for name, piece in right(self, changes_only=changes_only).items()
        }

    patch.setattr(Arrangements, "save", save)


def _in_place_of(name: str, broken: object) -> Break:
    return lambda patch: patch.setattr(operations, name, broken)


def _in_no_order(patch: pytest.MonkeyPatch) -> None:
    def add(*given: Any, in_order: bool = False, **named: Any) -> list[PhysicalStream]:  # noqa: ANN401 - as it takes
        return add_operator(*given, **named)

    patch.setattr(operations, "add_operator", add)


def _start_goes_round(patch: pytest.MonkeyPatch) -> None:
    right = operations.subtract

    def without(changes: PhysicalStream, part: PhysicalStream, name: str) -> PhysicalStream:
        return changes if name == "without the start" else right(changes, part, name)

    patch.setattr(operations, "subtract", without)


def _null_rows_stay(patch: pytest.MonkeyPatch) -> None:
    right = joins._alone

    def alone(*given: Any) -> PhysicalStream:  # noqa: ANN401 - as the function takes it
        made = right(*given)
        return add_operator("adds only", AddsOnly, {"in": made}, {"out": made.schema})[0]

    patch.setattr(joins, "_alone", alone)


def _saved_without_rounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(operations, "InnerJoin", JoinSavedWithoutRounds)
    patch.setattr(operations, "OnGroups", GroupsSavedWithoutRounds)


BROKEN: dict[str, Break] = {
    "a join sends at the later time": _in_place_of("InnerJoin", AtTheLaterTime),
    "a group is looked at only where something arrives": _in_place_of("OnGroups", OnlyWhereSomethingArrives),
    "bounds of times are not closed": _in_place_of("OnGroups", WithoutClosure),
    "epochs are taken out of order": _in_no_order,
    "the start goes round": _start_goes_round,
    "a weight of 0 is sent on": _in_place_of("Consolidated", KeepsZeros),
    "null keys match": _in_place_of("InnerJoin", NullsMatch),
    "a row of nulls is not taken back": _null_rows_stay,
    "copies are changes of what is distinct": _in_place_of("OnRows", Copies),
    "copies are changes of what is distinct, in a loop": _in_place_of("Once", CopiesInLoops),
    "the first rows are taken for all": _looks_no_further,
    "the other side is not looked at": _looks_at_one_side,
    "what is shared is seen too early": _sees_all,
    "what is shared is added by everybody": _adds_again,
    "what is shared is saved by nobody": _is_saved_by_nobody,
    "a snapshot has no rounds": _saved_without_rounds,
    "a snapshot of what changed has nothing": _forgets_what_changed,
}
