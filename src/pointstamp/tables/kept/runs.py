"""Runs that are merged by size, a bounded amount of work at a time.

A change becomes a run of its own; two neighbours are merged when the newer one is at least half as large as
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
from typing import Final

from pointstamp.state.memory import MemoryBudget
from pointstamp.tables.kept.merging import Merge
from pointstamp.tables.kept.run import INDEXED_ROWS_MIN, Run, merged
from pointstamp.tables.kept.run_file import RunFile, mapped_run
from pointstamp.tables.kept.sizes import GROWTH

# So many rows of each merge under way are paid for by a row that is added: a merge of n rows begins when some
# n / 3 have come since the last one of its size, and is done when n / 16 more have.
_MERGED_ROWS_PER_ROW: Final = 16
# Fewer rows are not worth the calls.
_SLICE_ROWS_MIN: Final = 4_096
# Merged at once: so many rows, or so many times those of the change.
_AT_ONCE_ROWS_MAX: Final = 1 << 16
_AT_ONCE_TIMES_MAX: Final = 4
# Arrow counts the bytes of texts with 32 bits: two runs whose texts are more stay two.
_COLUMN_BYTES_MAX: Final = (1 << 31) - 1


class Runs:
    """The runs of one arrangement, oldest first; changed by the arrangement."""

    def __init__(self) -> None:
        self._entries: list[Run | Merge] = []
        """A merge stands for the two runs that it merges."""
        self._paid_rows = 0
        """How many rows of each merge are paid for, and not merged yet."""
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
        """How many rows they have."""
        return sum(map(len, self._entries))

    @property
    def size_bytes(self) -> int:
        """What they take, in memory or in files."""
        return sum(entry.size_bytes for entry in self._entries)

    @property
    def memory_bytes(self) -> int:
        """What they take in memory."""
        return sum(entry.memory_bytes for entry in self._entries)

    @property
    def largest_bytes(self) -> int:
        """What the largest run takes that is in memory; 0 if none is."""
        return max((run.memory_bytes for run in self), default=0)

    def spill_largest(self) -> None:
        """Write the largest run that is in memory to a file, and map it."""
        assert self._budget is not None
        largest = max(self, key=lambda run: run.memory_bytes, default=None)
        if largest is None:  # all has added up to nothing
            return
        mapped = mapped_run(largest, self._budget.folder)
        for at, entry in enumerate(self._entries):
            if entry is largest:
                self._entries[at] = mapped
            elif isinstance(entry, Merge):
                entry.replace(largest, mapped)

    def add(self, run: Run) -> None:
        """Add a change, and do its share of what is to be merged."""
        if len(run) >= INDEXED_ROWS_MIN:
            run.index  # noqa: B018 - a large change pays for it, and not the small one that comes next
        self._entries.append(run)
        self._merge_at_once(max(_AT_ONCE_ROWS_MAX, _AT_ONCE_TIMES_MAX * len(run)))
        self._begin_merges()
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
            self._entries[-2:] = [made] if len(made) else []

    def _begin_merges(self) -> None:
        at = len(self._entries) - 2
        while at >= 0:
            older, newer = self._entries[at : at + 2]
            if isinstance(older, Run) and isinstance(newer, Run) and _is_due(older, newer):
                self._entries[at : at + 2] = [self._merge_of(older, newer)]
            at -= 1

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
        merges = [entry for entry in self._entries if isinstance(entry, Merge)]
        self._paid_rows = self._paid_rows + rows if merges else 0
        if self._paid_rows < _SLICE_ROWS_MIN:
            return
        for merge in merges:
            merge.work(self._paid_rows)
            if merge.result is not None:
                at = self._entries.index(merge)
                self._entries[at : at + 1] = [merge.result] if len(merge.result) else []
        self._paid_rows = 0


def _is_due(older: Run, newer: Run) -> bool:
    if len(older) >= GROWTH * len(newer):
        return False
    return older.longest_bytes + newer.longest_bytes <= _COLUMN_BYTES_MAX
