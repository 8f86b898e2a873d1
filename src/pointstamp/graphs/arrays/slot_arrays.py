"""Slots, the indexes of all graph arrays, and bulk operations on them.

Which of two ways is taken in ``distinct`` and ``order_of`` depends on sizes alone and shows in the cost only.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Slots: TypeAlias = npt.NDArray[np.intp]
Ids: TypeAlias = npt.NDArray[np.int64]
"""Ids of vertices, as users gave them, if they are integers."""
T = TypeVar("T", bound=np.generic)

# A pass over a flag costs about a sixteenth of a step of sorting.
_FLAGS_PER_VALUE_MAX: Final = 16
_RADIX_LENGTH_MIN: Final = 4_096
_DIGIT_BITS: Final = 16
_NUMBER_BITS: Final = 63


def grown(array: npt.NDArray[T], used: int, needed: int) -> npt.NDArray[T]:
    """The array, or one at least twice as long with the same used part, so that as many fit as needed."""
    if needed <= len(array):
        return array
    # Half as much room again after a large load too: what follows it is small and must not copy it.
    longer = np.empty(max(needed + needed // 2, 2 * len(array)), array.dtype)
    longer[:used] = array[:used]
    return longer


def distinct(bound: int, *values: Slots) -> Slots:
    """Each value of some arrays once, ascending; all are from 0 to bound - 1.

    >>> distinct(5, np.array([4, 0, 4, 2]), np.array([2, 3])).tolist()
    [0, 2, 3, 4]
    """
    if bound <= _FLAGS_PER_VALUE_MAX * sum(map(len, values)):
        is_there = np.zeros(bound, np.bool_)
        for each in values:
            is_there[each] = True
        return np.flatnonzero(is_there)
    ordered = np.sort(np.concatenate(values))
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def order_of(values: Slots, bound: int) -> Slots:
    """In which order to take the values so that equal ones lie together; all are from 0 to bound - 1.

    >>> order_of(np.array([4, 0, 4, 2]), 5).tolist()
    [1, 3, 0, 2]
    """
    if len(values) < _RADIX_LENGTH_MIN:
        return np.argsort(values, kind="stable")
    # A stable sort of 16-bit integers is a counting sort in numpy: digit by digit it is twice as fast.
    order = np.argsort(values.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, (bound - 1).bit_length(), _DIGIT_BITS):
        digits = (values[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    return order


def order_of_pairs(one: Slots, other: Slots) -> Slots:
    """In which order to take pairs so that they ascend by the first of both and then by the second.

    >>> order_of_pairs(np.array([2, 0, 2]), np.array([5, 9, 1])).tolist()
    [1, 2, 0]
    """
    size = int(other.max(initial=0)) + 1
    place_bits = max(len(one) - 1, 1).bit_length()
    if ((int(one.max(initial=0)) + 1) * size).bit_length() + place_bits > _NUMBER_BITS:
        return np.lexsort((other, one))
    # Numbers are sorted in half the time in which their order is found, so they bring their places along.
    packed = ((one.astype(np.int64) * size + other) << place_bits) | np.arange(len(one))
    packed.sort()
    return (packed & ((1 << place_bits) - 1)).astype(np.intp, copy=False)


# Convert columns of changes to arrays and back.

DIFF: Final = "diff"
"""The weight of a row of changes."""


def arrays_of(table: pa.Table) -> list[npt.NDArray[Any]]:
    """Each column as an array."""
    return [column.to_numpy() for column in table.columns]


def batch_of(schema: pa.Schema, *columns: npt.NDArray[Any]) -> pa.RecordBatch:
    """Arrays as a batch."""
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)


def table_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Batches as one table, which may have none."""
    tables = (pa.Table.from_batches([each]).cast(schema) for each in batches)
    return pa.concat_tables([schema.empty_table(), *tables])


def added_up(changes: pa.Table) -> pa.Table:
    """Each row once, with the sum of its weights, where that is not 0.

    >>> added_up(pa.table({"id": [7, 5, 7], "diff": [1, 2, -1]})).to_pylist()
    [{'id': 5, 'diff': 2}]
    """
    rows = [name for name in changes.column_names if name != DIFF]
    summed = changes.group_by(rows).aggregate([(DIFF, "sum")]).rename_columns([*rows, DIFF])
    return summed.filter(pc.not_equal(summed.column(DIFF), 0)).combine_chunks()
