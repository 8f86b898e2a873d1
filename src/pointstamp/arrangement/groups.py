"""Groups: the rows of some keys, consolidated, those of each key side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.arrangement.column_arrays import KeptColumn, arrow_column, as_batch, equal_kept, taken
from pointstamp.arrangement.consolidate import DIFF, Integers, Positions, with_weights
from pointstamp.arrangement.run import Layout, Run, has_exact_hashes, run_of
from pointstamp.arrow import runs as kernels
from pointstamp.arrow.key_index import KeyIndex
from pointstamp.arrow.row_hashing import fold_columns, hash_array


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of some keys, consolidated, the rows of each key together."""

    rows: pa.RecordBatch
    starts: npt.NDArray[np.intp]
    """The position of the first row of each group; every group has a row."""
    keys: pa.RecordBatch
    """The key of each group."""


GroupFunction: TypeAlias = Callable[[Grouped], pa.RecordBatch]
"""From groups to the rows that come out for them, with weights."""


def distinct(keys: pa.RecordBatch) -> pa.RecordBatch:
    """Each key once."""
    counted = with_weights(keys, np.ones(keys.num_rows, np.int64))
    return run_of(counted, Layout(counted.schema, tuple(keys.schema.names))).batch.select(keys.schema.names)


def grouped(batch: pa.RecordBatch, keys: Sequence[str], weights: Sequence[str] = (DIFF,)) -> Grouped:
    """Rows consolidated and brought together by key; groups without a row are not there."""
    run = run_of(batch, Layout(batch.schema, tuple(keys), tuple(weights)))
    firsts, group = groups_of(run)
    rows = run.batch
    own = rows.select(list(keys)).take(pa.array(firsts))
    if len(group) and (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        rows, group = rows.take(pa.array(order)), group[order]
    starts = np.searchsorted(group, np.arange(len(firsts)))
    return Grouped(rows, starts, own)


def grouped_rows(columns: Sequence[KeptColumn], group: Positions, keys: Run, layout: Layout) -> Grouped:
    """The same where it is known of which key of a run each row is; columns stand as in the layout."""
    at = [number for number in range(len(layout.identity)) if number not in layout.key_positions]
    rest, kinds = [columns[number] for number in at], [layout.types[number] for number in at]
    hashes = [hash_array(arrow_column(column, kind)) for column, kind in zip(rest, kinds, strict=True)]
    word = fold_columns(hashes, len(group)) if hashes else np.zeros(len(group), np.uint64)
    order, ties = kernels.in_order((group.view(np.uint64), word))
    if rest and len(ties) and not has_exact_hashes(rest):
        these, those = order.take(ties), order.take(ties - 1)
        if not equal_kept(rest, these, rest, those, kinds).all():
            return grouped(as_batch(columns, layout.schema), layout.keys, layout.weights)
    weights = [np.asarray(each) for each in columns[len(layout.identity) :]]
    rows, sums = kernels.added_up(order, ties, weights)
    own = [taken(column, rows) for column in columns[: len(layout.identity)]]
    ranked = group.take(rows)
    starts = np.append(True, ranked[1:] != ranked[:-1])[: len(ranked)].nonzero()[0]
    batch = as_batch([*own, *sums], layout.schema)
    return Grouped(batch, starts, keys.keys_at(ranked.take(starts)))


# The keys of a run: where the rows of each lie, and sums by key as a run of their own.


def groups_of(run: Run) -> tuple[Positions, Positions]:
    """The keys of a run: where the first row of each stands, and of which key each row is."""
    firsts, group, same = kernels.groups(run.words[0])
    if not len(same):
        return firsts, group
    if run.layout.is_by_row:  # rows with one hash that are not equal
        return np.arange(len(run)), np.arange(len(run))
    keys = run.keys
    if not has_exact_hashes(keys) and not equal_kept(keys, same, keys, same - 1, run.layout.key_types).all():
        # Two keys have one hash, and their rows may lie in any order.
        slots = KeyIndex(run.layout.key_schema).slots(as_batch(keys, run.layout.key_schema))
        return np.unique(slots, return_index=True)[1], slots
    return firsts, group


def run_by_key(run: Run, firsts: Positions, weights: Sequence[Integers], layout: Layout) -> Run:
    """The keys of a run, whose rows lie together by key, each with the sums of weights of its rows, 0 too.

    ``firsts`` says where the rows of each key begin, and the layout is one whose rows are the keys.
    """
    sums = [kernels.group_sums(each, firsts) for each in weights]
    keys = [taken(column, firsts) for column in run.keys]
    hashes = run.words[0].take(firsts)
    return Run(layout, (hashes,), (*keys, *sums))


def without_nothing(run: Run) -> Run:
    """The rows of a run without those whose weights are all 0."""
    if any(np.count_nonzero(each) == len(each) for each in run.sums):
        return run
    alive = np.flatnonzero(reduce(np.logical_or, (each != 0 for each in run.sums)))
    columns = tuple(taken(column, alive) for column in run.columns)
    return Run(run.layout, tuple(word.take(alive) for word in run.words), columns)
