"""Commits of a query in the log of a Delta table.

A commit is one Delta transaction that carries two application transactions, the query's name with the
commit's number, and with the last epoch. So a repeated publication is recognised from the table itself, and
of two drivers that publish the same commit at once Delta refuses one.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from pointstamp.connectors.sink import Staged
from pointstamp.connectors.staging import folder_name
from pointstamp.errors import FlowError, NotStored, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.port import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction, RemoveAction


SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_METADATA: Final = "pointstamp"
EPOCH_METADATA: Final = "pointstamp.epoch"
"""The last epoch of a commit, in what Delta keeps of it: for who reads the table as of an epoch."""


@dataclass(frozen=True, slots=True)
class DeltaCommit:
    """A commit to publish: its number, last epoch, and pieces of all outputs."""

    number: int
    epochs_through: int
    staged: list[Staged]

    def of(self, output: str) -> list[Staged]:
        """The pieces of one output."""
        return [file for file in self.staged if file.output == output]

    def mark(self, query: str) -> str:
        """The metadata that identifies the commit in the log."""
        content = msgspec.json.encode([self.epochs_through, sorted(self.staged, key=lambda file: file.path)])
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        return json.dumps({"query": query, "number": self.number, "content": digest})


@dataclass(frozen=True, slots=True, repr=False)
class DeltaLog(RedactedRepr):
    """The log of the table of one output, as one query sees it; ``columns`` are those of the table."""

    path: str
    """The folder of all tables of the query."""
    output: str
    query: str
    columns: pa.Schema
    storage: Storage
    options: dict[str, str]

    @property
    def address(self) -> str:
        """The address of the table."""
        root = self.path.rstrip("/") if SCHEME.match(self.path) else os.path.abspath(self.path)
        return f"{root}/{table_folder(self.output)}"

    def table(self) -> "DeltaTable | None":
        """The table as it is now; None where there is none."""
        delta = deltalake()
        if not delta.DeltaTable.is_deltatable(self.address, self.options):
            return None
        table: DeltaTable = delta.DeltaTable(self.address, storage_options=self.options)
        return table

    def table_to_write(self) -> "DeltaTable":
        """The table as it is now, which is made where there is none."""
        table = self.table()
        if table is None:
            table = deltalake().DeltaTable.create(
                self.address, self._schema(), mode="ignore", storage_options=self.options
            )
        return table

    def last(self) -> int:
        """The last commit of the query that the table has; -1 before the first."""
        table = self.table()
        last = None if table is None else table.transaction_version(self.query)
        return -1 if last is None else last

    def reached(self) -> int | None:
        """The last epoch that the table has, for certain; None before the first."""
        table = self.table()
        if table is None:
            return None
        self._sync(table.version())
        return table.transaction_version(self._epochs_id)

    def begin(self) -> None:
        """Note that there is no commit yet, as the end of epoch -1, unless the table says something else."""
        table = self.table_to_write()
        if table.transaction_version(self._epochs_id) is None:
            delta = deltalake()
            properties = delta.CommitProperties(
                custom_metadata={_METADATA: json.dumps({"query": self.query, "number": -1})},
                max_commit_retries=0,
                app_transactions=[delta.Transaction(self._epochs_id, -1)],
            )
            try:
                table.create_write_transaction([], "append", self._schema(), commit_properties=properties)
            except Exception as error:  # deltalake's errors have no common kind
                if self.reached() is None:  # else another driver was faster
                    raise StorageError(
                        f"the table '{redact(self.address)}' cannot be marked as an output of "
                        f"'{self.query}': {error}."
                    ) from error
        self.reached()

    def may_be_alone_in(self, table: "DeltaTable") -> bool:
        """Return whether a table has commits of this query, or is empty and has none of another query."""
        if any(table.transaction_version(each) is not None for each in (self.query, self._epochs_id)):
            return True
        is_used = pa.table(table.get_add_actions()).num_rows > 0
        return not is_used and not any(_METADATA in entry for entry in table.history())

    def is_published(self, commit: DeltaCommit) -> bool:
        """Whether the table has a commit; StorageError if its number is another one's, or not the next."""
        table = self.table()
        last = None
        if table is not None:
            self.check_columns(table)
            last = table.transaction_version(self.query)
            if last is not None and commit.number <= last:
                self._check_same(table, commit)
                return True
        expected = 0 if last is None else last + 1
        if commit.number != expected:
            raise StorageError(
                f"the table '{redact(self.address)}': expected commit {expected} of '{self.query}', got "
                f"commit {commit.number}."
            )
        return False

    def add(
        self,
        table: "DeltaTable",
        actions: "Sequence[AddAction | RemoveAction]",
        commit: DeltaCommit,
        *,
        at_this_version: bool = False,
    ) -> None:
        """Add a commit; with ``at_this_version`` only to the version of the table that was read."""
        delta = deltalake()
        properties = delta.CommitProperties(
            custom_metadata={
                _METADATA: commit.mark(self.query),
                EPOCH_METADATA: str(commit.epochs_through),
            },
            max_commit_retries=0 if at_this_version else None,
            app_transactions=[
                delta.Transaction(self.query, commit.number),
                delta.Transaction(self._epochs_id, commit.epochs_through),
            ],
        )
        table.create_write_transaction(list(actions), "append", self._schema(), commit_properties=properties)
        self.reached()

    def was_added(self, commit: DeltaCommit) -> bool:
        """Return whether another driver was faster with the same commit."""
        if self.last() < commit.number:
            return False
        seen = self.table()
        assert seen is not None
        self._check_same(seen, commit)
        return True

    def cannot(self, commit: DeltaCommit, error: Exception) -> StorageError:
        """Return the message for a commit that Delta rejects."""
        return StorageError(
            f"the table '{redact(self.address)}': commit {commit.number} of '{self.query}' cannot be "
            f"added: {error}."
        )

    def check_columns(self, table: "DeltaTable") -> None:
        """Deltalake adds files with whatever columns to a table, so they are compared here."""
        there = [(column.name, column.type) for column in table.schema().fields]
        given = [(column.name, column.type) for column in self._schema().fields]
        if there != given:
            raise StorageError(
                f"the table '{redact(self.address)}' has the columns {_listed(there)}, but output "
                f"'{self.output}' "
                f"has {_listed(given)}. Give another path, or change the table's columns."
            )

    @property
    def _epochs_id(self) -> str:
        return f"{self.query}/epochs_through"

    def _schema(self) -> "Schema":
        columns: Schema = deltalake().Schema.from_arrow(self.columns)
        return columns

    def _check_same(self, table: "DeltaTable", commit: DeltaCommit) -> None:
        """Compare with what the log says about this number; what has left the log is taken to be the same."""
        wanted = json.loads(commit.mark(self.query))
        for entry in table.history():
            mark = json.loads(entry.get(_METADATA, "{}"))
            if (mark.get("query"), mark.get("number")) == (wanted["query"], wanted["number"]):
                if mark != wanted:
                    raise StorageError(
                        f"the table '{redact(self.address)}': commit {commit.number} of '{self.query}' "
                        "was already published with different content. Use a new checkpoint and a new "
                        "path."
                    )
                self._sync(entry["version"])
                return

    def _sync(self, version: int) -> None:
        """Make sure that a version of a table survives a power failure, which deltalake does not promise.

        Object stores do so themselves. A version whose entry Delta has put into a checkpoint is an old one.
        """
        if not SCHEME.match(self.path):
            with suppress(NotStored):
                self.storage.sync(f"{table_folder(self.output)}/_delta_log/{version:020d}.json")


def table_folder(output: str) -> str:
    """The folder of an output's table."""
    # Not the percent sign, which deltalake reads as the beginning of a code.
    return folder_name(output).replace("%", "+")


def deltalake() -> ModuleType:
    """The package deltalake; FlowError where it is not installed."""
    try:
        import deltalake
    except ImportError as error:
        raise FlowError(
            "Delta tables need the package deltalake on the driver, which is not installed. Install "
            "pointstamp[delta]."
        ) from error
    return deltalake


def _listed(columns: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)


# Time travel: the version of a Delta table after an epoch.
#
# Each commit of a query is one version of its tables, and its metadata has the last epoch that is in it.
# Other versions, such as those of OPTIMIZE, have none, and change no row.


@dataclass(frozen=True, slots=True)
class EpochVersion:
    """The last epoch of a commit, and the version of the table that it made."""

    epoch: int
    version: int


def delta_version(
    path: str | os.PathLike[str],
    output: str,
    epoch: int,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Return the version of an output's Delta table that has the table after an epoch, and nothing later.

    Args:
        path: The path of the sink.
        output: The name of the output.
        epoch: The epoch.
        storage_options (Mapping[str, str], default None): What deltalake needs to open the path.

    Raises:
        FlowError: No commit ends with the epoch: several epochs can be one commit, and old entries of a log
            are removed. The message lists the epochs.

    On Spark, read the version with
    ``spark.read.format("delta").option("versionAsOf", version).load(f"{path}/cities")``.

    """
    found = _versions(os.fspath(path), output, dict(storage_options or {}))
    for each in found:
        if each.epoch == epoch:
            return each.version
    who = f"output '{output}' in '{redact(path)}'"
    if not found:
        raise FlowError(f"{who}: no commit in the table's log records an epoch. Read it without an epoch.")
    later = [each.epoch for each in found if each.epoch > epoch]
    if not later:
        raise FlowError(
            f"{who} is published through epoch {found[-1].epoch}, got epoch {epoch}. Ask for "
            "an earlier epoch."
        )
    earlier = [each.epoch for each in found if each.epoch < epoch]
    words = f"after {earlier[-1]}" if earlier else "from the first in its log"
    raise FlowError(
        f"{who}: no commit ends with epoch {epoch}. It was published together with those {words} through "
        f"{later[0]}. Ask for that epoch, or an earlier one."
    )


def _versions(path: str, output: str, options: dict[str, str]) -> list[EpochVersion]:
    """The commits that the log of a table has, from the first to the last."""
    table = DeltaLog(path, output, "", pa.schema([]), storage_at(path), options).table()
    if table is None:
        raise FlowError(f"there is no Delta table of output '{output}' in '{redact(path)}'.")
    found = [
        EpochVersion(int(entry[EPOCH_METADATA]), int(entry["version"]))
        for entry in table.history()
        if EPOCH_METADATA in entry
    ]
    return sorted(found, key=lambda each: each.version)
