"""A run: immutable columnar rows with weights, sorted by key hash.

Rows are sorted by words of 64 bits: first the hash of the key, last the hash of the complete row, so that all
rows of a key lie together, and equal rows side by side; where the key is the complete row there is one word.
Where the rows of a key have an order, the prefix of the column that decides it stands between both.

A lookup of many keys is a binary search. Hashes only say where to look: keys that are found are compared, and
rows are consolidated only if they are equal, so that two rows with one hash stay two rows. The hash of a
single number is exact, and is not compared again.

A row may have several weights, which are summed one by one; it is there while one of them is not 0.

Invariant: words are in order; no two rows are equal; no row has the weight 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.column_arrays import (
    KeptColumn,
    arrow_column,
    as_batch,
    equal_kept,
    kept_columns,
    merged_columns,
    part_of,
    taken,
    together,
    width_of,
    widths_of,
)
from pointstamp.arrangement.consolidate import DIFF, Integers, Positions, told_apart
from pointstamp.arrangement.ordering import Ordered
from pointstamp.arrow import columns as column_kernels
from pointstamp.arrow import runs as kernels
from pointstamp.arrow.row_hashing import Hashes, fold_columns, hash_kept

# A smaller run is in the nearer caches as it is.
INDEXED_ROWS_MIN: Final = 1 << 16
_WORD: Final = pa.uint64()


@dataclass(frozen=True)
class Layout:
    """The columns of a run: its keys, and its weights, which are the last ones."""

    schema: pa.Schema
    keys: tuple[str, ...]
    weights: tuple[str, ...] = (DIFF,)
    order: Ordered | None = None
    """The column that orders the rows of a key; None if only their hashes order them."""

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """The columns in which equal rows are equal."""
        return tuple(self.schema.names[: len(self.schema) - len(self.weights)])

    @cached_property
    def dtypes(self) -> tuple[np.dtype[Any] | None, ...]:
        """The numpy type of each column; None for a column without one."""
        return widths_of(self.schema)

    @cached_property
    def is_fixed(self) -> bool:
        """Whether the values of every column have one width."""
        return None not in self.dtypes

    @cached_property
    def is_by_row(self) -> bool:
        """Whether the key is the complete row."""
        return self.keys == self.identity

    @cached_property
    def word_count(self) -> int:
        """By how many words rows are sorted."""
        return 1 if self.is_by_row else 2 if self.order is None else 3

    @cached_property
    def key_positions(self) -> tuple[int, ...]:
        """The positions of the key columns."""
        return tuple(map(self.schema.get_field_index, self.keys))

    @cached_property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of the key."""
        return tuple(self.types[position] for position in self.key_positions)

    @cached_property
    def order_position(self) -> int:
        """The position of the order column."""
        assert self.order is not None
        return int(self.schema.get_field_index(self.order.column))

    @cached_property
    def identity_schema(self) -> pa.Schema:
        """The columns of rows without their weights."""
        return pa.schema([self.schema.field(position) for position in range(len(self.identity))])

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of all columns."""
        return tuple(self.schema.types)

    @cached_property
    def identity_types(self) -> tuple[pa.DataType, ...]:
        """The types of the columns of rows without their weights."""
        return self.types[: len(self.identity)]

    @cached_property
    def key_schema(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema([self.schema.field(position) for position in self.key_positions])

    def words(self, columns: Sequence[KeptColumn]) -> tuple[Hashes, ...]:
        """The sort key of rows, whose columns have the order of the schema."""
        rows = len(columns[-1])
        hashes = hash_kept(columns[: len(self.identity)])
        row = fold_columns(hashes, rows)
        if self.is_by_row:
            return (row,)
        key = fold_columns([hashes[position] for position in self.key_positions], rows)
        if self.order is None:
            return key, row
        at = self.order_position
        return key, prefixes_of(columns[at], self.types[at], self.order), row


# Where hashes lie in a sorted run: hashes are spread evenly, so their first bits nearly say it.
#
# A search begins at the beginning of its bucket, and touches memory once or twice, and not at every halving.

_BLOCK_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True)
class Buckets:
    """The first row of each bucket; the bucket of a hash is its first bits."""

    shift: np.uint64
    """The number of omitted bits of a hash."""
    begins: npt.NDArray[np.int32]


class BucketBegins:
    """The first rows of buckets in a run that is built in parts, from the least hash to the greatest."""

    def __init__(self, rows_max: int) -> None:
        # There are two to four rows in each bucket.
        bits = max(rows_max.bit_length() - 2, 1)
        self.shift = np.uint64(64 - bits)
        self.buckets = 1 << bits
        self.known, self.rows = 0, 0
        """The number of buckets with a known first row, and the number of rows."""

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


# Prefixes of values: 64 bits each, in the order of the values, so that a sorted run has its least first.
#
# Of numbers, dates and times the prefix is the value itself, of text its first eight bytes, of decimals the
# float next to it. Where a prefix is the same for two values, only these are compared as they are.
#
# Invariant: a value that is less than another, as ``pointstamp.arrangement.ordering`` says, has no greater
# prefix.

_SIGNED, _UNSIGNED, _FLOATING, _TEXTUAL = range(4)  # as pointstamp.arrow.columns names them


@lru_cache(maxsize=256)
def _form_of(kind: pa.DataType) -> int | None:
    """The format of a value's prefix in its bytes; None if it has none."""
    if types.is_unsigned_integer(kind):
        return _UNSIGNED
    if types.is_float32(kind) or types.is_float64(kind):
        return _FLOATING
    if types.is_integer(kind) or types.is_boolean(kind) or (types.is_temporal(kind) and width_of(kind)):
        return _SIGNED
    texts = (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)
    return _TEXTUAL if any(is_kind(kind) for is_kind in texts) else None


def prefixes_of(values: KeptColumn, kind: pa.DataType, by: Ordered) -> Hashes:
    """The prefix of each value in this order; that of null comes before all of them, or after."""
    if types.is_dictionary(kind):
        values, kind = arrow_column(values, kind).dictionary_decode(), kind.value_type
    if types.is_decimal(kind) or types.is_float16(kind):
        values, kind = arrow_column(values, kind).cast(pa.float64()), pa.float64()
    form = _form_of(kind)
    if form is None:
        # Of other types nothing is known: all have the same prefix, and are compared as they are.
        is_null = arrow_column(values, kind).is_null().to_numpy(zero_copy_only=False)
        values, form = pa.array(np.zeros(len(is_null), np.uint64), mask=is_null), _UNSIGNED
    return column_kernels.prefixes(values, form, by.descends, by.nulls_last)


@dataclass(frozen=True)
class Run:
    """Rows in the order of their words; the weights are the last columns."""

    layout: Layout
    words: tuple[Hashes, ...]
    columns: tuple[KeptColumn, ...]
    buckets: Buckets | None = None
    """The buckets of the hashes, if already known."""
    is_mapped: bool = False
    """Whether all of it lies in a file, and only pages of it in memory, as long as there is room."""

    def __len__(self) -> int:
        return len(self.words[0])

    @property
    def size_bytes(self) -> int:
        """The size in bytes, in memory or in its file."""
        buckets: Buckets | None = self.__dict__.get("index", self.buckets)
        return self._own_bytes + (0 if buckets is None else buckets.begins.nbytes)

    @cached_property
    def _own_bytes(self) -> int:
        return sum(int(each.nbytes) for each in (*self.words, *self.columns))

    @property
    def memory_bytes(self) -> int:
        """The bytes in memory that the system cannot reclaim."""
        return 0 if self.is_mapped else self.size_bytes

    @property
    def longest_bytes(self) -> int:
        """The bytes of the largest column of variable width, if there is one."""
        if self.layout.is_fixed:
            return 0
        sizes = [int(each.nbytes) for each in self.columns if not isinstance(each, np.ndarray)]
        return max(sizes, default=0)

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
        """The keys, given by sorted hashes, that have rows here, and the position of each row.

        ``order`` says where in ``theirs``, the columns of the keys, each hash stands, if not where it is.
        """
        return self.same(theirs, *kernels.found_rows(self.words[0], hashes, *self._index_if_large), order)

    def same(
        self,
        theirs: Sequence[KeptColumn],
        found: Positions,
        positions: Positions,
        order: Positions | None = None,
    ) -> tuple[Positions, Positions]:
        """The rows with equal keys among those with equal hashes."""
        which = found if order is None else order.take(found)
        if not len(which) or (has_exact_hashes(theirs) and has_exact_hashes(self.keys)):
            return which, positions
        same = equal_kept(theirs, which, self.keys, positions, self.layout.key_types)
        return (which, positions) if same.all() else (which[same], positions[same])

    def first_places(
        self, hashes: Hashes, most: int, bounds: Hashes, is_all: npt.NDArray[np.bool_]
    ) -> tuple[Positions, Positions]:
        """The first rows, at most so many, of each of some key hashes, in order: of which each is, and where.

        Where a hash has more, its bound comes down to the prefix of the last one, and it has not all.
        """
        words = self.words
        return kernels.first_places(words[0], words[1], hashes, *self._index_if_large, most, bounds, is_all)

    @property
    def _index_if_large(self) -> tuple[npt.NDArray[np.int32] | None, int]:
        if len(self) < INDEXED_ROWS_MIN:
            return None, 0
        return self.index.begins, int(self.index.shift)

    @cached_property
    def index(self) -> Buckets:
        """The places of hashes, computed on first use."""
        return buckets_of(self.words[0]) if self.buckets is None else self.buckets

    def part(self, begin: int, end: int) -> "Run":
        """The rows from one position to another, which is no longer in it."""
        words = tuple(word[begin:end] for word in self.words)
        columns = tuple(part_of(column, begin, end) for column in self.columns)
        return Run(self.layout, words, columns)

    def words_at(self, position: int) -> tuple[np.uint64, ...]:
        """The words of a row."""
        return tuple(word[position] for word in self.words)

    def place_of(self, words: tuple[np.uint64, ...]) -> int:
        """The position of the first row that is not before these words."""
        begin, end = 0, len(self)
        for word, wanted in zip(self.words, words, strict=True):
            inside = word[begin:end]
            begin, end = (begin + int(inside.searchsorted(wanted, side)) for side in ("left", "right"))
            if begin == end:
                break
        return begin


def run_of(batch: pa.RecordBatch, layout: Layout) -> Run:
    """A run of rows in any order, consolidated."""
    return run_and_rows(kept_columns(batch, layout.dtypes), layout)[0]


def run_and_rows(columns: Sequence[KeptColumn], layout: Layout) -> tuple[Run, Positions]:
    """A consolidated run of rows in any order, and for each of its rows the position of an equal row."""
    return _made(layout, layout.words(columns), columns)


def run_of_words(layout: Layout, words: tuple[Hashes, ...], columns: Sequence[KeptColumn]) -> Run:
    """A run of rows in any order, consolidated, where it is known what they are sorted by."""
    return _made(layout, words, columns)[0]


def merged(one: Run, other: Run) -> Run:
    """The rows of two runs of one layout, consolidated; rows that cancel out are removed."""
    layout, rows = one.layout, len(one)
    order, ties = kernels.merge_order(one.words, other.words)
    if len(ties) and not (has_exact_hashes(one.identity) and has_exact_hashes(other.identity)):
        these, those = order.take(ties - 1), order.take(ties)
        if (
            not ((these < rows) & (those >= rows)).all()
            or not equal_kept(one.identity, these, other.identity, those - rows, layout.identity_types).all()
        ):  # different rows have the same words
            both = tuple(np.concatenate(each) for each in zip(one.words, other.words, strict=True))
            pairs = zip(one.columns, other.columns, layout.types, strict=True)
            return run_of_words(layout, both, [together((a, b), kind) for a, b, kind in pairs])
    at, sums = kernels.added_up(order, ties, one.sums, other.sums)
    words = column_kernels.merged_columns(one.words, other.words, at, (_WORD,) * len(one.words))
    columns = merged_columns(one.identity, other.identity, at, layout.identity_types)
    return Run(layout, tuple(words), (*columns, *sums))


def _made(layout: Layout, words: tuple[Hashes, ...], columns: Sequence[KeptColumn]) -> tuple[Run, Positions]:
    """The rows in order, equal ones consolidated, without those that cancel out; and where they were."""
    order, ties = kernels.in_order(words)
    identity = columns[: len(layout.identity)]
    if len(ties) and not has_exact_hashes(identity):
        these, those = order.take(ties - 1), order.take(ties)
        if not equal_kept(identity, these, identity, those, layout.identity_types).all():
            rows = as_batch(identity, layout.identity_schema)
            ties = told_apart(lambda at: rows.take(pa.array(at)), order, ties)
    at, sums = kernels.added_up(order, ties, [np.asarray(each) for each in columns[len(layout.identity) :]])
    made = tuple(word.take(at) for word in words)
    return Run(layout, made, (*(taken(each, at) for each in identity), *sums)), at


def has_exact_hashes(columns: Sequence[KeptColumn]) -> bool:
    """Whether values of these columns are equal if their hashes are: those of one number, in its own bits."""
    return len(columns) == 1 and isinstance(columns[0], np.ndarray) and columns[0].dtype.kind != "V"
