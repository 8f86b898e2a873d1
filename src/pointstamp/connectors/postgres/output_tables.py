"""Published and staging tables of an output, and how a commit changes them.

There are three kinds. A stream is *appended*, with the epoch of each row. A table whose key is known is
*keyed*: each row is there once, and a commit updates, deletes and inserts by key. A table without a key is
*weighted*: each row is there once, beside how often it is there. The consolidated changes of a commit is
found by the database itself.

Invariant: a commit finds every row that it removes exactly as often as it removes it. Otherwise another
writer has changed the table, or the key is none, and nothing is changed.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.connectors.postgres.database import identifier, psycopg_package, run
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.staging import EPOCH_COLUMN
from pointstamp.errors import FlowError, StorageError

if TYPE_CHECKING:
    from psycopg.sql import Composed, Identifier

    from pointstamp.connectors.postgres.database import Connection


PIECE: Final = "_pointstamp_piece"
GENERATION: Final = "_pointstamp_generation"
EPOCH: Final[str] = EPOCH_COLUMN.name
WEIGHT: Final = "weight"
"""The column of a weighted table that says how often a row is there."""

NET: Final = "_pointstamp_weight"
"""The net multiplicity of a row in a commit; a column of a statement, whose name no output can have."""

TableKind: TypeAlias = Literal["appended", "keyed", "weighted"]


class OutputColumns(msgspec.Struct, frozen=True):
    """The recorded layout of an output: table kind, columns with types, and key."""

    kind: TableKind
    columns: dict[str, str]
    key: list[str]

    def described(self) -> str:
        """For messages."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return f"{columns} ({self.kind}{' by ' + ', '.join(self.key) if self.key else ''})"


class KeptTable:
    """The tables of one output in a schema of the database."""

    def __init__(self, schema: str, output: str, staging: str, said: OutputColumns) -> None:
        self._sql = psycopg_package().sql
        self._output = output
        self._name = f"{schema}.{output}"
        self.said = said
        self.table = identifier(schema, output)
        self.staging = identifier(schema, staging)

    @property
    def staged_columns(self) -> list[str]:
        """The columns that a worker stages, besides its piece and its generation."""
        weight = [] if self.said.kind == "appended" else [DIFF]
        return [EPOCH, *self._own, *weight]

    @property
    def _own(self) -> list[str]:
        """The columns of a row."""
        return list(self.said.columns)

    def make(self, connection: "Connection") -> None:
        """Make the tables where they are missing."""
        types = {name: self._sql.SQL(kind) for name, kind in self.said.columns.items()}
        own = [self._format("{} {}", self._id(name), types[name]) for name in self._own]
        ends = {
            "appended": [],
            "keyed": [self._format("PRIMARY KEY ({})", self._list(self.said.key))] if self.said.key else [],
            "weighted": [self._format("{} bigint NOT NULL", self._id(WEIGHT))],
        }[self.said.kind]
        begin = [self._format("{} bigint NOT NULL", self._id(EPOCH))] if self.said.kind == "appended" else []
        columns = self._joined([*begin, *own, *ends])
        run(connection, self._format("CREATE TABLE {} ({})", self.table, columns))
        if self.said.kind == "weighted":
            run(connection, self._format("CREATE INDEX ON {} ({})", self.table, self._hash(None)))
        weight = [self._format("{} bigint NOT NULL", self._id(DIFF))] if self.said.kind != "appended" else []
        own_staged = [
            self._format("{} text NOT NULL", self._id(PIECE)),
            self._format("{} bigint NOT NULL", self._id(GENERATION)),
            self._format("{} bigint NOT NULL", self._id(EPOCH)),
        ]
        staged = self._joined([*own_staged, *own, *weight])
        run(connection, self._format("CREATE TABLE {} ({})", self.staging, staged))
        run(connection, self._format("CREATE INDEX ON {} ({})", self.staging, self._id(PIECE)))

    def publish(self, connection: "Connection", pieces: dict[str, int]) -> None:
        """Move pieces, each of so many rows, from where they were staged into the table."""
        pg = psycopg_package()
        ways = {"appended": self._by_appending, "keyed": self._by_key, "weighted": self._by_weight}
        try:
            found = run(connection, ways[self.said.kind](), [list(pieces)]).fetchone()
        except pg.errors.UniqueViolation as error:
            raise FlowError(
                f"the table '{self._name}' already has a row with an inserted key: "
                f"{error.diag.message_detail or error} Either {', '.join(self.said.key)} is not a key of "
                f"output '{self._output}', or another writer has added rows. {_ANEW}"
            ) from error
        assert found is not None
        moved, wanted_gone, gone, wanted_come, come = found
        for piece, rows in pieces.items():
            if (moved or {}).get(piece, 0) != rows:
                raise StorageError(
                    f"the table '{self._name}': expected {rows} staged rows as '{piece}', got "
                    f"{(moved or {}).get(piece, 0)}. Another writer has removed them: start with a new "
                    "checkpoint and another schema."
                )
        if (wanted_gone, wanted_come) != (gone, come):
            raise FlowError(
                f"the table '{self._name}': a commit deletes {wanted_gone} rows and inserts "
                f"{wanted_come}, but {gone} were deleted and {come} inserted. Either the rows of output "
                f"'{self._output}' have no such key, or another writer has changed the table. {_ANEW}"
            )

    def discard(self, connection: "Connection", generation: int, keep: list[str]) -> None:
        """Remove what earlier generations have staged, except these pieces."""
        sql = self._format(
            "DELETE FROM {} WHERE {} < %s AND {} <> ALL(%s)",
            *(self.staging, self._id(GENERATION), self._id(PIECE)),
        )
        run(connection, sql, [generation, keep])

    def _by_appending(self) -> "Composed":
        text = """
            WITH {moved}, appended AS (INSERT INTO {table} ({columns}) SELECT {columns} FROM moved)
            SELECT {counts}, 0, 0, 0, 0
        """
        return self._filled(
            text,
            moved=self._moved(),
            table=self.table,
            columns=self._list(self.staged_columns),
            counts=self._counts(),
        )

    def _by_key(self) -> "Composed":
        own = self._own
        same_key = self._joined([self._same("come", "gone", name) for name in self.said.key], " AND ")
        there = self._joined([self._same("there", "gone", name) for name in own], " AND ")
        rest = [name for name in own if name not in self.said.key] or self.said.key
        settings = [self._format("{} = come.{}", self._id(name), self._id(name)) for name in rest]
        text = """
            WITH {moved}, net AS ({net}),
                 gone AS (SELECT * FROM net WHERE {weight} < 0),
                 come AS (SELECT * FROM net WHERE {weight} > 0),
                 deleted AS (DELETE FROM {table} AS there USING gone
                             WHERE {there} AND NOT EXISTS (SELECT FROM come WHERE {same_key}) RETURNING 1),
                 updated AS (UPDATE {table} AS there SET {settings} FROM come, gone
                             WHERE {same_key} AND {there} RETURNING 1),
                 inserted AS (INSERT INTO {table} ({own}) SELECT {own} FROM come
                              WHERE NOT EXISTS (SELECT FROM gone WHERE {same_key}) RETURNING 1)
            SELECT {counts}, (SELECT coalesce(-sum({weight}), 0) FROM gone),
                   (SELECT count(*) FROM deleted) + (SELECT count(*) FROM updated),
                   (SELECT coalesce(sum({weight}), 0) FROM come),
                   (SELECT count(*) FROM updated) + (SELECT count(*) FROM inserted)
        """
        return self._filled(
            text,
            moved=self._moved(),
            counts=self._counts(),
            net=self._net(NET),
            table=self.table,
            own=self._list(own),
            weight=self._id(NET),
            there=there,
            same_key=same_key,
            settings=self._joined(settings),
        )

    def _by_weight(self) -> "Composed":
        same = [self._same("there", "net", name) for name in self._own]
        hashes = self._format("{} = {}", self._hash("there"), self._hash("net"))
        text = """
            WITH {moved}, net AS ({net}),
                 changed AS (UPDATE {table} AS there SET {weight} = there.{weight} + net.{weight} FROM net
                             WHERE {same} AND there.{weight} + net.{weight} > 0
                             RETURNING net.{weight} AS by_),
                 deleted AS (DELETE FROM {table} AS there USING net
                             WHERE {same} AND there.{weight} + net.{weight} = 0
                             RETURNING net.{weight} AS by_),
                 inserted AS (INSERT INTO {table} ({own}, {weight}) SELECT {own}, {weight} FROM net
                              WHERE {weight} > 0 AND NOT EXISTS (SELECT FROM {table} AS there WHERE {same})
                              RETURNING {weight} AS by_),
                 applied AS (SELECT by_ FROM changed UNION ALL SELECT by_ FROM deleted
                             UNION ALL SELECT by_ FROM inserted)
            SELECT {counts}, (SELECT coalesce(-sum({weight}), 0) FROM net WHERE {weight} < 0),
                   (SELECT coalesce(-sum(by_), 0) FROM applied WHERE by_ < 0),
                   (SELECT coalesce(sum({weight}), 0) FROM net WHERE {weight} > 0),
                   (SELECT coalesce(sum(by_), 0) FROM applied WHERE by_ > 0)
        """
        return self._filled(
            text,
            moved=self._moved(),
            counts=self._counts(),
            net=self._net(WEIGHT),
            table=self.table,
            own=self._list(self._own),
            weight=self._id(WEIGHT),
            same=self._joined([hashes, *same], " AND "),
        )

    def _moved(self) -> "Composed":
        """The staged rows of the pieces, taken away from where they were staged."""
        text = "moved AS (DELETE FROM {} WHERE {} = ANY(%s) RETURNING *)"
        return self._format(text, self.staging, self._id(PIECE))

    def _counts(self) -> "Composed":
        """The number of rows of each piece."""
        text = (
            "(SELECT jsonb_object_agg(p, n) FROM (SELECT {0} AS p, count(*) AS n FROM moved GROUP BY {0}) c)"
        )
        return self._format(text, self._id(PIECE))

    def _net(self, weight: str) -> "Composed":
        """The consolidated staged changes: each row once, with its weight in a column of this name."""
        text = "SELECT {0}, sum({1})::bigint AS {2} FROM moved GROUP BY {0} HAVING sum({1}) <> 0"
        return self._format(text, self._list(self._own), self._id(DIFF), self._id(weight))

    def _hash(self, where: str | None) -> "Composed":
        """The hash of a row, by which it is found: equal rows have equal ones."""
        names = [self._id(name) if where is None else self._column(where, name) for name in self._own]
        return self._format("hash_record_extended(ROW({}), 0)", self._joined(names))

    def _same(self, one: str, other: str, name: str) -> "Composed":
        is_key = name in self.said.key
        word = "=" if is_key else "IS NOT DISTINCT FROM"
        return self._format(f"{{}} {word} {{}}", self._column(one, name), self._column(other, name))

    def _column(self, table: str, name: str) -> "Identifier":
        return identifier(table, name)

    def _id(self, name: str) -> "Identifier":
        return identifier(name)

    def _list(self, names: list[str]) -> "Composed":
        return self._joined([self._id(name) for name in names])

    def _joined(self, parts: Sequence[object], word: str = ", ") -> "Composed":
        joined: Composed = self._sql.SQL(word).join(parts)
        return joined

    def _format(self, text: str, *parts: object) -> "Composed":
        composed: Composed = self._sql.SQL(text).format(*parts)
        return composed

    def _filled(self, text: str, **parts: object) -> "Composed":
        composed: Composed = self._sql.SQL(text).format(**parts)
        return composed


_ANEW: Final = (
    "Nothing was changed. Start with a new checkpoint and another schema, give the columns that are a "
    "key, and allow no other writer to the table."
)


# The registry in the database: outputs, owners and commits.
#
#     _pointstamp_outputs    one row for each output: its query, and what its table is like
#     _pointstamp_commits    the last commits of each query: number, last epoch, and a digest of the content
#     _pointstamp_staged_*   what workers have staged for an output, and no commit has published yet
#
# They lie in the schema of the output's tables. A process that finds them missing makes them under a lock, so
# that it does not matter which one comes first.

COMMITS_KEPT: Final = 10_000
"""The number of last commits whose contents the database knows; older ones are only known to exist."""

_FORGET_EVERY: Final = 1_000
_OUTPUTS: Final = "_pointstamp_outputs"
_COMMITS: Final = "_pointstamp_commits"
_LOCK: Final = 0x706F696E74  # "point": everybody who makes tables takes it


class Registry:
    """The registry of a schema: the outputs of one query, and tables of others."""

    def __init__(self, schema: str, query: str) -> None:
        self.schema = schema
        self.query = query
        self._is_made = False  # seen at the beginning of a transaction: then they stay

    def is_made(self, connection: "Connection") -> bool:
        """Return whether any query has published into this schema, or begun to."""
        if not self._is_made:
            found = connection.execute(
                "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = ANY(%s)",
                [self.schema, [_OUTPUTS, _COMMITS]],
            ).fetchone()
            self._is_made = found is not None and found[0] == 2
        return self._is_made

    def outputs(self, connection: "Connection") -> dict[str, tuple[str, OutputColumns]]:
        """All outputs in the schema: the query of each, and what its table is like."""
        return self._listed(connection) if self.is_made(connection) else {}

    def _listed(self, connection: "Connection") -> dict[str, tuple[str, OutputColumns]]:
        rows = run(connection, self._sql("SELECT output, query, said FROM {}", _OUTPUTS)).fetchall()
        return {
            output: (query, msgspec.json.decode(said, type=OutputColumns)) for output, query, said in rows
        }

    def own(self, known: Mapping[str, tuple[str, OutputColumns]]) -> dict[str, KeptTable]:
        """The tables of this query among these, also of outputs that are gone from the flow."""
        return {
            output: self.table(output, said) for output, (query, said) in known.items() if query == self.query
        }

    def table(self, output: str, said: OutputColumns) -> KeptTable:
        """The tables of an output."""
        tag = hashlib.blake2b(output.encode(), digest_size=8).hexdigest()
        return KeptTable(self.schema, output, f"_pointstamp_staged_{tag}", said)

    def ensure(
        self, connection: "Connection", wanted: Mapping[str, OutputColumns]
    ) -> dict[str, tuple[str, OutputColumns]]:
        """All outputs, after what was missing is made; StorageError for one of another query or columns."""
        known = self.outputs(connection)
        if any(output not in known for output in wanted) or not self._is_made:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            self._make(connection)
            known = self._listed(connection)  # another process may have been here first
            for output, said in wanted.items():
                if output not in known:
                    self.table(output, said).make(connection)
                    insert = self._sql("INSERT INTO {} (output, query, said) VALUES (%s, %s, %s)", _OUTPUTS)
                    run(connection, insert, [output, self.query, msgspec.json.encode(said).decode()])
                    known[output] = (self.query, said)
        for output, said in wanted.items():
            if problem := self.problem(output, said, known[output]):
                raise StorageError(problem)
        return known

    def problem(self, output: str, said: OutputColumns, there: tuple[str, OutputColumns]) -> str | None:
        """Return why an output cannot continue with its table, as text; None if it can."""
        query, before = there
        if query != self.query:
            return (
                f"the table '{self.schema}.{output}' belongs to the query '{query}', and '{self.query}' may "
                "not publish there; runs do not mix. Give another schema."
            )
        if before != said:
            return (
                f"the table '{self.schema}.{output}' has {before.described()}, but output '{output}' has "
                f"{said.described()}."
            )
        return None

    def last(self, connection: "Connection") -> tuple[int, int] | None:
        """The number and the last epoch of the last commit; None before the first."""
        return self._last(connection) if self.is_made(connection) else None

    def _last(self, connection: "Connection") -> tuple[int, int] | None:
        sql = self._sql(
            "SELECT number, through FROM {} WHERE query = %s ORDER BY number DESC LIMIT 1", _COMMITS
        )
        found = run(connection, sql, [self.query]).fetchone()
        return None if found is None else (found[0], found[1])

    def begin_output(self, connection: "Connection") -> None:
        """Note that there is no commit yet, as commit -1, unless something is noted."""
        if self._last(connection) is None:
            insert = (
                "INSERT INTO {} (query, number, through, content) VALUES (%s, -1, -1, %s) "
                "ON CONFLICT DO NOTHING"
            )
            run(connection, self._sql(insert, _COMMITS), [self.query, digest([])])

    def begin_commit(self, connection: "Connection", number: int, through: int, content: str) -> bool:
        """Record a commit in the transaction of its rows; False if it is recorded with this content."""
        last = self._last(connection)
        expected = 0 if last is None else last[0] + 1
        if number > expected:
            raise StorageError(
                f"the tables in '{self.schema}': expected commit {expected} of '{self.query}', got commit "
                f"{number}."
            )
        insert = (
            "INSERT INTO {} (query, number, through, content) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        )
        values = [self.query, number, through, content]
        # Another driver with the same number is waited for here: then its row is there, or it has failed.
        if number == expected and run(connection, self._sql(insert, _COMMITS), values).rowcount == 1:
            if number % _FORGET_EVERY == 0:
                forget = self._sql("DELETE FROM {} WHERE query = %s AND number <= %s", _COMMITS)
                run(connection, forget, [self.query, number - COMMITS_KEPT])
            return True
        sql = self._sql("SELECT through, content FROM {} WHERE query = %s AND number = %s", _COMMITS)
        there = run(connection, sql, [self.query, number]).fetchone()
        if there is not None and there != (through, content):
            raise StorageError(
                f"the tables in '{self.schema}': commit {number} of '{self.query}' was already published "
                "with different content. Use a new checkpoint and another schema."
            )
        return False

    def _make(self, connection: "Connection") -> None:
        sql = psycopg_package().sql
        schemas = connection.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", [self.schema]
        ).fetchone()
        if schemas is None:
            run(connection, sql.SQL("CREATE SCHEMA {}").format(identifier(self.schema)))
        for name, columns in (
            (_OUTPUTS, "output text PRIMARY KEY, query text NOT NULL, said text NOT NULL"),
            (
                _COMMITS,
                "query text, number bigint, through bigint NOT NULL, content text NOT NULL, "
                "PRIMARY KEY (query, number)",
            ),
        ):
            run(connection, self._sql(f"CREATE TABLE IF NOT EXISTS {{}} ({columns})", name))

    def _sql(self, text: str, table: str) -> "Composed":
        sql = psycopg_package().sql
        composed: Composed = sql.SQL(text).format(identifier(self.schema, table))
        return composed


def digest(staged: Iterable[Staged]) -> str:
    """Return the digest that identifies the pieces of a commit."""
    content = msgspec.json.encode(sorted(staged, key=lambda piece: piece.path))
    return hashlib.blake2b(content, digest_size=16).hexdigest()
