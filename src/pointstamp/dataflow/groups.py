"""State by key: the keys seen so far, and for each aggregate a set of growing columns indexed by slot.

``Groups`` is that state, for one time or for all times so far. ``TimeRows`` holds what has come of one time:
its groups, and a few rows that have not been folded into them yet. ``KeyStates`` are the columns of one
aggregate. All of it is plain arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from pointstamp.dataflow.accumulators import State, SumTooLarge
from pointstamp.dataflow.aggregate import Bound, plain_type
from pointstamp.dataflow.keyindex import KeyIndex
from pointstamp.dataflow.keytable import Slots
from pointstamp.errors import FlowError, SchemaError

# Folding a batch costs some tens of microseconds whatever its size: small ones wait for each other.
_WAITING_ROWS_MAX: Final = 8_192
_NO_SLOTS: Final[Slots] = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is to be computed, of which columns, and the schema of the result."""

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
        touched = self._distinct(np.concatenate((group_slots, batch_slots)))
        changed = touched >= known
        for name, state in self.states.items():
            state.grow(len(self))
            before = state.taken(touched)
            if groups is not None:
                state.merge(group_slots, groups.states[name])
            if batch is not None:
                state.update(batch, batch_slots)
            changed |= state.differ(touched, before)
        return touched[changed]

    def keys(self) -> pa.RecordBatch:
        """All keys, by slot."""
        return self.index.keys(np.arange(len(self)))

    def results(self, slots: Slots, operator: str) -> pa.RecordBatch:
        """The keys and aggregates of these slots; an error names the operator."""
        keys = self.index.keys(slots)
        columns = list(keys.columns)
        for name, state in self.states.items():
            try:
                columns.append(state.results(slots, f"operator '{operator}': '{name}'"))
            except SumTooLarge as too_large:
                raise _sum_error(operator, name, state.bound, keys.slice(too_large.row, 1)) from None
        return pa.RecordBatch.from_arrays(columns, schema=self.reduction.result)

    def _distinct(self, slots: Slots) -> Slots:
        """Each of these slots once, without sorting: of equal ones, the one that writes last."""
        if len(self._last_row) < len(self):
            self._last_row = np.empty(2 * len(self), np.intp)
        rows = np.arange(len(slots))
        self._last_row[slots] = rows
        distinct: Slots = slots[self._last_row[slots] == rows]
        return distinct


class TimeRows:
    """What has come of one time; small batches wait, so that they are folded together."""

    def __init__(self, reduction: Reduction) -> None:
        self.groups: Groups | None = None
        self._reduction = reduction
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch in."""
        self._waiting.append(batch.select(self._reduction.columns))
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


class KeyStates:
    """The columns of one aggregate, by slot, and which keys have had a value."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.has_value: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._initial = dict(bound.accumulator.empty())
        self.columns: State = {name: _filled(value, 0) for name, value in self._initial.items()}

    def grow(self, size: int) -> None:
        """Make room for that many keys."""
        if len(self.has_value) >= size:
            return
        room = max(size, 2 * len(self.has_value))
        self.has_value = np.concatenate((self.has_value, np.zeros(room - len(self.has_value), np.bool_)))
        for name, column in self.columns.items():
            self.columns[name] = np.concatenate((column, _filled(self._initial[name], room - len(column))))

    def update(self, batch: pa.RecordBatch, slots: Slots) -> None:
        """Bring the values of rows in; nulls are left out."""
        values = None
        if self.bound.column is not None:
            values = _plain(batch.column(self.bound.column))
            if values.null_count:
                slots = slots[values.is_valid().to_numpy(zero_copy_only=False)]
                values = values.drop_null()
        self.has_value[slots] = True
        self.bound.accumulator.update(self.columns, slots, values)

    def merge(self, slots: Slots, other: "KeyStates") -> None:
        """Bring the states of other rows in; their slot i is the key of ``slots[i]``."""
        theirs = np.flatnonzero(other.has_value[: len(slots)])
        slots = slots[theirs]
        self.has_value[slots] = True
        self.bound.accumulator.merge(self.columns, slots, other.taken(theirs))

    def taken(self, slots: Slots) -> State:
        """A copy of the states of these slots."""
        return {name: column[slots] for name, column in self.columns.items()}

    def differ(self, slots: Slots, before: State) -> npt.NDArray[np.bool_]:
        """Where these slots have another state than before."""
        differ = np.zeros(len(slots), np.bool_)
        for name, old in before.items():
            new = self.columns[name][slots]
            if new.dtype == object:
                differ |= np.fromiter(map(_is_another, old, new), np.bool_, len(new))
            elif new.dtype.kind == "f":
                differ |= (old != new) & ~(np.isnan(old) & np.isnan(new))
            else:
                differ |= old != new
        return differ

    def results(self, slots: Slots, who: str) -> pa.Array:
        """The results of these slots, in the type that was promised."""
        with_value = np.flatnonzero(self.has_value[slots])
        try:
            made = self.bound.accumulator.result(self.taken(slots[with_value]))
        except SumTooLarge as too_large:
            raise SumTooLarge(int(with_value[too_large.row])) from None
        made = _fitted(made, self.bound.result_type, len(with_value), who)
        if len(with_value) == len(slots):
            return made
        # A key without a value takes the row behind the last one.
        nothing = pa.array([self.bound.of_nothing], self.bound.result_type)
        rows = np.full(len(slots), len(made))
        rows[with_value] = np.arange(len(made))
        return pa.concat_arrays([made, nothing]).take(pa.array(rows))


def _plain(array: pa.Array) -> pa.Array:
    if types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    wanted = plain_type(array.type)
    return array if wanted is array.type else array.cast(wanted)


def _filled(value: Any, size: int) -> npt.NDArray[Any]:  # noqa: ANN401 - what the state of a new key is
    if isinstance(value, bool | int | float | np.generic):
        return np.full(size, value)
    column = np.empty(size, object)
    column[:] = [value] * size
    return column


def _is_another(old: Any, new: Any) -> bool:  # noqa: ANN401 - whatever a user keeps
    if isinstance(new, np.ndarray):
        return not np.array_equal(old, new)
    return old is not new and bool(old != new)


def _fitted(made: Any, wanted: pa.DataType, size: int, who: str) -> pa.Array:  # noqa: ANN401 - a user made it
    try:
        fitted = made if isinstance(made, pa.Array) else pa.array(made, wanted)
        fitted = fitted if fitted.type == wanted else fitted.cast(wanted)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(f"{who} promised {wanted} and made something else: {error}") from error
    if len(fitted) != size:
        raise SchemaError(f"{who} must make one result for each of {size} keys, and made {len(fitted)}.")
    return fitted


def _sum_error(operator: str, name: str, bound: Bound, key: pa.RecordBatch) -> FlowError:
    where = ", ".join(f"{column} = {value!r}" for column, value in key.to_pylist()[0].items())
    return FlowError(
        f"operator '{operator}': the sum '{name}' of the column '{bound.column}' does not fit "
        f"{bound.result_type} at the key {where}. Cast the column to double or to a wider decimal before."
    )
