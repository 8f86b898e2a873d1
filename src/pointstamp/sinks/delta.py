"""Output as Delta Lake tables, one per output below a path; needs ``deltalake`` on the driver alone.

Workers stage Parquet files into the tables' folders (``files``), where no reader of Delta sees them: a table
is what its log lists. A commit adds them to the log in one Delta transaction that carries two application
transactions, the query's name with the commit's number, and with the last epoch. So a repeated publication is
recognised from the table itself, and of two drivers that publish the same commit at once Delta refuses one.

Within a table a commit is visible at once. Delta has no transaction over several tables, so of a commit with
several outputs a reader may for a moment see one table further than another, never a part of an epoch in one;
``published_through`` is the epoch that all of them have reached. Tables may have other writers (compaction,
deletes, another query's rows). What dead generations have staged for epochs that are published stays for
Delta's own VACUUM, because files that compaction has replaced look the same and serve time travel.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.errors import FlowError, NotStored, RecoveryError, SchemaError, StorageError
from pointstamp.sinks import files
from pointstamp.sinks.files import Origin, StagedFiles, folder_name
from pointstamp.sinks.port import Staged
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, RemoveAction

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_METADATA: Final = "pointstamp"
_BEGIN_ANEW: Final = (
    "begin with a new checkpoint and a new path; with savepoint= the new query goes on from a savepoint of "
    "this one"
)


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """Delta tables below a path; ``storage_options`` are deltalake's, ``open_storage`` opens it for files."""

    path: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    open_storage: Callable[[str], Storage] = storage_at
    query: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))  # it may come as a pathlib.Path

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "DeltaSink":
        """The sink for one query; SchemaError for columns that Delta does not have."""
        for output, schema in schemas.items():
            columns = files.file_schema(output, schema)
            try:
                _deltalake().Schema.from_arrow(columns)
            except Exception as error:  # deltalake's errors have no common kind
                raise SchemaError(
                    f"output '{output}' has columns for which Delta has no types: {error}. Cast them in the "
                    "flow."
                ) from error
        return replace(self, query=query, schemas=dict(schemas))

    def writer(self, worker: int, generation: int) -> StagedFiles:
        """For one worker, on its host."""
        origin = Origin(self.query, generation)
        return StagedFiles(self.open_storage(self.path), _folders(self.schemas), self.schemas, origin, worker)

    def publisher(self) -> "DeltaPublisher":
        """For the driver."""
        return DeltaPublisher(self)


class DeltaPublisher:
    """Adds the files of commits to the tables of one query."""

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self._storage = sink.open_storage(sink.path)
        self._folders = _folders(sink.schemas)
        self._delta = _deltalake()
        self._ended: dict[str, pa.Schema] = {}

    def check_outputs(self, before: Collection[str]) -> None:
        """An output may end with any commit; a new one is refused, because its table would lack commits."""
        for output in self._sink.schemas:
            table = self._table(output)
            if table is not None:
                try:
                    self._check_columns(output, table)
                except StorageError as error:
                    raise RecoveryError(
                        f"{error} Nothing was changed: take the change back, or {_BEGIN_ANEW}."
                    ) from error
        reached = max((self._last(output) for output in before), default=-1)
        for output in self._sink.schemas:
            if output not in before and before and self._last(output) != reached:
                raise RecoveryError(
                    f"output '{output}' is new, but '{self._sink.path}' already has commits up to {reached} "
                    "of this query, which the table of the new output would lack; nothing was changed. Take "
                    f"the change back, or {_BEGIN_ANEW}."
                )

    def _last(self, output: str) -> int:
        """The last commit of this query that a table has; -1 before the first."""
        table = self._table(output)
        last = None if table is None else table.transaction_version(self._sink.query)
        return -1 if last is None else last

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Add a commit's files to each table that does not have them yet."""
        commit = _Commit(number, epochs_through, list(staged))
        # A commit of before the flow was changed may have rows of an output that is gone.
        self._ended.clear()
        for file in staged:
            if file.output not in self._sink.schemas:
                self._ended[file.output] = pq.read_schema(pa.BufferReader(self._storage.read(file.path)))
        # First all looks, then the first change: what is refused changes nothing.
        outputs = [*self._sink.schemas, *self._ended]
        waiting = [output for output in outputs if not self._is_published(output, commit)]
        own = [file for file in staged if file.output in waiting]
        for problem in files.missing(self._storage, own):
            raise StorageError(f"{problem} Give a path on a file system that driver and workers share.")
        for output in waiting:
            self._add(output, commit)

    def published_through(self) -> int | None:
        """The last epoch that all tables have; None before the first."""
        reached = [self._reached(output) for output in self._sink.schemas]
        known = [each for each in reached if each is not None]
        return min(known) if known and len(known) == len(reached) else None

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged for epochs after the published ones, unless kept."""
        kept = {file.path for file in keep}
        origin = Origin(self._sink.query, generation)
        for output, folder in self._folders.items():
            reached = self._reached(output)
            files.discard(self._storage, [folder], origin, kept, -1 if reached is None else reached)

    def _reached(self, output: str) -> int | None:
        table = self._table(output)
        if table is None:
            return None
        self._sync(output, table.version())
        return table.transaction_version(self._epochs_id)

    def _sync(self, output: str, version: int) -> None:
        """Make sure that a version of a table survives a power failure, which deltalake does not promise.

        Object stores do so themselves. A version whose entry Delta has put into a checkpoint is an old one.
        """
        if not _SCHEME.match(self._sink.path):
            with suppress(NotStored):
                self._storage.sync(f"{_folder(output)}/_delta_log/{version:020d}.json")

    @property
    def _epochs_id(self) -> str:
        return f"{self._sink.query}/epochs_through"

    def _address(self, output: str) -> str:
        path = self._sink.path
        root = path.rstrip("/") if _SCHEME.match(path) else os.path.abspath(path)
        return f"{root}/{_folder(output)}"

    def _table(self, output: str) -> "DeltaTable | None":
        options = dict(self._sink.storage_options)
        if not self._delta.DeltaTable.is_deltatable(self._address(output), options):
            return None
        table: DeltaTable = self._delta.DeltaTable(self._address(output), storage_options=options)
        return table

    def _is_published(self, output: str, commit: "_Commit") -> bool:
        table = self._table(output)
        last = None
        if table is not None:
            self._check_columns(output, table)
            last = table.transaction_version(self._sink.query)
            if last is not None and commit.number <= last:
                self._check_same(output, table, commit)
                return True
        expected = 0 if last is None else last + 1
        if commit.number != expected:
            raise StorageError(
                f"the table '{self._address(output)}': commit {expected} of '{self._sink.query}' must come "
                f"next, but commit {commit.number} was given."
            )
        return False

    def _add(self, output: str, commit: "_Commit") -> None:
        query = self._sink.query
        properties = self._delta.CommitProperties(
            custom_metadata={_METADATA: commit.mark(query)},
            app_transactions=[
                self._delta.Transaction(query, commit.number),
                self._delta.Transaction(self._epochs_id, commit.epochs_through),
            ],
        )
        own = (file for file in commit.staged if file.output == output)
        added: list[AddAction | RemoveAction] = [self._added(file) for file in own]
        try:
            table = self._table(output) or self._created(output)
            table.create_write_transaction(
                added, "append", self._columns(output), commit_properties=properties
            )
            self._reached(output)
        except Exception as error:  # deltalake's errors have no common kind
            # Another driver may have been faster with the same commit.
            seen = self._table(output)
            last = None if seen is None else seen.transaction_version(query)
            if seen is None or last is None or last < commit.number:
                raise StorageError(
                    f"the table '{self._address(output)}': commit {commit.number} of '{query}' cannot be "
                    f"added: {error}."
                ) from error
            self._check_same(output, seen, commit)

    def _created(self, output: str) -> "DeltaTable":
        options = dict(self._sink.storage_options)
        table: DeltaTable = self._delta.DeltaTable.create(
            self._address(output), self._columns(output), mode="ignore", storage_options=options
        )
        return table

    def _columns(self, output: str) -> "Schema":
        schema = self._sink.schemas.get(output)
        arrow = self._ended[output] if schema is None else files.file_schema(output, schema)
        columns: Schema = self._delta.Schema.from_arrow(arrow)
        return columns

    def _check_columns(self, output: str, table: "DeltaTable") -> None:
        """Deltalake adds files with whatever columns to a table, so they are compared here."""
        there = [(column.name, column.type) for column in table.schema().fields]
        given = [(column.name, column.type) for column in self._columns(output).fields]
        if there != given:
            raise StorageError(
                f"the table '{self._address(output)}' has the columns {_listed(there)}, but output "
                f"'{output}' has {_listed(given)}. Give another path, or change the table's columns."
            )

    def _added(self, file: Staged) -> "AddAction":
        from deltalake.transaction import AddAction

        statistics = {
            "numRecords": file.rows,
            "minValues": {"epoch": file.first_epoch},
            "maxValues": {"epoch": file.last_epoch},
            "nullCount": {"epoch": 0},
        }
        name, now = file.path.partition("/")[2], time.time_ns() // 1_000_000
        return AddAction(name, file.size_bytes, {}, now, True, json.dumps(statistics))

    def _check_same(self, output: str, table: "DeltaTable", commit: "_Commit") -> None:
        """Compare with what the log says about this number; what has left the log is taken to be the same."""
        wanted = json.loads(commit.mark(self._sink.query))
        for entry in table.history():
            mark = json.loads(entry.get(_METADATA, "{}"))
            if (mark.get("query"), mark.get("number")) == (wanted["query"], wanted["number"]):
                if mark != wanted:
                    raise StorageError(
                        f"the table '{self._address(output)}': commit {commit.number} of "
                        f"'{self._sink.query}' was published before with other content."
                    )
                self._sync(output, entry["version"])
                return


@dataclass(frozen=True, slots=True)
class _Commit:
    number: int
    epochs_through: int
    staged: list[Staged]

    def mark(self, query: str) -> str:
        """What the log keeps to recognise the commit."""
        content = msgspec.json.encode([self.epochs_through, sorted(self.staged, key=lambda file: file.path)])
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        return json.dumps({"query": query, "number": self.number, "content": digest})


def _listed(columns: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def _folders(outputs: Collection[str]) -> dict[str, str]:
    return {output: _folder(output) for output in outputs}


def _folder(output: str) -> str:
    # Not the percent sign, which deltalake reads as the beginning of a code.
    return folder_name(output).replace("%", "+")


def _deltalake() -> ModuleType:
    try:
        import deltalake
    except ImportError as error:
        raise FlowError(
            "Delta tables need the package deltalake on the driver, which is not installed. Install "
            "pointstamp[delta]."
        ) from error
    return deltalake
