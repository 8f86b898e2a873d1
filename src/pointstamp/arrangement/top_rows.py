"""The first rows of each key in an ordered arrangement, and their changes.

Each run has the rows of a key in the order of their prefixes. The first m rows of the key in each run say
which rows come first in all: those whose prefix is less than that of the last row that was looked at, in
every run that has more. Where deletions or equal prefixes leave it open whether these are enough, more rows
are looked at, four times as many each time, so that a key of a million rows costs what its first few do.

Invariant: the rows that are given are all rows of the key whose prefix is less than some bound, or all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pointstamp.arrangement.arrangement import Arrangement, FirstRows, Scattered
from pointstamp.arrangement.consolidate import Integers, Positions, told_apart
from pointstamp.arrangement.ordering import Ordered, ranks
from pointstamp.arrangement.run import Run
from pointstamp.arrow import runs as kernels
from pointstamp.arrow.row_hashing import Hashes

_WIDER: Final = 4
# A few rows more than are wanted, because those that are deleted would be missing otherwise.
_MORE: Final = 4
_MORE_PART: Final = 2
# How many rows of all keys together are looked at on suspicion.
_LIKELY_ROWS_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Ends:
    """The first rows of some keys, before a change and after it, the rows of a key together, in order."""

    rows: Scattered
    """The rows without their weights; no two are equal."""
    group: Positions
    """Which of the changed keys each row is of."""
    prefixes: Hashes
    before: Integers
    after: Integers
    """How often each row was there before the change, and is now."""

    def in_order(self, by: Sequence[Ordered]) -> tuple[Positions, npt.NDArray[np.bool_]]:
        """The order of the rows by group and these columns, and which rows differ in them from the last one.

        What they leave open is decided by all columns from left to right.
        """
        same = (self.group[1:] == self.group[:-1]) & (self.prefixes[1:] == self.prefixes[:-1])
        order, is_new = np.arange(len(self.group)), np.ones(len(self.group), np.bool_)
        is_new[1:] = ~same
        tied = np.flatnonzero(np.append(False, same) | np.append(same, False)) if len(same) else order[:0]
        if len(tied):
            block = np.cumsum(is_new)[tied]
            rows = self.rows.taken(tied)
            wanted = ranks(rows, by)
            rest = ranks(rows, [Ordered(name) for name in rows.schema.names])
            inner = np.lexsort([*reversed(rest), *reversed(wanted), block])
            differs = np.ones(len(tied), np.bool_)
            differs[1:] = block[inner][1:] != block[inner][:-1]
            for each in wanted:
                differs[1:] |= each[inner][1:] != each[inner][:-1]
            order[tied], is_new[tied] = tied[inner], differs
        return order, is_new


def changed_ends(
    stored: Arrangement, keys: Run, firsts: Positions, change: Run, group: Positions, wanted: int
) -> Iterator[Ends]:
    """Of each key its first rows: so many, before a change and after it, or all; some keys at a time.

    The keys are those of some rows of a run; ``group`` says of which of them each row of the change is, which
    is not in ``stored`` yet.
    """
    weights = change.weights
    # Where so many rows had to be looked at the last time, the first few are likely to be deleted still.
    most = max(
        wanted + wanted // _MORE_PART + _MORE, min(stored.looked_at, _LIKELY_ROWS_MAX // max(len(firsts), 1))
    )
    open_keys = np.arange(len(firsts))
    while len(open_keys):
        found = stored.first_rows(keys, firsts[open_keys], most)
        if len(open_keys) == len(firsts):
            mine, of = np.arange(len(group)), group
        else:
            mine = np.flatnonzero(np.isin(group, open_keys))
            of = np.searchsorted(open_keys, group[mine])
        # Beyond its bound a key's rows are not all known.
        inside = (change.words[1][mine] < found.bounds[of]) | found.is_all[of]
        mine, of = mine[inside], of[inside]
        known = (found.prefixes < found.bounds[found.group]) | found.is_all[found.group]
        was, was_of = found.weights[known], found.group[known]
        counts = np.zeros((2, len(open_keys)), np.int64)
        np.add.at(counts[0], was_of, was)
        counts[1] = counts[0]
        np.add.at(counts[1], of, weights[mine])
        is_decided = found.is_all | (counts >= wanted).all(axis=0)
        if is_decided.any():
            rows = np.flatnonzero(known)[is_decided[was_of]]
            own = mine[is_decided[of]]
            if len(rows) + len(own):
                yield _ends(found, rows, open_keys[found.group[rows]], change, own, group[own])
        open_keys = open_keys[~is_decided]
        stored.looked_at = most * 3 // 4  # fewer may be enough again
        most *= _WIDER


def _ends(
    found: FirstRows, rows: Positions, keys: Positions, change: Run, own: Positions, own_keys: Positions
) -> Ends:
    """Stored rows and those of a change together, consolidated, the rows of each key in order."""
    both = Scattered(
        change.layout.identity_schema,
        [*found.rows.parts, change.identity],
        np.concatenate((found.rows.part_of[rows], np.full(len(own), len(found.rows.parts)))),
        np.concatenate((found.rows.at[rows], own)),
    )
    group = np.concatenate((keys, own_keys))
    prefixes = np.concatenate((found.prefixes[rows], change.words[1][own]))
    hashes = np.concatenate((found.hashes[rows], change.words[2][own]))
    before = np.concatenate((found.weights[rows], np.zeros(len(own), np.int64)))
    after = np.concatenate((found.weights[rows], change.weights[own]))
    order, ties = kernels.in_order((group.view(np.uint64), prefixes, hashes))
    if len(ties) and not both.equal(order[ties], order[ties - 1]).all():
        ties = told_apart(both.taken, order, ties)
    at, (before, after) = kernels.added_up(order, ties, [before, after])
    return Ends(both.only(at), group[at], prefixes[at], before, after)
