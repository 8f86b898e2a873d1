"""An arrangement: a table indexed by key, stored as a few sorted runs.

A lookup of many keys is a few calls for each run. Rows that cancel out are removed when their runs are
merged.

In a loop a row has the rounds at which it is counted, as columns before the weight: they are part of the row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrangement.column_arrays import (
    KeptColumn,
    arrow_column,
    as_batch,
    equal_kept,
    kept_column,
    taken,
    taken_together,
    together,
)
from pointstamp.arrangement.consolidate import DIFF, Integers, Positions, told_apart
from pointstamp.arrangement.ordering import Ordered
from pointstamp.arrangement.run import Layout, Run, merged, run_of
from pointstamp.arrangement.runs import Runs, is_worth_saving_apart
from pointstamp.arrangement.spill_file import mapped_run
from pointstamp.arrow import columns as column_kernels
from pointstamp.arrow import runs as kernels
from pointstamp.arrow.row_hashing import Hashes, hash_columns
from pointstamp.errors import FlowError
from pointstamp.state.memory_budget import KeptRows, KeyRows, MemoryBudget
from pointstamp.state.pieces import Piece

# Stored rows of some keys, consolidated over all runs.
#
# Rows are told apart by the hashes that their runs have of them, so that nothing is hashed again, and are
# consolidated only if they are equal.

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class SummedRows:
    """Rows of some keys, consolidated: no two rows of a key are equal, and none has the weight 0."""

    columns: Sequence[KeptColumn]
    """Without the weights."""
    weights: Integers
    group: Positions
    """The position of each row's key."""
    words: tuple[Hashes, ...]
    """The sort key of each row in a run."""

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
    """The rows found, run by run: the key of each row, and its position in its run."""
    if not found:
        columns = [kept_column(pa.array([], kind)) for kind in layout.identity_types]
        words = (np.empty(0, np.uint64),) * layout.word_count
        return SummedRows(columns, np.empty(0, np.int64), np.empty(0, np.intp), words)
    columns = taken_together([(run.identity, at) for _, run, at in found], layout.identity_types)
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
    if not equal_kept(columns, order.take(ties), columns, order.take(ties - 1), layout.identity_types).all():
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


class Arrangement:
    """Rows with weights, found by key; changed by the operator that owns it."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        weights: Sequence[str] = (DIFF,),
        order: Ordered | None = None,
    ) -> None:
        self.schema = schema
        self.keys = tuple(keys)
        self.layout = Layout(schema, self.keys, tuple(weights), order)
        self.looked_at = 0
        """The number of first rows of a key that were read the last time, if they have an order."""
        self._kept = Kept()
        self._reader = self._kept.reader()

    def share(self, other: "Arrangement") -> None:
        """Keep nothing, and read what another one keeps of the same changes; before anything is added."""
        assert self.layout == other.layout, "another table"
        self._kept = other._kept  # noqa: SLF001 - of the same class
        self._reader = self._kept.reader()

    @property
    def is_borrowed(self) -> bool:
        """Whether another one keeps what this one reads, and saves it."""
        return self._reader > 0

    def __len__(self) -> int:
        """The number of stored rows, which may include rows whose weights cancel out."""
        return sum(map(len, self._runs))

    @property
    def _runs(self) -> list[Run]:
        return self._kept.seen_by(self._reader)

    @property
    def kept_rows(self) -> KeptRows:
        """The number of rows, their bytes, and the bytes in files."""
        return KeptRows(self._kept.rows, self._kept.size_bytes, self._kept.mapped_bytes)

    def keep_within(self, budget: MemoryBudget) -> None:
        """Write to files what is beyond the budget of the worker; after it was shared."""
        if not self.is_borrowed:
            self._kept.keep_within(budget)

    def largest_keys(self, most: int) -> list[KeyRows]:
        """The keys with the most rows, by a sample; none where the key is the complete row."""
        return [] if self.layout.is_by_row else largest_keys(self._runs, most)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a change: rows with weights, in any order."""
        self.add_run(run_of(batch, self.layout))

    def add_run(self, run: Run) -> None:
        """Add a change that is a run already."""
        if len(run):
            self._kept.add(self._reader, run)

    def save(self, *, changes_only: bool) -> Piece:
        """All rows, or those that were added since the last save if they are much fewer."""
        assert not self.is_borrowed, "what another one keeps is saved there"
        unsaved = self._kept.unsaved()
        is_whole = not changes_only or unsaved is None
        runs = self._runs if is_whole else unsaved or []
        table = pa.Table.from_batches([run.batch for run in runs], self.schema)
        return Piece(table, self.keys, is_whole=is_whole, adds_up=True)

    def load(self, rows: pa.Table) -> None:
        """Add rows that were saved."""
        most = self._kept.piece_bytes_max
        rows_max = None if most is None else max(most * rows.num_rows // max(rows.nbytes, 1), 1)
        self._kept.load(run_of(batch, self.layout) for batch in rows.to_batches(max_chunksize=rows_max))

    def expect(self, who: str) -> None:
        """Continue from a snapshot to which this has added nothing, because another one keeps it."""
        self._kept.expect(who)

    def matches(
        self, batch: pa.RecordBatch, keys: Sequence[str]
    ) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        """The stored rows that have the keys of this batch's rows, run by run.

        Each answer is which rows of the batch have a match, with repetitions, and beside them the matches. A
        null in a key matches a null; who wants SQL's join leaves such rows out before.
        """
        hashes = hash_columns(batch, list(keys))
        order = np.argsort(hashes)
        columns = [kept_column(batch.column(key)) for key in keys]
        for which, run, positions in self._found(columns, hashes[order], order):
            yield which, pc.take(run.batch, pa.array(positions), boundscheck=False)

    def matches_of(self, run: Run) -> tuple[list[KeptColumn], Positions]:
        """The columns of the stored rows that have the keys of a run's rows, and of which row each is."""
        return self._taken(run.keys, run.words[0])

    def stored_of(self, run: Run, firsts: Positions) -> tuple[pa.RecordBatch, Positions]:
        """The stored rows that have the keys of these rows of a run, and of which key each is."""
        columns, which = self._taken(*_keys_at(run, firsts))
        return as_batch(columns, self.schema), which

    def summed_of(self, run: Run, firsts: Positions) -> SummedRows:
        """The stored rows that have the keys of these rows of a run, consolidated."""
        return summed_rows(self.layout, list(self._found(*_keys_at(run, firsts), None)))

    def summed_matches(self, batch: pa.RecordBatch, keys: Sequence[str]) -> SummedRows:
        """The stored rows that have the keys of this batch's rows, consolidated for each of these."""
        hashes = hash_columns(batch, list(keys))
        columns = [kept_column(batch.column(key)) for key in keys]
        order = hashes.argsort()
        return summed_rows(self.layout, list(self._found(columns, hashes.take(order), order)))

    def _taken(self, keys: Sequence[KeptColumn], hashes: Hashes) -> tuple[list[KeptColumn], Positions]:
        found = list(self._found(keys, hashes, None))
        if not found:
            return [pa.array([], kind) for kind in self.layout.types], np.empty(0, np.intp)
        columns = taken_together([(own.columns, at) for _, own, at in found], self.layout.types)
        return columns, np.concatenate([which for which, _, _ in found])

    def first_rows(self, run: Run, firsts: Positions, most: int) -> "FirstRows":
        """The first stored rows that have the keys of these rows of a run: so many of each run at most."""
        assert self.layout.order is not None
        keys, hashes = _keys_at(run, firsts)
        bounds = np.full(len(firsts), np.iinfo(np.uint64).max, np.uint64)
        is_all = np.ones(len(firsts), np.bool_)
        parts: list[tuple[Positions, Run, Positions]] = []
        for own in self._runs:
            which, positions = own.first_places(hashes, most, bounds, is_all)
            which, positions = own.same(keys, which, positions)
            if len(which):
                parts.append((which, own, positions))
        if len(parts) == 1:
            ((group, own, at),) = parts
            rows = Scattered(self.layout.identity_schema, [own.identity], np.zeros(len(at), np.intp), at)
            prefixes, hashes, weights = own.words[1].take(at), own.words[2].take(at), own.weights.take(at)
            return FirstRows(rows, prefixes, hashes, weights, group, bounds, is_all)
        none, no_place = np.empty(0, np.uint64), np.empty(0, np.intp)
        rows = Scattered(
            self.layout.identity_schema,
            [own.identity for _, own, _ in parts],
            np.repeat(np.arange(len(parts)), [len(at) for _, _, at in parts]),
            np.concatenate([no_place, *[at for _, _, at in parts]]),
        )
        return FirstRows(
            rows,
            np.concatenate([none, *[own.words[1].take(at) for _, own, at in parts]]),
            np.concatenate([none, *[own.words[2].take(at) for _, own, at in parts]]),
            np.concatenate([none.view(np.int64), *[own.weights.take(at) for _, own, at in parts]]),
            np.concatenate([no_place, *[which for which, _, _ in parts]]),
            bounds,
            is_all,
        )

    def weights_of(self, run: Run, rows: Positions | None = None) -> Integers:
        """The multiplicity of each row of a run, or of some rows, if the key is the complete row."""
        assert self.layout.is_by_row
        keys, hashes = (run.keys, run.words[0]) if rows is None else _keys_at(run, rows)
        there = np.zeros(len(hashes), np.int64)
        for which, own, positions in self._found(keys, hashes, None):
            kernels.add_at(there, which, own.weights, positions)
        return there

    def sums_of(self, run: Run) -> list[Integers]:
        """The stored weights of each row of a run, one array for each, where the key is the complete row."""
        assert self.layout.is_by_row
        there = [np.zeros(len(run), np.int64) for _ in self.layout.weights]
        for which, own, positions in self._found(run.keys, run.words[0], None):
            for total, values in zip(there, own.sums, strict=True):
                kernels.add_at(total, which, values, positions)
        return there

    def _found(
        self, theirs: Sequence[KeptColumn], hashes: Hashes, order: Positions | None
    ) -> Iterator[tuple[Positions, Run, Positions]]:
        """The rows of keys whose hashes are given in order; ``order`` says where in the batch each stands."""
        for run in self._runs:
            which, positions = run.matching(hashes, theirs, order)
            if len(which):
                yield which, run, positions

    def rows_of(self, batch: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
        """All stored rows of these keys, which are distinct; equal rows may come several times."""
        found = [rows for _, rows in self.matches(batch, keys)]
        if not found:
            return _empty(self.schema)
        return found[0] if len(found) == 1 else pa.concat_batches(found)

    def all_rows(self) -> pa.Table:
        """All stored rows, consolidated, of an arrangement that is not shared."""
        self._kept.runs.merge_all()
        return pa.Table.from_batches([run.batch for run in self._runs], self.schema)


# Rows that lie in several runs, known by their places, and copied only where they are looked at.


@dataclass(frozen=True, slots=True)
class Scattered:
    """Rows of several parts with the same columns: of which part each is, and where it stands there."""

    schema: pa.Schema
    parts: Sequence[Sequence[KeptColumn]]
    """The columns of each part; there is at least one where rows are looked at."""
    part_of: Positions
    at: Positions

    def __len__(self) -> int:
        return len(self.at)

    def only(self, rows: Positions) -> "Scattered":
        """Some of these rows, or all in another order; nothing is copied but their places."""
        return Scattered(self.schema, self.parts, self.part_of.take(rows), self.at.take(rows))

    def taken(self, rows: Positions) -> pa.RecordBatch:
        """Some of these rows as a separate batch."""
        return as_batch(self.columns(rows), self.schema)

    def columns(self, rows: Positions) -> list[KeptColumn]:
        """The columns of some of these rows."""
        part_of, at = self.part_of.take(rows), self.at.take(rows)
        found = column_kernels.gathered(self.parts, part_of, at, self.schema.types)
        return [
            self._by_arrow(number, part_of, at) if each is None else each for number, each in enumerate(found)
        ]

    def column(self, number: int, rows: Positions) -> pa.Array:
        """One column of some of these rows."""
        part_of, at, kind = self.part_of.take(rows), self.at.take(rows), self.schema.field(number).type
        parts = [part[number : number + 1] for part in self.parts]
        (found,) = column_kernels.gathered(parts, part_of, at, [kind])
        return arrow_column(self._by_arrow(number, part_of, at) if found is None else found, kind)

    def _by_arrow(self, number: int, part_of: Positions, at: Positions) -> KeptColumn:
        """One column by Arrow's own functions: all parts behind each other, and what is wanted of them."""
        parts = [part[number] for part in self.parts]
        begins = np.cumsum([0, *(len(part) for part in parts)])
        return taken(together(parts, self.schema.field(number).type), begins.take(part_of) + at)

    def equal(self, these: Positions, those: Positions) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows equals the one of those beside it."""
        columns = self.columns(np.concatenate((these, those)))
        pairs = np.arange(len(these))
        return equal_kept(columns, pairs, columns, pairs + len(these), self.schema.types)


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of some keys of an ordered arrangement; equal rows may come several times."""

    rows: Scattered
    prefixes: Hashes
    hashes: Hashes
    """The hashes of complete rows."""
    weights: Integers
    group: Positions
    """The position of each row's key."""
    bounds: Hashes
    """By key: all rows whose prefix is less than this are here."""
    is_all: npt.NDArray[np.bool_]
    """By key: whether all its rows are here."""


def _keys_at(run: Run, rows: Positions) -> tuple[list[KeptColumn], Hashes]:
    """The keys of some rows of a run, and their hashes."""
    return [taken(column, rows) for column in run.keys], run.words[0].take(rows)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


# The keys of an arrangement that have the most rows, found by looking at a few hundred places.
#
# All rows of a key lie together in a run, so places that lie evenly in it are within a large key more often
# than within a small one: a key that has more than a 512th of all rows in one run is met for certain. Of each
# key that is met the rows are counted, by two binary searches in each run. So the work is bounded, whatever
# is kept, and the counts are exact, but for rows that will accumulate to nothing.

PLACES_MAX: Final = 512
"""So many places are looked at, in all runs together."""

_LETTERS_MAX: Final = 60


def largest_keys(runs: Sequence[Run], most: int) -> list[KeyRows]:
    """The sampled keys with the most rows, the largest first, without keys with one row."""
    runs = [run for run in runs if len(run)]
    every = max(1, sum(map(len, runs)) // PLACES_MAX)
    met = [run.words[0][every // 2 :: every] for run in runs]
    if not met:
        return []
    hashes = np.unique(np.concatenate(met))
    rows = np.zeros(len(hashes), np.int64)
    for run in runs:
        keys = run.words[0]
        rows += keys.searchsorted(hashes, "right") - keys.searchsorted(hashes, "left")
    largest = [at for at in np.argsort(-rows, kind="stable")[:most] if rows[at] > 1]
    return [KeyRows(_key(runs, hashes[at]), int(rows[at])) for at in largest]


def _key(runs: Sequence[Run], wanted: np.uint64) -> str:
    """A key as text, from the first run that has it."""
    for run in runs:
        at = int(run.words[0].searchsorted(wanted))
        if at < len(run) and run.words[0][at] == wanted:
            values = [str(value) for value in run.keys_at(np.array([at])).to_pylist()[0].values()]
            text = ", ".join(values)
            return text if len(text) <= _LETTERS_MAX else f"{text[: _LETTERS_MAX - 1]}…"
    raise AssertionError("a hash that was met is in a run")


# What is kept of a table by key, once for all operators of a worker that need it.
#
# Operators that join one table by one key are given the same changes, by the same worker, in the same order
# of times, but not at the same moment. So whoever comes first to a change adds it, and each sees as many
# changes as it has come to itself. A change is merged with those before when all have come to it.
#
# Exactly one of them saves and restores what is kept: the first. It saves what it has seen, whatever others
# have added since.
#
# Invariant: the sum of ``runs`` and of ``later`` is the sum of all changes to which anybody has come.

COUNTED_ROWS_MAX: Final = 1024
"""So many rows are merged to say how many there are; of more, the sum over runs is said."""


class Kept:
    """The runs of a table by key; changed by those that read it, each under its number."""

    def __init__(self) -> None:
        self.runs = Runs()
        """The rows that all readers have seen."""
        self.later: list[Run] = []
        """Changes that at least one reader has not read yet, in their order."""
        self._seen: list[int] = []
        """For each reader how many changes it has come to."""
        self._merged = 0
        """To how many changes all have come."""
        self._unsaved: list[Run] | None = None
        """The changes that the first reader has seen after its last save; None if unknown or too many."""
        self._unsaved_rows = 0
        self._unsaved_bytes = 0
        """The bytes of these changes in memory, if memory is limited."""
        self._budget: MemoryBudget | None = None
        self._is_loaded = False
        self._expected_by = ""
        """The reader that resumes from a snapshot and expects another reader to bring the rows."""

    def __len__(self) -> int:
        return len(self.runs) + sum(map(len, self.later))

    @property
    def rows(self) -> int:
        """The number of rows: exact if there are few, otherwise some may be counted twice."""
        stored = len(self)
        runs = [run for run in (*self.runs, *self.later) if len(run)]
        return len(reduce(merged, runs)) if len(runs) > 1 and stored <= COUNTED_ROWS_MAX else stored

    @property
    def size_bytes(self) -> int:
        """The size in bytes, in memory and in files."""
        return self.runs.size_bytes + sum(run.size_bytes for run in self.later)

    @property
    def mapped_bytes(self) -> int:
        """The bytes in files."""
        return sum(run.size_bytes for run in self.runs if run.is_mapped)

    def keep_within(self, budget: MemoryBudget) -> None:
        """Write to files what is beyond the budget of the worker; before anything is added."""
        self._budget = budget
        self.runs.keep_within(budget)

    @property
    def piece_bytes_max(self) -> int | None:
        """More than this is not added at once, if memory is limited."""
        return None if self._budget is None else self._budget.piece_bytes_max

    @property
    def readers(self) -> int:
        """The number of operators, or sides of operators, that read it."""
        return len(self._seen)

    def reader(self) -> int:
        """Make one reader more, before anything is added; return its number."""
        assert not len(self), "who comes late has not seen what is there"
        self._seen.append(0)
        return len(self._seen) - 1

    def add(self, reader: int, run: Run) -> None:
        """A reader has come to a change."""
        self._check_loaded()
        if reader == 0 and self._unsaved is not None:
            self._note(run)
        if len(self._seen) == 1:
            self.runs.add(run)
            return
        self._seen[reader] += 1
        number = self._seen[reader] - self._merged
        if number > len(self.later):
            self.later.append(run)
        assert len(self.later[number - 1]) == len(run), "readers of one table have seen different changes"
        while self.later and min(self._seen) > self._merged:
            self.runs.add(self.later.pop(0))
            self._merged += 1

    def seen_by(self, reader: int) -> list[Run]:
        """The runs that a reader sees."""
        self._check_loaded()
        return [*self.runs, *self._later_of(reader)]

    def _later_of(self, reader: int) -> list[Run]:
        """The changes that one reader has read and another has not."""
        return self.later[: self._seen[reader] - self._merged]

    # Saving.

    def unsaved(self) -> list[Run] | None:
        """The changes that the first reader has seen after the last call, if known."""
        unsaved, self._unsaved, self._unsaved_rows, self._unsaved_bytes = self._unsaved, [], 0, 0
        return unsaved

    def load(self, rows: Iterable[Run]) -> None:
        """Begin with what was saved; once, also where several saved it, which kept it apart then."""
        if self._is_loaded:
            return
        for run in rows:
            if len(run):
                self.runs.add(run)
        self._unsaved, self._is_loaded = None, True

    def expect(self, who: str) -> None:
        """A reader resumes from a snapshot, and another one brings what is kept, before or after this."""
        self._expected_by = who

    def _check_loaded(self) -> None:
        if self._expected_by and not self._is_loaded:
            raise FlowError(
                f"operator '{self._expected_by}' resumes from a snapshot in which another operator saved "
                "a shared table, but that operator was removed or renamed. Restore it, or start with a "
                "new checkpoint."
            )

    def _note(self, run: Run) -> None:
        assert self._unsaved is not None
        self._unsaved.append(run)
        self._unsaved_rows += len(run)
        if not is_worth_saving_apart(self._unsaved_rows, len(self)):
            self._unsaved = None
        elif self._budget is not None:
            self._unsaved_bytes += run.size_bytes
            if self._unsaved_bytes > self._budget.piece_bytes_max:
                self._unsaved, self._unsaved_bytes = _in_files(self._unsaved, self._budget.folder), 0


def _in_files(changes: list[Run], folder: str) -> list[Run]:
    """The same changes; those that are in memory as one run in a file."""
    inside = [run for run in changes if not run.is_mapped]
    outside = [run for run in changes if run.is_mapped]
    total = run_of(pa.concat_batches([run.batch for run in inside]), inside[0].layout)
    return [*outside, mapped_run(total, folder)] if len(total) else outside
