"""The value of a table: what changes add up to, as rows.

A table leaves a flow as changes, rows with a weight. Added up, a row of weight 3 is there three times, and
one of weight 0 is not there. A negative sum means that some of the changes are missing.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.tables.kept.open_changes import added_up
from pointstamp.tables.kept.weights import DIFF, Integers, is_weight


def rows_of_table(schema: pa.Schema, who: str) -> pa.Schema:
    """The columns of an output's rows; FlowError if the output is a stream, which adds up to nothing."""
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
    """Changes added up: every row once, with its weight."""
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
