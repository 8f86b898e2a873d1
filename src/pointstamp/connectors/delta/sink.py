"""Delta Lake output, one table per output; needs ``deltalake`` on the driver only.

Workers stage Parquet files into the tables' folders (``staging``), where no reader of Delta sees them: a
table is what its log lists. A commit adds them to the log in one Delta transaction, once (``log``).

An output that is a table becomes a Delta table of its rows, as they are after the last epoch of each commit
(this module). With ``changes`` such an output is appended like any other, with epochs and weights.

Within a table a commit is visible at once. Delta has no transaction over several tables, so of a commit with
several outputs a reader may for a moment see one table further than another, never a part of an epoch in one;
``published_through`` is the epoch that all of them have reached. Tables may have other writers (compaction,
deletes, another query's rows), but a table of rows that are consolidated is the query's alone, and others may
only optimize it. What dead generations have staged for epochs that are published stays for Delta's own
VACUUM, because files that compaction has replaced look the same and serve time travel.
"""

import io
import json
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD, with_weights
from pointstamp.arrangement.open_changes import copies, is_changes, sum_of
from pointstamp.arrow.row_hashing import Hashes, hash_columns
from pointstamp.connectors import staging
from pointstamp.connectors.delta.log import SCHEME, DeltaCommit, DeltaLog, deltalake, table_folder
from pointstamp.connectors.sink import PublisherBase, SinkBase, Staged, StagedLost
from pointstamp.connectors.staging import Origin, StagedFiles
from pointstamp.errors import FlowError, RecoveryError, SchemaError, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import absolute_place, storage_at
from pointstamp.storage.port import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction


_BEGIN_ANEW = "start with a new checkpoint and a new path"


@dataclass(frozen=True, slots=True, repr=False)
class DeltaSink(SinkBase, RedactedRepr):
    """Publish into Delta tables below a path.

    An output that is a table becomes a Delta table of its current rows. With ``changes`` its changes are
    appended instead, with the epoch and the multiplicity of each row. ``storage_options`` are those of
    deltalake; ``open_storage`` opens the path for files.

    Examples:
        >>> sink = ps.io.DeltaSink("/data/gold")

    """

    path: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    open_storage: Callable[[str], Storage] = storage_at
    query: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    changes: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", absolute_place(self.path))

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "DeltaSink":
        """Return the sink of one query; SchemaError for columns that Delta does not support."""
        for output, schema in schemas.items():
            columns = self.columns(staging.file_schema(output, schema))
            try:
                deltalake().Schema.from_arrow(columns)
            except Exception as error:  # deltalake's errors have no common kind
                raise SchemaError(
                    f"output '{output}' has columns for which Delta has no types: {error}. Cast them in the "
                    "flow."
                ) from error
        return replace(self, query=query, schemas=dict(schemas))

    def writer(self, worker: int, generation: int) -> StagedFiles:
        """Return the writer of one worker, on its host."""
        origin = Origin(self.query, generation)
        folders = {output: self.staging_folder(output, schema) for output, schema in self.schemas.items()}
        return StagedFiles(self.open_storage(self.path), folders, self.schemas, origin, worker)

    def publisher(self) -> "DeltaPublisher":
        """Return the publisher, for the driver."""
        return DeltaPublisher(self)

    def is_table(self, schema: pa.Schema) -> bool:
        """Return whether an output is kept as an accumulated table."""
        return not self.changes and is_changes(schema)

    def columns(self, staged: pa.Schema) -> pa.Schema:
        """Return the columns of an output's table, by those of its staged files."""
        return pa.schema(list(staged)[1:-1]) if self.is_table(staged) else staged

    def staging_folder(self, output: str, schema: pa.Schema) -> str:
        """Return the folder where workers stage an output; accumulated changes have a separate one."""
        return f"{table_folder(output)}/{CHANGES}" if self.is_table(schema) else table_folder(output)


# A Delta table that holds the current rows of a table.
#
# The driver consolidates what the workers have staged, writes new rows, and those that lay beside rows which
# are gone (this module); one transaction adds and removes the files, and carries the
# commit's number. It is made for the version of the table that was read, or not at all: Delta itself would
# let it pass beside an OPTIMIZE that has rewritten the same files, and rows that are gone would be there
# again. So whoever is overtaken reads the table again and tries again.
#
# A commit costs what its changes cost, and the files in which rows are gone. What was staged is removed when
# it is part of the table.

CHANGES: Final = "_changes"
"""The folder of changes below that of their table; Delta and Spark do not look into such folders."""

_TRIES_MAX: Final = 20


class AddedUp:
    """Keeps one Delta table up to date; ``staged`` are the columns of changes, the epoch first."""

    def __init__(self, log: DeltaLog, storage: Storage, staged: pa.Schema) -> None:
        self._log = log
        self._storage = storage
        self._changes = pa.schema(list(staged)[1:])
        self._folder = table_folder(log.output)
        self._rows = DeltaRows(storage, self._folder, log.columns)

    def add(self, commit: DeltaCommit) -> None:
        """Apply a commit's changes to the table in one transaction, unless it has them."""
        for attempt in range(_TRIES_MAX):
            try:
                table = self._log.table_to_write()
                self._log.add(table, self._actions(table, commit), commit, at_this_version=True)
                break
            except Exception as error:  # deltalake's errors have no common kind
                if self._log.was_added(commit):
                    break
                if isinstance(error, StorageError):
                    raise
                now = self._log.table()
                if now is None or now.version() == table.version() or attempt + 1 == _TRIES_MAX:
                    raise self._log.cannot(commit, error) from error
        for file in commit.of(self._log.output):
            self._storage.delete(file.path)

    def discard(self, kept: Collection[str], reached: int) -> None:
        """Remove changes that are part of the table, which a driver that died has left."""
        for path in self._storage.list(f"{self._folder}/{CHANGES}/"):
            epoch = staging.first_epoch(path.rpartition("/")[2], self._log.query)
            if epoch is not None and epoch <= reached and path not in kept:
                self._storage.delete(path)

    def _actions(self, table: "DeltaTable", commit: DeltaCommit) -> "list[AddAction | RemoveAction]":
        from deltalake.transaction import AddAction, RemoveAction

        changes = [self._read(file) for file in commit.of(self._log.output)]
        token = secrets.token_hex(8)
        rewritten = self._rows.apply(
            self._file_names(table),
            sum_of(changes, self._changes),
            lambda number: f"rows-commit-{commit.number:012d}-{token}-{number:05d}.parquet",
        )
        now = time.time_ns() // 1_000_000
        added = [
            AddAction(name, size, {}, now, True, json.dumps({"numRecords": rows}))
            for name, rows, size in rewritten.added
        ]
        return [*added, *(RemoveAction(name, True, now) for name in rewritten.removed)]

    def _read(self, file: Staged) -> pa.Table:
        content = self._storage.read(file.path)
        if (words := staging.damage(self._storage.address, file, content)) is not None:
            raise StorageError(words)
        return staging.table_of(content).select(self._changes.names)

    def _file_names(self, table: "DeltaTable") -> list[str]:
        """The files of a table, by the names that they have in its folder."""
        names = [unquote(name) for name in pa.table(table.get_add_actions())["path"].to_pylist()]
        is_marked = pa.table(table.deletion_vectors()).num_rows > 0
        if is_marked or any(SCHEME.match(name) or name.startswith("/") for name in names):
            what = "rows that are marked as deleted" if is_marked else "files outside its folder"
            raise StorageError(
                f"the table '{redact(self._log.address)}' has {what}, so its rows cannot be kept up to "
                "date. Another writer has changed the table. Start with a new path."
            )
        return names


# Rewrite the files of a Delta or Iceberg table that a change touches.
#
# Their files are never changed, so a row that disappears takes its file with it: the file's other rows are
# written again. Which files those are is known by the hashes of their rows, eight bytes for each in the
# memory of the driver. A file is read for them once, and one that this process wrote is known without that.
#
# Invariant: the rows of the files that stay and of those that are added are the rows of before with the
# change consolidated, or StorageError is raised and nothing was changed.

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
        content = staging.parquet(rows)
        self._storage.create(f"{self._folder}/{name}", content)
        self._hashes[name] = self._hashed(rows.combine_chunks().to_batches()[0])
        return NewFile(name, rows.num_rows, len(content))


class DeltaPublisher(PublisherBase):
    """Adds commits to the tables of one query."""

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self._storage = sink.open_storage(sink.path)
        self._staged = {name: staging.file_schema(name, schema) for name, schema in sink.schemas.items()}
        self._added_up: dict[str, AddedUp] = {}
        deltalake()

    def check_outputs(self, before: Collection[str]) -> None:
        """Accept dropped outputs; reject a new one, because its table would lack commits.

        The table of an output that is a table must not have rows of another query: they would stay in it.
        """
        for output in self._sink.schemas:
            log = self._log(output)
            table = log.table()
            if table is not None:
                try:
                    log.check_columns(table)
                except StorageError as error:
                    raise RecoveryError(
                        f"{error} Nothing was changed. Undo the change of the flow, or {_BEGIN_ANEW}."
                    ) from error
                if self._sink.is_table(self._staged[output]) and not log.may_be_alone_in(table):
                    raise RecoveryError(
                        f"output '{output}' is a table, whose rows are those of one query, but "
                        f"'{redact(log.address)}' has rows or commits of another one. Resume with the "
                        f"checkpoint that wrote them, or {_BEGIN_ANEW}."
                    )
        reached = max((self._log(output).last() for output in before), default=-1)
        for output in self._sink.schemas:
            if output not in before and before and self._log(output).last() != reached:
                raise RecoveryError(
                    f"output '{output}' is new, but '{self._sink.path}' already has commits up to "
                    f"{reached} of this query, which the new table would lack. Nothing was changed. Undo "
                    f"the change of the flow, or {_BEGIN_ANEW}."
                )

    def begin(self) -> None:
        """Make each table that is missing, and note in its log that the query has no commit yet."""
        for output in self._sink.schemas:
            self._log(output).begin()

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Add a commit to each table that does not have it yet."""
        commit = DeltaCommit(number, epochs_through, list(staged))
        outputs = list(self._sink.schemas)
        # A commit of before the flow was changed may have rows of an output that is gone.
        for file in staged:
            if file.output not in outputs and not self._is_added_up(file, number):
                outputs.append(file.output)
                self._staged[file.output] = pq.read_schema(pa.BufferReader(self._storage.read(file.path)))
        # First all looks, then the first change: what is refused changes nothing.
        waiting = [output for output in outputs if not self._log(output).is_published(commit)]
        own = [file for file in staged if file.output in waiting]
        for problem in staging.missing(self._storage, own):
            # Another driver may have added its changes up meanwhile, and removed them.
            waiting = [output for output in waiting if not self._log(output).is_published(commit)]
            if any(file.output in waiting for file in own):
                raise StagedLost(f"{problem} Give a path on a file system that driver and workers share.")
            break
        for output in waiting:
            if self._sink.is_table(self._staged[output]):
                self._adding(output).add(commit)
            else:
                self._append(self._log(output), commit)

    def published_through(self) -> int | None:
        """The last epoch that all tables have; None before the first."""
        reached = [self._log(output).reached() for output in self._sink.schemas]
        known = [each for each in reached if each is not None]
        return min(known) if known and len(known) == len(reached) else None

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged for epochs after the published ones, unless kept."""
        kept = {file.path for file in keep}
        origin = Origin(self._sink.query, generation)
        for output, schema in self._sink.schemas.items():
            reached = self._log(output).reached()
            folder = self._sink.staging_folder(output, schema)
            staging.discard(self._storage, [folder], origin, kept, -1 if reached is None else reached)
            if self._sink.is_table(schema) and reached is not None:
                self._adding(output).discard(kept, reached)

    def _is_added_up(self, file: Staged, number: int) -> bool:
        """Return whether changes are gone because they are part of a table."""
        return self._storage.size(file.path) is None and self._log(file.output).last() >= number

    def _log(self, output: str) -> DeltaLog:
        columns = self._sink.columns(self._staged[output]) if output in self._staged else pa.schema([])
        options = dict(self._sink.storage_options)
        return DeltaLog(self._sink.path, output, self._sink.query, columns, self._storage, options)

    def _adding(self, output: str) -> AddedUp:
        # Kept from one commit to the next, because it knows the rows of files.
        return self._added_up.setdefault(
            output, AddedUp(self._log(output), self._storage, self._staged[output])
        )

    def _append(self, log: DeltaLog, commit: DeltaCommit) -> None:
        try:
            log.add(log.table_to_write(), [_added(file) for file in commit.of(log.output)], commit)
        except Exception as error:  # deltalake's errors have no common kind
            if not log.was_added(commit):
                raise log.cannot(commit, error) from error


def _added(file: Staged) -> "AddAction":
    from deltalake.transaction import AddAction

    statistics = {
        "numRecords": file.rows,
        "minValues": {"epoch": file.first_epoch},
        "maxValues": {"epoch": file.last_epoch},
        "nullCount": {"epoch": 0},
    }
    name, now = file.path.partition("/")[2], time.time_ns() // 1_000_000
    return AddAction(name, file.size_bytes, {}, now, True, json.dumps(statistics))
