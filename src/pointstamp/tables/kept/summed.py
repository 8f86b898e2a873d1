"""Stored rows of some keys, added up over all runs.

Rows are told apart by the hashes that their runs have of them, so that nothing is hashed again, and are added
up only if they are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.columns import KeptColumn, as_batch, equal_kept, kept_column, taken, together
from pointstamp.tables.kept.run import Layout, Run
from pointstamp.tables.kept.sorting import Positions, by_both, told_apart
from pointstamp.tables.kept.weights import Integers


@dataclass(frozen=True, slots=True)
class SummedRows:
    """Rows of some keys, added up: no two rows of a key are equal, and none has the weight 0."""

    columns: Sequence[KeptColumn]
    """Without the weights."""
    weights: Integers
    group: Positions
    """Of which key each row is."""
    words: tuple[Hashes, ...]
    """What each row is sorted by in a run."""

    def copies(self) -> "SummedRows":
        """Each row as often as it is there, with the weight 1; none that is there less than once."""
        if (self.weights == 1).all():
            return self
        at = np.repeat(np.arange(len(self.weights)), np.maximum(self.weights, 0))
        return SummedRows(
            [taken(column, at) for column in self.columns],
            np.ones(len(at), np.int64),
            self.group.take(at),
            tuple(word.take(at) for word in self.words),
        )


def summed_rows(layout: Layout, found: Sequence[tuple[Positions, Run, Positions]]) -> SummedRows:
    """What was found, run by run: of which key each row is, and where it stands in its run."""
    if not found:
        columns = [kept_column(pa.array([], kind)) for kind in layout.identity_schema.types]
        words = (np.empty(0, np.uint64),) * layout.word_count
        return SummedRows(columns, np.empty(0, np.int64), np.empty(0, np.intp), words)
    parts = [_part(*each) for each in found]
    if len(parts) == 1:  # in a run no two rows are equal
        return parts[0]
    group = np.concatenate([part.group for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    words = tuple(np.concatenate(each) for each in zip(*(part.words for part in parts), strict=True))
    kinds = layout.identity_schema.types
    columns = [
        together(each, kind) for *each, kind in zip(*(part.columns for part in parts), kinds, strict=True)
    ]
    order = by_both(group, words[-1])
    ranked, hashes = group.take(order), words[-1].take(order)
    is_same = (ranked[1:] == ranked[:-1]) & (hashes[1:] == hashes[:-1])
    if not is_same.any():
        return SummedRows(columns, weights, group, words)
    firsts = np.append(True, ~_are_equal(columns, layout, order, is_same)).nonzero()[0]
    sums = np.add.reduceat(weights.take(order), firsts)
    alive = sums.nonzero()[0]
    at = order.take(firsts.take(alive))
    return SummedRows(
        [taken(column, at) for column in columns],
        sums.take(alive),
        group.take(at),
        tuple(word.take(at) for word in words),
    )


def _part(which: Positions, run: Run, at: Positions) -> SummedRows:
    columns = [taken(column, at) for column in run.identity]
    return SummedRows(columns, run.weights.take(at), which, tuple(word.take(at) for word in run.words))


def _are_equal(
    columns: Sequence[KeptColumn], layout: Layout, order: Positions, is_same: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether each row but the first equals the one before it; few that have the same words do not."""
    likely = is_same.nonzero()[0]
    schema = layout.identity_schema
    if equal_kept(columns, order.take(likely + 1), columns, order.take(likely), schema.types).all():
        return is_same
    return told_apart(lambda at: as_batch([taken(each, at) for each in columns], schema), order, is_same)
