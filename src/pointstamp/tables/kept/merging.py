"""The merge of two runs, some rows at a time, so that no single change waits for all of it.

Both runs are cut at the same words, and the parts before the cut are merged and put behind what is there.
In memory, columns of a fixed width are written to where they stay, so that at the end nothing is copied;
others are put together then, a column at a time. What has no room in memory is made in a file
(``pointstamp.tables.kept.run_file``).

Invariant: what is made so far holds the rows of both runs before the cut, added up. Until it is done both
runs are whole, and are what is read and saved.
"""

from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from pointstamp.tables.kept.buckets import GrowingBuckets
from pointstamp.tables.kept.columns import KeptColumn, arrow_column, kept_column
from pointstamp.tables.kept.run import INDEXED_ROWS_MIN, Run, merged

# More rows at once are not merged faster, and do not fit the nearer caches.
_SLICE_ROWS_MAX: Final = 1 << 15


class RunInMaking(Protocol):
    """A run that is made of parts, one behind the other, in memory or in a file."""

    @property
    def size_bytes(self) -> int:
        """What its rows take so far."""
        ...

    @property
    def memory_bytes(self) -> int:
        """What it takes in memory, with the room that it has for more."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be put together of the rows that are there."""
        ...

    def add(self, part: Run) -> None:
        """Continue with these rows, none of which is before one that was added."""
        ...

    def put_together(self) -> None:
        """Do a part of what is left when all rows are there."""
        ...

    def made(self) -> Run:
        """The run, when nothing is left."""
        ...


class Merge:
    """Two neighbours on their way to one run; changed by who has them."""

    def __init__(self, older: Run, newer: Run, target: RunInMaking | None = None) -> None:
        self.older, self.newer = older, newer
        self._at = 0, 0
        self._target: RunInMaking = _InMemory(older, newer) if target is None else target
        self.result: Run | None = None
        """The merged run, when it is done."""

    def __len__(self) -> int:
        return len(self.older) + len(self.newer)

    @property
    def size_bytes(self) -> int:
        """What both runs take, and what is made so far."""
        return self.older.size_bytes + self.newer.size_bytes + self._target.size_bytes

    @property
    def memory_bytes(self) -> int:
        """What takes memory, and is in no file: of both runs, and of the room for the merged one."""
        return self.older.memory_bytes + self.newer.memory_bytes + self._target.memory_bytes

    def replace(self, run: Run, same: Run) -> None:
        """Continue with another run that is the same."""
        self.older = same if self.older is run else self.older
        self.newer = same if self.newer is run else self.newer

    def work(self, rows: int) -> None:
        """Merge about so many rows more; when none are left, put one column or more together."""
        while rows > 0 and self._at != (len(self.older), len(self.newer)):
            rows -= self._slice(min(rows, _SLICE_ROWS_MAX))
        if self._at == (len(self.older), len(self.newer)):
            if self._target.is_whole:
                self.result = self._target.made()
            elif rows > 0:
                self._target.put_together()

    def _slice(self, rows: int) -> int:
        """Merge the next rows of both; return how many they were."""
        (i, j), (i_end, j_end) = self._at, self._cut(rows)
        part = merged(self.older.part(i, i_end), self.newer.part(j, j_end))
        self._target.add(part)
        self._at = i_end, j_end
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


class _InMemory:
    """A run in memory that has room for the rows of two."""

    def __init__(self, older: Run, newer: Run) -> None:
        self._layout = older.layout
        self._rows = 0
        room = len(older) + len(newer)
        self._room_bytes = older.size_bytes + newer.size_bytes
        self._words = [np.empty(room, np.uint64) for _ in older.words]
        self._columns = [
            _Fixed(one.dtype, room)
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
            else _Parts(kind)
            for one, other, kind in zip(older.columns, newer.columns, older.layout.schema.types, strict=True)
        ]
        self._buckets = GrowingBuckets(room) if room >= INDEXED_ROWS_MIN else None

    @property
    def size_bytes(self) -> int:
        return sum(column.size_bytes for column in self._columns) + 8 * self._rows * len(self._words)

    @property
    def memory_bytes(self) -> int:
        return self._room_bytes

    @property
    def is_whole(self) -> bool:
        return all(column.is_whole for column in self._columns)

    def add(self, part: Run) -> None:
        end = self._rows + len(part)
        for whole, word in zip(self._words, part.words, strict=True):
            whole[self._rows : end] = word
        for column, values in zip(self._columns, part.columns, strict=True):
            column.add(values)
        if self._buckets is not None:
            self._buckets.add(part.words[0])
        self._rows = end

    def put_together(self) -> None:
        next(column for column in self._columns if not column.is_whole).put_together()

    def made(self) -> Run:
        columns = tuple(column.values() for column in self._columns)
        words = tuple(word[: self._rows] for word in self._words)
        buckets = None if self._buckets is None else self._buckets.made()
        return Run(self._layout, words, columns, buckets)


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
