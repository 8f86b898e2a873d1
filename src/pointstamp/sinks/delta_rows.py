"""Rewrite the files of a Delta or Iceberg table that a change touches.

Their files are never changed, so a row that disappears takes its file with it: the file's other rows are
written again. Which files those are is known by the hashes of their rows, eight bytes for each in the memory
of the driver. A file is read for them once, and one that this process wrote is known without that.

Invariant: the rows of the files that stay and of those that are added are the rows of before with the change
added up, or StorageError is raised and nothing was changed.
"""

import io
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.errors import FlowError, StorageError
from pointstamp.rows.hashing import hash_columns
from pointstamp.rows.mixing import Hashes
from pointstamp.sinks import files
from pointstamp.storage.port import Storage
from pointstamp.tables.kept.value import copies, sum_of
from pointstamp.tables.kept.weights import DIFF, DIFF_FIELD, with_weights

ROWS_PER_FILE_MAX: Final = 1_000_000


class NewFile(NamedTuple):
    """A file of rows that was written for a commit."""

    name: str
    rows: int
    size_bytes: int


class Rewritten(NamedTuple):
    """The files that a change removes from a table and adds to it."""

    removed: list[str]
    added: list[NewFile]


class DeltaRows:
    """The files of one table; ``folder`` is where they lie, ``schema`` the columns of a row."""

    def __init__(self, storage: Storage, folder: str, schema: pa.Schema) -> None:
        self._storage = storage
        self._folder = folder
        self._schema = schema
        self._hashes: dict[str, Hashes] = {}

    def apply(
        self, there: Collection[str], change: pa.RecordBatch, name_of: Callable[[int], str]
    ) -> Rewritten:
        """Write the files by which a change of rows with weights becomes part of a table of these files."""
        self._hashes = {name: known for name, known in self._hashes.items() if name in there}
        gone = change.filter(pa.array(change.column(DIFF).to_numpy() < 0))
        touched = list(self._holding(there, gone)) if gone.num_rows else []
        rows = [self._rows(name) for name in touched]
        ones = [with_weights(each, np.ones(each.num_rows, np.int64)) for each in rows]
        total = sum_of([change, *ones], pa.schema([*self._schema, DIFF_FIELD]))
        try:
            left = copies(total, f"the table '{self._storage.address}/{self._folder}' with this commit")
        except FlowError as error:
            raise StorageError(
                f"{error} Another writer has changed the table, which belongs to this query. Other "
                "writers may only optimize it."
            ) from error
        starts = range(0, left.num_rows, ROWS_PER_FILE_MAX)
        slices = [left.slice(start, ROWS_PER_FILE_MAX) for start in starts]
        return Rewritten(touched, [self._stored(name_of(number), each) for number, each in enumerate(slices)])

    def _holding(self, there: Collection[str], gone: pa.RecordBatch) -> Iterator[str]:
        """The files that may hold one of these rows."""
        wanted = np.unique(hash_columns(gone, self._schema.names))
        for name in there:
            if name not in self._hashes:
                self._hashes[name] = self._hashed(self._rows(name))
            known = self._hashes[name]
            places = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
            if len(known) and (known[places] == wanted).any():
                yield name

    def _rows(self, name: str) -> pa.RecordBatch:
        table = pq.read_table(io.BytesIO(self._storage.read(f"{self._folder}/{name}"))).select(
            self._schema.names
        )
        batches = table.cast(self._schema).combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], self._schema)

    def _hashed(self, rows: pa.RecordBatch) -> Hashes:
        return np.sort(hash_columns(rows, self._schema.names))

    def _stored(self, name: str, rows: pa.Table) -> NewFile:
        content = files.parquet(rows)
        self._storage.create(f"{self._folder}/{name}", content)
        self._hashes[name] = self._hashed(rows.combine_chunks().to_batches()[0])
        return NewFile(name, rows.num_rows, len(content))
