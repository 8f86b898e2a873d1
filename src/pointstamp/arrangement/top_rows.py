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
    """The changed key of each row."""
    prefixes: Hashes
    before: Integers
    after: Integers
    """The multiplicity of each row before and after the change."""

    def in_order(self, by: Sequence[Ordered]) -> tuple[Positions, npt.NDArray[np.bool_]]:
        """The order of the rows by group and these columns, and which rows differ in them from the last one.

        What they leave open is decided by all columns from left to right.
        """
        same = kernels.ties(self.group.view(np.uint64), self.prefixes)
        order, is_new = np.arange(len(self.group)), np.full(len(self.group), True)
        if len(same):
            is_new[same] = False
            is_tied = ~is_new
            is_tied[same - 1] = True
            tied = is_tied.nonzero()[0]
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
    """The first rows of each key, before and after a change: so many, or all, for some keys at a time.

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
        mine, of = np.arange(len(group)), group
        if len(open_keys) < len(firsts):
            mine = np.flatnonzero(np.isin(group, open_keys))
            of = np.searchsorted(open_keys, group[mine])
        # Beyond its bound a key's rows are not all known.
        rows, own, left = kernels.decided(
            *(found.bounds, found.is_all, wanted, found.group, found.prefixes, found.weights),
            *(of, change.words[1].take(mine), weights.take(mine)),
        )
        if len(rows) + len(own):
            own = mine.take(own)
            yield _ends(found, rows, open_keys.take(found.group.take(rows)), change, own, group.take(own))
        open_keys = open_keys.take(left)
        stored.looked_at = most * 3 // 4  # fewer may be enough again
        most *= _WIDER


def _ends(
    found: FirstRows, rows: Positions, keys: Positions, change: Run, own: Positions, own_keys: Positions
) -> Ends:
    """Stored rows and those of a change together, consolidated, the rows of each key in order."""
    last = np.full(len(own), len(found.rows.parts))
    both = Scattered(
        change.layout.identity_schema,
        [*found.rows.parts, change.identity],
        np.concatenate((found.rows.part_of.take(rows), last)),
        np.concatenate((found.rows.at.take(rows), own)),
    )
    none = np.zeros(len(own), np.int64)
    was = found.weights.take(rows)
    group = np.concatenate((keys, own_keys))
    prefixes = np.concatenate((found.prefixes.take(rows), change.words[1].take(own)))
    hashes = np.concatenate((found.hashes.take(rows), change.words[2].take(own)))
    before, after = np.concatenate((was, none)), np.concatenate((was, change.weights.take(own)))
    order, ties = kernels.in_order((group.view(np.uint64), prefixes, hashes))
    if len(ties) and not both.equal(order[ties], order[ties - 1]).all():
        ties = told_apart(both.taken, order, ties)
    at, (before, after) = kernels.added_up(order, ties, [before, after])
    return Ends(both.only(at), group.take(at), prefixes.take(at), before, after)
