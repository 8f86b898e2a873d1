"""Where hashes lie in a sorted run: hashes are spread evenly, so their first bits nearly say it.

A search begins at the beginning of its bucket, and touches memory once or twice, and not at every halving.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.rows.mixing import Hashes

_BLOCK_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True)
class Buckets:
    """Where the rows of each bucket begin; the bucket of a hash is its first bits."""

    shift: np.uint64
    """How many bits of a hash are left out."""
    begins: npt.NDArray[np.int32]


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
