"""Columns as runs keep them: numpy's arrays where values have one width and none is null, else Arrow's.

Runs are searched, taken from and put together, a thousand rows at a time, and there numpy's calls cost a
fraction of Arrow's. Both share the memory of the values: nothing is copied on the way from one to the other.

Invariant: a column keeps its type, which the schema beside it says; a null is never in an array of numpy's.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.tables.kept.sorting import Positions
from pointstamp.tables.kept.weights import equal_values

KeptColumn: TypeAlias = npt.NDArray[Any] | pa.Array

# Who keeps no more than this of a batch need not be told apart from it.
_SMALL_BYTES_MAX: Final = 1_024


@lru_cache(maxsize=256)
def width_of(kind: pa.DataType) -> np.dtype[Any] | None:
    """How numpy holds values of a type; None if it cannot."""
    if types.is_integer(kind) or types.is_floating(kind):
        sized: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return sized
    if types.is_temporal(kind) and kind.bit_width in (32, 64):
        return np.dtype(f"i{kind.bit_width // 8}")
    is_decimal: bool = types.is_decimal(kind)
    return np.dtype(f"V{kind.bit_width // 8}") if is_decimal else None


def kept_column(values: pa.Array) -> KeptColumn:
    """A column of a batch as it is kept."""
    dtype = width_of(values.type)
    if dtype is None or values.null_count:
        return values
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, len(values), values.offset * dtype.itemsize)


def arrow_column(column: KeptColumn, kind: pa.DataType) -> pa.Array:
    """The same column as Arrow's array of this type."""
    if not isinstance(column, np.ndarray):
        return column
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)], null_count=0)


def as_batch(columns: Sequence[KeptColumn], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as a batch of this schema."""
    arrays = [arrow_column(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def taken(column: KeptColumn, at: Positions) -> KeptColumn:
    """Some values of a column, or all in another order."""
    if isinstance(column, np.ndarray):
        return column.take(at)
    return column.take(pa.array(at))


def alone(column: KeptColumn) -> KeptColumn:
    """A column of one value that keeps nothing else in memory: it may be a part of a large batch."""
    if isinstance(column, np.ndarray):
        return column.copy()
    is_small = column.get_total_buffer_size() <= _SMALL_BYTES_MAX
    return column if is_small else taken(column, np.zeros(1, np.intp))


def together(parts: Sequence[KeptColumn], kind: pa.DataType) -> KeptColumn:
    """The values of several columns of a type, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return pa.concat_arrays([arrow_column(part, kind) for part in parts])


def part_of(column: KeptColumn, begin: int, end: int) -> KeptColumn:
    """The values from one position to another, which is no longer in it."""
    return column[begin:end] if isinstance(column, np.ndarray) else column.slice(begin, end - begin)


def equal_kept(
    one: Sequence[KeptColumn],
    these: Positions,
    other: Sequence[KeptColumn],
    those: Positions,
    kinds: Sequence[pa.DataType],
) -> npt.NDArray[np.bool_]:
    """Whether each of these rows equals the one beside it; columns are compared by position."""
    found: npt.NDArray[np.bool_] | None = None
    for a, b, kind in zip(one, other, kinds, strict=True):
        left, right = taken(a, these), taken(b, those)
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            same = left == right
            if left.dtype.kind == "f":
                same |= (left != left) & (right != right)  # every NaN is the same
        else:
            same = equal_values(arrow_column(left, kind), arrow_column(right, kind))
        found = same if found is None else found & same
    return np.ones(len(these), np.bool_) if found is None else found
