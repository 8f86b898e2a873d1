"""The merge of two runs, some rows at a time, so that no single change waits for all of it.

Both runs are cut at the same words, and the parts before the cut are merged and put behind what is there.
Columns of a fixed width are written to where they stay, so that at the end nothing is copied; others are put
together then, a column at a time.

Invariant: what is made so far holds the rows of both runs before the cut, added up. Until it is done both
runs are whole, and are what is read and saved.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from pointstamp.tables.kept.buckets import GrowingBuckets
from pointstamp.tables.kept.columns import KeptColumn, arrow_column, kept_column
from pointstamp.tables.kept.run import INDEXED_ROWS_MIN, Run, merged

# More rows at once are not merged faster, and do not fit the nearer caches.
_SLICE_ROWS_MAX: Final = 1 << 15


class Merge:
    """Two neighbours on their way to one run; changed by who has them."""

    def __init__(self, older: Run, newer: Run) -> None:
        self.older, self.newer = older, newer
        self._at = 0, 0
        self._rows = 0
        room = len(older) + len(newer)
        self._words = [np.empty(room, np.uint64) for _ in older.words]
        self._columns = [
            _Fixed(one.dtype, room)
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
            else _Parts(kind)
            for one, other, kind in zip(older.columns, newer.columns, older.layout.schema.types, strict=True)
        ]
        self._is_unique = True
        self._buckets = GrowingBuckets(room) if room >= INDEXED_ROWS_MIN else None
        self.result: Run | None = None
        """The merged run, when it is done."""

    def __len__(self) -> int:
        return len(self.older) + len(self.newer)

    @property
    def size_bytes(self) -> int:
        """What both runs take in memory, and what is made so far."""
        made = sum(column.size_bytes for column in self._columns) + 8 * self._rows * len(self._words)
        return self.older.size_bytes + self.newer.size_bytes + made

    def work(self, rows: int) -> None:
        """Merge about so many rows more; when none are left, put one column or more together."""
        while rows > 0 and self._at != (len(self.older), len(self.newer)):
            rows -= self._slice(min(rows, _SLICE_ROWS_MAX))
        if self._at == (len(self.older), len(self.newer)):
            scattered = [column for column in self._columns if not column.is_whole]
            if scattered and rows > 0:
                scattered[0].put_together()
            elif not scattered:
                self._finish()

    def _slice(self, rows: int) -> int:
        """Merge the next rows of both; return how many they were."""
        (i, j), (i_end, j_end) = self._at, self._cut(rows)
        part = merged(self.older.part(i, i_end), self.newer.part(j, j_end))
        end = self._rows + len(part)
        for whole, word in zip(self._words, part.words, strict=True):
            whole[self._rows : end] = word
        for column, values in zip(self._columns, part.columns, strict=True):
            column.add(values)
        if self._buckets is not None:
            self._buckets.add(part.words[0])
        self._is_unique &= part.is_unique
        self._at, self._rows = (i_end, j_end), end
        return i_end - i + j_end - j

    def _cut(self, rows: int) -> tuple[int, int]:
        """Where to cut both runs: at the same words, about so many rows further on."""
        i, j = self._at
        older, newer = len(self.older) - i, len(self.newer) - j
        while rows < older + newer:
            run, at, left = (self.older, i, older) if older >= newer else (self.newer, j, newer)
            ahead = at + max(rows * left // (older + newer), 1)
            words = run.words_at(min(ahead, len(run) - 1))
            cut = self.older.place_of(words), self.newer.place_of(words)
            if cut != (i, j):
                return cut
            rows *= 2  # so many rows have the same words
        return len(self.older), len(self.newer)

    def _finish(self) -> None:
        columns = tuple(column.values() for column in self._columns)
        words = tuple(word[: self._rows] for word in self._words)
        buckets = None if self._buckets is None else self._buckets.made()
        self.result = Run(self.older.layout, words, columns, self._is_unique, buckets)


class _Fixed:
    """A column whose values have one width and are never null, written where it stays."""

    is_whole = True

    def __init__(self, dtype: np.dtype[Any], room: int) -> None:
        self._values = np.empty(room, dtype)
        self._rows = 0

    @property
    def size_bytes(self) -> int:
        return self._rows * self._values.itemsize

    def add(self, values: KeptColumn) -> None:
        self._values[self._rows : self._rows + len(values)] = values
        self._rows += len(values)

    def put_together(self) -> None:
        pass

    def values(self) -> KeptColumn:
        return self._values[: self._rows]


class _Parts:
    """A column of any type, in parts."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._parts = [pa.array([], kind)]
        self.is_whole = False

    @property
    def size_bytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def add(self, values: KeptColumn) -> None:
        self._parts.append(arrow_column(values, self._kind))

    def put_together(self) -> None:
        self._parts = [pa.concat_arrays(self._parts)]
        self.is_whole = True

    def values(self) -> KeptColumn:
        return kept_column(self._parts[0])
