"""A Delta table that holds the current rows of a table.

The driver adds up what the workers have staged, writes new rows, and those that lay beside rows which are
gone (``delta_rows``); one transaction adds and removes the files, and carries the commit's number. It is made
for the version of the table that was read, or not at all: Delta itself would let it pass beside an OPTIMIZE
that has rewritten the same files, and rows that are gone would be there again. So whoever is overtaken reads
the table again and tries again.

A commit costs what its changes cost, and the files in which rows are gone. What was staged is removed when it
is part of the table.
"""

import json
import secrets
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa

from pointstamp.errors import StorageError
from pointstamp.redaction import redact
from pointstamp.sinks import files
from pointstamp.sinks.delta_log import SCHEME, DeltaCommit, DeltaLog, table_folder
from pointstamp.sinks.delta_rows import DeltaRows
from pointstamp.sinks.port import Staged
from pointstamp.storage.port import Storage
from pointstamp.tables.kept.value import sum_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

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
            epoch = files.first_epoch(path.rpartition("/")[2], self._log.query)
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
        if (words := files.damage(self._storage.address, file, content)) is not None:
            raise StorageError(words)
        return files.table_of(content).select(self._changes.names)

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
