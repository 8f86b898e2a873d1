"""A subquery that is no aggregate and stands for one value: how many rows it has is looked at as it runs.

One with more than one row is an error then, as in Spark; one without a row is null. What is looked at is the
change of a whole epoch, added up, so that what one row replaces and another in the same epoch are not two.
"""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.dataflow.table import Table, consolidated
from pointstamp.errors import FlowError


def checked(table: Table, count: str, place: str) -> Table:
    """The same table, in which no row has a count above 1; FlowError, at run time, says where one has."""
    whole = consolidated(table, "one row each")
    return whole.map_batches(partial(_check, count, place)).named("at most one row")


def _check(count: str, place: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    most = pc.max(batch.column(batch.schema.names.index(count))).as_py()
    if most is not None and most > 1:
        raise FlowError(
            f"{place}: a subquery that stands for one value has {most} rows. Write max(...) or another "
            "aggregate, or a condition that leaves one."
        )
    return batch
