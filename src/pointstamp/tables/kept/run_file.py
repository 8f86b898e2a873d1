"""A run in a file: its arrays as they are in memory, written rows after rows, and mapped when they are whole.

Each word and each column has a place in the file with room for all rows that may come, so that a merge
writes to all of them, some rows at a time, and every array is in one piece in the end. The layout of each is
Arrow's: nothing is read or copied when the file is mapped. Nobody else can read the file: it has no name, and
is gone with its last reader.

Invariant: what was mapped never changes.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.tables.kept.buckets import BucketBegins, Buckets
from pointstamp.tables.kept.file_columns import column_writer
from pointstamp.tables.kept.run import INDEXED_ROWS_MIN, Run
from pointstamp.tables.kept.unnamed_file import FilePlace, UnnamedFile

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
        """What is written so far."""
        return self._file.written_bytes

    @property
    def memory_bytes(self) -> int:
        """What waits in memory until it is whole."""
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


def _array(whole: pa.Buffer, place: FilePlace, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(whole, dtype, place.size // dtype.itemsize, place.begin)
