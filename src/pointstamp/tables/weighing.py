"""Operations of tables that keep nothing: weights that are given, negated, or passed on beside other columns.

They work on a change as on any rows: what is selected from a sum is the sum of what is selected.
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.expressions.selecting import Selection
from pointstamp.expressions.tree import Column
from pointstamp.operators.context import Context
from pointstamp.rows.zeros import floats_in, with_one_zero
from pointstamp.tables.kept.weights import DIFF, DIFF_FIELD, columns_without_weight, with_weights


class Appended:
    """Sends the rows of a stream with the weight 1, or with the weights of one of its columns."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, schema: pa.Schema, weight: str | None) -> None:
        self._schema = schema
        self._names = columns_without_weight(schema)
        self._weight = weight
        self._floats = floats_in(schema)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows with their weight."""
        if self._weight is None:
            ones = pa.array(np.ones(batch.num_rows, np.int64))
            context.send(pa.RecordBatch.from_arrays([*self._own(batch), ones], schema=self._schema))
            return
        weights = batch.column(self._weight)
        weights = weights if weights.type == pa.int64() else weights.cast(pa.int64())
        if weights.null_count:
            row = batch.slice(int(np.flatnonzero(weights.is_null())[0]), 1).to_pylist()[0]
            raise FlowError(
                f"operator '{context.operator}': in epoch {context.epoch} the weight must not be "
                f"null, got row {row}. Give 1 or -1 for a weight, or one of the words for an operation."
            )
        made = pa.RecordBatch.from_arrays([*self._own(batch), weights], schema=self._schema)
        numbers = weights.to_numpy()
        context.send(made if numbers.all() else made.filter(pa.array(numbers != 0)))

    def _own(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of a row: those that the table has, in their order."""
        columns: list[pa.Array] = batch.columns
        if len(columns) != len(self._names):
            columns = [batch.column(name) for name in self._names]
        return with_one_zero(columns, self._floats) if self._floats else columns


class Negated:
    """Sends the same rows taken away."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the rows with the opposite weights."""
        context.send(with_weights(batch, -batch.column(DIFF).to_numpy()))


class Weighed:
    """Sends each row with other columns, worked out from its own, and with its weight."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._schema = pa.schema([*selection.schema, DIFF_FIELD])
        computed = [not isinstance(column.tree, Column) for column in selection.columns]
        self._floats = tuple(each for each in floats_in(selection.schema) if computed[each])

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Work the columns out and send."""
        made = with_one_zero(self._selection.of(batch), self._floats)
        context.send(pa.RecordBatch.from_arrays([*made, batch.column(DIFF)], schema=self._schema))


class Repeated:
    """Sends rows without their weights, each as often as its weight says."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the copies of each row."""
        weights = batch.column(DIFF).to_numpy()
        assert (weights > 0).all(), f"rows that are only added are taken away: {batch.to_pylist()[:3]}"
        rows = batch.drop_columns([DIFF])
        context.send(
            rows if (weights == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
        )
