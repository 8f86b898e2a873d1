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

from pointstamp.rows.hashing import fold_columns, hash_array
from pointstamp.rows.mixing import Hashes
from pointstamp.tables.kept.buckets import Buckets, buckets_of
from pointstamp.tables.kept.columns import (
    KeptColumn,
    alone,
    as_batch,
    equal_kept,
    kept_column,
    part_of,
    taken,
    together,
)
from pointstamp.tables.kept.ordering import Ordered
from pointstamp.tables.kept.prefixes import prefixes_of
from pointstamp.tables.kept.sorting import Positions, in_order, told_apart
from pointstamp.tables.kept.weights import DIFF, Integers

# A smaller run is in the nearer caches as it is.
INDEXED_ROWS_MIN: Final = 1 << 16
# For a few hashes one call costs less than some that touch less memory.
_INDEXED_HASHES_MIN: Final = 64
_NO_ROWS: Final[Positions] = np.empty(0, np.intp)
_FIRST_ROW: Final[Positions] = np.zeros(1, np.intp)


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
    def word_count(self) -> int:
        """By how many words rows are sorted."""
        return 1 if self.is_by_row else 2 if self.order is None else 3

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """Where the columns of the key stand."""
        return tuple(map(self.schema.get_field_index, self.keys))

    @cached_property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of the key."""
        return tuple(self.schema.types[position] for position in self.key_positions)

    @cached_property
    def identity_schema(self) -> pa.Schema:
        """The columns of rows without their weights."""
        return pa.schema([self.schema.field(position) for position in range(len(self.identity))])

    @cached_property
    def key_schema(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema([self.schema.field(position) for position in self.key_positions])

    def words(self, columns: Sequence[pa.Array]) -> tuple[Hashes, ...]:
        """What rows are sorted by; their columns stand as those of the schema do."""
        rows = len(columns[-1])
        hashes = [hash_array(column) for column in columns[: len(self.identity)]]
        row = fold_columns(hashes, rows)
        if self.is_by_row:
            return (row,)
        key = fold_columns([hashes[position] for position in self.key_positions], rows)
        if self.order is None:
            return key, row
        return key, prefixes_of(columns[self.schema.get_field_index(self.order.column)], self.order), row


@dataclass(frozen=True)
class Run:
    """Rows in the order of their words; the weights are the last columns."""

    layout: Layout
    words: tuple[Hashes, ...]
    columns: tuple[KeptColumn, ...]
    is_unique: bool = False
    """Whether no two rows have the same first word; False if that is not known."""
    buckets: Buckets | None = None
    """Where hashes lie, if that is known already."""
    is_mapped: bool = False
    """Whether all of it lies in a file, and only pages of it in memory, as long as there is room."""

    def __len__(self) -> int:
        return len(self.words[0])

    @property
    def size_bytes(self) -> int:
        """What it takes, in memory or in its file."""
        buckets: Buckets | None = self.__dict__.get("index", self.buckets)
        return self._own_bytes + (0 if buckets is None else buckets.begins.nbytes)

    @cached_property
    def _own_bytes(self) -> int:
        return sum(int(each.nbytes) for each in (*self.words, *self.columns))

    @property
    def memory_bytes(self) -> int:
        """What it takes in memory, where the system could not take it away."""
        return 0 if self.is_mapped else self.size_bytes

    @cached_property
    def longest_bytes(self) -> int:
        """What the largest of its columns takes whose values have no fixed width."""
        return max((int(each.nbytes) for each in self.columns if isinstance(each, pa.Array)), default=0)

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The rows with their weights, in the columns of the schema."""
        return as_batch(self.columns, self.layout.schema)

    @property
    def keys(self) -> list[KeptColumn]:
        """The columns of the key."""
        return [self.columns[position] for position in self.layout.key_positions]

    def with_weights(self, weights: Integers) -> pa.RecordBatch | None:
        """The rows with other weights, where these are not 0; None if there are none."""
        at = weights.nonzero()[0]
        if len(at) == len(self):
            return as_batch([*self.identity, weights], self.layout.schema)
        if not len(at):
            return None
        rows = [taken(column, at) for column in self.identity]
        return as_batch([*rows, weights.take(at)], self.layout.schema)

    def keys_at(self, rows: Positions) -> pa.RecordBatch:
        """The keys of some rows."""
        return as_batch([taken(column, rows) for column in self.keys], self.layout.key_schema)

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows without their weights."""
        return as_batch(self.identity, self.layout.identity_schema)

    @property
    def identity(self) -> tuple[KeptColumn, ...]:
        """The columns of the rows without their weights."""
        return self.columns[: len(self.layout.identity)]

    @property
    def sums(self) -> list[Integers]:
        """The weights of the rows, one array for each."""
        return [np.asarray(column) for column in self.columns[len(self.layout.identity) :]]

    @property
    def weights(self) -> Integers:
        """The weight of each row, where it has one."""
        return np.asarray(self.columns[-1])

    def matching(
        self, hashes: Hashes, theirs: Sequence[KeptColumn], order: Positions | None = None
    ) -> tuple[Positions, Positions]:
        """Which of some keys, whose hashes are given in order, have rows here, and where each row stands.

        ``order`` says where in ``theirs``, the columns of the keys, each hash stands, if not where it is.
        """
        if self.is_unique:
            begins = self._places(hashes)
            found = (self.words[0].take(begins, mode="clip") == hashes).nonzero()[0]
            return self.same(theirs, found, begins.take(found), order)
        found, begins, ends = self.ranges(hashes)
        at, positions = expanded(begins, ends)
        return self.same(theirs, found.take(at), positions, order)

    def same(
        self,
        theirs: Sequence[KeptColumn],
        found: Positions,
        positions: Positions,
        order: Positions | None = None,
    ) -> tuple[Positions, Positions]:
        """Of rows whose keys have equal hashes those that have equal keys."""
        which = found if order is None else order.take(found)
        if not len(which) or (has_exact_hashes(theirs) and has_exact_hashes(self.keys)):
            return which, positions
        same = equal_kept(theirs, which, self.keys, positions, self.layout.key_types)
        return (which, positions) if same.all() else (which[same], positions[same])

    def ranges(self, hashes: Hashes) -> tuple[Positions, Positions, Positions]:
        """Which of these key hashes, in order, have rows here, and where these begin and end."""
        keys = self.words[0]
        if len(hashes) < _INDEXED_HASHES_MIN:
            begins, ends = keys.searchsorted(hashes), keys.searchsorted(hashes, "right")
            found = (begins != ends).nonzero()[0]
            return found, begins.take(found), ends.take(found)
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
        columns = tuple(part_of(column, begin, end) for column in self.columns)
        return Run(self.layout, words, columns, self.is_unique)

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
    return run_and_rows(batch, layout)[0]


def run_and_rows(batch: pa.RecordBatch, layout: Layout) -> tuple[Run, Positions]:
    """The same, and for each of its rows one that equals it in the batch."""
    arrays = batch.columns
    columns = [kept_column(column) for column in arrays]
    words = layout.words(arrays)
    if batch.num_rows == 1 and any(np.asarray(each).item() for each in columns[len(layout.identity) :]):
        return Run(layout, words, tuple(map(alone, columns)), layout.is_by_row), _FIRST_ROW
    return _made(layout, words, columns, is_merge=False)


def run_of_words(layout: Layout, words: tuple[Hashes, ...], columns: Sequence[KeptColumn]) -> Run:
    """A run of rows in any order, added up, where it is known what they are sorted by."""
    return _made(layout, words, columns, is_merge=False)[0]


def merged(*runs: Run) -> Run:
    """The rows of runs of one layout, added up; what adds up to nothing is gone."""
    layout = runs[0].layout
    words = tuple(np.concatenate(each) for each in zip(*(run.words for run in runs), strict=True))
    parts = zip(*(run.columns for run in runs), layout.schema.types, strict=True)
    columns = [together(each, kind) for *each, kind in parts]
    return _made(layout, words, columns, is_merge=True)[0]


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


def _made(
    layout: Layout, words: tuple[Hashes, ...], columns: Sequence[KeptColumn], *, is_merge: bool
) -> tuple[Run, Positions]:
    """The rows in order, equal ones added up, without those that add up to nothing; and where they were."""
    order, is_same = in_order(words, is_merge=is_merge)
    identity, weights = columns[: len(layout.identity)], columns[len(layout.identity) :]
    is_unique = layout.is_by_row
    kept: Positions | None = None
    likely = is_same.nonzero()[0] + 1
    if len(likely):
        if (
            not has_exact_hashes(identity)
            and not equal_kept(
                identity, order[likely], identity, order[likely - 1], layout.identity_schema.types
            ).all()
        ):
            is_unique = False
            rows = as_batch(identity, layout.identity_schema)
            likely = np.flatnonzero(told_apart(lambda at: rows.take(pa.array(at)), order, is_same)) + 1
        is_first = np.ones(len(order), np.bool_)
        is_first[likely] = False
        kept = is_first.nonzero()[0]
    sums = [np.asarray(each).take(order) for each in weights]
    if kept is not None:
        sums = [np.add.reduceat(each, kept) for each in sums]
    alive = sums[0] != 0
    for each in sums[1:]:
        alive |= each != 0
    if not alive.all():
        at = alive.nonzero()[0]
        kept = at if kept is None else kept[at]
        sums = [each[at] for each in sums]
    rows_at = order if kept is None else order.take(kept)
    made = tuple(word.take(rows_at) for word in words)
    return Run(layout, made, (*(taken(each, rows_at) for each in identity), *sums), is_unique), rows_at


def has_exact_hashes(columns: Sequence[KeptColumn]) -> bool:
    """Whether values of these columns are equal if their hashes are: those of one number, in its own bits."""
    return len(columns) == 1 and isinstance(columns[0], np.ndarray) and columns[0].dtype.kind != "V"
