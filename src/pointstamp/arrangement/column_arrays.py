"""Columns of runs: numpy arrays for fixed-width values without nulls, else Arrow arrays.

Both share the memory of the values: nothing is copied on the way from one to the other. Rows are taken and
compared by ``pointstamp.arrow.columns``, and by Arrow's own functions where values are nested or encoded.

Invariant: a column keeps its type, which the schema beside it says; a null is never in an array of numpy's.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.consolidate import Positions, equal_values
from pointstamp.arrow import batches
from pointstamp.arrow import columns as kernels

KeptColumn: TypeAlias = npt.NDArray[Any] | pa.Array


@lru_cache(maxsize=256)
def width_of(kind: pa.DataType) -> np.dtype[Any] | None:
    """The numpy type for values of a type; None if there is none."""
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


def kept_columns(batch: pa.RecordBatch, dtypes: tuple[np.dtype[Any] | None, ...]) -> list[KeptColumn]:
    """All columns of a batch as they are kept, given how numpy holds the values of each."""
    made = batches.columns_of(batch, dtypes)
    return [kept_column(batch.column(at)) if each is None else each for at, each in enumerate(made)]


@lru_cache(maxsize=256)
def widths_of(schema: pa.Schema) -> tuple[np.dtype[Any] | None, ...]:
    """The numpy type of each column; None for a column without one."""
    return tuple(map(width_of, schema.types))


def arrow_column(column: KeptColumn, kind: pa.DataType) -> pa.Array:
    """The same column as Arrow's array of this type."""
    if not isinstance(column, np.ndarray):
        return column
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)], null_count=0)


def as_batch(columns: Sequence[KeptColumn], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as a batch of this schema."""
    return batches.batch_of(columns, schema)


def taken(column: KeptColumn, at: Positions) -> KeptColumn:
    """Some values of a column, or all in another order, as a copy."""
    found = kernels.taken(column, at)
    return column.take(pa.array(at)) if found is None else found


def taken_together(
    parts: Sequence[tuple[Sequence[KeptColumn], Positions]], kinds: Sequence[pa.DataType]
) -> list[KeptColumn]:
    """Some rows of several tables with the same columns, one behind the other."""
    if len(parts) == 1:
        columns, at = parts[0]
        return [taken(column, at) for column in columns]
    made = []
    for number, kind in enumerate(kinds):
        of = [(columns[number], at) for columns, at in parts]
        found = kernels.taken_together(of, kind)
        made.append(together([taken(*each) for each in of], kind) if found is None else found)
    return made


def merged_columns(
    one: Sequence[KeptColumn], other: Sequence[KeptColumn], at: Positions, kinds: Sequence[pa.DataType]
) -> list[KeptColumn]:
    """Some rows of two tables with the same columns; positions in the second count on from the first."""
    found = kernels.merged_columns(one, other, at, kinds)
    return [
        taken(together([one[number], other[number]], kinds[number]), at) if each is None else each
        for number, each in enumerate(found)
    ]


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
    """Return whether each of these rows equals the one beside it; columns are compared by position."""
    found: npt.NDArray[np.bool_] | None = None
    for a, b, kind in zip(one, other, kinds, strict=True):
        same = kernels.equal_rows(a, these, b, those)
        if same is None:
            same = equal_values(arrow_column(taken(a, these), kind), arrow_column(taken(b, those), kind))
        found = same if found is None else found & same
    return np.ones(len(these), np.bool_) if found is None else found
