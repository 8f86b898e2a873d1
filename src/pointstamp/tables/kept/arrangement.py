"""An arrangement: a table by key, as a few sorted runs, so that a change never touches the rest.

A lookup of many keys is a few calls for each run. What adds up to nothing disappears when its runs meet.

In a loop a row has the rounds at which it is counted, as columns before the weight: they are part of the row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.arrow import runs as kernels
from pointstamp.rows.hashing import hash_columns
from pointstamp.rows.mixing import Hashes
from pointstamp.state.keeping import KeptRows, KeyRows
from pointstamp.state.memory import MemoryBudget
from pointstamp.state.pieces import Piece
from pointstamp.tables.kept.columns import KeptColumn, as_batch, kept_column, taken, taken_together
from pointstamp.tables.kept.largest import largest_keys
from pointstamp.tables.kept.ordering import Ordered
from pointstamp.tables.kept.run import Layout, Run, run_of
from pointstamp.tables.kept.scattered import Scattered
from pointstamp.tables.kept.shared import Kept
from pointstamp.tables.kept.sorting import Positions
from pointstamp.tables.kept.summed import SummedRows, summed_rows
from pointstamp.tables.kept.weights import DIFF, Integers


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
        """How many of the first rows of a key had to be looked at the last time, if they have an order."""
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
        """How many rows are stored; rows whose weights would add up to nothing may still be among them."""
        return sum(map(len, self._runs))

    @property
    def _runs(self) -> list[Run]:
        return self._kept.seen_by(self._reader)

    @property
    def kept_rows(self) -> KeptRows:
        """How many rows there are, what they take, and what of that lies in files."""
        return KeptRows(self._kept.rows, self._kept.size_bytes, self._kept.mapped_bytes)

    def keep_within(self, budget: MemoryBudget) -> None:
        """Write to files what is beyond the budget of the worker; after it was shared."""
        if not self.is_borrowed:
            self._kept.keep_within(budget)

    def largest_keys(self, most: int) -> list[KeyRows]:
        """The keys with the most rows, by a sample; none where the key is the whole row."""
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
        """The stored rows that have the keys of these rows of a run, added up."""
        return summed_rows(self.layout, list(self._found(*_keys_at(run, firsts), None)))

    def summed_matches(self, batch: pa.RecordBatch, keys: Sequence[str]) -> SummedRows:
        """The stored rows that have the keys of this batch's rows, added up for each of these."""
        hashes = hash_columns(batch, list(keys))
        columns = [kept_column(batch.column(key)) for key in keys]
        order = hashes.argsort()
        return summed_rows(self.layout, list(self._found(columns, hashes.take(order), order)))

    def _taken(self, keys: Sequence[KeptColumn], hashes: Hashes) -> tuple[list[KeptColumn], Positions]:
        found = list(self._found(keys, hashes, None))
        if not found:
            return [pa.array([], kind) for kind in self.schema.types], np.empty(0, np.intp)
        columns = taken_together([(own.columns, at) for _, own, at in found], self.schema.types)
        return columns, np.concatenate([which for which, _, _ in found])

    def first_rows(self, run: Run, firsts: Positions, most: int) -> "FirstRows":
        """The first stored rows that have the keys of these rows of a run: so many of each run at most."""
        assert self.layout.order is not None
        keys, hashes = _keys_at(run, firsts)
        bounds = np.full(len(firsts), np.iinfo(np.uint64).max, np.uint64)
        is_all = np.ones(len(firsts), np.bool_)
        parts: list[tuple[Positions, Run, Positions]] = []
        for own in self._runs:
            found, begins, ends = own.ranges(hashes)
            if not len(found):
                continue
            longer = (ends - begins > most).nonzero()[0]
            if len(longer):
                ends[longer] = begins[longer] + most
                cut = found[longer]
                bounds[cut] = np.minimum(bounds[cut], own.words[1][ends[longer] - 1])
                is_all[cut] = False
            at, positions = kernels.expanded(begins, ends)
            which, positions = own.same(keys, found.take(at), positions)
            if len(which):
                parts.append((which, own, positions))
        rows = Scattered(
            self.layout.identity_schema,
            [own.identity for _, own, _ in parts],
            np.repeat(np.arange(len(parts)), [len(at) for _, _, at in parts]),
            np.concatenate([np.empty(0, np.intp), *(at for _, _, at in parts)]),
        )
        none = np.empty(0, np.uint64)
        return FirstRows(
            rows,
            np.concatenate([none, *(own.words[1][at] for _, own, at in parts)]),
            np.concatenate([none, *(own.words[2][at] for _, own, at in parts)]),
            np.concatenate([none.view(np.int64), *(own.weights[at] for _, own, at in parts)]),
            np.concatenate([np.empty(0, np.intp), *(which for which, _, _ in parts)]),
            bounds,
            is_all,
        )

    def weights_of(self, run: Run, rows: Positions | None = None) -> Integers:
        """How often each row of a run is there, or each of some, where the key is the whole row."""
        assert self.layout.is_by_row
        keys, hashes = (run.keys, run.words[0]) if rows is None else _keys_at(run, rows)
        there = np.zeros(len(hashes), np.int64)
        for which, own, positions in self._found(keys, hashes, None):
            there[which] += own.weights.take(positions)
        return there

    def sums_of(self, run: Run) -> list[Integers]:
        """The stored weights of each row of a run, one array for each, where the key is the whole row."""
        assert self.layout.is_by_row
        found = list(self._found(run.keys, run.words[0], None))
        there = [np.zeros(len(run), np.int64) for _ in self.layout.weights]
        if found:
            which = np.concatenate([rows for rows, _, _ in found])
            for number, total in enumerate(there):
                values = [own.sums[number].take(positions) for _, own, positions in found]
                np.add.at(total, which, np.concatenate(values))
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
        """Everything that is stored, added up; of what is not shared."""
        self._kept.runs.merge_all()
        return pa.Table.from_batches([run.batch for run in self._runs], self.schema)


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of some keys of an ordered arrangement; equal rows may come several times."""

    rows: Scattered
    prefixes: Hashes
    hashes: Hashes
    """Of whole rows."""
    weights: Integers
    group: Positions
    """Of which key each row is."""
    bounds: Hashes
    """By key: all rows whose prefix is less than this are here."""
    is_all: npt.NDArray[np.bool_]
    """By key: whether all its rows are here."""


def _keys_at(run: Run, rows: Positions) -> tuple[list[KeptColumn], Hashes]:
    """The keys of some rows of a run, and their hashes."""
    return [taken(column, rows) for column in run.keys], run.words[0].take(rows)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
