"""What is kept of a table by key, once for all operators of a worker that need it.

Operators that join one table by one key are given the same changes, by the same worker, in the same order of
times, but not at the same moment. So whoever comes first to a change adds it, and each sees as many changes
as it has come to itself. A change is merged with those before when all have come to it.

Exactly one of them saves and restores what is kept: the first. It saves what it has seen, whatever others
have added since.

Invariant: the sum of ``runs`` and of ``later`` is the sum of all changes to which anybody has come.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Final

import pyarrow as pa

from pointstamp.errors import FlowError
from pointstamp.state.memory import MemoryBudget
from pointstamp.tables.kept.run import Run, merged, run_of
from pointstamp.tables.kept.run_file import mapped_run
from pointstamp.tables.kept.runs import Runs
from pointstamp.tables.kept.sizes import is_worth_saving_apart

COUNTED_ROWS_MAX: Final = 1024
"""So many rows are merged to say how many there are; of more, the sum over runs is said."""


class Kept:
    """The runs of a table by key; changed by those that read it, each under its number."""

    def __init__(self) -> None:
        self.runs = Runs()
        """What all readers have seen."""
        self.later: list[Run] = []
        """Changes that at least one reader has not read yet, in their order."""
        self._seen: list[int] = []
        """For each reader how many changes it has come to."""
        self._merged = 0
        """To how many changes all have come."""
        self._unsaved: list[Run] | None = None
        """What the first reader has seen since it saved; None if that is not known, or not worth knowing."""
        self._unsaved_rows = 0
        self._unsaved_bytes = 0
        """What of it is in memory, where that is limited."""
        self._budget: MemoryBudget | None = None
        self._is_loaded = False
        self._expected_by = ""
        """Who resumes from a snapshot, and expects another reader to bring what was kept."""

    def __len__(self) -> int:
        return len(self.runs) + sum(map(len, self.later))

    @property
    def rows(self) -> int:
        """How many rows there are: exactly where they are few, and else some may be counted twice."""
        stored = len(self)
        runs = [run for run in (*self.runs, *self.later) if len(run)]
        return len(reduce(merged, runs)) if len(runs) > 1 and stored <= COUNTED_ROWS_MAX else stored

    @property
    def size_bytes(self) -> int:
        """What all of it takes, in memory or in files."""
        return self.runs.size_bytes + sum(run.size_bytes for run in self.later)

    @property
    def mapped_bytes(self) -> int:
        """What of it lies in files."""
        return sum(run.size_bytes for run in self.runs if run.is_mapped)

    def keep_within(self, budget: MemoryBudget) -> None:
        """Write to files what is beyond the budget of the worker; before anything is added."""
        self._budget = budget
        self.runs.keep_within(budget)

    @property
    def piece_bytes_max(self) -> int | None:
        """More than this is not added at once, if memory is limited."""
        return None if self._budget is None else self._budget.piece_bytes_max

    @property
    def readers(self) -> int:
        """How many operators, or sides of them, read it."""
        return len(self._seen)

    def reader(self) -> int:
        """Make one reader more, before anything is added; return its number."""
        assert not len(self), "who comes late has not seen what is there"
        self._seen.append(0)
        return len(self._seen) - 1

    def add(self, reader: int, run: Run) -> None:
        """A reader has come to a change."""
        self._check_loaded()
        if reader == 0 and self._unsaved is not None:
            self._note(run)
        if len(self._seen) == 1:
            self.runs.add(run)
            return
        self._seen[reader] += 1
        number = self._seen[reader] - self._merged
        if number > len(self.later):
            self.later.append(run)
        assert len(self.later[number - 1]) == len(run), "readers of one table have seen different changes"
        while self.later and min(self._seen) > self._merged:
            self.runs.add(self.later.pop(0))
            self._merged += 1

    def seen_by(self, reader: int) -> list[Run]:
        """The runs that a reader sees."""
        self._check_loaded()
        return [*self.runs, *self._later_of(reader)]

    def _later_of(self, reader: int) -> list[Run]:
        """The changes that one reader has read and another has not."""
        return self.later[: self._seen[reader] - self._merged]

    # Saving.

    def unsaved(self) -> list[Run] | None:
        """What the first reader has seen since it was asked the last time, if that is known."""
        unsaved, self._unsaved, self._unsaved_rows, self._unsaved_bytes = self._unsaved, [], 0, 0
        return unsaved

    def load(self, rows: Iterable[Run]) -> None:
        """Begin with what was saved; once, also where several saved it, which kept it apart then."""
        if self._is_loaded:
            return
        for run in rows:
            if len(run):
                self.runs.add(run)
        self._unsaved, self._is_loaded = None, True

    def expect(self, who: str) -> None:
        """A reader resumes from a snapshot, and another one brings what is kept, before or after this."""
        self._expected_by = who

    def _check_loaded(self) -> None:
        if self._expected_by and not self._is_loaded:
            raise FlowError(
                f"operator '{self._expected_by}' resumes from a snapshot in which another operator saved "
                "a shared table, but that operator was removed or renamed. Restore it, or start with a "
                "new checkpoint."
            )

    def _note(self, run: Run) -> None:
        assert self._unsaved is not None
        self._unsaved.append(run)
        self._unsaved_rows += len(run)
        if not is_worth_saving_apart(self._unsaved_rows, len(self)):
            self._unsaved = None
        elif self._budget is not None:
            self._unsaved_bytes += run.size_bytes
            if self._unsaved_bytes > self._budget.piece_bytes_max:
                self._unsaved, self._unsaved_bytes = _in_files(self._unsaved, self._budget.folder), 0


def _in_files(changes: list[Run], folder: str) -> list[Run]:
    """The same changes; those that are in memory as one run in a file."""
    inside = [run for run in changes if not run.is_mapped]
    outside = [run for run in changes if run.is_mapped]
    total = run_of(pa.concat_batches([run.batch for run in inside]), inside[0].layout)
    return [*outside, mapped_run(total, folder)] if len(total) else outside
