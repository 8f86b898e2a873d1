"""A run: rows with weights in the order of their keys' hashes, columnar, and never changed once it is made.

Rows are sorted by words of 64 bits: first the hash of the key, last the hash of the whole row, so that all
rows of a key lie together, and equal rows side by side; where the key is the whole row there is one word.
Where the rows of a key have an order, the prefix of the column that decides it stands between both.

A lookup of many keys is a binary search. Hashes only say where to look: keys that are found are compared, and
rows are added up only if they are equal, so that two rows with one hash stay two rows. The hash of a single
number is exact, and is not compared again.

A row may have several weights, which are added up one by one; it is there while one of them is not 0.

Invariant: words are in order; no two rows are equal; no row has the weight 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.keyed.index import KeyIndex
from pointstamp.rows.hashing import Hashes, fold_columns, hash_array
from pointstamp.tables.kept.buckets import Buckets, buckets_of
from pointstamp.tables.kept.ordering import Ordered
from pointstamp.tables.kept.prefixes import prefixes_of
from pointstamp.tables.kept.sorting import Positions, in_order, told_apart
from pointstamp.tables.kept.weights import DIFF, Integers, equal_rows

# A smaller run is in the nearer caches as it is.
INDEXED_ROWS_MIN: Final = 1 << 16
# For a few hashes one call costs less than some that touch less memory.
_INDEXED_HASHES_MIN: Final = 64
_NO_ROWS: Final[Positions] = np.empty(0, np.intp)


@dataclass(frozen=True)
class Layout:
    """The columns of a run: its keys, and its weights, which are the last ones."""

    schema: pa.Schema
    keys: tuple[str, ...]
    weights: tuple[str, ...] = (DIFF,)
    order: Ordered | None = None
    """What the rows of a key are ordered by; None if they have no order but that of their hashes."""

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """The columns in which equal rows are equal."""
        return tuple(self.schema.names[: len(self.schema) - len(self.weights)])

    @cached_property
    def is_by_row(self) -> bool:
        """Whether the key is the whole row."""
        return self.keys == self.identity

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Where the columns of the key stand."""
        return tuple(map(self.schema.get_field_index, self.keys))

    def has_exact_hashes(self, columns: Sequence[pa.Array]) -> bool:
        """Whether values of these columns are equal if their hashes are."""
        return len(columns) == 1 and _is_number(columns[0].type) and not columns[0].null_count

    def keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of the key, of a batch of this schema."""
        return [batch.column(position) for position in self.key_positions]

    def words(self, batch: pa.RecordBatch) -> tuple[Hashes, ...]:
        """What the rows of a batch are sorted by."""
        hashes = [hash_array(batch.column(position)) for position in range(len(self.identity))]
        row = fold_columns(hashes, batch.num_rows)
        if self.is_by_row:
            return (row,)
        key = fold_columns([hashes[position] for position in self.key_positions], batch.num_rows)
        if self.order is None:
            return key, row
        return key, prefixes_of(batch.column(self.order.column), self.order), row


@dataclass(frozen=True)
class Run:
    """Rows in the order of their words; the weights are the last columns of ``batch``."""

    layout: Layout
    words: tuple[Hashes, ...]
    batch: pa.RecordBatch
    buckets: Buckets | None = None
    """Where hashes lie, if that is known already."""

    def __len__(self) -> int:
        return len(self.words[0])

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        buckets: Buckets | None = self.__dict__.get("index", self.buckets)
        index = 0 if buckets is None else buckets.begins.nbytes
        return int(self.batch.nbytes) + sum(word.nbytes for word in self.words) + index

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows without their weights."""
        return self.batch.select(list(self.layout.identity))

    @cached_property
    def weights(self) -> Integers:
        """The weight of each row, where it has one."""
        (name,) = self.layout.weights
        return np.asarray(self.batch.column(name).to_numpy())

    def ranges(self, hashes: Hashes) -> tuple[Positions, Positions, Positions]:
        """Which of these key hashes, in order, have rows here, and where these begin and end."""
        keys = self.words[0]
        begins = self._places(hashes)
        found = (keys.take(begins, mode="clip") == hashes).nonzero()[0]
        if not len(found):
            return found, found, found
        begins = begins[found]
        ends = begins + 1
        more = (keys.take(ends, mode="clip") == hashes[found]).nonzero()[0]
        if len(more):
            # Also at the end of all rows, where the last one was compared again: it says the same.
            ends[more] = keys.searchsorted(hashes[found[more]], "right")
        return found, begins, ends

    def _places(self, hashes: Hashes) -> Positions:
        """Where each of these hashes stands, or would."""
        keys = self.words[0]
        if len(keys) < INDEXED_ROWS_MIN or len(hashes) < _INDEXED_HASHES_MIN:
            return keys.searchsorted(hashes)
        return self.index.places(keys, hashes)

    @cached_property
    def index(self) -> Buckets:
        """Where hashes lie; worked out when it is first asked for."""
        return buckets_of(self.words[0]) if self.buckets is None else self.buckets

    def part(self, begin: int, end: int) -> "Run":
        """The rows from one position to another, which is no longer in it."""
        words = tuple(word[begin:end] for word in self.words)
        return Run(self.layout, words, self.batch.slice(begin, end - begin))

    def words_at(self, position: int) -> tuple[np.uint64, ...]:
        """The words of a row."""
        return tuple(word[position] for word in self.words)

    def place_of(self, words: tuple[np.uint64, ...]) -> int:
        """Where the first row stands, or would, that is not before these words."""
        begin, end = 0, len(self)
        for word, wanted in zip(self.words, words, strict=True):
            inside = word[begin:end]
            begin, end = (begin + int(inside.searchsorted(wanted, side)) for side in ("left", "right"))
            if begin == end:
                break
        return begin


def run_of(batch: pa.RecordBatch, layout: Layout) -> Run:
    """A run of rows in any order, added up."""
    return _made(layout, layout.words(batch), batch, is_merge=False)[0]


def run_and_rows(batch: pa.RecordBatch, layout: Layout) -> tuple[Run, Positions]:
    """The same, and for each of its rows one that equals it in the batch."""
    return _made(layout, layout.words(batch), batch, is_merge=False)


def merged(one: Run, other: Run) -> Run:
    """The rows of both, added up; what adds up to nothing is gone."""
    words = zip(one.words, other.words, strict=True)
    batch = pa.concat_batches([one.batch, other.batch])
    return _made(one.layout, tuple(np.concatenate(pair) for pair in words), batch, is_merge=True)[0]


def expanded(begins: Positions, ends: Positions) -> tuple[Positions, Positions]:
    """For ranges of positions: which range each position is of, and all positions, one range after another.

    >>> [each.tolist() for each in expanded(np.array([5, 9, 2]), np.array([7, 9, 3]))]
    [[0, 0, 2], [5, 6, 2]]
    """
    counts = ends - begins
    total = int(counts.sum())
    if total == 0:
        return _NO_ROWS, _NO_ROWS
    if total == len(counts):
        ones = np.flatnonzero(counts) if not counts.all() else np.arange(total)
        if len(ones) == total:
            return ones, begins
    which = np.repeat(np.arange(len(counts)), counts)
    firsts = np.cumsum(counts) - counts
    return which, np.arange(total) - firsts[which] + begins[which]


def groups_of(run: Run) -> tuple[Positions, Positions]:
    """The keys of a run: where the first row of each stands, and of which key each row is."""
    count = len(run)
    hashes = run.words[0]
    same = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    if run.layout.is_by_row or not len(same):
        return np.arange(count), np.arange(count)
    keys = run.layout.keys_of(run.batch)
    if not run.layout.has_exact_hashes(keys) and not equal_rows(keys, same, keys, same - 1).all():
        # Two keys have one hash, and their rows may lie in any order.
        index = KeyIndex(run.batch.select(list(run.layout.keys)).schema)
        slots = index.slots(run.batch.select(list(run.layout.keys)))
        return np.unique(slots, return_index=True)[1], slots
    is_first = np.ones(count, np.bool_)
    is_first[same] = False
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def _made(
    layout: Layout, words: tuple[Hashes, ...], batch: pa.RecordBatch, *, is_merge: bool
) -> tuple[Run, Positions]:
    """The rows in order, equal ones added up, without those that add up to nothing; and where they were."""
    order, is_same = in_order(words, is_merge=is_merge)
    count = len(order)
    kept: Positions | None = None
    likely = np.flatnonzero(is_same) + 1
    if len(likely):
        identity = [batch.column(position) for position in range(len(layout.identity))]
        if (
            not layout.has_exact_hashes(identity)
            and not equal_rows(identity, order[likely], identity, order[likely - 1]).all()
        ):
            rows = batch.select(list(layout.identity))
            likely = np.flatnonzero(told_apart(lambda at: rows.take(pa.array(at)), order, is_same)) + 1
        is_first = np.ones(count, np.bool_)
        is_first[likely] = False
        kept = np.flatnonzero(is_first)
    sums: list[Integers] = []
    alive = np.zeros(count if kept is None else len(kept), np.bool_)
    for name in layout.weights:
        weights: Integers = batch.column(name).to_numpy()[order]
        sums.append(weights if kept is None else np.add.reduceat(weights, kept))
        alive |= sums[-1] != 0
    if not alive.all():
        at = np.flatnonzero(alive)
        kept = at if kept is None else kept[at]
        sums = [each[at] for each in sums]
    taken = order if kept is None else order[kept]
    columns = pa.RecordBatch.from_arrays(batch.columns[: len(layout.identity)], list(layout.identity))
    columns = pc.take(columns, pa.array(taken), boundscheck=False)
    made = pa.RecordBatch.from_arrays([*columns.columns, *map(pa.array, sums)], schema=layout.schema)
    return Run(layout, tuple(word[taken] for word in words), made), taken


def _is_number(kind: pa.DataType) -> bool:
    """Whether the published hash of a type mixes the value's own 64 bits, and so is exact."""
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_temporal(kind)
    )
