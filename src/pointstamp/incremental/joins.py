"""Joins of every kind: which rows have a partner, and what comes of the others.

The rows of a side that have a partner are those whose key is among the keys of the other side; with a
condition besides, those that stand in a pair for which it holds. The others are the side without these. So
when the last partner of a row disappears, the row with nulls appears in the same epoch, and the other way
round.

Outside loops and without a condition an operator of its own looks for partners. Otherwise they are found by
inner joins with what is distinct, so that what holds of these in loops holds here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD, Integers, with_weights
from pointstamp.arrangement.groups import groups_of
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.arrangement.run import Run
from pointstamp.arrow.row_hashing import hash_columns
from pointstamp.expressions.tree import Expression, col
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.plan import How
from pointstamp.incremental.hash_join import Joining, joining, rows_may_cancel, without_null_keys
from pointstamp.incremental.operations import (
    distinct,
    inner_join,
    rows_schema,
    selected,
    semi_join_rows,
    subtract,
    union_all,
)
from pointstamp.incremental.shared_arrangements import Arrangements, TableByKey, arranged_by
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.state.pieces import Piece


def joined(
    left: PhysicalStream, right: PhysicalStream, asked: Joining, how: How, where: Expression | None, name: str
) -> PhysicalStream:
    """The join of two tables."""
    if how in ("semi", "anti") and where is None:
        return _by_partner(left, right, asked.pairs, name, wanted=how == "semi")
    found = inner_join(left, right, asked, name, where)
    if how in ("semi", "anti"):
        row = asked.left_of_pairs()
        if how == "semi":
            return _standing(left, found, row, f"{name}: left")
        return _not_standing(left, found, row, f"{name}: left", f"{name}: others")
    made = found
    if how in ("left", "full"):
        others = _others(left, right, asked.pairs, found, asked.left_of_pairs(), where, f"{name}: left")
        made = union_all(made, _alone(others, asked.left_alone(), f"{name}: left"), f"{name}: with left")
    if how in ("right", "full"):
        on = {theirs: mine for mine, theirs in asked.pairs.items()}
        others = _others(right, left, on, found, asked.right_of_pairs(), where, f"{name}: right")
        made = union_all(made, _alone(others, asked.right_alone(), f"{name}: right"), f"{name}: with right")
    return made


def _others(
    side: PhysicalStream,
    other: PhysicalStream,
    on: Mapping[str, str],
    found: PhysicalStream,
    row: Mapping[str, Expression],
    where: Expression | None,
    name: str,
) -> PhysicalStream:
    """The rows of a side that have no partner."""
    if where is None:
        return _by_partner(side, other, on, name, wanted=False)
    return _not_standing(side, found, row, name, f"{name}: others")


def _by_partner(
    side: PhysicalStream, other: PhysicalStream, on: Mapping[str, str], name: str, *, wanted: bool
) -> PhysicalStream:
    """The rows of a side whose key is among the keys of the other, or the others."""
    if not side.loops:
        return with_partner(side, other, on, name if wanted else f"{name}: others", wanted=wanted)
    partners = _having(side, other, on, name)
    return partners if wanted else subtract(side, partners, f"{name}: others")


def _having(side: PhysicalStream, other: PhysicalStream, on: Mapping[str, str], name: str) -> PhysicalStream:
    """The rows of a side whose key is among the keys of the other."""
    keys: dict[str, Expression] = {mine: col(theirs) for mine, theirs in on.items()}
    known = distinct(selected(other, f"{name}: keys", keys, name), f"{name}: distinct keys")
    asked = joining(name, rows_schema(side), rows_schema(known), tuple(keys), "")
    return inner_join(side, known, asked, f"{name}: partners")


def _standing(
    side: PhysicalStream, found: PhysicalStream, row: Mapping[str, Expression], name: str
) -> PhysicalStream:
    """The rows of a side that stand in a pair."""
    known = distinct(selected(found, f"{name}: in pairs", row, name), f"{name}: distinct in pairs")
    return semi_join_rows(side, known, f"{name}: partners")


def _not_standing(
    side: PhysicalStream, found: PhysicalStream, row: Mapping[str, Expression], name: str, others: str
) -> PhysicalStream:
    """The rows of a side that stand in no pair."""
    if side.loops:
        return subtract(side, _standing(side, found, row, name), others)
    pairs = selected(found, f"{name}: in pairs", row, name)
    same = {each: each for each in rows_schema(side).names}
    return with_partner(side, pairs, same, others, wanted=False, nulls_match=True)


def _alone(others: PhysicalStream, row: Mapping[str, Expression], name: str) -> PhysicalStream:
    """The rows of a side that have no partner, with nulls for one."""
    return selected(others, f"{name}: alone", row, name)


# The rows of a table that have a partner in another, or those that have none, kept up to date outside loops.
#
# Of the other table only the keys matter, and how many rows each has. When the first row of a key appears
# there, or the last one goes, the rows that wait here come out or go: they are found by their key.
#
# The rows of this side are those that an inner join by the same key keeps, and are kept once for both. In
# loops, where a key has other partners in other rounds, ``pointstamp.incremental.joins`` makes the same of
# joins.
#
# Invariant: what was sent up to an epoch, consolidated, is the rows that have a partner then, or those that
# have none.


@dataclass(frozen=True, slots=True)
class PartnerPlan:
    """Which columns of both sides are compared."""

    schema: pa.Schema
    keys: tuple[str, ...]
    other: pa.Schema
    other_keys: tuple[str, ...]
    nulls_match: bool = False
    """Whether a null in a key equals a null, as it does where complete rows are compared."""


class WithPartner:
    """Sends how the rows with a partner change when an epoch is settled."""

    keeps: ClassVar = (
        "its rows by key, and how many rows each key has on the other side; a change costs its rows"
    )
    wants_partner: ClassVar = True

    def __init__(self, plan: PartnerPlan, *, arranged: Mapping[str, TableByKey]) -> None:
        self._plan = plan
        self._rows = Arrangement(plan.schema, plan.keys)
        counted = [plan.other.field(key) for key in plan.other_keys]
        self._partners = Arrangement(pa.schema([*counted, DIFF_FIELD]), plan.other_keys)
        own = {"rows": self._rows, "partners": self._partners}
        self._layouts = {name: each.layout for name, each in own.items()}
        self._arrangements = Arrangements(own, arranged)
        self._open = OpenChanges()

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Keep in one place what other operators of the worker keep, too."""
        self._arrangements.share_with(others)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled; a row with a null in its key mostly has no partner."""
        if input == "partners":
            batch = batch.select([*self._plan.other_keys, DIFF])
        known = batch if self._plan.nulls_match else without_null_keys(batch, self._layouts[input].keys)
        if input == "rows" and not self.wants_partner and known.num_rows < batch.num_rows:
            lacking = np.flatnonzero(~_has_keys(batch, self._plan.keys))
            context.send(batch.take(pa.array(lacking)))
        if known.num_rows:
            self._open.put(context.time, input, known)
            context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the rows whose keys have got their first partner or lost their last one, and what is new."""
        changes = self._open.take_runs(context.time, self._layouts)
        sent: list[pa.RecordBatch] = []
        if "partners" in changes:
            sent += self._change_partners(changes["partners"])
        if "rows" in changes:
            sent += self._change_rows(changes["rows"])
        for each in [added_up(sent)] if rows_may_cancel(sent) else sent:
            context.send(each)

    def _change_partners(self, change: Run) -> list[pa.RecordBatch]:
        before = self._partners.weights_of(change)
        has = (before + change.weights > 0).astype(np.int64)
        appear = has - (before > 0)
        keys = np.flatnonzero(appear)
        sent: list[pa.RecordBatch] = []
        if len(keys):
            rows, which = self._rows.stored_of(change, keys)
            if len(which):
                weights: Integers = rows.column(DIFF).to_numpy() * appear[keys][which]
                found = with_weights(rows, weights if self.wants_partner else -weights)
                # A stored row and its deletion may be in two runs that are not merged.
                sent.append(added_up([found]) if (rows.column(DIFF).to_numpy() < 0).any() else found)
        self._partners.add_run(change)
        return sent

    def _change_rows(self, change: Run) -> list[pa.RecordBatch]:
        firsts, group = groups_of(change)
        has_partner = self._partners.weights_of(change, firsts) > 0
        wanted = np.flatnonzero(has_partner[group] == self.wants_partner)
        self._rows.add_run(change)
        return [pc.take(change.batch, pa.array(wanted), boundscheck=False)] if len(wanted) else []

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The rows, if no other operator keeps them, and the keys of the other side."""
        assert not len(self._open), "changes wait at a snapshot"
        return self._arrangements.save(changes_only=changes_only)

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the rows of this worker's keys."""
        self._arrangements.load(context.operator, pieces)


class WithoutPartner(WithPartner):
    """Sends how the rows without a partner change when an epoch is settled."""

    wants_partner: ClassVar = False


def with_partner(
    side: PhysicalStream,
    other: PhysicalStream,
    on: Mapping[str, str],
    name: str,
    *,
    wanted: bool,
    nulls_match: bool = False,
) -> PhysicalStream:
    """The rows of a side whose key is among the keys of the other, or the others; not for loops."""
    assert not side.loops
    plan = PartnerPlan(side.schema, tuple(on), other.schema, tuple(on.values()), nulls_match)
    arranged = {"rows": arranged_by(side, plan.keys, has_nulls=nulls_match)}
    logic = spec(WithPartner if wanted else WithoutPartner, plan, arranged=arranged)
    inputs = {"rows": side.exchange(*plan.keys), "partners": other.exchange(*plan.other_keys)}
    return add_operator(name, logic, inputs, {"out": side.schema}, in_order=True)[0]


def _has_keys(batch: pa.RecordBatch, keys: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    has = np.ones(batch.num_rows, np.bool_)
    for key in keys:
        has &= batch.column(key).is_valid().to_numpy(zero_copy_only=False)
    return has


# All pairs of two tables, for a table and a small one beside it.
#
# Every row of the small table must meet every row of the other wherever that one is. So the rows of the other
# are dealt to shards by all their columns, the small table is copied to every shard, and rows meet by shard:
# an inner join, which keeps the law in loops, too. There are a fixed number of shards, not one for each
# worker, because what is kept must continue with another number of workers.

SHARDS: Final = 16
"""How many copies of the small side there are, on all workers together."""

SHARD: Final = "__shard"
_FIELD: Final = pa.field(SHARD, pa.int64())


class Dealt:
    """Sends each row with its shard."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, columns: Sequence[str], schema: pa.Schema) -> None:
        self._columns = list(columns)
        self._schema = schema

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Deal the rows."""
        # The lowest bits choose the worker, and a shard must not follow from them.
        shards = (hash_columns(batch, self._columns) >> np.uint64(20)) % np.uint64(SHARDS)
        context.send(_with_shards(batch, shards.astype(np.int64), self._schema))


class Copied:
    """Sends a copy of each row for every shard."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Copy the rows."""
        rows = np.tile(np.arange(batch.num_rows), SHARDS)
        shards = np.repeat(np.arange(SHARDS), batch.num_rows)
        context.send(_with_shards(batch.take(pa.array(rows)), shards, self._schema))


def all_pairs(
    left: PhysicalStream, small: PhysicalStream, suffix: str, where: Expression | None, name: str, who: str
) -> PhysicalStream:
    """The pairs of all rows of both for which a condition holds."""
    mine, theirs = (_sharded(each.schema) for each in (left, small))
    deal = spec(Dealt, rows_schema(left).names, mine)
    dealt = add_operator(f"{name}: shards", deal, {"in": left}, {"out": mine})[0]
    copied = add_operator(f"{name}: copies", spec(Copied, theirs), {"in": small}, {"out": theirs})[0]
    asked = joining(who, rows_schema(dealt), rows_schema(copied), SHARD, suffix)
    found = inner_join(dealt, copied, asked, name, where)
    kept = {each: col(each) for each in rows_schema(found).names if each != SHARD}
    return selected(found, f"{name}: pairs", kept, who)


def _sharded(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_FIELD, *schema])


def _with_shards(
    batch: pa.RecordBatch, shards: np.typing.NDArray[np.int64], schema: pa.Schema
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(shards), *batch.columns], schema=schema)
