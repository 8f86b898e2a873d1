"""Apache Iceberg output, one table per output; needs ``pyiceberg`` on the driver only.

Workers stage Parquet files (``staging``) below a path, where no reader of Iceberg sees them. A commit adds
them to the table in one snapshot, whose properties carry the query, the commit's number, its last epoch and a
digest of its content. The same update of the catalog writes this mark into a property of the table. So a
repeated publication is recognised from the table itself, even when others have overwritten the table and its
older snapshots are expired.

Of two drivers that publish the same commit at once one must fail. The catalog lets a snapshot in only on top
of the one that was read, but pyiceberg tries again on top of another writer's: rows would come twice. So the
tables are made with ``commit.retry.num-retries=0``, and a table in which this property was changed is
refused.

Outputs are appended, tables as changes with epochs and weights. With ``changes=False`` an output that is a
table becomes an Iceberg table of its current rows: the driver consolidates what the workers have staged,
writes new rows and those that were in one file with rows that are gone, and one snapshot replaces the files
(copy-on-write, by ``sink``). It is made on top of the snapshot that was read, or not at all.

Within a table a commit is visible at once; of a commit with several outputs a reader may for a moment see one
table further than another. Others may compact a table and expire its snapshots.
"""

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from pointstamp.arrangement.open_changes import is_changes, sum_of
from pointstamp.connectors import staging
from pointstamp.connectors.delta.sink import DeltaRows
from pointstamp.connectors.published.chain import Columns
from pointstamp.connectors.sink import PublisherBase, SinkBase, Staged, StagedLost
from pointstamp.connectors.staging import Origin, StagedFiles, folder_name
from pointstamp.errors import FlowError, RecoveryError, SchemaError, StorageError
from pointstamp.redaction import HIDDEN, RedactedRepr, harmless, is_secret, redact_text
from pointstamp.storage.anywhere import absolute_place, storage_at, url_of
from pointstamp.storage.port import Storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table import Transaction

_COLUMNS: Final = "pointstamp.columns"
_CHANGES: Final = "_changes"
_NAME_MAPPING: Final = "schema.name-mapping.default"
_RETRIES: Final = "commit.retry.num-retries"
_TRIES_MAX: Final = 20


@dataclass(frozen=True, slots=True, repr=False)
class IcebergSink(SinkBase, RedactedRepr):
    """Publish into Iceberg tables in a namespace of a catalog, which pyiceberg loads with ``catalog``.

    ``path`` is where the tables and their files are, for the files of the catalog and for ``open_storage``.
    With ``changes=False`` (default: True) outputs that are tables become tables of their current rows.
    """

    path: str
    catalog: Mapping[str, str] = field(repr=False)
    namespace: str = "pointstamp"
    catalog_name: str = "default"
    open_storage: Callable[[str], Storage] = storage_at
    query: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    changes: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", absolute_place(self.path))

    def is_table(self, schema: pa.Schema) -> bool:
        """Return whether an output becomes a table of its current rows."""
        return not self.changes and is_changes(schema)

    def columns(self, output: str) -> pa.Schema:
        """Return the columns of an output's table."""
        staged = staging.file_schema(output, self.schemas[output])
        return pa.schema(list(staged)[1:-1]) if self.is_table(staged) else staged

    def staging_folder(self, output: str) -> str:
        """Return where workers stage an output; changes that are consolidated have a separate folder."""
        if self.is_table(self.schemas[output]):
            return f"{table_name(output)}/{_CHANGES}"
        return data_folder(output)

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "IcebergSink":
        """Return the sink of one query; SchemaError for columns that Iceberg does not support."""
        convert = iceberg("io.pyarrow")._pyarrow_to_schema_without_ids  # noqa: SLF001 - there is no other
        for output, schema in schemas.items():
            try:
                convert(staging.file_schema(output, schema), format_version=2)
            except Exception as error:  # pyiceberg's errors have no common kind
                if isinstance(error, SchemaError):
                    raise
                raise SchemaError(
                    f"output '{output}' has columns for which Iceberg has no types: {error}. Cast them in "
                    "the flow."
                ) from error
        return replace(self, query=query, schemas=dict(schemas))

    def writer(self, worker: int, generation: int) -> StagedFiles:
        """Return the writer of one worker, on its host."""
        folders = {output: self.staging_folder(output) for output in self.schemas}
        origin = Origin(self.query, generation)
        return StagedFiles(self.open_storage(self.path), folders, self.schemas, origin, worker)

    def publisher(self) -> "IcebergPublisher":
        """Return the publisher, for the driver."""
        return IcebergPublisher(self)


class IcebergPublisher(PublisherBase):
    """Adds commits to the tables of one query."""

    def __init__(self, sink: IcebergSink) -> None:
        self._sink = sink
        self._storage = sink.open_storage(sink.path)
        self._rows: dict[str, DeltaRows] = {}
        """Kept from one commit to the next, because it knows the rows of files."""
        load = iceberg("catalog").load_catalog
        try:
            self._catalog: Catalog = load(sink.catalog_name, **dict(sink.catalog))
        except Exception as error:  # pyiceberg's errors have no common kind
            raise StorageError(
                f"IcebergSink: catalog '{sink.catalog_name}' cannot be loaded: {self._said(error)}. Check "
                "the "
                "properties in catalog=."
            ) from harmless(error, *map(str, sink.catalog.values()))

    def check_outputs(self, before: Collection[str]) -> None:
        """Accept dropped outputs; reject a new one, because its table would lack commits."""
        reached = max((self._last(output)[0] for output in before), default=-1)
        for output, schema in self._sink.schemas.items():
            problem = None
            if (table := self._table(output)) is not None:
                problem = self._problem(output, table) or self._other_rows(output, schema, table)
            elif before and output not in before and reached >= 0:
                problem = (
                    f"output '{output}' is new, but the namespace '{self._sink.namespace}' already has "
                    f"commits up to {reached} of this query, which the new table would lack."
                )
            if problem is not None:
                raise RecoveryError(
                    f"{problem} Nothing was changed. Undo the change of the flow, or start with a new "
                    "checkpoint and a new namespace."
                )

    def begin(self) -> None:
        """Make each table that is missing, and give it the mark of a query without a commit."""
        for output in self._sink.schemas:
            self._begin(output)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Add a commit to each table that does not have it yet."""
        outputs = [*self._sink.schemas, *sorted({file.output for file in staged} - set(self._sink.schemas))]
        pieces = {output: [file for file in staged if file.output == output] for output in outputs}
        mark = _mark(self._sink.query, number, epochs_through, staged)
        waiting = [output for output in outputs if not self._is_published(output, number, mark)]
        for problem in staging.missing(self._storage, [file for o in waiting for file in pieces[o]]):
            # Another driver may have added its changes up meanwhile, and removed them.
            waiting = [output for output in waiting if not self._is_published(output, number, mark)]
            if any(pieces[output] for output in waiting):
                raise StagedLost(f"{problem} Give a path on a file system that driver and workers share.")
            break
        for output in waiting:
            self._add(output, number, mark, pieces[output])

    def published_through(self) -> int | None:
        """The last epoch that all tables have; None before the first."""
        reached = [self._last(output)[1] for output in self._sink.schemas]
        known = [each for each in reached if each is not None]
        return min(known) if known and len(known) == len(reached) else None

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged for epochs after the published ones, unless kept."""
        kept = {file.path for file in keep}
        origin = Origin(self._sink.query, generation)
        for output in self._sink.schemas:
            reached = self._last(output)[1]
            after = -1 if reached is None else reached
            staging.discard(self._storage, [self._sink.staging_folder(output)], origin, kept, after)
            if reached is not None and self._sink.is_table(self._sink.schemas[output]):
                self._discard_added_up(output, kept, reached)

    def close(self) -> None:
        """Give the catalog's connections back."""
        self._catalog.close()

    def _begin(self, output: str) -> None:
        refused = iceberg("exceptions").CommitFailedException
        mark = msgspec.json.encode(_mark(self._sink.query, -1, -1, [])).decode()
        for _ in range(_TRIES_MAX):
            table = self._table_to_write(output)
            if next(_marks(table, self._sink.query), None) is not None:
                return
            try:
                with table.transaction() as change:
                    change.set_properties({_mark_of(self._sink.query): mark})
                return
            except refused:
                continue  # somebody was faster: another driver, or another writer
            except Exception as error:  # pyiceberg's errors have no common kind
                raise StorageError(
                    f"the table '{self._name(output)}' cannot be marked as an output of "
                    f"'{self._sink.query}': {self._said(error)}."
                ) from error
        raise StorageError(
            f"the table '{self._name(output)}': the mark of '{self._sink.query}' conflicted {_TRIES_MAX} "
            "times with other writers of the table. Let only this query write to it."
        )

    def _add(self, output: str, number: int, mark: dict[str, str], pieces: list[Staged]) -> None:
        refused = iceberg("exceptions").CommitFailedException
        is_table = self._sink.is_table(self._sink.schemas[output])
        for _ in range(_TRIES_MAX):
            table = self._table_to_write(output)
            if self._is_published(output, number, mark, table):
                return
            try:
                with table.transaction() as change:
                    if is_table:
                        self._replace_rows(output, number, mark, pieces, table, change)
                    else:
                        addresses = [self._address(file.path) for file in pieces]
                        change.add_files(addresses, snapshot_properties=mark, check_duplicate_files=False)
                    change.set_properties({_mark_of(self._sink.query): msgspec.json.encode(mark).decode()})
                for file in pieces if is_table else ():
                    self._storage.delete(file.path)
                return
            except StorageError:
                raise
            except refused:
                continue  # somebody was faster: the same commit, or another writer with something else
            except Exception as error:  # pyiceberg's errors have no common kind
                if self._is_published(output, number, mark):
                    return
                raise StorageError(
                    f"the table '{self._name(output)}': commit {number} of '{self._sink.query}' cannot be "
                    f"added: {self._said(error)}."
                ) from error
        raise StorageError(
            f"the table '{self._name(output)}': commit {number} conflicted {_TRIES_MAX} times with other "
            "writers of the table. Let only this query write to it."
        )

    def _replace_rows(
        self,
        output: str,
        number: int,
        mark: dict[str, str],
        pieces: list[Staged],
        table: "IcebergTable",
        change: "Transaction",
    ) -> None:
        """Let the snapshot of a transaction have the rows of the one before, with the changes of a commit."""
        staged = staging.file_schema(output, self._sink.schemas[output])
        there = self._data_files(output, table)
        rows = self._rows.setdefault(
            output, DeltaRows(self._storage, data_folder(output), self._sink.columns(output))
        )
        columns = pa.schema(list(staged)[1:])
        token = secrets.token_hex(8)
        rewritten = rows.apply(
            list(there),
            sum_of([self._read(file).select(columns.names) for file in pieces], columns),
            lambda place: f"rows-commit-{number:012d}-{token}-{place:05d}.parquet",
        )
        if change.table_metadata.name_mapping() is None:  # the files have no ids of columns
            names = change.table_metadata.schema().name_mapping.model_dump_json()
            change.set_properties({_NAME_MAPPING: names})
        added = iceberg("io.pyarrow").parquet_files_to_data_files(
            io=table.io,
            table_metadata=change.table_metadata,
            file_paths=iter(
                [self._address(f"{data_folder(output)}/{each.name}") for each in rewritten.added]
            ),
        )
        update = change.update_snapshot(snapshot_properties=mark)
        # A commit that removes nothing is an append, and also one that changes nothing has its snapshot.
        with update.overwrite() if rewritten.removed else update.fast_append() as snapshot:
            for file in added:
                snapshot.append_data_file(file)
            for name in rewritten.removed:
                snapshot.delete_data_file(there[name])

    def _data_files(self, output: str, table: "IcebergTable") -> "dict[str, DataFile]":
        """The files of a table by their names in its folder."""
        if table.current_snapshot() is None:
            return {}
        folder = f"{self._address(data_folder(output))}/"
        found: dict[str, DataFile] = {}
        for task in table.scan().plan_files():
            path = str(task.file.file_path)
            if task.delete_files or not path.startswith(folder):
                what = "delete files" if task.delete_files else "files outside its folder"
                raise StorageError(
                    f"the table '{self._name(output)}' has {what}, so its rows cannot be kept up to date. "
                    "Another writer has changed the table. Start with a new namespace."
                )
            found[path.removeprefix(folder)] = task.file
        return found

    def _read(self, file: Staged) -> pa.Table:
        content = self._storage.read(file.path)
        if (words := staging.damage(self._storage.address, file, content)) is not None:
            raise StorageError(words)
        return staging.table_of(content)

    def _discard_added_up(self, output: str, kept: Collection[str], reached: int) -> None:
        """Remove changes that are part of the table, which a driver that died has left."""
        for path in self._storage.list(f"{self._sink.staging_folder(output)}/"):
            epoch = staging.first_epoch(path.rpartition("/")[2], self._sink.query)
            if epoch is not None and epoch <= reached and path not in kept:
                self._storage.delete(path)

    def _other_rows(self, output: str, schema: pa.Schema, table: "IcebergTable") -> str | None:
        """The reason why a table with rows of another query is rejected, as text."""
        if not self._sink.is_table(schema) or next(_marks(table, self._sink.query), None) is not None:
            return None
        is_used = any(name.startswith(_mark_of("")) for name in table.properties)
        if table.current_snapshot() is None and not is_used:
            return None
        return (
            f"output '{output}' is a table, whose rows are those of one query, but '{self._name(output)}' "
            "has "
            "rows or commits of another one."
        )

    def _is_published(
        self, output: str, number: int, mark: dict[str, str], table: "IcebergTable | None" = None
    ) -> bool:
        """Whether the table has a commit; StorageError if its number is another one's, or not the next."""
        table = table or self._table(output)
        marks = [] if table is None else list(_marks(table, self._sink.query))
        last = int(marks[0]["pointstamp.number"]) if marks else -1
        if number > last + 1:
            raise StorageError(
                f"the table '{self._name(output)}': expected commit {last + 1} of '{self._sink.query}', "
                f"got commit {number}."
            )
        for there in marks:
            if there["pointstamp.number"] == mark["pointstamp.number"] and there != mark:
                raise StorageError(
                    f"the table '{self._name(output)}': commit {number} of '{self._sink.query}' was "
                    "already published with different content. Use a new checkpoint and a new namespace."
                )
        return number <= last

    def _last(self, output: str) -> tuple[int, int | None]:
        """The number and the last epoch of the last commit of the query that a table has."""
        table = self._table(output)
        mark = None if table is None else next(_marks(table, self._sink.query), None)
        if mark is None:
            return -1, None
        return int(mark["pointstamp.number"]), int(mark["pointstamp.epochs_through"])

    def _table(self, output: str) -> "IcebergTable | None":
        missing = iceberg("exceptions")
        try:
            return self._catalog.load_table((self._sink.namespace, table_name(output)))
        except (missing.NoSuchTableError, missing.NoSuchNamespaceError):
            return None

    def _table_to_write(self, output: str) -> "IcebergTable":
        schema = self._sink.columns(output)
        self._catalog.create_namespace_if_not_exists(self._sink.namespace)
        table = self._catalog.create_table_if_not_exists(
            (self._sink.namespace, table_name(output)),
            schema=schema,
            location=self._address(table_name(output)),
            properties={_RETRIES: "0", _COLUMNS: Columns.of(schema).arrow},
        )
        if problem := self._problem(output, table):
            raise StorageError(problem)
        return table

    def _problem(self, output: str, table: "IcebergTable") -> str | None:
        columns = Columns.of(self._sink.columns(output))
        if table.properties.get(_COLUMNS) != columns.arrow:
            return (
                f"the table '{self._name(output)}' was not made for the columns {', '.join(columns.names)} "
                f"of output '{output}'."
            )
        if table.properties.get(_RETRIES) != "0":
            return (
                f"the table '{self._name(output)}' has the property {_RETRIES}="
                f"{table.properties.get(_RETRIES)}, with which a commit may be added twice. Set it to 0."
            )
        return None

    def _said(self, error: Exception) -> str:
        """The text of pyiceberg's error, without the secrets of the catalog's properties."""
        secrets = [str(value) for name, value in self._sink.catalog.items() if is_secret(name)]
        said = redact_text(str(error), *map(str, self._sink.catalog.values()))
        for secret in secrets:
            said = said.replace(secret, HIDDEN)
        return said.rstrip(".")

    def _address(self, name: str) -> str:
        address = url_of(self._storage)
        return f"{address if '://' in address else f'file://{address}'}/{name}"

    def _name(self, output: str) -> str:
        return f"{self._sink.namespace}.{table_name(output)}"


def table_name(output: str) -> str:
    """The name of an output's table, whatever characters the output's has."""
    return folder_name(output).replace("%", "_")


def data_folder(output: str) -> str:
    """Return the folder of an output's table, relative to the path."""
    return f"{table_name(output)}/data"


def _mark(query: str, number: int, epochs_through: int, staged: Sequence[Staged]) -> dict[str, str]:
    content = msgspec.json.encode(sorted(staged, key=lambda file: file.path))
    return {
        "pointstamp.query": query,
        "pointstamp.number": str(number),
        "pointstamp.epochs_through": str(epochs_through),
        "pointstamp.content": hashlib.blake2b(content, digest_size=16).hexdigest(),
    }


def _mark_of(query: str) -> str:
    """The property of a table that holds the mark of the last commit of a query."""
    return f"pointstamp.commit.{query}"


def _marks(table: "IcebergTable", query: str) -> Iterator[dict[str, str]]:
    """The marks of a query's commits in a table, the newest first: its property, then its snapshots."""
    if (last := table.properties.get(_mark_of(query))) is not None:
        yield msgspec.json.decode(last, type=dict[str, str])
    snapshot = table.current_snapshot()
    while snapshot is not None:
        said: Any = snapshot.summary or {}
        mark = {key: said[key] for key in _mark("", 0, 0, []) if said.get(key) is not None}
        if mark.get("pointstamp.query") == query:
            yield mark
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def iceberg(module: str) -> Any:  # noqa: ANN401 - a module of a package that may be missing
    """A module of the package pyiceberg; FlowError where it is not installed."""
    try:
        return import_module(f"pyiceberg.{module}")
    except ImportError as error:
        raise FlowError(
            "Iceberg tables need the package pyiceberg on the driver, which is not installed. Install "
            "pointstamp[iceberg]."
        ) from error
