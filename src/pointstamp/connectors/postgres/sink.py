"""PostgreSQL output, one table per output, exactly once by epoch.

Workers copy their rows into a separate staging table. A commit is one transaction of the database: it notes
the commit's number and moves the rows of all outputs, so that a reader sees all outputs at the same epoch,
with any isolation that reads one snapshot. Rows pass through the database twice and never through the driver.

A stream is appended, with the epoch of each row in a column. An output that is a table becomes a table of the
rows that are there: with a key each row once, updated and deleted by that key; without one each row once,
with how often it is there in the column ``weight``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pointstamp.arrangement.open_changes import is_changes
from pointstamp.connectors import staging
from pointstamp.connectors.postgres.database import Connect, Database, connected, connection_options
from pointstamp.connectors.postgres.output_tables import WEIGHT, OutputColumns, Registry, TableKind, digest
from pointstamp.connectors.postgres.staging import StagedRows, sql_type
from pointstamp.connectors.sink import PublisherBase, SinkBase, Staged
from pointstamp.errors import FlowError, RecoveryError, SchemaError, StorageError
from pointstamp.redaction import RedactedRepr

if TYPE_CHECKING:
    from pointstamp.connectors.postgres.database import Connection


_NAME_BYTES_MAX: Final = 63
_COLUMNS_MAX: Final = 1_596
"""A table has 1,600 columns at most, and four of those into which rows are staged are the sink's own."""
_KEY_COLUMNS_MAX: Final = 32
_SYSTEM_COLUMNS: Final = frozenset(("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"))
"""Every table has these, so that no other column can have their names."""


# Publish a commit's rows and number in one transaction.
#
# A number that is there says that its rows are there. Of two drivers that publish the same commit at once,
# one waits for the other at the number, and then finds it.


class PostgresPublisher(PublisherBase):
    """Publishes the commits of one query."""

    def __init__(self, database: Database, registry: Registry, outputs: Mapping[str, OutputColumns]) -> None:
        self._database = database
        self._registry = registry
        self._outputs = outputs

    def check_outputs(self, before: Collection[str]) -> None:
        """An output may begin or end with any commit; its columns and its key stay as they are."""
        del before  # the database says what there is
        with self._database.transaction() as connection:
            known = self._registry.outputs(connection)
            for output, said in self._outputs.items():
                if output in known:
                    problem = self._registry.problem(output, said, known[output])
                else:
                    problem = self._stranger(connection, output)
                if problem is not None:
                    raise RecoveryError(
                        f"{problem} Nothing was changed. Undo the change, or give another name, another "
                        "schema, or a new checkpoint with a new schema."
                    )

    def begin(self) -> None:
        """Make the tables, and note that the query has no commit yet, unless something is noted."""
        with self._database.transaction() as connection:
            self._registry.ensure(connection, self._outputs)
            self._registry.begin_output(connection)

    def publish(self, number: int, epochs_through: int, staged: Sequence[Staged]) -> None:
        """Apply all pieces and record the number in one transaction, unless it is recorded."""
        pieces: dict[str, dict[str, int]] = {}
        for piece in staged:
            pieces.setdefault(piece.output, {})[piece.path.rpartition("/")[2]] = piece.rows
        with self._database.transaction() as connection:
            known = self._registry.ensure(connection, self._outputs)
            if not self._registry.begin_commit(connection, number, epochs_through, digest(staged)):
                return
            own = self._registry.own(known)
            for output, its_pieces in pieces.items():
                if output not in own:
                    raise StorageError(
                        f"commit {number} has rows of output '{output}', but the schema "
                        f"'{self._registry.schema}' has no table for it. Start with a new checkpoint and "
                        "another schema."
                    )
                own[output].publish(connection, its_pieces)

    def published_through(self) -> int | None:
        """The last epoch of the last commit; None before the first."""
        with self._database.transaction() as connection:
            last = self._registry.last(connection)
        return None if last is None else last[1]

    def discard(self, generation: int, keep: Collection[Staged]) -> None:
        """Remove what earlier generations have staged, unless it is kept; what is published is elsewhere."""
        kept = [piece.path.rpartition("/")[2] for piece in keep]
        with self._database.transaction() as connection:
            known = self._registry.outputs(connection)
            for table in self._registry.own(known).values():
                table.discard(connection, generation, kept)

    def _stranger(self, connection: "Connection", output: str) -> str | None:
        """The words for a table of this name that no query has made."""
        schema = self._registry.schema
        sql = (
            "SELECT 1 FROM pg_class WHERE relname = %s AND "
            "relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)"
        )
        if connection.execute(sql, [output, schema]).fetchone() is None:
            return None
        return f"there is already something named '{schema}.{output}', which no query of pointstamp has made."


@dataclass(frozen=True, slots=True, repr=False)
class PostgresSink(SinkBase, RedactedRepr):
    """Publish into PostgreSQL tables; ``conninfo`` is for libpq: ``host=db dbname=shop user=me``.

    The tables are in ``schema``, which is created if it does not exist. ``keys`` are the key columns of each
    output. With ``changes`` the changes of a table are appended instead, with the epoch and the multiplicity
    of each row. The driver and the workers need the package psycopg and access to the database.

    Examples:
        >>> sink = ps.io.PostgresSink("host=db dbname=shop user=me", keys={"totals": ["city"]})

    """

    conninfo: str = field(repr=False)
    schema: str = "public"
    query: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    changes: bool = field(default=False, kw_only=True)
    connect: Connect = field(default=connected, kw_only=True, repr=False)

    def for_query(self, query: str, schemas: Mapping[str, pa.Schema]) -> "PostgresSink":
        """Return the sink of one query; SchemaError for columns that PostgreSQL does not support."""
        connection_options(self.conninfo)
        if not _fits(self.schema) or self.schema.startswith("pg_"):
            raise FlowError(
                f"PostgresSink: schema must be a name of 1 to {_NAME_BYTES_MAX} bytes that does not begin "
                f"with 'pg_', got {self.schema!r}. Choose another schema."
            )
        for output in self.keys:
            if output not in schemas:
                raise FlowError(
                    f"the sink for the schema '{self.schema}': keys= names '{output}', but the outputs "
                    f"are {', '.join(schemas)}. Name one of these."
                )
        for output, schema in schemas.items():
            self._check(output, schema)
        return replace(self, query=query, schemas=dict(schemas))

    def writer(self, worker: int, generation: int) -> StagedRows:
        """Return the writer of one worker, on its host."""
        return StagedRows(
            Database(self.conninfo, self.connect),
            Registry(self.schema, self.query),
            self._outputs(),
            self.schemas,
            worker,
            generation,
        )

    def publisher(self) -> PostgresPublisher:
        """Return the publisher, for the driver."""
        database = Database(self.conninfo, self.connect)
        return PostgresPublisher(database, Registry(self.schema, self.query), self._outputs())

    def _outputs(self) -> dict[str, OutputColumns]:
        return {output: self._columns(output, schema) for output, schema in self.schemas.items()}

    def _kind(self, output: str, schema: pa.Schema) -> TableKind:
        if self.changes or not is_changes(schema):
            return "appended"
        return "keyed" if self.keys.get(output) else "weighted"

    def _columns(self, output: str, schema: pa.Schema) -> OutputColumns:
        kind = self._kind(output, schema)
        own = list(schema) if kind == "appended" else list(schema)[:-1]
        columns = {column.name: sql_type(column.type) or "" for column in own}
        return OutputColumns(kind, columns, list(self.keys.get(output, ())) if kind == "keyed" else [])

    def _check(self, output: str, schema: pa.Schema) -> None:
        staging.file_schema(output, schema)
        for name in (output, *schema.names):
            if not _fits(name) or name.startswith("_pointstamp"):
                raise SchemaError(
                    f"output '{output}': a PostgreSQL name must have 1 to {_NAME_BYTES_MAX} bytes and not "
                    f"begin with '_pointstamp', got '{name}'. Rename it in the flow."
                )
        if system := sorted(_SYSTEM_COLUMNS.intersection(schema.names)):
            raise SchemaError(
                f"output '{output}': column '{system[0]}' is the name of a system column of PostgreSQL. "
                "Rename it in the flow."
            )
        said = self._columns(output, schema)
        if len(said.columns) > _COLUMNS_MAX:
            raise SchemaError(
                f"output '{output}' has {len(said.columns)} columns; a PostgreSQL table has at most "
                f"{_COLUMNS_MAX}. Select fewer columns in the flow."
            )
        if len(said.key) > _KEY_COLUMNS_MAX:
            raise SchemaError(
                f"output '{output}' has a key of {len(said.key)} columns; a PostgreSQL key has at most "
                f"{_KEY_COLUMNS_MAX}. Choose fewer columns."
            )
        lacking = [name for name, kind in said.columns.items() if not kind]
        if lacking:
            kinds = ", ".join(f"'{name}' ({schema.field(name).type})" for name in lacking)
            raise SchemaError(
                f"output '{output}' has columns for which PostgreSQL has no types: {kinds}. Cast them in the "
                "flow."
            )
        key = self.keys.get(output, ())
        if isinstance(key, str):
            raise FlowError(
                f"the key of output '{output}' must be a list of columns, got {key!r}. Write ['{key}']."
            )
        unknown = [name for name in key if name not in said.columns]
        if unknown or (key and said.kind == "appended" and not self.changes):
            found = (
                "is a stream, whose rows are appended. Let the output be a table: stream.to_table()"
                if not unknown
                else f"has no column {', '.join(unknown)}; it has {', '.join(said.columns)}"
            )
            raise FlowError(f"output '{output}' cannot have the key {', '.join(key)}: {found}.")
        if said.kind == "weighted" and WEIGHT in said.columns:
            raise SchemaError(
                f"output '{output}' has a column '{WEIGHT}', which is reserved for the multiplicity of a "
                "row. Rename it in the flow, or give a key."
            )


def _fits(name: str) -> bool:
    """Return whether PostgreSQL takes this as a name, without shortening it."""
    return 0 < len(name.encode()) <= _NAME_BYTES_MAX and "\0" not in name
