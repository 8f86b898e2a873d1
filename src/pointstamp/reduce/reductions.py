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
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrow.hash_table import Slots
from pointstamp.arrow.key_codec import codec_of, grown
from pointstamp.arrow.key_index import KeyIndex
from pointstamp.errors import FlowError, RecoveryError, SchemaError
from pointstamp.operators.context import Context
from pointstamp.reduce.accumulators import SumTooLarge
from pointstamp.reduce.aggregate import Aggregate, Aggregation
from pointstamp.reduce.binding import Bound, bind
from pointstamp.reduce.states import KeyStates
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
    complete long before (0, 5): the plan must declare that this operator takes its times in order.

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


# State by key: an index of keys, and state columns by slot.
#
# ``Groups`` is that state, for one time or for all times so far. ``TimeRows`` holds what has come of one
# time: its groups, and a few rows that have not been folded into them yet. All of it is plain arrays.
#
# Groups can be saved, as one row for each key, and restored from such rows. From the first save on they note
# which keys change, so that the next one may hold those alone; an operator that never saves pays nothing for
# it.

# Folding a batch costs some tens of microseconds whatever its size: small ones wait for each other.
_WAITING_ROWS_MAX: Final = 8_192
_NO_SLOTS: Final[Slots] = np.empty(0, np.intp)
# Rows of state are saved in blocks, so that the strings of one fit the 32-bit offsets of their column.
_SAVED_ROWS_MAX: Final = 262_144


@dataclass(frozen=True, slots=True)
class Reduction:
    """The computation of a reduction: keys, aggregates, columns and the result schema."""

    keys: tuple[str, ...]
    bound: Mapping[str, Bound]
    columns: list[str]
    result: pa.Schema


class Groups:
    """The keys seen so far, with one state for each aggregate; changed by the operator that owns it."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.index = KeyIndex(pa.schema([reduction.result.field(key) for key in reduction.keys]))
        self.states = {name: KeyStates(bound) for name, bound in reduction.bound.items()}
        self._last_row: Slots = _NO_SLOTS
        # Which keys have changed since the last save, once there was one.
        self._has_changed: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.index)

    def update(self, batch: pa.RecordBatch) -> None:
        """Bring rows in."""
        slots = self.index.slots(batch)
        for state in self.states.values():
            state.grow(len(self))
            state.update(batch, slots)

    def fold(self, rows: "TimeRows") -> Slots:
        """Bring all rows of a time in; return the slots of the keys that are new or have changed."""
        known = len(self)
        groups, batch = rows.groups, rows.take_waiting()
        group_slots = _NO_SLOTS if groups is None else self.index.slots(groups.keys())
        batch_slots = _NO_SLOTS if batch is None else self.index.slots(batch)
        slots = batch_slots if groups is None else np.concatenate((group_slots, batch_slots))
        touched = slots if len(slots) == 1 else self._distinct(slots)
        changed = touched >= known
        for name, state in self.states.items():
            state.grow(len(self))
            before, had_value = state.taken(touched), state.has_value[touched]
            if groups is not None:
                state.merge(group_slots, groups.states[name])
            if batch is not None:
                state.update(batch, batch_slots)
            changed |= state.differ(touched, before)
            # The first value of a key need not change its state: a sum stays 0, and is not null any more.
            changed |= state.has_value[touched] != had_value
        found: Slots = touched[changed]
        if self._has_changed is not None:
            self._has_changed = grown(self._has_changed, len(self))
            self._has_changed[found] = True
        return found

    def keys(self) -> pa.RecordBatch:
        """All keys, by slot."""
        return self.index.keys(np.arange(len(self)))

    def results(self, slots: Slots, operator: str) -> pa.RecordBatch:
        """The keys and aggregates of these slots; an error names the operator."""
        columns = self.index.key_columns(slots)
        for name, state in self.states.items():
            try:
                columns.append(state.results(slots, f"operator '{operator}': '{name}'"))
            except SumTooLarge as too_large:
                key = self.index.keys(slots[too_large.row : too_large.row + 1])
                raise _sum_error(operator, name, state.bound, key) from None
        return pa.RecordBatch.from_arrays(columns, schema=self.reduction.result)

    def save(self, operator: str, *, changes_only: bool) -> Piece:
        """The keys and states as rows: all of them, or those that changed since the last save."""
        marks = None if not changes_only else self._has_changed
        slots = np.arange(len(self)) if marks is None else np.flatnonzero(marks)
        schema = self._saved_schema()
        blocks = np.split(slots, range(_SAVED_ROWS_MAX, len(slots), _SAVED_ROWS_MAX))
        batches = [self._saved(block, schema, operator) for block in blocks]
        self._has_changed = np.zeros(len(self), np.bool_)
        keys = self.reduction.keys
        # Dictionaries are made for each block, and some formats of files want one for all.
        table = pa.Table.from_batches(batches, schema).unify_dictionaries()
        return Piece(table, keys, keys, is_whole=marks is None)

    def restore(self, table: pa.Table, operator: str) -> None:
        """Take in rows that were saved; their keys are distinct and not known yet."""
        expected = self._saved_schema()
        if table.schema != expected:
            raise RecoveryError(
                f"operator '{operator}' needs saved groups with {_shown(expected)}, got "
                f"{_shown(table.schema)}. Resume with the aggregates that were saved, or start without "
                "the snapshot."
            )
        for batch in table.to_batches():
            slots = self.index.slots(batch)
            for name, state in self.states.items():
                state.grow(len(self))
                state.restore(slots, batch.column(name), f"operator '{operator}': the aggregate '{name}'")

    def _saved(self, slots: Slots, schema: pa.Schema, operator: str) -> pa.RecordBatch:
        columns = self.index.key_columns(slots)
        for name, state in self.states.items():
            columns.append(state.saved(slots, f"operator '{operator}': the aggregate '{name}'"))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _saved_schema(self) -> pa.Schema:
        """The key columns, and the state of each aggregate under its name, which is not a key's."""
        keys = [self.reduction.result.field(key) for key in self.reduction.keys]
        return pa.schema([*keys, *(pa.field(name, state.saved_type) for name, state in self.states.items())])

    def _distinct(self, slots: Slots) -> Slots:
        """Each of these slots once, without sorting: of equal ones, the one that writes last."""
        if len(self._last_row) < len(self):
            self._last_row = np.empty(2 * len(self), np.intp)
        rows = np.arange(len(slots))
        self._last_row[slots] = rows
        distinct: Slots = slots[self._last_row[slots] == rows]
        return distinct


class TimeRows:
    """The rows of one time; small batches wait and are folded together."""

    def __init__(self, reduction: Reduction) -> None:
        self.groups: Groups | None = None
        self._reduction = reduction
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch in."""
        columns = self._reduction.columns
        self._waiting.append(batch if batch.num_columns == len(columns) else batch.select(columns))
        self._waiting_rows += batch.num_rows
        if self._waiting_rows > _WAITING_ROWS_MAX:
            self.folded()

    def take_waiting(self) -> pa.RecordBatch | None:
        """Return the rows that are not in the groups yet, and release them."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        if not waiting:
            return None
        return waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)

    def folded(self) -> Groups:
        """The groups of all rows so far."""
        if self.groups is None:
            self.groups = Groups(self._reduction)
        batch = self.take_waiting()
        if batch is not None:
            self.groups.update(batch)
        return self.groups


def _sum_error(operator: str, name: str, bound: Bound, key: pa.RecordBatch) -> FlowError:
    where = ", ".join(f"{column} = {value!r}" for column, value in key.to_pylist()[0].items())
    return FlowError(
        f"operator '{operator}': the sum '{name}' of the column '{bound.column}' does not fit "
        f"{bound.result_type} at the key {where}. Cast the column to double or to a wider decimal first."
    )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"'{field.name}' {field.type}" for field in schema)


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
