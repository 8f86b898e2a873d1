"""State by key: an index of keys, and state columns by slot.

``Groups`` is that state, for one time or for all times so far. ``TimeRows`` holds what has come of one time:
its groups, and a few rows that have not been folded into them yet. All of it is plain arrays.

Groups can be saved, as one row for each key, and restored from such rows. From the first save on they note
which keys change, so that the next one may hold those alone; an operator that never saves pays nothing for
it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import FlowError, RecoveryError
from pointstamp.keyed.columns import grown
from pointstamp.keyed.index import KeyIndex
from pointstamp.keyed.table import Slots
from pointstamp.reduce.accumulators import SumTooLarge
from pointstamp.reduce.binding import Bound
from pointstamp.reduce.states import KeyStates
from pointstamp.state.pieces import Piece

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
        """The rows that are not in the groups yet; they are handed over."""
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
