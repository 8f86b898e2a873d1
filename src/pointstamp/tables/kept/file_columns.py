"""Columns on their way to a file, some rows at a time, and as they are read from it: nothing is copied then.

Numbers, times, decimals, texts and bytes are written as they come. Values of other types, such as lists and
structs, are put together in memory before they are written.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.tables.kept.columns import KeptColumn, arrow_column, kept_column, width_of
from pointstamp.tables.kept.unnamed_file import FilePlace, UnnamedFile


class ColumnWriter(Protocol):
    """A column on its way to a file."""

    @property
    def memory_bytes(self) -> int:
        """What waits in memory."""
        ...

    def add(self, values: KeptColumn) -> None:
        """Continue with these values."""
        ...

    def end(self) -> None:
        """Write what has waited: there are no more values."""
        ...

    def read(self, whole: pa.Buffer, rows: int) -> KeptColumn:
        """The values, from the mapped file."""
        ...


def column_writer(file: UnnamedFile, kind: pa.DataType, parts: Sequence[KeptColumn]) -> ColumnWriter:
    """What writes a column that may have all values of these parts."""
    rows = sum(map(len, parts))
    dtype = width_of(kind)
    if dtype is not None:
        has_nulls = not all(isinstance(part, np.ndarray) for part in parts)
        return _Numbers(file, kind, dtype, rows, has_nulls=has_nulls)
    if types.is_string(kind) or types.is_binary(kind):
        return _Texts(file, kind, np.dtype(np.int32), parts)
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _Texts(file, kind, np.dtype(np.int64), parts)
    return _Others(file, kind)


class _Validity:
    """Which values are not null, a bit for each."""

    def __init__(self, file: UnnamedFile, rows: int) -> None:
        self._place = FilePlace(file, rows // 8 + 1)
        self._open = np.empty(0, np.bool_)
        self.nulls = 0

    def add(self, values: pa.Array) -> None:
        self.nulls += values.null_count
        bits = np.concatenate((self._open, np.asarray(pc.is_valid(values), np.bool_)))
        whole = len(bits) // 8 * 8
        self._place.add(np.packbits(bits[:whole], bitorder="little"))
        self._open = bits[whole:]

    def end(self) -> None:
        self._place.add(np.packbits(self._open, bitorder="little"))

    def read(self, whole: pa.Buffer) -> pa.Buffer | None:
        return self._place.read(whole) if self.nulls else None


class _Numbers:
    """Values of one width; with nulls if there may be some."""

    memory_bytes = 0

    def __init__(
        self, file: UnnamedFile, kind: pa.DataType, dtype: np.dtype[Any], rows: int, *, has_nulls: bool
    ) -> None:
        self._kind, self._dtype = kind, dtype
        self._validity = _Validity(file, rows) if has_nulls else None
        self._values = FilePlace(file, rows * dtype.itemsize)

    def add(self, values: KeptColumn) -> None:
        if self._validity is None:
            assert isinstance(values, np.ndarray), "a null where none can be"
            self._values.add(values)
            return
        column = arrow_column(values, self._kind)
        self._validity.add(column)
        begin = column.offset * self._dtype.itemsize
        data = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        self._values.add(data[begin : begin + len(column) * self._dtype.itemsize])

    def end(self) -> None:
        if self._validity is not None:
            self._validity.end()

    def read(self, whole: pa.Buffer, rows: int) -> KeptColumn:
        validity = None if self._validity is None else self._validity.read(whole)
        nulls = 0 if self._validity is None else self._validity.nulls
        buffers = [validity, self._values.read(whole)]
        return kept_column(pa.Array.from_buffers(self._kind, rows, buffers, nulls))


class _Texts:
    """Texts or bytes: where each ends, and all of them one behind the other."""

    memory_bytes = 0

    def __init__(
        self, file: UnnamedFile, kind: pa.DataType, offset: np.dtype[Any], parts: Sequence[KeptColumn]
    ) -> None:
        self._kind, self._offset = kind, offset
        rows = sum(map(len, parts))
        spans = [_ends(arrow_column(part, kind), offset) for part in parts]
        self._validity = _Validity(file, rows)
        self._ends = FilePlace(file, (rows + 1) * offset.itemsize)
        self._ends.add(np.zeros(1, offset))
        self._data = FilePlace(file, sum(int(each[-1] - each[0]) for each in spans))

    def add(self, values: KeptColumn) -> None:
        column = arrow_column(values, self._kind)
        self._validity.add(column)
        ends = _ends(column, self._offset)
        self._ends.add(ends[1:] - ends[0] + self._offset.type(self._data.size))
        data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
        self._data.add(data[int(ends[0]) : int(ends[-1])])

    def end(self) -> None:
        self._validity.end()

    def read(self, whole: pa.Buffer, rows: int) -> KeptColumn:
        buffers = [self._validity.read(whole), self._ends.read(whole), self._data.read(whole)]
        return pa.Array.from_buffers(self._kind, rows, buffers, self._validity.nulls)


class _Others:
    """Values of any other type, as a message of Arrow's."""

    def __init__(self, file: UnnamedFile, kind: pa.DataType) -> None:
        self._file, self._schema = file, pa.schema([("values", kind)])
        self._parts = [pa.array([], kind)]
        self._message: FilePlace | None = None

    @property
    def memory_bytes(self) -> int:
        return sum(int(part.nbytes) for part in self._parts)

    def add(self, values: KeptColumn) -> None:
        self._parts.append(arrow_column(values, self._schema.field(0).type))

    def end(self) -> None:
        batch = pa.RecordBatch.from_arrays([pa.concat_arrays(self._parts)], schema=self._schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            writer.write_batch(batch)
        data = np.frombuffer(sink.getvalue(), np.uint8)
        self._message = FilePlace(self._file, len(data))
        self._message.add(data)
        self._parts = []

    def read(self, whole: pa.Buffer, rows: int) -> KeptColumn:
        assert self._message is not None, "read before its end"
        batch = pa.ipc.open_stream(self._message.read(whole)).read_next_batch()
        return kept_column(batch.column(0))


def _ends(column: pa.Array, offset: np.dtype[Any]) -> npt.NDArray[Any]:
    """Where each text begins, and behind it the end of the last one."""
    buffer = column.buffers()[1]
    if not len(column) or buffer is None:
        return np.zeros(1, offset)
    return np.frombuffer(buffer, offset, len(column) + 1, column.offset * offset.itemsize)
