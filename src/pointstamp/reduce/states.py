"""The state of one aggregate for all keys, in growing numpy columns.

``KeyStates`` lets an accumulator change them, says which keys a change has changed, makes results in the type
that was promised, and saves and restores them. It knows slots, not keys.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from pointstamp.arrow.hash_table import Slots
from pointstamp.errors import FlowError, SchemaError
from pointstamp.optional import conforms
from pointstamp.reduce.accumulators import State, SumTooLarge
from pointstamp.reduce.aggregate import DeclaresTypes
from pointstamp.reduce.binding import Bound, plain_type
from pointstamp.state.saved import ObjectCodec


class KeyStates:
    """The columns of one aggregate, by slot, and which keys have had a value."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.has_value: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._initial = dict(bound.accumulator.empty())
        self.columns: State = {name: _filled(value, 0) for name, value in self._initial.items()}
        self._codecs = codecs_of(bound.accumulator, self.columns)

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
        """Return which slots have changed."""
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

    @property
    def saved_type(self) -> pa.DataType:
        """The type of a saved state: whether there was a value, and the columns, whatever their names."""
        columns = [pa.field(f"state {name}", codec.kind) for name, codec in self._codecs.items()]
        return pa.struct([pa.field("has_value", pa.bool_()), *columns])

    def saved(self, slots: Slots, who: str) -> pa.StructArray:
        """The states of these slots; an error names ``who`` and the column."""
        arrays = [pa.array(self.has_value[slots])]
        for name, codec in self._codecs.items():
            arrays.append(codec.to_arrow(f"{who}, column '{name}' of its state", self.columns[name][slots]))
        return pa.StructArray.from_arrays(arrays, fields=list(self.saved_type))

    def restore(self, slots: Slots, saved: pa.StructArray, who: str) -> None:
        """Let these slots have the states that were saved."""
        has_value, *arrays = saved.flatten()
        self.has_value[slots] = has_value.to_numpy(zero_copy_only=False)
        for (name, codec), array in zip(self._codecs.items(), arrays, strict=True):
            self.columns[name][slots] = codec.from_arrow(f"{who}, column '{name}' of its state", array)

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
    column.fill(value)
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
        raise SchemaError(f"{who} must return {wanted}, got another type: {error}") from error
    if len(fitted) != size:
        raise SchemaError(
            f"{who} must return one result for each of {size} keys, got {len(fitted)}. "
            "Return one per key, in their order."
        )
    return fitted


# Convert the state of an aggregate to Arrow arrays and back, exactly.
#
# Numbers are Arrow numbers. What numpy has and Arrow has not (long doubles, complex numbers) is stored as the
# bytes of each value. Python objects need more care: an accumulator may say in ``state_types`` what they are,
# by an Arrow type or by a type that msgspec knows; an object about which it says nothing must be plain,
# because it has to come back exactly as it was. An object that cannot is refused when it is first saved.

Column = npt.NDArray[Any]


class ColumnCodec(Protocol):
    """One column of state as an Arrow array; errors name ``who``, an aggregate and its column."""

    @property
    def kind(self) -> pa.DataType:
        """The type of the arrays."""
        ...

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        """The values of a column that does not change any more."""
        ...

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        """The column again."""
        ...


def codecs_of(accumulator: Any, columns: Mapping[str, Column]) -> dict[str, ColumnCodec]:  # noqa: ANN401
    """Return how each column of an accumulator's state is saved."""
    declared = accumulator.state_types() if conforms(accumulator, DeclaresTypes) else {}
    return {name: _codec_of(column.dtype, declared.get(name, Any)) for name, column in columns.items()}


def _codec_of(dtype: "np.dtype[Any]", declared: Any) -> ColumnCodec:  # noqa: ANN401 - a type of some kind
    if dtype.kind == "O":
        return _ArrowObjects(declared) if isinstance(declared, pa.DataType) else _Objects(declared)
    if dtype.kind in "biuf" and dtype.isnative:
        try:
            return _Numbers(dtype, pa.from_numpy_dtype(dtype))
        except pa.ArrowNotImplementedError:  # a long double
            pass
    return _Bits(dtype)


class _Numbers:
    """Values that Arrow has too."""

    def __init__(self, dtype: "np.dtype[Any]", kind: pa.DataType) -> None:
        self.kind = kind
        self._dtype = dtype

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        return pa.array(column, self.kind)

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        return np.asarray(array.to_numpy(zero_copy_only=False), self._dtype)


class _Bits:
    """Values of which numpy alone knows what their bytes mean."""

    def __init__(self, dtype: "np.dtype[Any]") -> None:
        self.kind = pa.binary(dtype.itemsize)
        self._dtype = dtype

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        data = pa.py_buffer(np.ascontiguousarray(column, self._dtype).view(np.uint8))
        return pa.Array.from_buffers(self.kind, len(column), [None, data])

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        if not len(array):
            return np.empty(0, self._dtype)
        return np.frombuffer(array.buffers()[1], self._dtype, len(array), array.offset * self._dtype.itemsize)


class _ArrowObjects:
    """Python objects that are values of an Arrow type, or None."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        try:
            return pa.array(column, self.kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise FlowError(
                f"{who} is declared in state_types() as {self.kind}, but holds another type: {error}. "
                "Declare the type of its value."
            ) from error

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        return np.fromiter(array.to_pylist(), object, len(array))


class _Objects:
    """Python objects of a type that msgspec knows."""

    kind = pa.large_binary()

    def __init__(self, declared: Any) -> None:  # noqa: ANN401 - a type as msgspec takes it
        self._codec = ObjectCodec(declared)

    def to_arrow(self, who: str, column: Column) -> pa.Array:
        return pa.array([self._codec.encoded(who, value) for value in column], self.kind)

    def from_arrow(self, who: str, array: pa.Array) -> Column:
        values = (self._codec.decoded(who, data) for data in array.to_pylist())
        return np.fromiter(values, object, len(array))
