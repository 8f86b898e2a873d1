"""Normalize -0.0 to 0.0, because the two are equal.

Rows that differ in the sign of a zero are one row, as they are for GROUP BY, DISTINCT and joins in Spark.
If both signs were kept, the sign that is published would be that of the row that arrived first, and a text
made of it ('-0.0') would depend on how rows were split into epochs. So the sign is removed where rows enter
a table, and where a column of one is computed. Floats inside of lists and structs are left as they are.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def floats_in(schema: Iterable[pa.Field]) -> tuple[int, ...]:
    """Return the positions of the columns that can hold a zero with a sign."""
    return tuple(position for position, field in enumerate(schema) if types.is_floating(field.type))


def with_one_zero(columns: Sequence[pa.Array], floats: Iterable[int]) -> list[pa.Array]:
    """Return columns in which those at these positions hold 0.0 for -0.0.

    >>> [column] = with_one_zero([pa.array([-0.0, None, -1.5])], [0])
    >>> column.to_pylist()
    [0.0, None, -1.5]
    """
    made = list(columns)
    for position in floats:
        made[position] = _one_zero(made[position])
    return made


def _one_zero(column: pa.Array) -> pa.Array:
    if types.is_float16(column.type):  # Arrow does not add halves
        return _one_zero(column.cast(pa.float32())).cast(column.type)
    return pc.add(column, pa.scalar(0.0, column.type))
