"""Changes at times that are not complete, by time and input.

Invariant: every change that is put in is taken out once, with the changes of its own time and input.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.column_arrays import kept_column
from pointstamp.arrangement.consolidate import DIFF, Integers, columns_without_weight, is_weight
from pointstamp.arrangement.run import Layout, Run, run_of
from pointstamp.errors import FlowError
from pointstamp.topology.domain import Time

# More rows are looked at as arrays, and more texts would have to be copied.
_SEEN_ROWS_MAX: Final = 2_048
_FEW_TEXTS_MAX: Final = 64
# Where these have a value twice, the rest is not worth a look.
_LOOK_ROWS: Final = 32


class OpenChanges:
    """Changes that wait for their time to be complete; for one operator."""

    def __init__(self) -> None:
        self._batches: dict[Time, dict[str, list[pa.RecordBatch]]] = {}
        self._by_row: dict[str, Layout] = {}

    def put(self, time: Time, name: str, batch: pa.RecordBatch) -> None:
        """Keep a batch of an input until its time is taken."""
        self._batches.setdefault(time, {}).setdefault(name, []).append(batch)

    def take(self, time: Time) -> dict[str, pa.RecordBatch]:
        """The change at a time, for each input that has one; equal rows are consolidated."""
        taken = self._batches.pop(time, {})
        changes = {name: self._added_up(name, _together(batches)) for name, batches in taken.items()}
        return {name: change for name, change in changes.items() if change.num_rows}

    def _added_up(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        if is_seen_added_up(batch):
            return batch
        layout = self._by_row.get(name)
        if layout is None or layout.schema != batch.schema:
            layout = self._by_row[name] = _layout_by_row(batch.schema)
        return run_of(batch, layout).batch

    def take_runs(self, time: Time, layouts: Mapping[str, Layout]) -> dict[str, Run]:
        """The same, by the keys of each input: hashed and sorted once for all that is done with it."""
        taken = self._batches.pop(time, {})
        runs = {name: run_of(_together(batches), layouts[name]) for name, batches in taken.items()}
        return {name: run for name, run in runs.items() if len(run)}

    def __len__(self) -> int:
        return len(self._batches)


def added_up(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The sum of changes: every row once, none with the weight 0."""
    batch = _together(batches)
    return batch if is_seen_added_up(batch) else run_of(batch, _layout_by_row(batch.schema)).batch


def is_seen_added_up(batch: pa.RecordBatch) -> bool:
    """Whether it is seen at once that every row is there once, none with the weight 0: by a single column.

    Of rows that differ in a column of numbers or texts no two are equal. It takes a fraction of hashing and
    sorting them.
    """
    rows = batch.num_rows
    columns = batch.columns
    if not 0 < rows <= _SEEN_ROWS_MAX or not np.asarray(kept_column(columns.pop())).all():
        return False
    return rows == 1 or any(_differs(column) for column in columns)


def _differs(column: pa.Array) -> bool:
    """Whether a column of numbers or texts has no value twice; False of others."""
    if column.null_count:
        return False
    if types.is_string(column.type):
        return len(column) <= _FEW_TEXTS_MAX and len(set(column.to_pylist())) == len(column)
    numbers = kept_column(column)
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu":
        return False
    if len(numbers) > _LOOK_ROWS and len(set(numbers[:_LOOK_ROWS].tolist())) < _LOOK_ROWS:
        return False
    return len(set(numbers.tolist())) == len(numbers)


def _layout_by_row(schema: pa.Schema) -> Layout:
    return Layout(schema, tuple(columns_without_weight(schema)))


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


# The value of a table: what changes accumulate to, as rows.
#
# A table leaves a flow as changes, rows with a weight. Added up, a row of weight 3 is there three times, and
# one of weight 0 is not there. A negative sum means that some of the changes are missing.


def rows_of_table(schema: pa.Schema, who: str) -> pa.Schema:
    """The columns of an output's rows; FlowError if the output is a stream, which has no accumulated rows."""
    if not is_changes(schema):
        raise FlowError(
            f"{who} is a stream, not a table, so its rows do not accumulate. Read its rows by epoch, or "
            "make the output a table: flow.output('name', stream.to_table())."
        )
    return pa.schema(list(schema)[:-1])


def is_changes(schema: pa.Schema) -> bool:
    """Whether these are the columns of changes: those of a row, and its weight at the end."""
    return len(schema) > 1 and is_weight(schema.field(len(schema) - 1))


def tables_among(outputs: Mapping[str, pa.Schema]) -> list[str]:
    """The names of the outputs that are tables."""
    return [name for name, schema in outputs.items() if is_changes(schema)]


def sum_of(changes: Sequence[pa.RecordBatch | pa.Table], schema: pa.Schema) -> pa.RecordBatch:
    """Changes consolidated: every row once, with its weight."""
    # What Spark has written may be null where it never is.
    tables = [each if isinstance(each, pa.Table) else pa.Table.from_batches([each]) for each in changes]
    table = pa.concat_tables([schema.empty_table(), *(each.cast(schema) for each in tables)])
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    return added_up([batch]) if batch.num_rows else batch


def check_table(total: pa.RecordBatch, who: str) -> None:
    """Refuse a sum that has less than nothing of a row."""
    weights: Integers = total.column(DIFF).to_numpy()
    below = np.flatnonzero(weights < 0)
    if len(below):
        row = total.slice(int(below[0]), 1).drop_columns([DIFF]).to_pylist()[0]
        raise FlowError(
            f"{who}: row {row} has the multiplicity {weights[below[0]]}, but a table has no negative one: "
            "the changes that insert it are missing. Read all changes from the first epoch on."
        )


def copies(total: pa.RecordBatch, who: str) -> pa.Table:
    """The rows of a sum, each as often as it is there, without the weight."""
    check_table(total, who)
    weights: Integers = total.column(DIFF).to_numpy()
    rows = pa.Table.from_batches([total.drop_columns([DIFF])])
    return rows if (weights == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
