"""Reductions by key, per time or running over all times.

Both take part in progress the same way: rows are taken in as they come, the operator asks to be notified of
their time, and sends nothing before that time is complete. What is kept of a time is one state per distinct
key and at most a few thousand rows that have not been folded into it yet; how many rows came does not matter.

Times are kept apart: a batch of a later time may come before an earlier time is complete, and then waits.
No order of the rows in a result is promised.

State is saved at a closed epoch, where no time is open: of a running reduction its groups, by key; of the
other nothing at all.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.keyed.codec import codec_of
from pointstamp.keyed.index import KeyIndex
from pointstamp.operators.context import Context
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.reduce.binding import bind
from pointstamp.reduce.groups import Groups, Reduction, TimeRows
from pointstamp.state.pieces import Piece
from pointstamp.topology.domain import Time

__all__ = ["Aggregate", "Aggregation", "RunningReduce", "WindowedReduce", "reduced_schema"]


def reduced_schema(
    who: str, schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, Aggregation]
) -> pa.Schema:
    """The key columns, then one column for each aggregate; SchemaError names a column that cannot be."""
    fields = []
    for key in keys:
        if key not in schema.names:
            have = ", ".join(f"'{field.name}' {field.type}" for field in schema)
            raise SchemaError(f"{who} needs the key column '{key}', got {have}. Name one of these.")
        codec_of(schema.field(key), KeyIndex)
        fields.append(schema.field(key))
    for name, aggregation in aggregates.items():
        fields.append(pa.field(name, bind(who, name, aggregation, schema).result_type))
    names = [field.name for field in fields]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SchemaError(f"{who}: the column '{twice[0]}' already exists. Give the aggregate another name.")
    return pa.schema(fields)


class WindowedReduce:
    """Aggregates each time separately: emitted when the time is complete, then freed."""

    keeps: ClassVar = "nothing after an epoch; a change costs its rows"

    def __init__(self, schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, Aggregation]) -> None:
        self._plan = _reduction(schema, keys, aggregates)
        self._open: dict[Time, TimeRows] = {}

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Take the rows in, and ask for their time."""
        _take_in(self._plan, self._open, context, batch)

    def on_notify(self, context: Context) -> None:
        """Send the results of all keys of the time."""
        rows = self._open.pop(context.time, None)
        if rows is not None:
            groups = rows.folded()
            context.send(groups.results(np.arange(len(groups)), context.operator))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Nothing: what has come of a time is gone when it is complete."""
        assert not self._open, f"times {list(self._open)} are open at a snapshot"
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Begin again."""


class RunningReduce:
    """The aggregates over all times so far: sent when a time is complete, for the keys that changed at it.

    What is sent at a time holds the rows of that time and of all before it: of all earlier epochs, and in a
    loop of the earlier rounds of its own. Times are taken in this order, epochs first, also where (1, 0) is
    complete long before (0, 5): whoever adds this operator to a plan says that it takes its times in order.

    A key has changed when it is new, or when what is kept for one of its aggregates is not what it was: a
    count changes with every row, a sum with what is added to it, a least value only when a smaller one
    arrives. So a loop that feeds a running ``min`` back comes to an end.
    """

    keeps: ClassVar = "the aggregates of each key; a change costs its rows"

    def __init__(self, schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, Aggregation]) -> None:
        self._plan = _reduction(schema, keys, aggregates)
        self._open: dict[Time, TimeRows] = {}
        self._groups = Groups(self._plan)
        self._operator = "reduce"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the rows until their time is complete."""
        _take_in(self._plan, self._open, context, batch)

    def on_notify(self, context: Context) -> None:
        """Fold the rows of the time in, and send what changed."""
        rows = self._open.pop(context.time, None)
        if rows is None:
            return
        self._operator = context.operator
        changed = self._groups.fold(rows)
        context.send(self._groups.results(changed, context.operator))

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The groups: all of them, or those that changed since the last save."""
        assert not self._open, f"operator '{self._operator}': times {list(self._open)} are open at a snapshot"
        return {"groups": self._groups.save(self._operator, changes_only=changes_only)}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the groups of this worker's keys."""
        self._operator = context.operator
        self._groups.restore(pieces["groups"], self._operator)


def _reduction(schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, Aggregation]) -> Reduction:
    bound = {name: bind("reduce", name, wanted, schema) for name, wanted in aggregates.items()}
    looked_at = [wanted.column for wanted in bound.values() if wanted.column is not None]
    columns = list(dict.fromkeys((*keys, *looked_at)))
    return Reduction(tuple(keys), bound, columns, reduced_schema("reduce", schema, keys, aggregates))


def _take_in(plan: Reduction, rows: dict[Time, TimeRows], context: Context, batch: pa.RecordBatch) -> None:
    held = rows.get(context.time)
    if held is None:
        held = rows[context.time] = TimeRows(plan)
        context.notify_at()
    held.add(batch)
