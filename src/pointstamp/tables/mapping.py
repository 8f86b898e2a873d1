"""A function of a user's own on the rows of a table.

The function sees rows and not how often they are there. So it is called once for all rows of a change that
have the same weight, mostly once for what appears and once for what disappears, and what it makes of them has
that weight. This keeps the law if the function makes the same of a row whenever it is given it, whatever rows
stand beside it: then what it makes of a row that disappears is what it made when the row appeared.
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pointstamp.operators.context import Context
from pointstamp.operators.stateless import BatchFunction
from pointstamp.rows.schema import to_batches
from pointstamp.rows.zeros import floats_in, with_one_zero
from pointstamp.tables.kept.weights import DIFF, Integers, columns_without_weight, with_weights


class MappedRows:
    """Sends what a function makes of rows, with the weights of the rows."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

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
