"""Build integer and binary columns without pandas.

pyarrow imports pandas when it is first asked to make an array or a scalar, be it of a list or of a numpy
array, and that takes a process most of a second. What a run itself makes (epochs, reports, packed rows) is
made here, from buffers, so that only those flows wait for pandas whose operators ask pyarrow for more.

Not for values that may be null, nor for what users send: ``schema`` reads that.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import SchemaError

_BYTES_MAX: Final = np.iinfo(np.int32).max


def integers(values: npt.ArrayLike, kind: pa.DataType) -> pa.Array:
    """Whole numbers become a column of an integer type, without nulls.

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
