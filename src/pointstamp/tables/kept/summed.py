"""Stored rows of some keys, added up over all runs: what is looked up is known by its places until it is read.

Rows are told apart by the hashes that their runs have of them, so that nothing is hashed again, and are added
up only if they are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.run import Layout, Run
from pointstamp.tables.kept.scattered import Scattered, are_equal
from pointstamp.tables.kept.sorting import Positions, by_both
from pointstamp.tables.kept.weights import Integers


@dataclass(frozen=True, slots=True)
class SummedRows:
    """Rows of some keys, added up: no two rows of a key are equal, and none has the weight 0."""

    rows: Scattered
    weights: Integers
    group: Positions
    """Of which key each row is."""
    words: tuple[Hashes, ...]
    """What each row is sorted by in a run."""


def summed_rows(layout: Layout, found: Sequence[tuple[Positions, Run, Positions]]) -> SummedRows:
    """What was found, run by run: of which key each row is, and where it stands in its run."""
    if not found:
        rows = Scattered(layout.identity_schema, [], np.empty(0, np.intp), np.empty(0, np.intp))
        words = (np.empty(0, np.uint64),) * layout.word_count
        return SummedRows(rows, np.empty(0, np.int64), rows.at, words)
    if len(found) == 1:  # in a run no two rows are equal
        which, own, at = found[0]
        rows = Scattered(layout.identity_schema, [own.identity], np.zeros(len(at), np.intp), at)
        return SummedRows(rows, own.weights.take(at), which, tuple(word.take(at) for word in own.words))
    rows = Scattered(
        layout.identity_schema,
        [own.identity for _, own, _ in found],
        np.repeat(np.arange(len(found)), [len(at) for _, _, at in found]),
        np.concatenate([at for _, _, at in found]),
    )
    group = np.concatenate([which for which, _, _ in found])
    weights = np.concatenate([own.weights.take(at) for _, own, at in found])
    words = tuple(
        np.concatenate([own.words[number].take(at) for _, own, at in found])
        for number in range(layout.word_count)
    )
    order = by_both(group, words[-1])
    ranked, hashes = group.take(order), words[-1].take(order)
    is_same = (ranked[1:] == ranked[:-1]) & (hashes[1:] == hashes[:-1])
    if is_same.any():
        firsts = np.append(True, ~are_equal(rows, order, is_same)).nonzero()[0]
        sums = np.add.reduceat(weights.take(order), firsts)
        alive = sums.nonzero()[0]
        order, weights = order.take(firsts.take(alive)), sums.take(alive)
    else:
        weights = weights.take(order)
    words = tuple(word.take(order) for word in words)
    return SummedRows(rows.only(order), weights, group.take(order), words)
