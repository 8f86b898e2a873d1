"""The keys of a run: where the rows of each lie, and sums by key as a run of their own."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa

from pointstamp.keyed.index import KeyIndex
from pointstamp.tables.kept.columns import as_batch, equal_kept, taken
from pointstamp.tables.kept.run import Layout, Run, has_exact_hashes
from pointstamp.tables.kept.sorting import Positions


def groups_of(run: Run) -> tuple[Positions, Positions]:
    """The keys of a run: where the first row of each stands, and of which key each row is."""
    count = len(run)
    hashes = run.words[0]
    same = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    if run.layout.is_by_row or not len(same):
        return np.arange(count), np.arange(count)
    keys = run.keys
    if not has_exact_hashes(keys) and not equal_kept(keys, same, keys, same - 1, run.layout.key_types).all():
        # Two keys have one hash, and their rows may lie in any order.
        slots = KeyIndex(run.layout.key_schema).slots(as_batch(keys, run.layout.key_schema))
        return np.unique(slots, return_index=True)[1], slots
    is_first = np.ones(count, np.bool_)
    is_first[same] = False
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def run_by_key(run: Run, firsts: Positions, weights: Sequence[pa.Array], layout: Layout) -> Run:
    """The keys of a run, whose rows lie together by key, each with the sums of weights of its rows, 0 too.

    ``firsts`` says where the rows of each key begin, and the layout is one whose rows are the keys.
    """
    sums = [np.add.reduceat(each.to_numpy(), firsts) for each in weights]
    keys = [taken(column, firsts) for column in run.keys]
    hashes = run.words[0].take(firsts)
    return Run(layout, (hashes,), (*keys, *sums))


def without_nothing(run: Run) -> Run:
    """The rows of a run without those whose weights are all 0."""
    alive = np.flatnonzero(reduce(np.logical_or, (each != 0 for each in run.sums)))
    if len(alive) == len(run):
        return run
    columns = tuple(taken(column, alive) for column in run.columns)
    return Run(run.layout, tuple(word.take(alive) for word in run.words), columns)
