"""Stored rows of some keys, added up over all runs.

Rows are told apart by the hashes that their runs have of them, so that nothing is hashed again, and are added
up only if they are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrow import runs as kernels
from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.columns import (
    KeptColumn,
    as_batch,
    equal_kept,
    kept_column,
    taken,
    taken_together,
)
from pointstamp.tables.kept.run import Layout, Run
from pointstamp.tables.kept.sorting import Positions, told_apart
from pointstamp.tables.kept.weights import Integers

_Number = TypeVar("_Number", bound=np.generic)


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
    columns = taken_together([(run.identity, at) for _, run, at in found], layout.identity_schema.types)
    weights = _together([run.weights.take(at) for _, run, at in found])
    group = _together([which for which, _, _ in found])
    words = tuple(
        _together([run.words[number].take(at) for _, run, at in found]) for number in range(layout.word_count)
    )
    if len(found) == 1:  # in a run no two rows are equal
        return SummedRows(columns, weights, group, words)
    order, ties = kernels.in_order((group.view(np.uint64), words[-1]))
    if not len(ties):
        return SummedRows(columns, weights, group, words)
    schema = layout.identity_schema
    if not equal_kept(columns, order.take(ties), columns, order.take(ties - 1), schema.types).all():
        ties = told_apart(lambda at: as_batch([taken(each, at) for each in columns], schema), order, ties)
    at, (sums,) = kernels.added_up(order, ties, [weights])
    return SummedRows(
        [taken(column, at) for column in columns],
        sums,
        group.take(at),
        tuple(word.take(at) for word in words),
    )


def _together(parts: Sequence[npt.NDArray[_Number]]) -> npt.NDArray[_Number]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
