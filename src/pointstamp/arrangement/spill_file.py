"""A run in a file, written in blocks of rows and memory-mapped.

Each word and each column has a place in the file with room for all rows that may come, so that a merge
writes to all of them, some rows at a time, and every array is in one piece in the end. The layout of each is
Arrow's: nothing is read or copied when the file is mapped. Nobody else can read the file: it has no name, and
is gone with its last reader.

Invariant: what was mapped never changes.
"""

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrangement.column_arrays import KeptColumn, arrow_column, kept_column, width_of
from pointstamp.arrangement.run import INDEXED_ROWS_MIN, BucketBegins, Buckets, Run
from pointstamp.errors import StorageError

_SLICE_ROWS: Final = 1 << 18
_BLOCK_BUCKETS: Final = 1 << 16


def mapped_run(run: Run, folder: str) -> Run:
    """The same run, in a file of a folder."""
    file = RunFile(folder, [run])
    for begin in range(0, len(run), _SLICE_ROWS):
        file.add(run.part(begin, begin + _SLICE_ROWS))
    return file.made()


class RunFile:
    """A run that is written to a file, with room for the rows of some runs."""

    is_whole = True

    def __init__(self, folder: str, runs: Sequence[Run]) -> None:
        self._layout = runs[0].layout
        self._rows = 0
        self._file = UnnamedFile(folder)
        rooms = sum(map(len, runs))
        self._words = [FilePlace(self._file, 8 * rooms) for _ in runs[0].words]
        kinds = self._layout.schema.types
        columns = zip(*(run.columns for run in runs), strict=True)
        self._columns = [
            column_writer(self._file, kind, parts) for parts, kind in zip(columns, kinds, strict=True)
        ]
        self._begins = BucketBegins(rooms) if rooms >= INDEXED_ROWS_MIN else None
        self._buckets = FilePlace(self._file, 0 if self._begins is None else 4 * self._begins.buckets)

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return self._file.written_bytes

    @property
    def memory_bytes(self) -> int:
        """The bytes that wait in memory until they are complete."""
        return sum(column.memory_bytes for column in self._columns)

    def add(self, part: Run) -> None:
        """Continue with these rows, none of which is before one that was added."""
        for place, word in zip(self._words, part.words, strict=True):
            place.add(word)
        for column, values in zip(self._columns, part.columns, strict=True):
            column.add(values)
        if self._begins is not None:
            self._buckets.add(self._begins.after(part.words[0]))
        self._rows += len(part)

    def put_together(self) -> None:
        """Nothing is left to be done before the run is made."""

    def made(self) -> Run:
        """The run, mapped."""
        begins = self._begins
        if begins is not None:
            for at in range(begins.known, begins.buckets, _BLOCK_BUCKETS):
                self._buckets.add(np.full(min(_BLOCK_BUCKETS, begins.buckets - at), begins.rows, np.int32))
        for column in self._columns:
            column.end()
        whole = self._file.mapped()
        words = tuple(_array(whole, place, np.dtype(np.uint64)) for place in self._words)
        columns = tuple(column.read(whole, self._rows) for column in self._columns)
        buckets = None
        if begins is not None:
            buckets = Buckets(begins.shift, _array(whole, self._buckets, np.dtype(np.int32)))
        return Run(self._layout, words, columns, buckets, is_mapped=True)


# A file without a name, made of places that are written on their own, and mapped when all is written.
#
# It exists as long as it is open or mapped, and is removed with the process. Arrays are written as they are
# in memory, each place from its beginning on.

# As Arrow wants its buffers.
_ALIGNMENT: Final = 64


class UnnamedFile:
    """A file without a name, of places that are written on their own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.written_bytes = 0
        self.end = 0
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                self._handle = os.dup(file.fileno())
        except OSError as error:
            raise _refusal(folder, error) from error
        # A merge may be given up at any moment: when its worker ends.
        self._close = weakref.finalize(self, os.close, self._handle)

    def place(self, room_bytes: int) -> int:
        """The position for so many bytes."""
        begin = self.end
        self.end += -(-room_bytes // _ALIGNMENT) * _ALIGNMENT
        return begin

    def write(self, at: int, values: npt.NDArray[Any]) -> int:
        """Write an array; return how many bytes it has."""
        data = np.ascontiguousarray(values).view(np.uint8).data
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._handle, data[done:], at + done)
        except OSError as error:
            raise _refusal(self._folder, error) from error
        self.written_bytes += done
        return done

    def mapped(self) -> pa.Buffer:
        """All of it, as memory that cannot be written; the file is there as long as that is."""
        try:
            os.ftruncate(self._handle, max(self.end, 1))
            whole = mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _refusal(self._folder, error) from error
        self._close()
        return pa.py_buffer(whole)


class FilePlace:
    """A part of a file that is written from its beginning on."""

    def __init__(self, file: UnnamedFile, room_bytes: int) -> None:
        self._file = file
        self.begin = file.place(room_bytes)
        self.size = 0

    def add(self, values: npt.NDArray[Any]) -> None:
        """Write values behind those that are there."""
        self.size += self._file.write(self.begin + self.size, values)

    def read(self, whole: pa.Buffer) -> pa.Buffer:
        """The bytes written."""
        return whole.slice(self.begin, self.size)


def _refusal(folder: str, error: OSError) -> StorageError:
    what = "its disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror)
    return StorageError(
        f"what is beyond the memory limit cannot be written to the folder '{folder}': {what}. Make room "
        "there, name another folder, or raise the limit; what was saved is as it was."
    )


def _array(whole: pa.Buffer, place: FilePlace, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(whole, dtype, place.size // dtype.itemsize, place.begin)


# Columns in flight to a file, some rows at a time, and as they are read from it: nothing is copied then.
#
# Numbers, times, decimals, texts and bytes are written as they come. Values of other types, such as lists and
# structs, are put together in memory before they are written.


class ColumnWriter(Protocol):
    """A column that is being written to a file."""

    @property
    def memory_bytes(self) -> int:
        """The bytes that wait in memory."""
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
    """Return the writer of a column with all values of these parts."""
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
    """The validity of values, one bit each."""

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
    """The begin of each string, followed by the end of the last one."""
    buffer = column.buffers()[1]
    if not len(column) or buffer is None:
        return np.zeros(1, offset)
    return np.frombuffer(buffer, offset, len(column) + 1, column.offset * offset.itemsize)
