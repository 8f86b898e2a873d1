"""Runs that are merged by size, a bounded amount of work at a time.

A change becomes a separate run; two neighbours are merged when the newer one is at least half as large as
the older one, unless a column of texts would become more than Arrow can hold in one. So there are about as
many runs as the binary digits of the number of rows, and each row is moved as often. Small runs are merged at
once. Of a large merge every change pays for a part that is as large as the change itself, times a constant
which is more than the merge will need before it must be done (Overmars and van Leeuwen 1981: what is spread
is finished before it is missed).

Where a worker has a limit of memory, runs are mapped from files beyond it, the largest ones first. A merge
for which there is no room, or of a run that is in a file already, is written to a file as it goes.

Invariant: the sum of all runs is the sum of all changes; runs stand from the oldest to the newest.
"""

from collections.abc import Iterator
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from pointstamp.arrangement.column_arrays import KeptColumn, arrow_column, kept_column
from pointstamp.arrangement.run import INDEXED_ROWS_MIN, GrowingBuckets, Run, merged
from pointstamp.arrangement.spill_file import RunFile, mapped_run
from pointstamp.state.memory_budget import MemoryBudget

# So many rows of each merge in flight are paid for by a row that is added: a merge of n rows begins when some
# n / 3 have come since the last one of its size, and is done when n / 16 more have.
_MERGED_ROWS_PER_ROW: Final = 16
# Fewer rows are not worth the calls.
_SLICE_ROWS_MIN: Final = 4_096
# Merged at once: so many rows, or so many times those of the change.
_AT_ONCE_ROWS_MAX: Final = 1 << 16
_AT_ONCE_TIMES_MAX: Final = 4
# Arrow counts the bytes of texts with 32 bits: two runs whose texts are more stay two.
_COLUMN_BYTES_MAX: Final = (1 << 31) - 1


# The merge of two runs, some rows at a time, so that no single change waits for all of it.
#
# Both runs are cut at the same words, and the parts before the cut are merged and put behind what is there.
# In memory, columns of a fixed width are written to where they stay, so that at the end nothing is copied;
# others are put together then, a column at a time. What has no room in memory is made in a file
# (``pointstamp.arrangement.spill_file``).
#
# Invariant: what is made so far holds the rows of both runs before the cut, consolidated. Until it is done
# both runs are whole, and are what is read and saved.

# More rows at once are not merged faster, and do not fit the nearer caches.
_SLICE_ROWS_MAX: Final = 1 << 15


class RunInMaking(Protocol):
    """A run that is made of parts, one behind the other, in memory or in a file."""

    @property
    def size_bytes(self) -> int:
        """The size of its rows so far."""
        ...

    @property
    def memory_bytes(self) -> int:
        """The bytes in memory, including reserved room."""
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
    """Two neighboring runs that are being merged; changed by their owner."""

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
        """The size of both runs and of the result so far."""
        return self.older.size_bytes + self.newer.size_bytes + self._target.size_bytes

    @property
    def memory_bytes(self) -> int:
        """The bytes in memory and not in files, of both runs and of the room for the merged run."""
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
        """The positions at which to cut both runs: at the same words, after about so many rows."""
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
            for one, other, kind in zip(older.columns, newer.columns, older.layout.types, strict=True)
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


class Runs:
    """The runs of one arrangement, oldest first; changed by the arrangement."""

    def __init__(self) -> None:
        self._entries: list[Run | Merge] = []
        """A merge stands for the two runs that it merges."""
        self._rows = 0
        self._merges: list[Merge] = []
        """Those among the entries."""
        self._is_settled = True
        """Whether no neighbours are due to be merged, but maybe the newest two."""
        self._paid_rows = 0
        """The number of rows of each merge that are paid for and not merged yet."""
        self._budget: MemoryBudget | None = None

    def keep_within(self, budget: MemoryBudget) -> None:
        """Write to files what is beyond the budget of the worker; before anything is added."""
        budget.join(self)
        self._budget = budget

    def __iter__(self) -> Iterator[Run]:
        for entry in self._entries:
            if isinstance(entry, Merge):
                yield entry.older
                yield entry.newer
            else:
                yield entry

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows

    @property
    def size_bytes(self) -> int:
        """The size in bytes, in memory and in files."""
        return sum(entry.size_bytes for entry in self._entries)

    @property
    def memory_bytes(self) -> int:
        """The bytes in memory."""
        return sum(entry.memory_bytes for entry in self._entries)

    @property
    def largest_bytes(self) -> int:
        """The size of the largest run in memory; 0 if there is none."""
        return max((run.memory_bytes for run in self), default=0)

    def spill_largest(self) -> None:
        """Write the largest run that is in memory to a file, and map it."""
        assert self._budget is not None
        largest = max(self, key=lambda run: run.memory_bytes, default=None)
        if largest is None:  # all has consolidated to nothing
            return
        mapped = mapped_run(largest, self._budget.folder)
        for at, entry in enumerate(self._entries):
            if entry is largest:
                self._entries[at] = mapped
            elif isinstance(entry, Merge):
                entry.replace(largest, mapped)
        self._is_settled = False

    def add(self, run: Run) -> None:
        """Add a change, and do its share of what is to be merged."""
        if len(run) >= INDEXED_ROWS_MIN:
            run.index  # noqa: B018 - a large change pays for it, and not the small one that comes next
        self._entries.append(run)
        self._rows += len(run)
        self._merge_at_once(max(_AT_ONCE_ROWS_MAX, _AT_ONCE_TIMES_MAX * len(run)))
        self._begin_merges()
        if self._merges:
            self._work(_MERGED_ROWS_PER_ROW * len(run))
        if self._budget is not None:
            self._budget.settle(self)

    def merge_all(self) -> None:
        """Make one run of all, whatever it costs."""
        runs = list(self)
        while len(runs) > 1:
            newer = runs.pop()
            runs.append(merged(runs.pop(), newer))
        self._entries = [run for run in runs if len(run)]
        self._rows, self._merges, self._paid_rows = sum(map(len, runs)), [], 0
        if self._budget is not None:
            self._budget.settle(self)

    def _merge_at_once(self, rows_max: int) -> None:
        """Merge the newest runs while they are small."""
        while len(self._entries) > 1:
            older, newer = self._entries[-2:]
            if isinstance(older, Merge) or isinstance(newer, Merge) or not _is_due(older, newer):
                return
            if len(older) + len(newer) > rows_max or not self._fits_memory(older, newer):
                return
            made = merged(older, newer)
            self._rows += len(made) - len(older) - len(newer)
            self._entries[-2:] = [made] if len(made) else []

    def _begin_merges(self) -> None:
        at = len(self._entries) - 2
        last = max(at, 0) if self._is_settled else 0
        while at >= last:
            older, newer = self._entries[at : at + 2]
            if isinstance(older, Run) and isinstance(newer, Run) and _is_due(older, newer):
                merge = self._merge_of(older, newer)
                self._entries[at : at + 2] = [merge]
                self._merges.append(merge)
            at -= 1
        self._is_settled = True

    def _merge_of(self, older: Run, newer: Run) -> Merge:
        if self._budget is None or self._fits_memory(older, newer):
            return Merge(older, newer)
        return Merge(older, newer, RunFile(self._budget.folder, [older, newer]))

    def _fits_memory(self, older: Run, newer: Run) -> bool:
        if self._budget is None:
            return True
        is_mapped = older.is_mapped or newer.is_mapped
        return not is_mapped and self._budget.has_room(older.size_bytes + newer.size_bytes)

    def _work(self, rows: int) -> None:
        self._paid_rows += rows
        if self._paid_rows < _SLICE_ROWS_MIN:
            return
        for merge in self._merges:
            merge.work(self._paid_rows)
            if merge.result is not None:
                at = self._entries.index(merge)
                self._entries[at : at + 1] = [merge.result] if len(merge.result) else []
                self._rows += len(merge.result) - len(merge)
                self._is_settled = False
        self._merges = [merge for merge in self._merges if merge.result is None]
        self._paid_rows = 0


def _is_due(older: Run, newer: Run) -> bool:
    if len(older) >= GROWTH * len(newer):
        return False
    return older.longest_bytes + newer.longest_bytes <= _COLUMN_BYTES_MAX


# How large runs may grow before they are merged, and changes before all is saved again.

GROWTH: Final = 2
"""A newer run is merged into an older one that is less than so many times as large."""

_WORTH_IT: Final = 2
_FEW: Final = 1_000


def is_worth_saving_apart(changes: int, rows: int) -> bool:
    """Whether changes since the last save are so much fewer than all rows, or so few, that they are kept.

    >>> is_worth_saving_apart(600, 1_000), is_worth_saving_apart(600, 2_000)
    (False, True)
    """
    return _WORTH_IT * changes <= max(rows, _FEW)
