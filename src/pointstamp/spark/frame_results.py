"""What a run on Spark gives: a DataFrame for each output, and of an output that is a table its rows.

Tables are emitted as changes. Spark adds them up itself, when the DataFrame is used: by all columns, which
must be of types that Spark can group by.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pointstamp.errors import FlowError
from pointstamp.tables.kept.value import rows_of_table
from pointstamp.tables.kept.weights import DIFF


class FrameResults(dict[str, DataFrame]):
    """The outputs of a run by name, each a DataFrame with the epoch of each row; tables as they add up."""

    def __init__(self, frames: Mapping[str, DataFrame], schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(frames)
        self._schemas = dict(schemas)

    def table(self, name: str, *, as_of: int | None = None) -> DataFrame:
        """The rows of an output that is a table: as they are at the end, or were after an epoch."""
        if name not in self:
            known = ", ".join(f"'{each}'" for each in self) or "none"
            raise FlowError(f"unknown output '{name}'. The outputs are {known}.")
        rows_of_table(self._schemas[name], f"output '{name}'")
        frame = self[name] if as_of is None else self[name].where(sql.col("epoch") <= as_of)
        return rows_that_are_there(frame.drop("epoch"))


def rows_that_are_there(changes: DataFrame) -> DataFrame:
    """The rows that changes add up to, each as often as it is there."""
    names = ["`" + name.replace("`", "``") + "`" for name in changes.columns if name != DIFF]
    total = changes.groupBy(*names).agg(sql.sum(DIFF).alias(DIFF)).where(sql.col(DIFF) != 0)
    # A weight below zero is an error here, too: the array would have a negative length.
    once = sql.when(sql.col(DIFF) > 0, sql.sequence(sql.lit(1), sql.col(DIFF))).otherwise(
        sql.raise_error(sql.lit("the changes add up to less than nothing of a row; some of them are missing"))
    )
    return total.select(*names, sql.explode(once).alias(DIFF)).select(*names)
