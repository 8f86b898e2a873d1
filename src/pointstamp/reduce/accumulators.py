"""State of the built-in aggregates, updated a complete array at a time.

Each class follows ``pointstamp.reduce.aggregate.Accumulator`` for columns of one type. State is a set of
numpy columns indexed by slot; the values that arrive are never null, for nulls have no part in an aggregate.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from pointstamp.arrow.hash_table import Slots

State: TypeAlias = dict[str, npt.NDArray[Any]]
Integers: TypeAlias = npt.NDArray[np.int64]

_LIMB_BITS: Final = 32
_LIMB_MASK: Final = np.int64((1 << _LIMB_BITS) - 1)
_LOWEST_LIMB_MAX: Final = (1 << 62) - 1


# Infinities and NaNs are values like others: what comes of them is the answer, and no reason to warn.
_quiet: Final = np.errstate(invalid="ignore", over="ignore")


class SumTooLarge(Exception):  # noqa: N818 - it is caught and told with operator and key
    """A sum does not fit the type of the result: the first row where it does not."""

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row


class Count:
    """Count rows, or values that are not null."""

    def empty(self) -> dict[str, Any]:
        """The state of a new key."""
        return {"rows": 0}

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in."""
        np.add.at(state["rows"], slots, 1)

    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring the states of other rows in."""
        state["rows"][slots] += other["rows"]

    def result(self, state: State) -> pa.Array:
        """The results, one for each row."""
        return pa.array(state["rows"])


class FloatSum:
    """The sum of floats, added in the order in which they come."""

    def empty(self) -> dict[str, Any]:
        """The state of a new key."""
        return {"sum": 0.0}

    @_quiet
    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in."""
        np.add.at(state["sum"], slots, floats_of(values))

    @_quiet
    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring the states of other rows in."""
        state["sum"][slots] += other["sum"]

    def result(self, state: State) -> pa.Array:
        """The results, one for each row."""
        return pa.array(state["sum"])


class Mean:
    """The mean as a double, of numbers of any kind."""

    def empty(self) -> dict[str, Any]:
        """The state of a new key."""
        return {"sum": 0.0, "rows": 0}

    @_quiet
    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in."""
        np.add.at(state["sum"], slots, floats_of(values))
        np.add.at(state["rows"], slots, 1)

    @_quiet
    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring the states of other rows in."""
        state["sum"][slots] += other["sum"]
        state["rows"][slots] += other["rows"]

    def result(self, state: State) -> pa.Array:
        """The results, one for each row."""
        return pa.array(state["sum"] / state["rows"])


class ExactSum:
    """The exact sum of integers or decimals: only what is to be sent must fit its type, in any order of rows.

    A sum is kept in limbs of 32 bits, each an int64, so that carries can wait. As long as values are small,
    and they mostly are, all is added to the lowest limb, which is carried upwards before it can wrap.
    """

    def __init__(self, result: pa.DataType) -> None:
        self._result = result
        self._limbs = [f"limb{i}" for i in range(result.bit_width // _LIMB_BITS)]

    def empty(self) -> dict[str, Any]:
        """The state of a new key."""
        return dict.fromkeys(self._limbs, 0)

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in."""
        if not len(values):
            return
        if types.is_decimal(values.type) and values.type.bit_width < self._result.bit_width:
            values = values.cast(pa.decimal128(38, values.type.scale))
        words = self._as_words(values)
        lowest = state[self._limbs[0]]
        if words is not None and max(int(words.max()), -int(words.min())) * len(words) <= _LOWEST_LIMB_MAX:
            np.add.at(lowest, slots, words)
        else:
            for limb, part in zip(self._limbs, self._split(values), strict=True):
                np.add.at(state[limb], slots, part)
        self._carry_if_large(state, slots)

    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring the states of other rows in."""
        for limb in self._limbs:
            state[limb][slots] += other[limb]
        self._carry_if_large(state, slots)

    def result(self, state: State) -> pa.Array:
        """The results, one for each row."""
        limbs = {limb: state[limb].copy() for limb in self._limbs}
        self._carry(limbs, np.arange(len(limbs[self._limbs[0]])))
        highest = limbs[self._limbs[-1]]
        wraps = highest != highest.astype(np.int32)
        stored = np.stack([limbs[limb].astype(np.uint32) for limb in self._limbs], axis=1)
        sums = pa.Array.from_buffers(self._result, len(stored), [None, pa.py_buffer(stored)])
        if types.is_decimal(self._result):
            most = (9,) * self._result.precision
            greatest, least = (
                pa.scalar(Decimal((sign, most, -self._result.scale)), self._result) for sign in (0, 1)
            )
            is_outside = pc.or_(pc.greater(sums, greatest), pc.less(sums, least))
            wraps |= is_outside.to_numpy(zero_copy_only=False)
        if wraps.any():
            raise SumTooLarge(int(np.argmax(wraps)))
        return sums

    def _as_words(self, values: pa.Array) -> Integers | None:
        """The values as int64, or None if not all of them fit."""
        if types.is_integer(values.type):
            if types.is_uint64(values.type) and int(values.to_numpy().max()) >> 63:
                return None
            integers: Integers = values.cast(pa.int64()).to_numpy()
            return integers
        words = _raw(values, np.int64)
        lowest = np.ascontiguousarray(words[:, 0])
        return lowest if (words[:, 1:] == (lowest >> 63)[:, None]).all() else None

    def _split(self, values: pa.Array) -> list[Integers]:
        """The values in limbs, the highest with its sign."""
        if types.is_integer(values.type):
            words = values.to_numpy()
            words = words if words.dtype == np.uint64 else words.astype(np.int64)
            high = (words >> words.dtype.type(_LIMB_BITS)).astype(np.int64)
            return [(words & words.dtype.type(_LIMB_MASK)).astype(np.int64), high]
        parts = _raw(values, np.uint32)
        lower = [parts[:, i].astype(np.int64) for i in range(parts.shape[1] - 1)]
        return [*lower, parts[:, -1].astype(np.int32).astype(np.int64)]

    def _carry_if_large(self, state: State, slots: Slots) -> None:
        lowest = state[self._limbs[0]][slots]
        if len(lowest) and (lowest.max() > _LOWEST_LIMB_MAX or lowest.min() < -_LOWEST_LIMB_MAX):
            self._carry(state, slots)

    def _carry(self, state: State, slots: Slots) -> None:
        # A slot that is there twice gets the same value twice.
        for limb, following in zip(self._limbs[:-1], self._limbs[1:], strict=True):
            value = state[limb][slots]
            state[following][slots] = state[following][slots] + (value >> _LIMB_BITS)
            state[limb][slots] = value & _LIMB_MASK


class Extreme:
    """The least or the greatest of values that are stored as numbers.

    NaN is greater than every other number, as in Spark.
    """

    def __init__(self, kind: pa.DataType, *, greatest: bool) -> None:
        self._kind = kind
        self._stored = _stored_as(kind)
        dtype = np.dtype(self._stored.to_pandas_dtype())
        self._choose: np.ufunc = np.maximum if greatest else np.minimum
        if dtype.kind == "f":
            # minimum and maximum pass a NaN on, fmin does not: so NaN is the neutral element of fmin.
            self._choose = np.maximum if greatest else np.fmin
            self._neutral: Any = dtype.type(-np.inf if greatest else np.nan)
        else:
            self._neutral = dtype.type(np.iinfo(dtype).min if greatest else np.iinfo(dtype).max)

    def empty(self) -> dict[str, Any]:
        """The state of a new key."""
        return {"value": self._neutral}

    @_quiet
    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in."""
        self._choose.at(state["value"], slots, self._to_stored(values).to_numpy())

    @_quiet
    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring the states of other rows in."""
        state["value"][slots] = self._choose(state["value"][slots], other["value"])

    def result(self, state: State) -> pa.Array:
        """The results, one for each row."""
        stored = pa.array(state["value"])
        return stored.view(self._kind) if types.is_temporal(self._kind) else stored.cast(self._kind)

    def _to_stored(self, values: pa.Array) -> pa.Array:
        return values.view(self._stored) if types.is_temporal(self._kind) else values.cast(self._stored)


class ObjectExtreme:
    """The least or the greatest of strings, binaries and decimals, which the state keeps as Python objects.

    Arrow finds the extreme of a batch for each key; objects are made per key of a batch, not per row.
    """

    def __init__(self, kind: pa.DataType, compared: pa.DataType, *, greatest: bool) -> None:
        self._kind, self._compared = kind, compared
        self._function = "max" if greatest else "min"
        self._choose: Callable[[pa.Array, pa.Array], pa.Array] = (
            pc.max_element_wise if greatest else pc.min_element_wise
        )

    def empty(self) -> dict[str, Any]:
        """The state of a new key."""
        return {"value": None}

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Bring values in."""
        table = pa.table({"slot": slots, "value": values.cast(self._compared)})
        grouped = table.group_by("slot", use_threads=False).aggregate([("value", self._function)])
        extremes = grouped.column(f"value_{self._function}").combine_chunks()
        self._merge(state, grouped.column("slot").to_numpy(), extremes)

    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Bring the states of other rows in."""
        self._merge(state, slots, pa.array(other["value"], self._compared))

    def state_types(self) -> dict[str, Any]:
        """The type of the saved objects."""
        return {"value": self._compared}

    def result(self, state: State) -> pa.Array:
        """The results, one for each row."""
        return pa.array(state["value"], self._compared).cast(self._kind)

    def _merge(self, state: State, slots: Slots, values: pa.Array) -> None:
        kept = pa.array(state["value"][slots], self._compared)
        state["value"][slots] = self._choose(kept, values).to_numpy(zero_copy_only=False)


def floats_of(values: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers of any kind as doubles."""
    floats: npt.NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
    return floats


def _stored_as(kind: pa.DataType) -> pa.DataType:
    """The type of number that a value of this kind is stored as."""
    if types.is_boolean(kind):
        return pa.uint8()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def _raw(values: pa.Array, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """The stored decimals, one row each, as text of this type from the lowest to the highest."""
    width = values.type.bit_width // 8
    data = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    return data.view(dtype).reshape(len(values), -1)
