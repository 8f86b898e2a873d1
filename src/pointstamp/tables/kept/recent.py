"""The newest small changes of an arrangement, found by a dictionary, and merged many at once.

An array is searched in some calls, however few rows it has, and merged in some more. So changes of a few rows
stay as they came, and a dictionary says which of them have a key: of most keys none. When they are many, they
become one run, with one merge for all of them.

Invariant: a change that has a key is among those that the dictionary names for the hash of the key.
"""

from typing import Final

from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.run import Run

# A change of more rows is worth its merges.
_CHANGE_ROWS_MAX: Final = 32
# So many changes, or rows, or bytes of a column, become one run.
_CHANGES_MAX: Final = 32
_ROWS_MAX: Final = 512
_COLUMN_BYTES_MAX: Final = 1 << 20
# For more hashes, or for a key that so many changes have, one run of all is searched sooner.
_HASHES_MAX: Final = 32
_FOUND_MAX: Final = 4


class RecentChanges:
    """Small changes, oldest first; changed by the runs that own it."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._having: dict[int, list[int]] = {}
        """For the hash of a key, the numbers of the changes that may have it."""
        self.rows = 0
        """How many rows they have."""
        self._column_bytes = 0

    def has_room(self, run: Run) -> bool:
        """Whether a change is small, and may stand beside those that are here."""
        return (
            len(run) <= _CHANGE_ROWS_MAX
            and len(self.runs) < _CHANGES_MAX
            and self.rows + len(run) <= _ROWS_MAX
            and self._column_bytes + run.longest_bytes <= _COLUMN_BYTES_MAX
        )

    def add(self, run: Run) -> None:
        """Keep a change for which there is room."""
        number = len(self.runs)
        self.runs.append(run)
        self.rows += len(run)
        self._column_bytes += run.longest_bytes
        for hashed in set(run.words[0].tolist()):
            self._having.setdefault(hashed, []).append(number)

    def having(self, hashes: Hashes) -> list[Run] | None:
        """The changes that may have keys with these hashes; None if one run of all is searched sooner."""
        if not self.runs:
            return []
        if len(hashes) > _HASHES_MAX:
            return None
        found = {number for hashed in hashes.tolist() for number in self._having.get(hashed, ())}
        return None if len(found) > _FOUND_MAX else [self.runs[number] for number in sorted(found)]
