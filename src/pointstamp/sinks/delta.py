"""Delta Lake output, one table per output; needs ``deltalake`` on the driver only.

Workers stage Parquet files into the tables' folders (``files``), where no reader of Delta sees them: a table
is what its log lists. A commit adds them to the log in one Delta transaction, once (``delta_log``).

An output that is a table becomes a Delta table of its rows, as they are after the last epoch of each commit
(``delta_table``). With ``changes`` such an output is appended like any other, with epochs and weights.

Within a table a commit is visible at once. Delta has no transaction over several tables, so of a commit with
several outputs a reader may for a moment see one table further than another, never a part of an epoch in one;
``published_through`` is the epoch that all of them have reached. Tables may have other writers (compaction,
deletes, another query's rows), but a table of rows that are added up is the query's alone, and others may
only optimize it. What dead generations have staged for epochs that are published stays for Delta's own
VACUUM, because files that compaction has replaced look the same and serve time travel.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pointstamp.errors import RecoveryError, SchemaError, StorageError
from pointstamp.redaction import RedactedRepr, redact
from pointstamp.sinks import files
from pointstamp.sinks.delta_log import DeltaCommit, DeltaLog, deltalake, table_folder
from pointstamp.sinks.delta_table import CHANGES, AddedUp
from pointstamp.sinks.files import Origin, StagedFiles
from pointstamp.sinks.port import PublisherBase, SinkBase, Staged, StagedLost
from pointstamp.storage.anywhere import storage_at
from pointstamp.storage.places import absolute_place
from pointstamp.storage.port import Storage
from pointstamp.tables.kept.value import is_changes

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

_BEGIN_ANEW = "start with a new checkpoint and a new path"


@dataclass(frozen=True, slots=True, repr=False)
class DeltaSink(SinkBase, RedactedRepr):
    """Delta tables below a path; ``storage_options`` are deltalake's, ``open_storage`` opens it for files.

    An output that is a table becomes a Delta table of the rows that are there. With ``changes`` all that was
    changed is appended instead, with the epoch and the weight of each row.
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
        """The sink for one query; SchemaError for columns that Delta does not have."""
        for output, schema in schemas.items():
            columns = self.columns(files.file_schema(output, schema))
            try:
                deltalake().Schema.from_arrow(columns)
            except Exception as error:  # deltalake's errors have no common kind
                raise SchemaError(
                    f"output '{output}' has columns for which Delta has no types: {error}. Cast them in the "
                    "flow."
                ) from error
        return replace(self, query=query, schemas=dict(schemas))

    def writer(self, worker: int, generation: int) -> StagedFiles:
        """For one worker, on its host."""
        origin = Origin(self.query, generation)
        folders = {output: self.staging_folder(output, schema) for output, schema in self.schemas.items()}
        return StagedFiles(self.open_storage(self.path), folders, self.schemas, origin, worker)

    def publisher(self) -> "DeltaPublisher":
        """For the driver."""
        return DeltaPublisher(self)

    def is_table(self, schema: pa.Schema) -> bool:
        """Whether an output is kept as an accumulated table."""
        return not self.changes and is_changes(schema)

    def columns(self, staged: pa.Schema) -> pa.Schema:
        """The columns of an output's table, by those of its staged files: the epoch, then its own."""
        return pa.schema(list(staged)[1:-1]) if self.is_table(staged) else staged

    def staging_folder(self, output: str, schema: pa.Schema) -> str:
        """Return the folder where workers stage an output; accumulated changes have a separate one."""
        return f"{table_folder(output)}/{CHANGES}" if self.is_table(schema) else table_folder(output)


class DeltaPublisher(PublisherBase):
    """Adds commits to the tables of one query."""

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self._storage = sink.open_storage(sink.path)
        self._staged = {name: files.file_schema(name, schema) for name, schema in sink.schemas.items()}
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
        for problem in files.missing(self._storage, own):
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
            files.discard(self._storage, [folder], origin, kept, -1 if reached is None else reached)
            if self._sink.is_table(schema) and reached is not None:
                self._adding(output).discard(kept, reached)

    def _is_added_up(self, file: Staged, number: int) -> bool:
        """Whether changes are gone because they are part of a table."""
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
