"""Weights: how often a row is there, and the sum of rows that are equal.

A table flows as batches of rows with a last column of weights: +1 for a row that appears, -1 for one that
disappears. Equal means what SQL's grouping means: null equals null, a NaN equals every NaN, and -0.0 equals
0.0.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrow.key_index import KeyIndex

Integers = npt.NDArray[np.int64]

DIFF: Final = "diff"
"""The column of weights; it is the last one of every batch of a table."""

_MARK: Final = {b"pointstamp": b"weight"}

DIFF_FIELD: Final = pa.field(DIFF, pa.int64(), nullable=False, metadata=_MARK)
"""It says of itself that it is a weight, so that a column of that name in a stream is not taken for one."""


def is_weight(field: pa.Field) -> bool:
    """Return whether a column holds the weights of a table's rows."""
    return field.name == DIFF and (field.metadata or {}).get(b"pointstamp") == _MARK[b"pointstamp"]


def equal_values(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    """Return whether values are equal, where null equals null and NaN equals NaN."""
    if types.is_integer(one.type) and one.type == other.type and not (one.null_count or other.null_count):
        return np.asarray(one.to_numpy() == other.to_numpy())
    if types.is_nested(one.type) or types.is_dictionary(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((_is_equal(a, b) for a, b in pairs), np.bool_, len(one))
    if types.is_float16(one.type):
        one, other = one.cast(pa.float32()), other.cast(pa.float32())  # Arrow has few kernels for halves
    found = pc.equal(one, other)
    if types.is_floating(one.type):
        found = pc.or_(found, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    if one.null_count or other.null_count:
        both = pc.and_(pc.is_null(one), pc.is_null(other))
        found = pc.or_(pc.fill_null(found, False), both)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _is_equal(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other or (one != one and other != other))


def with_weights(batch: pa.RecordBatch, weights: Integers) -> pa.RecordBatch:
    """The same rows with these weights, in place of those that they have or after the last column."""
    position = batch.schema.get_field_index(DIFF)
    column = pa.array(weights)
    if position < 0:
        return batch.append_column(DIFF_FIELD, column)
    return batch.set_column(position, DIFF_FIELD, column)


def columns_without_weight(schema: pa.Schema) -> Sequence[str]:
    """The names of the columns of a row."""
    return [name for name in schema.names if name != DIFF]


# Positions of rows, and rows with equal words told apart.
#
# The order of rows by words is computed by ``pointstamp.arrow.runs``; a tie is a place in it where a row
# has all words of the one before it. Nearly always these rows are equal.

Positions: TypeAlias = npt.NDArray[np.intp]


def told_apart(rows: Callable[[Positions], pa.RecordBatch], order: Positions, ties: Positions) -> Positions:
    """Those of the ties at which a row equals the one before it, where different rows have the same words.

    The order is changed among rows with the same words, so that those that are equal stand side by side.
    """
    is_tie = np.zeros(len(order) + 1, np.bool_)
    is_tie[ties] = True
    block = np.cumsum(~is_tie[:-1])
    tied = np.flatnonzero(is_tie[:-1] | is_tie[1:])
    theirs = order[tied]
    found = rows(theirs)
    slots = KeyIndex(found.schema).slots(found)
    inner = np.lexsort((slots, block[tied]))
    order[tied] = theirs[inner]
    slot_at = np.full(len(order), -1, np.int64)
    slot_at[tied] = slots[inner]
    same: Positions = ties[slot_at[ties] == slot_at[ties - 1]]
    return same
