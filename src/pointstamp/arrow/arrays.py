"""Build integer and binary columns without pandas.

pyarrow imports pandas when it is first asked to make an array or a scalar, be it of a list or of a numpy
array, and that takes a process most of a second. What a run itself makes (epochs, reports, packed rows) is
made here, from buffers, so that only those flows wait for pandas whose operators ask pyarrow for more.

Not for values that may be null, nor for what users send: ``schema`` reads that.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import SchemaError

_BYTES_MAX: Final = np.iinfo(np.int32).max


def integers(values: npt.ArrayLike, kind: pa.DataType) -> pa.Array:
    """Integers become a column of an integer type, without nulls.

    >>> integers([1, 2], pa.int32()).to_pylist()
    [1, 2]
    """
    numbers = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def binaries(values: Sequence[bytes]) -> pa.Array:
    """Pieces of bytes become a column, without nulls.

    >>> binaries([b"ab", b""]).to_pylist()
    [b'ab', b'']
    """
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int64)
    if offsets[-1] > _BYTES_MAX:
        raise SchemaError(
            f"a binary column of Arrow holds at most {_BYTES_MAX} bytes, got a batch with {offsets[-1]}. "
            "Send smaller batches; for Spark set spark.sql.execution.arrow.maxRecordsPerBatch."
        )
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


# Normalize -0.0 to 0.0, because the two are equal.
#
# Rows that differ in the sign of a zero are one row, as they are for GROUP BY, DISTINCT and joins in Spark.
# If both signs were kept, the sign that is published would be that of the row that arrived first, and a text
# made of it ('-0.0') would depend on how rows were split into epochs. So the sign is removed where rows enter
# a table, and where a column of one is computed. Floats inside of lists and structs are left as they are.


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
