"""Filter conditions: an expression, or a user's function of a batch.

An expression of ours is compiled when the flow is written, and one of pyarrow's is tried on no rows, so that
a misspelt column is an error there and not in a worker. Pyarrow's is computed as a column of booleans, by
Arrow's engine and in one pass: to filter with a mask costs less than to let Arrow filter by the expression,
and the rows that are left over need no second pass.

Invariant: a mask has one boolean for each row, and no null: what is neither true nor false counts as false.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiling import compile_condition
from pointstamp.expressions.tree import Expression

MaskFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Gives one boolean for each row of a batch."""

Condition: TypeAlias = MaskFunction | pc.Expression | Expression

_NO_COLUMN: Final = re.compile(r"No match for FieldRef\.\w+\((.*?)\) in ", re.DOTALL)


def checked_condition(condition: Condition, schema: pa.Schema, who: str) -> MaskFunction | pc.Expression:
    """A condition on rows of this schema, compiled where it is an expression of ours.

    What is none is rejected with an error; of a function only that it is one.
    """
    if isinstance(condition, Expression):
        return compile_condition(condition, schema, who)
    if isinstance(condition, pc.Expression):
        _check_expression(condition, schema, who)
    elif not callable(condition):
        raise FlowError(
            f"{who}: the condition must be an expression such as ps.col('price') > 1, or a function from "
            f"a batch to one boolean per row, got {type(condition).__name__} {condition!r}. Write it as "
            "one of these."
        )
    return condition


def mask_of(condition: MaskFunction | pc.Expression, batch: pa.RecordBatch, who: str) -> pa.BooleanArray:
    """Whether the condition holds, for each row of a batch."""
    if isinstance(condition, pc.Expression):
        mask = _computed(condition, pa.Table.from_batches([batch])).combine_chunks()
    else:
        mask = condition(batch)
        if isinstance(mask, pa.ChunkedArray):
            mask = mask.combine_chunks()
        if not isinstance(mask, pa.Array):
            mask = pa.array(mask)
    if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
        raise SchemaError(
            f"{who}: the condition must return one boolean per row ({batch.num_rows}), got {len(mask)} of "
            f"type {mask.type}. Return a boolean array."
        )
    return mask.fill_null(False) if mask.null_count else mask


def _computed(expression: pc.Expression, table: pa.Table) -> pa.ChunkedArray:
    """The values of an expression, row by row in the order of the table."""
    rows = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    values = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]), [rows])
    # With threads the order is Arrow's to keep, and a worker has one core anyway.
    return values.to_table(use_threads=False).column(0)


def _check_expression(expression: pc.Expression, schema: pa.Schema, who: str) -> None:
    columns = ", ".join(f"'{field.name}' {field.type}" for field in schema)
    try:
        kind = _computed(expression, schema.empty_table()).type
    except (pa.ArrowException, NotImplementedError) as error:
        missing = _NO_COLUMN.search(str(error))
        if missing is not None:
            raise SchemaError(
                f"{who} needs the column '{missing[1]}' for the condition {expression}; it has {columns}."
            ) from error
        reason = str(error).splitlines()[0]
        raise SchemaError(
            f"{who}: the condition {expression} cannot be computed from {columns}: {reason}. Cast the "
            "columns that it compares."
        ) from error
    if not pa.types.is_boolean(kind):
        raise SchemaError(
            f"{who}: the condition must be boolean, but {expression} is {kind}. Compare it with a value."
        )
