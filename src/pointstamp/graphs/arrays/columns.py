"""Convert columns of changes to arrays and back."""

from collections.abc import Iterable
from typing import Any, Final

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
