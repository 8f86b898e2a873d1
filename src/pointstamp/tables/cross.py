"""All pairs of two tables, for a table and a small one beside it.

Every row of the small table must meet every row of the other wherever that one is. So the rows of the other
are dealt to shards by all their columns, the small table is copied to every shard, and rows meet by shard:
an inner join, which keeps the law in loops, too. There are a fixed number of shards, not one for each worker,
because what is kept must continue with another number of workers.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from pointstamp.expressions.tree import Expression, col
from pointstamp.flow.outlet import add_operator
from pointstamp.flow.stream import Stream
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec
from pointstamp.rows.hashing import hash_columns
from pointstamp.tables.deltas import pairs, rows_schema, selected
from pointstamp.tables.joining import joining

SHARDS: Final = 16
"""How many copies of the small side there are, on all workers together."""

SHARD: Final = "__shard"
_FIELD: Final = pa.field(SHARD, pa.int64())


class Dealt:
    """Sends each row with its shard."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, columns: Sequence[str], schema: pa.Schema) -> None:
        self._columns = list(columns)
        self._schema = schema

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Deal the rows."""
        # The lowest bits choose the worker, and a shard must not follow from them.
        shards = (hash_columns(batch, self._columns) >> np.uint64(20)) % np.uint64(SHARDS)
        context.send(_with_shards(batch, shards.astype(np.int64), self._schema))


class Copied:
    """Sends a copy of each row for every shard."""

    keeps: ClassVar = "nothing; a change costs its rows"

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Copy the rows."""
        rows = np.tile(np.arange(batch.num_rows), SHARDS)
        shards = np.repeat(np.arange(SHARDS), batch.num_rows)
        context.send(_with_shards(batch.take(pa.array(rows)), shards, self._schema))


def all_pairs(
    left: Stream, small: Stream, suffix: str, where: Expression | None, name: str, who: str
) -> Stream:
    """The pairs of all rows of both for which a condition holds."""
    mine, theirs = (_sharded(each.schema) for each in (left, small))
    deal = spec(Dealt, rows_schema(left).names, mine)
    dealt = add_operator(f"{name}: shards", deal, {"in": left}, {"out": mine})[0]
    copied = add_operator(f"{name}: copies", spec(Copied, theirs), {"in": small}, {"out": theirs})[0]
    asked = joining(who, rows_schema(dealt), rows_schema(copied), SHARD, suffix)
    found = pairs(dealt, copied, asked, name, where)
    kept = {each: col(each) for each in rows_schema(found).names if each != SHARD}
    return selected(found, f"{name}: pairs", kept, who)


def _sharded(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_FIELD, *schema])


def _with_shards(
    batch: pa.RecordBatch, shards: np.typing.NDArray[np.int64], schema: pa.Schema
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(shards), *batch.columns], schema=schema)
