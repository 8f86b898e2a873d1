"""The rows of a table that have a partner in another, or those that have none, kept up to date outside loops.

Of the other table only the keys matter, and how many rows each has. When the first row of a key appears
there, or the last one goes, the rows that wait here come out or go: they are found by their key.

The rows of this side are those that an inner join by the same key keeps, and are kept once for both. In
loops, where a key has other partners in other rounds, ``pointstamp.tables.outer`` makes the same of joins.

Invariant: what was sent up to an epoch, added up, is the rows that have a partner then, or those that have
none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.flow.outlet import add_operator
from pointstamp.flow.stream import Stream
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.state.pieces import Piece
from pointstamp.tables.join import without_null_keys
from pointstamp.tables.kept.arrangement import Arrangement
from pointstamp.tables.kept.open_changes import OpenChanges
from pointstamp.tables.kept.run import Run
from pointstamp.tables.kept.run_keys import groups_of
from pointstamp.tables.kept.weights import DIFF, DIFF_FIELD, Integers, with_weights
from pointstamp.tables.sharing import Arrangements, TableByKey, arranged_by


@dataclass(frozen=True, slots=True)
class PartnerPlan:
    """Which columns of both sides are compared."""

    schema: pa.Schema
    keys: tuple[str, ...]
    other: pa.Schema
    other_keys: tuple[str, ...]


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
        """Keep the change until its epoch is settled; a row with a null in its key has no partner ever."""
        if input == "partners":
            batch = batch.select([*self._plan.other_keys, DIFF])
        known = without_null_keys(batch, self._layouts[input].keys)
        if input == "rows" and not self.wants_partner and known.num_rows < batch.num_rows:
            lacking = np.flatnonzero(~_has_keys(batch, self._plan.keys))
            context.send(batch.take(pa.array(lacking)))
        if known.num_rows:
            self._open.put(context.time, input, known)
            context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the rows whose keys have got their first partner or lost their last one, and what is new."""
        changes = self._open.take_runs(context.time, self._layouts)
        if "partners" in changes:
            self._change_partners(context, changes["partners"])
        if "rows" in changes:
            self._change_rows(context, changes["rows"])

    def _change_partners(self, context: Context, change: Run) -> None:
        before = self._partners.weights_of(change)
        has = (before + change.weights > 0).astype(np.int64)
        appear = has - (before > 0)
        keys = np.flatnonzero(appear)
        if len(keys):
            rows, which = self._rows.stored_of(change, keys)
            if len(which):
                weights: Integers = rows.column(DIFF).to_numpy() * appear[keys][which]
                context.send(with_weights(rows, weights if self.wants_partner else -weights))
        self._partners.add_run(change)

    def _change_rows(self, context: Context, change: Run) -> None:
        firsts, group = groups_of(change)
        has_partner = self._partners.weights_of(change, firsts) > 0
        wanted = np.flatnonzero(has_partner[group] == self.wants_partner)
        if len(wanted):
            context.send(pc.take(change.batch, pa.array(wanted), boundscheck=False))
        self._rows.add_run(change)

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


def with_partner(side: Stream, other: Stream, on: Mapping[str, str], name: str, *, wanted: bool) -> Stream:
    """The rows of a side whose key is among the keys of the other, or the others; not for loops."""
    assert not side.loops
    plan = PartnerPlan(side.schema, tuple(on), other.schema, tuple(on.values()))
    arranged = {"rows": arranged_by(side, plan.keys)}
    logic = spec(WithPartner if wanted else WithoutPartner, plan, arranged=arranged)
    inputs = {"rows": side.exchange(*plan.keys), "partners": other.exchange(*plan.other_keys)}
    return add_operator(name, logic, inputs, {"out": side.schema}, in_order=True)[0]


def _has_keys(batch: pa.RecordBatch, keys: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    has = np.ones(batch.num_rows, np.bool_)
    for key in keys:
        has &= batch.column(key).is_valid().to_numpy(zero_copy_only=False)
    return has
