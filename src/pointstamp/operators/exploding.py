"""Explode a list column, for streams and tables.

All other columns are passed on, the weight of a table's row among them: a row that is there twice is exploded
into elements that are there twice, and one that disappears takes its elements with it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.selecting import check_columns, shown
from pointstamp.operators.context import Context


@dataclass(frozen=True, slots=True)
class ExplodePlan:
    """A checked explode: the list column, the treatment of empty lists, and the output schema."""

    column: str
    is_outer: bool
    position: str | None
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch, one for each element."""
        lists = batch.column(self.column)
        there = batch.filter(pc.is_valid(lists))  # a null list of a fixed size would have elements
        parents = pc.list_parent_indices(there.column(self.column)).to_numpy()
        firsts = np.searchsorted(parents, parents, "left")
        elements = pc.list_flatten(there.column(self.column))
        made = self._made(there.take(pa.array(parents)), elements, pa.array(np.arange(len(parents)) - firsts))
        if not self.is_outer:
            return made
        alone = batch.filter(pc.equal(pc.fill_null(pc.list_value_length(lists), 0), 0))
        nulls = pa.nulls(alone.num_rows, elements.type), pa.nulls(alone.num_rows, pa.int64())
        return pa.concat_batches([made, self._made(alone, *nulls)])

    def _made(self, rows: pa.RecordBatch, elements: pa.Array, positions: pa.Array) -> pa.RecordBatch:
        new = {self.column: elements, self.position: positions}
        return pa.RecordBatch.from_arrays(
            [new[name] if name in new else rows.column(name) for name in self.schema.names],
            schema=self.schema,
        )


class Explode:
    """Sends one row for each element of a list."""

    keeps: ClassVar = "nothing; a change costs its rows"
    runs_in_chain: ClassVar = True

    def __init__(self, plan: ExplodePlan) -> None:
        self._plan = plan

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Explode the batch and send."""
        context.send(self._plan(batch))


def exploding(
    who: str,
    schema: pa.Schema,
    column: str,
    position: str | None,
    *,
    is_outer: bool,
    last: tuple[pa.Field, ...] = (),
) -> ExplodePlan:
    """Return a checked explode; ``last`` are columns that stay last."""
    check_columns(who, schema, [column])
    kind = schema.field(column).type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        raise SchemaError(f"{who}: column '{column}' must be a list, got {kind}. It has {shown(schema)}.")
    if position is not None and position in schema.names:
        raise SchemaError(
            f"{who}: the column '{position}' already exists. Choose another name for position=."
        )
    fields = [pa.field(each.name, kind.value_type) if each.name == column else each for each in schema]
    extra = [] if position is None else [pa.field(position, pa.int64())]
    return ExplodePlan(column, is_outer, position, pa.schema([*fields, *extra, *last]))
