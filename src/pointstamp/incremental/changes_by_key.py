"""A table as a stream of upserts by key.

Of a key that has one row at most, the change of an epoch says all: the row that appears is the new one, and
where none appears the key is gone. So no rows are kept, only how many each key has, which must be one or
none: of two rows neither is the newer one.

Invariant: what was sent last for a key is its row, or says that there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD, Integers
from pointstamp.arrangement.open_changes import OpenChanges, added_up
from pointstamp.arrow.key_index import KeyIndex
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.updates import Replaces
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.state.pieces import Piece


@dataclass(frozen=True, slots=True)
class NewestPlan:
    """Which columns are the key, and what is sent: all columns, and whether the key is gone."""

    keys: tuple[str, ...]
    result: pa.Schema


class NewestRows:
    """Sends the row of each key that changed when an epoch is settled; keeps how many rows each key has."""

    keeps: ClassVar = "how many rows each key has; a change costs its rows"

    def __init__(self, plan: NewestPlan) -> None:
        self._plan = plan
        fields = [plan.result.field(key) for key in plan.keys]
        self._counts = Arrangement(pa.schema([*fields, DIFF_FIELD]), plan.keys)
        self._open = OpenChanges()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its epoch is settled."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the new row of each key, or that it is gone."""
        for change in self._open.take(context.time).values():
            self._counts.add(change.select([*self._plan.keys, DIFF]))
            index = KeyIndex(change.select(list(self._plan.keys)).schema)
            slots = index.slots(change.select(list(self._plan.keys)))
            self._check(context, index.keys(np.arange(len(index))))
            does_appear = change.column(DIFF).to_numpy() > 0
            context.send(self._made(change.filter(pa.array(does_appear)), is_gone=False))
            gone = np.setdiff1d(slots, slots[does_appear])
            if len(gone):
                context.send(self._made(index.keys(gone), is_gone=True))

    def _check(self, context: Context, keys: pa.RecordBatch) -> None:
        """Refuse keys that have several rows now."""
        counted = added_up([self._counts.rows_of(keys, self._plan.keys)])
        counts: Integers = counted.column(DIFF).to_numpy()
        several = np.flatnonzero(counts > 1)
        if not len(several):
            return
        key = counted.slice(int(several[0]), 1).drop_columns([DIFF]).to_pylist()[0]
        raise FlowError(
            f"operator '{context.operator}': after epoch {context.epoch} the key {key} has "
            f"{counts[several[0]]} rows, but upserts need one row per key. Add columns to the key, or "
            "keep one row per key, for example with top(1, *keys, by=...)."
        )

    def _made(self, rows: pa.RecordBatch, *, is_gone: bool) -> pa.RecordBatch:
        columns = [
            pa.nulls(rows.num_rows, field.type)
            if is_gone and field.name not in self._plan.keys
            else rows.column(field.name)
            for field in list(self._plan.result)[:-1]
        ]
        marks = pa.array(np.full(rows.num_rows, is_gone))
        return pa.RecordBatch.from_arrays([*columns, marks], schema=self._plan.result)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """How many rows each key has."""
        assert not len(self._open), "changes wait at a snapshot"
        return {"counts": self._counts.save(changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the keys of this worker."""
        self._counts.load(pieces["counts"])


def newest_rows(
    deltas: PhysicalStream, keys: tuple[str, ...], deleted: str, name: str, who: str
) -> PhysicalStream:
    """The stream of a table's newest rows by key."""
    fields = list(deltas.schema)[:-1]
    if not keys:
        raise FlowError(f"{who}: no key column was given. Name the key, for example upserts('id').")
    check_columns(who, pa.schema(fields), keys)
    if deleted in deltas.schema.names:
        raise SchemaError(
            f"{who}: the column '{deleted}' already exists. Give another name for the mark of deleted "
            "keys, such as deleted='gone'."
        )
    if deltas.loops:
        raise FlowError(
            f"{who} cannot be used in a loop, where rows of several rounds have no order. Leave the loop "
            "first."
        )
    result = pa.schema([*fields, pa.field(deleted, pa.bool_(), nullable=False)])
    others = tuple(each for each in result.names if each not in keys)
    return add_operator(
        name,
        spec(NewestRows, NewestPlan(keys, result)),
        {"in": deltas.exchange(*keys)},
        {"out": result},
        in_order=True,
        sends=Replaces(keys, others),
    )[0]
