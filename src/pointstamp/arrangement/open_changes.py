"""Changes at times that are not complete, by time and input.

Invariant: every change that is put in is taken out once, with the changes of its own time and input.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.column_arrays import kept_columns
from pointstamp.arrangement.consolidate import DIFF, Integers, columns_without_weight, is_weight
from pointstamp.arrangement.run import Layout, Run, run_of, run_of_words
from pointstamp.arrow import runs as kernels
from pointstamp.errors import FlowError
from pointstamp.topology.domain import Time


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
        layout = self._by_row.get(name)
        if layout is None or layout.schema != batch.schema:
            layout = self._by_row[name] = _layout_by_row(batch.schema)
        return _batch_of_sums(batch, layout)

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
    return _batch_of_sums(batch, _layout_by_row(batch.schema))


def _batch_of_sums(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """The sum of the rows of a batch: the batch itself if every row is there once, none with the weight 0."""
    columns = kept_columns(batch, layout.dtypes)
    words = layout.words(columns)
    weights = columns[-1]
    if np.count_nonzero(weights) == len(weights) and not len(kernels.in_order(words)[1]):
        return batch
    return run_of_words(layout, words, columns).batch


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
    """Return whether these are the columns of changes: those of a row, and its weight at the end."""
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
