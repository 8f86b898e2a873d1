"""Stateless operations of tables: weights that are set, negated or passed on.

They work on a change as on any rows: what is selected from a sum is the sum of what is selected.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.column_arrays import KeptColumn, arrow_column, as_batch, kept_columns, widths_of
from pointstamp.arrangement.consolidate import (
    DIFF,
    DIFF_FIELD,
    Integers,
    columns_without_weight,
    with_weights,
)
from pointstamp.arrangement.open_changes import OpenChanges
from pointstamp.arrow.arrays import floats_in, with_one_zero
from pointstamp.arrow.schema import to_batches
from pointstamp.errors import FlowError
from pointstamp.expressions.select_columns import Selection
from pointstamp.expressions.tree import Column
from pointstamp.operators.context import Context
from pointstamp.operators.interface import RunsInChain
from pointstamp.operators.stateless import BatchFunction
from pointstamp.state.pieces import Piece


class Appended(RunsInChain):
    """Sends the rows of a stream with the weight 1, or with the weights of one of its columns."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, schema: pa.Schema, weight: str | None) -> None:
        self._schema = schema
        self._names = columns_without_weight(schema)
        self._weight = weight
        self._floats = floats_in(schema)
        self._dtypes: tuple[np.dtype[Any] | None, ...] = ()
        """How numpy holds the columns that come, since the first batch of them."""
        self._at: list[int] = []
        """Where the columns of a row and the weight stand among them."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows with their weight."""
        if not self._at:
            names = self._names if self._weight is None else [*self._names, self._weight]
            self._dtypes = widths_of(batch.schema)
            self._at = [batch.schema.get_field_index(name) for name in names]
        columns = kept_columns(batch, self._dtypes)
        own = [columns[at] for at in self._at]
        if self._weight is None:
            weights: Integers = np.ones(batch.num_rows, np.int64)
        else:
            weights = self._weights_in(own.pop(), context, batch)
        if self._floats:
            kinds = self._schema.types
            arrays = [arrow_column(each, kind) for each, kind in zip(own, kinds, strict=False)]
            own = with_one_zero(arrays, self._floats)
        made = as_batch([*own, weights], self._schema)
        is_all = np.count_nonzero(weights) == len(weights)
        context.send(made if is_all else made.filter(pa.array(weights != 0)))

    def _weights_in(self, column: KeptColumn, context: Context, batch: pa.RecordBatch) -> Integers:
        """The weights that a column gives, none of which may be null."""
        if not isinstance(column, np.ndarray):
            row = batch.slice(int(np.flatnonzero(column.is_null())[0]), 1).to_pylist()[0]
            raise FlowError(
                f"operator '{context.operator}': in epoch {context.epoch} the weight must not be "
                f"null, got row {row}. Give 1 or -1 for a weight, or one of the words for an operation."
            )
        return column if column.dtype == np.int64 else np.asarray(pa.array(column).cast(pa.int64()))


class Negated(RunsInChain):
    """Sends the same rows taken away."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows with the opposite weights."""
        context.send(with_weights(batch, -batch.column(DIFF).to_numpy()))


class Weighed(RunsInChain):
    """Sends each row with other columns, computed from its own, and with its weight."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._schema = pa.schema([*selection.schema, DIFF_FIELD])
        computed = [not isinstance(column.tree, Column) for column in selection.columns]
        self._floats = tuple(each for each in floats_in(selection.schema) if computed[each])
        taken = [column.tree.column for column in selection.columns if isinstance(column.tree, Column)]
        self._taken = None if any(computed) else [*taken, DIFF]
        """The columns that are only taken, if all are."""
        self._dtypes = widths_of(self._schema)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Work the columns out and send."""
        if self._taken is not None:
            rows = batch.select(self._taken)
            if not rows.schema.equals(self._schema):  # some have other names
                rows = as_batch(kept_columns(rows, self._dtypes), self._schema)
            context.send(rows)
            return
        made = with_one_zero(self._selection.of(batch), self._floats)
        context.send(pa.RecordBatch.from_arrays([*made, batch.column(DIFF)], schema=self._schema))


class Repeated(RunsInChain):
    """Sends rows without their weights, each as often as its weight says."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the copies of each row."""
        weights = batch.column(DIFF).to_numpy()
        assert (weights > 0).all(), f"rows that are only added are taken away: {batch.to_pylist()[:3]}"
        rows = batch.drop_columns([DIFF])
        context.send(
            rows if (weights == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
        )


# A function of a user's own on the rows of a table.
#
# The function sees rows and not how often they are there. So it is called once for all rows of a change that
# have the same weight, mostly once for what appears and once for what disappears, and what it makes of them
# has that weight. This keeps the law if the function makes the same of a row whenever it is given it,
# whatever rows stand beside it: then what it makes of a row that disappears is what it made when the row
# appeared.


class MappedRows(RunsInChain):
    """Sends what a function makes of rows, with the weights of the rows."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, function: BatchFunction, rows: pa.Schema) -> None:
        self._function = function
        self._rows = rows

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Call the function for the rows of each weight."""
        weights: Integers = batch.column(DIFF).to_numpy()
        rows = batch.select(columns_without_weight(batch.schema))
        who = f"operator '{context.operator}'"
        for weight in np.unique(weights):
            made = self._function(rows.filter(pa.array(weights == weight)))
            for each in [] if made is None else to_batches(made, self._rows, who):
                columns = with_one_zero(each.columns, floats_in(self._rows))
                same = pa.RecordBatch.from_arrays(columns, schema=self._rows)
                context.send(with_weights(same, np.full(same.num_rows, weight)))


# Adding up what is sent at one time, before it leaves: every row once, none with the weight 0.
#
# Before a feedback this is what makes loops end: a row that appears and disappears in one round would go
# round forever as two. Before an output it is what a reader may expect: at most one entry for each row and
# epoch.


class Consolidated:
    """Sends the sum of a time's changes when the time is complete."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self) -> None:
        self._open = OpenChanges()

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep the change until its time is complete."""
        self._open.put(context.time, "in", batch)
        context.notify_at()

    def on_notify(self, context: Context) -> None:
        """Send the sum."""
        for change in self._open.take(context.time).values():
            context.send(change)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """Nothing: a time that is complete leaves nothing behind."""
        assert not len(self._open), "changes wait at a snapshot"
        del changes_only
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Begin again."""
