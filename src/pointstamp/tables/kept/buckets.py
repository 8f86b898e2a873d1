"""Where hashes lie in a sorted run: hashes are spread evenly, so their first bits nearly say it.

From the beginning of its bucket on a hash passes rows one by one, and fewer and fewer hashes are left that
do: that touches memory once or twice for each, and not at every halving. What is behind many rows, those of a
hot key or the last one of all, is searched for.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.sorting import Positions

# Few hashes are behind more rows of their bucket.
_PASSED_ROWS_MAX: Final = 8
_BLOCK_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True)
class Buckets:
    """Where the rows of each bucket begin; the bucket of a hash is its first bits."""

    shift: np.uint64
    """How many bits of a hash are left out."""
    begins: npt.NDArray[np.int32]

    def places(self, keys: Hashes, hashes: Hashes) -> Positions:
        """Where each of some hashes stands among the sorted ones that this is about, or would."""
        begins = self.begins.take((hashes >> self.shift).view(np.int64)).astype(np.intp)
        behind = (keys.take(begins, mode="clip") < hashes).nonzero()[0]
        for _ in range(_PASSED_ROWS_MAX):
            if not len(behind):
                return begins
            begins[behind] += 1
            behind = behind[keys.take(begins[behind], mode="clip") < hashes[behind]]
        begins[behind] = keys.searchsorted(hashes[behind])
        return begins


class BucketBegins:
    """Where buckets begin in a run that is made part by part, from the least hash to the greatest."""

    def __init__(self, rows_max: int) -> None:
        # There are two to four rows in each bucket.
        bits = max(rows_max.bit_length() - 2, 1)
        self.shift = np.uint64(64 - bits)
        self.buckets = 1 << bits
        self.known, self.rows = 0, 0
        """How many buckets have their beginning already, and how many rows there are."""

    def after(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """The beginnings that are known with these rows, none of which is before one that was there."""
        if not len(hashes):
            return np.empty(0, np.int32)
        buckets = (hashes >> self.shift).view(np.int64) - self.known
        known = max(int(buckets[-1]) + 1, 0)
        begins = np.empty(known, np.int32)
        if known:
            # Rows of the last bucket that is known come first, and are before all others.
            before = int(buckets.searchsorted(0))
            ends = np.cumsum(np.bincount(buckets[before:], minlength=known))
            begins[0] = before + self.rows
            begins[1:] = ends[:-1]
            begins[1:] += begins[0]
        self.known += known
        self.rows += len(hashes)
        return begins


class GrowingBuckets:
    """The buckets of a run that is made part by part, from the least hash to the greatest."""

    def __init__(self, rows_max: int) -> None:
        self._next = BucketBegins(rows_max)
        self._begins = np.zeros(self._next.buckets, np.int32)

    def add(self, hashes: Hashes) -> None:
        """Continue with these rows, none of which is before one that was added."""
        known = self._next.known
        begins = self._next.after(hashes)
        self._begins[known : known + len(begins)] = begins

    def made(self) -> Buckets:
        """The buckets of all rows that were added."""
        self._begins[self._next.known :] = self._next.rows
        return Buckets(self._next.shift, self._begins)


def buckets_of(hashes: Hashes) -> Buckets:
    """The buckets of sorted hashes."""
    growing = GrowingBuckets(len(hashes))
    for begin in range(0, len(hashes), _BLOCK_ROWS):  # what lies between the steps stays in the nearer caches
        growing.add(hashes[begin : begin + _BLOCK_ROWS])
    return growing.made()
